"""After close, and at the end of a program that forgot it: no thread, no socket, no task."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from serving.client import AsyncClient, Client, ClientError, ConnectionFailed, Hedge, feed
from tests.serving.client import stand_in
from tests.serving.client.stand_in import CORRECTION, http
from tests.serving.client.test_streams import HEAD, token

ROOT = Path(__file__).resolve().parents[3]
EVENT_LOOPS = ("serving-client",)


async def answer(request: bytes, writer: asyncio.StreamWriter) -> None:
    """Streams without end, answers corrections, hangs on the text "slow" and is full of "busy"."""
    asked = stand_in.body(request)
    if "prompt" in asked:
        writer.write(HEAD + token("x"))
        await asyncio.sleep(60)
    elif asked.get("text") == "slow" or "slow" in asked.get("texts", ()):  # type: ignore[operator]
        await asyncio.sleep(60)
    elif asked.get("text") == "busy":
        writer.write(http(503, {}, "retry-after: 20\r\n"))
    elif "texts" in asked:
        texts: list[str] = asked["texts"]  # type: ignore[assignment]
        results = [{"corrected": t, "edits": [], "finish_reason": "stop"} for t in texts]
        writer.write(http(200, {"model": "m", "version": 1, "results": results}))
    else:
        writer.write(http(200, CORRECTION))


@pytest.fixture
def seen() -> Iterator[stand_in.Seen]:
    with stand_in.threaded(answer) as server:
        yield server


def to_server(seen: stand_in.Seen) -> list[object]:
    """This process's sockets that were connected to the server."""
    port = int(seen.url.rpartition(":")[2])
    return [c for c in psutil.Process().net_connections("tcp") if c.raddr and c.raddr[1] == port]


def files() -> int:
    return psutil.Process().num_fds()


def test_a_sync_client_leaves_no_thread_no_socket_and_no_file(seen: stand_in.Seen) -> None:
    gc.collect()
    threads, before = set(threading.enumerate()), files()
    for hedge in (None, Hedge(delay_s=0.005, budget=1.0)):
        with Client(seen.url, model="m", hedge=hedge, timeout_s=0.2, retries=0) as client:
            client.correct("a")
            with contextlib.suppress(ClientError):
                client.correct("slow")
            with client.complete_stream("p") as stream:
                next(stream)
            list(client.correct_many(["a", "b"]))
            many = client.correct_many(["a", "slow"], texts_per_request=1)
            next(many)
            many.close()
            assert to_server(seen) != []
        assert set(threading.enumerate()) == threads
        assert to_server(seen) == []
    asyncio.run(stand_in.until(lambda: seen.open == 0))
    assert files() <= before


async def test_an_async_client_leaves_no_task_no_socket_and_no_file(seen: stand_in.Seen) -> None:
    async with AsyncClient(seen.url) as client:
        await client.correct("a")
    gc.collect()
    threads, before = set(threading.enumerate()), files()
    for hedge in (None, Hedge(delay_s=0.005, budget=1.0)):
        async with AsyncClient(seen.url, model="m", hedge=hedge) as client:
            await client.correct("a")
            waiting = asyncio.ensure_future(client.correct("slow"))
            await asyncio.sleep(0.05)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            async with client.complete_stream("p") as stream:
                await anext(stream)
            many = client.correct_many(["a", "slow"], texts_per_request=1)
            await anext(many)
            await many.aclose()
        assert set(threading.enumerate()) == threads
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await stand_in.until(lambda: to_server(seen) == [] and seen.open == 0)
    assert files() <= before


def test_a_plain_sync_call_needs_no_thread(seen: stand_in.Seen) -> None:
    threads = set(threading.enumerate())
    with Client(seen.url, model="m") as client:
        client.correct("a")
        with client.complete_stream("p") as stream:
            next(stream)
        assert set(threading.enumerate()) == threads


