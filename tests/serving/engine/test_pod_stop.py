"""The preStop hook waits until edges let go and nothing is in flight, if anybody is there."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from serving.engine import pod_stop


class Time:
    def __init__(self) -> None:
        self.now_s = 0.0

    def clock(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def waited(reads: Sequence[int | None], *, drain_s: float = 60.0) -> tuple[int, float]:
    """What is left and the time it took; the last of `reads` goes on for ever."""
    time, left = Time(), list(reads)

    def read() -> int | None:
        return left.pop(0) if len(left) > 1 else left[0]

    return pod_stop.until_quiet(read, drain_s=drain_s, clock=time.clock, sleep=time.sleep), (
        time.now_s
    )


def test_it_returns_once_nothing_was_in_flight_for_half_a_second() -> None:
    left, seconds = waited([3, 2, 0])
    assert (left, seconds) == (0, pytest.approx(0.8))


def test_a_request_that_comes_late_is_waited_for() -> None:
    left, seconds = waited([0, 0, 1, 1, 0])
    assert left == 0
    assert seconds > 1.0


def test_what_never_ends_is_given_up_after_the_drain_time() -> None:
    left, seconds = waited([2], drain_s=5.0)
    assert left == 2
    assert seconds == pytest.approx(5.0, abs=0.3)


def test_a_replica_that_is_gone_is_not_waited_for() -> None:
    assert waited([None]) == (0, 0.0)


@pytest.fixture
def said() -> Iterator[list[bytes]]:
    answers: list[bytes] = []

    class Metrics(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answers[0])

        def log_message(self, format: str, *args: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Metrics)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    answers.append(b"")
    answers.append(f"http://127.0.0.1:{server.server_port}/metrics".encode())
    yield answers
    server.shutdown()
    server.server_close()


def test_requests_in_flight_are_read_from_the_metrics(said: list[bytes]) -> None:
    url = said[1].decode()
    said[0] = b"# TYPE liftlock_in_flight gauge\nliftlock_in_flight 7.0\n"
    assert pod_stop.in_flight(url) == 7
    said[0] = b"no metrics"
    assert pod_stop.in_flight(url) == 1, "one that answers oddly counts as busy"


def test_nobody_there_is_none_and_the_hook_returns_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    options = ["--host", "127.0.0.1", "--port", port, "--settle-s", "60", "--drain-s", "60"]
    assert pod_stop.main(options) == 0
    assert "nothing answers at" in capsys.readouterr().err
