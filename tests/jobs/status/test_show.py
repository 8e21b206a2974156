"""A status for people and for machines."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from jobs.status import show
from jobs.status.facts import Waiting
from jobs.status.ports import Kept
from registry.ledger import Kind, Log, Waiver
from registry.model import Tag
from tests.jobs.status import world as worlds
from tests.jobs.status.test_gather import at_work
from tests.jobs.status.world import World, attempt, config, entry, freeze, serving, version

ROOT = Path(__file__).resolve().parents[3]


def full() -> World:
    world = serving()
    at_work(world, actor="bob@host", candidate_version="3")
    world.versions = (version(2, 90, ready=2, draining=1), version(3, 10))
    world.config = config(replicas=2)
    world.counted_lately = worlds.counted((300.0, 40_000, 4))
    world.ended = [
        attempt(tags={Tag.ENDING: "refused"}, params={"verdict_reason": "2 of 12 gates failed"})
    ]
    world.frozen = freeze(actor="ana@host")
    world.pending = (Waiting(text="3 writes of evidence kept"),)
    return world


def test_everything_is_on_one_screen() -> None:
    text = show.as_text(full().look())
    lines = text.splitlines()
    assert len(lines) <= 24
    labels = [line.split()[0] for line in lines]
    assert labels[:6] == ["model", "champion", "why", "evidence", "previous", "edge"]
    for told in (
        "version 2 (000000000000) since 2026-11-29T17:00:00Z",
        "promote by ana@host: all 12 gates passed",
        "90 % on version 2, 2 of 2 ready replicas, 1 draining: 83.3 requests/s, p99 991 ms, "
        "faults 2.00 % (2 of 100 in 1.2 s)",
        "10 % on version 3, 1 of 2 ready replicas",
        "(promised: 1000 ms)",
        "availability 99.9 %: burns 0.1 x over 5 min (4 of 40,000 failed)",
        "latency 99 %: burns 0.0 x over 5 min (0 of 40,000 too slow)",
        "refused 2026-11-29T18:00:00Z",
        "2 of 12 gates failed",
        "by bob@host: stage evaluate since 2026-11-29T17:59:26Z (34 s)",
        "version 3 has 10 % of the traffic (steps: 10, 50, 100)",
        "process 4711 on host by bob@host to promote tiny, epoch 7: lives",
        "by ana@host since 2026-11-29T17:59:00Z: holidays",
        "3 writes of evidence kept",
    ):
        assert told in text


def test_no_traffic_is_said_and_no_number_is_made_up() -> None:
    world = serving()
    world.on_sleep = lambda: None
    text = show.as_text(world.look())
    assert "no traffic in the last 1.2 s" in text
    assert "p99" not in text
    assert "0.00 %" not in text


def test_a_version_that_gets_copies_is_shown_with_their_share() -> None:
    world = serving()
    watched = dataclasses.replace(version(3, 0), mirrored=0.125)
    world.versions = (*world.versions, watched)
    assert "0 % on version 3 and copies of 12.5 %, 1 ready replica" in show.as_text(world.look())
    edge = show.as_json(world.look())["edge"]
    assert [found["mirrored"] for found in edge["versions"]] == [0.0, 0.125]


def test_what_cannot_be_read_is_named_with_the_reason() -> None:
    world = serving()
    world.away = "MLflow at http://mlflow does not answer"
    text = show.as_text(world.look())
    assert "record    cannot be read: MLflow at http://mlflow does not answer" in text
    assert "champion" not in text
    assert "100 % on version 2" in text


def test_what_this_machine_last_knew_is_marked_as_such() -> None:
    world = serving()
    world.away = "MLflow does not answer"
    world.copy = Kept(log=Log(items=world.entries), config=None)
    text = show.as_text(world.look())
    assert "version 2 (000000000000) since 2026-11-29T17:00:00Z, as this machine last knew" in text
    assert "record    cannot be read: MLflow does not answer" in text


@pytest.mark.parametrize("expires", ["2026-11-28", "2026-11-29"])
def test_a_waiver_is_shown_and_a_problem_once_its_last_day_is_over(expires: str) -> None:
    world = serving()
    waiver = Waiver(by="Ann Bell", reason="known gap", expires=expires, gates=("clean/changed",))
    first = world.entries[0]
    world.entries = (first, entry(2, (first,), waiver=waiver))
    text = show.as_text(world.look())
    assert f"waiver    waived by Ann Bell until {expires} for clean/changed: known gap" in text
    assert ("problem   the waiver that the champion serves on expired" in text) == (
        expires < "2026-11-29"
    )


def test_going_back_to_a_waived_version_keeps_its_waiver_in_view() -> None:
    waiver = Waiver(by="Ann Bell", reason="known gap", expires="2026-12-24", gates=("g",))
    first = entry(1, waiver=waiver)
    second = entry(2, (first,))
    third = dataclasses.replace(entry(1, (first, second)), kind=Kind.ROLLBACK)
    assert Log(items=(first, second)).waiver is None
    assert Log(items=(first, second, third)).waiver == waiver
    again = entry(1, (first, second, third))
    assert Log(items=(first, second, third, again)).waiver is None


def test_nothing_promoted_and_no_edge() -> None:
    text = show.as_text(World(edge_runs=False).look())
    assert "champion  none yet; nothing was promoted" in text
    assert "edge      not running; `liftlock serve` brings the champion up" in text


def test_what_others_wrote_cannot_break_the_screen_or_steer_the_terminal() -> None:
    world = serving()
    world.frozen = freeze(reason="a\nproblem   made up\x1b[2J\u202e")
    lines = show.as_text(world.look()).splitlines()
    assert not any(line.startswith("problem") for line in lines)
    assert "\x1b" not in "".join(lines)
    assert "\u202e" not in "".join(lines)


def test_json_holds_what_was_measured_and_null_for_what_was_not() -> None:
    found = json.loads(json.dumps(show.as_json(full().look())))
    assert found["format"] == "liftlock/status/v1"
    assert found["champion"]["version"] == 2
    assert found["ledger_entries"] == 2
    assert found["now"]["fault_share"] == 0.02
    assert found["edge"]["versions"][1]["now"] is None
    assert found["edge"]["versions"][0]["ready"] == 2
    assert found["budget"][0]["burns"][0]["rate"] == pytest.approx(0.1)
    assert found["budget"][1]["sli"] == "latency"
    assert found["work"]["state"] == "running"
    assert found["owner"]["state"] == "lives"
    assert "record_error" not in found


def test_json_says_why_the_record_cannot_be_read() -> None:
    world = serving()
    world.away = "gone"
    found = show.as_json(world.look())
    assert (found["record_error"], found["record"], found["ledger_entries"]) == ("gone", None, None)


def test_every_key_of_the_json_is_in_the_reference() -> None:
    reference = (ROOT / "docs" / "reference.md").read_text()
    missing = [key for key in show.as_json(full().look()) if f"`{key}`" not in reference]
    assert missing == []


def test_one_line_changes_with_what_happens_and_not_with_numbers() -> None:
    world = serving()
    observer = world.observer()
    first = observer.look()
    world.on_sleep()
    world.time_s += 2.0
    second = observer.look()
    assert show.as_line(first) != show.as_line(second)
    assert show.as_line(first, numbers=False) == show.as_line(second, numbers=False)
    world.frozen = freeze()
    assert "frozen by bob@host: holidays" in show.as_line(observer.look(), numbers=False)
    assert "\n" not in show.as_line(full().look())
