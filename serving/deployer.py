"""The one door to Serve for whoever changes which versions run: one named, detached Ray actor.

The one idea: the owner is checked and Serve is told in one place, one call at a time, so nothing
can come between. An owner that was paused before it asked and wakes after another has taken over is
refused here, whatever it knew when it decided.

Who owns a model lies in the key-value store of Ray's head, where Serve keeps what is deployed, so
both are lost together or not at all; and the actor, which remembers nothing itself, lives on the
node of Serve's controller, so that a network that splits cannot leave two of them. It may run
older code than its callers: only plain values cross, and a replica's spec passes unopened.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from serving import fence
from serving.directory import NAMESPACE
from serving.errors import DeploymentFailed, ServingError
from serving.fence import Claim

ACTOR_NAME = "liftlock-deployer"
_KV_NAMESPACE = b"liftlock"
_CONTROLLER_NODE = {"node:__internal_head__": 0.001}
"""The resource by which Ray places Serve's controller."""


class DeployerActor:
    """Admits an owner and does what it asks. Ray runs one call at a time."""

    def claim(self, owner: Mapping[str, Any]) -> None:
        """Makes somebody the owner of a model; raises StaleEpoch."""
        claim = Claim(**owner)
        self._admit(claim, f"own {claim.model} on the cluster")

    def epoch(self, model: str) -> int:
        """The epoch of a model's owner; 0 where it never had one."""
        known = _known(model)
        return known.epoch if known is not None else 0

    def deploy(
        self, owner: Mapping[str, Any], name: str, options: Mapping[str, Any], spec: bytes
    ) -> None:
        """Asks Serve for an application of one `Replica` deployment; raises StaleEpoch.

        Args:
            owner: the fields of a `Claim`.
            name: of the application.
            options: of its deployment. `version` tells Serve whether replicas that run are as
                wanted: they are replaced only if it or their resources differ.
            spec: what `Replica` takes.
        """
        self._admit(Claim(**owner), f"deploy {name}")
        from ray import serve

        from serving.engine.replica import Replica

        serve.start(proxy_location="Disabled")  # run_many would start it with proxies
        public = {key: value for key, value in options.items() if key != "version"}
        deployment = serve.deployment(Replica).options(**public)
        # Serve makes up a new version at each call otherwise, and replaces healthy replicas.
        pinned = deployment.options(version=options["version"], _internal=True)
        serve.run_many(
            [serve.RunTarget(target=pinned.bind(spec), name=name, route_prefix=None)],
            wait_for_ingress_deployment_creation=False,
            wait_for_applications_running=False,
        )

    def delete(self, owner: Mapping[str, Any], name: str) -> None:
        """Asks Serve to drain and delete an application; raises StaleEpoch."""
        self._admit(Claim(**owner), f"delete {name}")
        from ray import serve

        serve.delete(name, _blocking=False)
        serve.status()  # deleting is only sent off; once this is answered it was taken

    def _admit(self, claim: Claim, action: str) -> None:
        known = _known(claim.model)
        admitted = fence.admit(known, claim, action)
        if admitted != known:
            _remember(admitted)


def _key(model: str) -> bytes:
    return f"owner:{model}".encode()


def _known(model: str) -> Claim | None:
    from ray.experimental import internal_kv

    stored = internal_kv._internal_kv_get(_key(model), namespace=_KV_NAMESPACE)
    return Claim(**json.loads(stored)) if stored else None


def _remember(claim: Claim) -> None:
    from ray.experimental import internal_kv

    content = json.dumps(dataclasses.asdict(claim)).encode()
    internal_kv._internal_kv_put(_key(claim.model), content, namespace=_KV_NAMESPACE)


def ensure() -> Any:
    """The actor's handle on the connected cluster; made if absent, two makers get the same one."""
    import ray

    from serving.worker_env import worker_env

    actor = ray.remote(DeployerActor).options(
        name=ACTOR_NAME,
        namespace=NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        max_restarts=-1,
        # Every call may be made twice: it is admitted anew and asks for what is there already.
        max_task_retries=3,
        num_cpus=0,
        resources=_CONTROLLER_NODE,
        runtime_env=worker_env(),
    )
    return actor.remote()


class Deployer:
    """The actor for one caller that may block."""

    def __init__(self, *, timeout_s: float = 60.0) -> None:
        self._timeout_s = timeout_s

    def claim(self, claim: Claim) -> None:
        """See `DeployerActor.claim`."""
        self._call(f"claiming {claim.model} on the cluster", "claim", dataclasses.asdict(claim))

    def epoch(self, model: str) -> int:
        """See `DeployerActor.epoch`."""
        return int(self._call(f"asking who owns {model} on the cluster", "epoch", model))

    def deploy(self, claim: Claim, name: str, options: Mapping[str, Any], spec: bytes) -> None:
        """See `DeployerActor.deploy`; raises DeploymentFailed with Serve's reason too."""
        owner = dataclasses.asdict(claim)
        self._call(f"deploying {name}", "deploy", owner, name, dict(options), spec)

    def delete(self, claim: Claim, name: str) -> None:
        """See `DeployerActor.delete`."""
        self._call(f"deleting {name}", "delete", dataclasses.asdict(claim), name)

    def _call(self, doing: str, method: str, *args: object) -> Any:
        import ray
        from ray.exceptions import GetTimeoutError, RayTaskError

        reference = getattr(ensure(), method).remote(*args)
        try:
            return ray.get(reference, timeout=self._timeout_s)
        except GetTimeoutError as exc:
            ray.cancel(reference)  # so that it is not done long after we have given it up
            raise ServingError(
                f"{doing}: the actor {ACTOR_NAME} did not answer within {self._timeout_s:g} s and "
                "may still do it; see `ray status` and the cluster's log, then run the same "
                "command again"
            ) from exc
        except RayTaskError as exc:
            if isinstance(exc.cause, ServingError):
                raise exc.cause from None
            raise DeploymentFailed(
                f"{doing} failed: {type(exc.cause).__name__}: {exc.cause}"
            ) from exc
