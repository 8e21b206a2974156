"""What the edge counted lately, so that error budgets can be told without a metrics server.

Envoy knows only what it counted since it started. The edge service takes a reading every few
seconds and keeps the differences in a file that anybody on the machine can read: the last hour as
it was read, and what is older in ever longer samples, for a month. Times are this machine's
monotonic clock, which no correction of the date moves, so what is kept is forgotten at a reboot.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from registry import processes
from serving import errors
from serving.discovery import files
from serving.discovery import snapshot as discovery
from serving.edge import interval
from serving.edge.admin import ClusterStats, LatencyBucket
from serving.edge.interval import Interval

FORMAT = "liftlock/counts/v2"
SAMPLE_S = 10.0
STALE_S = 4 * SAMPLE_S
_HOUR_S, _DAY_S = 3_600.0, 86_400.0
KEEP_S = 31 * _DAY_S
_TIERS = ((_HOUR_S, 0.0), (6 * _HOUR_S, 60.0), (3 * _DAY_S, 600.0), (KEEP_S, 6 * _HOUR_S))
"""Up to which age samples are joined to which length, in seconds: about 1,200 of them in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What was counted per cluster between two readings; clusters without requests are left out."""

    from_s: float
    to_s: float
    counts: Mapping[str, Interval]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The samples, oldest first, and the reading that the next one is compared with."""

    samples: tuple[Sample, ...] = ()
    read_at_s: float | None = None
    """When `totals` was read; None before the first reading."""
    totals: Mapping[str, ClusterStats] = field(default_factory=dict)

    def of(self, model: str, *, now_s: float) -> Counted | None:
        """One model's counts; None where nothing was kept, or the one who keeps it stopped."""
        if not self.samples or not 0 <= now_s - self.samples[-1].to_s <= STALE_S:
            return None
        return Counted(model=model, samples=self.samples, now_s=now_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What was counted of one model until `now_s`."""

    model: str
    samples: tuple[Sample, ...]
    now_s: float

    def over(self, window_s: float) -> Interval | None:
        """About the last `window_s` seconds; `seconds` of it says for how long it was counted."""
        # A sample counts where most of it lies in the window.
        begin_s = self.now_s - window_s
        recent = [s for s in self.samples if (s.from_s + s.to_s) / 2 >= begin_s]
        if not recent:
            return None
        return interval.added(
            (i for s in recent for name, i in s.counts.items() if _is_of(name, self.model)),
            seconds=sum(s.to_s - s.from_s for s in recent),
        )


def extended(history: History, totals: Mapping[str, ClusterStats], now_s: float) -> History:
    """The history after another reading of Envoy's totals."""
    if history.read_at_s is None:
        return History(samples=history.samples, read_at_s=now_s, totals=dict(totals))
    seconds = now_s - history.read_at_s
    found = {
        name: interval.between(history.totals.get(name), now, seconds=seconds)
        for name, now in totals.items()
    }
    sample = Sample(
        from_s=history.read_at_s,
        to_s=now_s,
        counts={name: seen for name, seen in found.items() if seen.requests or seen.measured},
    )
    samples = _thinned((*history.samples, sample), now_s)
    return History(samples=samples, read_at_s=now_s, totals=dict(totals))


def _thinned(samples: tuple[Sample, ...], now_s: float) -> tuple[Sample, ...]:
    """Old samples joined to longer ones, and what is too old dropped."""
    kept: list[Sample] = []
    for sample in samples:
        longest_s = next((step for age, step in _TIERS if now_s - sample.to_s <= age), None)
        if longest_s is None:
            continue
        last = kept[-1] if kept else None
        # Across a gap nothing is joined: it was not counted.
        if (
            last is not None
            and last.to_s == sample.from_s
            and sample.to_s - last.from_s <= longest_s
        ):
            kept[-1] = _joined(last, sample)
        else:
            kept.append(sample)
    return tuple(kept)


def _joined(first: Sample, second: Sample) -> Sample:
    seconds = second.to_s - first.from_s
    names = {**first.counts, **second.counts}
    return Sample(
        from_s=first.from_s,
        to_s=second.to_s,
        counts={
            name: interval.added(
                (s.counts[name] for s in (first, second) if name in s.counts), seconds=seconds
            )
            for name in names
        },
    )


def _is_of(cluster: str, model: str) -> bool:
    try:
        return discovery.ClusterKey.parse(cluster).model == model
    except ValueError:
        return False


def store(path: Path, history: History) -> None:
    """Publish the samples; not durable, since they mean nothing after a reboot."""
    samples = [
        {
            "from_s": s.from_s,
            "to_s": s.to_s,
            "counts": {name: _plain(seen) for name, seen in s.counts.items()},
        }
        for s in history.samples
    ]
    content = {"format": FORMAT, "boot": processes.boot_id(), "samples": samples}
    files.write_atomic(path, json.dumps(content).encode(), durable=False)


def load(path: Path) -> History:
    """The published samples, none without a file or of an earlier boot.

    Raises EdgeError when it is unreadable.
    """
    try:
        data = json.loads(path.read_bytes())
        if data["format"] != FORMAT:
            raise ValueError(f"format {data['format']!r}")
        if data["boot"] != processes.boot_id():
            return History()
        return History(samples=tuple(_sample(item) for item in data["samples"]))
    except FileNotFoundError:
        return History()
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as exc:
        raise errors.EdgeError(
            f"{path} does not hold counts that this version wrote ({exc!s}); start the edge anew"
        ) from exc


def _plain(seen: Interval) -> list[Any]:
    buckets = [[b.le_ms, b.count] for b in seen.latency]
    return [seen.requests, seen.faults, seen.timeouts, buckets]


def _sample(item: dict[str, Any]) -> Sample:
    from_s, to_s = float(item["from_s"]), float(item["to_s"])
    counts = item["counts"].items()
    return Sample(
        from_s=from_s,
        to_s=to_s,
        counts={str(name): _interval(found, to_s - from_s) for name, found in counts},
    )


def _interval(found: list[Any], seconds: float) -> Interval:
    requests, faults, timeouts, buckets = found
    return Interval(
        seconds=seconds,
        requests=int(requests),
        faults=int(faults),
        timeouts=int(timeouts),
        latency=tuple(LatencyBucket(le_ms=float(le), count=int(n)) for le, n in buckets),
    )
