"""A serving plane in memory: versions come up, answer and count as the test says.

`FakePlane` is what serves; whoever has it may do anything. `FakePlane.open` gives what one owner
has; that passes the contract in tests/serving/test_plane.py, as the real plane does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from registry.model import ModelVersion
from serving import fence
from serving.edge.admin import ClusterStats, LatencyBucket
from serving.errors import DeploymentFailed, EdgeError
from serving.plane import Answer


@dataclass
class FakePlane:
    """Traffic is simulated by the questions asked: each is answered by a version with weight."""

    deployed: dict[int, ModelVersion] = field(default_factory=dict)
    shares: dict[int, int] = field(default_factory=dict)
    never_ready: set[int] = field(default_factory=set)
    faulty: set[int] = field(default_factory=set)
    """Versions whose answers are server faults."""
    slow: set[int] = field(default_factory=set)
    """Versions that take five seconds to answer."""
    lying: set[int] = field(default_factory=set)
    """Versions that answer with another checkpoint's digest."""
    dead: set[int] = field(default_factory=set)
    """Versions that have lost their replicas."""
    absent_looks: int = 0
    """Looks at ready replicas, from the first, that find none."""
    never_drains: set[int] = field(default_factory=set)
    counts_readable: bool = True
    restarts: set[int] = field(default_factory=set)
    """Before which readings of the counts, from 1, Envoy starts anew and counts from zero."""
    events: list[str] = field(default_factory=list)
    claim: fence.Claim | None = None
    """Who owns it."""
    _counts: dict[int, list[int]] = field(default_factory=dict)
    _turn: int = 0
    _readings: int = 0

    def open(self, epoch: int, owner: str) -> OwnedPlane:
        """The plane in the hand of an owner; raises StaleEpoch when another is in force."""
        claim = fence.Claim(model="grammar", epoch=epoch, owner=owner)
        self.admit(claim, "own it")
        return OwnedPlane(self, claim)

    def admit(self, claim: fence.Claim, action: str) -> None:
        """Raises StaleEpoch when another owner is in force."""
        self.claim = fence.admit(self.claim, claim, action)

    def running(self) -> tuple[int, ...]:
        return tuple(sorted(self.deployed))

    def weights(self) -> Mapping[int, int]:
        return dict(self.shares)

    def start(self, version: ModelVersion, replicas: int) -> None:
        if version.version not in self.deployed:
            self.events.append(f"start {version.version} x{replicas}")
        self.deployed[version.version] = version

    def wait_ready(self, version: int, replicas: int, timeout_s: float) -> None:
        if version in self.never_ready:
            raise DeploymentFailed(f"version {version} did not start: out of memory")

    def ask_replicas(self, version: int, text: str) -> tuple[Answer, ...]:
        return (self._answer(version),)

    def ask(self, text: str) -> Answer:
        live = [v for v, w in self.shares.items() if w > 0 and v in self.deployed]
        if not live:
            raise EdgeError("nothing serves")
        self._turn += 1
        version = live[self._turn % len(live)]
        count = self._counts.setdefault(version, [0, 0])
        if version in self.faulty:
            count[1] += 1
            raise DeploymentFailed("503")
        count[0] += 1
        return self._answer(version)

    def set_weights(self, weights: Mapping[int, int], timeout_s: float) -> None:
        self.events.append(f"weights {dict(sorted(weights.items()))}")
        self.shares = dict(weights)
        absent = [v for v, w in weights.items() if w > 0 and v not in self.deployed]
        if absent:  # the edge leaves out what has no replica, so the split never comes about
            raise EdgeError(f"waited {timeout_s:g} s: versions {absent} have no ready replica")

    def counts(self, version: int) -> ClusterStats | None:
        self._readings += 1
        if self._readings in self.restarts:
            self._counts.clear()
        if not self.counts_readable:
            return None
        answers, faults = self._counts.get(version, [0, 0])
        fast = 0 if version in self.slow else answers + faults
        return ClusterStats(
            completed=answers + faults, ok=answers, client_errors=0, server_errors=faults,
            retries=0, timeouts=0, active=0, ejections_active=0,
            latency=(
                LatencyBucket(le_ms=50.0, count=fast),
                LatencyBucket(le_ms=5_000.0, count=answers + faults),
            ),
        )  # fmt: skip

    def ready_replicas(self, version: int) -> int | None:
        self.absent_looks -= 1
        return 0 if version in self.dead or self.absent_looks >= 0 else 1

    def retire(self, version: int, timeout_s: float) -> None:
        if version in self.never_drains:
            raise DeploymentFailed(f"version {version} was still draining after {timeout_s:g} s")
        if self.deployed.pop(version, None) is not None:
            self.events.append(f"retire {version}")

    def _answer(self, version: int) -> Answer:
        digest = "sha256:other" if version in self.lying else self.deployed[version].digest
        return Answer(version=version, digest=digest, corrected="ok", seconds=0.01)


class OwnedPlane:
    """A shared `FakePlane` under one epoch: what would change it is refused after a takeover."""

    def __init__(self, shared: FakePlane, claim: fence.Claim) -> None:
        self._shared = shared
        self._claim = claim

    def running(self) -> tuple[int, ...]:
        return self._shared.running()

    def weights(self) -> Mapping[int, int]:
        return self._shared.weights()

    def start(self, version: ModelVersion, replicas: int) -> None:
        self._shared.admit(self._claim, f"start version {version.version}")
        self._shared.start(version, replicas)

    def wait_ready(self, version: int, replicas: int, timeout_s: float) -> None:
        self._shared.wait_ready(version, replicas, timeout_s)

    def ask_replicas(self, version: int, text: str) -> tuple[Answer, ...]:
        return self._shared.ask_replicas(version, text)

    def ask(self, text: str) -> Answer:
        return self._shared.ask(text)

    def set_weights(self, weights: Mapping[int, int], timeout_s: float) -> None:
        self._shared.admit(self._claim, "set weights")
        self._shared.set_weights(weights, timeout_s)

    def counts(self, version: int) -> ClusterStats | None:
        return self._shared.counts(version)

    def ready_replicas(self, version: int) -> int | None:
        return self._shared.ready_replicas(version)

    def retire(self, version: int, timeout_s: float) -> None:
        self._shared.admit(self._claim, f"retire version {version}")
        self._shared.retire(version, timeout_s)
