"""What an evaluation worker is asked to do, as a file that its parent writes and it reads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pydantic

from evals import errors
from registry.engine_settings import EngineSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One checkpoint and the suites to run on it.

    `manifest` is the path of the stored manifest, `suites` are paths of suite definitions.
    Relative paths are relative to the worker's working directory.
    """

    checkpoint_dir: Path
    manifest: Path
    engine: EngineSettings
    suites: tuple[Path, ...]

    def to_json(self) -> str:
        """The file's text."""
        content = {
            "checkpoint_dir": str(self.checkpoint_dir),
            "manifest": str(self.manifest),
            "engine": self.engine.to_dict(),
            "suites": [str(path) for path in self.suites],
        }
        return json.dumps(content, indent=2)

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
