"""Counting and admission of one front end, alone and beside another."""

from __future__ import annotations

import os
import time

import pytest

from serving.engine.counts import NOT_ACCEPTING, Counts, Field, create
from serving.engine.errors_http import ApiError
from serving.engine.state import Identity, Limits, Phase, ReplicaState

IDENTITY = Identity(model="grammar", version=1, digest="sha256:0")


def ready(counts: Counts | None = None, **limits: int) -> ReplicaState:
    state = ReplicaState(
        IDENTITY, Limits(**limits), warmup_token="secret", slots=2, counts=counts
    )  # fmt: skip
    state.phase = Phase.READY
    return state


def test_two_front_ends_share_one_limit() -> None:
    fd = create(2)
    one, two = (ready(Counts.shared(fd, index), max_in_flight=2) for index in range(2))
    os.close(fd)
    with one.admit(None), two.admit(None):
        assert (one.in_flight, two.in_flight) == (2, 2)
        for state in (one, two):
            with pytest.raises(ApiError) as caught, state.admit(None):
                pass
            assert (caught.value.status, caught.value.code) == (429, "replica_full")
    assert (one.in_flight, two.in_flight) == (0, 0)


def test_what_a_dead_front_end_held_is_forgotten() -> None:
    fd = create(2)
    one, row = ready(Counts.shared(fd, 0)), Counts.shared(fd, 1)
    os.close(fd)
    row.put(Field.IN_FLIGHT, 7)
    row.put(Field.WAITING_SINCE_S, time.monotonic() - 5.0)
    assert one.in_flight == 7
    assert one.queue_age_s() >= 5.0
    row.clear()
    assert (one.in_flight, one.queue_age_s()) == (0, 0.0)
    assert row.get(Field.CONNECTIONS) == NOT_ACCEPTING


def test_a_full_queue_is_refused() -> None:
    state = ready(max_waiting=3)
    with state.in_engine(5), pytest.raises(ApiError) as caught, state.admit(None):
        pass
    assert (caught.value.status, caught.value.code) == (429, "queue_full")


def test_a_deadline_behind_a_long_queue_is_refused_at_once() -> None:
    state = ready()
    with state.in_engine(1):
        time.sleep(0.02)
    with state.in_engine(42):  # twenty rounds of 20 ms wait before the next one begins
        with pytest.raises(ApiError) as caught, state.admit(None, 0.1):
            pass
        with state.admit(None, 30.0):
            assert state.in_flight == 1
    error = caught.value
    assert (error.status, error.code) == (429, "deadline_unreachable")
    assert dict(error.headers) == {"retry-after": "1"}


def test_the_age_of_the_queue_is_that_of_what_waits_longest() -> None:
    state = ready()
    with state.in_engine(1), state.in_engine(1):
        state.note_queue_age()
        assert state.queue_age_s() == 0.0  # both have a place
        with state.in_engine(1):
            time.sleep(0.02)
            with state.in_engine(1):
                state.note_queue_age()
                assert 0.02 <= state.queue_age_s() < 1.0
    state.note_queue_age()
    assert state.queue_age_s() == 0.0
