"""Definitions of suites: everything in them is checked before any data is read."""

import os
from pathlib import Path
from typing import Any

import pytest

from evals import fetching, suite, suite_definition
from evals.errors import FetchFailed, SuiteInvalid, SuiteUnavailable
from evals.suite_data import listed
from tests.evals.build_published import definition, sha256, source

FILES = {"a.src": b"x\ny\n", "a.ref": b"X\ny\n"}


def test_published_files_are_read_as_they_are_written(tmp_path: Path) -> None:
    found = suite_definition.read(definition(tmp_path, FILES))
    assert found.source is not None
    assert [file.path for file in listed(found.source)] == ["a.src", "a.ref"]


def test_checksums_can_lie_in_a_file_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "c.sha256").write_text(f"{sha256(b'x')}  dir/a b.txt\n")
    path = definition(tmp_path, FILES, source=source(FILES) | {"files": "c.sha256"})
    found = suite_definition.read(path)
    assert found.source is not None
    (file,) = listed(found.source)
    assert (file.path, file.sha256) == ("dir/a b.txt", sha256(b"x"))


@pytest.mark.parametrize("line", ["abc  a.txt", f"{'0' * 64} a.txt", f"{'0' * 64}  ../a.txt"])
def test_broken_checksums_are_named_by_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "c.sha256").write_text(f"{'0' * 64}  fine\n{line}\n")
    path = definition(tmp_path, FILES, source=source(FILES) | {"files": "c.sha256"})
    with pytest.raises(SuiteInvalid, match=r"c\.sha256:2: "):
        suite_definition.read(path)


def test_absent_checksums_are_unavailable(tmp_path: Path) -> None:
    path = definition(tmp_path, FILES, source=source(FILES) | {"files": "c.sha256"})
    with pytest.raises(SuiteUnavailable, match=r"c\.sha256 does not exist"):
        suite_definition.read(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"examples": None}, "examples: Field required with source, converter, examples"),
        ({"converter": None}, "converter: Field required"),
        ({"data": "x.jsonl"}, "data: not together with source"),
        ({"source": None}, "data: Field required with data, sha256"),
        ({"converter": {"name": "odd"}}, "converter: Input tag 'odd' found using 'name' does not"),
        ({"converter": {"name": "parallel", "source": "a.src"}}, "references: Field required"),
        ({"keep": "some"}, "keep: Input should be 'left-alone'"),
        (
            {"margin_points": {"gleu": 0}},
            "margin_points.gleu: Input should be greater than .*found 0",
        ),
        ({"margin_points": {"gleu": True}}, "margin_points.gleu: Input should be a valid number"),
        ({"margin_points": {"gleu": "2"}}, "margin_points.gleu: .*found '2'"),
        ({"margin_points": {"gleu": 1e-9}}, "margin_points.gleu: Input should be greater"),
        ({"metrics": ["exact", "exact"]}, "metrics: .*each metric once"),
        ({"language": False}, "language: Input should be a valid string, found False"),
        ({"language": "e\u202en"}, "language: .*must be one line of text"),
        ({"license": " "}, "license: .*must not be blank"),
        ({"description": "a\x1b[2Jb"}, "description: .*must be text"),
        ({"source": source(FILES) | {"folder": "a\0b"}}, "source.folder: .*one line of text"),
        ({"source": source({})}, "source.files: Tuple should have at least 1 item"),
        ({"source": source(FILES) | {"files": 7}}, "source.files: Input should be a valid"),
        ({"kind": "acceptability"}, "metrics: Field required for a suite of this kind"),
        ({"sample": {"size": 0, "strata": "cluster"}}, "sample.size: Input should be greater"),
        ({"source": source(FILES) | {"commit": "main"}}, "commit: String should match"),
        ({"source": source(FILES) | {"repository": "http://x/y"}}, "repository: String should"),
        ({"source": source(FILES) | {"folder": "/etc"}}, "must be a path below the folder"),
        ({"source": source(FILES) | {"folder": "a/../.."}}, "must be a path below the folder"),
    ],
)
def test_faults_are_named_by_key(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SuiteInvalid, match=message):
        suite_definition.read(definition(tmp_path, FILES, **changes))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff", "is not UTF-8 text"),
        (b"[" * 5_000, "nested too deeply|is not YAML text"),
        (b"- 1", "document: Input should be an object"),
        (b"", "document: Input should be an object"),
        (b"x" * 65_537, "holds more than 64.0 KiB"),
        (b"a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "alias .a is not accepted"),
    ],
)
def test_what_is_no_definition_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(content)
    with pytest.raises(SuiteInvalid, match=message):
        suite_definition.read(path)


@pytest.mark.parametrize("module", ["antigravity.x", "..x", "a b", "__main__", "a\0b", ""])
def test_a_module_is_one_name_so_that_none_is_run(tmp_path: Path, module: str) -> None:
    packaged = {"package": "p", "version": "1", "module": module, "files": source(FILES)["files"]}
    with pytest.raises(SuiteInvalid, match=r"source.module: String should match"):
        suite_definition.read(definition(tmp_path, FILES, source=packaged))


def test_a_file_listed_twice_is_refused_wherever_it_is_listed(tmp_path: Path) -> None:
    files = source(FILES)["files"]
    with pytest.raises(SuiteInvalid, match=r"source.files: .*file 'a.src' is listed twice"):
        suite_definition.read(
            definition(tmp_path, FILES, source=source({}, files=[*files, *map(dict, files)]))
        )
    (tmp_path / "c.sha256").write_text(f"{'0' * 64}  a.src\n" * 2)
    with pytest.raises(SuiteInvalid, match=r"c\.sha256: file 'a.src' is listed twice"):
        suite_definition.read(definition(tmp_path, FILES, source=source({}, files="c.sha256")))


def test_a_file_of_checksums_must_name_some(tmp_path: Path) -> None:
    (tmp_path / "c.sha256").write_text("")
    with pytest.raises(SuiteInvalid, match=r"c\.sha256 names no file"):
        suite_definition.read(definition(tmp_path, FILES, source=source({}, files="c.sha256")))


def test_of_many_faults_some_are_told(tmp_path: Path) -> None:
    path = definition(tmp_path, FILES, **{f"odd{n}": n for n in range(100)})
    with pytest.raises(SuiteInvalid, match=r"odd0: .*; and 95 more faults$"):
        suite_definition.read(path)


@pytest.mark.parametrize("kind", ["pipe", "endless"])
def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    odd, data = tmp_path / "odd.yaml", tmp_path / "data" / "corpus"
    data.mkdir(parents=True)
    for path in (odd, data / "a.src", data / "a.ref"):
        os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    with pytest.raises(SuiteInvalid, match=r"odd\.yaml is not a regular file"):
        suite_definition.read(odd)
    published = definition(tmp_path, FILES)
    with pytest.raises(SuiteUnavailable, match=r"a\.src is not a regular file"):
        suite.load(published, data_dir=tmp_path / "data")
    with pytest.raises(FetchFailed, match=r"a\.src is not a regular file"):
        fetching.plan(suite_definition.read(published), tmp_path / "data")
