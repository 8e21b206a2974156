"""W3C trace context: passed on where it is well-formed, as if not sent where it is not."""

from __future__ import annotations

import logging
import time

import httpx
import pytest

from serving.engine import trace
from tests.fakes.engine import FakeEngine

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


async def ask(http: httpx.AsyncClient, **headers: str) -> httpx.Headers:
    return (await http.post("/v1/corrections", json={"text": "a"}, headers=headers)).headers


async def test_the_trace_is_kept_and_the_span_is_new(http: httpx.AsyncClient) -> None:
    spans = set()
    for _ in range(2):
        version, trace, span, flags = (await ask(http, traceparent=PARENT))["traceparent"].split(
            "-"
        )
        assert (version, trace, flags) == ("00", TRACE, "01")
        spans.add(span)
    assert len(spans | {SPAN}) == 3


async def test_refusals_belong_to_the_trace_too(http: httpx.AsyncClient) -> None:
    answer = await http.get("/nowhere", headers={"traceparent": PARENT})
    assert TRACE in answer.headers["traceparent"]


@pytest.mark.parametrize(
    ("given", "flags"),
    [
        (f"cc-{TRACE}-{SPAN}-01-what-comes-later", "01"),
        (f"cc-{TRACE}-{SPAN}-00", "00"),
        (f"00-{TRACE}-{SPAN}-ff", "01"),
    ],
)
async def test_later_versions_are_read_as_far_as_they_are_known(
    http: httpx.AsyncClient, given: str, flags: str
) -> None:
    found = (await ask(http, traceparent=given))["traceparent"]
    assert (found[:36], found[-2:]) == (f"00-{TRACE}-", flags)


@pytest.mark.parametrize(
    "given",
    [
        "", "00", f"00-{TRACE}-{SPAN}", f"00-{TRACE.upper()}-{SPAN}-01", f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01", f"ff-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-0x", f"cc-{TRACE}-{SPAN}-01more", f"0-{TRACE}-{SPAN}-01", "9" * 70_000,
    ],
)  # fmt: skip
async def test_a_malformed_parent_is_as_if_it_had_not_been_sent(
    http: httpx.AsyncClient, given: str
) -> None:
    found = await ask(http, traceparent=given, tracestate="a=1")
    assert "traceparent" not in found
    assert "tracestate" not in found


@pytest.mark.parametrize("vendors", ["rojo=00f067,congo=t61", "a=1 , b@c=2", "0a@b=1", "a=1,,b=2"])
async def test_vendors_state_is_passed_on_as_it_is(http: httpx.AsyncClient, vendors: str) -> None:
    assert (await ask(http, traceparent=PARENT, tracestate=vendors))["tracestate"] == vendors


@pytest.mark.parametrize(
    "vendors",
    [
        "a",
        "a=",
        "A=1",
        "a=1,a=2",
        "a=b=c",
        "=1",
        ",".join(f"k{n}=1" for n in range(33)),
        "a=" + "b" * 257,
        "a=1," * 9_000,
    ],
)
async def test_malformed_state_is_dropped_and_the_trace_kept(
    http: httpx.AsyncClient, vendors: str
) -> None:
    found = await ask(http, traceparent=PARENT, tracestate=vendors)
    assert "tracestate" not in found
    assert TRACE in found["traceparent"]


async def test_state_in_several_headers_is_one_list(http: httpx.AsyncClient) -> None:
    headers = [("traceparent", PARENT), ("tracestate", "a=1"), ("tracestate", "b=2")]
    answer = await http.get("/healthz", headers=headers)
    assert answer.headers["tracestate"] == "a=1,b=2"


async def test_two_parents_are_none(http: httpx.AsyncClient) -> None:
    answer = await http.get("/healthz", headers=[("traceparent", PARENT)] * 2)
    assert "traceparent" not in answer.headers


async def test_log_lines_carry_the_trace(
    http: httpx.AsyncClient, engine: FakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    engine.dead = True
    with caplog.at_level(logging.ERROR):
        await ask(http, traceparent=PARENT)
    assert f"trace_id={TRACE}" in caplog.text


@pytest.mark.parametrize(
    "vendors", ["a=1," + " " * 16_000 + "!", "\t" * 16_000 + "!", "," * 16_000]
)
def test_state_is_read_in_time_linear_in_its_length(vendors: str) -> None:
    started_s = time.process_time()
    for _ in range(5):
        trace.read([("traceparent", PARENT), ("tracestate", vendors)])
    assert time.process_time() - started_s < 2.0
