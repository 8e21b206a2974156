"""A sweep as SVG text: speed against size, and speed against quality, with their intervals.

Marks differ in shape by what the gate says and every point is numbered and listed, so the plot
reads in gray; its description says the same in words, so it reads without sight too.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from evals.verdict import GateStatus
from pipelines.pick import pareto
from pipelines.sweep_row import Row

PANEL_PX, GAP_PX, LEFT_PX, TOP_PX, FOOT_PX, LINE_PX = 330, 90, 60, 40, 50, 20
WIDTH_PX = LEFT_PX + 2 * PANEL_PX + GAP_PX + 30
MARKS = {
    GateStatus.PASS: ("#1a7f37", "M-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0"),
    GateStatus.FAIL: ("#cf222e", "M-5,-5L5,5M-5,5L5,-5"),
    GateStatus.UNDERPOWERED: ("#9a6700", "M0,-6L6,5L-6,5Z"),
    None: ("#57606a", "M-5,-5H5V5H-5Z"),
}
LEGEND = "circle: passes the gate; cross: fails; triangle: undecided; square: the parent"
_FONT = 'font-family="system-ui, sans-serif" font-size="12"'


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    """A row in one panel; ends of the intervals lie around the values."""

    number: int
    status: GateStatus | None
    x: float
    y: float
    x_ends: tuple[float, float]
    y_ends: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """Maps values to pixels; `start_px` may be right of or below `end_px`."""

    low: float
    high: float
    start_px: float
    end_px: float

    def px(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start_px + share * (self.end_px - self.start_px), 1)

    @property
    def ticks(self) -> tuple[float, ...]:
        return tuple(self.low + (self.high - self.low) * i / 4 for i in range(5))


def pareto_svg(rows: Sequence[Row]) -> str:
    """The plot of the rows whose speed was measured; the first of them is the parent."""
    shown = [row for row in rows if row.pace is not None]
    size = max((row.size_bytes for row in rows if row.is_parent), default=1)
    front = pareto([row.candidate for row in rows])
    height = TOP_PX + PANEL_PX + FOOT_PX + LINE_PX * (len(shown) + 2)
    panels = ""
    if shown:
        sizes = [_point(i, row, (row.size_bytes / size,) * 3) for i, row in enumerate(shown)]
        panels = _panel(sizes, LEFT_PX, "size / parent")
        judged = [_point(i, row, _quality(row)) for i, row in enumerate(shown)]
        panels += _panel(judged, LEFT_PX + PANEL_PX + GAP_PX, "worst suite, points to parent")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH_PX} {height}" '
        f'width="{WIDTH_PX}" height="{height}" role="img" {_FONT}>'
        "<title>Speed, size and quality of the variants</title>"
        f"<desc>{html.escape(description(rows))}</desc>"
        f'<text x="{LEFT_PX}" y="20" font-weight="600">Requests per second / parent, with 95 % '
        f"intervals</text>{panels}{_list(shown, front)}</svg>"
    )


def description(rows: Sequence[Row]) -> str:
    """The plot in words."""
    front = pareto([row.candidate for row in rows])
    told = [_sentence(row, row.name in front) for row in rows]
    return " ".join(told)


def _sentence(row: Row, on_front: bool) -> str:
    parts = [f"{row.size_bytes:,} bytes"]
    if row.pace is not None:
        speed = row.pace.speedup
        parts.append(f"{speed.value:.2f} [{speed.lower:.2f}, {speed.upper:.2f}] of the speed")
    if row.worst is not None:
        parts.append(f"worst suite {row.worst.points:+.2f} points ({row.worst.gate})")
    if row.status is not None:
        parts.append(f"gate: {row.status}")
    elif not row.is_parent:
        parts.append("not run")
    if on_front:
        parts.append("on the front")
    return f"{row.name}: {', '.join(parts)}."


def _quality(row: Row) -> tuple[float, float, float]:
    if row.worst is None:
        return 0.0, 0.0, 0.0
    return row.worst.points, row.worst.lower, row.worst.upper


def _point(number: int, row: Row, x: tuple[float, float, float]) -> _Point:
    assert row.pace is not None, "only rows with a pace are drawn"
    speed = row.pace.speedup
    return _Point(
        number=number + 1,
        status=row.status,
        x=x[0],
        y=speed.value,
        x_ends=(x[1], x[2]),
        y_ends=(speed.lower, speed.upper),
    )


def _panel(points: Sequence[_Point], left: float, title: str) -> str:
    bottom = TOP_PX + PANEL_PX
    across = _axis([v for p in points for v in (*p.x_ends, p.x)], left, left + PANEL_PX)
    up = _axis([1.0, *(v for p in points for v in (*p.y_ends, p.y))], bottom, TOP_PX)
    parts = [
        f'<rect x="{left}" y="{TOP_PX}" width="{PANEL_PX}" height="{PANEL_PX}" fill="none" '
        'stroke="#d0d7de"/>',
        f'<text x="{left + PANEL_PX / 2}" y="{bottom + 36}" text-anchor="middle">{title}</text>',
        _line((left, up.px(1.0)), (left + PANEL_PX, up.px(1.0)), "#57606a", dashed=True),
    ]
    for value in across.ticks:
        parts.append(_label(across.px(value), bottom + 16, "middle", value))
    for value in up.ticks:
        parts.append(_label(left - 6, up.px(value) + 4, "end", value))
    parts += [_mark(point, across, up) for point in points]
    return "".join(parts)


def _axis(values: Sequence[float], start_px: float, end_px: float) -> _Axis:
    low, high = min(values), max(values)
    room = max(0.08 * (high - low), 0.01)
    return _Axis(low=low - room, high=high + room, start_px=start_px, end_px=end_px)


def _mark(point: _Point, across: _Axis, up: _Axis) -> str:
    color, path = MARKS[point.status]
    x, y = across.px(point.x), up.px(point.y)
    return (
        _line((across.px(point.x_ends[0]), y), (across.px(point.x_ends[1]), y), color)
        + _line((x, up.px(point.y_ends[0])), (x, up.px(point.y_ends[1])), color)
        + f'<path d="{path}" transform="translate({x} {y})" fill="{color}" stroke="{color}" '
        f'stroke-width="2"/><text x="{x + 8}" y="{y - 6}" fill="#24292f">{point.number}</text>'
    )


def _line(
    start: tuple[float, float], end: tuple[float, float], color: str, *, dashed: bool = False
) -> str:
    dashes = ' stroke-dasharray="3 2"' if dashed else ""
    return (
        f'<line x1="{start[0]}" y1="{start[1]}" x2="{end[0]}" y2="{end[1]}" stroke="{color}"'
        f"{dashes}/>"
    )


def _label(x: float, y: float, anchor: str, value: float) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="#57606a">{value:.2f}</text>'


def _list(shown: Sequence[Row], front: frozenset[str]) -> str:
    top = TOP_PX + PANEL_PX + FOOT_PX + LINE_PX
    lines = [
        f"{n}  {row.name}{' (on the front)' if row.name in front else ''}"
        for n, row in enumerate(shown, start=1)
    ]
    return "".join(
        f'<text x="{LEFT_PX}" y="{top + LINE_PX * i}">{html.escape(text)}</text>'
        for i, text in enumerate([*lines, LEGEND])
    )
