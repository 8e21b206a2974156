"""Moves bytes and time for calls in the calling thread, one step after the other."""

from __future__ import annotations

import contextlib
import threading

import httpx

from serving.client import limits, size, sse, transport
from serving.client.owner import Owner
from serving.client.steps import Flow, Opened, Outcome, Race, Send, T


class SyncDriver:
    """Runs calls over httpx. Safe to share between threads. Does not race: see LoopThread."""

    def __init__(self, wiring: transport.Wiring, owner: Owner) -> None:
        self.owner = owner
        self._http = httpx.Client(**wiring.settings(http2=False))
        limits.hold(self._http)
        self._closed = threading.Event()

    def close(self) -> None:
        """Closes every connection, and ends pauses between attempts."""
        self._closed.set()
        self._http.close()

    def run(self, flow: Flow[T]) -> T:
        """A call's result; what the call holds is given back, also when this is interrupted."""
        self.owner.check()
        outcome: Outcome | None = None
        try:
            while True:
                try:
                    step = flow.send(outcome)
                except StopIteration as done:
                    result: T = done.value
                    return result
                match step:
                    case Send():
                        outcome = self._open(step) if step.opens else self._send(step)
                    case Race():
                        raise TypeError("a call in one thread cannot be raced")
                    case _:
                        if self._closed.wait(step.delay_s):
                            raise RuntimeError(transport.CLOSED)
                        outcome = None
        finally:
            flow.close()

    def _send(self, step: Send) -> Outcome:
        try:
            with (
                limits.within(step.timeout_s),
                contextlib.closing(_sent(step, self._http)) as found,
            ):
                return _read(found)
        except httpx.RequestError as exc:
            return transport.failure(exc)

    def _open(self, step: Send) -> Outcome:
        try:
            with limits.within(step.timeout_s), contextlib.ExitStack() as held:
                response = held.enter_context(contextlib.closing(_sent(step, self._http)))
                found = self._first_event(response)
                if isinstance(found, Opened):
                    held.pop_all()
                return found
        except httpx.RequestError as exc:
            return transport.failure(exc)

    def _first_event(self, response: httpx.Response) -> Outcome:
        if response.status_code != httpx.codes.OK:
            return _read(response)
        transport.check_stream(response)
        parser, chunks = sse.Parser(), response.iter_bytes()
        for chunk in chunks:
            events = parser.feed(chunk)
            if events:
                return Opened(
                    headers=transport.headers(response),
                    events=events,
                    parser=parser,
                    response=response,
                    chunks=chunks,
                )
        return transport.no_event()


def _sent(step: Send, http: httpx.Client) -> httpx.Response:
    """What answers, its body still to come."""
    return http.send(transport.request(http, step), stream=True)


def _read(response: httpx.Response) -> Outcome:
    body = bytearray()
    for piece in response.iter_bytes():
        body += piece
        size.check(len(body))
    return transport.reply(response, bytes(body))
