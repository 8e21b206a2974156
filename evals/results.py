"""The directory a worker leaves: for each suite `answers-….jsonl` and `outcomes-….json`, and one
`harness.json`.

Outcomes appear whole or not at all, so what is there can be trusted, and a run that was stopped
goes on with the suites that are not; inside a suite it goes on with the answers that are not.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals import estimates
from evals.outcome import Outcomes
from evals.suite import Suite


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """Outcomes of one suite and what they cost; tokens and seconds are 0 when they were kept."""

    suite: Suite
    outcomes: Outcomes
    was_kept: bool
    wall_s: float
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsDir:
    """A results directory; made when the first file is written."""

    path: Path

    def outcomes_path(self, suite_name: str) -> Path:
        """Where the outcomes of a suite are."""
        return self.path / f"outcomes-{suite_name}.json"

    def answers_path(self, suite_name: str) -> Path:
        """Where the raw answers of a suite are, as they came."""
        return self.path / f"answers-{suite_name}.jsonl"

    @property
    def summary_path(self) -> Path:
        """Where the summary is."""
        return self.path / "harness.json"

    def read(self, suite_name: str) -> Outcomes:
        """The outcomes of a suite.

        Raises:
            FileNotFoundError: the suite has not been evaluated.
            ValueError: the file is not an outcomes document.
        """
        return Outcomes.from_json(self.outcomes_path(suite_name).read_text(encoding="utf-8"))

    def summary(self) -> dict[str, Any]:
        """`harness.json` of the last run that came to its end.

        Raises:
            FileNotFoundError: none has.
            ValueError: the file is not such a document.
        """
        found: dict[str, Any] = json.loads(self.summary_path.read_text(encoding="utf-8"))
        return found

    def kept(self, chosen: Suite, checkpoint_digest: str, runtime_digest: str) -> Evaluated | None:
        """Outcomes made before, if they are of the same suite, checkpoint and runtime."""
        try:
            found = self.read(chosen.name)
        except (FileNotFoundError, ValueError):  # a file that cannot be read is made again
            return None
        wanted = (chosen.digest, checkpoint_digest, runtime_digest)
        if (found.suite_digest, found.checkpoint_digest, found.runtime_digest) != wanted:
            return None
        return Evaluated(
            suite=chosen, outcomes=found, was_kept=True, wall_s=0.0, prompt_tokens=0,
            output_tokens=0,
        )  # fmt: skip

    def write(self, evaluated: Evaluated) -> None:
        """Writes the outcomes of one suite."""
        outcomes = evaluated.outcomes
        self._write(self.outcomes_path(outcomes.suite), outcomes.to_json())

    def write_summary(
        self,
        runtime: Mapping[str, Any],
        evaluated: Sequence[Evaluated],
        unavailable: Mapping[str, str],
        wall_s: float,
    ) -> None:
        """Writes `harness.json`: runtime, seconds, for each suite its metrics and its cost, and
        why suites could not be run."""
        content = {
            "runtime": runtime,
            "wall_s": round(wall_s, 3),
            "suites": {item.outcomes.suite: _summary(item) for item in evaluated},
            "unavailable": unavailable,
        }
        self._write(self.summary_path, json.dumps(content, indent=2))

    def _write(self, path: Path, text: str) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.partial")
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, path)


def _summary(evaluated: Evaluated) -> dict[str, Any]:
    suite, outcomes = evaluated.suite, evaluated.outcomes
    found = estimates.estimates(suite, outcomes)
    return {
        "language": suite.language,
        "kind": str(suite.kind),
        "digest": suite.digest,
        "examples": len(outcomes.outcomes),
        "rate": outcomes.rate,
        "missing": outcomes.missing,
        "metrics": [dataclasses.asdict(estimate) for estimate in found],
        "was_kept": evaluated.was_kept,
        "wall_s": round(evaluated.wall_s, 3),
        "prompt_tokens": evaluated.prompt_tokens,
        "output_tokens": evaluated.output_tokens,
    }
