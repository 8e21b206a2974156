"""The plot puts every interval on the side of its threshold where the numbers put it."""

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals import forest
from evals.verdict import Basis, GateResult, GateStatus

SVG = "{http://www.w3.org/2000/svg}"


def result(lower: float, estimate: float, upper: float, threshold: float) -> GateResult:
    return GateResult(
        name="errors/<spelling>",
        suite="errors",
        suite_digest="sha256:0",
        tag="spelling",
        n=100,
        basis=Basis.CHAMPION,
        status=GateStatus.PASS if lower > threshold else GateStatus.UNDERPOWERED,
        reason="",
        threshold_points=threshold,
        estimate_points=estimate,
        lower_points=lower,
        upper_points=upper,
    )


def geometry(svg: str) -> tuple[float, float, float, float]:
    """x of lower bound, dot, upper bound and threshold of the only row."""
    root = ET.fromstring(svg)
    lines = list(root.iter(f"{SVG}line"))
    dot = next(root.iter(f"{SVG}circle"))
    bar = next(line for line in lines if line.get("stroke-width") == "3")
    threshold = next(line for line in lines if line.get("stroke-dasharray"))
    values = (bar.get("x1"), dot.get("cx"), bar.get("x2"), threshold.get("x1"))
    return tuple(float(value or "nan") for value in values)  # type: ignore[return-value]


points = st.floats(-100, 100)


@given(st.tuples(points, points, points).map(sorted), st.floats(-10, -0.1))
def test_positions_keep_the_order_of_the_numbers(numbers: list[float], threshold: float) -> None:
    lower, estimate, upper = numbers
    x_low, x_dot, x_high, x_threshold = geometry(
        forest.forest_svg([result(lower, estimate, upper, threshold)])
    )
    assert x_low <= x_dot <= x_high
    if lower > threshold:
        assert x_low >= x_threshold
    else:
        assert x_low <= x_threshold


def test_the_plot_is_valid_xml_and_escapes_names() -> None:
    svg = forest.forest_svg([result(-1.0, 0.0, 1.0, -2.0)])
    assert "&lt;spelling&gt;" in svg
    assert ET.fromstring(svg).tag == f"{SVG}svg"


def test_results_without_an_interval_are_left_out() -> None:
    missing = GateResult(
        name="a",
        suite="a",
        suite_digest="sha256:0",
        tag=None,
        n=3,
        basis=Basis.FLOOR,
        status=GateStatus.UNDERPOWERED,
        reason="",
        threshold_points=95.0,
    )
    root = ET.fromstring(forest.forest_svg([missing]))
    assert list(root.iter(f"{SVG}circle")) == []


@pytest.mark.parametrize("spread", [0.0, 1e-3, 0.4, 7.0, 180.0])
def test_an_axis_has_a_readable_number_of_ticks(spread: float) -> None:
    svg = forest.forest_svg([result(-spread / 2, 0.0, spread / 2, -0.001)])
    ticks = re.findall(r'text-anchor="middle" fill="#57606a">', svg)
    assert 4 <= len(ticks) <= 12
