"""Outcomes for a promotion: suites whose data is there or not, and what is logged of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from evals.errors import SuiteInvalid
from pipelines import config as configs
from pipelines import outcomes, plan
from pipelines.promotion import Ending
from registry.model import Tag
from tests.evals.build_published import definition, lay
from tests.fakes import world as worlds
from tests.fakes.record import MemoryEvidence
from tests.fakes.world import FAST, World

FILES = {"a.src": b"x\nfine\n", "a.ref": b"X\nfine\n"}
TINY = {"suites": ["suite.yaml", "tiny.yaml"], "gates": {"margin_points": 90.0}}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    definition(tmp_path, FILES)
    return worlds.make(tmp_path, monkeypatch)


def test_absent_data_makes_one_suite_unavailable_and_the_others_are_loaded(world: World) -> None:
    config = configs.parse({"suites": TINY["suites"]}, source="test")
    found = outcomes.suites_of(config, world.folder, world.folder / "data")
    assert [suite.name for suite in found.loaded] == ["small"]
    assert [path.name for path in found.paths] == ["suite.yaml"]
    assert "run `liftlock suites fetch`" in found.unavailable["tiny"]
    lay(world.folder / "data", FILES)
    found = outcomes.suites_of(config, world.folder, world.folder / "data")
    assert [suite.name for suite in found.loaded] == ["small", "tiny"]
    assert found.unavailable == {}


def test_malformed_data_is_an_error_and_not_absence(world: World) -> None:
    broken = {**FILES, "a.ref": b"X\n"}
    definition(world.folder, broken)
    lay(world.folder / "data", broken)
    config = configs.parse({"suites": ["tiny.yaml"]}, source="test")
    with pytest.raises(SuiteInvalid, match="references are missing"):
        outcomes.suites_of(config, world.folder, world.folder / "data")


def test_a_promotion_without_the_data_is_refused_and_says_so(world: World) -> None:
    made = world.promote(1, **TINY, **FAST)
    assert made.ending is Ending.REFUSED
    assert made.verdict is not None
    assert any("suite tiny is unavailable" in reason for reason in made.verdict.reasons)
    assert world.plane.shares == {}


def test_the_data_directory_reaches_the_worker(world: World) -> None:
    lay(world.folder / "data", FILES)
    more = {"data_dir": world.folder / "data"}
    floors = {"correction": 0.01, "clean": 0.01, "tag": 0.01}
    settings = {**TINY, "gates": {**TINY["gates"], "floors": floors}}  # type: ignore[dict-item]
    assert world.promote(1, more=more, **settings, **FAST).ending is Ending.PROMOTED


def test_metrics_are_logged_by_suite_and_name(world: World) -> None:
    world.promote(1, wrong=6, **FAST)
    evidence = world.record.evidence
    assert isinstance(evidence, MemoryEvidence)
    (run,) = [run for run in evidence.runs.values() if run.tags.get(Tag.STAGE) == "evaluate"]
    assert run.metrics == {"small/rate": 0.99, "small/exact": 0.99}


def test_a_plan_says_which_suites_are_unavailable(world: World) -> None:
    found = plan.plan_of(world.request(1, suites=TINY["suites"]), None)
    (step,) = [step for step in found.steps if step.stage == "evaluate"]
    assert step.what == "small (600), tiny (unavailable)"


def test_outcomes_are_worked_on_in_one_place_until_they_are_done(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Path] = []
    real = outcomes.Evaluation._run_harness

    def run(self: outcomes.Evaluation, version: object, stage: object, out: Path) -> object:
        seen.append(out)
        (out / f"answers-{len(seen)}").touch()
        if len(seen) == 1:
            raise KeyboardInterrupt
        assert len(list(out.glob("answers-*"))) == 2
        return real(self, version, stage, out)  # type: ignore[arg-type]

    monkeypatch.setattr(outcomes.Evaluation, "_run_harness", run)
    with pytest.raises(KeyboardInterrupt):
        world.promote(1, **FAST)
    world.promote(1, **FAST)
    assert seen[0] == seen[1]
    assert not seen[0].exists()
