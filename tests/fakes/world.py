"""A place to promote in: everything real but the record, the plane and the stages' workers.

Workers are replaced by a function that writes what the real ones wrote for the same request.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from evals import suite as suites
from evals.outcome import Outcome, Outcomes
from pipelines import config as configs
from pipelines import ownership, rollback, worker
from pipelines.config import PromotionConfig
from pipelines.errors import StageFailed
from pipelines.place import Place
from pipelines.promotion import Promotion, Request, promote
from registry import checkpoint
from registry.engine_settings import EngineSettings
from registry.manifest import Manifest
from registry.model import content_digest
from registry.store import Record, Registration
from tests.fakes import checkpoints
from tests.fakes.plane import FakePlane
from tests.fakes.progress import Silent
from tests.fakes.record import memory_record

FAST = {"rollout": {"bake_s": 0.0}}


@dataclasses.dataclass
class World:
    """A place to promote in, and what the stand-in workers were asked."""

    place: Place
    plane: FakePlane
    progress: Silent
    folder: Path
    wrong: dict[str, int]
    """Wrong answers per checkpoint directory's seed file."""
    asked: list[str]
    wrong_elsewhere: int = 0
    """Wrong answers more under other engine settings than the usual."""

    @property
    def record(self) -> Record:
        return self.place.record

    def request(self, seed: int, **settings: Any) -> Request:
        raw = {"suites": ["suite.yaml"], "recipe": {"enabled": False}, **settings}
        config: PromotionConfig = configs.parse(raw, source="test")
        directory = self.folder / f"ck{seed}"
        if not directory.exists():
            checkpoints.make(directory, seed=seed)
        return Request(
            checkpoint=checkpoint.inspect(directory), config=config, config_folder=self.folder
        )

    def rollback(self, to: int | None = None) -> rollback.Restored:
        target = rollback.target_of(self.record, "grammar", to)
        config = rollback.settings_of(self.record, "grammar", target)
        return rollback.rollback(target, config, self.place, reason="complaints")

    def promote(
        self, seed: int, *, wrong: int = 0, more: Mapping[str, Any] | None = None, **settings: Any
    ) -> Promotion:
        request = dataclasses.replace(self.request(seed, **settings), **(more or {}))
        self.wrong[request.checkpoint.digest] = wrong
        return promote(request, self.place)


def write_suite(folder: Path, count: int) -> None:
    """A suite of one kind of error."""
    write_rows(
        folder,
        [
            {"id": f"e{n}", "source": f"a {n}", "references": [f"b {n}"], "tags": ["spelling"]}
            for n in range(count)
        ],
    )


def write_rows(folder: Path, rows: list[dict[str, Any]]) -> None:
    """The suite `small` with these examples."""
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    (folder / "suite.jsonl").write_bytes(data)
    definition = {
        "name": "small", "language": "en", "kind": "correction", "data": "suite.jsonl",
        "sha256": hashlib.sha256(data).hexdigest(), "license": "Apache-2.0",
        "description": "for tests", "group_by": "tags",
    }  # fmt: skip
    (folder / "suite.yaml").write_text(yaml.safe_dump(definition))


def make(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    record: Record | None = None,
    plane: FakePlane | None = None,
    examples: int = 600,
) -> World:
    """A world in memory, or on the given record and plane."""
    write_suite(folder, examples)
    progress, plane = Silent(), plane or FakePlane()
    place = Place(
        record=record or memory_record(),
        plane=lambda epoch: plane.open(epoch, ownership.this_process()),
        edge_epoch=lambda: plane.claim.epoch if plane.claim is not None else 0,
        standing=lambda: True,
        cache=folder / "cache",
        journal=folder / "journal",
        work=folder / "work",
        progress=progress,
        now=lambda: "2030-01-01T00:00:00Z",
        actor="tester",
    )
    made = World(place=place, plane=plane, progress=progress, folder=folder, wrong={}, asked=[])
    monkeypatch.setattr(worker, "run", stand_in(made))
    monkeypatch.setattr("pipelines.switch.LOOK_EVERY_S", 0.0)
    return made


def stand_in(world: World) -> Callable[..., None]:
    def run(
        module: str,
        request: Mapping[str, Any],
        out: Path,
        progress: Callable[[str], None],
        *,
        threads: int | None = None,
    ) -> None:
        assert threads == 1  # as many as a replica gets
        world.asked.append(module)
        assert module == "evals.harness"
        manifest = Manifest.from_json(Path(request["manifest"]).read_text())
        if world.wrong.get(manifest.digest, 0) < 0:
            raise StageFailed("out of memory")
        for path in request["suites"]:
            wrong = world.wrong.get(manifest.digest, 0)
            if request["engine"]["max_num_seqs"] != EngineSettings().max_num_seqs:
                wrong += world.wrong_elsewhere
            data_dir = Path(request["data_dir"]) if "data_dir" in request else None
            outcomes = answers(Path(path), manifest.digest, wrong, data_dir)
            outcomes = dataclasses.replace(
                outcomes, runtime_digest=content_digest(request["engine"])
            )
            (out / f"outcomes-{outcomes.suite}.json").write_text(outcomes.to_json())
        (out / "harness.json").write_text("{}")

    return run


def answers(path: Path, digest: str, wrong: int, data_dir: Path | None = None) -> Outcomes:
    loaded = suites.load(path, data_dir=data_dir)
    return Outcomes(
        suite=loaded.name,
        suite_digest=loaded.digest,
        checkpoint_digest=digest,
        runtime_digest="sha256:here",
        outcomes=tuple(
            Outcome(
                example_id=e.id, output=e.references[0], score=float(n >= wrong),
                finish_reason="stop", statistics={"exact": (float(n >= wrong), 1.0)},
            )
            for n, e in enumerate(loaded.examples)
        ),
    )  # fmt: skip


def registration(world: World, name: str) -> Registration:
    """What is said of a checkpoint that another command registers."""
    run_id = world.record.evidence.open("grammar", name, {}, None)
    world.record.evidence.close(run_id, tags={})
    return Registration(name=name, run_id=run_id)
