"""Every answer tells how many requests the replica holds beside it; so does a cheap probe."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.engine import orca
from serving.engine.state import ReplicaState
from tests.fakes.engine import FakeEngine

BODY = {"text": "She go."}


def told(answer: httpx.Response) -> int | None:
    return orca.in_flight(answer.headers[orca.HEADER])


def test_the_header_is_orcas_text_form() -> None:
    assert orca.HEADER == "endpoint-load-metrics"
    assert orca.text(7) == "TEXT named_metrics.in_flight=7"


@given(st.integers(0, 2**31 - 1))
def test_what_is_written_is_read(number: int) -> None:
    assert orca.in_flight(orca.text(number)) == number


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, None),
        ("", None),
        ("BIN CAES", None),
        ('JSON {"named_metrics": {"in_flight": 3}}', None),
        ("TEXT cpu_utilization=0.3", None),
        ("TEXT cpu_utilization=0.3, named_metrics.in_flight=4.0", 4),
        ("TEXT named_metrics.in_flight=-1", None),
        ("TEXT named_metrics.in_flight=nan", None),
        ("TEXT named_metrics.in_flight=inf", None),
        ("TEXT named_metrics.in_flight=", None),
        ("TEXT named_metrics.in_flight", None),
    ],
)
def test_of_other_headers_only_that_number_is_read(value: str | None, found: int | None) -> None:
    assert orca.in_flight(value) == found


@given(st.text())
def test_nothing_that_a_header_can_hold_is_an_error(value: str) -> None:
    assert orca.in_flight("TEXT " + value) is None or "in_flight" in value


async def test_an_answer_tells_of_the_others_in_flight(
    http: httpx.AsyncClient, engine: FakeEngine, state: ReplicaState
) -> None:
    assert told(await http.post("/v1/corrections", json=BODY)) == 0
    with state.admit(None):
        assert told(await http.post("/v1/corrections", json=BODY)) == 1
        assert told(await http.post("/v1/corrections", json={})) == 1  # refused after admission
        assert told(await http.get("/v1/models")) == 1
    assert told(await http.get("/v1/chat")) == 0


async def test_a_refusal_for_being_full_tells_of_all(
    http: httpx.AsyncClient, state: ReplicaState
) -> None:
    with state.admit(None), state.admit(None):
        answer = await http.post("/v1/corrections", json=BODY)
    assert answer.status_code == 429
    assert told(answer) == 2


async def test_a_stream_tells_as_it_begins(http: httpx.AsyncClient, state: ReplicaState) -> None:
    asked = {"model": "grammar", "prompt": "she go", "stream": True}
    with state.admit(None):
        async with http.stream("POST", "/v1/completions", json=asked) as answer:
            assert answer.headers[orca.HEADER] == orca.text(1)
            await answer.aread()


async def test_a_late_request_is_none_that_is_in_flight(
    http: httpx.AsyncClient, engine: FakeEngine
) -> None:
    engine.delay_s = 5.0
    late = {"x-request-timeout-ms": "20"}
    answer = await http.post("/v1/corrections", json=BODY, headers=late)
    assert (answer.status_code, told(answer)) == (408, 0)


async def test_a_question_that_is_no_request_of_the_model_is_told_it_too(
    http: httpx.AsyncClient, engine: FakeEngine
) -> None:
    engine.delay_s = 0.2
    asking = asyncio.ensure_future(http.post("/v1/corrections", json=BODY))
    async with asyncio.timeout(5.0):
        while not engine.running:  # noqa: ASYNC110 what is waited for tells nobody
            await asyncio.sleep(0)
    assert told(await http.get("/readyz")) == 1
    assert told(await asking) == 0
    assert told(await http.get("/readyz")) == 0
