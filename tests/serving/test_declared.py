"""A version as KubeRay's text names it: pinned by digest, one replica to a pod on a fixed port."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from registry.model import ModelVersion
from serving.declared import Declared, built
from serving.engine.spec import Listing, ReplicaSpec
from serving.errors import DeploymentFailed
from tests.serving.engine.conftest import MANIFEST

pytestmark = pytest.mark.filterwarnings("ignore:Using extra keyword")  # Ray Serve's own schema
ARGS: dict[str, Any] = {
    "model": "grammar", "version": 3, "digest": MANIFEST.digest,
    "tracking_uri": "http://mlflow:5000", "cache_dir": "/cache", "port": 8000,
    "front_ends": 4, "engine": {"device": "cuda"}, "resources": {"num_cpus": 8, "num_gpus": 1},
}  # fmt: skip


def recorded(digest: str) -> ModelVersion:
    return ModelVersion(
        model="grammar", version=3, digest=digest, source="", model_id=None, manifest=MANIFEST
    )


def made(**changes: Any) -> Any:
    return built({**ARGS, **changes}, lambda _: recorded(MANIFEST.digest))


def test_each_replica_has_a_pod_and_its_port_and_is_found_by_probes() -> None:
    deployment = made()._bound_deployment
    (pickled,) = deployment.init_args
    spec: ReplicaSpec = pickle.loads(pickled)
    assert (spec.host, spec.port, spec.listing) == ("node", 8000, Listing.PROBES)
    assert (spec.front_ends, spec.engine.device, spec.version) == (4, "cuda", 3)
    assert spec.checkpoint_dir.startswith("/cache/")
    replica = deployment._replica_config
    assert replica.max_replicas_per_node == 1
    assert replica.ray_actor_options["num_gpus"] == 1
    assert deployment._deployment_config.max_surge_percent == 0


def test_a_record_with_another_digest_is_refused() -> None:
    with pytest.raises(DeploymentFailed, match=r"has digest sha256:0000, the application asks"):
        built(ARGS, lambda _: recorded("sha256:0000"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"versoin": 4}, "unexpected keyword argument 'versoin'"),
        ({"engine": {"device": "tpu"}}, "engine device must be one of cpu, cuda"),
        ({"port": 70_000}, r"replica port must be 0\.\.65535, got 70000"),
        ({"settle_s": 10.0}, "settle_s must be above 0 and below release_timeout_s"),
        ({"limits": {"max_in_flight": 0}}, "limit max_in_flight must be above 0"),
    ],
)
def test_args_that_cannot_be_served_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DeploymentFailed, match=message):
        made(**changes)


def test_what_is_left_out_has_the_defaults_of_a_replica() -> None:
    short = {key: ARGS[key] for key in ("model", "version", "digest", "tracking_uri", "cache_dir")}
    declared = Declared.of({**short, "port": 8000})
    assert declared.spec(recorded(MANIFEST.digest)).drain_timeout_s == 60.0
