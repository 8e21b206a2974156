"""The gates of a report: by suite, a plot of intervals beside their margins, and the numbers."""

from __future__ import annotations

from collections.abc import Sequence

from evals import forest
from evals.report import markup
from evals.report.given import ReportInput
from evals.verdict import Basis, GateResult


def section(given: ReportInput) -> str:
    """Every gate, the suites in the order of the verdict."""
    suites = dict.fromkeys(result.suite for result in given.verdict.results)
    parts = [
        _of_suite(name, [r for r in given.verdict.results if r.suite == name]) for name in suites
    ]
    level = f"{100.0 * (1.0 - given.policy.alpha):g}"
    return (
        f"<h2>Gates</h2><p>Dot: estimate. Bar: its two one-sided {level} % bounds. Dashed: the "
        "margin, floor or limit. A gate is met when the whole bar is to its right; one with a "
        "limit, when it is to its left. Power: chance that a candidate exactly as good as the "
        f"champion, and as unlike it as this one, passes.</p>{''.join(parts)}"
    )


def _of_suite(name: str, results: Sequence[GateResult]) -> str:
    drawn = [r for r in results if r.estimate_points is not None]
    plot = f"<figure>{forest.forest_svg(drawn)}</figure>" if drawn else ""
    head = (
        "Gate", "Metric", "n", "Candidate", "Champion", "Won", "Lost", "Estimate", "Threshold",
        "Bounds by", "Power", "Status",
    )  # fmt: skip
    rows = [_row(result) for result in results]
    return f"<h3>{markup.text(name)}</h3>{plot}{markup.table(head, rows)}"


def _row(result: GateResult) -> tuple[str, ...]:
    estimate = "missing"
    if result.estimate_points is not None:
        estimate = (
            f"{result.estimate_points:.1f} [{result.lower_points:.1f}, {result.upper_points:.1f}]"
        )
    unit = "points" if result.basis is Basis.CHAMPION else "%"
    threshold = "-" if result.threshold_points is None else f"{result.threshold_points:g} {unit}"
    return (
        markup.text(result.name),
        markup.text(result.metric.replace("_", " ")),
        f"{result.n:,}",
        markup.percent(result.candidate_rate),
        markup.percent(result.champion_rate),
        markup.count(result.wins),
        markup.count(result.losses),
        f"{estimate} {unit}",
        threshold,
        markup.text(_method(result)),
        _power(result),
        f'<span class="status {result.status}">{result.status}</span>',
    )


def _method(result: GateResult) -> str:
    if result.units is None:
        return result.method or "-"
    return f"{result.method} of {result.units:,}"


def _power(result: GateResult) -> str:
    if result.power is None:
        return "-"
    needed = f"; {result.needed_n:,} examples needed" if result.needed_n is not None else ""
    return f"{100.0 * result.power:.0f} %{needed}"
