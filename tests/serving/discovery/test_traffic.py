"""Traffic plans add up, come back as they were, and obey the newest owner."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving import fence
from serving.discovery import errors, shares, traffic
from serving.errors import StaleEpoch

NAMES = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=20)
FRACTIONS = st.floats(shares.LEAST_FRACTION, 1.0)


@st.composite
def model_traffics(draw: st.DrawFn, model: str) -> traffic.ModelTraffic:
    cuts = sorted(draw(st.lists(st.integers(0, 100), max_size=4)))
    percents = [high - low for low, high in zip([0, *cuts], [*cuts, 100], strict=True)]
    alone = next((v for v, percent in enumerate(percents, start=1) if percent == 100), None)
    mirrored = st.integers(1, 9).filter(lambda version: version != alone)
    fractions = draw(st.dictionaries(mirrored, FRACTIONS, max_size=shares.MOST_MIRRORS))
    return traffic.ModelTraffic(
        model=model,
        weights=tuple(
            traffic.Weight(version=version, percent=percent)
            for version, percent in enumerate(percents, start=1)
        ),
        mirrors=tuple(traffic.Mirror(version=v, fraction=f) for v, f in fractions.items()),
    )


@st.composite
def plans(draw: st.DrawFn) -> traffic.TrafficPlan:
    names = draw(st.lists(NAMES, unique=True, max_size=3))
    models = tuple(draw(model_traffics(name)) for name in names)
    owners = draw(st.dictionaries(NAMES, st.tuples(st.integers(1, 9), st.text()), max_size=3))
    claims = tuple(fence.Claim(model=m, epoch=e, owner=o) for m, (e, o) in owners.items())
    return traffic.TrafficPlan(epoch=draw(st.integers(0, 10**9)), models=models, claims=claims)


@given(plans())
def test_a_plan_comes_back_as_it_was(plan: traffic.TrafficPlan) -> None:
    assert traffic.from_json(json.loads(json.dumps(traffic.to_json(plan)))) == plan


@given(plans(), plans())
def test_an_older_owner_is_refused_and_any_other_is_not(
    current: traffic.TrafficPlan, new: traffic.TrafficPlan
) -> None:
    offered = {claim.model: claim.epoch for claim in new.claims}
    back = [c for c in current.claims if offered.get(c.model, 0) < c.epoch]
    if new.epoch < current.epoch or back:
        with pytest.raises(StaleEpoch):
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
    changed = plan.with_model(traffic.whole("a", 2))
    assert changed.models == (traffic.whole("a", 2), traffic.whole("b", 1))
    assert plan.with_model(traffic.whole("c", 1)).models[-1].model == "c"


def test_a_stored_plan_is_loaded_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "edge" / "traffic.json"
    assert traffic.load(path) is None
    for version in (1, 2):
        plan = traffic.TrafficPlan(epoch=version, models=(traffic.whole("m", version),))
        traffic.store(path, plan)
        assert traffic.load(path) == plan
    assert [entry.name for entry in path.parent.iterdir()] == ["traffic.json"]


VALID = traffic.to_json(traffic.TrafficPlan(epoch=1, models=(traffic.whole("m", 1),)))


def mirrored(*items: Any) -> dict[str, Any]:
    """A plan whose only model has these mirrors, as a file says it."""
    return {**VALID, "models": [{**VALID["models"][0], "mirrors": list(items)}]}


def test_a_file_without_mirrors_has_none_and_a_whole_number_is_a_fraction() -> None:
    (old,) = VALID["models"]
    old = {key: value for key, value in old.items() if key != "mirrors"}
    assert traffic.from_json({**VALID, "models": [old]}) == traffic.from_json(VALID)
    (model,) = traffic.from_json(mirrored({"version": 2, "fraction": 1})).models
    assert model.mirrors == (traffic.Mirror(version=2, fraction=1.0),)


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
        mirrored({"version": 2}),
        mirrored({"version": "2", "fraction": 0.5}),
        mirrored({"version": 2, "fraction": "0.5"}),
        mirrored({"version": 2, "fraction": True}),
        mirrored({"version": 2, "fraction": float("nan")}),
        mirrored({"version": 1, "fraction": 0.5}),
        mirrored(*[{"version": 2, "fraction": 0.5}] * 2),
        {**VALID, "claims": [{"model": "m", "epoch": 0, "owner": "a"}]},
        {**VALID, "claims": [{"model": "m", "epoch": 1, "owner": 3}]},
        {**VALID, "claims": [{"model": "m", "epoch": 1}] * 2},
    ],
)
def test_a_damaged_plan_is_refused_as_such(data: Any) -> None:
    with pytest.raises(errors.TrafficPlanInvalid):
        traffic.from_json(data)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({**VALID, "model": []}, "unknown key model, did you mean models?"),
        ({**VALID, "models": [{**VALID["models"][0], "mirror": []}]}, "did you mean mirrors?"),
        (mirrored({"version": 2, "fractions": 1}), "models.mirrors.fractions, did you mean"),
        ({**VALID, "claims": [{"model": "m", "epochs": 1}]}, "claims.epochs, did you mean epoch?"),
    ],
)
def test_a_misspelled_key_of_a_plan_is_told_with_the_right_one(data: Any, told: str) -> None:
    with pytest.raises(errors.TrafficPlanInvalid) as refused:
        traffic.from_json(data)
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({**VALID, "models": ["m"]}, "each of models must be an object, found 'm'"),
        ({**VALID, "models": [{**VALID["models"][0], "weights": [[1, 100]]}]}, "models.weights"),
        (mirrored("b"), "each of models.mirrors must be an object, found 'b'"),
        ({**VALID, "claims": ["m"]}, "each of claims must be an object, found 'm'"),
    ],
)
def test_a_part_of_a_plan_that_is_no_object_is_told_as_such(data: Any, told: str) -> None:
    with pytest.raises(errors.TrafficPlanInvalid, match="must be an object") as refused:
        traffic.from_json(data)
    assert told in str(refused.value)


@pytest.mark.parametrize("content", [b'{"epoch": 1', b"", b"\xff", b"[" * 100_000])
def test_a_file_that_is_no_json_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "traffic.json"
    path.write_bytes(content)
    with pytest.raises(errors.TrafficPlanInvalid, match=r"traffic\.json is not JSON"):
        traffic.load(path)


def claim(model: str, epoch: int, owner: str = "me") -> fence.Claim:
    return fence.Claim(model=model, epoch=epoch, owner=owner)


class TestOwners:
    """Each model has one owner at a time, told apart by epochs."""

    def test_a_new_owner_shuts_the_old_one_out(self) -> None:
        plan = traffic.claim(None, claim("a", 4, "old"))
        plan = traffic.steer(plan, "a", traffic.whole("a", 1), epoch=4)
        plan = traffic.claim(plan, claim("a", 7, "new"))
        with pytest.raises(StaleEpoch, match="new has taken a over with epoch 7"):
            traffic.steer(plan, "a", traffic.whole("a", 2), epoch=4)
        with pytest.raises(StaleEpoch):
            traffic.steer(plan, "a", None, epoch=4)
        plan = traffic.steer(plan, "a", traffic.whole("a", 3), epoch=7)
        assert plan.model("a") == traffic.whole("a", 3)
        assert plan.claim("a") == claim("a", 7, "new")

    @pytest.mark.parametrize("late", [claim("a", 3), claim("a", 2), claim("a", 4, "other")])
    def test_a_claim_that_is_not_higher_is_refused(self, late: fence.Claim) -> None:
        plan = traffic.claim(None, claim("a", 4))
        with pytest.raises(StaleEpoch, match="me has taken a over with epoch 4"):
            traffic.claim(plan, late)

    def test_an_owner_may_claim_again_under_its_epoch(self) -> None:
        plan = traffic.claim(None, claim("a", 4))
        assert traffic.claim(plan, claim("a", 4)) == plan

    def test_owners_of_other_models_are_left_alone(self) -> None:
        plan = traffic.claim(None, claim("a", 1))
        plan = traffic.steer(plan, "a", traffic.whole("a", 1), epoch=1)
        plan = traffic.claim(plan, claim("b", 9))
        plan = traffic.steer(plan, "b", traffic.whole("b", 1), epoch=9)
        plan = traffic.steer(plan, "a", traffic.whole("a", 2), epoch=1)
        assert {m.model: m.weights[0].version for m in plan.models} == {"a": 2, "b": 1}
        assert plan.epoch == 9

    def test_an_owner_stays_when_the_traffic_goes(self) -> None:
        plan = traffic.claim(None, claim("a", 3))
        plan = traffic.steer(plan, "a", traffic.whole("a", 1), epoch=3)
        plan = traffic.steer(plan, "a", None, epoch=3)
        assert plan.models == ()
        with pytest.raises(StaleEpoch):
            traffic.steer(plan, "a", traffic.whole("a", 1), epoch=2)

    def test_a_plan_without_an_owner_that_was_in_force_is_refused(self) -> None:
        """Somebody wrote around the lock, or brought an old file back."""
        plan = traffic.claim(None, claim("a", 3))
        with pytest.raises(StaleEpoch, match="with epoch 3"):
            traffic.apply(plan, traffic.TrafficPlan(epoch=3))

    def test_owners_survive_the_file(self, tmp_path: Path) -> None:
        plan = traffic.claim(None, claim("b", 2))
        plan = traffic.claim(plan, claim("a", 5))
        plan = traffic.steer(plan, "a", traffic.whole("a", 1), epoch=5)
        traffic.store(tmp_path / "traffic.json", plan)
        assert traffic.load(tmp_path / "traffic.json") == plan

    def test_a_file_of_before_owners_had_names_still_keeps_older_ones_out(self) -> None:
        weights = [{"version": 1, "percent": 100}]
        old = {
            "format": traffic.FORMAT, "epoch": 6,
            "models": [{"model": "a", "epoch": 6, "weights": weights},
                       {"model": "b", "epoch": 0, "weights": weights}],
        }  # fmt: skip
        plan = traffic.from_json(old)
        assert plan.claims == (claim("a", 6, ""),)
        with pytest.raises(StaleEpoch, match="an owner that left no name"):
            traffic.claim(plan, claim("a", 6))
        assert traffic.claim(plan, claim("a", 7)).claim("a") == claim("a", 7)

    def test_the_epoch_also_lies_where_older_releases_look_for_it(self) -> None:
        plan = traffic.steer(None, "a", traffic.whole("a", 1), epoch=5)
        assert traffic.to_json(plan)["models"][0]["epoch"] == 5


class TestMirrors:
    """Whom a model's owner has copies sent to, apart from who answers."""

    def plan(self) -> traffic.TrafficPlan:
        plan = traffic.claim(None, claim("a", 4))
        plan = traffic.steer(plan, "a", traffic.whole("a", 1), epoch=4)
        return traffic.mirror(plan, "a", {2: 0.1}, epoch=4)

    def fractions(self, plan: traffic.TrafficPlan) -> dict[int, float]:
        found = plan.model("a")
        return {m.version: m.fraction for m in found.mirrors} if found is not None else {}

    def test_setting_mirrors_replaces_them_and_leaves_the_shares(self) -> None:
        plan = traffic.mirror(self.plan(), "a", {3: 1.0}, epoch=4)
        assert self.fractions(plan) == {3: 1.0}
        assert self.fractions(traffic.mirror(plan, "a", {}, epoch=4)) == {}
        found = plan.model("a")
        assert found is not None
        assert found.weights == traffic.whole("a", 1).weights

    def test_a_former_owner_cannot_mirror(self) -> None:
        plan = traffic.claim(self.plan(), claim("a", 5, "new"))
        with pytest.raises(StaleEpoch, match="new has taken a over"):
            traffic.mirror(plan, "a", {}, epoch=4)
        assert self.fractions(plan) == {2: 0.1}

    def test_the_mirror_lives_through_a_rollout_until_its_version_has_everything(self) -> None:
        plan = self.plan()
        for step in ((1, 90), (2, 10)), ((1, 50), (2, 50)):
            weights = tuple(traffic.Weight(version=v, percent=p) for v, p in step)
            shared = traffic.ModelTraffic(model="a", weights=weights)
            plan = traffic.steer(plan, "a", shared, epoch=4)
            assert self.fractions(plan) == {2: 0.1}
        assert self.fractions(traffic.steer(plan, "a", traffic.whole("a", 2), epoch=4)) == {}
        assert self.fractions(traffic.steer(plan, "a", traffic.whole("a", 1), epoch=4)) == {}

    def test_without_traffic_there_is_nothing_to_copy_now_or_later(self) -> None:
        plan = traffic.steer(self.plan(), "a", None, epoch=4)
        with pytest.raises(errors.TrafficPlanInvalid, match="no shares; set them first"):
            traffic.mirror(plan, "a", {2: 0.1}, epoch=4)
        assert self.fractions(traffic.steer(plan, "a", traffic.whole("a", 1), epoch=4)) == {}

    def test_a_version_with_all_traffic_is_no_mirror(self) -> None:
        with pytest.raises(errors.TrafficPlanInvalid, match="copies of what it answers itself"):
            traffic.mirror(self.plan(), "a", {1: 0.1}, epoch=4)

    def test_shares_that_bring_mirrors_along_are_refused_and_not_half_taken(self) -> None:
        brought = traffic.ModelTraffic(
            model="a",
            weights=traffic.whole("a", 1).weights,
            mirrors=(traffic.Mirror(version=3, fraction=0.5),),
        )
        with pytest.raises(ValueError, match="set those apart"):
            traffic.steer(self.plan(), "a", brought, epoch=4)
