"""What the replica directory knows and decides, without Ray and with the clock passed in.

The one idea: a replica's heartbeat carries its whole endpoint, so a directory that lost its memory
learns everything again within one heartbeat timeout; until then it says that its list is not
complete, and whoever reads it keeps the last good one.

A replica that drains asks whether every edge has acknowledged a list without it. Edges that have
not been heard of for `edge_timeout_s` are not waited for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from serving.endpoint import Endpoint, EndpointState


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorySettings:
    """How long silence is tolerated."""

    heartbeat_timeout_s: float = 5.0
    """A replica silent for longer is left out; five missed heartbeats, so one slow second is not
    taken for a death."""
    edge_timeout_s: float = 30.0
    """An edge silent for longer is not waited for by draining replicas; longer than an edge takes
    to restart."""

    def __post_init__(self) -> None:
        for name in ("heartbeat_timeout_s", "edge_timeout_s"):
            if getattr(self, name) <= 0:
                raise ValueError(f"directory {name} must be above 0, got {getattr(self, name)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The list at one generation. An incomplete one must not replace an earlier list."""

    generation: int
    endpoints: tuple[Endpoint, ...]
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    endpoint: Endpoint
    seen_at_s: float
    draining_since: int | None = None
    """The first generation that shows it as draining; None while it is ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ack:
    generation: int
    seen_at_s: float


class DirectoryState:
    """The directory without Ray. Not thread-safe; `now_s` is a clock that never goes back."""

    def __init__(self, settings: DirectorySettings, *, now_s: float) -> None:
        self._settings = settings
        self._started_at_s = now_s
        self._generation = 0
        self._entries: dict[str, _Entry] = {}
        self._acks: dict[str, _Ack] = {}

    def publish(self, endpoint: Endpoint, *, now_s: float) -> int:
        """A heartbeat with all there is to know. Draining is final: ready does not undo it."""
        self._expire(now_s)
        old = self._entries.get(endpoint.replica_id)
        if old is not None and old.draining_since is not None:
            endpoint = replace(endpoint, state=EndpointState.DRAINING)
        if old is None or old.endpoint != endpoint:
            self._generation += 1
        since = None
        if endpoint.state is EndpointState.DRAINING:
            since = old.draining_since if old and old.draining_since else self._generation
        self._entries[endpoint.replica_id] = _Entry(
            endpoint=endpoint, seen_at_s=now_s, draining_since=since
        )
        return self._generation

    def mark_draining(self, replica_id: str, *, now_s: float) -> int:
        """Asks the edges to send it nothing new. An unknown replica is not listed anyway."""
        entry = self._entries.get(replica_id)
        if entry is None:
            return self._generation
        return self.publish(replace(entry.endpoint, state=EndpointState.DRAINING), now_s=now_s)

    def remove(self, replica_id: str) -> int:
        """Forgets a replica; unknown ones are already forgotten."""
        if self._entries.pop(replica_id, None) is not None:
            self._generation += 1
        return self._generation

    def snapshot(self, *, now_s: float) -> Snapshot:
        """Every replica heard of lately, sorted by id, and whether that is all of them."""
        self._expire(now_s)
        return Snapshot(
            generation=self._generation,
            endpoints=tuple(self._entries[key].endpoint for key in sorted(self._entries)),
            complete=self._complete(now_s),
        )

    def generation(self, *, now_s: float) -> int:
        """The generation that `snapshot` would have."""
        self._expire(now_s)
        return self._generation

    def ack(self, edge_id: str, generation: int, *, now_s: float) -> None:
        """An edge says that it serves from this generation; repeated as its heartbeat."""
        self._acks[edge_id] = _Ack(generation=generation, seen_at_s=now_s)

    def acked(self, *, now_s: float) -> Mapping[str, int]:
        """The generation each living edge serves from."""
        self._expire(now_s)
        return {edge_id: ack.generation for edge_id, ack in self._acks.items()}

    def released(self, replica_id: str, *, now_s: float) -> bool:
        """Whether no living edge can still send new requests to this replica."""
        acked = self.acked(now_s=now_s)
        if not self._complete(now_s):
            return False
        entry = self._entries.get(replica_id)
        if entry is None:
            since = self._generation
        elif entry.draining_since is None:
            return False
        else:
            since = entry.draining_since
        return all(generation >= since for generation in acked.values())

    def _complete(self, now_s: float) -> bool:
        return now_s - self._started_at_s >= self._settings.heartbeat_timeout_s

    def _expire(self, now_s: float) -> None:
        oldest_s = now_s - self._settings.heartbeat_timeout_s
        stale = [key for key, entry in self._entries.items() if entry.seen_at_s < oldest_s]
        for key in stale:
            self.remove(key)
        oldest_s = now_s - self._settings.edge_timeout_s
        self._acks = {key: ack for key, ack in self._acks.items() if ack.seen_at_s >= oldest_s}
