"""`liftlock slo`: what it writes, what it shows, what it refuses."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from jobs.cli import main
from jobs.exits import Exit
from jobs.status import budget
from serving.edge import history
from serving.edge.admin import LatencyBucket
from serving.edge.history import History, Sample
from serving.edge.home import EdgeHome
from serving.edge.interval import Interval
from serving.slo import SLO, burn, prometheus

ROOT = Path(__file__).parents[2]
EXAMPLE = str(ROOT / "examples" / "promotion.yaml")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tmp_path / "home"


def run(home: Path, *args: str) -> Result:
    return CliRunner().invoke(main, ["--home", str(home), "slo", *args])


def counted(home: Path, seconds: float, requests: int, faults: int) -> None:
    """What an edge of this home counted until now."""
    now_s = time.monotonic()
    seen = Interval(
        seconds=seconds, requests=requests, faults=faults,
        latency=(LatencyBucket(le_ms=1000.0, count=requests),),
    )  # fmt: skip
    sample = Sample(from_s=now_s - seconds, to_s=now_s, counts={"grammar@v1": seen})
    edge = EdgeHome.of(home)
    edge.create()
    history.store(edge.counts, History(samples=(sample,)))


def test_what_the_edge_counted_is_shown_with_the_windows_that_are_not_known(home: Path) -> None:
    counted(home, 300.0, 40_000, 40)
    result = run(home, "status", "--config", EXAMPLE)
    assert result.exit_code == Exit.DONE
    assert "burns 10.0 x over 5 min (40 of 40,000 failed)" in result.output
    assert "(0 of 40,000 too slow)" in result.output
    lines = [line for line in result.output.splitlines() if " 3 d  " in line]
    assert all("the rest is not known" in line for line in lines)


def test_without_an_edge_nothing_is_known_and_nothing_is_zero(home: Path) -> None:
    found = json.loads(run(home, "status", "--config", EXAMPLE, "--json").output)
    assert (found["format"], found["source"]) == ("liftlock/slo/v1", "edge")
    for standing in found["budget"]:
        assert standing["budget_left"] is None
        assert {b["rate"] for b in standing["burns"]} == {None}


def test_a_prometheus_is_asked_where_one_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []

    def standings(url: str, model: str, slo: SLO) -> tuple[burn.Standing, ...]:
        asked.append((url, model))
        return tuple(
            burn.standing(slo, sli, [burn.Burn(window_s=300.0, rate=2.0)], budget_left=-0.5)
            for sli in burn.Sli
        )

    monkeypatch.setattr(prometheus, "standings", standings)
    result = run(home, "status", "--config", EXAMPLE, "--prometheus", "http://p:9090")
    assert asked == [("http://p:9090", "grammar")]
    assert "budget left -50 %" in result.output
    assert "burns 2.0 x over what was scraped of 5 min" in result.output


@pytest.mark.parametrize("url", ["ftp://p", "p:9090", "http://", "http://me:secret@p:9090"])
def test_an_address_that_cannot_be_is_refused(home: Path, url: str) -> None:
    result = run(home, "status", "--config", EXAMPLE, "--prometheus", url)
    assert result.exit_code == Exit.USAGE
    assert "Invalid value for '--prometheus'" in result.output
    assert "secret" not in result.output


def test_without_settings_and_record_it_is_said_what_to_give(home: Path) -> None:
    result = run(home, "status", "grammar")
    assert result.exit_code == Exit.FAULT
    assert "or give --config" in result.output


def test_rules_of_several_models_are_a_file_each(home: Path, tmp_path: Path) -> None:
    for model in ("grammar", "grammar-de"):
        (tmp_path / f"{model}.yaml").write_text(f"model: {model}\nslo: {{availability: 0.99}}\n")
    out = tmp_path / "out"
    configs = ("--config", "grammar.yaml", "--config", "grammar-de.yaml")
    result = run(home, "rules", *configs, "--out", str(out), "--runbooks", "https://w/r")
    assert result.exit_code == Exit.DONE
    names = [
        "liftlock-edge.rules.yml",
        "liftlock-grammar-de.rules.yml",
        "liftlock-grammar.rules.yml",
    ]
    assert sorted(p.name for p in out.iterdir()) == names
    assert sorted(result.output.split()) == [str(out / name) for name in names]
    assert "https://w/r/LiftlockEdgeDown.md" in (out / names[0]).read_text()
    groups: Any = yaml.safe_load((out / names[1]).read_text())["groups"]
    assert {r["labels"]["model"] for r in groups[0]["rules"] if "alert" in r} == {"grammar-de"}


def test_one_dashboard_is_printed_and_several_want_a_folder(home: Path, tmp_path: Path) -> None:
    assert json.loads(run(home, "dashboard").output)["uid"] == "liftlock-grammar"
    (tmp_path / "de.yaml").write_text("model: grammar-de\n")
    both = ("dashboard", "--config", EXAMPLE, "--config", "de.yaml")
    assert run(home, *both).exit_code == Exit.USAGE
    assert run(home, *both, "--out", "out").exit_code == Exit.DONE
    assert len(list((tmp_path / "out").iterdir())) == 2


def test_two_settings_files_of_one_model_are_refused(home: Path) -> None:
    result = run(home, "dashboard", "--config", EXAMPLE, "--config", EXAMPLE)
    assert result.exit_code == Exit.USAGE
    assert "of model grammar" in result.output


def standing(*burns: burn.Burn) -> burn.Standing:
    return burn.standing(SLO(), burn.Sli.AVAILABILITY, burns, budget_left=None)


def test_windows_of_nearly_the_same_span_are_told_once() -> None:
    burns = [
        burn.Burn(window_s=s, rate=1.0, seen_s=290.0, requests=10, bad=0) for s in burn.WINDOWS_S
    ]
    line = budget.as_line(standing(*burns))
    assert line is not None
    assert line.count("burns") == 1


def test_the_longest_window_that_was_seen_is_told_beside_the_shortest() -> None:
    burns = [
        burn.Burn(window_s=s, rate=1.0, seen_s=min(s, 3700.0), requests=10, bad=0)
        for s in burn.WINDOWS_S
    ]
    line = budget.as_line(standing(*burns))
    assert line is not None
    assert "over 5 min" in line
    assert "over 1 h" in line
    assert line.count("burns") == 2


def test_every_key_of_the_json_is_in_the_reference(home: Path) -> None:
    reference = (ROOT / "docs" / "reference.md").read_text()
    found = json.loads(run(home, "status", "--config", EXAMPLE, "--json").output)
    keys = {*found, *found["budget"][0], *found["budget"][0]["burns"][0], "factor", "severity"}
    assert [key for key in sorted(keys) if f"`{key}`" not in reference] == []
