"""Does a caller notice a promotion or a rollback? Counts failures under continuous load.

    python -m benchmarks.rollout_under_load [--requests 30000]

Real MLflow, Ray Serve, Envoy, discovery, ledger; the engine is a stand-in of a few lines, so that
two cores can carry enough requests to say something. A load process keeps requests in flight, with
no retries of its own, while this one promotes version 2 over version 1 in steps and rolls back,
again and again until the wanted number of requests has been sent.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import machine
from jobs import placing
from jobs.progress import Terminal
from jobs.settings import Settings
from jobs.stack import ROOT, Stack
from pipelines import config as configs
from pipelines import ownership, records, rollback
from pipelines.place import Place
from pipelines.rollout import Terms
from pipelines.switch import Switch
from registry import cache, checkpoint
from registry.ledger import Kind
from registry.mlflow_store import connect
from registry.model import ModelVersion
from registry.store import Registration
from serving.cluster import RayCluster, Resources
from serving.edge import control
from serving.ray_plane import PlaneSettings, RayPlane
from tests.conftest import free_port
from tests.fakes import checkpoints

ENGINE = "tests.fakes.core:launch"
MODEL = "grammar"


class World:
    """A running stack with stand-in engines, and two small checkpoints registered."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.settings = stack.settings
        self.home = stack.settings.home
        self.record = connect(self.stack.tracking_uri())
        self.address = self.stack.ray_address()
        self.url = self.stack.edge_url()
        self.config = configs.parse({"model": MODEL}, source="benchmark")
        self.place = Place(
            record=self.record,
            plane=self.plane,
            edge_epoch=lambda: control.model_epoch(self.home, MODEL),
            standing=lambda: True,
            cache=self.settings.cache,
            journal=self.settings.journals / MODEL,
            work=self.settings.work,
            progress=Terminal(),
            now=placing.now,
            actor="benchmark",
        )

    def plane(self, epoch: int) -> RayPlane:
        """The real serving plane, with the stand-in engine in its replicas."""
        settings = PlaneSettings(
            model=MODEL,
            home=self.home,
            edge_url=self.url,
            tracking_uri=self.stack.tracking_uri(),
            cache=self.settings.cache,
            engine=self.config.resources.engine,
            resources=Resources(num_cpus=1),
            epoch=epoch,
            owner=ownership.this_process(),
            engine_factory=ENGINE,
        )
        return RayPlane(settings, RayCluster.connect(self.address))

    def register(self, seed: int) -> ModelVersion:
        """A small checkpoint as a version, in the cache."""
        directory = checkpoints.make(self.home / f"ck{seed}", seed=seed)
        found = checkpoint.inspect(directory)
        run = self.record.evidence.open(MODEL, f"register {seed}", {}, None)
        what = Registration(name=f"ck{seed}", run_id=run)
        version = self.record.versions.register(MODEL, found, what)
        cache.adopt(found.manifest, directory, self.settings.cache)
        return version

    def promote(self, version: ModelVersion) -> None:
        """The rollout and the record of a promotion, as `liftlock promote` does them."""
        run = self.record.evidence.open(MODEL, "benchmark", {}, None)
        self.record.evidence.text(run, configs.SETTINGS_FILE, self.config.to_yaml())
        with ownership.owned(self.place, MODEL, f"promote version {version.version}") as mine:
            change = records.Change(
                kind=Kind.PROMOTE,
                policy_digest=self.config.digest,
                evidence_run=run,
                actor="benchmark",
                reason="benchmark",
                now=placing.now,
                entries_seen=len(self.record.ledger.read(MODEL).entries),
                epoch=mine.epoch,
            )
            terms = Terms(policy=self.config.rollout, slo=self.config.slo)
            Switch(self.plane(mine.epoch), terms, note=print).to(
                version,
                lambda _: records.commit(self.record, version, change, print),
                in_charge=lambda: records.in_charge(self.record, MODEL),
            )

    def rollback(self) -> None:
        """`liftlock rollback`."""
        target = rollback.target_of(self.record, MODEL, None)
        rollback.rollback(target, self.config, self.place, reason="benchmark")


@contextlib.contextmanager
def load(url: str, concurrency: int, folder: Path) -> Iterator[dict[str, Any]]:
    """Load for as long as the block runs; its report is in the mapping afterwards."""
    stop, out = folder / "stop", folder / "load.json"
    report: dict[str, Any] = {}
    command = [
        sys.executable, "-m", "benchmarks.load", "--url", url,
        "--concurrency", str(concurrency), "--stop-file", str(stop),
    ]  # fmt: skip
    with out.open("w") as sink:
        process = subprocess.Popen(command, stdout=sink, cwd=ROOT)
        try:
            yield report
        finally:
            stop.touch()
            process.wait(120)
    report.update(json.loads(out.read_text()))


def measure(requests: int, concurrency: int) -> dict[str, Any]:
    """Promotes and rolls back under load until enough requests were sent."""
    home = Path(tempfile.mkdtemp(prefix="liftlock-bench-"))
    totals: dict[str, Any] = {
        "requests": 0, "failed": 0, "failures": {}, "by_version": {}, "changes": 0,
        "p50_ms_by_round": [], "p99_ms_by_round": [],
    }  # fmt: skip
    settings = Settings(home=home, mlflow_port=free_port(), endpoint_port=free_port())
    stack = Stack(settings=settings, note=print)
    try:
        world = World(stack)
        first, second = world.register(1), world.register(2)
        world.promote(first)
        while totals["requests"] < requests:
            folder = Path(tempfile.mkdtemp(prefix="load-", dir=home))
            with load(world.url, concurrency, folder) as report:
                world.promote(second)
                world.rollback()
            _add(totals, report)
            print(f"{totals['requests']} requests, {totals['failed']} failed", flush=True)
    finally:
        stack.down()
        shutil.rmtree(home, ignore_errors=True)
    return totals


def _add(totals: dict[str, Any], report: dict[str, Any]) -> None:
    totals["requests"] += report["requests"]
    totals["failed"] += report["failed"]
    totals["changes"] += 2  # one promotion, one rollback
    for name in ("failures", "by_version"):
        totals[name] = dict(Counter(totals[name]) + Counter(report[name]))
    for name in ("p50_ms", "p99_ms"):
        totals[f"{name}_by_round"].append(report[name])


def main() -> None:
    """Parses, measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=30_000)
    parser.add_argument("--concurrency", type=int, default=16)
    args = parser.parse_args()
    about = machine.describe()
    totals = measure(args.requests, args.concurrency)
    print(machine.result({"benchmark": "rollout_under_load", **about, **totals}))


if __name__ == "__main__":
    main()
