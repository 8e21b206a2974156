"""A real MLflow server that is killed, hangs or is started again in the middle of the work."""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from registry.errors import RecordUnavailable
from registry.journal import flush
from registry.ledger import Log
from registry.mlflow_store import connect
from registry.pending import Pending
from tests.registry.mlflow_story import Server, Story, contents, runs_of


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "server").mkdir()
    mine = Server(tmp_path / "server")
    mine.start()
    try:
        mine.wait()
        yield mine
    finally:
        mine.send(signal.SIGCONT)
        mine.kill()


@pytest.mark.slow
def test_server_killed_and_started_again_during_writes(
    own_server: Server, tmp_path: Path, wanted: list[Mapping[str, Any]]
) -> None:
    chance = random.Random(1)
    stories = [Story(own_server.uri, tmp_path) for _ in range(3)]
    kills: list[float] = []
    stop = threading.Event()

    def killer() -> None:
        while not stop.wait(chance.uniform(0.5, 4.0)):
            own_server.kill()
            kills.append(time.monotonic())
            stop.wait(chance.uniform(0.0, 3.0))
            own_server.start()
            own_server.wait()

    thread = threading.Thread(target=killer, name="killer")
    thread.start()
    rounds = 0
    try:
        while len(kills) < 4 or rounds < 2:
            rounds += 1
            for story in stories:
                story.tell(own_server.uri, pause_s=1.0)
    finally:
        stop.set()
        thread.join()
    own_server.wait()
    assert any("is away" in note for story in stories for note in story.notes)
    for story in stories:
        story.settled()
        assert_like(contents(own_server.uri, story.model, story.model_id), wanted, rounds)


def assert_like(
    found: list[Mapping[str, Any]], wanted: list[Mapping[str, Any]], rounds: int
) -> None:
    """So many promotions, each as it should be but for the times."""

    def timeless(run: Mapping[str, Any]) -> Any:
        rest = {k: v for k, v in run.items() if k not in ("times", "points")}
        return json.dumps({**rest, "points": [p[:2] for p in run["points"]]}, sort_keys=True)

    assert sorted(map(timeless, found[:-1])) == sorted(rounds * [timeless(w) for w in wanted[:-1]])
    assert len(found[-1]["model metrics"]) == rounds * len(wanted[-1]["model metrics"])


@pytest.mark.slow
def test_server_that_hangs_and_wakes_does_nothing_twice(
    own_server: Server,
    tmp_path: Path,
    wanted: list[Mapping[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Requests that were given up are still in its queue and are done when it wakes."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    for _ in range(4):
        story = Story(own_server.uri, tmp_path)
        own_server.send(signal.SIGSTOP)
        story.tell(own_server.uri)
        assert Pending(story.folder).waiting()
        own_server.send(signal.SIGCONT)
        flush(connect(own_server.uri, check=False), story.folder, story.notes.append)
        time.sleep(3.0)
        assert story.settled() == wanted


@pytest.mark.slow
def test_patience_outlasts_a_server_that_is_started_again(
    own_server: Server, tmp_path: Path
) -> None:
    story = Story(own_server.uri, tmp_path)
    record = story.record(own_server.uri, patience_s=120.0)
    own_server.kill()
    run = story.record(own_server.uri).evidence.open(story.model, "r", {}, None)
    with pytest.raises(RecordUnavailable, match="1 write of evidence is kept"):
        story.record(own_server.uri).ledger.read(story.model)
    threading.Timer(2.0, own_server.start).start()
    assert record.ledger.read(story.model) == Log()
    assert any("does not answer (" in note for note in story.notes)
    assert record.evidence.resolve(run) == runs_of(own_server.uri, story.model)[0].info.run_id
