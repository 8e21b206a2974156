"""Fetching the published files of suites."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from evals import fetching, suite_definition
from evals.errors import FetchFailed
from evals.suite_definition import Definition, Thinning
from evals.thinning import thin
from tests.evals.build_published import COMMIT, definition, lay, sha256, source
from tests.fakes.file_server import Behavior, FileServer, serving

FILES = {"a.src": b"x\ny\n", "a.ref": b"X\ny\n"}
ROOT = f"/owner/corpus/{COMMIT}"


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serving() as served:
        for path, data in FILES.items():
            served.files[f"{ROOT}/{path}"] = data
        yield served


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=1.0) as made:
        yield made


def defined(tmp_path: Path, **changes: object) -> Definition:
    return suite_definition.read(definition(tmp_path, FILES, source=source(FILES, **changes)))


def fetch(found: Definition, data_dir: Path, server: FileServer, client: httpx.Client) -> None:
    planned = fetching.plan(found, data_dir, server.url)
    fetching.run(planned.items, client, lambda item, size: None)


def test_files_come_from_the_repository_at_its_commit(
    tmp_path: Path, server: FileServer, client: httpx.Client
) -> None:
    fetch(defined(tmp_path), tmp_path, server, client)
    for path, data in FILES.items():
        assert (tmp_path / "corpus" / path).read_bytes() == data
    assert [asked for asked, _ in server.asked] == [f"{ROOT}/a.src", f"{ROOT}/a.ref"]
    assert list(tmp_path.rglob("*.part")) == []


def test_github_is_asked_where_no_mirror_is_named(tmp_path: Path) -> None:
    planned = fetching.plan(defined(tmp_path), tmp_path)
    assert planned.items[0].url == f"https://raw.githubusercontent.com{ROOT}/a.src"


def test_what_is_there_is_kept(tmp_path: Path, server: FileServer, client: httpx.Client) -> None:
    lay(tmp_path, {"a.src": FILES["a.src"]})
    fetch(defined(tmp_path), tmp_path, server, client)
    assert [asked for asked, _ in server.asked] == [f"{ROOT}/a.ref"]
    assert fetching.plan(defined(tmp_path), tmp_path) == fetching.Plan()


def test_changed_files_are_not_replaced(tmp_path: Path) -> None:
    lay(tmp_path, {"a.src": b"mine"})
    with pytest.raises(FetchFailed, match=rf"a\.src is there and was changed: .*{sha256(b'mine')}"):
        fetching.plan(defined(tmp_path), tmp_path)
    assert (tmp_path / "corpus" / "a.src").read_bytes() == b"mine"


def test_files_before_a_failed_one_stay(
    tmp_path: Path, server: FileServer, client: httpx.Client
) -> None:
    server.files[f"{ROOT}/a.ref"] = b"other\n"
    with pytest.raises(FetchFailed, match=r"a\.ref has other bytes than were reviewed"):
        fetch(defined(tmp_path), tmp_path, server, client)
    assert sorted(path.name for path in (tmp_path / "corpus").iterdir()) == ["a.src"]


def test_broken_transfer_leaves_no_file_of_the_right_name(
    tmp_path: Path, server: FileServer, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evals.download.ATTEMPTS", 1)
    server.script = [Behavior(break_after=1)]
    with pytest.raises(FetchFailed, match="goes on with what has arrived"):
        fetch(defined(tmp_path), tmp_path, server, client)
    assert [path.name for path in (tmp_path / "corpus").iterdir()] == ["a.src.part"]


def test_files_may_have_another_path_in_the_repository(
    tmp_path: Path, server: FileServer, client: httpx.Client
) -> None:
    server.files[f"{ROOT}/data/x%5B1%5D.txt"] = b"here"
    file = {"path": "x.txt", "sha256": sha256(b"here"), "address": "data/x[1].txt"}
    fetch(defined(tmp_path, files=[file]), tmp_path, server, client)
    assert (tmp_path / "corpus" / "x.txt").read_bytes() == b"here"


def test_notices_are_fetched_too(tmp_path: Path, server: FileServer, client: httpx.Client) -> None:
    server.files[f"{ROOT}/LICENSE"] = b"free"
    notice = {"path": "LICENSE", "sha256": sha256(b"free")}
    fetch(defined(tmp_path, notices=[notice]), tmp_path, server, client)
    assert (tmp_path / "corpus" / "LICENSE").read_bytes() == b"free"


PUBLISHED = "".join(f"line {i}\n" for i in range(50)).encode()
OPTIONS = Thinning(groups=5, lines_per_group=1, seed=0)


def thinned_source(small: bytes) -> dict[str, object]:
    file = {
        "path": "big.txt",
        "sha256": sha256(small),
        "published_sha256": sha256(PUBLISHED),
    }
    return {"files": [file], "thinned": OPTIONS.model_dump()}


def test_large_files_are_thinned_after_they_were_checked(
    tmp_path: Path, server: FileServer, client: httpx.Client
) -> None:
    server.files[f"{ROOT}/big.txt"] = PUBLISHED
    small = thin(PUBLISHED, OPTIONS)
    fetch(defined(tmp_path, **thinned_source(small)), tmp_path, server, client)
    assert [path.name for path in (tmp_path / "corpus").iterdir()] == ["big.txt"]
    assert (tmp_path / "corpus" / "big.txt").read_bytes() == small


def test_thinning_that_gives_other_bytes_is_refused(
    tmp_path: Path, server: FileServer, client: httpx.Client
) -> None:
    server.files[f"{ROOT}/big.txt"] = PUBLISHED
    with pytest.raises(FetchFailed, match="thinned to 5 groups of lines has other bytes"):
        fetch(defined(tmp_path, **thinned_source(b"other")), tmp_path, server, client)
    assert not (tmp_path / "corpus" / "big.txt").exists()


def test_data_that_must_be_fetched_by_hand_says_why_and_where_to(tmp_path: Path) -> None:
    planned = fetching.plan(defined(tmp_path, by_hand="sign the agreement"), tmp_path)
    assert planned.items == ()
    assert planned.by_hand == f"sign the agreement (into {tmp_path / 'corpus'})"
    lay(tmp_path, FILES)
    assert fetching.plan(defined(tmp_path, by_hand="sign"), tmp_path) == fetching.Plan()


def test_package_data_says_what_to_install(tmp_path: Path) -> None:
    package = {
        "package": "nothing",
        "version": "1",
        "module": "no_such_thing",
        "files": [{"path": "a.src", "sha256": "0" * 64}],
    }
    found = suite_definition.read(definition(tmp_path, FILES, source=package))
    assert "`pip install nothing==1`" in fetching.plan(found, tmp_path).by_hand


def test_two_fetches_do_not_meet(tmp_path: Path) -> None:
    refused = pytest.raises(FetchFailed, match="another fetch into")
    with fetching.alone(tmp_path), refused, fetching.alone(tmp_path):
        pass
    with (tmp_path / fetching.LOCK_NAME).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused = pytest.raises(FetchFailed, match="choose another with --data-dir")
    with refused, fetching.alone(tmp_path / "file" / "below"):
        pass


def test_what_cannot_be_written_is_an_error(
    tmp_path: Path, server: FileServer, client: httpx.Client
) -> None:
    (tmp_path / "corpus" / "a.src.part").mkdir(parents=True)
    with pytest.raises(FetchFailed, match=r"cannot write .*a\.src: Is a directory"):
        fetch(defined(tmp_path), tmp_path, server, client)


def test_source_is_noted_beside_the_data_once(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    found = defined(tmp_path, terms="share alike")
    fetching.note_source(found, tmp_path)
    path = tmp_path / "corpus" / "SOURCE.txt"
    assert path.read_text() == (
        f"source: https://github.com/owner/corpus\ncommit: {COMMIT}\n"
        "license: CC-BY-4.0 (share alike)\n"
    )
    path.write_text("my own note")
    fetching.note_source(found, tmp_path)
    assert path.read_text() == "my own note"
