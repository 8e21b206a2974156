"""One call from request to good answer: attempts, addresses, retries, hedges and the deadline.

The main flow is `Exchange.run`: attempt, look at the outcome, pause, again. Every attempt holds a
lease on its address; the leases are given back here however the call ends, also when its
generator is closed halfway, so the counts cannot leak.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from serving import router
from serving.client import edges, refusals, retry
from serving.client.settings import Session
from serving.client.steps import Flow, Opened, Outcome, Race, Raced, Send, Wait

_OK = 200
_SHORTEST_S = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request, whichever way and however often it is sent."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    idempotent: bool = True
    opens: bool = False
    """Whether a good answer is a stream."""
    hedged: bool = False
    """Whether a second attempt may run beside the first."""
    until_s: float
    """When it must be over, on the monotonic clock."""
    pinned: bool = True
    """Whether it makes a difference which version answers."""
    version: int | None = None
    """The version pinned for this call, where that is not the client's."""
    policy: retry.RetryPolicy | None = None
    """How this call is repeated, where not as the client says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchanged:
    """The good answer to a call, and the id it went by."""

    reply: retry.Reply
    request_id: str
    stream: Opened | None = None
    held: contextlib.ExitStack
    """What a stream still holds; close it at its end."""


class Exchange:
    """A call and the attempts made for it."""

    def __init__(self, session: Session, call: Call) -> None:
        self._session = session
        self._call = call
        self._content = json.dumps(call.body).encode() if call.body is not None else b""
        self._tried: list[str] = []
        self._attempts = 0
        self._counted = 0
        self._held = contextlib.ExitStack()
        self.request_id = uuid.UUID(int=session.chance.rng.getrandbits(128), version=4).hex
        own = call.version if call.version is not None else session.config.version
        self.version = own if call.pinned else None

    def run(self) -> Flow[Exchanged]:
        """Attempts until there is a good answer, no sense in trying again, or no time left."""
        if self._session.learn is not None:
            yield from self._session.learn(self._call.until_s, self.request_id)
        hedge_s = self._hedge_s()
        while True:
            outcome = yield from self._attempt(hedge_s)
            hedge_s = None  # a call is hedged once
            if isinstance(outcome, Opened):
                reply = retry.Reply(status=_OK, headers=outcome.headers, body=b"")
                return self._exchanged(reply, outcome)
            if isinstance(outcome, retry.Reply) and outcome.status == _OK:
                refusals.check_pin(outcome.headers, self.version, self.request_id)
                return self._exchanged(outcome, None)
            pause_s = self._pause_s(outcome)
            if pause_s is None:
                raise self._error(outcome)
            if pause_s > 0:
                yield Wait(delay_s=pause_s)

    def _exchanged(self, reply: retry.Reply, stream: Opened | None) -> Exchanged:
        return Exchanged(
            reply=reply, request_id=self.request_id, stream=stream, held=self._held.pop_all()
        )

    def _left_s(self) -> float:
        return self._call.until_s - self._session.now_s()

    def _hedge_s(self) -> float | None:
        hedging = self._session.hedging
        return hedging.call_begins() if hedging is not None and self._call.hedged else None

    def _attempt(self, hedge_s: float | None) -> Flow[Outcome]:
        """One attempt, or two side by side; teaches the addresses what came of them."""
        began_s = self._session.now_s()
        with contextlib.ExitStack() as held:
            lease, first = self._send(held)
            if hedge_s is None or hedge_s >= first.timeout_s:
                outcome = _one((yield first))
                self._ended(lease, outcome)
            else:
                outcome = yield from self._race(held, lease, first, hedge_s)
            if isinstance(outcome, Opened):
                self._held = held.pop_all()
        if self._session.hedging is not None and hedge_s is None and self._is_good(outcome):
            self._session.hedging.saw(self._session.now_s() - began_s)
        return outcome

    def _is_good(self, outcome: Outcome) -> bool:
        """Whether its time says how long such a call takes."""
        is_ok = isinstance(outcome, retry.Reply) and outcome.status == _OK
        return is_ok and self._call.hedged and self._attempts == 0

    def _race(
        self, held: contextlib.ExitStack, lease: edges.Lease, first: Send, after_s: float
    ) -> Flow[Outcome]:
        began_s = self._session.now_s()
        second: list[edges.Lease] = []

        def begin() -> Send | None:
            hedging = self._session.hedging
            if hedging is None or self._left_s() <= _SHORTEST_S or not hedging.take():
                return None
            own, send = self._send(held)
            second.append(own)
            return send

        raced = yield Race(first=first, after_s=after_s, second=begin)
        if not isinstance(raced, Raced):
            raise TypeError("the driver of a call must answer Race with Raced")
        if self._session.hedging is not None:
            self._session.hedging.saw(self._session.now_s() - began_s)
        if raced.first is not None:
            self._ended(lease, raced.first)
        elif second:  # overtaken: an address that hangs must not go unnoticed
            lease.give_back(edges.LATE)
        if raced.second is not None and second:
            self._ended(second[0], raced.second)
        return _better(raced)

    def _send(self, held: contextlib.ExitStack) -> tuple[edges.Lease, Send]:
        """An attempt at an address that this call has not tried, where there is one."""
        config, call = self._session.config, self._call
        lease = held.enter_context(self._session.edges.lease(self._tried))
        self._tried.append(lease.address)
        left_s = max(self._left_s(), _SHORTEST_S)
        attempt_s = min(config.timeout_s, left_s)
        return lease, Send(
            method=call.method,
            address=lease.address,
            path=call.path,
            # A stream may go on for longer than its first event may take.
            headers=self._headers(left_s if call.opens else attempt_s),
            content=self._content,
            timeout_s=attempt_s,
            opens=call.opens,
        )

    def _headers(self, allowed_s: float) -> dict[str, str]:
        config = self._session.config
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream" if self._call.opens else "application/json",
            "x-request-id": self.request_id,
            "x-request-timeout-ms": str(max(1, int(allowed_s * 1000))),
        }
        key = config.key_now()
        if key is not None:
            headers["authorization"] = f"Bearer {key}"
        if config.model is not None:
            headers["x-liftlock-model"] = config.model
        if self.version is not None:
            headers["x-liftlock-version-pin"] = str(self.version)
        return headers

    def _ended(self, lease: edges.Lease, outcome: Outcome) -> None:
        if isinstance(outcome, Opened):
            lease.answered()
            return  # it goes on
        lease.give_back(_said_of_address(outcome))
        hedging = self._session.hedging
        is_full = isinstance(outcome, retry.Reply) and outcome.status in (429, 503)
        if hedging is not None and is_full:
            hedging.full()

    def _pause_s(self, outcome: retry.Reply | retry.Failure) -> float | None:
        untried = self._session.edges.untried(self._tried)
        self._attempts += 1
        self._counted += not retry.moves_on(outcome, untried=untried)
        situation = retry.Situation(
            attempt=self._counted,
            idempotent=self._call.idempotent,
            remaining_s=self._left_s(),
            unix_s=self._session.chance.unix_s(),
            untried=untried,
        )
        policy = self._call.policy or self._session.config.policy
        return retry.pause_s(policy, outcome, situation, self._session.chance.rng)

    def _error(self, outcome: retry.Reply | retry.Failure) -> Exception:
        return refusals.error(
            outcome,
            refusals.Tried(
                addresses=tuple(dict.fromkeys(self._tried)),
                attempts=self._attempts,
                request_id=self.request_id,
                version=self.version,
                unix_s=self._session.chance.unix_s(),
            ),
            self._session.config,
        )


def _one(outcome: Outcome | Raced | None) -> Outcome:
    if outcome is None or isinstance(outcome, Raced):
        raise TypeError("the driver of a call must answer Send with what came of it")
    return outcome


def _better(raced: Raced) -> Outcome:
    """Of two outcomes the one to go on with: a good answer, a final one, any, or a failure."""
    found = [each for each in (raced.second, raced.first) if each is not None]
    if not found:
        raise TypeError("the driver of a call must wait for one attempt of a race")

    def worth(outcome: Outcome) -> int:
        if isinstance(outcome, retry.Failure | Opened):
            return 0
        return 3 if outcome.status == _OK else 2 if retry.settles(outcome) else 1

    return max(found, key=worth)


def _said_of_address(outcome: retry.Reply | retry.Failure) -> router.Outcome:
    if isinstance(outcome, retry.Reply) or outcome.kind is retry.FailureKind.UNREADABLE:
        return edges.ANSWERED
    late = outcome.kind is retry.FailureKind.TIMEOUT
    return edges.LATE if late else edges.UNREACHED
