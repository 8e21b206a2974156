"""What a rollout asks, where no edge is needed to answer."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from registry import processes
from serving import errors
from serving.discovery import errors as discovery_errors
from serving.discovery import traffic
from serving.edge import control, home, status

GRAMMAR = traffic.whole("grammar", 1)


def test_who_claims_a_model_shuts_its_former_owner_out_at_once(tmp_path: Path) -> None:
    control.claim_model(tmp_path, "grammar", epoch=3, owner="old")
    control.set_model_traffic(tmp_path, GRAMMAR, epoch=3)
    control.claim_model(tmp_path, "grammar", epoch=8, owner="new")
    before = control.current_traffic(tmp_path)
    with pytest.raises(errors.StaleEpoch, match="new has taken grammar over with epoch 8"):
        control.set_model_traffic(tmp_path, traffic.whole("grammar", 2), epoch=3)
    with pytest.raises(errors.StaleEpoch):
        control.remove_model_traffic(tmp_path, "grammar", epoch=3)
    with pytest.raises(errors.StaleEpoch):
        control.claim_model(tmp_path, "grammar", epoch=8, owner="another")
    assert control.current_traffic(tmp_path) == before
    plan = control.set_model_traffic(tmp_path, traffic.whole("grammar", 3), epoch=8)
    assert [w.version for m in plan.models for w in m.weights] == [3]


def test_the_epoch_of_a_model_is_known_with_and_without_traffic(tmp_path: Path) -> None:
    assert control.model_epoch(tmp_path, "grammar") == 0
    control.claim_model(tmp_path, "grammar", epoch=3, owner="me")
    control.claim_model(tmp_path, "spelling", epoch=9, owner="me")
    assert control.model_epoch(tmp_path, "grammar") == 3
    control.set_model_traffic(tmp_path, GRAMMAR, epoch=3)
    control.remove_model_traffic(tmp_path, "grammar", epoch=3)
    assert control.model_epoch(tmp_path, "grammar") == 3
    assert control.model_epoch(tmp_path, "other") == 0


def test_an_owner_that_was_stopped_while_it_wrote_is_named(tmp_path: Path) -> None:
    lock = home.EdgeHome.of(tmp_path).traffic_lock
    named = pytest.raises(errors.EdgeError, match=f"kill -9 {os.getpid()}")
    # Another descriptor of this process is as much a stranger to the lock.
    with home.exclusive(lock), named, home.exclusive(lock, timeout_s=0.05):
        pytest.fail("two held one lock")
    with home.exclusive(lock, timeout_s=0.05):
        pass


def test_a_lock_on_a_full_disk_is_held_though_it_names_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    lock = home.EdgeHome.of(tmp_path).traffic_lock
    monkeypatch.setattr("os.write", full)
    with home.exclusive(lock):
        monkeypatch.undo()
        nobody = pytest.raises(errors.EdgeError, match="process unknown")
        with nobody, home.exclusive(lock, timeout_s=0.05):
            pytest.fail("two held one lock")


def test_setting_one_model_leaves_the_others(tmp_path: Path) -> None:
    control.set_model_traffic(tmp_path, GRAMMAR, epoch=1)
    control.set_model_traffic(tmp_path, traffic.whole("spelling", 4), epoch=1)
    plan = control.set_model_traffic(tmp_path, traffic.whole("grammar", 2), epoch=2)
    assert [(m.model, m.weights[0].version) for m in plan.models] == [
        ("grammar", 2), ("spelling", 4),
    ]  # fmt: skip
    assert control.current_traffic(tmp_path) == plan


def test_a_mirror_is_set_apart_from_the_weights_and_ends_when_told(tmp_path: Path) -> None:
    control.set_model_traffic(tmp_path, GRAMMAR, epoch=3)
    plan = control.set_model_mirrors(tmp_path, "grammar", {2: 0.25, 3: 1.0}, epoch=3)
    assert control.current_traffic(tmp_path) == plan
    assert control.set_model_traffic(tmp_path, GRAMMAR, epoch=3) == plan
    control.end_mirror(tmp_path, "grammar", 2, epoch=3)
    (model,) = control.current_traffic(tmp_path).models  # type: ignore[union-attr]
    assert model.mirrors == (traffic.Mirror(version=3, fraction=1.0),)
    before = home.EdgeHome.of(tmp_path).traffic.stat().st_mtime_ns
    for absent in ("grammar", "spelling"):
        control.end_mirror(tmp_path, absent, 2, epoch=3)
    assert home.EdgeHome.of(tmp_path).traffic.stat().st_mtime_ns == before
    control.claim_model(tmp_path, "grammar", epoch=4, owner="new")
    with pytest.raises(errors.StaleEpoch):
        control.end_mirror(tmp_path, "grammar", 3, epoch=3)


async def test_waiting_without_an_edge_says_how_to_start_one(tmp_path: Path) -> None:
    plan = traffic.TrafficPlan(epoch=1, models=(GRAMMAR,))
    with pytest.raises(errors.EdgeError, match="no edge is running there: start it"):
        await control.wait_applied(tmp_path, plan, timeout_s=0.0)
    with pytest.raises(errors.EdgeError, match="start it"):
        await control.stats(tmp_path, "grammar", 1)


def status_at(**when: Any) -> status.EdgeStatus:
    return status.EdgeStatus(
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
        **when,
    )


def test_a_status_that_nobody_renews_is_no_status(tmp_path: Path) -> None:
    edge = home.EdgeHome.of(tmp_path)
    edge.create()
    old = status_at(time_s=1.0)
    status.write(edge, old)
    assert status.read(edge) == old
    assert control.current_status(tmp_path) is None


HOUR_S = 3600.0


EARLIER = "an earlier boot"


@pytest.mark.parametrize("set_by_s", [-HOUR_S, 0.0, HOUR_S])
@pytest.mark.parametrize(
    ("age_s", "boot"), [(1.0, ""), (60.0, ""), (-60.0, ""), (1.0, EARLIER), (60.0, EARLIER)]
)
def test_how_old_a_status_is_does_not_follow_a_clock_that_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_by_s: float, age_s: float, boot: str
) -> None:
    edge = home.EdgeHome.of(tmp_path)
    edge.create()
    now_s = time.time()
    written = status_at(
        time_s=now_s - age_s,
        clock_s=time.monotonic() - age_s,
        boot=boot or processes.boot_id(),
    )
    status.write(edge, written)
    monkeypatch.setattr("time.time", lambda: now_s + set_by_s)
    assert (control.current_status(tmp_path) is not None) is ((age_s, boot) == (1.0, ""))


def test_without_the_kernel_s_word_the_wall_clock_has_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edge = home.EdgeHome.of(tmp_path)
    edge.create()
    monkeypatch.setattr(processes, "BOOT_ID", tmp_path / "absent")
    for age_s, alive in ((1.0, True), (60.0, False), (-60.0, False)):
        status.write(edge, status_at(time_s=time.time() - age_s))
        assert (control.current_status(tmp_path) is not None) is alive


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
