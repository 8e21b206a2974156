"""The alerts: when somebody is told, of what, and where it says what to do. Pure.

Each has a page of its name in docs/runbooks. Those of a model are about its promise and its
replicas; those of the edge are about every model at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from serving.slo import burn, promql
from serving.slo.burn import Pair, Severity
from serving.slo.promise import SLO, Sli

AVAILABILITY_FAST, AVAILABILITY_SLOW = (
    "LiftlockAvailabilityFastBurn",
    "LiftlockAvailabilitySlowBurn",
)
LATENCY_FAST, LATENCY_SLOW = "LiftlockLatencyFastBurn", "LiftlockLatencySlowBurn"
NOT_MEASURED = "LiftlockSloNotMeasured"
NO_READY_REPLICA, EJECTED = "LiftlockNoReadyReplica", "LiftlockReplicasEjected"
QUEUE_AGE = "LiftlockQueueAge"
EDGE_DOWN, EDGE_REFUSES = "LiftlockEdgeDown", "LiftlockEdgeRefuses"
DISCOVERY_STALE = "LiftlockDiscoveryStale"

DISCOVERY_STALE_S = 60.0
"""Edges go on from what they have; after this long, replicas that have gone are a danger."""
_BURNS = {
    (Sli.AVAILABILITY, Severity.PAGE): AVAILABILITY_FAST,
    (Sli.AVAILABILITY, Severity.TICKET): AVAILABILITY_SLOW,
    (Sli.LATENCY, Severity.PAGE): LATENCY_FAST,
    (Sli.LATENCY, Severity.TICKET): LATENCY_SLOW,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert."""

    name: str
    expr: str
    severity: Severity
    summary: str
    """One sentence; may hold Prometheus' `{{ … }}`."""
    hold: str = "0s"
    """How long it must be so before anybody is told."""
    labels: Mapping[str, str] = field(default_factory=dict)


def of_model(slo: SLO, model: str) -> tuple[Alert, ...]:
    """The alerts of one model."""
    labels = {"model": model}
    not_measured = Alert(
        name=NOT_MEASURED,
        expr=f"absent({promql.series(promql.REQUESTS, model, sli=Sli.AVAILABILITY)})",
        severity=Severity.TICKET,
        hold="15m",
        labels=labels,
        summary=f"{model}: no edge says how many requests it answers; no budget is watched",
    )
    return (*_burn_alerts(slo, model), not_measured, *_replica_alerts(slo, model, labels))


def of_edge(slos: Mapping[str, SLO]) -> tuple[Alert, ...]:
    """The alerts of the edges, which all models share; `slos` by model, at least one."""
    strictest = max(slos.values(), key=lambda slo: slo.availability)
    up, age = f'up{{job="{promql.EDGE_JOB}"}}', promql.DISCOVERY_AGE
    allowed = burn.PAIRS[0].factor * strictest.budget(Sli.AVAILABILITY)
    return (
        Alert(
            name=EDGE_DOWN,
            expr=f"{up} == 0 or absent({up})",
            severity=Severity.PAGE,
            hold="1m",
            summary="Prometheus does not reach the edge {{ $labels.instance }}",
        ),
        Alert(
            name=EDGE_REFUSES,
            expr=f"{promql.EDGE_FAULTS} > {promql.number(allowed)}",
            severity=Severity.PAGE,
            # A version's counter of faults appears with its first ones, which a rate cannot see;
            # they look like the edge's own for as long as that rate's window of two minutes.
            hold="3m",
            summary="The edge {{ $labels.instance }} answers {{ $value | humanizePercentage }} of "
            "all requests with 5xx of its own: no version takes them",
        ),
        Alert(
            name=DISCOVERY_STALE,
            expr=f"{age} > {promql.number(DISCOVERY_STALE_S)} or absent({age})",
            severity=Severity.TICKET,
            hold="2m",
            summary="Discovery at {{ $labels.instance }} has heard nothing of the replicas for "
            "{{ $value | humanizeDuration }}, or is not there",
        ),
    )


def _burn_alerts(slo: SLO, model: str) -> Iterator[Alert]:
    for (sli, severity), name in _BURNS.items():
        found = [p for p in burn.pairs(slo, sli) if p.severity is severity]
        if not found:
            continue
        yield Alert(
            name=name,
            expr="\nor ignoring(window)\n".join(_both(model, sli, pair) for pair in found),
            severity=severity,
            labels={"model": model, "sli": str(sli)},
            summary=f"{model}: the {sli} budget of {slo.window_days} days burns "
            "{{ $value | humanize }} times as fast as it may, over {{ $labels.window }}",
        )


def _both(model: str, sli: Sli, pair: Pair) -> str:
    long, short = (
        promql.series(promql.BURN, model, sli=sli, window=promql.duration(s))
        for s in (pair.long_s, pair.short_s)
    )
    factor = promql.number(pair.factor)
    return f"({long} > {factor}\n  and ignoring(window) {short} > {factor})"


def _replica_alerts(slo: SLO, model: str, labels: Mapping[str, str]) -> tuple[Alert, ...]:
    ready, ejected = (
        f"sum by (instance) ({promql.envoy(metric, model)})"
        for metric in ("membership_healthy", "outlier_detection_ejections_active")
    )
    return (
        Alert(
            name=NO_READY_REPLICA,
            expr=f"{ready} == 0",
            severity=Severity.PAGE,
            hold="30s",
            labels=labels,
            summary=f"{model}: the edge {{{{ $labels.instance }}}} has no replica to send to",
        ),
        Alert(
            name=EJECTED,
            expr=f"{ejected} > 0",
            severity=Severity.TICKET,
            hold="5m",
            labels=labels,
            summary=f"{model}: the edge {{{{ $labels.instance }}}} leaves out {{{{ $value }}}} "
            "replicas because they fail",
        ),
        Alert(
            name=QUEUE_AGE,
            # Also without a model label: not every scrape configuration gives one.
            expr=f'max by (instance) ({promql.QUEUE_AGE}{{model=~"{model}|"}}) '
            f"> {promql.number(slo.latency_ms / 1000)}",
            severity=Severity.TICKET,
            hold="1m",
            labels=labels,
            summary=f"{model}: at the replica {{{{ $labels.instance }}}} a request has waited for "
            f"{{{{ $value | humanizeDuration }}}}, longer than the promised {slo.latency_ms:g} ms",
        ),
    )
