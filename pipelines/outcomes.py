"""Outcomes of checkpoints on the suites of the settings: from the record, or from a worker.

Outcomes are found again by checkpoint, suites, engine settings and runtime, so the champion is
evaluated once per machine kind and software, not once per candidate.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from evals import estimates, rules, runtime, suite_definition
from evals import suite as suites
from evals.errors import SuiteUnavailable
from evals.evidence import Unavailable
from evals.outcome import Outcomes
from evals.request import Request
from evals.results import ResultsDir
from evals.suite import Suite
from pipelines import worker
from pipelines.config import PromotionConfig, suite_path
from pipelines.errors import StageFailed
from pipelines.place import Place
from pipelines.stage import Result, StageRun, Stages
from registry import cache
from registry.engine_settings import DeviceKind
from registry.errors import NotFound
from registry.model import ModelVersion, content_digest
from registry.prompt_file import MANIFEST_FILE

Found = dict[str, Outcomes]
"""By suite name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suites:
    """The suites of the settings, as far as their data is there."""

    loaded: tuple[Suite, ...]
    paths: tuple[Path, ...]
    """Their definitions, in the same order."""
    unavailable: Mapping[str, str]
    """Why others cannot be run, by name."""
    data_dir: Path | None
    """Folder of published data."""

    @property
    def absent(self) -> tuple[Unavailable, ...]:
        """Those that cannot be run, as a gate takes them."""
        return tuple(Unavailable(suite=n, reason=why) for n, why in self.unavailable.items())


def suites_of(config: PromotionConfig, folder: Path | None, data_dir: Path | None) -> Suites:
    """The suites that the settings name, loaded and verified.

    Args:
        config: the settings.
        folder: where relative suite paths are looked up.
        data_dir: folder of published data; None leaves suites of published data unavailable.

    Raises:
        ConfigInvalid: a suite is not known.
        SuiteInvalid: its definition or its data is malformed.
        PolicyInvalid: the gate policy speaks of other suites.
    """
    loaded, paths, unavailable = [], [], {}
    for name in config.suites:
        path = suite_path(name, relative_to=folder)
        try:
            loaded.append(suites.load(path, data_dir=data_dir))
            paths.append(path)
        except SuiteUnavailable as exc:
            unavailable[suite_definition.read(path).name] = str(exc)
    rules.check(config.gates, loaded, unavailable.keys())
    return Suites(
        loaded=tuple(loaded), paths=tuple(paths), unavailable=unavailable, data_dir=data_dir
    )


def evaluate_inputs(
    digest: str, chosen: Suites, config: PromotionConfig, *, again: bool = False
) -> dict[str, object]:
    """What shapes the outcomes of a checkpoint; `again` is for a second run of the same."""
    return {
        **({"run": 2} if again else {}),
        "checkpoint": digest,
        "suites": {s.name: s.digest for s in chosen.loaded},
        "runtime": runtime.runtime(config.resources.engine)["digest"],
        "threads": threads_of(config),
    }


def threads_of(config: PromotionConfig) -> int | None:
    """CPU threads of the engine, as many as a replica gets: evaluated as it will be served."""
    resources = config.resources
    on_cpu = resources.engine.device is DeviceKind.CPU
    return max(1, int(resources.cpus_per_replica)) if on_cpu else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The evaluate stage of one promotion."""

    config: PromotionConfig
    suites: Suites
    place: Place
    stages: Stages

    def of(self, version: ModelVersion, shown: str, *, again: bool = False) -> tuple[str, Found]:
        """The run and its outcomes, from the record or from a new evaluation.

        Args:
            version: what is evaluated.
            shown: the stage's name for people.
            again: a second run of the same, whose outcomes are kept beside the first's.

        Raises:
            EvalError, StageFailed: no outcomes could be produced.
        """
        inputs = evaluate_inputs(version.digest, self.suites, self.config, again=again)

        def body(run: StageRun) -> Result:
            run.params(version=version.version, checkpoint_digest=version.digest)
            made_with = runtime.runtime(self.config.resources.engine)
            run.text("runtime.json", json.dumps(made_with, indent=2))
            # Kept by its inputs: a promotion that was killed goes on inside a suite.
            name = content_digest({"model": self.config.model, **inputs})[7:23]
            with worker.resumable(self.place.work, f"evaluate-{name}") as out:
                found = self._run_harness(version, run, out)
            for suite_name, outcomes in found.items():
                run.text(f"outcomes/{suite_name}.json", outcomes.to_json())
            # A model's own page shows its first run; the second is only there to be compared.
            run.metrics(self._numbers(found), model_id=None if again else version.model_id)
            rates = [(n, o.rate) for n, o in found.items()]
            told = ", ".join(f"{n} {rate:.2%}" for n, rate in rates if rate is not None)
            return {"run": run.run_id, "summary": f"version {version.version}: {told}"}

        result = self.stages.run(
            "evaluate",
            inputs,
            body,
            still_valid=lambda r: readable(lambda: self.stored(str(r["run"]))),
            shown=shown,
        )
        run_id = str(result["run"])
        return run_id, self.stored(run_id)

    def stored(self, run_id: str) -> Found:
        """The outcomes that a run holds.

        Raises:
            RegistryError, ValueError: it does not hold those of every suite.
        """
        read = self.place.record.evidence.read
        return {
            s.name: Outcomes.from_json(read(run_id, f"outcomes/{s.name}.json"))
            for s in self.suites.loaded
        }

    def _numbers(self, found: Found) -> dict[str, float]:
        """Rates and metrics that exist; one that is missing is left out, never logged as zero."""
        numbers: dict[str, float | None] = {f"{n}/rate": o.rate for n, o in found.items()}
        for s in self.suites.loaded:
            for one in estimates.estimates(s, found[s.name]):
                numbers[f"{s.name}/{one.metric}"] = one.value
        return {name: value for name, value in numbers.items() if value is not None}

    def _run_harness(self, version: ModelVersion, run: StageRun, out: Path) -> Found:
        place = self.place
        folder = cache.fetch(place.record.versions, version, place.cache)
        request = Request(
            checkpoint_dir=folder,
            manifest=folder / MANIFEST_FILE,
            engine=self.config.resources.engine,
            suites=self.suites.paths,
            data_dir=self.suites.data_dir,
        )
        run.work("evals.harness", request.to_dict(), out, threads=threads_of(self.config))
        results = ResultsDir(path=out)
        run.text("harness.json", results.summary_path.read_text(encoding="utf-8"))
        gone = results.summary().get("unavailable", {})
        if gone:
            raise StageFailed(
                f"suites went away while they were evaluated: {'; '.join(gone.values())}"
            )
        return {s.name: results.read(s.name) for s in self.suites.loaded}


def readable(read: Callable[[], object]) -> bool:
    """Evidence whose artifacts are gone is no evidence; the stage is done again."""
    try:
        read()
    except (NotFound, ValueError):
        return False
    return True
