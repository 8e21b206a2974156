"""Which of several addresses to ask: the one with fewer requests of ours of two drawn at random.

Power of two choices (Mitzenmacher, "The power of two choices in randomized load balancing", 2001)
on the client's own in-flight counts. Choosing counts, and the lease that is handed back gives the
count back, once, however the request ends. An address whose connections fail is avoided for a
while that doubles and is bounded; when every address is, all are candidates again, so avoiding
never takes the last one. No I/O: state, clock and chance are explicit.

`pick(endpoints, rng, now_s) -> Lease` has the shape of a general picker and can be replaced by one.
"""

from __future__ import annotations

import enum
import random
import threading
from collections.abc import Sequence
from types import TracebackType

_FIRST_S, _LONGEST_S = 1.0, 15.0
_LATE_IN_A_ROW = 3
"""One late answer is a long text, several in a row are an address that hangs."""


class Ending(enum.Enum):
    """What a request says about the address it went to."""

    ANSWERED = "answered"
    """Somebody is there, whatever the answer."""
    UNREACHED = "unreached"
    """No connection, or it broke."""
    LATE = "late"
    """No answer in time."""
    LEFT = "left"
    """Cancelled or not begun: it says nothing."""


class Endpoint:
    """One address and what this client knows about it. Safe to share between threads."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.in_flight = 0
        self.avoided_until_s = float("-inf")
        self._failures = 0
        self._late = 0
        self._lock = threading.Lock()

    def begin(self) -> Lease:
        """Counts a request; the lease gives the count back."""
        with self._lock:
            self.in_flight += 1
        return Lease(self)

    def end(self) -> None:
        """Takes the count back; for leases only."""
        with self._lock:
            self.in_flight -= 1

    def learn(self, ending: Ending, now_s: float) -> None:
        """Takes an ending into account for later choices."""
        with self._lock:
            if ending is Ending.ANSWERED:
                self._failures = self._late = 0
                self.avoided_until_s = float("-inf")
            elif ending is Ending.UNREACHED:
                self._avoid(now_s)
            elif ending is Ending.LATE:
                self._late += 1
                if self._late >= _LATE_IN_A_ROW:
                    self._avoid(now_s)

    def _avoid(self, now_s: float) -> None:
        if now_s < self.avoided_until_s:
            return  # many requests failed together: that is one failure
        self.avoided_until_s = now_s + min(_LONGEST_S, _FIRST_S * 2.0 ** min(self._failures, 30))
        self._failures += 1


class Lease:
    """The right to ask an address once. Given back at the end, at the latest by `with`."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._held = True

    @property
    def address(self) -> str:
        return self._endpoint.address

    def give_back(self, ending: Ending, now_s: float) -> None:
        """Ends it; only the first call counts."""
        if self._held:
            self._held = False
            self._endpoint.end()
            self._endpoint.learn(ending, now_s)

    def answered(self, now_s: float) -> None:
        """Somebody is there, and the request goes on."""
        self._endpoint.learn(Ending.ANSWERED, now_s)

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.give_back(Ending.LEFT, 0.0)


def pick(endpoints: Sequence[Endpoint], rng: random.Random, now_s: float) -> Lease:
    """A lease on the less busy of two endpoints drawn among those not avoided now.

    Raises:
        ValueError: there is none to choose from.
    """
    if not endpoints:
        raise ValueError("cannot choose an address: there is none")
    ready = [each for each in endpoints if each.avoided_until_s <= now_s] or endpoints
    if len(ready) == 1:
        return ready[0].begin()
    # The order of the two is random, so min() breaks ties by chance.
    return min(rng.sample(ready, 2), key=lambda each: each.in_flight).begin()


def untried(endpoints: Sequence[Endpoint], tried: Sequence[str]) -> list[Endpoint]:
    """Those that a call has not asked yet."""
    return [each for each in endpoints if each.address not in tried]
