"""A forest plot as SVG text: each gate's estimate and interval beside its threshold.

Two panels, because a difference around zero and a share near 100 % do not fit one axis. Colors
repeat what position and words already say, so the plot reads in gray and without sight too.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

from evals.verdict import Basis, GateResult, GateStatus

COLORS = {
    GateStatus.PASS: "#1a7f37",
    GateStatus.FAIL: "#cf222e",
    GateStatus.UNDERPOWERED: "#9a6700",
}
TITLES = {
    Basis.CHAMPION: "Difference to the champion, percentage points",
    Basis.FLOOR: "Right answers, per cent",
    Basis.CEILING: "Unwanted answers, per cent",
}
WIDTH_PX = 900
_ROW_PX = 26
_LABEL_PX = 270
_VALUE_PX = 220
_HEAD_PX = 30
_FOOT_PX = 30
_FONT = 'font-family="system-ui, sans-serif" font-size="12"'


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """Maps points to pixels between two ends."""

    low: float
    high: float

    def x(self, value: float) -> float:
        plot_px = WIDTH_PX - _LABEL_PX - _VALUE_PX
        share = (value - self.low) / (self.high - self.low)
        return round(_LABEL_PX + plot_px * min(max(share, 0.0), 1.0), 1)

    def ticks(self) -> list[float]:
        """Five to ten round numbers."""
        step = 10.0 ** math.floor(math.log10(self.high - self.low))
        while (self.high - self.low) / step < 5:
            step /= 2.0
        first = math.ceil(self.low / step)
        return [i * step for i in range(first, math.floor(self.high / step) + 1)]


def forest_svg(results: Sequence[GateResult]) -> str:
    """The plot of every result that has an interval; results keep their order within a panel."""
    panels = [
        [r for r in results if r.basis is basis and r.estimate_points is not None]
        for basis in Basis
    ]
    drawn, height = [], 0
    for panel in panels:
        if panel:
            drawn.append(f'<g transform="translate(0 {height})">{_panel(panel)}</g>')
            height += _HEAD_PX + _ROW_PX * len(panel) + _FOOT_PX
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH_PX} {max(height, 1)}" '
        f'width="{WIDTH_PX}" height="{max(height, 1)}" role="img" {_FONT}>'
        "<title>Interval of each gate beside its threshold</title>"
        f"{''.join(drawn)}</svg>"
    )


def _panel(results: Sequence[GateResult]) -> str:
    axis = _axis(results)
    basis = results[0].basis
    bottom = _HEAD_PX + _ROW_PX * len(results)
    parts = [f'<text x="{_LABEL_PX}" y="16" font-weight="600">{TITLES[basis]}</text>']
    parts += [_tick(axis, value, bottom) for value in axis.ticks()]
    if basis is Basis.CHAMPION:
        parts.append(_line(axis.x(0.0), _HEAD_PX, bottom, 'stroke="#57606a"'))
    parts += [_row(axis, r, _HEAD_PX + _ROW_PX * i) for i, r in enumerate(results)]
    return "".join(parts)


def _axis(results: Sequence[GateResult]) -> _Axis:
    values = [
        value
        for r in results
        for value in (r.lower_points, r.upper_points, r.threshold_points)
        if value is not None
    ]
    if results[0].basis is Basis.CHAMPION:
        values.append(0.0)
    room = max(max(values) - min(values), 0.5) * 0.05
    return _Axis(low=min(values) - room, high=max(values) + room)


def _tick(axis: _Axis, value: float, bottom: int) -> str:
    x = axis.x(value)
    label = f'<text x="{x}" y="{bottom + 16}" text-anchor="middle" fill="#57606a">{value:g}</text>'
    return _line(x, _HEAD_PX, bottom, 'stroke="#d0d7de"') + label


def _line(x: float, top: float, bottom: float, style: str) -> str:
    return f'<line x1="{x}" x2="{x}" y1="{top}" y2="{bottom}" {style}/>'


def _row(axis: _Axis, result: GateResult, top: int) -> str:
    lower, upper, estimate = result.lower_points, result.upper_points, result.estimate_points
    threshold = result.threshold_points
    if lower is None or upper is None or estimate is None or threshold is None:
        return ""
    color, middle = COLORS[result.status], top + _ROW_PX / 2
    value = f"{estimate:+.1f}" if result.basis is Basis.CHAMPION else f"{estimate:.1f}"
    text = f"{value} [{lower:.1f}, {upper:.1f}] {result.status}"
    return (
        f'<text x="{_LABEL_PX - 10}" y="{middle + 4}" text-anchor="end">'
        f"{html.escape(result.name)}</text>"
        + _line(
            axis.x(threshold),
            top + 3,
            top + _ROW_PX - 3,
            'stroke="#24292f" stroke-dasharray="3 2" stroke-width="1.5"',
        )
        + f'<line x1="{axis.x(lower)}" x2="{axis.x(upper)}" y1="{middle}" y2="{middle}" '
        f'stroke="{color}" stroke-width="3"/>'
        f'<circle cx="{axis.x(estimate)}" cy="{middle}" r="4.5" fill="{color}"/>'
        f'<text x="{WIDTH_PX - _VALUE_PX + 10}" y="{middle + 4}" fill="{color}">{text}</text>'
    )
