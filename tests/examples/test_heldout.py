import collections
import hashlib
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from examples.tiny_gec import examples, heldout
from examples.tiny_gec.heldout import Suite
from examples.tiny_gec.tokens import Label

COMMITTED = Path(__file__).parents[2] / heldout.DEFAULT_OUT
ERRONEOUS, CLEAN = heldout.suites()


def _records(suite: Suite) -> list[dict[str, Any]]:
    lines = (COMMITTED / f"{suite.name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("suite", [ERRONEOUS, CLEAN], ids=lambda suite: suite.name)
def test_committed_data_is_what_the_generator_writes(suite: Suite) -> None:
    with (COMMITTED / f"{suite.name}.jsonl").open(encoding="utf-8", newline="") as committed:
        assert list(itertools.islice(committed, 300)) == list(itertools.islice(suite.lines(), 300))


@pytest.mark.parametrize("suite", [ERRONEOUS, CLEAN], ids=lambda suite: suite.name)
def test_the_definition_carries_the_checksum_of_the_data(suite: Suite) -> None:
    text = (COMMITTED / f"{suite.name}.yaml").read_text(encoding="utf-8")
    sha256 = hashlib.sha256((COMMITTED / f"{suite.name}.jsonl").read_bytes()).hexdigest()
    assert yaml.safe_load(text)["sha256"] == sha256
    assert text == suite.definition(sha256)


@pytest.mark.parametrize("suite", [ERRONEOUS, CLEAN], ids=lambda suite: suite.name)
def test_sources_and_ids_are_distinct_and_targets_held_out(suite: Suite) -> None:
    records = _records(suite)
    assert len({str(record["source"]) for record in records}) == len(records)
    assert len({str(record["id"]) for record in records}) == len(records)
    for record in records:
        (reference,) = record["references"]
        assert examples.is_held_out(reference)


def test_each_kind_of_error_has_enough_examples_for_its_own_gate() -> None:
    tags: collections.Counter[str] = collections.Counter()
    for record in _records(ERRONEOUS):
        tags.update(record["tags"])
    assert set(tags) == {str(label) for label in Label}
    assert min(tags.values()) >= 400


def test_spelling_is_never_combined_with_another_kind() -> None:
    combined = [record for record in _records(ERRONEOUS) if len(record["tags"]) > 1]
    assert combined
    assert not any("spelling" in record["tags"] for record in combined)


def test_clean_sentences_are_their_own_reference() -> None:
    records = _records(CLEAN)
    assert len(records) >= 1_600
    assert all(r["references"] == [r["source"]] and r["tags"] == [] for r in records)
