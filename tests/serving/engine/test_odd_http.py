"""Requests that no client library sends, over real sockets: read in one way, or refused."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

from serving.engine.state import Limits
from tests.fakes.engine import FakeEngine
from tests.serving.engine.loopback import serving
from tests.serving.engine.raw import (
    BODY,
    CHUNKED,
    HANG_S,
    WHOLE,
    answer,
    code,
    dial,
    head,
    hung_up,
    wait_until,
)

LIMITS = Limits(max_body_bytes=20_000, timeout_s=0.4)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(limits=LIMITS) as url:
        yield url


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (b"x-request-timeout-ms:\t 50000 \t ", 200),
        (b"x-liftlock-version-pin:  7 \t", 200),
        (b"x-liftlock-version-pin:  8 \t", 412),
        (b"x-liftlock-version-pin: 7\xa0", 400),
        (b"x-liftlock-version-pin: \r\n 7", 400),
        (b"x-a: b\r\n\tc", 400),
    ],
)
def test_white_space_around_a_header_is_no_part_of_it(url: str, header: bytes, status: int) -> None:
    with dial(url) as sock:
        sock.sendall(head(len(BODY), header, b"x-request-id: \tmine  \t") + BODY)
        found, received = answer(sock)
    assert found == status
    assert b"\r\nx-request-id: mine\r\n" in received or code(received) == "bad_http"


def test_a_body_compressed_on_its_way_is_refused(url: str) -> None:
    with dial(url) as sock:
        sock.sendall(CHUNKED.replace(b"chunked", b"gzip, chunked") + WHOLE + b"\r\n")
        assert answer(sock)[0] == 415


def test_trailers_are_no_headers(url: str) -> None:
    with dial(url) as sock:
        sock.sendall(CHUNKED + WHOLE + b"x-request-id: trailer\r\n\r\n")
        status, received = answer(sock)
        assert (status, b"trailer" in received) == (200, False)
        sock.sendall(head(len(BODY)) + BODY)
        assert b"trailer" not in answer(sock)[1]


@pytest.mark.parametrize("size", [10, 30_000])
@pytest.mark.parametrize(
    "begun",
    [WHOLE, WHOLE + b"x: ", b"12;", b"12;x="],
    ids=["trailers", "one trailer", "extension", "value of an extension"],
)
def test_what_surrounds_a_body_is_bounded_as_headers_are(url: str, begun: bytes, size: int) -> None:
    piece = b"a" * size if begun.endswith((b" ", b";", b"=")) else b"x: " + b"a" * size + b"\r\n"
    with dial(url) as sock:
        sock.sendall(CHUNKED + begun)
        with contextlib.suppress(OSError):  # the server may be gone while we still send
            for _ in range(1_000_000 // len(piece)):
                sock.sendall(piece)
        assert b" 408 " not in hung_up(sock)


def test_a_body_in_many_small_chunks_is_a_body(url: str) -> None:
    with dial(url) as sock:
        sock.sendall(CHUNKED)
        for _ in range(15):
            sock.sendall(b"1\r\n \r\n" * 1_000)
        sock.sendall(WHOLE + b"\r\n")
        assert answer(sock)[0] == 200


@pytest.mark.parametrize("pause_s", [0, 0.05], ids=["one piece", "several"])
def test_requests_sent_ahead_are_not_begun(pause_s: float) -> None:
    engine = FakeEngine(delay_s=0.3)
    with serving(engine) as url, dial(url) as sock:
        for _ in range(4):
            sock.sendall(head(len(BODY)) + BODY)
            time.sleep(pause_s)
        received = hung_up(sock)
    assert (received.count(b"HTTP/1.1 "), received.count(b'"He goes."')) == (1, 1)
    assert len(engine.requests) == 1


@pytest.mark.parametrize("pause_s", [0, 0.05], ids=["one piece", "several"])
def test_who_sent_ahead_and_leaves_has_its_request_aborted(pause_s: float) -> None:
    engine = FakeEngine(delay_s=HANG_S)
    with serving(engine, limits=Limits()) as url:
        with dial(url) as sock:
            for _ in range(4):
                sock.sendall(head(len(BODY)) + BODY)
                time.sleep(pause_s)
            wait_until(lambda: engine.running == 1)
        wait_until(lambda: engine.running == 0)
    assert (len(engine.requests), len(engine.aborted)) == (1, 1)


def test_junk_sent_ahead_is_no_answer_to_the_request_before(url: str) -> None:
    with dial(url) as sock:
        sock.sendall(head(len(BODY)) + BODY + b"\x00junk\r\n\r\n")
        assert hung_up(sock).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("path", [b"/v1/corrections", b"/invocations", b"/v1/chat/completions"])
def test_bad_utf8_is_refused(url: str, path: bytes) -> None:
    body = b'{"text": "\xff\xfe"}'
    with dial(url) as sock:
        sock.sendall(head(len(body), path=path) + body)
        status, received = answer(sock)
    assert (status, code(received)) == (400, "bad_json")


@pytest.mark.parametrize(
    "path",
    [b"/%ff%fe", b"/serving-endpoints/%ff/invocations", b"/serving-endpoints/%2e%2e/invocations"],
)
def test_paths_that_are_no_text_are_not_found(url: str, path: bytes) -> None:
    with dial(url) as sock:
        sock.sendall(head(len(BODY), path=path) + BODY)
        assert answer(sock)[0] == 404


@pytest.mark.parametrize(
    "junk", [b"\x00\x01\x02\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01" + b"a" * 99]
)
def test_what_is_no_http_is_hung_up_on(url: str, junk: bytes) -> None:
    with dial(url) as sock:
        sock.sendall(junk)
        status, received = answer(sock)
    assert (status, code(received)) == (400, "bad_http")


UPGRADE = (b"connection: Upgrade, HTTP2-Settings", b"upgrade: h2c", b"http2-settings: AAMAAABk")


@pytest.mark.parametrize("at", [60, 130, -5], ids=["in the head", "after it", "in the body"])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_wish_for_another_protocol_is_declined(url: str, chunked: bool, at: int) -> None:
    whole = head(len(BODY), *UPGRADE) + BODY
    if chunked:
        whole = CHUNKED[:-2] + b"\r\n".join(UPGRADE) + b"\r\n\r\n" + WHOLE + b"\r\n"
    with dial(url) as sock:
        for _ in range(2):
            sock.sendall(whole[:at])
            time.sleep(0.02)
            sock.sendall(whole[at:])
            assert answer(sock)[0] == 200


@pytest.mark.parametrize("upgrade", [b"websocket", b"h2c", b"TLS/1.0"])
def test_a_question_is_answered_whatever_protocol_is_wished_for(url: str, upgrade: bytes) -> None:
    with dial(url) as sock:
        sock.sendall(b"GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\n")
        sock.sendall(b"upgrade: " + upgrade + b"\r\n\r\n")
        assert answer(sock)[0] == 200


def test_a_wish_for_another_protocol_may_be_the_last_request_of_a_connection(url: str) -> None:
    with dial(url) as sock:
        sock.sendall(head(len(BODY), b"connection: upgrade, close", b"upgrade: h2c") + BODY)
        assert hung_up(sock).startswith(b"HTTP/1.1 200 ")


def test_a_connect_is_refused(url: str) -> None:
    with dial(url) as sock:
        sock.sendall(b"CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n")
        assert answer(sock)[0] == 400
