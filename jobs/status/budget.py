"""How a promise stands, for people and for machines. Pure; `status` and `slo status` show by it."""

from __future__ import annotations

import dataclasses
from typing import Any

from serving.slo import Sli
from serving.slo.burn import Burn, Standing

NOT_KNOWN = "not known"
BAD = {Sli.AVAILABILITY: "failed", Sli.LATENCY: "too slow"}


def as_line(standing: Standing) -> str | None:
    """One line: the news, the longest window that was seen, what is left; None where unknown."""
    shortest = _shortest(standing)
    if shortest is None:
        return None
    told = [shortest, *[b for b in standing.burns[1:] if b.is_whole][-1:]]
    parts = ", ".join(_burn(burn, standing.sli) for burn in told)
    left = f"; {_percent(standing.budget_left)} left" if standing.budget_left is not None else ""
    return f"{standing.sli} {_percent(standing.objective)}: {parts}{left}{_alerts(standing)}"


def lately(standing: Standing) -> str | None:
    """The shortest window only; None where nothing is known of it."""
    shortest = _shortest(standing)
    return _burn(shortest, standing.sli) if shortest is not None else None


def as_lines(standing: Standing) -> list[str]:
    """All that is known, a window a line; what is not known is said so."""
    left = NOT_KNOWN if standing.budget_left is None else _percent(standing.budget_left)
    lines = [
        f"{standing.sli} {_percent(standing.objective)}: budget left {left}{_alerts(standing)}"
    ]
    return lines + [f"  {span(b.window_s):>6}  {_row(b, standing.sli)}" for b in standing.burns]


def as_json(standing: Standing) -> dict[str, Any]:
    """Plain data; the keys are part of the public surface (docs/reference.md)."""
    return {
        "sli": str(standing.sli),
        "objective": standing.objective,
        "budget_left": standing.budget_left,
        "burns": [dataclasses.asdict(burn) for burn in standing.burns],
        "alerts": [{**dataclasses.asdict(p), "severity": str(p.severity)} for p in standing.alerts],
    }


def span(seconds: float) -> str:
    """A time as people say it."""
    for unit_s, name in ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min")):
        if seconds >= unit_s:
            return f"{seconds / unit_s:.3g} {name}"
    return f"{seconds:.0f} s"


def _shortest(standing: Standing) -> Burn | None:
    first = next(iter(standing.burns), None)
    if first is None or (first.rate is None and not first.seen_s):
        return None
    return first


def _row(burn: Burn, sli: Sli) -> str:
    if burn.rate is None and not burn.seen_s:
        return NOT_KNOWN
    if burn.is_whole:
        return _burn(burn, sli)
    return f"{_burn(burn, sli)}; the rest is {NOT_KNOWN}"


def _burn(burn: Burn, sli: Sli) -> str:
    unseen = f"what was scraped of {span(burn.window_s)}"
    over = span(burn.seen_s) if burn.seen_s is not None else unseen
    if burn.rate is None:
        return f"no traffic in {over}"
    counted = f" ({burn.bad} of {burn.requests:,} {BAD[sli]})" if burn.requests is not None else ""
    return f"burns {burn.rate:.1f} x over {over}{counted}"


def _alerts(standing: Standing) -> str:
    told = [f"{p.severity}: above {p.factor:g} x over {span(p.long_s)}" for p in standing.alerts]
    return "".join(f"; {text}" for text in told)


def _percent(share: float) -> str:
    return f"{100 * share:.6g} %"
