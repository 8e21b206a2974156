"""The report of a gate: one HTML file that needs nothing else, and a short Markdown summary.

It is read by somebody who must decide whether to trust a verdict: the verdict and its sentences
come first, then what was compared, the numbers, and the sentences that got worse. No script, no
outside resource; every value from outside is escaped.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evals import diff, examples_table, forest
from evals.diff import Mark
from evals.examples_table import Regression
from evals.outcome import Outcomes
from evals.policy import GatePolicy
from evals.report_style import CSS
from evals.suite import Suite
from evals.verdict import Basis, GateResult, GateStatus, Verdict

HEADLINES = {
    GateStatus.PASS: "Passed: every gate is met",
    GateStatus.FAIL: "Failed: the candidate is shown not to meet at least one gate",
    GateStatus.UNDERPOWERED: "Undecided: the evidence does not show that every gate is met",
}
_WORST_PER_GATE = 5
_MARKDOWN_REASONS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One model of the comparison, in the words of the registry."""

    version: str
    """As a reader is to see it, for instance "version 3"."""
    digest: str
    recipe: str = "none"
    """How it was quantized, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One suite with the answers of both models."""

    suite: Suite
    candidate: Outcomes
    champion: Outcomes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """What quantization changed. Errors are relative, by layer group; ratio is new size / old."""

    size_ratio: float
    weight_errors: tuple[tuple[str, float], ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportInput:
    """Everything a report shows. `made_at` is shown as given."""

    model: str
    candidate: Side
    champion: Side | None
    verdict: Verdict
    policy: GatePolicy
    suites: tuple[Compared, ...]
    made_at: str = ""
    quantization: Quantization | None = None
    stages: tuple[tuple[str, float], ...] = ()
    """Stage name and wall seconds, in order."""


def render(given: ReportInput) -> str:
    """The report as one self-contained HTML document."""
    title = f"{given.model} {given.candidate.version}: {given.verdict.status}"
    sections = (
        _headline(given),
        _what_was_compared(given),
        _gates(given.verdict.results, given.policy.alpha),
        _worst_examples(given),
        _quantization(given.quantization),
        _stages(given.stages),
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(title)}</title><style>{CSS}</style></head>"
        f"<body><main>{''.join(sections)}</main></body></html>\n"
    )


def render_markdown(given: ReportInput) -> str:
    """At most ten lines, for the description of a model version."""
    verdict = given.verdict
    counts = {s: sum(r.status is s for r in verdict.results) for s in GateStatus}
    against = "absolute floors (first version)"
    if given.champion is not None:
        against = f"champion {given.champion.version} (`{given.champion.digest[:19]}`)"
    tally = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    lines = [
        f"Gate: {verdict.status} ({tally}).",
        "",
        f"Candidate {given.candidate.version} (`{given.candidate.digest[:19]}`) against {against}.",
        f"Policy `{verdict.policy_digest[:19]}`; recipe: {given.candidate.recipe}.",
        *(f"- {reason}" for reason in verdict.reasons[:_MARKDOWN_REASONS]),
    ]
    if len(verdict.reasons) > _MARKDOWN_REASONS:
        lines.append(f"- and {len(verdict.reasons) - _MARKDOWN_REASONS} more; see the report")
    return "\n".join(" ".join(line.split()) for line in lines) + "\n"


