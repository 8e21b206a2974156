"""What docs/slo.md says of alerts and of the histogram's bounds is what the code has."""

from __future__ import annotations

import re

from serving.edge.bootstrap import LATENCY_BUCKETS_MS
from serving.slo import SLO, alerts, burn
from tests.serving.slo import prom

PAGE = (prom.ROOT / "docs" / "slo.md").read_text()


def test_every_alert_is_in_the_table_with_who_is_told() -> None:
    listed = dict(re.findall(r"^\| \[(Liftlock\w+)\].*\| (\w+) \|$", PAGE, re.MULTILINE))
    found = (*alerts.of_model(SLO(), "m"), *alerts.of_edge({"m": SLO()}))
    assert listed == {alert.name: str(alert.severity) for alert in found}


def test_every_bound_of_the_histogram_is_named() -> None:
    (millis, seconds) = re.findall(r"\(1, 2, 5,([^)]*)ms,([^)]*)s\)", PAGE)[0]
    named = [1.0, 2.0, 5.0, *map(float, re.findall(r"[\d.]+", millis))]
    named += [1000 * float(n) for n in re.findall(r"[\d.]+", seconds)]
    assert tuple(named) == LATENCY_BUCKETS_MS


def test_the_pairs_are_in_the_table() -> None:
    rows = re.findall(r"^\| ([\d.]+) \|.*\| (\d+) % \| (\w+) \|$", PAGE, re.MULTILINE)
    month_s = 30 * 86_400.0
    assert [(float(f), int(share), who) for f, share, who in rows] == [
        (p.factor, round(100 * p.factor * p.long_s / month_s), str(p.severity)) for p in burn.PAIRS
    ]
