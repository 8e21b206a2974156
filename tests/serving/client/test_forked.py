"""A forked process is not given its parent's connections, and does the parent's calls no harm."""

from __future__ import annotations

import asyncio
import copy
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from serving.client import AsyncClient, Client, Hedge
from tests.serving.client import stand_in
from tests.serving.client.test_nothing_left import answer

HEDGES = pytest.mark.parametrize("hedge", [None, Hedge(delay_s=5.0)], ids=["plain", "hedged"])


@pytest.fixture
def seen() -> Iterator[stand_in.Seen]:
    with stand_in.threaded(answer) as server:
        yield server


def in_child(part: Callable[[], object]) -> str:
    """What a forked process says of a part; ends it where it hangs."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(10)
        try:
            said = str(part())
        except RuntimeError as exc:
            said = f"{type(exc).__name__}: {exc}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    return said


@HEDGES
def test_a_client_that_was_used_before_a_fork_says_so_in_the_child(
    seen: stand_in.Seen, hedge: Hedge | None
) -> None:
    with Client(seen.url, model="m", hedge=hedge) as client:
        client.correct("a")
        many = client.correct_many(["a", "slow"], texts_per_request=1)
        next(many)
        with client.complete_stream("p") as stream:
            next(stream)
            asyncio.run(stand_in.until(lambda: len(seen.requests) == 4))
            parts: list[Callable[[], Any]] = [
                lambda: client.correct("a"),
                lambda: list(client.correct_many(["a"])),
                lambda: next(many),
                lambda: next(stream),
            ]
            for part in parts:
                assert "make a client in each process" in in_child(part)
            assert in_child(client.close) == "None"
            assert in_child(stream.close) == "None"
            assert seen.left == 0
        many.close()
        assert len(seen.requests) == 4
        assert client.correct("a").version == 1


def test_an_async_client_that_was_used_before_a_fork_says_so_in_the_child(
    seen: stand_in.Seen,
) -> None:
    async def correct(client: AsyncClient) -> int:
        return (await client.correct("a")).version

    async def close(client: AsyncClient) -> None:
        await client.close()

    with asyncio.Runner() as parent:
        client = AsyncClient(seen.url)
        assert parent.run(correct(client)) == 1

        def anew(part: Callable[[AsyncClient], Any]) -> object:
            return asyncio.run(part(client))

        assert "make a client in each process" in in_child(lambda: anew(correct))
        assert in_child(lambda: anew(close)) == "None"
        assert parent.run(correct(client)) == 1
        parent.run(client.close())


@HEDGES
def test_a_client_that_was_not_used_before_a_fork_serves_both(
    seen: stand_in.Seen, hedge: Hedge | None
) -> None:
    with Client(seen.url, hedge=hedge) as client:
        found = [in_child(lambda: client.correct("a").version) for _ in range(2)]
        assert [*found, client.correct("a").version] == ["1", "1", 1]
    ids = {stand_in.header(request, "x-request-id") for request in seen.requests}
    assert len(ids) == len(seen.requests) == 3


def test_a_child_makes_clients_of_its_own(seen: stand_in.Seen) -> None:
    def own() -> str:
        with Client(seen.url, hedge=Hedge(delay_s=0.01)) as client:
            return f"{client.correct('a').version} {threading.active_count()}"

    with Client(seen.url, hedge=Hedge(delay_s=0.01)) as client:
        client.correct("a")
        assert in_child(own) == "1 2"
        client.correct("a")


def test_a_child_that_ends_by_itself_ends_quietly(seen: stand_in.Seen) -> None:
    """What is done at the end of a program is not done to its parent's connections."""
    client = Client(seen.url, hedge=Hedge(delay_s=0.01))
    client.correct("a")
    assert in_child(client._finalizer) == "None"
    assert client.correct("a").version == 1
    client.close()


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("sent", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_client_is_neither_copied_nor_pickled(
    kind: type[Client] | type[AsyncClient], sent: Callable[[object], object]
) -> None:
    with pytest.raises(TypeError, match="neither copied nor sent to another process"):
        sent(kind("http://a"))
