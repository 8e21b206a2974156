"""An event loop on a thread of its own, for what a sync client does side by side.

The thread begins with the first use and ends with `close`. Whoever waits in `run` and is
interrupted, by Ctrl-C or anything else, has its work cancelled and its end awaited first.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import AsyncGenerator, Coroutine, Generator
from typing import Any, Generic, TypeVar

from serving.client import transport
from serving.client.owner import Owner

T = TypeVar("T")

_CLEAN_UP_S = 5.0


class _Running(Generic[T]):
    """A coroutine on the loop, and its end for the thread that waits. Methods run on the loop."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self.done: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._work = work
        self._task: asyncio.Task[T] | None = None

    def begin(self, begun: set[asyncio.Task[Any]]) -> None:
        """Begins it, and lists it among those begun until its end."""
        self._task = asyncio.get_running_loop().create_task(self._work)
        begun.add(self._task)
        self._task.add_done_callback(begun.discard)
        self._task.add_done_callback(self._finish)

    def cancel(self) -> None:
        """Cancels it; `begin` was called before."""
        if self._task is not None:
            self._task.cancel()

    def _finish(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.done.cancel()
            self.done.set_running_or_notify_cancel()
        elif (exc := task.exception()) is not None:
            self.done.set_exception(exc)
        else:
            self.done.set_result(task.result())


class LoopThread:
    """Runs coroutines for threads that wait."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="serving-client", daemon=True)
        self._begun: set[asyncio.Task[Any]] = set()
        self._closed = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Begins the thread; once."""
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns or raises.

        Raises:
            RuntimeError: the thread was closed.
        """
        running = self.begin(work)
        try:
            return running.done.result()
        except concurrent.futures.CancelledError:
            raise RuntimeError(transport.CLOSED) from None
        except BaseException:
            if not running.done.done():
                self._loop.call_soon_threadsafe(running.cancel)
                concurrent.futures.wait([running.done], timeout=_CLEAN_UP_S)
            raise

    def begin(self, work: Coroutine[Any, Any, T]) -> _Running[T]:
        """Begins a coroutine, which `close` cancels.

        Raises:
            RuntimeError: the thread was closed, or is another process's.
        """
        running = _Running(work)
        try:
            self._owner.check()
            with self._lock:  # nothing may be begun once the loop has been told to end
                if self._closed:
                    raise RuntimeError("cannot make a call: this client was closed")
                self._loop.call_soon_threadsafe(running.begin, self._begun)
        except RuntimeError:
            work.close()
            raise
        return running

    def iterate(self, items: AsyncGenerator[T, None]) -> Generator[T, None, None]:
        """The items, one when it is asked for; closes the generator at the end."""
        last = object()

        async def following() -> T | object:
            return await anext(items, last)

        try:
            while (item := self.run(following())) is not last:
                yield item  # type: ignore[misc]
        finally:
            self._close_generator(items)

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Cancels what runs, does a last thing and ends the thread. To be called once."""
        with self._lock:
            self._closed = True
        self._loop.call_soon_threadsafe(lambda: self._loop.create_task(self._end(last)))
        if not self._is_own_thread():
            self._thread.join(_CLEAN_UP_S)

    def _serve(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    def _is_own_thread(self) -> bool:
        """Garbage is collected on any thread; this one cannot wait for itself."""
        return threading.get_ident() == self._thread.ident

    def _close_generator(self, items: AsyncGenerator[T, None]) -> None:
        with contextlib.suppress(RuntimeError):  # closed meanwhile, and the generator with it
            if self._is_own_thread():
                self._begun.add(self._loop.create_task(items.aclose()))
            else:
                self.run(items.aclose())

    async def _end(self, last: Coroutine[Any, Any, None]) -> None:
        try:
            # Only what was begun here: the tasks below are for their owners to cancel, who also
            # know which of them have not taken their first step.
            begun = set(self._begun)
            for task in begun:
                task.cancel()
            await asyncio.gather(*begun, return_exceptions=True)
            await self._loop.shutdown_asyncgens()
            await last
        finally:
            self._loop.stop()
