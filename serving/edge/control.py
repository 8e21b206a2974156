"""What a rollout asks of the edge: set the traffic, wait until it is so, count what came of it.

Works on the files of the edge's home and on Envoy's admin interface, so the caller need not be
the process that runs the edge. A wait ends when Envoy itself shows the change.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from serving import errors, fence
from serving.discovery import snapshot as discovery
from serving.discovery import traffic
from serving.edge import admin, mirrors
from serving.edge import home as edge_home
from serving.edge import status as edge_status

_POLL_S = 0.1
_STALE_S = 10.0


def claim_model(home: Path, model: str, *, epoch: int, owner: str) -> None:
    """Become the owner of one model's traffic; whoever steered it before is refused from now on.

    An owner may claim again under its own epoch. Raises StaleEpoch, naming the owner and the epoch
    in force, when `epoch` is not higher than another owner's.
    """
    edge = edge_home.EdgeHome.of(home)
    offered = fence.Claim(model=model, epoch=epoch, owner=owner)
    with edge_home.exclusive(edge.traffic_lock):
        traffic.store(edge.traffic, traffic.claim(traffic.load(edge.traffic), offered))


def model_epoch(home: Path, model: str) -> int:
    """The epoch of a model's owner; 0 where it never had one."""
    plan = current_traffic(home)
    known = plan.claim(model) if plan is not None else None
    return known.epoch if known is not None else 0


def set_model_traffic(
    home: Path, model: traffic.ModelTraffic, *, epoch: int
) -> traffic.TrafficPlan:
    """Publish one model's weights and leave the others; returns the plan now in force.

    Its mirrors stay, but for those of the version that now has everything and of versions that are
    no longer listed. Raises StaleEpoch when another owner has claimed the model.
    """
    return _change(home, lambda plan: traffic.steer(plan, model.model, model, epoch=epoch))


def set_model_mirrors(
    home: Path, model: str, fractions: Mapping[int, float], *, epoch: int
) -> traffic.TrafficPlan:
    """Have copies of these fractions of a model's requests sent to these versions, to no others;
    returns the plan now in force. Weights stay.

    Raises StaleEpoch when another owner has claimed the model, TrafficPlanInvalid when it has no
    traffic or a fraction is out of range.
    """
    return _change(home, lambda plan: traffic.mirror(plan, model, fractions, epoch=epoch))


def end_mirror(home: Path, model: str, version: int, *, epoch: int) -> None:
    """Send a version no copies any more; nothing is written where it gets none.

    Raises StaleEpoch when another owner has claimed the model.
    """
    plan = current_traffic(home)
    known = plan.model(model) if plan is not None else None
    fractions = {m.version: m.fraction for m in known.mirrors} if known is not None else {}
    if fractions.pop(version, None) is not None:
        set_model_mirrors(home, model, fractions, epoch=epoch)


def remove_model_traffic(home: Path, model: str, *, epoch: int) -> None:
    """Take one model out of the plan and leave the others.

    Raises StaleEpoch when another owner has claimed the model.
    """
    _change(home, lambda plan: traffic.steer(plan, model, None, epoch=epoch))


def _change(
    home: Path, change: Callable[[traffic.TrafficPlan | None], traffic.TrafficPlan]
) -> traffic.TrafficPlan:
    edge = edge_home.EdgeHome.of(home)
    with edge_home.exclusive(edge.traffic_lock):
        plan = change(traffic.load(edge.traffic))
        traffic.store(edge.traffic, plan)
    return plan


def current_traffic(home: Path) -> traffic.TrafficPlan | None:
    """The published plan, None before the first; raises TrafficPlanInvalid."""
    return traffic.load(edge_home.EdgeHome.of(home).traffic)


def current_status(home: Path) -> edge_status.EdgeStatus | None:
    """What the edge says of itself; None when it does not run or has stopped saying it."""
    found = edge_status.read(edge_home.EdgeHome.of(home))
    return found if found is not None and edge_status.age_s(found) < _STALE_S else None


