"""Pieces of HTML: every value from outside is escaped here and nowhere else."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from evals import diff
from evals.diff import Mark

_TAGS = {Mark.DELETED: "del", Mark.INSERTED: "ins"}


def text(value: object) -> str:
    """Any value as text."""
    return html.escape(str(value))


def code(value: str) -> str:
    """A digest, shortened; the whole of it when pointed at."""
    return f'<code title="{text(value)}">{text(value[:19])}</code>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already."""
    header = "".join(f'<th scope="col">{text(cell)}</th>' for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return (
        f'<div class="wide"><table><thead><tr>{header}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def quoted(content: str, language: str) -> str:
    """Text of a suite's language, already HTML: fonts and direction follow the language."""
    return f'<div lang="{text(language)}" dir="auto">{content}</div>'


def marked(before: str, after: str) -> str:
    """`after` with its changes marked; the style sheet gives each mark a sign besides a color."""
    if not after.strip():
        return "<em>(empty)</em>"
    parts = []
    for run in diff.words(before, after):
        tag = _TAGS.get(run.mark)
        shown = text(run.text) if tag is None else f"<{tag}>{text(run.text)}</{tag}>"
        parts.append(("" if run.is_glued else " ") + shown)
    return "".join(parts).strip()


def percent(rate: float | None) -> str:
    """A share as per cent."""
    return "-" if rate is None else f"{100.0 * rate:.1f} %"


def count(value: int | None) -> str:
    """A number that may not be there."""
    return "-" if value is None else f"{value:,}"
