"""Callers that dribble, stall or overdo it, over real sockets: let go, and nobody else waits."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from serving.engine.http_guard import GuardedHttp
from serving.engine.state import Limits
from tests.fakes.engine import FakeEngine
from tests.serving.engine.loopback import serving

LIMITS = Limits(max_body_bytes=20_000, timeout_s=0.4)
HANG_S = 10.0
BODY = b'{"text": "He go."}'


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


def dial(url: str) -> socket.socket:
    host, _, port = url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=HANG_S)


def head(length: int, *more: bytes, path: bytes = b"/v1/corrections") -> bytes:
    lines = [b"POST " + path + b" HTTP/1.1", b"host: a", b"content-length: %d" % length, *more]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def answer(sock: socket.socket) -> tuple[int, bytes]:
    """The status and all that comes until nothing more does."""
    received = b""
    while b"\r\n\r\n" not in received or b"}" not in received.partition(b"\r\n\r\n")[2]:
        piece = sock.recv(65_536)
        if not piece:
            break
        received += piece
    return int(received.split(b" ", 2)[1]), received


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


CHUNKED = b"POST /v1/corrections HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
WHOLE = b"%x\r\n%b\r\n0\r\n" % (len(BODY), BODY)


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


def wait_until(true: Callable[[], bool]) -> None:
    ends_s = time.monotonic() + HANG_S / 2
    while not true():
        assert time.monotonic() < ends_s
        time.sleep(0.01)


def hung_up(sock: socket.socket) -> bytes:
    """All that comes until the server closes."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while piece := sock.recv(65_536):
            received += piece
    return received


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


def test_a_connect_is_refused(url: str) -> None:
    with dial(url) as sock:
        sock.sendall(b"CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n")
        assert answer(sock)[0] == 400


def code(received: bytes) -> str:
    """The error code of an answer."""
    found: str = json.loads(received.partition(b"\r\n\r\n")[2])["error"]["code"]
    return found
