"""A version as a declarative Serve application: what KubeRay deploys from a RayService's text.

The one idea: the text names a version and its digest, nothing else about the model. What the
version is made of comes from the record, and a record that has another digest under that number
is refused. On Kubernetes a replica has a pod, and with it a fixed port, to itself; who may change
what runs is who may change the RayService, so the deployer's epochs are not asked.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from registry.cache import path_for
from registry.engine_settings import EngineSettings
from registry.journal import patient
from registry.model import ModelVersion
from serving.cluster import Resources, deployment_options
from serving.engine.replica import NODE_HOST, Replica
from serving.engine.spec import RECORD_PATIENCE_S, Listing, ReplicaSpec
from serving.engine.state import Limits
from serving.errors import DeploymentFailed

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """The `args` of the application; see docs/kubernetes.md.

    Raises:
        ValueError: a field is out of its bounds.
        TypeError: an unknown field, or one that is missing.
    """

    model: str
    version: int
    digest: str
    tracking_uri: str
    """The record's address, as pods reach it."""
    cache_dir: str
    """Where a pod keeps checkpoints by digest."""
    port: int
    """Of each replica; the pod's container port."""
    resources: Resources
    engine: EngineSettings
    limits: Limits
    front_ends: int = 1
    settle_s: float = 5.0
    release_timeout_s: float = 10.0
    drain_timeout_s: float = 60.0
    engine_factory: str = "serving.engine.vllm_core:launch"

    @classmethod
    def of(cls, args: Mapping[str, Any]) -> Declared:
        """From plain values: `resources`, `engine` and `limits` are mappings, and may be absent."""
        plain = dict(args)
        return cls(
            resources=Resources(**plain.pop("resources", {})),
            engine=EngineSettings(**plain.pop("engine", {})),
            limits=Limits(**plain.pop("limits", {})),
            **plain,
        )

    def spec(self, found: ModelVersion) -> ReplicaSpec:
        """What each replica takes, once the record has said what the version is made of.

        Raises:
            DeploymentFailed: the record's digest is another.
        """
        if found.digest != self.digest:
            raise DeploymentFailed(
                f"version {self.version} of {self.model} at {self.tracking_uri} has digest "
                f"{found.digest}, the application asks for {self.digest}; `liftlock history "
                f"{self.model}` lists both"
            )
        return ReplicaSpec(
            model=self.model,
            version=self.version,
            digest=self.digest,
            manifest_json=found.manifest.to_json(),
            checkpoint_dir=str(path_for(Path(self.cache_dir), self.digest)),
            tracking_uri=self.tracking_uri,
            cache_dir=self.cache_dir,
            engine=self.engine,
            engine_factory=self.engine_factory,
            front_ends=self.front_ends,
            host=NODE_HOST,
            port=self.port,
            listing=Listing.PROBES,
            settle_s=self.settle_s,
            limits=self.limits,
            release_timeout_s=self.release_timeout_s,
            drain_timeout_s=self.drain_timeout_s,
        )


def application(args: dict[str, Any]) -> Any:
    """The Serve application of one version; Serve calls it with the `args` of its config.

    Raises:
        DeploymentFailed: the args cannot be accepted, or the record's digest is another.
        RegistryError: the record did not answer, or has no such version.
    """
    return built(args, _in_record)


def built(args: Mapping[str, Any], look_up: Callable[[Declared], ModelVersion]) -> Any:
    """`application` with another record; tests give one."""
    from ray import serve

    try:
        wanted = Declared.of(args)
        spec = wanted.spec(look_up(wanted))
    except (TypeError, ValueError) as exc:
        raise DeploymentFailed(f"the application's args cannot be accepted: {exc}") from exc
    options = deployment_options(spec, 1, wanted.resources)
    # How many there are is the config's own word, so that another number replaces no replica.
    for left_out in ("version", "num_replicas"):
        del options[left_out]
    # A pod has one port, and none to spare for a surge: another version is another RayService.
    pods = {"max_replicas_per_node": 1, "max_surge_percent": 0}
    return serve.deployment(Replica).options(**{**options, **pods}).bind(pickle.dumps(spec))


def _in_record(wanted: Declared) -> ModelVersion:
    from registry.mlflow_store import connect

    record = connect(wanted.tracking_uri, check=False)
    versions = patient(record, patience_s=RECORD_PATIENCE_S, note=_log.warning).versions
    return versions.get(wanted.model, wanted.version)
