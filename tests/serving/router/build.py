"""Fleets for tests."""

from __future__ import annotations

import random
from collections import Counter

from serving import router


def destinations(*names: str, zone: str | None = None) -> list[router.Destination]:
    """Endpoints of one zone."""
    return [router.Destination(id=name, zone=zone) for name in names]


def fleet(*names: str, settings: router.RouterSettings | None = None) -> router.Fleet:
    """Endpoints that all serve in full, known since 0."""
    made = router.Fleet(settings)
    made.update(destinations(*names), 0.0)
    return made


def shares(
    made: router.Fleet, picks: int, now: float, *, seed: int = 0, hold: bool = False
) -> Counter[str]:
    """How often each endpoint is chosen, each request over before the next, or held."""
    rng = random.Random(seed)
    found: Counter[str] = Counter()
    for _ in range(picks):
        lease = router.pick(made, rng, now)
        found[lease.endpoint_id] += 1
        if not hold:
            lease.done(router.Outcome.CANCELED, now)
    return found


def lease_on(made: router.Fleet, name: str, now: float) -> router.Lease:
    """A lease on that endpoint: chooses until it is its turn, and gives the others back."""
    rng = random.Random(1)
    others = []
    for _ in range(10_000):
        lease = router.pick(made, rng, now)
        if lease.endpoint_id == name:
            break
        others.append(lease)
    else:
        raise AssertionError(f"{name} is never chosen")
    for other in others:
        other.done(router.Outcome.CANCELED, now)
    return lease


def fail(made: router.Fleet, name: str, times: int, now: float) -> None:
    """So many requests fail on that endpoint, one after the other, or fewer if it is ejected."""
    for _ in range(times):
        if phase(made, name) is router.Phase.EJECTED and made.next_return > now:
            return
        lease_on(made, name, now).done(router.Outcome.FAILURE, now)


def phase(made: router.Fleet, name: str) -> router.Phase:
    """How the endpoint takes part."""
    return made.views()[name].phase
