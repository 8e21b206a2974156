"""Definitions of suites: everything in them is checked before any data is read."""

from pathlib import Path
from typing import Any

import pytest

from evals import suite_definition
from evals.errors import SuiteInvalid, SuiteUnavailable
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
    with pytest.raises(SuiteUnavailable, match=r"c\.sha256: No such file"):
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
        ({"margin_points": {"gleu": 0}}, "margin_points.gleu: Input should be greater than 0"),
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
        (b"\xff", "is not YAML text"),
        (b"[" * 5_000, "nested too deeply|is not YAML text"),
        (b"- 1", "document: Input should be a valid dictionary"),
        (b"", "document: Input should be a valid dictionary"),
        (b"x" * 1_000_001, "has 1,000,001 bytes"),
        (b"a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "alias .a is not accepted"),
    ],
)
def test_what_is_no_definition_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(content)
    with pytest.raises(SuiteInvalid, match=message):
        suite_definition.read(path)
