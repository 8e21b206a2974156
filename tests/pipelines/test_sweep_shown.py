"""A sweep in words and as a plot."""

from __future__ import annotations

import dataclasses
import json
import xml.etree.ElementTree as ET

import pytest

from evals.pace import Measured, Pace
from evals.verdict import GateStatus
from pipelines import sweep_plot, sweep_table
from pipelines.pick import Pick
from pipelines.sensitivity import sqnr_db
from pipelines.sweep_row import Difference, Row
from tests.pipelines.sweep_world import GROUPS, sensitivity

SVG = "{http://www.w3.org/2000/svg}"


def pace(value: float) -> Pace:
    def around(middle: float) -> Measured:
        return Measured(value=middle, lower=0.9 * middle, upper=1.1 * middle)

    return Pace(
        requests_per_s=around(100 * value), busy_ms_per_request=around(2 / value),
        speedup=around(value),
    )  # fmt: skip


def row(name: str, value: float | None, status: GateStatus | None, points: float = -0.5) -> Row:
    return Row(
        name=name, version=2, recipe="fp8-channel-attn", excluded=(), size_bytes=3 << 20,
        weight_error=0.026, status=status, reason="",
        worst=None
        if status is None
        else Difference(gate="small", points=points, lower=points - 1, upper=points + 1),
        pace=None if value is None else pace(value),
    )  # fmt: skip


ROWS = (
    dataclasses.replace(row("parent", 1.0, None), size_bytes=4 << 20, weight_error=None),
    row("a<b>", 0.5, GateStatus.PASS),
    dataclasses.replace(row("c", 0.4, GateStatus.FAIL), reason="small: lost 3 points"),
    dataclasses.replace(row("d", 0.6, GateStatus.UNDERPOWERED), excluded=("model.layers.0.mlp",)),
    dataclasses.replace(row("online-fp8", None, None), reason="could not be run here: no kernel"),
)


def test_the_table_says_what_was_measured_and_leaves_out_what_was_not() -> None:
    told = "\n".join(sweep_table.lines(ROWS, unit="CPU"))
    assert "CPU ms/request" in told
    assert "a<b>        pass" in told
    (line,) = (line for line in told.splitlines() if line.startswith("a<b>"))
    assert line.split("  ")[-1] == "3.00"
    for cell in ("-0.50 [-1.50, +0.50]", "50 [45, 55]", "0.50 [0.45, 0.55]", "4.00 [3.60, 4.40]"):
        assert f"  {cell}  " in line
    assert "d leaves in BF16: model.layers.0.mlp" in told
    assert "c: small: lost 3 points" in told
    assert "online-fp8  not run" in told
    assert "online-fp8: could not be run here: no kernel" in told


def test_columns_are_plain_and_none_where_nothing_was_measured() -> None:
    columns = sweep_table.columns(ROWS)
    assert {len(column) for column in columns.values()} == {5}
    json.dumps(columns)
    assert columns["speedup"][-1] is None
    assert columns["worst_points"][0] is None
    assert columns["gate"] == [None, "pass", "fail", "underpowered", None]
    assert columns["on_front"] == [True, False, False, True, False]


def test_on_a_cpu_it_is_said_that_fp8_is_slower() -> None:
    said = list(sweep_table.notes(ROWS, on_cpu=True))
    assert said == [sweep_table.SLOWER_SENTENCE, sweep_table.CPU_SENTENCE]
    unsure = dataclasses.replace(pace(0.5), speedup=Measured(value=0.5, lower=0.2, upper=1.1))
    by_time = (ROWS[0], dataclasses.replace(ROWS[1], pace=unsure))
    assert next(iter(sweep_table.notes(by_time, on_cpu=True))) == sweep_table.SLOWER_SENTENCE
    faster = [*ROWS, row("e", 1.0, GateStatus.PASS)]
    assert list(sweep_table.notes(faster, on_cpu=True)) == [sweep_table.CPU_SENTENCE]
    assert list(sweep_table.notes(ROWS, on_cpu=False)) == []


def test_layers_are_listed_by_what_they_cost() -> None:
    lines = list(sweep_table.layer_lines(sensitivity()))
    assert [line.split()[0] for line in lines[1:4]] == list(GROUPS[::-1])
    assert "2.00 (34.0)" in lines[1]
    columns = sweep_table.layer_columns(sensitivity())
    assert columns["layer_group"][0] == GROUPS[-1]
    assert columns["weights"][:2] == ["channel", "tensor"]


def test_sqnr_is_twenty_decibels_for_a_tenth() -> None:
    assert sqnr_db(0.1) == pytest.approx(20.0)
    assert sqnr_db(0.0) == float("inf")


def test_the_plot_is_one_svg_that_needs_nothing_else_and_reads_without_sight() -> None:
    text = sweep_plot.pareto_svg(ROWS)
    root = ET.fromstring(text)
    assert root.get("role") == "img"
    described = root.findtext(f"{SVG}desc")
    assert described is not None
    assert "a<b>: 3,145,728 bytes, 0.50 [0.45, 0.55] of the speed" in described
    assert "online-fp8: 3,145,728 bytes, not run." in described
    assert "href" not in text
    assert "<script" not in text
    # Four rows were measured: each is a mark in both panels and a line in the list.
    assert len(root.findall(f"{SVG}path")) == 8
    shapes = {path.get("d") for path in root.findall(f"{SVG}path")}
    assert len(shapes) == 4  # told apart by shape, not by color alone


def test_marks_lie_inside_their_panels() -> None:
    root = ET.fromstring(sweep_plot.pareto_svg(ROWS))
    for path in root.findall(f"{SVG}path"):
        x, y = map(float, (path.get("transform") or "")[10:-1].split())
        assert any(
            left <= x <= left + sweep_plot.PANEL_PX
            for left in (
                sweep_plot.LEFT_PX,
                sweep_plot.LEFT_PX + sweep_plot.PANEL_PX + sweep_plot.GAP_PX,
            )
        )
        assert sweep_plot.TOP_PX <= y <= sweep_plot.TOP_PX + sweep_plot.PANEL_PX


def test_nothing_measured_is_still_a_plot() -> None:
    ET.fromstring(sweep_plot.pareto_svg(ROWS[-1:]))


def test_the_answer_is_a_sentence() -> None:
    assert sweep_table.answer(Pick(name=None, reason="why")) == (
        "picked: none, the parent stays as it is; why"
    )
    page = sweep_table.markdown(ROWS, Pick(name="d", reason="why"), ["note"], unit="GPU")
    assert page.startswith("**picked: d; why**")
    assert "GPU ms/request" in page
