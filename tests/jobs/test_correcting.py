"""`liftlock correct` through real servers: order, refusals, going on, stopping."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from click.testing import CliRunner, Result

from jobs import placing
from jobs.cli import main
from jobs.exits import Exit
from jobs.settings import resolve
from serving.keys.scopes import Scope
from serving.keys.store import OWN_S, KeyStore, Terms
from tests.fakes.engine import FakeEngine
from tests.serving.client import stand_in
from tests.serving.client.test_picks import served
from tests.serving.edge.certificates import Authority
from tests.serving.engine import loopback

ROOT = Path(__file__).resolve().parents[2]
Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def invoke(*args: str, stdin: str | None = None) -> Result:
        home = str(tmp_path / "home")
        return CliRunner().invoke(main, ["--home", home, "correct", *args], input=stdin)

    return invoke


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_plain_lines_come_back_side_by_side(run: Run) -> None:
    with loopback.serving() as url:
        result = run("-", "--endpoint", url, stdin="He go.\n\nShe go. He go.\n")
    assert result.stdout == "He goes.\n\nShe goes. He goes.\n"
    assert result.exit_code == Exit.DONE
    assert "3 corrected, 0 refused, 0 of them by an earlier run," in result.stderr


def test_json_lines_say_what_was_changed_and_keep_ids(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "texts.jsonl"
    source.write_text('{"text": "He go.", "id": "a"}\n{"text": "Fine.", "id": [2]}\n')
    with loopback.serving() as url:
        result = run(str(source), "--endpoint", url, "--json")
    first, second = objects(result.stdout)
    assert (first["id"], first["corrected"], first["version"]) == ("a", "He goes.", 7)
    assert first["edits"] == [{"start": 3, "end": 5, "original": "go", "replacement": "goes"}]
    assert (second["id"], second["edits"]) == ([2], [])


def test_requests_are_the_choices_of_the_router_over_several_edges(
    run: Run, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    texts = "".join(f"He go {number}.\n" for number in range(200))
    with loopback.serving() as one, loopback.serving() as other:
        result = run(
            "-", "--endpoint", one, "--endpoint", other, "--out", str(out), "--json",
            "--texts-per-request", "4", stdin=texts,
        )  # fmt: skip
        summary = json.loads(result.stdout)
        assert summary["picks"] == {one: served(one), other: served(other)}
    assert sum(summary["picks"].values()) == 50
    assert (summary["texts"], summary["kept"]) == (200, 0)
    assert [each["line"] for each in objects(out.read_text())] == list(range(1, 201))


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[stand_in.Seen]:
    """An edge that lets keys of the home in, and of nobody else."""
    keys = KeyStore.of(tmp_path / "home")
    terms = Terms(name="somebody", scopes=(Scope.CALL,), rate_rps=1, lifetime_s=60)
    keys.issue(terms, time.time())
    public = jwt.PyJWKSet.from_json(keys.public_set()).keys[0]

    async def answer(request: bytes, writer: asyncio.StreamWriter) -> None:
        key = (stand_in.header(request, "authorization") or "").removeprefix("Bearer ")
        try:
            jwt.decode(key, public, algorithms=["ES256"], issuer="liftlock", audience="call")
        except jwt.InvalidTokenError:
            writer.write(stand_in.http(401, {"error": {"code": "invalid_api_key"}}))
            return
        each = {"corrected": "He goes.", "edits": [], "finish_reason": "stop"}
        writer.write(stand_in.http(200, {"model": "grammar", "version": 1, "results": [each]}))

    with stand_in.threaded(answer) as seen:
        yield seen


def test_the_edge_of_the_home_is_asked_with_a_key_that_the_home_signs(
    run: Run, locked: stand_in.Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIFTLOCK_PORT", locked.url.rpartition(":")[2])
    result = run("-", stdin="He go.\n")
    assert (result.exit_code, result.stdout) == (Exit.DONE, "He goes.\n"), result.stderr
    result = run("-", "--endpoint", locked.url, stdin="He go.\n")
    assert result.exit_code == Exit.DONE, "however it is named"
    monkeypatch.setenv("LIFTLOCK_API_KEY", "another")
    assert run("-", stdin="He go.\n").exit_code == Exit.FAULT


def test_another_edge_is_never_shown_such_a_key(run: Run, locked: stand_in.Seen) -> None:
    result = run("-", "--endpoint", locked.url, stdin="He go.\n")
    assert result.exit_code == Exit.FAULT
    assert "status 401" in result.stderr
    assert stand_in.header(locked.requests[-1], "authorization") is None


@pytest.mark.parametrize(("address", "is_taken"), [("127.0.0.1", True), ("127.0.0.2", False)])
def test_the_edge_of_the_home_is_known_by_its_own_certificate_under_a_name_that_it_has(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, is_taken: bool
) -> None:
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    Authority(tmp_path).issue(certificate, key, address)
    (tmp_path / "home").mkdir()
    settings = tmp_path / "home" / "edge.yaml"
    settings.write_text(f"tls: {{certificate: {certificate}, key: {key}}}")
    with loopback.serving(tls=(certificate, key)) as url:
        assert run("-", "--endpoint", url, stdin="He go.\n").exit_code == Exit.FAULT, "no own edge"
        monkeypatch.setattr(placing, "endpoint_url", lambda settings: url)
        result = run("-", stdin="He go.\n")
    assert result.stdout == ("He goes.\n" if is_taken else ""), result.stderr
    assert ("not valid for '127.0.0.1'" in result.stderr) is not is_taken
    certificate.unlink()
    result = run("-", stdin="He go.\n")
    assert (result.exit_code, f"{certificate} cannot be read" in result.stderr) == (
        Exit.USAGE,
        True,
    )


def test_an_empty_key_is_none_to_another_edge(
    run: Run, locked: stand_in.Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIFTLOCK_API_KEY", "")
    run("-", "--endpoint", locked.url, stdin="He go.\n")
    assert stand_in.header(locked.requests[-1], "authorization") is None


def test_own_keys_are_renewed_before_they_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LIFTLOCK_API_KEY", raising=False)
    KeyStore.of(tmp_path).issue(
        Terms(name="n", scopes=(Scope.CALL,), rate_rps=1, lifetime_s=60), time.time()
    )
    clock = [0.0]
    monkeypatch.setattr(placing.time, "monotonic", lambda: clock[0])
    keys = placing.own_keys(resolve({}, home=tmp_path))
    first = keys()
    clock[0] = OWN_S / 2
    assert keys() == first
    clock[0] += 1.0
    assert keys() != first


def test_a_refused_text_is_told_in_its_place(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    long = "word " * 4_000 + "."
    with loopback.serving() as url:
        result = run("-", "--endpoint", url, "--out", str(out), stdin=f"He go.\n{long}\nHe go.\n")
    assert result.exit_code == Exit.FAULT
    first, bad, last = objects(out.read_text())
    assert (first["corrected"], last["corrected"]) == ("He goes.", "He goes.")
    assert bad["error"]["code"] == "context_length_exceeded"
    assert "line 2 was refused" in result.stderr


def test_the_same_command_goes_on_where_the_endpoint_left_it(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    source = tmp_path / "in.txt"
    source.write_text("".join(f"He go {number}.\n" for number in range(40)))
    with loopback.serving() as url:
        assert run(str(source), "--endpoint", url, "--out", str(out)).exit_code == Exit.DONE
    whole = out.read_text().splitlines(keepends=True)
    out.write_text("".join(whole[:10]) + whole[10][:7])
    common = (str(source), "--out", str(out), "--deadline-s", "0.5", "--json")
    stopped = run(*common, "--endpoint", url)  # nobody is there any more
    assert stopped.exit_code == Exit.FAULT
    assert out.read_text().splitlines(keepends=True) == whole[:10]
    with loopback.serving() as back:
        summary = json.loads(run(*common, "--endpoint", back).stdout)
        assert (summary["texts"], summary["kept"]) == (40, 10)
        again = json.loads(run(*common, "--endpoint", back).stdout)
        assert (again["texts"], again["kept"], again["picks"]) == (40, 40, {back: 0})
    assert [each["text"] for each in objects(out.read_text())] == source.read_text().splitlines()


class Peak(FakeEngine):
    """Remembers how many sequences it ran at once."""

    peak = 0

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "running":
            self.peak = max(self.peak, value)


def test_as_many_requests_are_under_way_as_asked_for_and_no_more(run: Run) -> None:
    engine = Peak(delay_s=0.01)
    with loopback.serving(engine) as url:
        result = run(
            "-", "--endpoint", url, "--concurrency", "3", "--texts-per-request", "1",
            stdin="He go.\n" * 30,
        )  # fmt: skip
    assert result.stdout == "He goes.\n" * 30
    assert engine.peak == 3


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("no-such-file",), "'no-such-file' does not exist"),
        (("-", "--endpoint", "ftp://x"), "must be like http"),
        (("-", "--via", "handle", "--endpoint", "http://x"), "leave one out"),
        (("-", "--via", "handle"), "no version of grammar has traffic here"),
        (("-", "--via", "handle", "--version", "3"), "no Ray cluster runs here"),
        (("-", "--input", "jsonl"), "line 1 of stdin is not JSON"),
        (("-", "--model", "a\u202eb"), ""),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_sent(
    run: Run, args: tuple[str, ...], told: str
) -> None:
    result = run(*args, stdin="He go.\n")
    assert result.exit_code == Exit.USAGE
    assert told in result.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_cleanly_and_what_was_done_is_kept(
    tmp_path: Path, number: signal.Signals
) -> None:
    out, source = tmp_path / "out.jsonl", tmp_path / "in.txt"
    source.write_text("He go.\n" * 400)
    engine = FakeEngine(delay_s=0.05)
    with loopback.serving(engine) as url:
        command = [
            sys.executable, "-m", "jobs", "--home", str(tmp_path / "home"), "correct", str(source),
            "--out", str(out), "--endpoint", url, "--texts-per-request", "1", "--concurrency", "4",
        ]  # fmt: skip
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(command, stderr=subprocess.PIPE, cwd=ROOT, env=env)
        give_up_s = time.monotonic() + 60
        while not out.exists() or len(out.read_bytes().splitlines()) < 8:
            assert process.poll() is None
            assert time.monotonic() < give_up_s
            time.sleep(0.02)
        process.send_signal(number)
        _, told = process.communicate(timeout=30)
        assert process.returncode == Exit.FAULT
        assert b"interrupted; the same command goes on where this one stopped" in told
        assert b"Traceback" not in told
        kept = objects(out.read_text())
        assert 8 <= len(kept) < 400
        assert all(each["corrected"] == "He goes." for each in kept)
        give_up_s = time.monotonic() + 10
        while engine.running:  # what was on its way was told to stop
            assert time.monotonic() < give_up_s
            time.sleep(0.02)
