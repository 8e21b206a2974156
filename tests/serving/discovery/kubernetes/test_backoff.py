"""Waits double up to a cap, and half of each is chance."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from serving.discovery.kubernetes import Timing, backoff

TIMING = Timing(backoff_s=0.25, backoff_max_s=10.0)


@given(st.integers(-5, 10**9), st.integers())
def test_a_wait_is_between_half_and_all_of_its_bound(attempt: int, seed: int) -> None:
    bound_s = min(0.25 * 2.0 ** min(max(attempt, 0), 30), 10.0)
    wait_s = backoff.delay_s(attempt, random.Random(seed), TIMING)
    assert bound_s / 2 <= wait_s <= bound_s


def test_the_bound_doubles_until_the_cap() -> None:
    class Highest(random.Random):
        def random(self) -> float:
            return 1.0

    waits = [backoff.delay_s(attempt, Highest(), TIMING) for attempt in range(8)]
    assert waits == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_those_who_fail_together_come_back_apart() -> None:
    waits = {backoff.delay_s(6, random.Random(seed), TIMING) for seed in range(100)}
    assert max(waits) - min(waits) > 4.0
