"""Room is asked for before anything is begun, and counted by the copies still to be made."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from pipelines import space, variants
from pipelines.promotion import promote
from registry import cache, disk
from registry.errors import OutOfSpace
from registry.store import Registration
from tests.fakes import world as worlds
from tests.fakes.record import MemoryEvidence, MemoryVersions
from tests.fakes.world import FAST, World

LOCAL = "http://127.0.0.1:5000"
FP8 = {"recipe": {"enabled": True}}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return worlds.make(tmp_path, monkeypatch)


def at(world: World, address: str) -> World:
    record = dataclasses.replace(world.place.record, address=address)
    return dataclasses.replace(world, place=dataclasses.replace(world.place, record=record))


def copies(world: World, **settings: object) -> list[str]:
    request = world.request(1, **settings)
    found = list(space.needs(request.checkpoint, request.config, world.place))
    assert {need.size_bytes for need in found} <= {request.checkpoint.manifest.size_bytes}
    return [need.what for need in found]


def test_a_new_checkpoint_needs_every_copy(world: World) -> None:
    here, away = at(world, LOCAL), at(world, "https://mlflow.example")
    variant = ["variant while it is made", "variant in the record or the cache"]
    assert copies(here, **FP8) == ["cache", "record", *variant]
    assert copies(here) == ["cache", "record"]
    assert copies(away) == ["cache"]
    assert copies(here, pointer="s3://models/x") == ["cache"]


def test_copies_that_exist_are_not_needed_again(world: World) -> None:
    here = at(world, LOCAL)
    request = here.request(1)
    what = Registration(name="ck", run_id="run-1")
    here.place.record.versions.register("grammar", request.checkpoint, what)
    assert copies(here) == ["cache"]
    cache.adopt(request.checkpoint.manifest, request.checkpoint.directory, here.place.cache)
    assert copies(here) == []
    assert len(copies(here, **FP8)) == 2


def test_too_little_room_is_told_with_each_copy_and_nothing_is_begun(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = at(world, LOCAL)
    request = here.request(1, **FP8)
    monkeypatch.setattr(disk, "free_bytes", lambda folder: disk.SPARE_BYTES + 1000)
    told = r"cache \d.*, record \d.*, variant while it is made \d.* need .* are free at"
    with pytest.raises(OutOfSpace, match=told):
        space.require(request.checkpoint, request.config, here.place)
    assert not here.place.cache.exists()


def test_registering_asks_before_it_uploads(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "free_bytes", lambda folder: disk.SPARE_BYTES)
    with pytest.raises(OutOfSpace, match=r"the copies of the checkpoint \(cache "):
        world.promote(1, **FAST)
    versions, evidence = world.record.versions, world.record.evidence
    assert isinstance(versions, MemoryVersions)
    assert isinstance(evidence, MemoryEvidence)
    assert versions.stored == {}
    assert "register" not in {run.name for run in evidence.runs.values()}
    assert world.plane.events == []
    monkeypatch.undo()


def test_quantizing_asks_before_it_works(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    request = world.request(1, **FP8, **FAST)
    real = disk.require

    def only_for_the_variant(folder: Path, needed_bytes: int, what: str) -> None:
        if what.startswith("the FP8 variant"):
            monkeypatch.setattr(disk, "free_bytes", lambda folder: 0)
        real(folder, needed_bytes, what)

    monkeypatch.setattr(variants.disk, "require", only_for_the_variant)
    with pytest.raises(OutOfSpace, match="the FP8 variant and its copy need"):
        promote(request, world.place)
    assert world.asked == []
    assert list(world.place.work.glob("*")) == []


@pytest.mark.parametrize(
    ("address", "local"),
    [
        (LOCAL, True),
        ("http://localhost:5000", True),
        ("http://[::1]:5000", True),
        ("https://mlflow.example:5000", False),
        ("databricks", False),
        ("memory:", False),
    ],
)
def test_which_records_keep_their_files_here(address: str, local: bool) -> None:
    assert space.is_local(address) is local
