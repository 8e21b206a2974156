"""Policies: bounds, overrides, digest."""

import dataclasses
import math
from typing import Any

import pytest

from evals.policy import Direction, Family, Floors, GatePolicy, SuiteOverride, Unit
from evals.suite import SuiteKind


def test_overrides_win_over_the_policy_field_by_field() -> None:
    policy = GatePolicy(
        margin_points=2.0,
        tag_margin_points=5.0,
        overrides=(SuiteOverride(suite="clean", margin_points=0.5),),
    )
    assert policy.margin("errors", is_tag=False) == 2.0
    assert policy.margin("errors", is_tag=True) == 5.0
    assert policy.margin("clean", is_tag=False) == 0.5
    assert policy.margin("clean", is_tag=True) == 5.0


def test_a_tag_takes_the_margin_of_its_suite_unless_told_otherwise() -> None:
    policy = GatePolicy(
        margin_points=2.0,
        tag_margin_points=None,
        overrides=(
            SuiteOverride(suite="a", margin_points=3.0),
            SuiteOverride(suite="b", tag_margin_points=4.0),
        ),
    )
    assert policy.margin("a", is_tag=True) == 3.0
    assert policy.margin("b", is_tag=True) == 4.0
    assert policy.margin("c", is_tag=True) == 2.0


def test_floors_go_by_kind_and_tag() -> None:
    policy = GatePolicy(floors=Floors(correction=0.8, clean=0.99, tag=0.7))
    assert policy.floor(SuiteKind.CORRECTION, is_tag=False) == 0.8
    assert policy.floor(SuiteKind.CLEAN, is_tag=False) == 0.99
    assert policy.floor(SuiteKind.CORRECTION, is_tag=True) == 0.7


def test_digest_changes_with_every_field() -> None:
    policy = GatePolicy()
    assert policy.digest == GatePolicy().digest
    changes: list[dict[str, Any]] = [
        {"margin_points": 1.0},
        {"alpha": 0.01},
        {"per_tag": False},
        {"tag_margin_points": 2.0},
        {"floors": Floors(tag=0.5)},
        {"overrides": (SuiteOverride(suite="a"),)},
        {"power": 0.9},
        {"max_false_positive_rate": 0.1},
        {"max_flip_rate": 0.1},
        {"families": (Family(name="f", suites=("a", "b")),)},
        {"optional_suites": ("a",)},
    ]
    digests = {dataclasses.replace(policy, **change).digest for change in changes}
    assert len(digests | {policy.digest}) == len(changes) + 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"margin_points": 0.0}, "margin_points must be at least 0.001"),
        ({"margin_points": -2.0}, "margin_points must be at least 0.001"),
        ({"tag_margin_points": 101.0}, "tag_margin_points must be"),
        ({"alpha": 0.0005}, "alpha must be above 0.001"),
        ({"overrides": (SuiteOverride(suite="a"), SuiteOverride(suite="a"))}, "each suite once"),
        ({"power": 1.0}, "power must be at least 0.5 and below 1"),
        ({"power": 0.2}, "power must be at least 0.5 and below 1"),
        ({"max_false_positive_rate": 2.0}, r"max_false_positive_rate must be 0\.\.1"),
        ({"max_flip_rate": -0.1}, r"max_flip_rate must be 0\.\.1"),
        ({"margin_points": 1e-300}, "margin_points must be at least 0.001"),
        ({"margin_points": math.nan}, "margin_points must be at least 0.001"),
        ({"max_flip_rate": 0.0}, "something never happens"),
        ({"max_false_positive_rate": 1e-300}, "max_false_positive_rate must be at least 1e-06"),
        (
            {
                "families": (
                    Family(name="f", suites=("a", "b")),
                    Family(name="f", suites=("c", "d")),
                )
            },
            "names of their own",
        ),
        (
            {
                "families": (
                    Family(name="f", suites=("a", "b")),
                    Family(name="g", suites=("b", "c")),
                )
            },
            "must not share a suite",
        ),
    ],
)
def test_values_out_of_bounds_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GatePolicy(**arguments)


def test_a_floor_is_a_share() -> None:
    with pytest.raises(ValueError, match=r"floor clean must be 0\.\.1"):
        Floors(clean=95.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": 0.9}, "override a alpha must be"),
        ({"floor": 95.0}, r"override a floor must be 0\.\.1"),
        ({"tag_floor": -1.0}, r"override a tag_floor must be 0\.\.1"),
        ({"metric": "gleu", "max_flip_rate": 0.1}, "leave the metric out"),
        ({"gated": False}, "needs the metric"),
    ],
)
def test_an_override_out_of_bounds_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SuiteOverride(suite="a", **arguments)


@pytest.mark.parametrize("name", ["", " ", "a\nb", "\x1b[2J", "\u202eabc", "a" * 101])
def test_a_family_has_a_name_that_can_be_shown(name: str) -> None:
    with pytest.raises(ValueError, match="gate family name"):
        Family(name=name, suites=("a", "b"))


@pytest.mark.parametrize("suites", [(), ("a",), ("a", "a")])
def test_a_family_is_of_two_suites_or_more(suites: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="two suites or more"):
        Family(name="f", suites=suites)


def test_what_is_said_of_a_metric_wins_over_what_is_said_of_its_suite() -> None:
    policy = GatePolicy(
        overrides=(
            SuiteOverride(suite="a", alpha=0.1, margin_points=3.0, unit=Unit.EXAMPLE),
            SuiteOverride(suite="a", metric="gleu", margin_points=1.0, direction=Direction.HIGHER),
        )
    )
    said = policy.override("a", "gleu")
    assert (said.margin_points, said.alpha, said.unit) == (1.0, 0.1, Unit.EXAMPLE)
    assert policy.override("a", "exact").margin_points == 3.0
    assert policy.override("a", "exact").direction is None
    assert policy.override("b", "gleu").margin_points is None


def test_the_margin_a_suite_proposes_yields_to_an_override_only() -> None:
    policy = GatePolicy(overrides=(SuiteOverride(suite="a", metric="gleu", margin_points=0.5),))
    assert policy.margin("a", is_tag=False, metric="gleu", hint=1.5) == 0.5
    assert policy.margin("b", is_tag=False, metric="gleu", hint=1.5) == 1.5
    assert policy.margin("b", is_tag=False, metric="gleu") == 2.0
    assert policy.margin("b", is_tag=True, metric="gleu", hint=1.5) == 5.0


def test_the_flip_limit_of_a_suite_wins_over_the_policys() -> None:
    policy = GatePolicy(max_flip_rate=0.1, overrides=(SuiteOverride(suite="a", max_flip_rate=0.2),))
    assert policy.flip_rate("a") == 0.2
    assert policy.flip_rate("b") == 0.1


def test_plain_data_is_what_json_holds() -> None:
    policy = GatePolicy(families=(Family(name="f", suites=("a", "b")),))
    assert policy.as_dict()["families"][0]["suites"] == ["a", "b"]
    assert policy.as_dict()["families"][0]["unit"] == "auto"
