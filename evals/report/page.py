"""The report as HTML.

It is read by somebody who must decide whether to trust a verdict: the verdict and its sentences
come first, then the numbers, what changed, the sentences that got worse, and how to do it again. No
script, no outside resource; every value from outside is escaped.
"""

from __future__ import annotations

from evals import claims
from evals.report import answers, background, gates, markup
from evals.report.given import ReportInput
from evals.report.style import CSS
from evals.verdict import GateStatus

HEADLINES = {
    GateStatus.PASS: "Passed: every gate is met",
    GateStatus.FAIL: "Failed: the candidate is shown not to meet at least one gate",
    GateStatus.UNDERPOWERED: "Undecided: the evidence does not show that every gate is met",
}


def render(given: ReportInput) -> str:
    """The report as one self-contained HTML document."""
    title = f"{given.model} {given.candidate.version}: {given.verdict.status}"
    sections = (
        _headline(given),
        gates.section(given),
        background.changed_section(given),
        background.compared_section(given),
        answers.worst_section(given),
        answers.flips_section(given),
        answers.slices_section(given),
        background.quantization_section(given.quantization),
        background.stages_section(given),
        background.reproduce_section(given),
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{markup.text(title)}</title><style>{CSS}</style></head>"
        f"<body><main>{''.join(sections)}</main></body></html>\n"
    )


def _headline(given: ReportInput) -> str:
    status = given.verdict.status
    reasons = "".join(f"<li>{markup.text(reason)}</li>" for reason in given.verdict.reasons)
    found = claims.differences(given.verdict.results, given.policy.alpha)
    more = "".join(f"<p>{markup.text(s)}</p>" for s in (*found.sentences, *given.verdict.skipped))
    return (
        f'<header class="{status}"><p class="model">{markup.text(given.model)}, '
        f"{markup.text(given.candidate.version)}</p><h1>{HEADLINES[status]}</h1>"
        f"<ul>{reasons}</ul>{more}</header>"
    )
