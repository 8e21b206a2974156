"""What is to be judged, against what, on which suites, by which rules."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipelines.config import PromotionConfig
from pipelines.quantize import QuantizeResult
from registry.model import ModelVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A candidate, the champion in charge, and the settings that say how to judge."""

    candidate: ModelVersion
    champion: ModelVersion | None
    config: PromotionConfig
    config_folder: Path | None
    measured: QuantizeResult | None
    """What quantization did, for the report."""
    data_dir: Path | None = None
    """Folder of published data; None leaves suites of published data unavailable."""
    champion_outcomes_run: str | None = None
    """The run with the champion's outcomes under its own runtime, where it is the runtime that
    changed and not the checkpoint; None has the champion evaluated here."""

    @property
    def across_runtimes(self) -> bool:
        """Whether the two were answered with different software, settings or hardware."""
        return self.champion_outcomes_run is not None
