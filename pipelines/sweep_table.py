"""A sweep in words: the table of variants, of layer errors, and what to make of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from evals.pace import Measured, Pace
from pipelines.pick import Pick, pareto
from pipelines.sensitivity import LayerError, Sensitivity
from pipelines.sweep_row import Row

MIB = 1 << 20
HEADER = (
    "variant", "gate", "worst suite, points", "requests/s", "speed / parent", "ms/request", "MiB",
    "front",
)  # fmt: skip
CPU_SENTENCE = (
    "A CPU has no FP8 arithmetic: what is measured here speaks for quality and size, and for speed "
    "only on this machine. A speed-up is a matter of GPUs with FP8 tensor cores."
)
SLOWER_SENTENCE = (
    "On this CPU FP8 is slower than BF16: every variant makes fewer requests/s than its parent, or "
    "takes more CPU time for each."
)
SHOWN_GROUPS = 6


def columns(rows: Sequence[Row]) -> dict[str, list[object]]:
    """The table for MLflow; what was not measured is None."""
    front = pareto([row.candidate for row in rows])
    made: dict[str, list[object]] = {name: [] for name in _COLUMNS}
    for row in rows:
        pace, worst = row.pace, row.worst
        values = (
            row.name, row.version, row.recipe, ", ".join(row.excluded),
            None if row.status is None else str(row.status), row.reason,
            worst and worst.gate, worst and worst.points, worst and worst.lower,
            worst and worst.upper, *_three(pace.requests_per_s if pace else None),
            *_three(pace.busy_ms_per_request if pace else None),
            *_three(pace.speedup if pace else None),
            row.size_bytes, row.weight_error, row.name in front,
        )  # fmt: skip
        for name, value in zip(_COLUMNS, values, strict=True):
            made[name].append(value)
    return made


_COLUMNS = (
    "variant", "version", "recipe", "excluded", "gate", "reason", "worst_suite",
    "worst_points", "worst_lower", "worst_upper", "requests_per_s", "requests_per_s_lower",
    "requests_per_s_upper", "busy_ms_per_request", "busy_ms_lower", "busy_ms_upper", "speedup",
    "speedup_lower", "speedup_upper", "size_bytes", "weight_error", "on_front",
)  # fmt: skip


def _three(measured: Measured | None) -> tuple[float | None, float | None, float | None]:
    if measured is None:
        return None, None, None
    return measured.value, measured.lower, measured.upper


def layer_columns(found: Sensitivity) -> dict[str, list[object]]:
    """Errors by layer group and granularity, for MLflow; the most sensitive group first."""
    rows = sorted(found.errors, key=lambda e: (-found.divergence[e.group], e.group, e.weights))
    return {
        "layer_group": [e.group for e in rows],
        "weights": [e.weights for e in rows],
        "weight_relative_error": [e.weight_error for e in rows],
        "weight_sqnr_db": [_finite(e.weight_sqnr_db) for e in rows],
        "output_relative_error": [e.output_error for e in rows],
        "output_sqnr_db": [_finite(e.output_sqnr_db) for e in rows],
        "divergence_nats": [found.divergence[e.group] for e in rows],
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def lines(rows: Sequence[Row], *, unit: str) -> Iterator[str]:
    """The variants for people; `unit` is what milliseconds are of, CPU or GPU."""
    front = pareto([row.candidate for row in rows])
    head = tuple(f"{unit} {text}" if text == "ms/request" else text for text in HEADER)
    yield from aligned([head, *(_cells(row, row.name in front) for row in rows)])
    for row in rows:
        if row.excluded:
            yield f"{row.name} leaves in BF16: {', '.join(row.excluded)}"
    for row in rows:
        if row.reason:
            yield f"{row.name}: {row.reason}"


def _cells(row: Row, on_front: bool) -> tuple[str, ...]:
    worst, pace = row.worst, row.pace
    status = "" if row.is_parent else "not run" if row.status is None else str(row.status)
    return (
        row.name,
        status,
        f"{worst.points:+.2f} [{worst.lower:+.2f}, {worst.upper:+.2f}]" if worst else "",
        _interval(pace.requests_per_s, 0) if pace else "",
        _interval(pace.speedup, 2) if pace and not row.is_parent else "",
        _interval(pace.busy_ms_per_request, 2) if pace else "",
        f"{row.size_bytes / MIB:.2f}",
        "*" if on_front else "",
    )


def _interval(found: Measured, digits: int) -> str:
    return f"{found.value:.{digits}f} [{found.lower:.{digits}f}, {found.upper:.{digits}f}]"


def layer_lines(found: Sensitivity) -> Iterator[str]:
    """The most sensitive groups, and per tensor beside per channel over all of them."""
    by_key = {(e.group, e.weights): e for e in found.errors}
    head = ("layer group", "nats/token", "weights t", "weights c", "outputs t", "outputs c")
    rows = [
        (
            group,
            f"{found.divergence[group]:.2e}",
            *_sqnr(by_key[group, "tensor"], by_key[group, "channel"]),
        )
        for group in found.ranked[:SHOWN_GROUPS]
    ]
    yield from aligned([head, *rows])
    left = len(found.ranked) - SHOWN_GROUPS
    more = f"; {left} less sensitive groups are in the table" if left > 0 else ""
    yield (
        "relative error in per cent and SQNR in dB, t per tensor, c per channel; divergence with "
        f"that group alone in FP8, over {found.tokens:,} tokens{more}"
    )


def _sqnr(tensor: LayerError, channel: LayerError) -> tuple[str, ...]:
    return (
        _error(tensor.weight_error, tensor.weight_sqnr_db),
        _error(channel.weight_error, channel.weight_sqnr_db),
        _error(tensor.output_error, tensor.output_sqnr_db),
        _error(channel.output_error, channel.output_sqnr_db),
    )


def _error(relative: float, sqnr_db: float) -> str:
    return f"{100 * relative:.2f} ({sqnr_db:.1f})"


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Cells in columns as wide as they need."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def notes(rows: Sequence[Row], *, on_cpu: bool) -> Iterator[str]:
    """What a reader must know of the numbers."""
    if not on_cpu:
        return
    parent = next((row.pace for row in rows if row.is_parent), None)
    paces = [row.pace for row in rows if not row.is_parent and row.pace is not None]
    if parent is not None and paces and all(_is_slower(pace, parent) for pace in paces):
        yield SLOWER_SENTENCE
    yield CPU_SENTENCE


def _is_slower(pace: Pace, parent: Pace) -> bool:
    """Shown by its requests/s, or by CPU time, which a busy machine disturbs less."""
    busy = pace.busy_ms_per_request.lower > parent.busy_ms_per_request.upper
    return pace.speedup.upper < 1.0 or busy


def answer(picked: Pick) -> str:
    """The pick in one sentence."""
    who = picked.name if picked.name is not None else "none, the parent stays as it is"
    return f"picked: {who}; {picked.reason}"


def markdown(rows: Sequence[Row], picked: Pick, said: Sequence[str], *, unit: str) -> str:
    """The same for the run's page."""
    body = "\n".join(lines(rows, unit=unit))
    told = "".join(f"\n{text}\n" for text in said)
    return f"**{answer(picked)}**\n\n```\n{body}\n```\n{told}"
