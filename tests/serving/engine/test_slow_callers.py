"""Callers that dribble, stall or overdo it, over real sockets: let go, and nobody else waits."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator

import httpx
import pytest

from serving.engine.http_guard import GuardedHttp
from serving.engine.state import Limits
from tests.fakes.engine import FakeEngine
from tests.serving.engine.loopback import serving
from tests.serving.engine.raw import BODY, HANG_S, answer, dial, head, hung_up

LIMITS = Limits(max_body_bytes=20_000, timeout_s=0.4)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(limits=LIMITS) as url:
        yield url


class Impatient(GuardedHttp):
    head_s = 0.3
    body_s = 0.3
    taken_s = 0.3


@pytest.fixture(scope="module")
def impatient() -> Iterator[str]:
    with serving(limits=LIMITS, http=Impatient, keep_alive_s=0.5) as url:
        yield url


def test_a_body_that_dribbles_is_ended_by_the_deadline(url: str) -> None:
    with dial(url) as sock:
        sock.sendall(head(1_000))
        sock.settimeout(0.02)
        ends_s = time.monotonic() + HANG_S
        received = b""
        while not received and time.monotonic() < ends_s:
            sock.sendall(b" ")
            try:
                received = sock.recv(65_536)
            except TimeoutError:
                continue
    assert received.startswith(b"HTTP/1.1 408")
    assert b"deadline_exceeded" in received


def test_a_body_that_never_comes_is_ended_by_the_caller_s_own_deadline(url: str) -> None:
    with dial(url) as sock:
        sock.sendall(head(1_000, b"x-request-timeout-ms: 50"))
        assert answer(sock)[0] == 408


def test_many_stalled_callers_keep_nobody_from_an_answer(url: str) -> None:
    stalled = [dial(url) for _ in range(100)]
    try:
        for sock in stalled:
            sock.sendall(head(1_000))
        assert httpx.post(f"{url}/v1/corrections", content=BODY, timeout=HANG_S).status_code == 200
        assert {answer(sock)[0] for sock in stalled} == {408}
    finally:
        for sock in stalled:
            sock.close()


def test_a_body_over_the_limit_is_refused_before_it_is_sent(url: str) -> None:
    with dial(url) as sock:
        sock.sendall(head(10**9))
        assert answer(sock)[0] == 413


def test_a_chunked_body_over_the_limit_is_refused(url: str) -> None:
    with dial(url) as sock:
        sock.sendall(b"POST /invocations HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(5):
            sock.sendall(b"1388\r\n" + b" " * 5_000 + b"\r\n")
        assert answer(sock)[0] == 413


@pytest.mark.parametrize("size", [8_000, 60_000])
def test_long_headers_are_answered(url: str, size: int) -> None:
    with dial(url) as sock:
        sock.sendall(head(len(BODY), b"cookie: " + b"c" * size) + BODY)
        assert answer(sock)[0] in (200, 400, 431)


def test_headers_without_end_are_cut_off(url: str) -> None:
    with dial(url) as sock:
        sock.sendall(b"POST /v1/corrections HTTP/1.1\r\nhost: a\r\n")
        received = b""
        with contextlib.suppress(OSError):  # the server may be gone while we still send
            for number in range(2_000):
                sock.sendall(b"x-%d: " % number + b"y" * 1_000 + b"\r\n")
            while piece := sock.recv(65_536):
                received += piece
        assert number < 1_999 or b" 431 " in received


def test_headers_that_dribble_are_hung_up_on(impatient: str) -> None:
    with dial(impatient) as sock:
        sock.sendall(b"POST /v1/corrections HTTP/1.1\r\nx-")
        with contextlib.suppress(OSError):
            for _ in range(1_000):
                sock.sendall(b"a")
                time.sleep(0.005)
        assert hung_up(sock) == b""


def test_a_connection_that_sends_nothing_is_hung_up_on(impatient: str) -> None:
    with dial(impatient) as sock:
        assert hung_up(sock) == b""


@pytest.mark.parametrize("first", [b"", head(len(BODY)) + BODY], ids=["first", "after a request"])
def test_blank_lines_keep_no_connection_open(impatient: str, first: bytes) -> None:
    with dial(impatient) as sock, contextlib.suppress(ConnectionError):
        sock.sendall(first)
        ends_s = time.monotonic() + HANG_S
        while time.monotonic() < ends_s:
            sock.sendall(b"\r\n")
            time.sleep(0.02)
    assert time.monotonic() < ends_s


def test_a_body_that_goes_on_after_its_refusal_is_hung_up_on(impatient: str) -> None:
    with dial(impatient) as sock:
        sock.sendall(head(10**9))
        assert hung_up(sock).startswith(b"HTTP/1.1 413")


def test_the_patient_are_served_on_one_connection(impatient: str) -> None:
    with dial(impatient) as sock:
        for _ in range(3):
            request = head(len(BODY)) + BODY
            sock.sendall(request[:40])
            time.sleep(0.05)
            sock.sendall(request[40:])
            assert answer(sock)[0] == 200
            time.sleep(0.05)


@pytest.mark.parametrize("at_once", [0, 1], ids=["nothing", "byte by byte"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_caller_who_does_not_take_its_answer_is_let_go(stream: bool, at_once: int) -> None:
    engine = FakeEngine(max_model_len_tokens=20_000)
    prompt = " ".join(["a"] * 4_000)
    wish = {"model": "grammar", "prompt": prompt, "n": 60, "temperature": 1, "stream": stream}
    body = json.dumps({**wish, "max_tokens": 4_000, "logprobs": 0}).encode()
    with serving(engine, limits=Limits(), http=Impatient) as url, dial(url) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        sock.sendall(head(len(body), path=b"/v1/completions") + body)
        sock.recv(1)
        ends_s = time.monotonic() + HANG_S
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < ends_s:
                sock.sendall(b"\r\n")  # nothing to HTTP; fails where nobody is there any more
                sock.recv(at_once)
                time.sleep(0.02)
        assert time.monotonic() < ends_s
        assert engine.running == 0
        assert len(engine.aborted) == stream
