"""What a look reads from, held by the test: a record, an edge, a clock that sleeping moves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobs.errors import StackError
from jobs.status.facts import Status, Waiting
from jobs.status.gather import Observer, Opener
from jobs.status.ports import Kept, Ports, Unfinished
from jobs.status.reading import Reader
from pipelines.config import PromotionConfig
from pipelines.rollout_policy import RolloutPolicy
from registry.catalog import Run
from registry.ledger import Kind, LedgerEntry, Log, Mark, MarkKind
from registry.model import StageEvidence, Tag
from serving.edge.admin import ClusterStats, LatencyBucket
from serving.edge.history import Counted, Sample
from serving.edge.interval import Interval
from serving.edge.status import EdgeStatus, VersionStatus
from serving.slo import SLO

NOW_MS = 1_795_975_200_000  # 2026-11-29T18:00:00Z


def entry(version: int, entries: tuple[LedgerEntry, ...] = (), **more: Any) -> LedgerEntry:
    given = {
        "digest": f"sha256:{version:064x}",
        "policy_digest": "sha256:p",
        "evidence_run": f"run-{version}",
        "actor": "ana@host",
        "reason": "all 12 gates passed",
        "at": "2026-11-29T17:00:00Z",
        **more,
    }
    return Log(items=entries).entry(Kind.PROMOTE, version=version, **given)


def stats(completed: int, faults: int = 0, ms: float = 100.0, **more: int) -> ClusterStats:
    """Every request so far took just below `ms`."""
    buckets = [LatencyBucket(le_ms=le, count=completed * (le >= ms)) for le in (50.0, 100.0, 1e3)]
    counted = {"ejections_active": 0, **more}
    return ClusterStats(
        completed=completed, ok=completed - faults, client_errors=0, server_errors=faults,
        retries=0, timeouts=0, active=0, latency=tuple(buckets), **counted,
    )  # fmt: skip


def attempt(stage: str = "promotion", *, ended_ms: int = NOW_MS, **more: Any) -> StageEvidence:
    given: dict[str, Any] = {"run_id": "run-9", "params": {}, "tags": {}, **more}
    return StageEvidence(
        stage=stage, inputs_digest="", metrics={}, started_at_ms=ended_ms - 60_000,
        ended_at_ms=ended_ms, **given,
    )  # fmt: skip


def run(stage: str, *, since_s: float = 30.0, running: bool = True, **params: str) -> Run:
    """A run that began `since_s` ago; one that is over has just ended."""
    return Run(
        run_id=f"run-{stage}",
        name=f"{stage} tiny",
        stage=stage,
        is_running=running,
        params=params,
        tags={Tag.STAGE: stage},
        started_at_ms=NOW_MS - int(since_s * 1000),
        ended_at_ms=None if running else NOW_MS,
    )


def claim(**more: Any) -> Mark:
    given = {"reason": "promote tiny", "epoch": 7, "owner": "host/boot/4711/1.00", **more}
    return _mark(MarkKind.CLAIM, **given)


def freeze(**more: Any) -> Mark:
    return _mark(MarkKind.FREEZE, **{"reason": "holidays", **more})


def _mark(kind: MarkKind, **more: Any) -> Mark:
    given = {"actor": "bob@host", "at": "2026-11-29T17:59:00Z", **more}
    return Mark(seq=9, kind=kind, previous_hash="", **given)


def config(**rollout: Any) -> PromotionConfig:
    return PromotionConfig(slo=SLO(availability=0.999), rollout=RolloutPolicy(**rollout))


@dataclass
class World:
    """Everything outside; change a field and look again."""

    entries: tuple[LedgerEntry, ...] = ()
    claim: Mark | None = None
    frozen: Mark | None = None
    heard: dict[int, str] = field(default_factory=dict)
    config: PromotionConfig = field(default_factory=config)
    ended: list[StageEvidence] = field(default_factory=list)
    work: Unfinished | None = None
    known: tuple[str, ...] = ("grammar",)
    versions: tuple[VersionStatus, ...] = ()
    edge_error: str | None = None
    refused: tuple[str, ...] = ()
    edge_runs: bool = True
    totals: dict[int, ClusterStats] = field(default_factory=dict)
    counted_lately: Counted | None = None
    pending: tuple[Waiting, ...] = ()
    copy: Kept | None = None
    """What this machine last knew of the ledger."""
    lives: bool | None = None
    on_sleep: Callable[[], None] = lambda: None
    """What happens between the two readings of a look."""
    away: str | None = None
    """Why the record does not answer."""
    address: str = "http://mlflow"
    slept_s: list[float] = field(default_factory=list)
    time_s: float = 0.0

    def observer(self, *, limit_s: float = 5.0) -> Observer:
        reader = Reader(limit_s=limit_s)
        return Observer("grammar", self.ports(), Opener(self, reader=reader), reader=reader)

    def look(self) -> Status:
        return self.observer().look()

    def ports(self) -> Ports:
        return Ports(
            records=self,
            edge=self,  # type: ignore[arg-type]
            endpoint=lambda: "http://127.0.0.1:8000",
            journal=_Journal(self),
            process_lives=lambda owner: self.lives,
            now=lambda: "2026-11-29T18:00:00Z",
            now_ms=lambda: NOW_MS,
            clock=lambda: self.time_s,
            sleep=self._sleep,
        )

    def _sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.time_s += seconds
        self.on_sleep()

    # What a record is asked.
    def reach(self) -> None:
        if self.away is not None:
            raise StackError(self.away)

    def load(self) -> None:
        pass

    def open(self) -> Any:
        return _OfRecord(self)

    # What an edge is asked.
    def models(self) -> tuple[str, ...]:
        return tuple(sorted({v.model for v in self.versions}))

    def status(self) -> EdgeStatus | None:
        if not self.edge_runs:
            return None
        return EdgeStatus(
            edge_id="e", pid=1, envoy_pid=2, envoy_starts=1, url="http://127.0.0.1:8000",
            admin_url="http://127.0.0.1:9", generation=1, plan_epoch=1, versions=self.versions,
            source_age_s=0.1, refused=self.refused, last_error=self.edge_error, time_s=0.0,
        )  # fmt: skip

    def counts(self, model: str) -> Mapping[int, ClusterStats] | None:
        return dict(self.totals) if self.edge_runs else None

    def counted(self, model: str) -> Counted | None:
        return self.counted_lately


@dataclass
class _Journal:
    world: World

    def models(self) -> tuple[str, ...]:
        return ("grammar",) if self.world.pending else ()

    def waiting(self, model: str) -> tuple[Waiting, ...]:
        return self.world.pending

    def kept(self, model: str) -> Kept | None:
        return self.world.copy


@dataclass
class _OfRecord:
    world: World

    @property
    def address(self) -> str:
        return self.world.address

    def models(self) -> tuple[str, ...]:
        return self.world.known

    def log(self, model: str) -> Log:
        marks = (self.world.claim, self.world.frozen)
        return Log(items=(*self.world.entries, *(m for m in marks if m is not None)))

    def beats(self, model: str) -> Mapping[int, str]:
        return dict(self.world.heard)

    def settings(self, model: str, entry: LedgerEntry) -> PromotionConfig:
        return self.world.config

    def attempts(self, model: str) -> Sequence[StageEvidence]:
        return list(self.world.ended)

    def unfinished(self, model: str) -> Unfinished | None:
        return self.world.work

    def url(self, run_id: str) -> str:
        return f"http://mlflow/{run_id}"


def counted(*samples: tuple[float, int, int]) -> Counted:
    """What was counted of the model in samples of so many seconds, requests and faults each."""
    at_s, found = 0.0, []
    for seconds, requests, faults in samples:
        seen = Interval(
            seconds=seconds, requests=requests, faults=faults,
            latency=(LatencyBucket(le_ms=1000.0, count=requests),),
        )  # fmt: skip
        found.append(Sample(from_s=at_s, to_s=at_s + seconds, counts={"grammar@v2": seen}))
        at_s += seconds
    return Counted(model="grammar", samples=tuple(found), now_s=at_s)


def version(number: int, weight: int, *, ready: int = 1, draining: int = 0) -> VersionStatus:
    return VersionStatus(
        model="grammar",
        version=number,
        weight=weight,
        endpoints=tuple(f"127.0.0.1:{9000 + n}" for n in range(ready)),
        draining=draining,
    )


def serving() -> World:
    """Version 2 serves after version 1, and 100 requests come between the readings of a look."""
    first = entry(1)
    world = World(
        entries=(first, entry(2, (first,))),
        versions=(version(2, 100),),
        totals={2: stats(1000, 50, ms=50.0)},
    )

    def traffic() -> None:
        before = world.totals[2]
        latency = tuple(
            dataclasses.replace(b, count=b.count + 100 * (b.le_ms >= 1000.0))
            for b in before.latency
        )
        world.totals[2] = dataclasses.replace(
            before, completed=before.completed + 100, server_errors=before.server_errors + 2,
            latency=latency,
        )  # fmt: skip

    world.on_sleep = traffic
    return world