def _text(value: object) -> str:
    return html.escape(str(value))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already."""
    header = "".join(f'<th scope="col">{_text(cell)}</th>' for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return (
        f'<div class="wide"><table><thead><tr>{header}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _headline(given: ReportInput) -> str:
    status = given.verdict.status
    reasons = "".join(f"<li>{_text(reason)}</li>" for reason in given.verdict.reasons)
    return (
        f'<header class="{status}"><p class="model">{_text(given.model)}, '
        f"{_text(given.candidate.version)}</p><h1>{HEADLINES[status]}</h1>"
        f"<ul>{reasons}</ul></header>"
    )


def _what_was_compared(given: ReportInput) -> str:
    champion = given.champion
    rows = [
        ("Candidate", given.candidate.version, given.candidate.digest, given.candidate.recipe),
    ]
    if champion is not None:
        rows.append(("Champion", champion.version, champion.digest, champion.recipe))
    sides = _table(
        ("", "Version", "Checkpoint digest", "Recipe"),
        ((_text(a), _text(b), _code(c), _text(d)) for a, b, c, d in rows),
    )
    suites = _table(
        ("Suite", "Kind", "Examples", "Digest", "Evaluated on"),
        (
            (
                _text(item.suite.name),
                _text(item.suite.kind),
                f"{len(item.suite.examples):,}",
                _code(item.suite.digest),
                _code(item.candidate.runtime_digest),
            )
            for item in given.suites
        ),
    )
    made = f"<p>Made {_text(given.made_at)}.</p>" if given.made_at else ""
    return f"<h2>What was compared</h2>{sides}{suites}<p>{_policy(given)}</p>{made}"


def _code(value: str) -> str:
    return f'<code title="{_text(value)}">{_text(value[:19])}</code>'


def _policy(given: ReportInput) -> str:
    policy, floors = given.policy, given.policy.floors
    digest = _code(given.verdict.policy_digest)
    if given.champion is None:
        return (
            f"Policy {digest}: a first version is held against floors, {100 * floors.correction:g}"
            f" % fixed, {100 * floors.clean:g} % of clean sentences left alone, "
            f"{100 * floors.tag:g} % for each tag; error level {policy.alpha:g} for each gate."
        )
    tag = policy.margin_points if policy.tag_margin_points is None else policy.tag_margin_points
    return (
        f"Policy {digest}: margin {policy.margin_points:g} points for a suite, {tag:g} for a tag, "
        f"{len(policy.overrides)} suites with their own; error level {policy.alpha:g} for each "
        "gate. A pass needs every gate, so more gates do not make a wrong pass likelier."
    )


def _gates(results: Sequence[GateResult], alpha: float) -> str:
    rows = (_gate_row(result) for result in results)
    head = ("Gate", "n", "Candidate", "Champion", "Won", "Lost", "Estimate", "Threshold", "Status")
    return (
        f"<h2>Gates</h2><figure>{forest.forest_svg(results)}<figcaption>Dot: estimate. "
        f"Bar: its two one-sided {100.0 * (1.0 - alpha):g} % bounds. Dashed: threshold; a gate is "
        f"met when the whole bar is to its right.</figcaption></figure>{_table(head, rows)}"
    )


def _gate_row(result: GateResult) -> tuple[str, ...]:
    estimate = "missing"
    if result.estimate_points is not None:
        estimate = (
            f"{result.estimate_points:.1f} [{result.lower_points:.1f}, {result.upper_points:.1f}]"
        )
    unit = "points" if result.basis is Basis.CHAMPION else "%"
    return (
        _text(result.name),
        f"{result.n:,}",
        _percent(result.candidate_rate),
        _percent(result.champion_rate),
        _count(result.wins),
        _count(result.losses),
        f"{estimate} {unit}",
        f"{result.threshold_points:g} {unit}",
        f'<span class="status {result.status}">{result.status}</span>',
    )


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{100.0 * rate:.1f} %"


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _worst_examples(given: ReportInput) -> str:
    parts = []
    for item in given.suites:
        found = examples_table.regressions(item.suite, item.candidate, item.champion)
        for tag in item.suite.tags or (None,):
            tagged = [r for r in found if tag is None or tag in r.example.tags]
            if tagged:
                name = item.suite.name if tag is None else f"{item.suite.name}/{tag}"
                parts.append(_regression_table(name, tagged))
    what = "Wrong answers" if given.champion is None else "Right before, wrong now"
    body = "".join(parts) or "<p>None.</p>"
    return (
        f"<h2>{what}</h2><p>Marked: what the model changed in the source. The complete table is "
        f"on the gate's run.</p>{body}"
    )


def _regression_table(name: str, found: Sequence[Regression]) -> str:
    rows = [_regression_row(item) for item in found[:_WORST_PER_GATE]]
    head = ("Source", "Wanted", "Candidate", "Champion")[: len(rows[0])]
    shown = min(len(found), _WORST_PER_GATE)
    return f"<h3>{_text(name)}: {shown} of {len(found):,}</h3>{_table(head, rows)}"


def _regression_row(item: Regression) -> tuple[str, ...]:
    """Source, reference, the candidate's answer and, if there is one, the champion's."""
    source = item.example.source
    answers = (item.candidate, *([] if item.champion is None else [item.champion]))
    marked = (_marked(source, answer.output) for answer in answers)
    return (_text(source), _text(item.example.references[0]), *marked)


def _marked(source: str, output: str) -> str:
    """The output with its changes to the source marked; an empty output is said to be empty."""
    if not output.strip():
        return "<em>(empty)</em>"
    tags = {Mark.DELETED: "del", Mark.INSERTED: "ins"}
    return " ".join(
        _text(run.text)
        if run.mark is Mark.SAME
        else f"<{tags[run.mark]}>{_text(run.text)}</{tags[run.mark]}>"
        for run in diff.words(source, output)
    )


def _quantization(given: Quantization | None) -> str:
    if given is None:
        return ""
    rows = ((_text(group), f"{100.0 * error:.2f} %") for group, error in given.weight_errors)
    note = f"<p>{_text(given.note)}</p>" if given.note else ""
    return (
        f"<h2>Quantization</h2><p>Size: {100.0 * given.size_ratio:.0f} % of the original.</p>{note}"
        f"{_table(('Layer group', 'Relative weight error'), rows)}"
    )


def _stages(stages: Sequence[tuple[str, float]]) -> str:
    if not stages:
        return ""
    rows = [(_text(name), f"{wall_s:.1f} s") for name, wall_s in stages]
    rows.append(("<strong>total</strong>", f"{sum(wall_s for _, wall_s in stages):.1f} s"))
    return f"<h2>Stages</h2>{_table(('Stage', 'Time'), rows)}"
