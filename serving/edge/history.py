"""What the edge counted lately, so that a share of faults can be told for the last minutes.

Envoy knows only what it counted since it started. The edge service takes a reading every few
seconds and keeps the differences for an hour, in a file that anybody on the machine can read.
Times are this machine's monotonic clock, which no correction of the date moves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from serving import errors
from serving.discovery import files
from serving.discovery import snapshot as discovery

FORMAT = "liftlock/counts/v1"
SAMPLE_S = 10.0
KEEP_S = 3600.0
STALE_S = 4 * SAMPLE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """Requests answered, and those of them that were server faults."""

    requests: int
    faults: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What was counted per cluster between two readings; clusters without requests are left out."""

    from_s: float
    to_s: float
    counts: Mapping[str, Count]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The samples, oldest first, and the reading that the next one is compared with."""

    samples: tuple[Sample, ...] = ()
    read_at_s: float | None = None
    """When `totals` was read; None before the first reading."""
    totals: Mapping[str, Count] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What was counted over the last `seconds`."""

    seconds: float
    requests: int
    faults: int


def extended(history: History, totals: Mapping[str, Count], now_s: float) -> History:
    """The history after another reading of Envoy's totals; what is older than an hour is dropped.

    A cluster's totals that fell were set back by a restart of Envoy and count from zero, and so do
    those of a cluster that is new.
    """
    if history.read_at_s is None:
        return History(read_at_s=now_s, totals=dict(totals))
    found = {name: _since(history.totals.get(name), now) for name, now in totals.items()}
    sample = Sample(
        from_s=history.read_at_s,
        to_s=now_s,
        counts={name: count for name, count in found.items() if count.requests},
    )
    kept = tuple(s for s in history.samples if s.from_s >= now_s - KEEP_S)
    return History(samples=(*kept, sample), read_at_s=now_s, totals=dict(totals))


def _since(before: Count | None, now: Count) -> Count:
    if before is None or now.requests < before.requests:
        return now
    return Count(requests=now.requests - before.requests, faults=now.faults - before.faults)


def over(history: History, model: str, window_s: float, *, now_s: float) -> Window | None:
    """A model's counts over about the last `window_s` seconds, or as long as is known.

    None where nothing was kept, or the one who keeps it stopped a while ago.
    """
    recent = [s for s in history.samples if s.from_s >= now_s - window_s - SAMPLE_S]
    if not recent or not 0 <= now_s - recent[-1].to_s <= STALE_S:
        return None
    counts = [c for s in recent for name, c in s.counts.items() if _is_of(name, model)]
    return Window(
        seconds=recent[-1].to_s - recent[0].from_s,
        requests=sum(c.requests for c in counts),
        faults=sum(c.faults for c in counts),
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
            "counts": {name: [c.requests, c.faults] for name, c in s.counts.items()},
        }
        for s in history.samples
    ]
    data = json.dumps({"format": FORMAT, "samples": samples}).encode()
    files.write_atomic(path, data, durable=False)


def load(path: Path) -> History:
    """The published samples, none without a file; raises EdgeError when it is unreadable."""
    try:
        data = json.loads(path.read_bytes())
        if data["format"] != FORMAT:
            raise ValueError(f"format {data['format']!r}")
        return History(samples=tuple(_sample(item) for item in data["samples"]))
    except FileNotFoundError:
        return History()
    except (KeyError, TypeError, ValueError, RecursionError) as exc:
        raise errors.EdgeError(
            f"{path} does not hold counts that this version wrote ({exc!s}); start the edge anew"
        ) from exc


def _sample(item: dict[str, object]) -> Sample:
    counts = item["counts"]
    if not isinstance(counts, dict):
        raise TypeError(f"counts {counts!r}")
    return Sample(
        from_s=float(str(item["from_s"])),
        to_s=float(str(item["to_s"])),
        counts={str(n): Count(requests=int(c[0]), faults=int(c[1])) for n, c in counts.items()},
    )
