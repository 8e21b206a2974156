"""Versions on a Ray cluster: one Serve application per version, put up and taken down whole.

Serve's own HTTP proxies are off: traffic goes through the edge to the ports that replicas publish,
so a version that is up takes nothing until the edge is told to send it something. What changes a
version goes through `serving.deployer`, which refuses owners that were replaced.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from registry.model import content_digest
from serving import deployer, directory
from serving.errors import DeploymentFailed, ServingError
from serving.fence import Claim
from serving.worker_env import worker_env

if TYPE_CHECKING:
    from serving.engine.spec import ReplicaSpec

_POLL_S = 0.2
JOIN_TIMEOUT_S = 90.0
DEPLOYMENT = "replica"
REQUEST_ROUTER = "serving.ray_router:TwoChoiceRouter"
"""Import path of what chooses among a version's replicas for calls by handle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one replica takes from its node."""

    num_cpus: float = 1.0
    """CPU cores; also the threads of a CPU engine."""
    num_gpus: float = 0.0
    """GPUs; fractions share one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """A version as Serve sees it."""

    model: str
    version: int
    status: str
    """Serve's word: NOT_STARTED, DEPLOYING, RUNNING, DEPLOY_FAILED, DELETING or UNHEALTHY."""
    message: str
    replicas_running: int


def application_name(model: str, version: int) -> str:
    """The Serve application of a version."""
    return f"{model}-v{version}"


@contextlib.contextmanager
def _translated(action: str) -> Iterator[None]:
    """Turns what Ray raises when a cluster is away or refuses into our error."""
    from ray.exceptions import RayError
    from ray.serve.exceptions import RayServeException

    try:
        yield
    except (RayError, RayServeException, OSError, RuntimeError) as exc:
        detail = str(exc).strip().splitlines()[:1] or [type(exc).__name__]
        raise ServingError(
            f"the Ray cluster failed while {action}: {detail[0]}; see `liftlock doctor` and the "
            "cluster's log, then run the same command again"
        ) from exc


def _join(address: str) -> None:
    """Joins a cluster; one that has just been started may not take anybody yet."""
    import ray

    give_up_s = time.monotonic() + JOIN_TIMEOUT_S
    while True:
        try:
            ray.init(
                address=address,
                namespace=directory.NAMESPACE,
                log_to_driver=False,
                logging_level=logging.WARNING,
            )
        except ConnectionError:
            if time.monotonic() > give_up_s:
                raise
            ray.shutdown()
            time.sleep(1.0)
        else:
            return


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """Ray installs a SIGTERM handler of its own, which ends a process without unwinding it."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)


class RayCluster:
    """A connected Ray cluster with Serve, the replica directory and the deployer on it."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._deployer = deployer.Deployer()

    @classmethod
    def connect(cls, address: str) -> RayCluster:
        """Joins the cluster at `address` and starts there what is missing.

        A process that is connected already stays on its cluster.
        """
        import ray
        from ray import serve

        # Both announce on the terminal what every command would repeat.
        logging.getLogger("ray.serve").setLevel(logging.WARNING)
        with _translated(f"connecting to {address}"), _signals_kept():
            if not ray.is_initialized():
                _join(address)
            serve.start(proxy_location="Disabled")
            directory.ensure()
            deployer.ensure()
        return cls()

    def directory(self) -> directory.DirectoryClient:
        """Who is up, and what the edges have seen."""
        return directory.DirectoryClient()

    def claim(self, model: str, *, epoch: int, owner: str) -> None:
        """Becomes the owner of a model's versions; whoever owned them is refused from now on.

        An owner may claim again under its own epoch.

        Raises:
            StaleEpoch: `epoch` is not higher than another owner's.
        """
        with _translated(f"claiming {model}"):
            self._deployer.claim(Claim(model=model, epoch=epoch, owner=owner))

    def epoch(self, model: str) -> int:
        """The epoch of a model's owner; 0 where it never had one."""
        with _translated(f"asking who owns {model}"):
            return self._deployer.epoch(model)

    def deploy(
        self, spec: ReplicaSpec, *, replicas: int, resources: Resources, epoch: int, owner: str
    ) -> str:
        """Asks for `replicas` of a version and returns its application's name without waiting.

        Calling again with another number scales the version; with the same one nothing happens,
        under whatever epoch. Replicas that run are replaced where the spec or the resources differ.

        Raises:
            StaleEpoch: another owner has taken the model over.
            DeploymentFailed: Serve does not take such a deployment.
        """
        name = application_name(spec.model, spec.version)
        claim = Claim(model=spec.model, epoch=epoch, owner=owner)
        with _translated(f"deploying {name}"):
            self._deployer.deploy(
                claim, name, deployment_options(spec, replicas, resources), pickle.dumps(spec)
            )
        return name

    def wait_ready(self, model: str, version: int, *, timeout_s: float) -> float:
        """Seconds until every replica asked for was up.

        Raises:
            DeploymentFailed: Serve gave up, or the time ran out; with the replica's own message.
        """
        started_s = self._clock()
        while True:
            application = self.application(model, version)
            waited_s = self._clock() - started_s
            if application is not None and application.status == "RUNNING":
                return waited_s
            if application is not None and application.status == "DEPLOY_FAILED":
                raise DeploymentFailed(
                    f"version {version} of {model} did not start: {application.message}"
                )
            if waited_s > timeout_s:
                raise DeploymentFailed(_late(model, version, application, timeout_s))
            time.sleep(_POLL_S)

    def application(self, model: str, version: int) -> Application | None:
        """One version, or None where it is not deployed."""
        wanted = application_name(model, version)
        found = (a for a in self.applications() if application_name(a.model, a.version) == wanted)
        return next(found, None)

    def handle(self, model: str, version: int) -> Any:
        """Serve's handle to the replicas of a version; see `Replica` for what it can be asked.

        Raises:
            ServingError: the version is not deployed.
        """
        from ray import serve

        name = application_name(model, version)
        with _translated(f"looking for the replicas of {name}"):
            return serve.get_deployment_handle(DEPLOYMENT, app_name=name)

    def applications(self) -> tuple[Application, ...]:
        """Every version on the cluster; applications with other names are not ours."""
        from ray import serve

        with _translated("listing applications"):
            applications = serve.status().applications
        listed = (_application(name, overview) for name, overview in applications.items())
        return tuple(a for a in listed if a is not None)

    def delete(self, model: str, version: int, *, timeout_s: float, epoch: int, owner: str) -> None:
        """Takes a version down and waits until its replicas have drained. Absent is fine.

        Raises:
            StaleEpoch: another owner has taken the model over.
            DeploymentFailed: it is still there after `timeout_s`.
        """
        name = application_name(model, version)
        with _translated(f"deleting {name}"):
            self._deployer.delete(Claim(model=model, epoch=epoch, owner=owner), name)
        give_up_s = self._clock() + timeout_s
        while self.application(model, version) is not None:
            if self._clock() > give_up_s:
                raise DeploymentFailed(
                    f"version {version} of {model} was still draining after {timeout_s:g} s; it "
                    "goes on doing so, look at `ray status` and its log"
                )
            time.sleep(_POLL_S)


