"""Builds what a pipeline needs from the settings: the record, the plane, folders, who acts."""

from __future__ import annotations

import contextlib
import datetime
import getpass
import http.client
import os
import socket
import ssl
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator

from jobs.errors import UsageError
from jobs.progress import Terminal
from jobs.settings import Settings
from jobs.stack import Stack, edge_settings
from pipelines import breakglass, local, ownership
from pipelines.config import PromotionConfig
from pipelines.place import Place
from pipelines.stage import Progress
from registry import wording
from registry.errors import RecordUnavailable, RegistryError
from registry.journal import flush, journaled
from registry.mlflow_store import connect
from registry.store import Record
from serving.plane import Plane

API_KEY_ENV = "LIFTLOCK_API_KEY"
"""Names the key that commands ask an endpoint with."""


def open_record(settings: Settings, note: Callable[[str], None]) -> Record:
    """The record, on the given tracking server or a local one that is started.

    What earlier commands have kept for it is entered first, as far as it answers.
    """
    record = connect(Stack(settings=settings, note=note).tracking_uri())
    enter_kept(settings, record, note)
    return record


def enter_kept(settings: Settings, record: Record, note: Callable[[str], None]) -> None:
    """Enters what earlier commands could not: evidence, and rollbacks made without MLflow."""
    for folder in sorted(settings.journals.glob("*/")):
        flush(record, folder, note)
        breakglass.enter(record, folder.name, local.copy_in(folder), note)


def enter_now(settings: Settings, model: str, note: Callable[[str], None]) -> None:
    """`enter_kept` right after going back, if MLflow happens to answer; it is not waited for."""
    uri = existing_tracking_uri(settings)
    try:
        if uri is None or not _answers_at_once(uri):
            raise RecordUnavailable("MLflow does not answer")
        enter_kept(settings, connect(uri), note)
    except RegistryError as exc:
        note(f"the next command enters it in the ledger of {model} ({exc})")


