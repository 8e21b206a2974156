"""A suite is exactly what was reviewed, or an error that says what is wrong where."""

import dataclasses
import hashlib
import json
from pathlib import Path

import pytest

from evals import suite
from evals.errors import SuiteInvalid, SuiteUnavailable
from evals.suite import Example, Grouping, SuiteKind

SYNTHETIC = Path("evals/suites/synthetic")
LINE = {"id": "1", "source": "She go.", "references": ["She goes."], "tags": ["agreement"]}


def write(folder: Path, lines: list[str], **changes: str | None) -> Path:
    data = "".join(f"{line}\n" for line in lines).encode()
    (folder / "data.jsonl").write_bytes(data)
    definition: dict[str, str | None] = {
        "name": "small",
        "language": "en",
        "kind": "correction",
        "data": "data.jsonl",
        "sha256": hashlib.sha256(data).hexdigest(),
        "license": "Apache-2.0",
        "description": "two sentences",
        "group_by": "tags",
        **changes,
    }
    path = folder / "small.yaml"
    kept = {key: value for key, value in definition.items() if value is not None}
    path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in kept.items()))
    return path


def test_loads_examples_in_file_order(tmp_path: Path) -> None:
    second = {"id": "2", "source": "ok", "references": ["ok", "OK"]}
    loaded = suite.load(write(tmp_path, [json.dumps(LINE), "", json.dumps(second)]))
    assert loaded.kind is SuiteKind.CORRECTION
    assert loaded.group_by is Grouping.TAGS
    assert loaded.examples == (
        Example(id="1", source="She go.", references=("She goes.",), tags=("agreement",)),
        Example(id="2", source="ok", references=("ok", "OK"), tags=()),
    )


def test_tags_are_listed_only_when_grouped_by_them(tmp_path: Path) -> None:
    path = write(tmp_path, [json.dumps(LINE)])
    assert suite.load(path).tags == ("agreement",)
    path = write(tmp_path, [json.dumps(LINE)], group_by=None)
    assert suite.load(path).tags == ()


def test_changed_bytes_name_expected_and_found_checksum(tmp_path: Path) -> None:
    path = write(tmp_path, [json.dumps(LINE)], sha256="0" * 64)
    found = hashlib.sha256((tmp_path / "data.jsonl").read_bytes()).hexdigest()
    with pytest.raises(SuiteUnavailable, match=f"expected sha256 {'0' * 64}, found {found}"):
        suite.load(path)


def test_absent_data_is_unavailable_not_empty(tmp_path: Path) -> None:
    path = write(tmp_path, [json.dumps(LINE)])
    (tmp_path / "data.jsonl").unlink()
    with pytest.raises(SuiteUnavailable, match=r"data\.jsonl does not exist"):
        suite.load(path)


def test_absent_definition_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(SuiteUnavailable, match=r"none\.yaml"):
        suite.load(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"colour": "red"}, "colour: Extra inputs"),
        ({"kind": "fluency"}, "kind: Input should be 'correction', 'clean'"),
        ({"license": None}, "license: Field required"),
        ({"name": "a/b"}, "name: String should match"),
        ({"sha256": "abc"}, "sha256: String should match"),
    ],
)
def test_malformed_definition_names_the_key(
    tmp_path: Path, changes: dict[str, str | None], message: str
) -> None:
    with pytest.raises(SuiteInvalid, match=message):
        suite.load(write(tmp_path, [json.dumps(LINE)], **changes))


def test_definition_that_is_not_yaml_is_invalid(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("name: [")
    with pytest.raises(SuiteInvalid, match="not YAML"):
        suite.load(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", ":2: not a JSON object"),
        (json.dumps({**LINE, "id": "2", "note": "x"}), ":2: note: Extra inputs"),
        (json.dumps({**LINE, "id": "2", "references": []}), ":2: references: "),
        (json.dumps({**LINE, "id": "2", "source": ""}), ":2: source: "),
        (json.dumps({**LINE, "id": 2}), ":2: id: Input should be a valid string"),
        (json.dumps(LINE), ":2: id '1' was used on line 1"),
        ('{"id": "2", "id": "3", "source": "a", "references": ["b"]}', ":2: .*key 'id' is given"),
        (json.dumps({**LINE, "id": " "}), ":2: id: it is blank"),
        (json.dumps({**LINE, "id": "2\n3"}), ":2: id: it must be one line"),
        (json.dumps({**LINE, "id": "2", "source": " "}), ":2: its source is empty"),
        (json.dumps({**LINE, "id": "2", "tags": ["a\u202eb"]}), ":2: tags: it must be one line"),
        (json.dumps({**LINE, "id": "2", "tags": ["\x1b[2J"]}), ":2: tags: it must be one line"),
        (json.dumps({**LINE, "id": "2", "tags": ["x" * 101]}), ":2: tags: it has 101 characters"),
        (json.dumps({**LINE, "id": "2", "references": ["x"] * 101}), ":2: it has 101 references"),
        (json.dumps({**LINE, "id": "2", "source": "\ufeffa"}), r":2: holds U\+FEFF"),
    ],
)
def test_malformed_line_is_named_by_number(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(SuiteInvalid, match=message):
        suite.load(write(tmp_path, [json.dumps(LINE), line]))


def test_suite_without_examples_is_invalid(tmp_path: Path) -> None:
    with pytest.raises(SuiteInvalid, match="no example"):
        suite.load(write(tmp_path, []))


def test_digest_follows_what_can_change_a_decision_and_nothing_else(tmp_path: Path) -> None:
    loaded = suite.load(write(tmp_path, [json.dumps(LINE)]))
    reworded = dataclasses.replace(loaded, description="other words", license="MIT")
    assert reworded.digest == loaded.digest
    for change in (
        {"name": "other"},
        {"language": "de"},
        {"kind": SuiteKind.CLEAN},
        {"group_by": None},
        {"data_sha256": "1" * 64},
    ):
        assert dataclasses.replace(loaded, **change).digest != loaded.digest


@pytest.mark.parametrize("name", ["erroneous", "clean"])
def test_the_committed_suites_load(name: str) -> None:
    loaded = suite.load(SYNTHETIC / f"{name}.yaml")
    assert len(loaded.examples) >= 1400
    assert loaded.license == "Apache-2.0"
