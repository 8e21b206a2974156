"""Second attempts stay within their budget, and come when most answers have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.client.hedge import Hedge, Hedging


@given(
    st.floats(0.01, 1.0),
    st.lists(st.sampled_from(["call", "take", "full"]), max_size=400),
)
def test_second_attempts_are_at_most_a_share_of_the_calls_and_one(
    budget: float, events: list[str]
) -> None:
    hedging = Hedging(Hedge(delay_s=0.1, budget=budget))
    calls = taken = 0
    for event in events:
        if event == "call":
            calls += 1
            assert hedging.call_begins() == 0.1
        elif event == "take":
            taken += hedging.take()
        else:
            hedging.full()
            assert not hedging.take() or budget == 1.0
        assert taken <= 1 + budget * calls + 1e-9


def test_saved_tokens_are_bounded() -> None:
    hedging = Hedging(Hedge(delay_s=0.1, budget=0.5))
    for _ in range(1000):
        hedging.call_begins()
    assert sum(hedging.take() for _ in range(100)) == 10


def test_a_full_endpoint_is_not_hedged() -> None:
    hedging = Hedging(Hedge(delay_s=0.1))
    hedging.full()
    assert not hedging.take()


def test_without_enough_latencies_there_is_no_delay() -> None:
    hedging = Hedging(Hedge())
    for _ in range(19):
        assert hedging.call_begins() is None
        hedging.saw(0.1)
    hedging.saw(0.1)
    assert hedging.call_begins() == 0.1


@given(
    st.lists(st.floats(0.0, 10.0), min_size=20, max_size=1200),
    st.sampled_from([0.5, 0.9, 0.95, 0.99]),
)
def test_the_delay_is_the_quantile_of_the_last_latencies(
    latencies: list[float], quantile: float
) -> None:
    hedging = Hedging(Hedge(quantile=quantile))
    for latency in latencies:
        hedging.saw(latency)
    recent = latencies[-500:]
    delay_s = hedging.call_begins()
    assert delay_s is not None
    assert sum(each <= delay_s for each in recent) >= quantile * len(recent) - 1e-9
    assert sum(each < delay_s for each in recent) < quantile * len(recent)


@pytest.mark.parametrize(
    "wrong",
    [{"delay_s": -1.0}, {"delay_s": float("nan")}, {"quantile": 1.0}, {"budget": 0.0},
     {"budget": 1.5}],
)  # fmt: skip
def test_senseless_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Hedge(**wrong)
