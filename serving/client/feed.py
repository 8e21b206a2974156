"""The edges as discovery lists them: read before the first call, and beside later ones.

The one idea: only a client that knows no edge waits for the list. One that knows some reads it
anew beside a call, when it has become old, and keeps what it knows wherever the feed is away, says
nothing of use, or tells of an older epoch than it did before.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from serving import router
from serving.client import arguments, edges, errors, retry, transport
from serving.client.settings import Chance, Config
from serving.client.steps import Flow, Send, Wait

PATH = "/v1/edges"
REFRESH_S = 10.0
"""A list that is older is read anew; 20 % more or less, so that clients do not ask in step."""
_SPREAD = 0.2
_ANEW_S = 5.0
"""Longest time for reading it anew."""
_PAUSE_S = 0.01
"""Between two looks whether another call's first reading is over."""
_SHORTEST_S = 0.001
_OK = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What the feed says."""

    epoch: int | None
    """Of the traffic plan behind it: discovery that was left behind has an older one."""
    edges: tuple[router.Destination, ...]
    """By address; each once, at least one."""


def listing(body: bytes, *, secure: bool = False) -> Listing:
    """What a feed's answer says; entries without an address that can be asked are passed over.

    secure: the answer came over https: an edge that is asked over http is passed over too, since
    it would be sent the key in clear, and who trusts the feed's certificate trusts no such edge.

    Raises:
        ValueError: it is none, or lists no edge.
    """
    try:
        said = json.loads(body)
    except RecursionError as exc:
        raise ValueError("it is nested too deeply") from exc
    if not isinstance(said, dict) or not isinstance(said.get("edges"), list):
        raise ValueError(f'it is no object with a list "edges", it begins with {body[:80]!r}')
    epoch = said.get("epoch")
    if epoch is not None and type(epoch) is not int:
        raise ValueError(f"its epoch is no number: {epoch!r:.80}")
    named = [each for each in map(_destination, said["edges"]) if each is not None]
    found = {each.id: each for each in named if transport.is_secure(each.id) or not secure}
    if not found:
        raise ValueError(
            f"it lists {len(said['edges'])} edges, none of them with an address"
            + (" over https, as the list itself came" if secure else "")
        )
    return Listing(epoch=epoch, edges=tuple(found.values()))


def _destination(entry: object) -> router.Destination | None:
    if not isinstance(entry, dict):
        return None
    url: Any = entry.get("url")
    try:
        arguments.address("url", url)
    except ValueError:
        return None
    zone = entry.get("zone")
    return router.Destination(id=url.rstrip("/"), zone=zone if isinstance(zone, str) else None)


def is_older(epoch: int | None, known: int | None) -> bool:
    """Whether a list of `epoch` was made before one of `known`."""
    return known is not None and (epoch is None or epoch < known)


class Feed:
    """Keeps a client's edges up to date. Safe to share between threads."""

    def __init__(
        self,
        config: Config,
        chance: Chance,
        known: edges.Edges,
        aside: Callable[[Flow[None]], None],
    ) -> None:
        """`aside` runs a flow that nobody waits for."""
        self._config = config
        self._chance = chance
        self._edges = known
        self._aside = aside
        self._lock = threading.Lock()
        self._is_read = False
        """Whether somebody reads it now."""
        self._due_s = -math.inf
        self._epoch: int | None = None
        self._failures = 0
        self._told_s: float | None = None
        self.fault: str | None = None
        """Why the list could not be read the last time; None when it could."""

    def age_s(self) -> float | None:
        """Seconds since the list was read; None when it never was."""
        return self._chance.monotonic_s() - self._told_s if self._told_s is not None else None

    def ensure(self, until_s: float, request_id: str) -> Flow[None]:
        """What a call does before it chooses an edge; it must be over at `until_s`.

        Raises:
            ConnectionFailed: no edge is known and the feed names none.
        """
        if not self._edges.known():
            yield from self._first(until_s, request_id)
        elif self._begin():
            self._aside(self._anew())

    def _begin(self) -> bool:
        """Whether it is to be read now; then that is up to the caller, and to nobody else."""
        if self._is_read or self._chance.monotonic_s() < self._due_s:
            return False
        with self._lock:
            if self._is_read or self._chance.monotonic_s() < self._due_s:
                return False
            self._is_read = True
            return True

    def _end(self) -> None:
        spread = 1.0 + _SPREAD * (2.0 * self._chance.rng.random() - 1.0)
        next_s = self._chance.monotonic_s() + REFRESH_S * spread
        with self._lock:
            self._due_s = next_s if self._edges.known() else -math.inf
            self._is_read = False

    def _first(self, until_s: float, request_id: str) -> Flow[None]:
        """One of several calls reads, the others wait for what comes of it."""
        failures = self._failures
        while not self._edges.known():
            if self._begin():
                yield from self._read(until_s, self._config.policy)
            else:
                yield Wait(delay_s=_PAUSE_S)
            is_late = self._chance.monotonic_s() >= until_s
            if (self._failures > failures or is_late) and not self._edges.known():
                raise errors.ConnectionFailed(
                    f"no edge is known: reading {self._config.discovery}{PATH} came to nothing "
                    f"({self.fault or 'no answer in time'}). Is that the feed of "
                    "`python -m serving.discovery`, and is an edge connected to it?",
                    request_id=request_id,
                )

    def _anew(self) -> Flow[None]:
        until_s = self._chance.monotonic_s() + _ANEW_S
        yield from self._read(until_s, retry.RetryPolicy(retries=0))

    def _read(self, until_s: float, policy: retry.RetryPolicy) -> Flow[None]:
        """After `_begin`; afterwards there is a list, or a fault."""
        try:
            attempts, fault = 0, None
            while True:
                outcome = yield self._request(until_s)
                if not isinstance(outcome, retry.Reply | retry.Failure):
                    raise TypeError("the driver of a call must answer Send with what came of it")
                fault = self._take(outcome)
                attempts += 1
                situation = self._situation(attempts, until_s)
                pause_s = retry.pause_s(policy, outcome, situation, self._chance.rng)
                if pause_s is None:
                    break
                yield Wait(delay_s=pause_s)
            self.fault = fault
            self._failures += fault is not None
        finally:
            self._end()

    def _request(self, until_s: float) -> Send:
        left_s = max(until_s - self._chance.monotonic_s(), _SHORTEST_S)
        return Send(
            method="GET",
            address=self._config.discovery or "",
            path=PATH,
            headers={"accept": "application/json"},
            content=b"",
            timeout_s=min(self._config.timeout_s, left_s),
        )

    def _take(self, outcome: retry.Reply | retry.Failure) -> str | None:
        """Learns what came; why that is nothing, if so."""
        if isinstance(outcome, retry.Failure):
            return outcome.reason
        if outcome.status != _OK:
            return f"status {outcome.status}"
        try:
            found = listing(outcome.body, secure=transport.is_secure(self._config.discovery or ""))
        except ValueError as exc:
            return str(exc)
        if is_older(found.epoch, self._epoch):
            return f"its epoch is {found.epoch}, and {self._epoch} was seen before"
        self._epoch, self._told_s = found.epoch, self._chance.monotonic_s()
        self._edges.replace(found.edges)
        return None

    def _situation(self, attempts: int, until_s: float) -> retry.Situation:
        return retry.Situation(
            attempt=attempts,
            idempotent=True,
            remaining_s=until_s - self._chance.monotonic_s(),
            unix_s=self._chance.unix_s(),
        )
