"""One look at a model: every source read at once, each within its limit.

The edge and the owner's sign of life are read twice, a little over a second apart, because only
the difference says what happens *now*. Who looks again and again compares with the look before.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from jobs.status.assemble import assemble
from jobs.status.facts import Status, Waiting
from jobs.status.gathered import Gathered, Heard, Seen
from jobs.status.ports import Kept, Ports, RecordPort, Records, Unfinished
from jobs.status.reading import Known, Pending, Reader, Unread, had
from pipelines.config import PromotionConfig
from registry.ledger import Log
from registry.model import StageEvidence
from serving.edge import history, interval
from serving.edge.admin import ClusterStats
from serving.edge.status import EdgeStatus

INTERVAL_S = 1.2
"""Between two readings: Envoy updates its histograms once a second, so one update lies between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """Envoy's counters, and when they were read (this process's clock)."""

    at_s: float
    counts: Mapping[int, ClusterStats] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfRecord:
    """What is being read from an open record."""

    port: RecordPort
    models: Pending[tuple[str, ...]]
    log: Pending[Log]
    last: Pending[tuple[StageEvidence, str | None] | None]
    work: Pending[Unfinished | None]


_OfHome = tuple[Known[EdgeStatus], Known[history.Counted], Known[tuple[Waiting, ...]], Known[Kept]]


class Opener:
    """The way to the record, which stays open between looks while it answers."""

    def __init__(self, records: Records, *, reader: Reader | None = None) -> None:
        self._records = records
        self._reader = reader or Reader()
        self._record: RecordPort | None = None
        self._turn = threading.Lock()

    def open(self) -> RecordPort | Unread:
        """The record, or why it cannot be read."""
        with self._turn:
            reached = self._reader.read("record", self._records.reach)
            if isinstance(reached, Unread):
                return reached
            if self._record is None:
                self._records.load()
                opened = self._reader.read("opening", self._records.open)
                if isinstance(opened, Unread):
                    return opened
                self._record = opened
            return self._record


class Observer:
    """Looks at one model, once or again and again."""

    def __init__(
        self, model: str, ports: Ports, opener: Opener, *, reader: Reader | None = None
    ) -> None:
        self._model = model
        self._ports = ports
        self._opener = opener
        self._reader = reader or Reader()
        self._before: _Reading | None = None
        self._heard: Heard | None = None

    def look(self) -> Status:
        """What is known now. What could not be read is named in the status, not raised."""
        ports, limit_s = self._ports, self._reader.limit_s
        first = self._reader.begin("traffic", self._reading) if self._before is None else None
        record = self._opener.open()
        found = self._of_record(record) if not isinstance(record, Unread) else None
        log = found.log.get(limit_s) if found else None
        settings, evidence = self._of_champion(found, had(log))
        self._listen(found, had(log))
        edge, counted, journal, kept = self._of_home(needs_copy=had(log) is None)
        if first is not None:
            read = first.get(limit_s)
            self._before = read if isinstance(read, _Reading) else None
        self._wait()
        return assemble(
            Gathered(
                model=self._model,
                endpoint=ports.endpoint(),
                record=record if isinstance(record, Unread) else record.address,
                models=found.models.get(limit_s) if found else None,
                log=log,
                settings=settings,
                evidence=evidence,
                last=found.last.get(limit_s) if found else None,
                work=found.work.get(limit_s) if found else None,
                edge=edge,
                counted=counted,
                journal=journal,
                kept=kept,
                traffic=self._traffic(),
                heard=self._listen(found, had(log)),
                at=ports.now(),
                at_ms=ports.now_ms(),
            )
        )

    def _of_record(self, port: RecordPort) -> _OfRecord:
        model, begin = self._model, self._reader.begin

        def last() -> tuple[StageEvidence, str | None] | None:
            ended = max(port.attempts(model), key=lambda e: e.ended_at_ms, default=None)
            return (ended, port.url(ended.run_id)) if ended is not None else None

        return _OfRecord(
            port=port,
            models=begin("models", port.models),
            log=begin("log", lambda: port.log(model)),
            last=begin("last", last),
            work=begin("work", lambda: port.unfinished(model)),
        )

    def _of_champion(
        self, found: _OfRecord | None, log: Log | None
    ) -> tuple[Known[PromotionConfig], Known[str]]:
        if found is None or log is None or log.champion is None:
            return None, None
        entry, port = log.champion, found.port
        settings = self._reader.begin("settings", lambda: port.settings(self._model, entry))
        evidence = self._reader.begin("evidence", lambda: port.url(entry.evidence_run))
        limit_s = self._reader.limit_s
        return settings.get(limit_s), evidence.get(limit_s)

    def _of_home(self, *, needs_copy: bool) -> _OfHome:
        edge, kept, model = self._ports.edge, self._ports.journal, self._model

        status = self._reader.begin("edge", edge.status)
        counts = self._reader.begin("counted", lambda: edge.counted(model))
        journal = self._reader.begin("journal", lambda: kept.waiting(model))
        copy = self._reader.begin("kept", lambda: kept.kept(model)) if needs_copy else None
        limit_s = self._reader.limit_s
        return (
            status.get(limit_s),
            counts.get(limit_s),
            journal.get(limit_s),
            copy.get(limit_s) if copy is not None else None,
        )

    def _reading(self) -> _Reading:
        return _Reading(at_s=self._ports.clock(), counts=self._ports.edge.counts(self._model))

    def _wait(self) -> None:
        """Until Envoy has counted something new since the reading before."""
        before = self._before
        if before is not None and before.counts is not None:
            left_s = before.at_s + INTERVAL_S - self._ports.clock()
            if left_s > 0:
                self._ports.sleep(left_s)

    def _traffic(self) -> Known[Mapping[int, Seen]]:
        """What came of requests since the reading before."""
        before, now = self._before, self._reader.read("traffic", self._reading)
        self._before = now if isinstance(now, _Reading) else None
        if isinstance(now, Unread):
            return now
        if before is None or before.counts is None or now.counts is None:
            return None
        seconds, earlier = now.at_s - before.at_s, before.counts
        return {
            version: Seen(
                interval=interval.between(earlier[version], after, seconds=seconds),
                ejected=after.ejections_active,
            )
            for version, after in now.counts.items()
            if version in earlier
        }

    def _listen(self, found: _OfRecord | None, log: Log | None) -> Known[Heard]:
        """Hears the owner's sign of life, and remembers since when it is the same."""
        claim = log.claim if log is not None else None
        if found is None or claim is None:
            return None
        beats = self._reader.read("heard", lambda: found.port.beats(self._model))
        if isinstance(beats, Unread):
            return beats
        said, now_s = beats.get(claim.epoch, ""), self._ports.clock()
        lives = self._ports.process_lives(claim.owner)
        before = self._heard
        if before is None or before.epoch != claim.epoch:
            before = Heard(epoch=claim.epoch, said=said, since_s=now_s, now_s=now_s)
        self._heard = before.again(said, now_s=now_s, lives=lives)
        return self._heard