def deployment_options(spec: ReplicaSpec, replicas: int, resources: Resources) -> dict[str, Any]:
    """Of the deployment; see `DeployerActor.deploy`."""
    return {
        "name": DEPLOYMENT,
        "version": content_digest(dataclasses.asdict(spec)),
        "num_replicas": replicas,
        "ray_actor_options": {
            "num_cpus": resources.num_cpus,
            "num_gpus": resources.num_gpus,
            "runtime_env": worker_env(),
        },
        # Serve counts calls by handle only; the replica itself refuses what it cannot take.
        "max_ongoing_requests": 1_000_000,
        "request_router_config": {"request_router_class": REQUEST_ROUTER},
        "graceful_shutdown_timeout_s": spec.shutdown_timeout_s,
        "graceful_shutdown_wait_loop_s": 0.1,
        "health_check_period_s": 2.0,
        "health_check_timeout_s": 10.0,
        # New replicas before old ones go, or capacity has a hole.
        "max_surge_percent": 100,
        # Loading takes tens of seconds, and what fails twice on different nodes fails always.
        "max_constructor_retry_count": 2,
    }


def _application(name: str, overview: Any) -> Application | None:
    model, separator, version = name.rpartition("-v")
    if not separator or not version.isdecimal():
        return None
    deployments = overview.deployments.values()
    messages = [overview.message, *(d.message for d in deployments)]
    return Application(
        model=model,
        version=int(version),
        status=str(overview.status.value),
        message="; ".join(dict.fromkeys(m for m in messages if m)),
        replicas_running=sum(d.replica_states.get("RUNNING", 0) for d in deployments),
    )


def _late(model: str, version: int, application: Application | None, timeout_s: float) -> str:
    if application is None:
        return f"version {version} of {model} is not deployed after {timeout_s:g} s"
    return (
        f"version {version} of {model} was not ready after {timeout_s:g} s: it is "
        f"{application.status} with {application.replicas_running} replicas running"
        f"{': ' + application.message if application.message else ''}. If replicas are not "
        "scheduled, the cluster lacks the resources asked for (`ray status`)"
    )
