"""Builds what a pipeline needs from the settings: the record, the plane, folders, who acts."""

from __future__ import annotations

import datetime
import getpass
import socket
from collections.abc import Callable

from jobs.settings import Settings
from jobs.stack import Stack
from pipelines.config import PromotionConfig
from pipelines.place import Place
from pipelines.stage import Progress
from registry.mlflow_store import connect
from registry.store import Record
from serving.plane import Plane


def open_record(settings: Settings, note: Callable[[str], None]) -> Record:
    """The record, on the given tracking server or a local one that is started."""
    return connect(Stack(settings=settings, note=note).tracking_uri())


def connect_to(tracking_uri: str) -> Record:
    """The record on a server that runs."""
    return connect(tracking_uri)


def existing_tracking_uri(settings: Settings) -> str | None:
    """The tracking server's address if there is one; nothing is started."""
    if settings.tracking_uri is not None:
        return settings.tracking_uri
    facts = Stack(settings=settings, note=lambda text: None).mlflow.facts()
    return f"http://127.0.0.1:{facts['port']}" if facts is not None else None


def endpoint_url(settings: Settings) -> str:
    """Where callers reach the endpoint: a running edge keeps the port it was started with."""
    facts = Stack(settings=settings, note=lambda text: None).edge.facts()
    return f"http://{facts['host']}:{facts['port']}" if facts else settings.endpoint_url


def place(settings: Settings, config: PromotionConfig, record: Record, progress: Progress) -> Place:
    """Everything outside the promotion itself."""
    return Place(
        record=record,
        plane=lambda: open_plane(settings, config, progress.note),
        cache=settings.cache,
        work=settings.work,
        progress=progress,
        now=now,
        actor=actor(),
    )


def open_plane(settings: Settings, config: PromotionConfig, note: Callable[[str], None]) -> Plane:
    """The serving plane, with the cluster and the edge started where they are ours."""
    from serving.cluster import RayCluster, Resources
    from serving.engine.state import Limits
    from serving.ray_plane import PlaneSettings, RayPlane

    stack = Stack(settings=settings, note=note)
    address = stack.ray_address()
    url = stack.edge_url()
    resources = config.resources
    return RayPlane(
        PlaneSettings(
            model=config.model,
            home=settings.home,
            edge_url=url,
            tracking_uri=stack.tracking_uri(),
            cache=settings.cache,
            engine=resources.engine,
            resources=Resources(
                num_cpus=resources.cpus_per_replica, num_gpus=resources.gpus_per_replica
            ),
            limits=Limits(max_in_flight=resources.max_in_flight),
            drain_timeout_s=config.rollout.drain_timeout_s,
        ),
        RayCluster.connect(address),
    )


def now() -> str:
    """UTC, ISO 8601, to the second."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def actor() -> str:
    """The user and host that run this command."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