async def wait_applied(
    home: Path, plan: traffic.TrafficPlan, *, timeout_s: float = 30.0
) -> edge_status.EdgeStatus:
    """Return when Envoy splits every model of `plan` as it says, under the plan's epoch.

    Models that the plan does not name are not looked at, nor are mirrors: nobody's answer waits
    for those (see `wait_mirrored`). Raises EdgeError after `timeout_s`, with what is missing:
    usually a version with weight that has no ready replica.
    """

    async def holds(found: edge_status.EdgeStatus) -> bool:
        seen = found.plan_epoch
        if seen is None or seen < plan.epoch or found.admin_url is None:
            return False
        async with admin.AdminClient(found.admin_url) as client:
            weights = await client.route_weights()
        return all(weights.get(model.model) == _positive(model) for model in plan.models)

    return await _until(home, holds, f"to split traffic as {_describe(plan)}", timeout_s)


async def wait_mirrored(
    home: Path, wanted: traffic.ModelTraffic, *, timeout_s: float = 30.0
) -> edge_status.EdgeStatus:
    """Return when Envoy copies one model's requests to its mirrors, and to no other version.

    Raises EdgeError after `timeout_s`; usually a mirrored version has no ready replica.
    """
    fractions = {m.version: mirrors.rounded(m.fraction) for m in wanted.mirrors}

    async def holds(found: edge_status.EdgeStatus) -> bool:
        if found.admin_url is None:
            return False
        async with admin.AdminClient(found.admin_url) as client:
            return (await client.route_mirrors()).get(wanted.model, {}) == fractions

    what = f"to copy requests of {wanted.model} to {fractions or 'no version'}"
    return await _until(home, holds, what, timeout_s)


async def wait_endpoints(
    home: Path, model: str, version: int, *, count: int, timeout_s: float = 60.0
) -> edge_status.EdgeStatus:
    """Return when Envoy has at least `count` replicas of a version; 0 means: none left.

    Raises EdgeError after `timeout_s`, saying how many there were.
    """

    async def holds(found: edge_status.EdgeStatus) -> bool:
        known = found.version(model, version)
        present = len(known.endpoints) if known is not None else 0
        return present >= count if count > 0 else present == 0

    what = f"to have {count} ready replicas of {model} version {version}"
    return await _until(home, holds, what, timeout_s)


async def stats(home: Path, model: str, version: int) -> admin.ClusterStats:
    """The counters of one version since Envoy started; raises EdgeError when the edge is down."""
    found = current_status(home)
    if found is None or found.admin_url is None:
        raise errors.EdgeError(f"no edge is running for {home}: start it with liftlock serve")
    async with admin.AdminClient(found.admin_url) as client:
        return await client.stats(discovery.ClusterKey(model=model, version=version).name)


async def _until(
    home: Path,
    holds: Callable[[edge_status.EdgeStatus], Awaitable[bool]],
    what: str,
    timeout_s: float,
) -> edge_status.EdgeStatus:
    deadline_s = time.monotonic() + timeout_s
    while True:
        found = current_status(home)
        if found is not None and await _tolerant(holds, found):
            return found
        if time.monotonic() > deadline_s:
            raise errors.EdgeError(
                f"waited {timeout_s:g} s for the edge of {home} {what}; {_seen(found)}"
            )
        await asyncio.sleep(_POLL_S)


async def _tolerant(
    holds: Callable[[edge_status.EdgeStatus], Awaitable[bool]], found: edge_status.EdgeStatus
) -> bool:
    """Envoy may be starting again just now; the deadline decides, not one refused connection."""
    try:
        return await holds(found)
    except errors.EdgeError:
        return False


def _positive(model: traffic.ModelTraffic) -> dict[int, int]:
    return {w.version: w.percent for w in model.weights if w.percent > 0}


def _describe(plan: traffic.TrafficPlan) -> str:
    parts = [f"{m.model} {_positive(m)}" for m in plan.models]
    return f"{', '.join(parts) or 'no model'} (epoch {plan.epoch})"


def _seen(found: edge_status.EdgeStatus | None) -> str:
    if found is None:
        return "no edge is running there: start it with liftlock serve"
    versions = [
        f"{v.model} version {v.version}: weight {v.weight}, {len(v.endpoints)} replicas"
        for v in found.versions
    ]
    return (
        f"it has epoch {found.plan_epoch}, {'; '.join(versions) or 'no versions'}; "
        f"its last error: {found.last_error or 'none'}"
    )
