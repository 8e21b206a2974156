"""`liftlock suites`: lists, verifies and fetches, and says why it could not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from jobs.cli import main
from jobs.exits import Exit
from tests.evals.build_published import COMMIT, definition, lay, source
from tests.fakes.file_server import FileServer, serving

FILES = {"a.src": b"x\nfine\n", "a.ref": b"X\nfine\n"}
Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.delenv("LIFTLOCK_DATA_DIR", raising=False)
    home = str(tmp_path / "home")
    return lambda *args: CliRunner().invoke(main, ["--home", home, "suites", *map(str, args)])


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serving() as served:
        for path, data in FILES.items():
            served.files[f"/owner/corpus/{COMMIT}/{path}"] = data
        yield served


def rows(result: Result) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in json.loads(result.stdout)["suites"]}


def test_list_shows_license_and_state_of_every_suite(run: Run, tmp_path: Path) -> None:
    result = run("list", "--data-dir", tmp_path / "none", "--json")
    assert result.exit_code == Exit.DONE, result.output
    found = rows(result)
    assert found["jfleg-test"]["license"] == "CC-BY-NC-SA-4.0"
    assert found["jfleg-test"]["terms"].startswith("non-commercial")
    assert (found["jfleg-test"]["state"], found["jfleg-test"]["examples"]) == ("absent", 747)
    assert found["synthetic-clean"]["state"] == "present"
    wanted = {"en", "uk", "de", "is", "et", "el", "fr", "he", "ru", "tr"}
    assert {row["language"] for row in found.values()} >= wanted


def test_list_for_people_names_the_data_directory(run: Run, tmp_path: Path) -> None:
    result = run("list")
    assert "synthetic-clean        en       clean             1700  present  Apache-2.0" in (
        result.output
    )
    assert f"data directory: {tmp_path / 'home' / 'data'}" in result.output


def test_data_directory_comes_from_the_environment(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIFTLOCK_DATA_DIR", str(tmp_path / "elsewhere"))
    assert f"data directory: {tmp_path / 'elsewhere'}" in run("list").output


def test_check_of_all_is_content_with_absent_data(run: Run, tmp_path: Path) -> None:
    result = run("check", "--data-dir", tmp_path / "none", "--json")
    assert result.exit_code == Exit.DONE, result.output
    assert rows(result)["blimp"]["state"] == "absent"
    assert rows(result)["synthetic-clean"]["digest"].startswith("sha256:1d26")


def test_check_of_a_named_suite_is_not(run: Run, tmp_path: Path) -> None:
    result = run("check", "blimp", "--data-dir", tmp_path / "none")
    assert result.exit_code == Exit.FAULT
    assert "absent   blimp" in result.output
    assert "liftlock suites fetch" in result.output


def test_check_refuses_changed_and_malformed_data(run: Run, tmp_path: Path) -> None:
    path = definition(tmp_path, FILES)
    lay(tmp_path, FILES)
    good = run("check", path, "--data-dir", tmp_path)
    assert good.exit_code == Exit.DONE
    assert "present  tiny                   2 examples, sha256:" in good.output
    lay(tmp_path, {"a.ref": b"other"})
    changed = run("check", path, "--data-dir", tmp_path)
    assert changed.exit_code == Exit.FAULT
    assert "changed  tiny" in changed.output
    assert "expected sha256" in changed.output
    broken = {"a.src": b"x\nfine\n", "a.ref": b"X\n"}
    lay(tmp_path, broken)
    invalid = run("check", definition(tmp_path, broken), "--data-dir", tmp_path)
    assert invalid.exit_code == Exit.FAULT
    assert "invalid  tiny" in invalid.output
    assert "a.ref:2: references are missing" in invalid.output


def test_fetch_brings_files_and_says_under_which_license(
    run: Run, tmp_path: Path, server: FileServer
) -> None:
    path = definition(tmp_path, FILES, source=source(FILES, terms="share alike"))
    result = run("fetch", path, "--data-dir", tmp_path / "d", "--mirror", server.url)
    assert result.exit_code == Exit.DONE, result.output
    assert "fetched  tiny                   2 files under CC-BY-4.0: share alike" in result.output
    assert (tmp_path / "d" / "corpus" / "SOURCE.txt").exists()
    assert run("check", path, "--data-dir", tmp_path / "d").exit_code == Exit.DONE
    again = run("fetch", path, "--data-dir", tmp_path / "d", "--mirror", server.url, "--json")
    assert rows(again)["tiny"]["result"] == "present"


def test_fetch_goes_on_with_the_next_suite_after_one_that_failed(
    run: Run, tmp_path: Path, server: FileServer
) -> None:
    bad = definition(tmp_path / "1", FILES, name="bad", source=source(FILES, commit="0" * 40))
    good = definition(tmp_path / "2", FILES, source=source(FILES, folder="second"))
    result = run("fetch", bad, good, "--data-dir", tmp_path, "--mirror", server.url)
    assert result.exit_code == Exit.FAULT
    assert "failed   bad" in result.output
    assert "answered 404" in result.output
    assert "fetched  tiny" in result.output
    assert "Traceback" not in result.output


def test_fetch_says_what_must_be_fetched_by_hand(run: Run, tmp_path: Path) -> None:
    path = definition(tmp_path, FILES, source=source(FILES, by_hand="ask its owner"))
    result = run("fetch", path, "--data-dir", tmp_path)
    assert result.exit_code == Exit.FAULT
    assert f"by hand  tiny                   ask its owner (into {tmp_path / 'corpus'})" in (
        result.output
    )


def test_unknown_suites_are_wrong_use(run: Run) -> None:
    result = run("check", "no-such-suite")
    assert result.exit_code == Exit.USAGE
    assert "known: blimp, blimp-clean" in result.output


@pytest.mark.parametrize(
    "mirror", ["nonsense", "file:///etc", "http://", "http://[::x", "http://user:pw@host/"]
)
def test_a_mirror_that_is_none_is_wrong_use(run: Run, tmp_path: Path, mirror: str) -> None:
    result = run("fetch", "jfleg-test", "--data-dir", tmp_path / "data", "--mirror", mirror)
    assert result.exit_code == Exit.USAGE
    assert "--mirror" in result.stderr
    assert not (tmp_path / "data").exists()


def test_nothing_is_fetched_where_one_definition_is_malformed(
    run: Run, tmp_path: Path, server: FileServer
) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("name: x\n")
    fine = definition(tmp_path, FILES)
    data = tmp_path / "data"
    result = run("fetch", fine, bad, "--data-dir", data, "--mirror", server.url)
    assert result.exit_code == Exit.USAGE
    assert not data.exists()


def test_check_goes_on_after_a_definition_that_lacks_its_checksums(
    run: Run, tmp_path: Path
) -> None:
    lacking = definition(tmp_path, FILES, source=source({}, files="c.sha256"))
    result = run("check", lacking, "synthetic-clean", "--json")
    assert result.exit_code == Exit.FAULT
    found = rows(result)
    assert found[str(lacking)]["state"] == "absent"
    assert found["synthetic-clean"]["state"] == "present"


def test_what_a_definition_holds_cannot_forge_lines(run: Run, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text('"a\\x1b[2J\\nb": 1\n')
    result = run("check", bad)
    assert result.exit_code == Exit.FAULT
    assert "\x1b" not in result.stdout
    assert len(result.stdout.splitlines()) == 1
