"""What an owner of a plane may rely on: the same for the plane in memory and for the real one."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Protocol

import pytest

from registry.manifest import Generation, Manifest, Prompt
from registry.model import ModelVersion
from serving.cluster import RayCluster
from serving.edge import control
from serving.errors import StaleEpoch
from serving.plane import Plane
from tests.fakes.plane import FakePlane
from tests.serving import real

READY_TIMEOUT_S = 120.0
STEP_TIMEOUT_S = 60.0


class World(Protocol):
    """A place where one model serves."""

    def open(self, epoch: int, owner: str) -> Plane: ...

    def version(self, number: int) -> ModelVersion: ...


class FakeWorld:
    def __init__(self) -> None:
        self.open = FakePlane().open

    def version(self, number: int) -> ModelVersion:
        manifest = Manifest(
            files=(), prompt=Prompt(template=f"{number} {{text}}"),
            generation=Generation(max_tokens=8),
        )  # fmt: skip
        return ModelVersion(
            model="grammar", version=number, digest=manifest.digest, source="models:/m-1",
            model_id="m-1", manifest=manifest,
        )  # fmt: skip


@pytest.fixture(scope="module")
def edge(ray_cluster: RayCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    import ray

    address = ray.get_runtime_context().gcs_address
    home = tmp_path_factory.mktemp("home")
    with real.running_edge(home, address) as url:
        yield lambda model: real.RealServing(address=address, home=home, url=url, model=model)


Edge = Callable[[str], real.RealServing]
"""Gives the place where a model serves; each test has a model of its own."""


@pytest.fixture
def serving(request: pytest.FixtureRequest, edge: Edge) -> Iterator[real.RealServing]:
    here = edge(request.node.name.partition("[")[0])
    yield here
    plane = here.open(control.model_epoch(here.home, here.model) + 1, "cleaner")
    plane.set_weights({}, STEP_TIMEOUT_S)
    for version in plane.running():
        plane.retire(version, STEP_TIMEOUT_S)


REAL = pytest.param("real", marks=[pytest.mark.slow, pytest.mark.filterwarnings("ignore")])


@pytest.fixture(params=["fake", REAL])
def world(request: pytest.FixtureRequest) -> World:
    if request.param == "fake":
        return FakeWorld()
    found: real.RealServing = request.getfixturevalue("serving")
    return found


def put_in_charge(plane: Plane, version: ModelVersion) -> None:
    plane.start(version, 1)
    plane.wait_ready(version.version, 1, READY_TIMEOUT_S)
    plane.set_weights({version.version: 100}, STEP_TIMEOUT_S)


def test_a_version_serves_from_start_to_retirement(world: World) -> None:
    plane, version = world.open(1, "me"), world.version(1)
    put_in_charge(plane, version)
    assert plane.running() == (1,)
    assert plane.weights() == {1: 100}
    assert plane.ready_replicas(1) == 1
    answer = plane.ask("He go.")
    assert (answer.version, answer.digest) == (1, version.digest)
    assert [a.version for a in plane.ask_replicas(1, "He go.")] == [1]
    plane.set_weights({}, STEP_TIMEOUT_S)
    plane.retire(1, STEP_TIMEOUT_S)
    plane.retire(1, STEP_TIMEOUT_S)  # absent is fine
    assert plane.running() == ()
    assert plane.weights() == {}


def test_an_owner_that_was_replaced_changes_nothing(world: World) -> None:
    old = world.open(1, "old")
    put_in_charge(old, world.version(1))
    new = world.open(2, "new")
    for refused in (
        lambda: old.start(world.version(2), 1),
        lambda: old.start(world.version(1), 2),
        lambda: old.set_weights({2: 100}, 1.0),
        lambda: old.set_weights({}, 1.0),
        lambda: old.retire(1, 1.0),
        lambda: old.retire(7, 1.0),
    ):
        with pytest.raises(StaleEpoch, match=r"under epoch 1: new has taken .* with epoch 2"):
            refused()
    assert new.running() == old.running() == (1,)
    assert new.weights() == old.weights() == {1: 100}
    assert old.ask("He go.").version == 1  # looking and asking stay allowed
    new.set_weights({1: 100}, STEP_TIMEOUT_S)
    new.start(world.version(1), 1)
    new.wait_ready(1, 1, READY_TIMEOUT_S)


def test_only_a_higher_epoch_takes_over(world: World) -> None:
    me = world.open(3, "me")
    for epoch, owner in ((2, "me"), (2, "other"), (3, "other")):
        with pytest.raises(StaleEpoch, match=r"me has taken .* over with epoch 3"):
            world.open(epoch, owner)
    me.set_weights({}, STEP_TIMEOUT_S)
    world.open(3, "me").set_weights({}, STEP_TIMEOUT_S)  # the same owner, once more
    world.open(4, "other")
    with pytest.raises(StaleEpoch):
        me.set_weights({}, STEP_TIMEOUT_S)


@contextlib.contextmanager
def stopped_owner(serving: real.RealServing) -> Iterator[subprocess.Popen[str]]:
    """The process of tests.serving.stale_owner, stopped."""
    command = [
        sys.executable, "-m", "tests.serving.stale_owner",
        serving.address, str(serving.home), serving.url, serving.model,
    ]  # fmt: skip
    owner = subprocess.Popen(command, cwd=real.ROOT, stdout=subprocess.PIPE, text=True)
    try:
        real.wait_stopped(owner.pid, timeout_s=240.0)
        yield owner
    finally:
        owner.kill()
        owner.wait(30)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_an_owner_stopped_on_the_brink_of_acting_changes_nothing_when_it_wakes(
    serving: real.RealServing, ray_cluster: RayCluster
) -> None:
    def replicas() -> list[str]:
        listed = ray_cluster.directory().snapshot()[1]
        return [e.replica_id for e in listed if e.model == serving.model]

    with stopped_owner(serving) as owner:
        before = replicas()
        plane = serving.open(2, "newer")
        owner.send_signal(signal.SIGCONT)
        outcomes = json.loads(owner.communicate(timeout=240.0)[0])
    assert set(outcomes) == {"start", "set_weights", "retire"}
    for told in outcomes.values():
        assert told.startswith("StaleEpoch: refused to"), outcomes
        assert f"newer has taken {serving.model} over with epoch 2" in told
    assert (plane.running(), plane.weights()) == ((1,), {1: 100})
    put_in_charge(plane, serving.version(1))
    assert plane.ask("He go.").version == 1
    assert replicas() == before  # a new owner's asking for the same again replaced none
    assert len(before) == 1
