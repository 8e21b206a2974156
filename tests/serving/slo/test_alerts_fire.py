"""Each alert fires on made-up series where it must, and keeps quiet where it must not.

What is written down is always the whole set of alerts that fire, so none fires beside.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from serving.slo import SLO, alerts, rules
from tests.serving.slo import prom

PROMISE = SLO(availability=0.9999, latency_quantile=0.99, latency_ms=1000.0)
FILES = rules.files({"grammar": PROMISE})
OF_MODEL = {n: t for n, t in FILES.items() if "grammar" in n}
OF_EDGE = {n: t for n, t in FILES.items() if "edge" in n}
DAY = 1440
FAST, SLOW = alerts.AVAILABILITY_FAST, alerts.AVAILABILITY_SLOW


def cluster(metric: str, more: str = "", version: int = 1) -> str:
    name = f'envoy_cluster_name="grammar@v{version}",instance="e1"'
    return f"envoy_cluster_{metric}{{{name}{more}}}"


def counting(*stretches: tuple[int, int]) -> str:
    """A counter that rises by so much a minute, for so many minutes, one stretch after another."""
    total, written = 0, []
    for per_minute, minutes in stretches:
        written.append(f"{total}+{per_minute}x{minutes - 1}")
        total += per_minute * minutes
    return " ".join(written)


def traffic(minutes: int, **more: str) -> dict[str, str]:
    """10,000 requests a minute, all of them fast."""
    steady = counting((10_000, minutes))
    return {
        cluster("upstream_rq_completed"): steady,
        cluster("upstream_rq_time_count"): steady,
        cluster("upstream_rq_time_bucket", ',le="1000"'): steady,
        cluster("upstream_rq_timeout"): counting((0, minutes)),
        cluster("membership_healthy"): f"3+0x{minutes}",
        cluster("outlier_detection_ejections_active"): f"0+0x{minutes}",
    } | more


def faults(*stretches: tuple[int, int]) -> dict[str, str]:
    return {cluster("upstream_rq_xx", ',envoy_response_code_class="5"'): counting(*stretches)}


def fires(
    folder: Path, files: Mapping[str, str], series: Mapping[str, str], at_min: int, *names: str,
    every: str = "30s",
) -> None:  # fmt: skip
    """Fails unless just these alerts fire at that minute."""
    firing = 'ALERTS{alertstate="firing"}'
    values: dict[str, float | None] = {
        f'count({firing} and on (alertname) ALERTS{{alertname="{name}"}}) > bool 0': 1
        for name in names
    }
    values[f"count(count by (alertname) ({firing}))"] = len(names) or None
    case = prom.Case(series=series, at_min=at_min, values=values, every=every)
    prom.holds(folder, files, case)


@pytest.mark.parametrize(
    ("stretches", "at_min", "names"),
    [
        (((0, 200),), 180, ()),
        # 0.2 % failed for the last hour: burn 20. Over six hours 3.3, over a day 0.9.
        (((0, DAY), (20, 80)), DAY + 65, (FAST,)),
        # It stopped ten minutes ago: an hour still says 17, five minutes say nothing burns.
        (((0, DAY), (20, 65), (0, 40)), DAY + 75, ()),
        # 0.08 % for six hours: burn 8 over six hours and half an hour, but 2 over a day.
        (((0, DAY), (8, 370)), DAY + 365, (FAST, SLOW)),
        # 0.04 % for a day: burn 4.
        (((0, 10), (4, DAY)), DAY, (SLOW,)),
        # 0.009 %: the budget lasts for longer than its window.
        (((0, 10), (9, 10), (0, 10), (1, 600)), 500, ()),
    ],
    ids=["quiet", "an hour", "over", "six hours", "a day", "within"],
)
def test_availability_is_watched_over_two_windows_at_once(
    tmp_path: Path, stretches: tuple[tuple[int, int], ...], at_min: int, names: tuple[str, ...]
) -> None:
    series = traffic(at_min + 30) | faults(*stretches)
    fires(tmp_path, OF_MODEL, series, at_min, *names, every="5m")


@pytest.mark.parametrize(
    ("fast", "given_up", "names"),
    [(9_950, 0, ()), (7_900, 0, (alerts.LATENCY_FAST,)), (9_950, 1_900, (alerts.LATENCY_FAST,))],
    ids=["half a per cent", "slow answers", "no answers"],
)
def test_requests_that_take_too_long_or_for_ever_burn_the_latency_budget(
    tmp_path: Path, fast: int, given_up: int, names: tuple[str, ...]
) -> None:
    clean, then = (10_000, DAY), 80
    series = traffic(DAY + then) | {
        cluster("upstream_rq_time_bucket", ',le="1000"'): counting(clean, (fast, then)),
        cluster("upstream_rq_timeout"): counting((0, DAY), (given_up, then)),
    }
    fires(tmp_path, OF_MODEL, series, DAY + 65, *names, every="5m")


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ({cluster("membership_healthy"): "3+0x9 0+0x20"}, (alerts.NO_READY_REPLICA,)),
        # The old version has gone, the new one serves.
        ({cluster("membership_healthy"): "3+0x9 0+0x20",
          cluster("membership_healthy", version=2): "0+0x9 3+0x20"}, ()),
        ({cluster("outlier_detection_ejections_active"): "0+0x3 1+0x30"}, (alerts.EJECTED,)),
        ({cluster("outlier_detection_ejections_active"): "0+0x3 1 1 0+0x30"}, ()),
        ({'liftlock_queue_age_seconds{instance="r1"}': "0+0x9 2+0x20"}, (alerts.QUEUE_AGE,)),
        ({'liftlock_queue_age_seconds{instance="r1",model="grammar"}': "2+0x30"},
         (alerts.QUEUE_AGE,)),
        ({'liftlock_queue_age_seconds{instance="r1",model="other"}': "2+0x30"}, ()),
        ({'liftlock_queue_age_seconds{instance="r1"}': "0.9+0x30"}, ()),
    ],
    ids=["none", "replaced", "failing", "failed once", "waits", "its own", "another's", "short"],
)  # fmt: skip
def test_replicas_that_are_away_fail_or_fall_behind_are_told(
    tmp_path: Path, more: Mapping[str, str], names: tuple[str, ...]
) -> None:
    fires(tmp_path, OF_MODEL, traffic(30) | more, 15, *names)


def test_a_model_that_no_edge_counts_is_told_once_that_has_lasted(tmp_path: Path) -> None:
    fires(tmp_path, OF_MODEL, {"other": "1+0x40"}, 10)
    fires(tmp_path, OF_MODEL, {"other": "1+0x40"}, 20, alerts.NOT_MEASURED)


EDGE = {
    'up{job="liftlock-edge",instance="e1"}': "1+0x40",
    "liftlock_discovery_source_age_seconds": "1+0x40",
}


def answers(version_faults: int, own_faults: int) -> dict[str, str]:
    """A thousand requests a minute, and what failed of them at the version and at the edge."""
    prefix = 'envoy_http_downstream_rq_xx{envoy_http_conn_manager_prefix="edge",instance="e1"'
    return {
        f'{prefix},envoy_response_code_class="2"}}': counting((1000, 40)),
        f'{prefix},envoy_response_code_class="5"}}': counting((version_faults + own_faults, 40)),
    } | ({cluster("upstream_rq_xx", ',envoy_response_code_class="5"'):
          counting((version_faults, 40))} if version_faults else {})  # fmt: skip


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ({}, ()),
        ({'up{job="liftlock-edge",instance="e2"}': "1+0x3 0+0x40"}, (alerts.EDGE_DOWN,)),
        (answers(500, 0), ()),
        (answers(500, 10), (alerts.EDGE_REFUSES,)),
        (answers(0, 10), (alerts.EDGE_REFUSES,)),
        ({"liftlock_discovery_source_age_seconds": "1+60x40"}, (alerts.DISCOVERY_STALE,)),
        ({"liftlock_discovery_source_age_seconds": "1x5 stale"}, (alerts.DISCOVERY_STALE,)),
    ],
    ids=["well", "one down", "a version fails", "both fail", "no version", "deaf", "gone"],
)
def test_edges_that_are_away_refuse_or_hear_nothing_are_told(
    tmp_path: Path, more: Mapping[str, str], names: tuple[str, ...]
) -> None:
    fires(tmp_path, OF_EDGE, EDGE | more, 20, *names)


@pytest.mark.parametrize("at_min", [12, 13, 14, 20])
def test_the_first_faults_of_a_new_version_are_not_taken_for_the_edges(
    tmp_path: Path, at_min: int
) -> None:
    prefix = 'envoy_http_downstream_rq_xx{envoy_http_conn_manager_prefix="edge",instance="e1"'
    series = {
        f'{prefix},envoy_response_code_class="2"}}': counting((1000, 40)),
        f'{prefix},envoy_response_code_class="5"}}': counting((0, 11), (300, 29)),
        # Envoy has the version's own counter only from the first fault on.
        cluster("upstream_rq_xx", ',envoy_response_code_class="5"'): "_x10 300+300x28",
    }
    fires(tmp_path, OF_EDGE, EDGE | series, at_min)


def test_without_any_edge_that_is_told_too(tmp_path: Path) -> None:
    series = {"liftlock_discovery_source_age_seconds": "1+0x40"}
    fires(tmp_path, OF_EDGE, series, 20, alerts.EDGE_DOWN)