CALLS: dict[str, Callable[[Client], object]] = {
    "correct": lambda client: client.correct("slow"),
    "stream": lambda client: client.complete_stream("p").result(),
    "many": lambda client: list(client.correct_many(["slow"] * 3)),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("hedge", [None, Hedge(delay_s=0.005)])
def test_closing_while_a_call_is_on_its_way_ends_it(
    seen: stand_in.Seen, hedge: Hedge | None, call: str
) -> None:
    client = Client(seen.url, model="m", hedge=hedge, timeout_s=30.0)
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            CALLS[call](client)
        except (ClientError, RuntimeError) as exc:
            raised.append(exc)

    calling = threading.Thread(target=wait)
    calling.start()
    asyncio.run(stand_in.until(lambda: bool(seen.requests)))
    time.sleep(0.05)  # until it waits for the answer
    client.close()
    calling.join(10)
    assert [type(each) for each in raised] in ([RuntimeError], [ConnectionFailed])
    assert to_server(seen) == []


@pytest.mark.parametrize("call", CALLS)
async def test_closing_an_async_client_while_a_call_is_on_its_way_ends_it(
    seen: stand_in.Seen, call: str
) -> None:
    client = AsyncClient(seen.url, model="m", timeout_s=30.0)

    async def wait() -> None:
        if call == "many":
            [each async for each in client.correct_many(["slow"] * 3)]
        else:
            await CALLS[call](client)  # type: ignore[arg-type,misc]

    calling = asyncio.ensure_future(wait())
    await stand_in.until(lambda: bool(seen.requests))
    await client.close()
    with pytest.raises((RuntimeError, ConnectionFailed)):
        await asyncio.wait_for(calling, 10)
    await stand_in.until(lambda: to_server(seen) == [])


def test_a_stream_that_another_thread_waits_for_is_closed_at_once(seen: stand_in.Seen) -> None:
    with Client(seen.url, model="m", timeout_s=30.0) as client:
        stream = client.complete_stream("p")
        next(stream)
        with ThreadPoolExecutor() as threads:
            waiting = threads.submit(next, stream)
            time.sleep(0.1)  # until it waits
            stream.close()
            with pytest.raises(ConnectionFailed, match="the stream broke after 1 pieces"):
                waiting.result(10)
        assert to_server(seen) == []


def test_a_stream_that_is_closed_before_its_first_piece_has_none(seen: stand_in.Seen) -> None:
    with Client(seen.url, model="m") as client:
        stream = client.complete_stream("p")
        stream._streamed.leave()  # as by another thread while this one opens it
        with pytest.raises(RuntimeError, match="closed before it began"):
            next(stream)
        assert to_server(seen) == []


@pytest.mark.parametrize("hedge", [None, Hedge()])
def test_closing_ends_a_pause_between_attempts(seen: stand_in.Seen, hedge: Hedge | None) -> None:
    client = Client(seen.url, hedge=hedge)
    closing = threading.Timer(0.2, client.close)
    closing.start()
    with pytest.raises(RuntimeError, match="closed while a call was on its way"):
        client.correct("busy")
    closing.join()


async def test_closing_an_async_client_ends_a_pause_between_attempts(seen: stand_in.Seen) -> None:
    client = AsyncClient(seen.url)
    calling = asyncio.ensure_future(client.correct("busy"))
    await stand_in.until(lambda: bool(seen.requests))
    await asyncio.sleep(0.1)  # until it was answered
    await client.close()
    with pytest.raises(RuntimeError, match="closed while a call was on its way"):
        await asyncio.wait_for(calling, 10)


async def test_a_closed_client_reads_no_list_of_edges(
    seen: stand_in.Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "REFRESH_S", 0.0)
    async with stand_in.watched(listed(seen.url)) as told:
        client = AsyncClient(discovery=told.url)
        await client.correct("a")
        await client.close()
        before = asyncio.all_tasks()
        with pytest.raises(RuntimeError, match="closed"):
            await client.correct("a")
        assert asyncio.all_tasks() <= before
        assert len(told.requests) == 1


@pytest.mark.parametrize("hedge", [None, Hedge()])
def test_a_closed_client_says_so_and_closing_twice_is_fine(
    seen: stand_in.Seen, hedge: Hedge | None
) -> None:
    client = Client(seen.url, hedge=hedge)
    client.correct("a")
    for _ in range(2):
        client.close()
    with pytest.raises(RuntimeError, match="closed"):
        client.correct("a")
    with pytest.raises(RuntimeError, match="closed"):
        list(client.correct_many(["a"]))


def test_a_forgotten_client_ends_with_its_last_reference(seen: stand_in.Seen) -> None:
    threads = set(threading.enumerate())
    client = Client(seen.url)
    list(client.correct_many(["a"]))
    del client
    gc.collect()
    assert set(threading.enumerate()) == threads
    asyncio.run(stand_in.until(lambda: seen.open == 0))


def listed(url: str) -> stand_in.Answer:
    """A feed of one edge."""

    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(http(200, {"epoch": 1, "edges": [{"url": url}]}))

    return answer


def test_a_client_that_learns_edges_has_a_thread_from_the_second_reading_to_its_end(
    seen: stand_in.Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = set(threading.enumerate())
    with stand_in.threaded(listed(seen.url)) as told:
        with_feed = set(threading.enumerate())
        client = Client(discovery=told.url)
        client.correct("a")
        client.correct("a")
        assert set(threading.enumerate()) == with_feed
        monkeypatch.setattr(feed, "REFRESH_S", 0.0)
        other = Client(discovery=told.url)
        other.correct("a")
        other.correct("a")
        assert len(set(threading.enumerate()) - with_feed) == 1
        asyncio.run(stand_in.until(lambda: len(told.requests) == 3))
        other.close()
        with pytest.raises(RuntimeError, match="closed"):
            other.correct("a")
        client.close()
        forgotten = Client(discovery=told.url)
        list(forgotten.correct_many(["a"] * 3, texts_per_request=1))
        del forgotten
        asyncio.run(stand_in.until(lambda: told.open == 0 and seen.open == 0))
    assert set(threading.enumerate()) == threads


async def test_closing_an_async_client_ends_the_reading_beside_its_calls(
    seen: stand_in.Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "REFRESH_S", 0.0)
    async with stand_in.watched(listed(seen.url)) as told:
        async with AsyncClient(discovery=told.url) as client:
            before = asyncio.all_tasks()
            await client.correct("a")
            await client.correct("a")
        await stand_in.until(lambda: asyncio.all_tasks() <= before)


FORGETS = """
import gc, sys
from serving.client import Client
client = Client(sys.argv[1], model="m")
client.correct("a")
stream = client.complete_stream("p")
next(stream)
del client
gc.collect()
del stream
gc.collect()
client = Client(sys.argv[1])
client.correct("a")
"""


def test_python_warns_of_nothing_that_a_forgotten_client_leaves(seen: stand_in.Seen) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", FORGETS, seen.url],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


PROGRAM = """
import sys
from serving.client import Client, Hedge
client = Client(sys.argv[1], model="m", hedge=Hedge(delay_s=0.01))
print(client.correct("a"), flush=True)
many = client.correct_many(["a", "slow"], texts_per_request=1)
next(many)
stream = client.complete_stream("p")
next(stream)
"""


def test_a_program_that_closes_nothing_ends_quietly(seen: stand_in.Seen) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", PROGRAM, seen.url],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "She goes to school every day.\n"
    asyncio.run(stand_in.until(lambda: seen.open == 0))


INTERRUPTED = """
import signal, sys, threading
from serving.client import Client, Hedge
# Who starts the tests in the background of a shell has it ignored, and so would their children.
signal.signal(signal.SIGINT, signal.default_int_handler)
hedge = Hedge(delay_s=0.01) if sys.argv[2] == "hedged" else None
with Client(sys.argv[1], model="m", hedge=hedge) as client:
    try:
        if sys.argv[2] == "batch":
            list(client.correct_many(["slow"]))
        elif sys.argv[2] == "stream":
            client.complete_stream("p").result()
        else:
            client.correct("slow")
    except KeyboardInterrupt:
        counts = [each.in_flight for each in client.stats().edges]
print(counts, threading.active_count())
"""


@pytest.mark.parametrize("way", ["plain", "hedged", "batch", "stream"])
def test_ctrl_c_cancels_the_call_and_gives_everything_back(seen: stand_in.Seen, way: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, seen.url, way],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        asyncio.run(stand_in.until(lambda: bool(seen.requests), timeout_s=30))
        time.sleep(0.05)
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out) == (0, "[0] 1\n"), err
    asyncio.run(stand_in.until(lambda: seen.open == 0 and seen.left >= 1))
