"""What status really reads from: MLflow, the edge's files, Envoy's admin interface, the journal."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from jobs import placing
from jobs.errors import StackError
from jobs.settings import Settings
from jobs.status import assemble
from jobs.status.facts import Waiting
from jobs.status.ports import Kept, Ports, RecordPort, Unfinished
from pipelines import config as configs
from pipelines import local, ownership, rollback
from pipelines.config import SETTINGS_FILE, PromotionConfig
from pipelines.errors import ConfigInvalid
from registry.catalog import Catalog
from registry.errors import NotFound, RegistryError
from registry.ledger import LedgerEntry, Log
from registry.lines import Lines
from registry.local_copy import LocalRollback
from registry.model import StageEvidence, check_model_name
from registry.pending import MARK
from registry.store import Record
from serving.discovery.snapshot import ClusterKey
from serving.edge import admin, control, history
from serving.edge.home import EdgeHome
from serving.edge.status import EdgeStatus

PROBE_S = 1.5
"""How long a tracking server may take to say anything; below the limit of a reading."""
WAITING_FILE, ASIDE_FILE = "journal.jsonl", "aside.jsonl"
"""Of a model's journal, as registry.pending names them."""


def live(settings: Settings) -> Ports:
    """The real ones of a home folder."""
    return Ports(
        records=LiveRecords(settings),
        edge=LiveEdge(settings.home),
        journal=LiveJournal(settings.journals),
        endpoint=lambda: placing.endpoint_url(settings),
        process_lives=process_lives,
    )


def process_lives(owner: str) -> bool | None:
    """Whether an owner's process lives; None where it is not of this machine and boot."""
    if ownership.is_gone(owner):
        return False
    here = ownership.this_process().split("/")[:2]
    return True if owner.split("/")[:2] == here else None


class LiveRecords:
    """`Records` on the tracking server that the settings name or that this home runs."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def reach(self) -> None:
        """See `Records.reach`."""
        uri = self._uri()
        if not uri.startswith(("http://", "https://")):
            return  # a hosted workspace or a database: only its own client can say
        try:
            # Any answer will do; certificates and credentials are the real client's business.
            is_here = uri.startswith(("http://127.", "http://localhost"))
            httpx.get(
                f"{uri.rstrip('/')}/health", timeout=PROBE_S, trust_env=not is_here, verify=False
            )
        except httpx.HTTPError as exc:
            raise StackError(
                f"MLflow at {uri} does not answer ({type(exc).__name__}: {exc}); check that it runs"
            ) from exc

    def load(self) -> None:
        """See `Records.load`."""
        from registry import mlflow_store

        mlflow_store.load()

    def open(self) -> RecordPort:
        """See `Records.open`."""
        from registry import mlflow_store

        uri = self._uri()
        return LiveRecord(record=placing.connect_to(uri), catalog=mlflow_store.catalog(uri))

    def _uri(self) -> str:
        uri = placing.existing_tracking_uri(self._settings)
        if uri is None:
            raise StackError(
                f"no MLflow server runs for {self._settings.home}; `liftlock serve` or a promotion "
                "starts one, or give --tracking-uri"
            )
        return uri


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRecord:
    """`RecordPort` on MLflow."""

    record: Record
    catalog: Catalog
    stages: tuple[str, ...] = field(default=("promotion", "rollback"))
    """What counts as an attempt."""

    @property
    def address(self) -> str:
        """Where a person opens the UI."""
        return self.record.address

    def models(self) -> tuple[str, ...]:
        """The models that were ever promoted or tried."""
        return tuple(name for name in self.catalog.models() if _can_be_a_model(name))

    def log(self, model: str) -> Log:
        """The ledger, verified."""
        return self.record.ledger.read(model)

    def beats(self, model: str) -> Mapping[int, str]:
        """The last sign of life of every owner, by epoch."""
        return self.record.ledger.beats(model)

    def settings(self, model: str, entry: LedgerEntry) -> PromotionConfig:
        """What an entry's version is served with."""
        return rollback.settings_of(self.record, model, entry)

    def attempts(self, model: str) -> Sequence[StageEvidence]:
        """The newest ended promotion and the newest ended rollback."""
        return [e for s in self.stages for e in self.record.evidence.recent(model, s, 1)]

    def unfinished(self, model: str) -> Unfinished | None:
        """Who is at it, and how far."""
        run = self.catalog.unfinished(model)
        if run is None:
            return None
        return Unfinished(
            run=run,
            stages=self.catalog.stages(model, run.run_id),
            config=self._settings_on(run.run_id),
        )

    def _settings_on(self, run_id: str) -> PromotionConfig | None:
        try:
            stored = self.record.evidence.read(run_id, SETTINGS_FILE)
            return configs.parse_text(stored, source=SETTINGS_FILE)
        except (NotFound, ConfigInvalid):
            return None  # it has just begun, or another release wrote it

    def url(self, run_id: str) -> str:
        """Where a person sees a run."""
        return self.record.evidence.url(run_id)


