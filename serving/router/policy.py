"""Two choices: take two endpoints at random, send the request to the one that holds less.

Pure: time and randomness are arguments, nothing waits and nothing is sent. A choice costs the same
for ten endpoints as for a thousand, and makes one object, the lease.

What two candidates are compared by, in requests and nothing else:

- both reported their load a moment ago: own requests in flight plus everybody else's as reported;
- otherwise: own requests in flight, of both. A report beside a guess would compare unlike things.

Endpoints whose probes were just answered are candidates first, so that reports can be compared.
Each answer is used for one choice: two choices by one look send both requests to the same place.

Left out: latencies (they say what was, and mix units) and weights.

Sources: Mitzenmacher, "The power of two choices in randomized load balancing", IEEE TPDS 12
(2001); Wydrowski et al., "Load is not what you should balance: introducing Prequal", NSDI 2024
(probes, their pool and its age); Knative's activator (choosing counts, and hands back its undo).
"""

from __future__ import annotations

import random
from collections.abc import Collection

from serving.router import errors
from serving.router.fleet import Fleet
from serving.router.lease import Lease
from serving.router.tracker import Group, Phase, Tracker


def pick(fleet: Fleet, rng: random.Random, now: float, avoid: Collection[str] = ()) -> Lease:
    """Chooses an endpoint and counts the request there, so that the next choice sees it.

    `avoid`: ids that this request has tried in vain. Another one is taken where there is one, an
    ejected one rather than one of these. Such a second choice looks at every endpoint.

    Raises NoEndpoints where there is none to choose from.
    """
    if now >= fleet.next_return:
        fleet.readmit(now)
    if avoid and (other := _untried(fleet, avoid, rng, now)) is not None:
        other.in_flight += 1
        fleet.picks += 1
        return Lease(fleet, other)
    group = fleet.near
    if not group.members:
        group = fleet.far
        if not group.members:
            raise errors.NoEndpoints(
                "a request found no endpoint: none is known, or all drain; wait for discovery"
            )
    best = _choose(fleet, group, rng, now)
    if best.in_flight + best.others >= fleet.spill_at and group is not fleet.far:
        best = _spill(fleet, best, rng, now)
    best.in_flight += 1
    fleet.picks += 1
    return Lease(fleet, best)


def _untried(
    fleet: Fleet, avoid: Collection[str], rng: random.Random, now: float
) -> Tracker | None:
    """The better of two that are not to be avoided, None where all are."""
    for among in (fleet.near.members, fleet.far.members, fleet.ejected):
        left = [tracker for tracker in among if tracker.id not in avoid]
        if len(left) > 1:
            first, second = rng.sample(left, 2)
            return _better(fleet.near, first, second, now)
        if left:
            return left[0]
    return None


def next_probe(fleet: Fleet, rng: random.Random) -> str | None:
    """The id of an endpoint to ask for its load now, None when enough have been asked.

    Call after each choice until it says None; answers go to `Fleet.report`. A probe that is lost
    costs nothing but its information.
    """
    for group in (fleet.near, fleet.far):
        if group.probes_owed >= 1.0 and group.members:
            # What was not asked for in time is not asked for in a burst later.
            group.probes_owed = min(group.probes_owed, float(group.probed.maxlen or 1)) - 1.0
            return group.members[int(rng.random() * len(group.members))].id
    return None


def _choose(fleet: Fleet, group: Group, rng: random.Random, now: float) -> Tracker:
    """The better of two members."""
    members = group.members
    group.probes_owed += group.probes_per_pick
    size = len(members)
    if size == 1:
        return members[0]
    # One draw for two places that differ: first * (size - 1) + which of the others.
    place, other = divmod(int(rng.random() * (size * (size - 1))), size - 1)
    first = members[place]
    second = members[other + 1 if other >= place else other]
    if group.probed:
        first, second = _probed(group, first, second, now)
    if first.thinned or second.thinned:
        first, second = _admitted(fleet, group, (first, second), rng, now)
    return _better(group, first, second, now)


def _better(group: Group, first: Tracker, second: Tracker, now: float) -> Tracker:
    """The one that holds less; the first of equals."""
    horizon = now - group.report_max_age_s
    if first.heard_at >= horizon and second.heard_at >= horizon:
        less = first.in_flight + first.others <= second.in_flight + second.others
    else:
        less = first.in_flight <= second.in_flight
    return first if less else second


def _probed(group: Group, first: Tracker, second: Tracker, now: float) -> tuple[Tracker, Tracker]:
    """Replaces the candidates by the two newest answers to probes, as far as there are fresh ones.

    Each answer is looked at once in its life, so this is O(1) over many choices.
    """
    newest: Tracker | None = None
    pool = group.probed
    while pool:
        found = pool.pop()
        if found.heard_at < now - group.probe_max_age_s:
            pool.clear()  # those below are older
        elif found.group is not group or found is newest:
            continue
        elif newest is None:
            newest = found
        else:
            return newest, found
    if newest is None:
        return first, second
    return newest, second if second is not newest else first


def _admitted(
    fleet: Fleet, group: Group, pair: tuple[Tracker, Tracker], rng: random.Random, now: float
) -> tuple[Tracker, Tracker]:
    """Replaces candidates that may not have their full share yet, by chance and not by their load:
    so they get about their share when everybody is idle, too."""
    kept: list[Tracker] = []
    for candidate in pair:
        found = candidate
        if not _admit(fleet, found, rng, now):
            found = group.members[int(rng.random() * len(group.members))]
            if not _admit(fleet, found, rng, now):
                continue
        kept.append(found)
    if not kept:
        return pair
    return kept[0], kept[-1]


def _admit(fleet: Fleet, tracker: Tracker, rng: random.Random, now: float) -> bool:
    if not tracker.thinned:
        return True
    settings = fleet.settings
    if tracker.phase is Phase.PROBATION:
        return not tracker.in_flight and rng.random() < settings.probation_share
    share = (now - tracker.since) / settings.slow_start_s
    if share >= 1.0:
        tracker.enter(Phase.SERVING, now)
        tracker.ejections = 0
        return True
    return rng.random() < max(share, settings.slow_start_floor)


def _spill(fleet: Fleet, best: Tracker, rng: random.Random, now: float) -> Tracker:
    """The own zone may be full, as far as two choices tell: then the better of two others, and
    the less loaded of both zones where those are full, too."""
    far = fleet.far
    if _load(far, best, now) < fleet.spill_at or not far.members:
        return best
    other = _choose(fleet, far, rng, now)
    if _load(far, other, now) < fleet.spill_at:
        return other
    return _better(far, best, other, now)


def _load(group: Group, tracker: Tracker, now: float) -> int:
    """Requests that the endpoint holds, as far as known now."""
    fresh = tracker.heard_at >= now - group.report_max_age_s
    return tracker.in_flight + tracker.others if fresh else tracker.in_flight
