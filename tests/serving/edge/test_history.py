"""What the edge counted lately."""

from __future__ import annotations

from pathlib import Path

import pytest

from serving.edge import history
from serving.edge.history import Count, History, Window
from serving.errors import EdgeError


def read(*totals: tuple[float, dict[str, tuple[int, int]]]) -> History:
    known = History()
    for now_s, found in totals:
        counts = {n: Count(requests=r, faults=f) for n, (r, f) in found.items()}
        known = history.extended(known, counts, now_s)
    return known


def test_the_first_reading_says_nothing_of_when_requests_came() -> None:
    known = read((0.0, {"grammar@v1": (5000, 40)}))
    assert history.over(known, "grammar", 300, now_s=1.0) is None


def test_window_sums_the_versions_of_one_model_only() -> None:
    known = read(
        (0.0, {"grammar@v1": (100, 0)}),
        (10.0, {"grammar@v1": (150, 1), "grammar@v2": (20, 3), "grammar-de@v1": (7, 7)}),
        (20.0, {"grammar@v1": (150, 1), "grammar@v2": (30, 3), "grammar-de@v1": (7, 7)}),
    )
    seen = history.over(known, "grammar", 300, now_s=21.0)
    assert seen == Window(seconds=20.0, requests=80, faults=4)


def test_window_leaves_out_what_is_older() -> None:
    known = read(*((10.0 * n, {"grammar@v1": (100 * n, 0)}) for n in range(61)))
    seen = history.over(known, "grammar", 60, now_s=600.0)
    assert seen == Window(seconds=70.0, requests=700, faults=0)


def test_a_restart_of_envoy_loses_nothing_counted_before() -> None:
    known = read(
        (0.0, {"grammar@v1": (100, 2)}),
        (10.0, {"grammar@v1": (160, 3)}),
        (20.0, {"grammar@v1": (5, 1)}),
    )
    assert history.over(known, "grammar", 300, now_s=20.0) == Window(
        seconds=20.0, requests=65, faults=2
    )


def test_no_requests_is_a_window_of_zero_requests_not_none() -> None:
    known = read((0.0, {"grammar@v1": (100, 2)}), (10.0, {"grammar@v1": (100, 2)}))
    assert history.over(known, "grammar", 300, now_s=12.0) == Window(
        seconds=10.0, requests=0, faults=0
    )


@pytest.mark.parametrize("now_s", [200.0, -50.0])
def test_counts_of_an_edge_that_stopped_or_of_another_boot_are_not_believed(now_s: float) -> None:
    known = read((0.0, {}), (10.0, {"grammar@v1": (1, 0)}))
    assert history.over(known, "grammar", 300, now_s=now_s) is None


def test_only_an_hour_is_kept() -> None:
    known = read(*((10.0 * n, {"grammar@v1": (n, 0)}) for n in range(500)))
    assert 360 <= len(known.samples) <= 361


def test_stored_samples_read_back(tmp_path: Path) -> None:
    known = read((0.0, {}), (10.0, {"grammar@v1": (4, 1)}))
    path = tmp_path / "counts.json"
    assert history.load(path) == History()
    history.store(path, known)
    assert history.load(path).samples == known.samples


@pytest.mark.parametrize(
    "text", ["", "[]", '{"format": "other"}', '{"format": "liftlock/counts/v1"}']
)
def test_unreadable_counts_are_said_so(tmp_path: Path, text: str) -> None:
    path = tmp_path / "counts.json"
    path.write_text(text)
    with pytest.raises(EdgeError, match=r"counts\.json"):
        history.load(path)
