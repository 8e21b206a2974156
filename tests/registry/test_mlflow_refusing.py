"""An address without an MLflow behind it, or with one that refuses: told soon, by its address."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from jobs.cli import main
from jobs.exits import Exit
from registry.errors import RecordDenied, RegistryError
from registry.ledger import Log, MarkKind
from registry.mlflow_store import connect
from tests.conftest import free_port

HTML = b"<html><body><h1>It works!</h1></body></html>"
DENIED = json.dumps({"error_code": "PERMISSION_DENIED", "message": "not yours"}).encode()
ANSWERS = {
    "another web server": (200, "text/html", HTML),
    "not found": (404, "text/html", HTML),
    "no credentials": (401, "text/plain", b"Unauthorized"),
    "forbidden": (403, "application/json", DENIED),
    "broken": (500, "text/html", HTML),
    "away": (503, "text/plain", b"upstream connect error"),
    "garbage": (200, "application/json", b"{ garbage \xff"),
    "other JSON": (200, "application/json", b'["not", "a", "record"]'),
    "moved": (302, "text/plain", b""),
}


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")


@contextlib.contextmanager
def answering(status: int, kind: str, body: bytes) -> Iterator[str]:
    """A server that gives every request the same answer; gives its address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            if status == 302:
                self.send_header("location", "/login")
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = answer

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_server_that_is_none_or_refuses_is_an_error_with_its_address(kind: str) -> None:
    started_s = time.monotonic()
    with answering(*ANSWERS[kind]) as address, pytest.raises(RegistryError) as refused:
        connect(address)
    assert address.removeprefix("http://") in str(refused.value)
    assert time.monotonic() - started_s < 20


def test_nobody_at_the_port_is_an_error_with_the_address() -> None:
    address = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(RegistryError, match=address):
        connect(address)


@pytest.mark.parametrize("kind", ["another web server", "no credentials", "broken"])
@pytest.mark.parametrize("verb", ["history", "status", "promote"])
def test_commands_tell_it_and_leave_nothing(
    tmp_path: Path, checkpoint_dir: Path, monkeypatch: pytest.MonkeyPatch, verb: str, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("MLFLOW_TRACKING_URI", "LIFTLOCK_HOME", "LIFTLOCK_PORT"):
        monkeypatch.delenv(name, raising=False)
    args = [verb, str(checkpoint_dir)] if verb == "promote" else [verb, "grammar"]
    with answering(*ANSWERS[kind]) as address:
        result = CliRunner().invoke(
            main, ["--home", str(tmp_path / "home"), "--tracking-uri", address, *args]
        )
    assert result.exit_code == Exit.FAULT, result.output
    assert address.removeprefix("http://") in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "home" / "run").exists()
    assert not (tmp_path / "mlruns").exists()


def test_a_server_that_takes_everything_and_keeps_nothing_is_found_out() -> None:
    run = {"info": {"run_id": "r", "experiment_id": "1", "status": "FINISHED"}, "data": {}}
    experiment = {"experiment_id": "1", "name": "grammar-ledger", "lifecycle_stage": "active"}
    body = json.dumps({"experiment": experiment, "run": run, "runs": [run]}).encode()
    at = "2026-11-29T17:00:00Z"
    item = Log().mark(MarkKind.FREEZE, actor="ana@host", reason="audit", at=at)
    with answering(200, "application/json", body) as address:
        ledger = connect(address).ledger
        with pytest.raises(RecordDenied, match="not there when read back"):
            ledger.append("grammar", item)
