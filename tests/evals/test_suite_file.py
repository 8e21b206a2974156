"""Suites made of published files: exactly what was reviewed, or an error."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from evals import suite
from evals.errors import SuiteInvalid, SuiteUnavailable
from evals.suite import Clustering, Example, MarginHint, SuiteKind
from tests.evals.build_published import COMMIT, definition, lay, sha256, source

FILES = {"a.src": b"x\nfine\n", "a.ref": b"X\nfine\n"}
PAIRS = {"p.jsonl": b"".join(b'{"g": "a%d", "b": "b"}\n' % i for i in range(20))}
FIELDS = {"source": "g", "contrast": "b", "cluster_by_file": True}


def load(tmp_path: Path, files: dict[str, bytes] = FILES, **changes: Any) -> suite.Suite:
    lay(tmp_path / "data", files)
    return suite.load(definition(tmp_path, files, **changes), data_dir=tmp_path / "data")


def pairs(tmp_path: Path, **changes: Any) -> suite.Suite:
    return load(
        tmp_path,
        PAIRS,
        **{
            "kind": "minimal-pairs",
            "converter": {"name": "jsonl", "files": "*.jsonl", "fields": FIELDS},
            "examples": 20,
            "cluster": "paradigm",
            **changes,
        },
    )


def test_published_files_become_examples_with_their_source(tmp_path: Path) -> None:
    loaded = load(tmp_path, margin_points={"gleu": 1.5}, metrics=["gleu", "exact"])
    assert loaded.examples[0] == Example(id="a:1", source="x", references=("X",))
    assert loaded.metrics == ("gleu", "exact")
    assert loaded.margins == (MarginHint(metric="gleu", points=1.5),)
    assert loaded.source is not None
    assert loaded.source.address == f"https://github.com/owner/corpus/tree/{COMMIT}"
    assert loaded.source.license == "CC-BY-4.0"
    lines = sorted(f"{sha256(data)}  {path}\n" for path, data in FILES.items())
    assert loaded.source.sha256 == sha256("".join(lines).encode())


def test_clean_suites_keep_what_every_annotator_left_alone(tmp_path: Path) -> None:
    loaded = load(tmp_path, kind="clean", keep="left-alone", examples=1)
    assert [example.source for example in loaded.examples] == ["fine"]
    assert loaded.metrics == ("false_positive",)


def test_samples_say_what_they_are_of(tmp_path: Path) -> None:
    loaded = pairs(tmp_path, sample={"size": 5, "strata": "cluster"}, examples=5)
    assert loaded.sample is not None
    assert (loaded.sample.kept, loaded.sample.total) == (5, 20)
    assert loaded.cluster is Clustering.PARADIGM
    assert loaded.kind is SuiteKind.MINIMAL_PAIRS


def test_digest_follows_examples_sample_metrics_and_clusters(tmp_path: Path) -> None:
    loaded = pairs(tmp_path, sample={"size": 5, "strata": "cluster"}, examples=5)
    assert loaded.sample is not None
    for change in (
        {"metrics": ("exact",)},
        {"cluster": None},
        {"sample": None},
        {"sample": dataclasses.replace(loaded.sample, sha256="0" * 64)},
        {"data_sha256": "0" * 64},
    ):
        assert dataclasses.replace(loaded, **change).digest != loaded.digest
    assert dataclasses.replace(loaded, margins=(), source=None).digest == loaded.digest
    assert pairs(tmp_path).data_sha256 != loaded.data_sha256


def test_absent_data_names_file_and_command(tmp_path: Path) -> None:
    path = definition(tmp_path, FILES)
    with pytest.raises(SuiteUnavailable, match=r"tiny is unavailable \(absent\): .*"
                       r"corpus/a\.src does not exist.*liftlock suites fetch"):  # fmt: skip
        suite.load(path, data_dir=tmp_path)


def test_a_file_name_no_disk_can_hold_is_absent_data(tmp_path: Path) -> None:
    files = {"a" * 300: b"x\n", **FILES}
    lay(tmp_path, FILES)
    with pytest.raises(SuiteUnavailable, match=r"absent.*File name too long"):
        suite.load(definition(tmp_path, files), data_dir=tmp_path)


def test_without_a_data_directory_the_reason_is_told(tmp_path: Path) -> None:
    with pytest.raises(SuiteUnavailable, match="set LIFTLOCK_DATA_DIR or give --data-dir"):
        suite.load(definition(tmp_path, FILES))


def test_changed_bytes_name_expected_and_found_checksum(tmp_path: Path) -> None:
    lay(tmp_path, FILES | {"a.ref": b"Y\nfine\n"})
    expected, found = sha256(FILES["a.ref"]), sha256(b"Y\nfine\n")
    with pytest.raises(
        SuiteUnavailable, match=f"a.ref was changed: expected sha256 {expected}, found {found}"
    ):
        suite.load(definition(tmp_path, FILES), data_dir=tmp_path)


def test_data_to_be_fetched_by_hand_says_how(tmp_path: Path) -> None:
    path = definition(tmp_path, FILES, source=source(FILES, by_hand="sign the agreement at x.org"))
    with pytest.raises(SuiteUnavailable, match=r"fetch it by hand: sign the agreement at x.org"):
        suite.load(path, data_dir=tmp_path)


def test_file_too_large_to_read_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evals.textfile.FILE_LIMIT_BYTES", 5)
    with pytest.raises(SuiteUnavailable, match=r"a\.src holds more than 5 bytes"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"examples": 3}, "examples says 3, the data gives 2"),
        ({"cluster": "document"}, "'a:1': it belongs to no document"),
        ({"kind": "minimal-pairs"}, "'a:1': contrast: a minimal pair needs a second sentence"),
        ({"metrics": ["bleu5"]}, "there is no metric 'bleu5'"),
        ({"margin_points": {"bleu5": 1}}, "there is no metric 'bleu5'"),
    ],
)
def test_definition_that_does_not_fit_its_data_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(SuiteInvalid, match=message):
        load(tmp_path, **changes)


def test_pairs_are_no_corrections(tmp_path: Path) -> None:
    with pytest.raises(SuiteInvalid, match="only minimal pairs have one, this is a correction"):
        pairs(tmp_path, kind="correction")


@pytest.mark.parametrize("bad", [b"a", b" a "])
def test_a_pair_of_one_sentence_tells_nothing(tmp_path: Path, bad: bytes) -> None:
    files = {"p.txt": b"True\ta\nFalse\t" + bad + b"\n"}
    converter = {"name": "labeled", "files": "*.txt"}
    with pytest.raises(SuiteInvalid, match="both sentences of the pair are the same"):
        load(tmp_path, files, kind="minimal-pairs", converter=converter, examples=1)


def test_a_clean_sentence_is_its_own_reference(tmp_path: Path) -> None:
    with pytest.raises(SuiteInvalid, match="'a:1': references: none is the source itself"):
        load(tmp_path, kind="clean")


def test_ids_must_be_unique(tmp_path: Path) -> None:
    fields = FIELDS | {"id": ["b"]}
    with pytest.raises(SuiteInvalid, match="two examples have the id 'b'"):
        pairs(tmp_path, converter={"name": "jsonl", "files": "*.jsonl", "fields": fields})


def test_what_json_can_hide_is_not_text(tmp_path: Path) -> None:
    for hidden in (b"\\ud800", b"\\u0000"):
        files = {"p.jsonl": b'{"g": "a%s", "b": "b"}\n' % hidden}
        with pytest.raises(SuiteInvalid, match=r"half a character|holds U\+0000 at position"):
            load(
                tmp_path,
                files,
                kind="minimal-pairs",
                converter={"name": "jsonl", "files": "*.jsonl", "fields": FIELDS},
            )


def test_package_that_is_not_installed_says_what_to_install(tmp_path: Path) -> None:
    package = {
        "package": "no-such-thing",
        "version": "1.0",
        "module": "no_such_thing",
        "files": [{"path": "a.src", "sha256": "0" * 64}],
    }
    with pytest.raises(SuiteUnavailable, match=r"run `pip install no-such-thing==1\.0`"):
        load(tmp_path, source=package)


def test_package_with_other_bytes_says_what_to_install(tmp_path: Path) -> None:
    package = {
        "package": "pyyaml",
        "version": "0.1",
        "module": "yaml",
        "files": [{"path": "__init__.py", "sha256": "0" * 64}],
    }
    with pytest.raises(SuiteUnavailable, match=r"was changed: .* run `pip install pyyaml==0\.1`"):
        load(tmp_path, source=package)
