"""Policies: bounds, overrides, digest."""

import dataclasses
from typing import Any

import pytest

from evals.policy import Floors, GatePolicy, SuiteOverride
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
    ]
    digests = {dataclasses.replace(policy, **change).digest for change in changes}
    assert len(digests | {policy.digest}) == len(changes) + 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"margin_points": 0.0}, "margin_points must be above 0"),
        ({"margin_points": -2.0}, "margin_points must be above 0"),
        ({"tag_margin_points": 101.0}, "tag_margin_points must be"),
        ({"alpha": 0.0005}, "alpha must be above 0.001"),
        ({"overrides": (SuiteOverride(suite="a"), SuiteOverride(suite="a"))}, "each suite once"),
    ],
)
def test_values_out_of_bounds_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GatePolicy(**arguments)


def test_a_floor_is_a_share() -> None:
    with pytest.raises(ValueError, match=r"floor clean must be 0\.\.1"):
        Floors(clean=95.0)
