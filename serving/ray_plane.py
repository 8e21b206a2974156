"""The serving plane on Ray Serve and Envoy: `serving.plane.Plane` for one model.

Composes what the parts offer: the cluster starts and stops replicas, the edge's control file moves
traffic, Envoy's admin interface says what really is. Asking goes by HTTP like any caller's request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from registry.cache import path_for
from registry.engine_settings import EngineSettings
from registry.model import ModelVersion
from serving.cluster import RayCluster, Resources
from serving.discovery import traffic
from serving.edge import control
from serving.edge.admin import ClusterStats
from serving.engine.spec import ReplicaSpec
from serving.engine.state import Limits
from serving.errors import DeploymentFailed, ServingError
from serving.plane import Answer

ASK_TIMEOUT_S = 30.0
POLL_S = 0.2
DELETE_SLACK_S = 60.0
BROKEN = ("DEPLOY_FAILED", "UNHEALTHY")
"""Serve's words for a version that does not recover by being asked for again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneSettings:
    """What a plane needs to know of its surroundings."""

    model: str
    home: Path
    """The edge's home folder."""
    edge_url: str
    tracking_uri: str
    cache: Path
    """Verified checkpoint directories by digest; replicas read their weights there."""
    engine: EngineSettings
    resources: Resources
    epoch: int
    """To act under; higher than that of every owner of the model before."""
    owner: str
    """Who acts, for those who are refused because of it; unlike every other owner."""
    limits: Limits = field(default_factory=Limits)
    front_ends: int = 1
    drain_timeout_s: float = 60.0
    edge_key: Callable[[], str | None] = lambda: None
    """An API key to ask the edge with, made when it is needed; None where it asks for none."""
    engine_factory: str | None = None
    """Import path of another engine; only tests give one."""


class RayPlane:
    """See `serving.plane.Plane`."""

    def __init__(self, settings: PlaneSettings, cluster: RayCluster) -> None:
        self._settings = settings
        self._cluster = cluster
        # One plane is one owner: whoever acted on this model before is refused from now on.
        model, epoch, owner = settings.model, settings.epoch, settings.owner
        cluster.claim(model, epoch=epoch, owner=owner)
        control.claim_model(settings.home, model, epoch=epoch, owner=owner)

    def running(self) -> tuple[int, ...]:
        """See `Plane.running`."""
        mine = (a for a in self._cluster.applications() if a.model == self._settings.model)
        return tuple(sorted(a.version for a in mine if a.status != "DELETING"))

    def weights(self) -> Mapping[int, int]:
        """See `Plane.weights`."""
        plan = control.current_traffic(self._settings.home)
        model = plan.model(self._settings.model) if plan else None
        return {w.version: w.percent for w in model.weights} if model else {}

    def start(self, version: ModelVersion, replicas: int) -> None:
        """See `Plane.start`."""
        settings = self._settings
        known = self._cluster.application(version.model, version.version)
        if known is not None and known.status in BROKEN:
            self.retire(version.version, settings.drain_timeout_s)
        self._cluster.deploy(
            self._spec(version),
            replicas=replicas,
            resources=settings.resources,
            epoch=settings.epoch,
            owner=settings.owner,
        )

    def wait_ready(self, version: int, replicas: int, timeout_s: float) -> None:
        """See `Plane.wait_ready`."""
        model = self._settings.model
        waited_s = self._cluster.wait_ready(model, version, timeout_s=timeout_s)
        asyncio.run(
            control.wait_endpoints(
                self._settings.home, model, version,
                count=replicas, timeout_s=max(10.0, timeout_s - waited_s),
            )
        )  # fmt: skip

    def ask_replicas(self, version: int, text: str) -> tuple[Answer, ...]:
        """See `Plane.ask_replicas`."""
        return tuple(self._ask(f"http://{e}", text) for e in self._endpoints(version) or ())

    def ask(self, text: str) -> Answer:
        """See `Plane.ask`."""
        key = self._settings.edge_key()
        return self._ask(self._settings.edge_url, text, {"x-api-key": key} if key else {})

    def set_weights(self, weights: Mapping[int, int], timeout_s: float) -> None:
        """See `Plane.set_weights`."""
        home, model = self._settings.home, self._settings.model
        if not weights:
            control.remove_model_traffic(home, model, epoch=self._settings.epoch)
            return
        shares = tuple(traffic.Weight(version=v, percent=w) for v, w in weights.items())
        wanted = traffic.ModelTraffic(model=model, weights=shares)
        plan = control.set_model_traffic(home, wanted, epoch=self._settings.epoch)
        mine = traffic.TrafficPlan(epoch=plan.epoch, models=(wanted,))
        asyncio.run(control.wait_applied(home, mine, timeout_s=timeout_s))

    def counts(self, version: int) -> ClusterStats | None:
        """See `Plane.counts`."""
        try:
            return asyncio.run(control.stats(self._settings.home, self._settings.model, version))
        except ServingError:
            return None

    def ready_replicas(self, version: int) -> int | None:
        """See `Plane.ready_replicas`."""
        found = self._endpoints(version)
        return None if found is None else len(found)

    def retire(self, version: int, timeout_s: float) -> None:
        """See `Plane.retire`."""
        settings = self._settings
        # A mirror of it would start by itself where this version is deployed again.
        control.end_mirror(settings.home, settings.model, version, epoch=settings.epoch)
        self._cluster.delete(
            settings.model,
            version,
            timeout_s=timeout_s + DELETE_SLACK_S,
            epoch=settings.epoch,
            owner=settings.owner,
        )

    def _spec(self, version: ModelVersion) -> ReplicaSpec:
        settings = self._settings
        more: dict[str, Any] = {}
        if settings.engine_factory is not None:
            more["engine_factory"] = settings.engine_factory
        return ReplicaSpec(
            model=version.model,
            version=version.version,
            digest=version.digest,
            manifest_json=version.manifest.to_json(),
            checkpoint_dir=str(path_for(settings.cache, version.digest)),
            tracking_uri=settings.tracking_uri,
            cache_dir=str(settings.cache),
            engine=settings.engine,
            limits=settings.limits,
            front_ends=settings.front_ends,
            drain_timeout_s=settings.drain_timeout_s,
            **more,
        )

    def _endpoints(self, version: int) -> tuple[str, ...] | None:
        status = control.current_status(self._settings.home)
        if status is None:
            return None
        known = status.version(self._settings.model, version)
        return known.endpoints if known else ()

    def _ask(self, base_url: str, text: str, more: Mapping[str, str] | None = None) -> Answer:
        started = time.monotonic()
        try:
            reply = httpx.post(
                f"{base_url}/v1/corrections",
                json={"text": text},
                headers={"x-liftlock-model": self._settings.model, **(more or {})},
                verify=False,  # our own edge, by an address that its certificate may not name
                timeout=ASK_TIMEOUT_S,
                trust_env=False,
            )
            reply.raise_for_status()
            return Answer(
                version=int(reply.headers["x-liftlock-version"]),
                digest=reply.headers["x-liftlock-digest"],
                corrected=str(reply.json()["corrected"]),
                seconds=time.monotonic() - started,
            )
        except (httpx.HTTPError, KeyError, ValueError) as exc:
            raise DeploymentFailed(f"asking {base_url} for a correction failed: {exc}") from exc
