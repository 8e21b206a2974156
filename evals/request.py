"""What an evaluation worker is asked to do, as a file that its parent writes and it reads."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import pydantic

from evals import errors
from registry.engine_settings import EngineSettings


class Baseline(StrEnum):
    """What is evaluated without any weights."""

    SOURCE_COPY = "source-copy"  # every sentence is left as it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to evaluate, and the suites to run on it.

    A checkpoint: `checkpoint_dir` and `manifest`, on an engine of `engine`. An endpoint: `endpoint`
    and `manifest`, whose prompt and generation settings it is asked with, and, for suites that
    compare probabilities, `checkpoint_dir` for its tokenizer. Or a `baseline`.

    `manifest` is the path of a stored manifest, `suites` are paths of suite definitions. Relative
    paths are relative to the worker's working directory.
    """

    suites: tuple[Path, ...]
    data_dir: Path | None = None
    """Folder of published data; None leaves suites of published data unavailable."""
    checkpoint_dir: Path | None = None
    manifest: Path | None = None
    engine: EngineSettings = field(default_factory=EngineSettings)
    endpoint: str | None = None
    """Address of a running endpoint."""
    served_model: str | None = None
    """Which of the endpoint's models; None where it serves one."""
    baseline: Baseline | None = None

    def __post_init__(self) -> None:
        if self.baseline is not None:
            if self.endpoint or self.manifest or self.checkpoint_dir:
                raise ValueError("baseline: it needs neither a checkpoint nor an endpoint")
        elif self.manifest is None:
            raise ValueError("manifest: Field required, it holds the prompt to ask with")
        elif self.endpoint is None and self.checkpoint_dir is None:
            raise ValueError("checkpoint_dir: Field required, where there is no endpoint")

    def to_dict(self) -> dict[str, Any]:
        """Plain data, without what is not set."""
        paths = {"data_dir": self.data_dir, "checkpoint_dir": self.checkpoint_dir,
                 "manifest": self.manifest}  # fmt: skip
        return {
            "suites": [str(path) for path in self.suites],
            "engine": self.engine.to_dict(),
            **{name: str(path) for name, path in paths.items() if path is not None},
            **({"endpoint": self.endpoint} if self.endpoint is not None else {}),
            **({"served_model": self.served_model} if self.served_model is not None else {}),
            **({"baseline": str(self.baseline)} if self.baseline is not None else {}),
        }

    def to_json(self) -> str:
        """The file's text."""
        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_json(cls, text: str) -> Request:
        """Reads a request; unknown keys are errors, absent engine settings take their defaults.

        Raises:
            EvaluationFailed: the text is not a request; the message names the faults.
        """
        try:
            raw = json.loads(text)
            _refuse_unknown("request", raw, cls)
            _refuse_unknown("request engine", raw.get("engine", {}), EngineSettings)
            return pydantic.TypeAdapter(cls).validate_python({"engine": {}, **raw})
        except (ValueError, AttributeError) as exc:
            raise errors.EvaluationFailed(f"cannot read the evaluation request: {exc}") from exc


def _refuse_unknown(what: str, raw: dict[str, Any], kind: Any) -> None:
    unknown = sorted(raw.keys() - set(kind.__dataclass_fields__))
    if unknown:
        raise ValueError(f"{what} has unknown keys {', '.join(unknown)}")