def _can_be_a_model(name: str) -> bool:
    try:
        check_model_name(name)
    except ValueError:
        return False
    return True


class LiveJournal:
    """`JournalPort` on the journals of a home; unlike those who write there it mends nothing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def models(self) -> tuple[str, ...]:
        """Models that something is kept of."""
        return tuple(sorted(p.name for p in self._folder.glob("*/") if _can_be_a_model(p.name)))

    def waiting(self, model: str) -> tuple[Waiting, ...]:
        """What waits, as sentences."""
        folder = self._folder / model
        lines = Lines(folder / WAITING_FILE).read()
        entered = {line[MARK] for line in lines if MARK in line}
        left = [e for n, e in enumerate(lines) if MARK not in e and n not in entered]
        refused = Lines(folder / ASIDE_FILE).read()
        found = [_rolled_back(r) for r in local.copy_in(folder).rollbacks.all()]
        if left:
            since = assemble.iso(min(int(e["at_ms"]) for e in left))
            text = f"{_writes(len(left))} of evidence kept since {since} in {folder}"
            found.append(Waiting(text=text))
        if refused:
            text = f"{_writes(len(refused))} refused by MLflow kept in {folder / ASIDE_FILE}"
            found.append(Waiting(text=text, is_refused=True))
        return tuple(found)

    def kept(self, model: str) -> Kept | None:
        """The copy that going back without MLflow works from."""
        copy = local.copy_in(self._folder / model)
        try:
            log = copy.load_log()
        except NotFound:
            return None
        config = None
        if log.champion is not None:
            with contextlib.suppress(RegistryError, ConfigInvalid):
                stored = copy.load_settings(log.champion.seq)
                config = configs.parse_text(stored, source=SETTINGS_FILE)
        return Kept(log=log, config=config)


def _rolled_back(done: LocalRollback) -> Waiting:
    return Waiting(
        text=f"rollback to version {done.version} by {done.actor} at {done.at}: {done.reason}",
        version=done.version,
    )


def _writes(number: int) -> str:
    return f"{number} write{'' if number == 1 else 's'}"


class LiveEdge:
    """`EdgePort` on the files of a home and on Envoy's admin interface."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def models(self) -> tuple[str, ...]:
        """Models that the traffic plan or the edge names."""
        plan, found = control.current_traffic(self._home), self.status()
        named = [m.model for m in plan.models] if plan is not None else []
        seen = [v.model for v in found.versions] if found is not None else []
        return tuple(sorted({*named, *seen}))

    def status(self) -> EdgeStatus | None:
        """What the edge says of itself; None when it does not run."""
        return control.current_status(self._home)

    def counts(self, model: str) -> Mapping[int, admin.ClusterStats] | None:
        """What Envoy counted per version since it started; None when the edge does not run."""
        found = self.status()
        if found is None or found.admin_url is None:
            return None
        versions = [v.version for v in found.versions if v.model == model]
        return asyncio.run(_counts(found.admin_url, model, versions))

    def counted(self, model: str) -> history.Counted | None:
        """What the edge counted lately."""
        known = history.load(EdgeHome.of(self._home).counts)
        return known.of(model, now_s=time.monotonic())


async def _counts(
    admin_url: str, model: str, versions: Sequence[int]
) -> Mapping[int, admin.ClusterStats]:
    async with admin.AdminClient(admin_url) as client:
        return {v: await client.stats(ClusterKey(model=model, version=v).name) for v in versions}
