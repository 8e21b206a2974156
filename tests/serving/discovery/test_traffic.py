"""Traffic plans add up, come back as they were, and obey the newest owner."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.discovery import errors, traffic

NAMES = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=20)


@st.composite
def model_traffics(draw: st.DrawFn, model: str) -> traffic.ModelTraffic:
    cuts = sorted(draw(st.lists(st.integers(0, 100), max_size=4)))
    percents = [high - low for low, high in zip([0, *cuts], [*cuts, 100], strict=True)]
    return traffic.ModelTraffic(
        model=model,
        weights=tuple(
            traffic.Weight(version=version, percent=percent)
            for version, percent in enumerate(percents, start=1)
        ),
    )


@st.composite
def plans(draw: st.DrawFn) -> traffic.TrafficPlan:
    names = draw(st.lists(NAMES, unique=True, max_size=3))
    models = tuple(draw(model_traffics(name)) for name in names)
    return traffic.TrafficPlan(epoch=draw(st.integers(0, 10**9)), models=models)


@given(plans())
def test_a_plan_comes_back_as_it_was(plan: traffic.TrafficPlan) -> None:
    assert traffic.from_json(json.loads(json.dumps(traffic.to_json(plan)))) == plan


@given(plans(), plans())
def test_an_older_owner_is_refused_and_any_other_is_not(
    current: traffic.TrafficPlan, new: traffic.TrafficPlan
) -> None:
    if new.epoch < current.epoch:
        with pytest.raises(errors.StaleEpoch):
            traffic.apply(current, new)
    else:
        assert traffic.apply(current, new) is new


def test_anything_may_follow_nothing() -> None:
    plan = traffic.TrafficPlan(epoch=0)
    assert traffic.apply(None, plan) is plan


@pytest.mark.parametrize("percents", [(), (99,), (60, 60), (100, 1)])
def test_percents_must_add_up_to_100(percents: tuple[int, ...]) -> None:
    weights = tuple(traffic.Weight(version=v, percent=p) for v, p in enumerate(percents, start=1))
    with pytest.raises(ValueError, match=rf"add up to 100, found {sum(percents)}"):
        traffic.ModelTraffic(model="m", weights=weights)


@pytest.mark.parametrize(("version", "percent"), [(0, 1), (-1, 1), (1, -1), (1, 101)])
def test_weights_out_of_range_are_refused(version: int, percent: int) -> None:
    with pytest.raises(ValueError, match="found"):
        traffic.Weight(version=version, percent=percent)


@pytest.mark.parametrize("name", ["", "two\nlines", "n\u00e4me"])
def test_a_name_that_cannot_be_a_header_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="printable ASCII"):
        traffic.whole(name, 1)


def test_nothing_is_listed_twice() -> None:
    half = traffic.Weight(version=1, percent=50)
    with pytest.raises(ValueError, match=r"\[1\] of 'm' are listed more than once"):
        traffic.ModelTraffic(model="m", weights=(half, half))
    with pytest.raises(ValueError, match=r"\['m'\] are listed more than once"):
        traffic.TrafficPlan(epoch=1, models=(traffic.whole("m", 1), traffic.whole("m", 2)))


def test_replacing_one_model_keeps_the_order_and_the_others() -> None:
    plan = traffic.TrafficPlan(epoch=1, models=(traffic.whole("a", 1), traffic.whole("b", 1)))
    changed = plan.with_model(traffic.whole("a", 2), epoch=2)
    assert changed.models == (traffic.whole("a", 2), traffic.whole("b", 1))
    assert changed.epoch == 2
    assert plan.with_model(traffic.whole("c", 1), epoch=1).models[-1].model == "c"


def test_a_stored_plan_is_loaded_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "edge" / "traffic.json"
    assert traffic.load(path) is None
    for version in (1, 2):
        plan = traffic.TrafficPlan(epoch=version, models=(traffic.whole("m", version),))
        traffic.store(path, plan)
        assert traffic.load(path) == plan
    assert [entry.name for entry in path.parent.iterdir()] == ["traffic.json"]


VALID = traffic.to_json(traffic.TrafficPlan(epoch=1, models=(traffic.whole("m", 1),)))


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {**VALID, "format": "other"},
        {**VALID, "epoch": "1"},
        {**VALID, "epoch": True},
        {**VALID, "epoch": -1},
        {**VALID, "models": [{"model": "m"}]},
        {**VALID, "models": [{"model": 3, "weights": []}]},
        {**VALID, "models": [{"model": "m", "weights": [{"version": 1, "percent": 50.5}]}]},
        {**VALID, "models": [{"model": "m", "weights": [{"version": 1, "percent": 99}]}]},
        {**VALID, "models": "m"},
    ],
)
def test_a_damaged_plan_is_refused_as_such(data: Any) -> None:
    with pytest.raises(errors.TrafficPlanInvalid):
        traffic.from_json(data)


def test_a_file_that_is_no_json_is_named(tmp_path: Path) -> None:
    path = tmp_path / "traffic.json"
    path.write_bytes(b'{"epoch": 1')
    with pytest.raises(errors.TrafficPlanInvalid, match=r"traffic\.json is not JSON"):
        traffic.load(path)


class TestOwners:
    """Each model has one owner at a time, told apart by epochs."""

    def test_a_new_owner_shuts_the_old_one_out(self) -> None:
        first, plan = traffic.claim(None, "a")
        plan = traffic.steer(plan, "a", traffic.whole("a", 1), epoch=first)
        second, plan = traffic.claim(plan, "a")
        with pytest.raises(errors.StaleEpoch, match="taken over"):
            traffic.steer(plan, "a", traffic.whole("a", 2), epoch=first)
        with pytest.raises(errors.StaleEpoch):
            traffic.steer(plan, "a", None, epoch=first)
        plan = traffic.steer(plan, "a", traffic.whole("a", 3), epoch=second)
        assert plan.model("a") == dataclasses.replace(traffic.whole("a", 3), epoch=second)

    def test_owners_of_other_models_are_left_alone(self) -> None:
        first, plan = traffic.claim(None, "a")
        plan = traffic.steer(plan, "a", traffic.whole("a", 1), epoch=first)
        other, plan = traffic.claim(plan, "b")
        plan = traffic.steer(plan, "b", traffic.whole("b", 1), epoch=other)
        plan = traffic.steer(plan, "a", traffic.whole("a", 2), epoch=first)
        assert {m.model: m.weights[0].version for m in plan.models} == {"a": 2, "b": 1}
        assert plan.epoch == other

    def test_owners_survive_the_file(self, tmp_path: Path) -> None:
        epoch, plan = traffic.claim(None, "a")
        plan = traffic.steer(plan, "a", traffic.whole("a", 1), epoch=epoch)
        traffic.store(tmp_path / "traffic.json", plan)
        assert traffic.load(tmp_path / "traffic.json") == plan
