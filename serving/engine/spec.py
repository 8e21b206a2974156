"""What a replica is to serve, as one plain value, and how its checkpoint gets onto its node."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from registry import cache, checkpoint
from registry.engine_settings import EngineSettings
from registry.errors import CheckpointInvalid
from registry.journal import patient
from registry.manifest import Manifest
from serving.engine.state import Identity, Limits

_log = logging.getLogger(__name__)

RECORD_PATIENCE_S = 60.0
"""A replica that starts while MLflow is being restarted waits for it rather than fails."""

MAX_FRONT_ENDS = 64
MAX_PORT = 65_535
QUIET_S = 0.5


class Listing(StrEnum):
    """How a replica becomes known to the edges, and how it leaves them."""

    DIRECTORY = "directory"  # heartbeats to the Ray directory, which the edges acknowledge
    PROBES = "probes"  # /readyz, which Kubernetes asks; edges are given time instead of asked


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSpec:
    """Everything a replica needs to know; the only argument of its deployment.

    Raises:
        ValueError: a field is out of its bounds, or the digest is not the manifest's.
    """

    model: str
    """Name that callers give in `model`."""
    version: int
    """Registered version; pinned, an alias is never served."""
    digest: str
    """Digest of the manifest; files that differ from it are not loaded."""
    manifest_json: str
    """The manifest in its stored form: files, prompt template, generation settings."""
    checkpoint_dir: str
    """Where the files may lie on the replica's node already."""
    tracking_uri: str = ""
    """The record to fetch the files from where they do not; empty means they must be there."""
    cache_dir: str = ""
    """Where fetched checkpoints are kept on a node, by digest; needed with `tracking_uri`."""
    engine: EngineSettings = field(default_factory=EngineSettings)
    """How the engine is built; the same settings the version was evaluated with."""
    engine_factory: str = "serving.engine.vllm_core:launch"
    """Import path of the `CoreFactory`; another one only in tests."""
    front_ends: int = 1
    """Processes that answer HTTP on the one engine."""
    host: str = "127.0.0.1"
    """Address to listen on and to publish; `node` means the address of the replica's node."""
    port: int = 0
    """Port to listen on; 0 lets the system choose. A fixed one where a replica has its own pod."""
    listing: Listing = Listing.DIRECTORY
    """Who tells the edges about it."""
    settle_s: float = 5.0
    """With `Listing.PROBES`, how long a leaving replica goes on taking requests: probe, endpoint
    slice, discovery and edge must have seen it by then. Shorter than `release_timeout_s`."""
    limits: Limits = field(default_factory=Limits)
    """What one replica takes before it refuses."""
    warmup_requests: int = 3
    """Requests answered before the replica is published; the first are several times slower."""
    heartbeat_s: float = 1.0
    """Time between two signs of life; a fifth of the directory's timeout."""
    release_timeout_s: float = 10.0
    """Longest wait for the edges to let go of a draining replica; beyond it they are not asked."""
    drain_timeout_s: float = 60.0
    """Longest wait for requests in flight; at least the longest deadline, or they are cut off."""
    quiet_s: float = QUIET_S
    """How long nothing may be in flight before the port closes; covers requests on their way."""

    def __post_init__(self) -> None:
        for name in ("heartbeat_s", "release_timeout_s", "drain_timeout_s"):
            if getattr(self, name) <= 0:
                raise ValueError(f"replica {name} must be above 0, got {getattr(self, name)}")
        for name in ("quiet_s", "warmup_requests"):
            if getattr(self, name) < 0:
                raise ValueError(f"replica {name} must be at least 0, got {getattr(self, name)}")
        if not 0 <= self.port <= MAX_PORT:
            raise ValueError(f"replica port must be 0..{MAX_PORT}, got {self.port}")
        if self.listing is Listing.PROBES and not 0 < self.settle_s < self.release_timeout_s:
            raise ValueError(
                f"replica settle_s must be above 0 and below release_timeout_s "
                f"({self.release_timeout_s}), got {self.settle_s}"
            )
        if not 1 <= self.front_ends <= MAX_FRONT_ENDS:
            raise ValueError(
                f"replica front_ends must be 1..{MAX_FRONT_ENDS}, got {self.front_ends}"
            )
        if self.tracking_uri and not self.cache_dir:
            raise ValueError("replica cache_dir must be given with tracking_uri, got an empty one")
        found = self.manifest.digest
        if found != self.digest:
            raise ValueError(f"replica digest must be the manifest's {found}, got {self.digest}")

    @property
    def manifest(self) -> Manifest:
        """The manifest, read anew at each use."""
        return Manifest.from_json(self.manifest_json)

    @property
    def identity(self) -> Identity:
        """Who the replica is."""
        return Identity(model=self.model, version=self.version, digest=self.digest)

    @property
    def shutdown_timeout_s(self) -> float:
        """The longest a clean shutdown takes, the engine's own included."""
        return self.release_timeout_s + self.drain_timeout_s + self.quiet_s + 20.0


def local_checkpoint(spec: ReplicaSpec) -> Path:
    """The verified directory of the checkpoint on this node, fetched if it is not there.

    Raises:
        CheckpointInvalid: the files are nowhere to be had.
        RecordConflict: the files differ from the manifest.
        RegistryError: the record did not give them.
    """
    given = Path(spec.checkpoint_dir)
    if spec.checkpoint_dir and given.is_dir():
        checkpoint.verify_files(given, spec.manifest)
        return given
    if not spec.tracking_uri:
        raise CheckpointInvalid(
            f"{given} is not on this node and no record was given to fetch version {spec.version} "
            f"of {spec.model} from; put it there or set tracking_uri"
        )
    from registry.mlflow_store import connect

    record = connect(spec.tracking_uri, check=False)
    versions = patient(record, patience_s=RECORD_PATIENCE_S, note=_log.warning).versions
    version = versions.get(spec.model, spec.version)
    if version.digest != spec.digest:
        raise CheckpointInvalid(
            f"version {spec.version} of {spec.model} at {spec.tracking_uri} has digest "
            f"{version.digest}, this replica must serve {spec.digest}"
        )
    return cache.fetch(versions, version, Path(spec.cache_dir))
