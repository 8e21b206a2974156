"""Evidence on a real MLflow whose requests and answers are lost: nothing is lost or there twice."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from registry.journal import flush
from registry.mlflow_store import connect
from registry.pending import Pending
from tests.fakes.proxy import Proxy
from tests.registry.mlflow_story import Story, runs_of


def test_story_holds_what_the_tests_look_for(wanted: list[Mapping[str, Any]]) -> None:
    names = [run["name"] for run in wanted[:-1]]
    assert names == ["promote", "quantize", "evaluate"]
    assert json.loads(wanted[1]["files"]["t.json"]) == {
        "columns": ["run", "b", "a"],
        "data": [["<quantize>", 1, True], ["<promote>", 2.5, None]],
    }
    assert len(wanted[1]["points"]) == 3
    assert len(wanted[-1]["model metrics"]) == 4


def test_away_from_the_start_and_entered_later(
    through: tuple[str, Proxy], tmp_path: Path, wanted: list[Mapping[str, Any]]
) -> None:
    address, proxy = through
    story = Story(proxy.upstream.geturl(), tmp_path)
    proxy.from_now(lambda n, method, path: "away")
    story.tell(address)
    assert runs_of(story.uri, story.model) == []
    assert story.settled() == wanted


@pytest.mark.slow
def test_every_answer_lost_while_entering_and_asked_again(
    through: tuple[str, Proxy], tmp_path: Path, wanted: list[Mapping[str, Any]]
) -> None:
    """Each command does one request more than the last before its answers are lost."""
    address, proxy = through
    story = Story(proxy.upstream.geturl(), tmp_path)
    proxy.from_now(lambda n, method, path: "away")
    story.tell(address)
    for good in itertools.count():
        proxy.from_now(lambda n, method, path, good=good: "fine" if n < good else "lost")
        flush(connect(address, check=False), story.folder, story.notes.append)
        if not Pending(story.folder).waiting():
            break
    assert good > 3
    assert story.settled() == wanted


@pytest.mark.slow
@pytest.mark.parametrize("how", ["away", "lost", 503])
def test_any_one_request_failing(
    through: tuple[str, Proxy], tmp_path: Path, wanted: list[Mapping[str, Any]], how: str | int
) -> None:
    address, proxy = through
    for at in itertools.count(0, 3):
        story = Story(proxy.upstream.geturl(), tmp_path)
        proxy.from_now(lambda n, method, path, at=at: how if n == at else "fine")
        before = len(proxy.requests)
        story.tell(address)
        used = len(proxy.requests) - before
        assert story.settled() == wanted, at
        if used <= at:
            break
    assert at > 20


def test_client_that_was_told_to_repeat_requests_leaves_one_run(
    through: tuple[str, Proxy], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its repetition makes a second run where only the answer to the first was lost."""
    address, proxy = through
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "0")
    story = Story(proxy.upstream.geturl(), tmp_path)
    lost = iter(["lost"])
    proxy.from_now(lambda n, method, path: next(lost, "fine") if "create" in path else "fine")
    run = story.record(address).evidence.open(story.model, "r", {}, None)
    assert [path for _, path in proxy.requests].count("/api/2.0/mlflow/runs/create") == 2
    assert [r.info.run_id for r in runs_of(story.uri, story.model)] == [run]
