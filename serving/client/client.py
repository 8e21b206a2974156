"""The client that waits: each method makes a call and returns when it is over.

Keeps connections open between calls; use it as a context manager, or close it.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Literal

from serving.client import batch, calls, transport, types
from serving.client.async_driver import AsyncDriver
from serving.client.base import Base
from serving.client.errors import ClientError
from serving.client.loop_thread import LoopThread
from serving.client.owner import Owner
from serving.client.settings import Wish
from serving.client.steps import Flow, T
from serving.client.streams import CompletionStream
from serving.client.sync_driver import SyncDriver


class _Beside:
    """What does things side by side for a client that waits: begun when needed, closed once."""

    def __init__(self, wiring: transport.Wiring, owner: Owner) -> None:
        self._wiring = wiring
        self._owner = owner
        self._lock = threading.Lock()
        self._running: tuple[LoopThread, AsyncDriver] | None = None
        self._closed = False

    def get(self) -> tuple[LoopThread, AsyncDriver]:
        """The thread and the driver that belongs to it."""
        self._owner.check()
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot make a call: this client was closed")
            if self._running is None:
                thread = LoopThread(self._owner)
                thread.start()
                self._running = thread, AsyncDriver(self._wiring, self._owner)
            return self._running

    def aside(self, flow: Flow[None]) -> None:
        """Runs a flow that nobody waits for; closing ends it."""
        thread, driver = self.get()
        thread.begin(driver.run(flow))

    def close(self) -> None:
        """Ends the thread and closes its connections."""
        with self._lock:
            running, self._running, self._closed = self._running, None, True
        if running is not None:
            thread, driver = running
            thread.close(driver.close())


def _close(owner: Owner, driver: SyncDriver, beside: _Beside) -> None:
    if owner.is_here():
        driver.close()
        beside.close()


class Client(Base):
    """A client that waits. Safe to share between threads.

    with Client("http://127.0.0.1:8000") as client:
        print(client.correct("She go to school every days."))
    """

    def _connect(self) -> None:
        self._driver = SyncDriver(self._wiring, self._owner)
        self._beside = _Beside(self._wiring, self._owner)
        # Also for a client that nobody closes: at the latest when the program ends.
        self._finalizer = weakref.finalize(self, _close, self._owner, self._driver, self._beside)

    def _aside(self) -> Callable[[Flow[None]], None]:
        return self._beside.aside

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; the client is of no use afterwards."""
        self._finalizer()

    def correct(
        self,
        text: str,
        *,
        language: str | None = None,
        offsets: Literal["utf16"] | None = None,
        version: int | None = None,
        deadline_s: float | None = None,
    ) -> types.Correction:
        """Correct a text. Raises a ClientError.

        language: what it is written in, as a hint, such as "en".
        offsets: "utf16" for edits in UTF-16 units, as editors and JavaScript count.
        version: the version that must answer, where it is not the client's.
        deadline_s: longest time in all, where it is not the client's.
        """
        options = calls.CorrectionOptions(language=language, offsets=offsets)
        wish = Wish(version=version, deadline_s=deadline_s)
        return self._run(calls.correct(self._session, text, options, wish))

    def correct_many(
        self,
        texts: Iterable[str],
        *,
        concurrency: int = 8,
        texts_per_request: int = 16,
        progress: Callable[[int, int], object] | None = None,
        raise_errors: bool = False,
        language: str | None = None,
        offsets: Literal["utf16"] | None = None,
        version: int | None = None,
        deadline_s: float | None = None,
    ) -> Generator[batch.Result, None, None]:
        """Correct many texts; yields, in their order, a Correction or a ClientError for each.

        Leaving the loop, an exception in it or Ctrl-C cancels what is on its way.

        concurrency: most requests at a time.
        texts_per_request: most texts in one request; fewer where they are long.
        progress: called with the texts done so far and all of them, as requests end.
        raise_errors: raise the first error instead of yielding it.
        deadline_s: longest time for one request, where it is not the client's; not for all.
        Others: see correct.
        """
        plan = batch.Plan(
            texts=batch.several(texts),
            options=calls.CorrectionOptions(language=language, offsets=offsets),
            wish=Wish(version=version, deadline_s=deadline_s),
            concurrency=concurrency,
            texts_per_request=texts_per_request,
        )
        return self._results(plan, progress, raise_errors=raise_errors)

    def complete(
        self,
        prompt: str,
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        stop: Sequence[str] | None = None,
        seed: int | None = None,
        version: int | None = None,
        deadline_s: float | None = None,
    ) -> types.Completion:
        """Complete a prompt; what is None is left to the endpoint. Raises a ClientError."""
        options = calls.completion_options(max_tokens, temperature, stop, seed)
        wish = Wish(version=version, deadline_s=deadline_s)
        return self._run(calls.complete(self._session, prompt, options, wish))

    def complete_stream(
        self,
        prompt: str,
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        stop: Sequence[str] | None = None,
        seed: int | None = None,
        version: int | None = None,
        deadline_s: float | None = None,
    ) -> CompletionStream:
        """Complete a prompt piece by piece; use it with `with`, or read it to its end.

        The call is made when the first piece is asked for; asking raises a ClientError. Here
        timeout_s bounds the time to the first piece and between pieces, deadline_s all of it.
        """
        options = calls.completion_options(max_tokens, temperature, stop, seed)
        return CompletionStream(
            self._opening(prompt, options, Wish(version=version, deadline_s=deadline_s)),
            self._driver,
        )

    def models(self) -> tuple[types.Model, ...]:
        """The models that answer there. Raises a ClientError."""
        return self._run(calls.models(self._session))

    def health(self) -> types.Health:
        """Whether a replica is well. Raises ConnectionFailed or DeadlineExceeded without answer."""
        return self._run(calls.health(self._session))

    def _run(self, flow: Flow[T]) -> T:
        if self._session.hedging is None:
            return self._driver.run(flow)
        thread, driver = self._beside.get()
        return thread.run(driver.run(flow))

    def _results(
        self,
        plan: batch.Plan,
        progress: Callable[[int, int], object] | None,
        *,
        raise_errors: bool,
    ) -> Generator[batch.Result, None, None]:
        thread, driver = self._beside.get()
        advances = thread.iterate(batch.run(self._session, plan, driver.run))
        with contextlib.closing(advances):
            for news in advances:
                if progress is not None:
                    progress(news.done, len(plan.texts))
                for result in news.results:
                    if raise_errors and isinstance(result, ClientError):
                        raise result
                    yield result
