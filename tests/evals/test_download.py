"""Downloads over connections that break."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from evals import download
from evals.errors import FetchFailed
from tests.fakes.file_server import Behavior, FileServer, serving

DATA = bytes(range(256)) * 40
SHA256 = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serving() as served:
        served.files["/f"] = DATA
        yield served


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=5.0) as made:
        yield made


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.time_s = 0.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time_s += seconds


def get(server: FileServer, client: httpx.Client, part: Path, sha256: str = SHA256) -> Clock:
    clock = Clock()
    download.download(
        client,
        f"{server.url}/f",
        part,
        sha256,
        clock=download.Clock(now=clock.now, sleep=clock.sleep),
    )
    return clock


def test_file_arrives_whole(server: FileServer, client: httpx.Client, tmp_path: Path) -> None:
    seen: list[int] = []
    part = tmp_path / "f.part"
    download.download(client, f"{server.url}/f", part, SHA256, on_bytes=seen.append)
    assert part.read_bytes() == DATA
    assert seen[-1] == len(DATA)


def test_broken_transfer_goes_on_where_it_was(
    server: FileServer, client: httpx.Client, tmp_path: Path
) -> None:
    server.script = [Behavior(break_after=1000), Behavior(break_after=500)]
    clock = get(server, client, tmp_path / "part")
    assert (tmp_path / "part").read_bytes() == DATA
    assert [asked for _, asked in server.asked] == [None, "bytes=1000-", "bytes=1500-"]
    assert clock.slept == [0.5, 1.0]


def test_stopped_fetch_goes_on_in_the_next_command(
    server: FileServer, client: httpx.Client, tmp_path: Path
) -> None:
    part = tmp_path / "part"
    part.write_bytes(DATA[:4000])
    get(server, client, part)
    assert part.read_bytes() == DATA
    assert server.asked == [("/f", "bytes=4000-")]


@pytest.mark.parametrize(
    "behavior", [Behavior(ignore_range=True), Behavior(wrong_start=True), Behavior(status=503)]
)
def test_servers_that_do_not_resume_are_asked_again(
    server: FileServer, client: httpx.Client, tmp_path: Path, behavior: Behavior
) -> None:
    part = tmp_path / "part"
    part.write_bytes(DATA[:4000])
    server.script = [behavior]
    get(server, client, part)
    assert part.read_bytes() == DATA


@pytest.mark.parametrize("there", [b"wrong beginning", DATA + b"more", b"x" * len(DATA)])
def test_wrong_beginnings_are_thrown_away_and_all_is_fetched(
    server: FileServer, client: httpx.Client, tmp_path: Path, there: bytes
) -> None:
    part = tmp_path / "part"
    part.write_bytes(there)
    get(server, client, part)
    assert part.read_bytes() == DATA
    assert server.asked[-1] == ("/f", None)


def test_wrong_bytes_are_refused_and_not_kept(
    server: FileServer, client: httpx.Client, tmp_path: Path
) -> None:
    expected = "0" * 64
    with pytest.raises(FetchFailed, match=f"expected sha256 {expected}, found {SHA256}"):
        get(server, client, tmp_path / "part", sha256=expected)
    assert not (tmp_path / "part").exists()
    assert len(server.asked) == 1


def test_absent_files_are_not_asked_for_again(
    server: FileServer, client: httpx.Client, tmp_path: Path
) -> None:
    server.files.clear()
    with pytest.raises(FetchFailed, match="/f: the server answered 404"):
        get(server, client, tmp_path / "part")
    assert len(server.asked) == 1


def test_attempts_end_and_what_arrived_is_kept(
    server: FileServer, client: httpx.Client, tmp_path: Path
) -> None:
    server.script = [Behavior(break_after=10)] * download.ATTEMPTS
    with pytest.raises(FetchFailed, match=r"\(4 attempts\); the same command goes on"):
        get(server, client, tmp_path / "part")
    assert (tmp_path / "part").read_bytes() == DATA[:40]


def test_server_says_how_long_to_wait(
    server: FileServer, client: httpx.Client, tmp_path: Path
) -> None:
    server.script = [
        Behavior(status=429, retry_after="7"),
        Behavior(status=503, retry_after="100000"),
        Behavior(status=503, retry_after="tomorrow"),
    ]
    assert get(server, client, tmp_path / "part").slept == [7.0, download.LONGEST_PAUSE_S, 2.0]


def test_silence_ends_an_attempt(server: FileServer, tmp_path: Path) -> None:
    server.script = [Behavior(pause_s=2.0)]
    with httpx.Client(timeout=1.0) as client:
        get(server, client, tmp_path / "part")
    assert (tmp_path / "part").read_bytes() == DATA
    assert len(server.asked) >= 2


def test_slow_senders_meet_the_deadline(
    server: FileServer, client: httpx.Client, tmp_path: Path
) -> None:
    times = iter([0.0, download.DEADLINE_S + 1])
    clock = download.Clock(now=lambda: next(times), sleep=lambda _: None)
    with pytest.raises(FetchFailed, match="took longer than 900 s"):
        download.download(client, f"{server.url}/f", tmp_path / "part", SHA256, clock=clock)


def test_endless_answers_are_cut_off(
    server: FileServer, client: httpx.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evals.textfile.FILE_LIMIT_BYTES", 1000)
    with pytest.raises(FetchFailed, match="is larger than 1,000 bytes"):
        get(server, client, tmp_path / "part")
    assert (tmp_path / "part").stat().st_size == 0


def test_nobody_listening_is_an_error_that_names_the_address(tmp_path: Path) -> None:
    with serving() as gone:
        url = gone.url
    refused = pytest.raises(FetchFailed, match=f"cannot fetch {url}")
    with httpx.Client(timeout=0.2) as client, refused:
        download.download(
            client,
            f"{url}/f",
            tmp_path / "part",
            SHA256,
            clock=download.Clock(now=lambda: 0.0, sleep=lambda _: None),
        )


def test_address_that_is_none_is_an_error(tmp_path: Path, client: httpx.Client) -> None:
    for url in ("nowhere/f", "ftp://x/f", "http://[/f"):
        with pytest.raises(FetchFailed, match="cannot fetch"):
            download.download(
                client,
                url,
                tmp_path / "part",
                SHA256,
                clock=download.Clock(now=lambda: 0.0, sleep=lambda _: None),
            )
