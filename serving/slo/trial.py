"""Whether a version keeps a promise, by the few requests of one step of a rollout. Pure.

The one idea is Wald's sequential test (1945, Annals of Mathematical Statistics 16, 117-186). What
was counted is so many times likelier if the budget burns fast than if it burns at rate 1, just as
promised. That ratio may be looked at after every request: for a version that keeps its promise it
ever reaches 1 / ALPHA with chance at most ALPHA, for one that burns fast it ever falls to BETA with
chance at most BETA, however often one looks (Ville's inequality). Between the two nothing is shown.

It takes requests as independent. Faults that come in bursts look worse than they are, which errs
to the side of callers.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from serving.edge.interval import Interval
from serving.slo import burn
from serving.slo.promise import SLO, Sli

ALPHA = 0.01
"""Most often that a version whose budget burns at rate 1 is found broken, per step and SLI."""
BETA = 0.05
"""Most often that one whose budget burns fast is found kept."""


class Finding(enum.StrEnum):
    """What the requests so far say."""

    BROKEN = "broken"
    """The budget burns faster than promised."""
    DOUBTFUL = "doubtful"
    """Too few requests to tell, and they are likelier of a fast burn."""
    LIKELY = "likely"
    """Too few requests to tell, and they are likelier of a promise that is kept."""
    KEPT = "kept"
    """The budget does not burn fast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A version's requests against one half of its promise."""

    sli: Sli
    requests: int
    bad: int
    """Requests that were not as promised."""
    budget: float
    """Share of requests that need not be as promised."""
    to_show: int
    """Requests without a bad one that would show that the promise is kept."""
    log_ratio: float
    """Natural logarithm of how many times likelier the counts are of a fast burn."""

    @property
    def rate(self) -> float | None:
        """The burn rate; None without requests."""
        return burn.rate(self.requests, self.bad, self.budget)

    @property
    def finding(self) -> Finding:
        """What the requests say."""
        if self.log_ratio >= -math.log(ALPHA):
            return Finding.BROKEN
        if self.log_ratio > 0.0:
            return Finding.DOUBTFUL
        return Finding.KEPT if self.log_ratio <= math.log(BETA) else Finding.LIKELY


def fast_share(budget: float) -> float:
    """The share of bad requests that is a fast burn, by the share that the budget allows.

    That of the fastest alert (Workbook, table 5-8): 14.4 times the budget; halfway between the
    budget and all requests where that is less, for a generous budget cannot burn so fast.
    """
    return min(burn.PAIRS[0].factor * budget, (1.0 + budget) / 2.0)


def of(interval: Interval, slo: SLO, sli: Sli) -> Trial:
    """What a version's requests say of one half of the promise."""
    requests, bad = burn.counted(interval, slo, sli)
    budget = slo.budget(sli)
    per_bad, per_good = _weights(budget)
    return Trial(
        sli=sli,
        requests=requests,
        bad=bad,
        budget=budget,
        to_show=math.ceil(math.log(BETA) / per_good),
        log_ratio=bad * per_bad + (requests - bad) * per_good,
    )


def _weights(budget: float) -> tuple[float, float]:
    """What a bad and a good request add to the logarithm of the ratio: above and below zero."""
    fast = fast_share(budget)
    return math.log(fast / budget), math.log1p(-fast) - math.log1p(-budget)
