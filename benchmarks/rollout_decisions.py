"""How often, and after how many requests, is a version taken back that burns its budget at a rate?

    python -m benchmarks.rollout_decisions

Exact chances, by dynamic programming over the number of bad requests, looking after every one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from benchmarks import machine
from serving.edge.interval import Interval
from serving.slo import SLO, Sli, trial

OBJECTIVES = (0.99, 0.999, 0.9999)
RATES = (0.5, 1.0, 6.0, 14.4, 20.0, 50.0)
BUDGETS = 10
"""Length of a step, in requests: as many as have so many bad ones at a burn rate of 1."""
NEARLY = 0.95
NEGLIGIBLE = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What a step comes to for versions of one burn rate."""

    broken: float
    """Share of them that is taken back."""
    kept: float
    """Share of them that is shown to keep the promise."""
    nearly_after: int | None
    """Requests after which `NEARLY` of them were taken back; None where it is never so many."""


def weights(objective: float) -> tuple[float, float, int]:
    """What a bad and a good request add to the evidence, and how many good ones show it."""
    bad, good = (
        trial.of(
            Interval(seconds=1.0, requests=1, faults=faults, latency=()),
            SLO(availability=objective),
            Sli.AVAILABILITY,
        )
        for faults in (1, 0)
    )
    return bad.log_ratio, good.log_ratio, good.to_show


def judged(objective: float, rate: float) -> Judged:
    """The step of one version."""
    per_bad, per_good, _ = weights(objective)
    share, requests = rate * (1.0 - objective), round(BUDGETS / (1.0 - objective))
    top, bottom = -math.log(trial.ALPHA), math.log(trial.BETA)
    open_, broken, kept, nearly = {0: 1.0}, 0.0, 0.0, None
    for asked in range(1, requests + 1):
        after: dict[int, float] = {}
        for bad, chance in open_.items():
            after[bad] = after.get(bad, 0.0) + chance * (1.0 - share)
            after[bad + 1] = after.get(bad + 1, 0.0) + chance * share
        open_ = {}
        for bad, chance in after.items():
            evidence = bad * per_bad + (asked - bad) * per_good
            if evidence >= top:
                broken += chance
            elif evidence <= bottom:
                kept += chance
            elif chance > NEGLIGIBLE:
                open_[bad] = chance
        if nearly is None and broken >= NEARLY:
            nearly = asked
    return Judged(broken=broken, kept=kept, nearly_after=nearly)


def main() -> None:
    """Prints a table per objective and the RESULT line."""
    figures: dict[str, object] = {"benchmark": "rollout_decisions", **machine.describe()}
    for objective in OBJECTIVES:
        to_show = weights(objective)[2]
        print(f"{objective:.2%} promised: {to_show:,} answers without a fault show that it holds")
        print("  burn   taken back   shown to hold   95 % taken back after")
        for rate in RATES:
            found = judged(objective, rate)
            after = "-" if found.nearly_after is None else f"{found.nearly_after:,} requests"
            print(f"  {rate:4g}   {found.broken:10.3%}   {found.kept:13.3%}   {after}")
            key = f"{objective:g}_burn_{rate:g}"
            figures[key] = [round(found.broken, 5), round(found.kept, 5), found.nearly_after]
        figures[f"{objective:g}_to_show"] = to_show
    print(machine.result(figures))


if __name__ == "__main__":
    main()