def _answers_at_once(uri: str) -> bool:
    """Whether a server answers within two seconds; anything but a web address is taken to."""
    if not uri.startswith(("http://", "https://")):
        return True
    try:
        # A proxy from the environment cannot reach this machine's own loopback.
        is_near = urllib.parse.urlsplit(uri).hostname in ("127.0.0.1", "localhost", "::1")
        proxies = [urllib.request.ProxyHandler({})] if is_near else []
        opener = urllib.request.build_opener(*proxies)
        with opener.open(f"{uri.rstrip('/')}/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except (OSError, ValueError, http.client.HTTPException):
        return False


def emergency(settings: Settings, model: str, note: Callable[[str], None]) -> breakglass.Emergency:
    """What going back without MLflow works with."""

    def plane(epoch: int, config: PromotionConfig) -> Plane:
        uri = settings.tracking_uri or f"http://127.0.0.1:{settings.mlflow_port}"
        owner = ownership.this_process()
        return open_plane(settings, config, note, epoch, owner, tracking_uri=uri)

    return breakglass.Emergency(
        model=model,
        copy=local.copy_in(settings.journals / model),
        plane=plane,
        edge_epoch=lambda: _epoch_seen(settings, model),
        cache=settings.cache,
        note=note,
        now=now,
        actor=actor(),
    )


def patient(settings: Settings, model: str, record: Record, note: Callable[[str], None]) -> Record:
    """The record for a command that goes on while MLflow is away."""
    folder = settings.journals / model
    return journaled(record, folder, patience_s=settings.patience_s, note=note)


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
    if not facts:
        return settings.endpoint_url
    return f"{facts.get('scheme', 'http')}://{facts['host']}:{facts['port']}"


def own_key(settings: Settings) -> str | None:
    """An API key for a question of our own: the environment's, else one that this home signs."""
    from serving.keys.store import KeyStore

    return os.environ.get(API_KEY_ENV) or KeyStore.of(settings.home).own_key(time.time())


def own_keys(settings: Settings) -> Callable[[], str | None]:
    """`own_key` for a client that outlives one: gives one that lasts for some minutes more."""
    from serving.keys.store import OWN_S

    made: list[tuple[float, str | None]] = []

    def now() -> str | None:
        if not made or time.monotonic() - made[-1][0] > OWN_S / 2:
            made[:] = [(time.monotonic(), own_key(settings))]
        return made[-1][1]

    return now


def own_trust(settings: Settings) -> ssl.SSLContext | None:
    """What the edge of this home is known by, whoever signed its certificate: the certificate that
    it is started with. None where it has none. Host names are compared as ever.

    Raises:
        UsageError: the edge's settings or the certificate cannot be read.
    """
    own = edge_settings(settings).tls
    if own is None:
        return None
    try:
        trust = ssl.create_default_context(cafile=own.certificate)
    except OSError as exc:  # ssl.SSLError is one
        raise UsageError(f"the edge's certificate {own.certificate} cannot be read: {exc}") from exc
    trust.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # what signed it need not be in the file
    return trust


def running_cluster(settings: Settings) -> str:
    """The address of the Ray cluster; nothing is started.

    Raises:
        UsageError: there is none.
    """
    stack = Stack(settings=settings, note=lambda text: None)
    if settings.ray_address is None and stack.ray.facts() is None:
        raise UsageError(
            "no Ray cluster runs here, so there is no replica to ask by handle; run "
            "`liftlock serve MODEL` first, or set LIFTLOCK_RAY_ADDRESS to yours"
        )
    return stack.ray_address()


def most_served(settings: Settings, model: str) -> int:
    """The version of a model that has most of the traffic.

    Raises:
        UsageError: the model has no traffic here.
    """
    from serving.edge import control

    plan = control.current_traffic(settings.home)
    known = plan.model(model) if plan is not None else None
    if known is None or not known.weights:
        raise UsageError(f"no version of {model} has traffic here; name one by --version")
    return max(known.weights, key=lambda weight: weight.percent).version


def place(settings: Settings, config: PromotionConfig, record: Record, progress: Progress) -> Place:
    """Everything outside the promotion itself."""

    def plane(epoch: int) -> Plane:
        owner = ownership.this_process()
        return open_plane(settings, config, progress.note, epoch, owner)

    return Place(
        record=patient(settings, config.model, record, progress.note),
        plane=plane,
        edge_epoch=lambda: _epoch_seen(settings, config.model),
        standing=lambda: Stack(settings=settings, note=progress.note).edge.facts() is not None,
        cache=settings.cache,
        journal=settings.journals / config.model,
        work=settings.work,
        progress=progress,
        now=now,
        actor=actor(),
    )


@contextlib.contextmanager
def opened(settings: Settings, config: PromotionConfig) -> Iterator[Place]:
    """The place of a command that works on a model, and its progress on the terminal."""
    with contextlib.closing(Terminal()) as terminal:
        record = open_record(settings, terminal.note)
        yield place(settings, config, record, terminal)


def _epoch_seen(settings: Settings, model: str) -> int:
    """The highest epoch that the edge or a cluster shared with others has admitted.

    A cluster of our own is started and stopped with the edge's home and knows no more than it.
    """
    from serving.edge import control

    seen = control.model_epoch(settings.home, model)
    if settings.ray_address is None:
        return seen
    from serving.cluster import RayCluster

    return max(seen, RayCluster.connect(settings.ray_address).epoch(model))


def open_plane(
    settings: Settings,
    config: PromotionConfig,
    note: Callable[[str], None],
    epoch: int,
    owner: str,
    *,
    tracking_uri: str | None = None,
) -> Plane:
    """The serving plane, with the cluster and the edge started where they are ours.

    From then on whoever opened it under a lower epoch is refused; raises StaleEpoch when that is
    us. `owner` says who we are and is unlike every other owner. Without a tracking address the
    local MLflow is started where it is ours.
    """
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
            edge_key=lambda: own_key(settings),
            tracking_uri=tracking_uri or stack.tracking_uri(),
            cache=settings.cache,
            engine=resources.engine,
            resources=Resources(
                num_cpus=resources.cpus_per_replica, num_gpus=resources.gpus_per_replica
            ),
            epoch=epoch,
            owner=owner,
            limits=Limits(max_in_flight=resources.max_in_flight, max_waiting=resources.max_waiting),
            front_ends=resources.front_ends,
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
    return wording.one_line(f"{user}@{socket.gethostname()}")
