"""What the models answered: flips, slices, and the examples that got worse."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evals import examples_table, slices
from evals.evidence import Compared
from evals.examples_table import Regression
from evals.report import markup
from evals.report.given import ReportInput
from evals.slices import Slice

_WORST_PER_GATE = 5


def worst_section(given: ReportInput) -> str:
    """The worst regressions of each suite and tag; of a first version, wrong answers."""
    parts = [part for item in given.suites for part in _worst(item)]
    what = "Wrong answers" if given.champion is None else "Right before, wrong now"
    body = "".join(parts) or "<p>None.</p>"
    return (
        f"<h2>{what}</h2><p>Marked, with \u2212 and +: what the model changed in the source. The "
        f"complete table is on the gate's run.</p>{body}"
    )


def _worst(item: Compared) -> list[str]:
    found = examples_table.worst(item)
    parts = []
    for tag in item.suite.tags or (None,):
        tagged = [r for r in found if tag is None or tag in r.example.tags]
        if tagged:
            name = item.suite.name if tag is None else f"{item.suite.name}/{tag}"
            parts.append(_regressions(name, item.suite.language, tagged))
    return parts


def _regressions(name: str, language: str, found: Sequence[Regression]) -> str:
    rows = [_regression(item, language) for item in found[:_WORST_PER_GATE]]
    head = ("Source", "Wanted", "Candidate", "Champion")[: len(rows[0])]
    shown = min(len(found), _WORST_PER_GATE)
    return f"<h3>{markup.text(name)}: {shown} of {len(found):,}</h3>{markup.table(head, rows)}"


def _regression(item: Regression, language: str) -> tuple[str, ...]:
    """Source, reference, the candidate's answer and, if there is one, the champion's."""
    source, references = item.example.source, item.example.references
    wanted = references[0] if references else source
    answers = (item.candidate, *([] if item.champion is None else [item.champion]))
    cells = (
        markup.text(source),
        markup.text(wanted),
        *(markup.marked(source, answer.output) for answer in answers),
    )
    return tuple(markup.quoted(cell, language) for cell in cells)


def flips_section(given: ReportInput) -> str:
    """How many outputs are another text, and how many answers changed sides."""
    if given.champion is None:
        return ""
    noise = {item.suite: item for item in given.noise}
    rows = []
    for item in given.suites:
        of = slices.whole(item)
        floor = noise.get(item.suite.name)
        rows.append(
            (
                markup.text(of.where),
                f"{of.n:,}",
                _share(of.changed, of.n),
                _share(of.won + of.lost, of.n),
                f"{of.won:,}",
                f"{of.lost:,}",
                "not measured" if floor is None else _share(floor.differing, floor.n),
            )
        )
    head = (
        "Suite", "n", "Outputs changed", "Answers that changed sides", "Won", "Lost",
        "Champion against itself",
    )  # fmt: skip
    told = "".join(f"<p>{markup.text(item.sentence)}.</p>" for item in given.noise)
    return f"<h2>Flips</h2>{markup.table(head, rows)}{told}"


def _share(count: int, n: int) -> str:
    return f"{count:,} ({100.0 * count / n:.1f} %)"


def slices_section(given: ReportInput) -> str:
    """By error type, length and language."""
    ways: tuple[tuple[str, Callable[[Sequence[Compared]], tuple[Slice, ...]]], ...] = (
        ("error type", slices.by_type),
        ("length of the source in words", slices.by_length),
        ("language", slices.by_language),
    )
    parts = [_slices(what, of(given.suites)) for what, of in ways]
    return (
        "<h2>Slices</h2><p>For reading, not for deciding: of many slices some differ by chance."
        f"</p>{''.join(parts)}"
    )


def _slices(what: str, found: Sequence[Slice]) -> str:
    if not found:
        return ""
    head = ("", "Slice", "n", "Measured", "Candidate", "Champion", "Won", "Lost", "Changed")
    rows = [
        (
            markup.text(item.where),
            markup.text(item.name),
            f"{item.n:,}",
            markup.text(item.metric.replace("_", " ")),
            markup.percent(item.candidate),
            markup.percent(item.champion),
            f"{item.won:,}",
            f"{item.lost:,}",
            f"{item.changed:,}",
        )
        for item in found
    ]
    return f"<h3>By {what}</h3>{markup.table(head, rows)}"
