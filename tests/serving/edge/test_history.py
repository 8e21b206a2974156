"""What the edge counted lately."""

from __future__ import annotations

from pathlib import Path

import pytest

from registry import processes
from serving.edge import history
from serving.edge.admin import ClusterStats, LatencyBucket
from serving.edge.history import History
from serving.edge.interval import Interval
from serving.errors import EdgeError

HOUR_S = 3600.0


def stats(requests: int, faults: int) -> ClusterStats:
    """Every request took 5 to 10 ms."""
    buckets = (LatencyBucket(le_ms=5.0, count=0), LatencyBucket(le_ms=10.0, count=requests))
    return ClusterStats(
        completed=requests, ok=requests - faults, client_errors=0, server_errors=faults,
        retries=0, timeouts=0, active=0, ejections_active=0, latency=buckets,
    )  # fmt: skip


def read(
    *totals: tuple[float, dict[str, tuple[int, int]]], known: History | None = None
) -> History:
    known = known or History()
    for now_s, found in totals:
        counts = {name: stats(r, f) for name, (r, f) in found.items()}
        known = history.extended(known, counts, now_s)
    return known


def seen(known: History, window_s: float, now_s: float) -> tuple[float, int, int] | None:
    counted = known.of("grammar", now_s=now_s)
    found = counted.over(window_s) if counted is not None else None
    return (found.seconds, found.requests, found.faults) if found is not None else None


def steady(until_s: float, every_s: float = 10.0) -> History:
    """A hundred requests a second, every hundredth a fault."""
    return read(
        *(
            (every_s * n, {"grammar@v1": (int(100 * every_s) * n, int(every_s) * n)})
            for n in range(int(until_s / every_s) + 1)
        )
    )


def test_the_first_reading_says_nothing_of_when_requests_came() -> None:
    assert seen(read((0.0, {"grammar@v1": (5000, 40)})), 300, now_s=1.0) is None


def test_window_sums_the_versions_of_one_model_only() -> None:
    known = read(
        (0.0, {"grammar@v1": (100, 0)}),
        (10.0, {"grammar@v1": (150, 1), "grammar@v2": (20, 3), "grammar-de@v1": (7, 7)}),
        (20.0, {"grammar@v1": (150, 1), "grammar@v2": (30, 3), "grammar-de@v1": (7, 7)}),
    )
    assert seen(known, 300, now_s=21.0) == (20.0, 80, 4)


def test_window_leaves_out_what_is_older() -> None:
    assert seen(steady(600.0), 60, now_s=600.0) == (60.0, 6000, 60)


def test_the_times_are_those_of_the_window_too() -> None:
    counted = steady(100.0).of("grammar", now_s=100.0)
    assert counted is not None
    found = counted.over(50.0)
    assert found is not None
    assert (found.within(5.0), found.within(10.0), found.measured) == (0, 5000, 5000)


def test_a_restart_of_envoy_loses_nothing_counted_before() -> None:
    known = read(
        (0.0, {"grammar@v1": (100, 2)}),
        (10.0, {"grammar@v1": (160, 3)}),
        (20.0, {"grammar@v1": (5, 1)}),
    )
    assert seen(known, 300, now_s=20.0) == (20.0, 65, 2)


def test_no_requests_is_a_window_of_zero_requests_not_none() -> None:
    known = read((0.0, {"grammar@v1": (100, 2)}), (10.0, {"grammar@v1": (100, 2)}))
    assert seen(known, 300, now_s=12.0) == (10.0, 0, 0)


@pytest.mark.parametrize("now_s", [200.0, -50.0])
def test_counts_of_an_edge_that_stopped_or_of_another_boot_are_not_believed(now_s: float) -> None:
    assert seen(read((0.0, {}), (10.0, {"grammar@v1": (1, 0)})), 300, now_s=now_s) is None


@pytest.mark.parametrize("window_s", [300.0, HOUR_S, 6 * HOUR_S, 24 * HOUR_S])
def test_old_samples_are_joined_and_every_request_stays_counted(window_s: float) -> None:
    end_s = 30 * HOUR_S
    known = steady(end_s, every_s=50.0)
    assert len(known.samples) < 2 * (72 + 360 + 144)
    found = seen(known, window_s, now_s=end_s)
    assert found is not None
    assert found[0] == pytest.approx(window_s, abs=600)
    assert found[1:] == (100 * found[0], found[0])


def test_what_is_older_than_a_month_is_dropped() -> None:
    known = read((0.0, {}), (10.0, {"grammar@v1": (9, 0)}), (history.KEEP_S + 11.0, {}))
    assert [s.from_s for s in known.samples] == [10.0]


def test_a_gap_between_two_edges_is_not_counted_as_seen() -> None:
    before = read((0.0, {"grammar@v1": (0, 0)}), (10.0, {"grammar@v1": (50, 0)}))
    kept = History(samples=before.samples)
    known = read((60.0, {"grammar@v1": (90, 0)}), (70.0, {"grammar@v1": (100, 0)}), known=kept)
    assert seen(known, 300, now_s=70.0) == (20.0, 60, 0)


def test_stored_samples_read_back(tmp_path: Path) -> None:
    known = read((0.0, {}), (10.0, {"grammar@v1": (4, 1)}))
    path = tmp_path / "counts.json"
    assert history.load(path) == History()
    history.store(path, known)
    assert history.load(path).samples == known.samples
    assert isinstance(known.samples[0].counts["grammar@v1"], Interval)


def test_samples_of_an_earlier_boot_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "counts.json"
    history.store(path, read((0.0, {}), (10.0, {"grammar@v1": (4, 1)})))
    monkeypatch.setattr(processes, "boot_id", lambda: "another")
    assert history.load(path) == History()


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"format": "other"}', '{"format": "liftlock/counts/v2"}',
     '{"format": "liftlock/counts/v1", "samples": []}'],
)  # fmt: skip
def test_unreadable_counts_are_said_so(tmp_path: Path, text: str) -> None:
    path = tmp_path / "counts.json"
    path.write_text(text)
    with pytest.raises(EdgeError, match=r"counts\.json"):
        history.load(path)
