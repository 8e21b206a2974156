"""The report in short, as Markdown, for the description of a model version.

MLflow keeps 5,000 characters of a description, so this stays well below.
"""

from __future__ import annotations

from evals import claims
from evals.report.given import ReportInput, changes
from evals.verdict import Basis, GateResult, GateStatus, Verdict

_REASONS = 4
_ROWS = 12
_LINE_CHARS = 300
_CHARS = 4_500


def render_markdown(given: ReportInput) -> str:
    """Verdict, reasons, the gates as a table, what changed, how to reproduce."""
    verdict = given.verdict
    found = claims.differences(verdict.results, given.policy.alpha)
    parts = (
        [f"Gate: {verdict.status} ({_tally(verdict)})."],
        _subjects(given),
        [*_reasons(verdict), *(f"- {said}" for said in (*found.sentences, *verdict.skipped))],
        _table(verdict),
        _changed(given),
        [f"Reproduce: {'; '.join(f'`{line}`' for line in given.reproduce)}"]
        if given.reproduce
        else [],
    )
    text = "\n\n".join("\n".join(_line(line) for line in part) for part in parts if part)
    return _whole_lines(text) + "\n"


def _whole_lines(text: str) -> str:
    """As many lines as MLflow keeps."""
    if len(text) <= _CHARS:
        return text
    return text[:_CHARS].rpartition("\n")[0] + "\n\nand more; see the report"


def _line(text: str) -> str:
    """One line, whatever was in it, and not an endless one."""
    joined = " ".join(text.split())
    return joined if len(joined) <= _LINE_CHARS else joined[: _LINE_CHARS - 1] + "\u2026"


def _tally(verdict: Verdict) -> str:
    counts = {s: sum(r.status is s for r in verdict.results) for s in GateStatus}
    return ", ".join(f"{count} {status}" for status, count in counts.items() if count)


def _subjects(given: ReportInput) -> list[str]:
    against = "absolute floors (first version)"
    if given.champion is not None:
        against = f"champion {given.champion.version} (`{given.champion.digest[:19]}`)"
    candidate = f"{given.candidate.version} (`{given.candidate.digest[:19]}`)"
    return [
        f"Candidate {candidate} against {against}.",
        f"Policy `{given.verdict.policy_digest[:19]}`; recipe: {given.candidate.recipe}.",
    ]


def _reasons(verdict: Verdict) -> list[str]:
    lines = [f"- {reason}" for reason in verdict.reasons[:_REASONS]]
    if len(verdict.reasons) > _REASONS:
        lines.append(f"- and {len(verdict.reasons) - _REASONS} more; see the report")
    return lines


def _table(verdict: Verdict) -> list[str]:
    """The gates, those that are not met first."""
    order = [GateStatus.FAIL, GateStatus.UNDERPOWERED, GateStatus.PASS]
    rows = sorted(verdict.results, key=lambda r: order.index(r.status))
    lines = ["| gate | n | estimate | threshold | power | result |", "|---|---|---|---|---|---|"]
    lines += [_row(result) for result in rows[:_ROWS]]
    if len(rows) > _ROWS:
        lines.append(f"| and {len(rows) - _ROWS} more | | | | | |")
    return lines


def _row(result: GateResult) -> str:
    unit = " points" if result.basis is Basis.CHAMPION else " %"
    estimate = "-"
    if result.estimate_points is not None:
        estimate = (
            f"{result.estimate_points:.1f} [{result.lower_points:.1f}, {result.upper_points:.1f}]"
        )
    threshold = "-" if result.threshold_points is None else f"{result.threshold_points:g}{unit}"
    power = "-" if result.power is None else f"{100.0 * result.power:.0f} %"
    name = result.name.replace("|", "\\|")
    return f"| {name} | {result.n:,} | {estimate} | {threshold} | {power} | {result.status} |"


def _changed(given: ReportInput) -> list[str]:
    known = [item for item in changes(given) if item.is_known]
    if not known:
        return []
    changed = ", ".join(item.what for item in known if item.is_change) or "nothing"
    same = ", ".join(item.what for item in known if not item.is_change) or "nothing"
    return [f"Changed: {changed}. The same: {same}."]
