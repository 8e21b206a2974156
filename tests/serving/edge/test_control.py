"""What a rollout asks, where no edge is needed to answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from serving import errors
from serving.discovery import errors as discovery_errors
from serving.discovery import traffic
from serving.edge import control, home, status

GRAMMAR = traffic.whole("grammar", 1)


def test_an_older_owner_cannot_publish(tmp_path: Path) -> None:
    control.set_traffic(tmp_path, traffic.TrafficPlan(epoch=3, models=(GRAMMAR,)))
    with pytest.raises(discovery_errors.StaleEpoch, match="epoch 3 is in force"):
        control.set_traffic(tmp_path, traffic.TrafficPlan(epoch=2, models=()))
    published = control.current_traffic(tmp_path)
    assert published is not None
    assert published.epoch == 3


def test_who_claims_a_model_shuts_its_former_owner_out_at_once(tmp_path: Path) -> None:
    first = control.claim_model(tmp_path, "grammar")
    control.set_model_traffic(tmp_path, GRAMMAR, epoch=first)
    second = control.claim_model(tmp_path, "grammar")
    with pytest.raises(discovery_errors.StaleEpoch):
        control.set_model_traffic(tmp_path, traffic.whole("grammar", 2), epoch=first)
    with pytest.raises(discovery_errors.StaleEpoch):
        control.remove_model_traffic(tmp_path, "grammar", epoch=first)
    plan = control.set_model_traffic(tmp_path, traffic.whole("grammar", 3), epoch=second)
    assert [w.version for m in plan.models for w in m.weights] == [3]


def test_setting_one_model_leaves_the_others(tmp_path: Path) -> None:
    control.set_model_traffic(tmp_path, GRAMMAR, epoch=1)
    control.set_model_traffic(tmp_path, traffic.whole("spelling", 4), epoch=1)
    plan = control.set_model_traffic(tmp_path, traffic.whole("grammar", 2), epoch=2)
    assert [(m.model, m.weights[0].version) for m in plan.models] == [
        ("grammar", 2), ("spelling", 4),
    ]  # fmt: skip
    assert control.current_traffic(tmp_path) == plan


async def test_waiting_without_an_edge_says_how_to_start_one(tmp_path: Path) -> None:
    plan = traffic.TrafficPlan(epoch=1, models=(GRAMMAR,))
    with pytest.raises(errors.EdgeError, match="no edge is running there: start it"):
        await control.wait_applied(tmp_path, plan, timeout_s=0.0)
    with pytest.raises(errors.EdgeError, match="start it"):
        await control.stats(tmp_path, "grammar", 1)


def test_a_status_that_nobody_renews_is_no_status(tmp_path: Path) -> None:
    edge = home.EdgeHome.of(tmp_path)
    edge.create()
    old = status.EdgeStatus(
        edge_id="e",
        pid=1,
        envoy_pid=None,
        envoy_starts=1,
        url="http://127.0.0.1:8000",
        admin_url=None,
        generation=1,
        plan_epoch=1,
        versions=(status.VersionStatus(model="m", version=1, weight=1, endpoints=("a:1",)),),
        source_age_s=0.0,
        refused=(),
        last_error=None,
        time_s=1.0,
    )
    status.write(edge, old)
    assert status.read(edge) == old
    assert control.current_status(tmp_path) is None


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"versions": [{"x": 1}]}'])
def test_an_unreadable_status_is_an_error_that_names_the_file(tmp_path: Path, content: str) -> None:
    edge = home.EdgeHome.of(tmp_path)
    edge.create()
    edge.status.write_text(content)
    with pytest.raises(errors.EdgeError, match=r"status\.json"):
        control.current_status(tmp_path)


def test_a_damaged_plan_is_not_overwritten_unseen(tmp_path: Path) -> None:
    edge = home.EdgeHome.of(tmp_path)
    edge.create()
    edge.traffic.write_text(json.dumps({"format": traffic.FORMAT, "epoch": 1}))
    with pytest.raises(discovery_errors.TrafficPlanInvalid):
        control.set_model_traffic(tmp_path, GRAMMAR, epoch=1)
