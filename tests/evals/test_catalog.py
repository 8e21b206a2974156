"""What is known of a suite without running it."""

from pathlib import Path

from evals import catalog, suite
from evals.suite_data import State
from tests.evals.build_published import COMMIT, definition, lay, source

FILES = {"a.src": b"x\ny\n", "a.ref": b"X\ny\n"}


def test_present_absent_and_changed_data_are_told_apart(tmp_path: Path) -> None:
    path = definition(tmp_path, FILES, source=source(FILES, terms="share alike"))
    absent = catalog.entry(path, tmp_path)
    assert (absent.state, absent.examples) == (State.ABSENT, 2)
    lay(tmp_path, FILES)
    present = catalog.entry(path, tmp_path)
    assert (present.state, present.reasons) == (State.PRESENT, ())
    assert present.address == f"https://github.com/owner/corpus/tree/{COMMIT}"
    assert present.terms == "share alike"
    lay(tmp_path, {"a.ref": b"other"})
    (tmp_path / "corpus" / "a.src").unlink()
    changed = catalog.entry(path, tmp_path)
    assert changed.state is State.CHANGED
    assert "a.ref was changed" in changed.reasons[0]
    assert "a.src" in changed.reasons[1]


def test_many_faults_are_summed_up(tmp_path: Path) -> None:
    files = {f"f{i}": b"x" for i in range(9)}
    entry = catalog.entry(definition(tmp_path, files), tmp_path)
    assert len(entry.reasons) == 4
    assert entry.reasons[-1] == "and 6 more files"


def test_data_beside_the_definition_is_looked_at_too(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        "{name: s, language: en, kind: clean, data: s.jsonl, sha256: '" + "0" * 64 + "', "
        "license: MIT, description: d}"
    )
    assert catalog.entry(path, tmp_path).state is State.ABSENT
    (tmp_path / "s.jsonl").write_text("")
    assert catalog.entry(path, tmp_path).state is State.CHANGED


def test_facts_of_a_suite_hold_count_and_digest(tmp_path: Path) -> None:
    lay(tmp_path, FILES)
    loaded = suite.load(definition(tmp_path, FILES), data_dir=tmp_path)
    assert list(catalog.facts(loaded)) == ["2 examples", loaded.digest[:19]]
