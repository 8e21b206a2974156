"""How fast an error budget burns, over several windows at once. Pure.

The one idea, of the SRE Workbook (Beyer et al. 2018, chapter 5, "Alerting on SLOs"): the burn rate
is the share of requests that were not as promised over the share that need not be. 1 uses the
budget up exactly at the end of the promise's window. Somebody is told when a long window says that
much of the budget is gone and a short one says that it still goes.

What was not counted is None and never zero.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from serving.edge.bootstrap import LATENCY_BUCKETS_MS
from serving.edge.interval import Interval
from serving.slo.promise import DAY_S, SLO, Sli

MINUTE_S, HOUR_S = 60.0, 3_600.0
WHOLE = 0.9
"""Share of a window that must have been seen to speak of the window."""


class Severity(enum.StrEnum):
    """Who is told."""

    PAGE = "page"
    """A person, now."""
    TICKET = "ticket"
    """A person, in working hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Somebody is told when the burn is above `factor` over both windows."""

    factor: float
    long_s: float
    short_s: float
    """A twelfth of the long one: so soon after its end an alert ends too."""
    severity: Severity


PAIRS = (
    Pair(factor=14.4, long_s=HOUR_S, short_s=5 * MINUTE_S, severity=Severity.PAGE),
    Pair(factor=6.0, long_s=6 * HOUR_S, short_s=30 * MINUTE_S, severity=Severity.PAGE),
    Pair(factor=3.0, long_s=DAY_S, short_s=2 * HOUR_S, severity=Severity.TICKET),
    Pair(factor=1.0, long_s=3 * DAY_S, short_s=6 * HOUR_S, severity=Severity.TICKET),
)
"""Workbook, tables 5-2 and 5-8: 2, 5, 10 and 10 % of a budget of 30 days."""
WINDOWS_S = tuple(sorted({s for pair in PAIRS for s in (pair.short_s, pair.long_s)}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Burn:
    """How fast a budget burned over what is known of a window."""

    window_s: float
    rate: float | None
    """None without requests, and where nothing is known of them."""
    seen_s: float | None = None
    """How much of the window was counted; None where the source does not tell."""
    requests: int | None = None
    bad: int | None = None
    """Requests that were not as promised."""

    @property
    def is_whole(self) -> bool:
        """Whether it speaks of the window, and not of a part of it."""
        return self.seen_s is None or self.seen_s >= WHOLE * self.window_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a promise stands in one respect."""

    sli: Sli
    objective: float
    """Share of requests that must be as promised."""
    budget_left: float | None
    """Share of the budget of the promise's window; below 0 the promise is broken."""
    burns: tuple[Burn, ...]
    """By rising window."""
    alerts: tuple[Pair, ...]
    """Pairs of windows that call for somebody now."""

    def over(self, window_s: float) -> Burn | None:
        """The burn over a window."""
        return next((b for b in self.burns if b.window_s == window_s), None)


def rate(requests: float, bad: float, budget: float) -> float | None:
    """The burn rate; None without requests."""
    return bad / requests / budget if requests else None


def latency_bound_ms(slo: SLO) -> float:
    """The bound that requests are counted by: the histogram's, at most `latency_ms`.

    So requests between the two count as too slow. Below the first bound (1 ms) it is that.
    """
    return max(
        (b for b in LATENCY_BUCKETS_MS if b <= slo.latency_ms), default=LATENCY_BUCKETS_MS[0]
    )


def counted(interval: Interval, slo: SLO, sli: Sli) -> tuple[int, int]:
    """Requests, and those of them that were not as promised.

    Envoy's histogram holds what a replica answered; a request that the edge gave up on is not in
    it and was too slow.
    """
    if sli is Sli.AVAILABILITY:
        return interval.requests, interval.faults
    requests = interval.measured + interval.timeouts
    return requests, requests - interval.within(latency_bound_ms(slo))


def pairs(slo: SLO, sli: Sli) -> tuple[Pair, ...]:
    """The pairs that can fire for this promise, before all of its budget is gone."""
    return tuple(
        p for p in PAIRS if p.factor * slo.budget(sli) < 1.0 and p.factor * p.long_s <= slo.window_s
    )


def windows(slo: SLO) -> tuple[float, ...]:
    """The windows that the promise's own holds, rising, in seconds."""
    return tuple(s for s in WINDOWS_S if s <= slo.window_s)


def standings(slo: SLO, over: Callable[[float], Interval | None]) -> tuple[Standing, ...]:
    """How a promise stands, by what was counted over windows of any length in seconds."""
    return tuple(_standing(slo, sli, over) for sli in Sli)


def standing(slo: SLO, sli: Sli, burns: Iterable[Burn], *, budget_left: float | None) -> Standing:
    """How a promise stands in one respect, by its burns."""
    listed = tuple(burns)
    rates = {b.window_s: b.rate for b in listed}
    return Standing(
        sli=sli,
        objective=slo.objective(sli),
        budget_left=budget_left,
        burns=listed,
        alerts=tuple(p for p in pairs(slo, sli) if _fires(p, rates)),
    )


def _standing(slo: SLO, sli: Sli, over: Callable[[float], Interval | None]) -> Standing:
    burns = [_burn(slo, sli, s, over(s)) for s in windows(slo)]
    whole = _burn(slo, sli, slo.window_s, over(slo.window_s))
    return standing(slo, sli, burns, budget_left=_left(whole))


def _burn(slo: SLO, sli: Sli, window_s: float, interval: Interval | None) -> Burn:
    if interval is None:
        return Burn(window_s=window_s, rate=None, seen_s=0.0)
    requests, bad = counted(interval, slo, sli)
    return Burn(
        window_s=window_s,
        rate=rate(requests, bad, slo.budget(sli)),
        seen_s=interval.seconds,
        requests=requests,
        bad=bad,
    )


def _left(burn: Burn) -> float | None:
    """What is spent so far, with requests coming as they did while they were counted."""
    if burn.rate is None or burn.seen_s is None:
        return None
    return 1.0 - burn.rate * min(1.0, burn.seen_s / burn.window_s)


def _fires(pair: Pair, rates: Mapping[float, float | None]) -> bool:
    both = rates.get(pair.long_s), rates.get(pair.short_s)
    return all(found is not None and found > pair.factor for found in both)
