"""What a gate says reaches the promotion: absent suites, the policy, the report, lost skills."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from evals.errors import SuiteUnavailable
from pipelines.promotion import Ending
from tests.fakes import world as worlds
from tests.fakes.world import FAST, World, write_rows


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return worlds.make(tmp_path, monkeypatch)


ABSENT = {"suites": ["suite.yaml", "gone.yaml"]}


def write_absent_suite(folder: Path) -> None:
    definition = yaml.safe_load((folder / "suite.yaml").read_text())
    definition |= {"name": "gone", "data": "gone.jsonl"}
    (folder / "gone.yaml").write_text(yaml.safe_dump(definition))


def test_required_suite_without_its_data_refuses_and_says_so(world: World) -> None:
    write_absent_suite(world.folder)
    done = world.promote(1, **ABSENT, **FAST)
    assert done.ending is Ending.REFUSED
    assert done.verdict is not None
    (reason,) = done.verdict.reasons
    assert reason.startswith("gone: not run, and what was not run is no evidence")
    assert world.plane.events == []


def test_optional_suite_without_its_data_is_only_told(world: World) -> None:
    write_absent_suite(world.folder)
    done = world.promote(1, **ABSENT, gates={"optional_suites": ["gone"]}, **FAST)
    assert done.ending is Ending.PROMOTED
    assert done.verdict is not None
    assert done.verdict.skipped[0].startswith("gone: not available, and not required")


def test_without_any_suite_nothing_is_judged(world: World) -> None:
    (world.folder / "suite.jsonl").unlink()
    with pytest.raises(SuiteUnavailable, match="suite"):
        world.promote(1, **FAST)


def test_policy_is_stored_with_its_verdict(world: World) -> None:
    done = world.promote(1, gates={"margin_points": 1.5}, **FAST)
    assert done.verdict is not None
    assert done.verdict.policy is not None
    assert done.verdict.policy["margin_points"] == 1.5


def test_report_says_what_changed_and_how_to_do_it_again(world: World) -> None:
    world.promote(1, **FAST)
    done = world.promote(2, **FAST)
    page = world.record.evidence.read(done.run_id, "report.html")
    changed = page[page.index("What changed") : page.index("What was compared")]
    for what in ("weights", "prompt", "generation settings", "runtime"):
        assert f"<td>{what}</td>" in changed
    assert "liftlock promote CHECKPOINT --model grammar --config promotion.yaml" in page
    assert done.version.digest in page[page.index("How to reproduce") :]


def test_equal_model_passes_and_one_lost_skill_is_refused_by_name(world: World) -> None:
    rows = [
        {"id": f"e{n}", "source": f"a {n}", "references": [f"b {n}"], "tags": [tag]}
        for n, tag in enumerate(["verb_form"] * 60 + ["spelling"] * 540)
    ]
    write_rows(world.folder, rows)
    gates = {"margin_points": 15.0, "tag_margin_points": 15.0}
    world.promote(1, gates=gates, **FAST)
    assert world.promote(2, gates=gates, **FAST).ending is Ending.PROMOTED
    done = world.promote(3, wrong=60, gates=gates, **FAST)
    assert done.ending is Ending.REFUSED
    assert done.verdict is not None
    failed = [r.name for r in done.verdict.results if str(r.status) == "fail"]
    assert failed == ["small/verb_form"]
