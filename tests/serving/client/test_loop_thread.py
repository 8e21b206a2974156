"""Coroutines run for a thread that waits, and end when it stops waiting."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Iterator

import pytest

from serving.client.loop_thread import LoopThread
from serving.client.owner import Owner


async def nothing() -> None:
    """The last thing to do."""


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    made = LoopThread(Owner())
    made.start()
    try:
        yield made
    finally:
        with contextlib.suppress(RuntimeError):
            made.close(nothing())


def test_results_and_errors_come_back(thread: LoopThread) -> None:
    async def double(number: int) -> int:
        await asyncio.sleep(0)
        if number < 0:
            raise KeyError(number)
        return 2 * number

    assert thread.run(double(4)) == 8
    with pytest.raises(KeyError):
        thread.run(double(-1))


def test_many_threads_may_wait(thread: LoopThread) -> None:
    async def same(number: int) -> int:
        await asyncio.sleep(0.001)
        return number

    found: list[int] = []
    waiting = [
        threading.Thread(target=lambda n=number: found.append(thread.run(same(n))))
        for number in range(20)
    ]
    for each in waiting:
        each.start()
    for each in waiting:
        each.join()
    assert sorted(found) == list(range(20))


def test_leaving_an_iteration_closes_the_generator(thread: LoopThread) -> None:
    closed = threading.Event()

    async def items() -> AsyncGenerator[int, None]:
        try:
            for number in range(10):
                yield number
        finally:
            closed.set()

    taken = thread.iterate(items())
    assert [next(taken), next(taken)] == [0, 1]
    taken.close()
    assert closed.is_set()
    assert list(thread.iterate(items())) == list(range(10))


def test_closing_cancels_what_runs_and_then_does_the_last_thing() -> None:
    made, order = LoopThread(Owner()), []
    made.start()
    begun = threading.Event()

    async def endless() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            order.append("cancelled")

    async def last() -> None:
        order.append("last")

    def wait() -> None:
        with pytest.raises(RuntimeError, match="closed"):
            made.run(endless())

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert begun.wait(5)
    made.close(last())
    waiting.join(5)
    assert order == ["cancelled", "last"]
    assert not waiting.is_alive()
    with pytest.raises(RuntimeError, match="closed"):
        made.run(nothing())
