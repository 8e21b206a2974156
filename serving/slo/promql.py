"""The names and expressions that a promise has in Prometheus. Pure text.

Two series per model and SLI are recorded from Envoy's counters: requests and bad requests a second,
each over five minutes. Every other number is a ratio of their sums over a longer window, so that it
weighs requests, not minutes, and costs the same over three days as over one hour.
"""

from __future__ import annotations

from serving.slo import burn
from serving.slo.promise import SLO, Sli

EDGE_JOB = "liftlock-edge"
"""What the scrape job of the edges' Envoys is called."""
REPLICA_JOB = "liftlock-replica"
REQUESTS, BAD = "liftlock:slo_requests:rate5m", "liftlock:slo_bad:rate5m"
BUDGET, BUDGET_LEFT = "liftlock:slo_budget", "liftlock:slo_budget_left"
BURN = "liftlock:slo_burn"
EDGE_FAULTS = "liftlock:edge_faults:ratio_rate2m"
"""Share of an edge's answers that are 5xx and no version's."""
DISCOVERY_AGE, QUEUE_AGE = "liftlock_discovery_source_age_seconds", "liftlock_queue_age_seconds"
_BASE_S, _EDGE_S = 300.0, 120.0
"""The windows of the recorded rates, whose names say them too."""


def duration(seconds: float) -> str:
    """A duration as Prometheus writes it."""
    for unit_s, name in ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")):
        if seconds >= unit_s and seconds % unit_s == 0:
            return f"{seconds / unit_s:g}{name}"
    return f"{round(seconds * 1000)}ms"


def number(value: float) -> str:
    """A number without what binary fractions add to it: 1 - 0.9999 is 0.0001."""
    return f"{value:.9g}"


def envoy(metric: str, model: str, more: str = "") -> str:
    """A counter of all versions of a model; the edges call their clusters `model@vN`.

    Model names (`registry.model.check_model_name`) hold nothing that a pattern takes for its own.
    """
    return f'envoy_cluster_{metric}{{envoy_cluster_name=~"{model}@v[0-9]+"{more}}}'


def rate(series: str) -> str:
    """A counter's increase a second over five minutes, all edges and versions together."""
    return f"sum(rate({series}[{duration(_BASE_S)}]))"


def requests(model: str, sli: Sli) -> str:
    """Requests a second; see `serving.slo.burn.counted`."""
    if sli is Sli.AVAILABILITY:
        return rate(envoy("upstream_rq_completed", model))
    measured, given_up = envoy("upstream_rq_time_count", model), envoy("upstream_rq_timeout", model)
    return f"{rate(measured)} + {rate(given_up)}"


def bad(slo: SLO, model: str, sli: Sli) -> str:
    """Requests a second that were not as promised."""
    if sli is Sli.AVAILABILITY:
        # Envoy has no counter of a class before the first answer of it; where it counts answers at
        # all, that is zero of them. Where it does not, there is no result.
        faults = envoy("upstream_rq_xx", model, ',envoy_response_code_class="5"')
        return f"{rate(faults)} or 0 * {requests(model, sli)}"
    # Prometheus 3 stores what Envoy calls le="1000" as le="1000.0".
    bound = f',le=~"{number(burn.latency_bound_ms(slo))}([.]0)?"'
    return f"{requests(model, sli)} - {rate(envoy('upstream_rq_time_bucket', model, bound))}"


def series(name: str, model: str, **labels: str) -> str:
    """A recorded series of a model."""
    more = "".join(f',{key}="{value}"' for key, value in labels.items())
    return f'{name}{{model="{model}"{more}}}'


def burn_over(model: str, window_s: float) -> str:
    """The burns over a window, one per SLI; `serving.slo.burn.rate`."""
    found = [_sum(series(name, model), window_s) for name in (BAD, REQUESTS)]
    return f"{found[0]} / {found[1]} / {series(BUDGET, model)}"


def budget_left(slo: SLO, model: str, every_s: float) -> str:
    """The shares of the budgets that are left, with samples recorded every `every_s` seconds.

    As in `serving.slo.burn`; how much was seen is told by how many samples there are.
    """
    seen = f"count_over_time({series(REQUESTS, model)}[{duration(slo.window_s)}])"
    share = f"clamp_max({seen} * {number(every_s / slo.window_s)}, 1)"
    return f"1 - {burn_over(model, slo.window_s)} * {share}"


def edge_faults() -> str:
    """Share of an edge's answers that are 5xx and no version's; see EDGE_FAULTS."""
    prefix, fault = 'envoy_http_conn_manager_prefix="edge"', 'envoy_response_code_class="5"'
    # Clusters of versions only: others carry no caller's request.
    answers_s, faults_s, versions_s = (
        f"sum by (instance) (rate({found}[{duration(_EDGE_S)}]))"
        for found in (
            f"envoy_http_downstream_rq_xx{{{prefix}}}",
            f"envoy_http_downstream_rq_xx{{{prefix},{fault}}}",
            f'envoy_cluster_upstream_rq_xx{{envoy_cluster_name=~".+@v[0-9]+",{fault}}}',
        )
    )
    return f"({faults_s}\n  - ({versions_s} or 0 * {answers_s}))\n/ {answers_s}"


def _sum(recorded: str, window_s: float) -> str:
    whole = window_s > _BASE_S
    return f"sum_over_time({recorded}[{duration(window_s)}])" if whole else recorded
