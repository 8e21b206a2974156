"""What status reads from a real edge and from a tracking server that is in a bad way."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from jobs.settings import Settings
from jobs.status import live
from jobs.status.gather import INTERVAL_S, Opener
from jobs.status.reading import Reader, Unread
from pipelines import local, ownership
from registry.errors import JournalBroken
from registry.local_copy import LocalRollback
from registry.pending import Pending
from serving.discovery import traffic
from serving.edge import control, interval
from tests.serving.edge import harness, upstream
from tests.serving.edge.conftest import run_edge  # noqa: F401  the fixture


async def test_latency_and_faults_of_an_interval_are_those_of_its_requests(
    run_edge: harness.RunEdge,  # noqa: F811
) -> None:
    async with run_edge() as edge, upstream.Upstream(1) as replica:
        control.set_model_traffic(edge.root, traffic.whole("grammar", 1), epoch=1)
        await edge.serve(replica)
        port = live.LiveEdge(edge.root)
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            replica.delay_s = 0.0
            for _ in range(20):
                await client.post(edge.url)
            await asyncio.sleep(INTERVAL_S)
            first = await asyncio.to_thread(port.counts, "grammar")
            replica.delay_s = 0.12
            for _ in range(6):
                await client.post(edge.url)
            replica.status = 500
            await client.post(edge.url)
            await asyncio.sleep(INTERVAL_S)
            second = await asyncio.to_thread(port.counts, "grammar")
    assert first is not None
    assert second is not None
    seen = interval.between(first[1], second[1], seconds=2.0)
    assert (seen.requests, seen.faults) == (7, 1)
    median_ms = seen.latency_ms(0.5)
    assert median_ms is not None
    assert 100 < median_ms < 1000  # the quick twenty before are not in it
    assert port.models() == ("grammar",)


def test_without_an_edge_there_is_nothing_to_read(tmp_path: Path) -> None:
    port = live.LiveEdge(tmp_path)
    assert port.status() is None
    assert port.counts("grammar") is None
    assert port.counted("grammar") is None
    assert port.models() == ()


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that takes connections and never says a word, as a stopped process does."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_silent_tracking_server_is_given_up_within_two_seconds(silent: str, tmp_path: Path) -> None:
    records = live.LiveRecords(Settings(home=tmp_path, tracking_uri=silent))
    began_s = time.monotonic()
    found = Opener(records, reader=Reader()).open()
    assert time.monotonic() - began_s < 2.5
    assert isinstance(found, Unread)


def test_absent_tracking_server_is_said_at_once(tmp_path: Path) -> None:
    records = live.LiveRecords(Settings(home=tmp_path, tracking_uri="http://127.0.0.1:9"))
    began_s = time.monotonic()
    found = Opener(records, reader=Reader()).open()
    assert isinstance(found, Unread)
    assert "http://127.0.0.1:9 does not answer" in found.reason
    assert time.monotonic() - began_s < 1.5


def test_journal_tells_what_waits_and_what_was_refused_and_mends_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "grammar"
    pending = Pending(folder)
    port = live.LiveJournal(tmp_path)
    assert port.waiting("grammar") == ()
    assert port.kept("grammar") is None
    for at_ms in (1_795_975_200_000, 1_795_975_260_000):
        pending.add({"op": "label", "run": "r", "at_ms": at_ms, "tags": {}})
    pending.set_aside({"op": "log", "run": "r", "at_ms": 1}, "too long")
    local.copy_in(folder).rollbacks.add(
        LocalRollback(
            version=1, digest="sha256:1", actor="ana@host", reason="incident", epoch=9,
            at="2026-11-29T18:00:00Z", ledger_seen_hash="",
        )
    )  # fmt: skip
    back, left, refused = port.waiting("grammar")
    assert (back.version, back.is_refused) == (1, False)
    assert back.text == "rollback to version 1 by ana@host at 2026-11-29T18:00:00Z: incident"
    assert left.text.startswith("2 writes of evidence kept since 2026-11-29T18:00:00Z in ")
    assert (refused.is_refused, "aside.jsonl" in refused.text) == (True, True)
    assert port.models() == ("grammar",)
    pending.mark_first()
    assert port.waiting("grammar")[1].text.startswith("1 write of evidence kept")
    (folder / "journal.jsonl").write_text("nonsense\n")
    before = sorted(p.name for p in folder.iterdir())
    with pytest.raises(JournalBroken):
        port.waiting("grammar")
    assert sorted(p.name for p in folder.iterdir()) == before


def test_a_process_lives_is_gone_or_is_not_known_from_here() -> None:
    mine = ownership.this_process()
    assert live.process_lives(mine) is True
    host, boot, pid, started = mine.split("/")
    assert live.process_lives(f"{host}/{boot}/{pid}/{float(started) + 100:.2f}") is False
    assert live.process_lives(f"elsewhere/{boot}/{pid}/{started}") is None
