"""The suites that come with the product: their definitions, and the real data where it is there."""

from __future__ import annotations

import os
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from evals import catalog, m2, metrics, suite, suite_definition
from evals.converters.m2 import corrected
from evals.errors import SuiteUnavailable
from evals.suite import Suite, SuiteKind
from evals.suite_definition import Published
from pipelines import config

DEFINITIONS = {suite_definition.read(path).name: path for path in catalog.shipped()}
DATA_DIR = Path(os.environ.get("LIFTLOCK_DATA_DIR") or "absent")
EXAMPLES = {
    "blimp": 2000,
    "blimp-clean": 1340,
    "clams-de": 1940,
    "clams-en": 2000,
    "clams-fr": 2000,
    "clams-he": 1940,
    "clams-ru": 2000,
    "codespell": 1000,
    "codespell-clean": 1000,
    "estgec-clean": 332,
    "estgec-dev": 1692,
    "estgec-test": 2029,
    "falko-merlin-clean": 546,
    "falko-merlin-dev": 2503,
    "falko-merlin-test": 2337,
    "gnc": 278,
    "gnc-clean": 103,
    "iceec-clean": 2000,
    "iceec-test": 5264,
    "jfleg-clean": 32,
    "jfleg-dev": 754,
    "jfleg-test": 747,
    "synthetic-clean": 1700,
    "synthetic-erroneous": 2100,
    "turblimp": 2000,
    "ua-gec-clean": 1051,
    "ua-gec-test": 2696,
}


@cache
def load(name: str) -> Suite:
    """The suite over the real data; skips the test where that is absent, never where it changed."""
    entry = catalog.entry(DEFINITIONS[name], DATA_DIR)
    if entry.state == "absent":
        pytest.skip(f"set LIFTLOCK_DATA_DIR to a folder with the data: {entry.reasons[0]}")
    return suite.load(DEFINITIONS[name], data_dir=DATA_DIR)


def published(path: str) -> bytes:
    """A file of the data directory, as it was published."""
    try:
        return (DATA_DIR / path).read_bytes()
    except OSError:
        pytest.skip(f"set LIFTLOCK_DATA_DIR to a folder with {path}")


def test_every_suite_is_known_here() -> None:
    assert sorted(DEFINITIONS) == sorted(EXAMPLES)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_suite_has_the_examples_it_says(name: str) -> None:
    loaded = load(name)
    assert len(loaded.examples) == EXAMPLES[name]
    assert len({example.id for example in loaded.examples}) == EXAMPLES[name]
    for example in loaded.examples:
        assert example.source.strip() == example.source
        if loaded.kind is SuiteKind.CLEAN:
            assert {" ".join(text.split()) for text in example.references} == {
                " ".join(example.source.split())
            }


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_definition_is_complete(name: str) -> None:
    found = suite_definition.read(DEFINITIONS[name])
    assert found.license
    for metric in found.metrics:
        metrics.get(metric)
    if found.source is None:
        assert name.startswith("synthetic-")
        return
    assert found.examples == EXAMPLES[name]
    assert found.margin_points.keys() <= set(found.metrics)
    if isinstance(found.source, Published):
        assert found.source.notices


def test_digests_of_the_first_suites_never_changed() -> None:
    assert load("synthetic-clean").digest == (
        "sha256:1d2616908e1d2cbf044c1f8916b296af715bd48e6fa6006409fcb48d681d6819"
    )
    assert load("synthetic-erroneous").digest == (
        "sha256:4d956d33c202adbf543a406cc337bcaa8901e6dfbb326dd9d81e5d0918b6270b"
    )


def test_ua_gec_names_documents_in_lines_that_are_no_sentences() -> None:
    blocks = m2.parse(published("ua-gec/gec-only.test.m2"), "ua-gec")
    assert len(blocks) == 2862
    clean = [
        block
        for block in blocks
        if {corrected(block.tokens, edits) for edits in block.annotations.values()}
        == {" ".join(block.tokens)}
    ]
    assert len(clean) == 1217
    documents = {example.cluster for example in load("ua-gec-test").examples}
    assert len(documents) == 2862 - 2696 == 1217 - 1051 == 166


def test_jfleg_has_four_references_and_is_left_alone_by_some_as_published() -> None:
    loaded = load("jfleg-test")
    assert {len(example.references) for example in loaded.examples} == {4}
    some = [
        example
        for example in loaded.examples
        if example.source.split() in [reference.split() for reference in example.references]
    ]
    assert len(some) == 182


def test_estonian_edits_overlap_and_come_from_up_to_three_people() -> None:
    counts = Counter(len(example.edits) for example in load("estgec-test").examples)
    assert counts == {1: 1168, 2: 647, 3: 214}
    first = load("estgec-test").examples[1]
    assert first.references[0] == "Ma tahan sind kutsuda vanalinna jalutama ."
    assert first.references[1] == "Ma tahan sind kutsuda mööda vanalinna jalutama ."


def test_icelandic_clusters_are_documents() -> None:
    loaded = load("iceec-test")
    assert len({example.cluster for example in loaded.examples}) == 367
    assert {tag for example in loaded.examples for tag in example.tags} == {
        "coherence", "grammar", "orthography", "other", "style", "vocabulary",
    }  # fmt: skip


def test_blimp_sample_is_even_over_its_paradigms() -> None:
    loaded = load("blimp")
    counts = Counter(example.cluster for example in loaded.examples)
    assert len(counts) == 67
    assert set(counts.values()) == {29, 30}
    assert loaded.sample is not None
    assert loaded.sample.total == 67_000 - 7


def test_samples_are_the_ones_they_always_were() -> None:
    assert load("blimp").digest[:19] == "sha256:9ee62a36f414"
    assert load("clams-ru").digest[:19] == "sha256:ae40b0c9d710"
    assert load("turblimp").digest[:19] == "sha256:e21f90e9a105"
    assert load("codespell").digest[:19] == "sha256:a0e39681f432"


def test_hebrew_is_text_from_right_to_left() -> None:
    example = load("clams-he").examples[0]
    assert "\u05d0" <= example.source[0] <= "\u05ea"


def test_suite_without_data_is_unavailable(tmp_path: Path) -> None:
    for name in ("jfleg-test", "iceec-test", "blimp", "clams-he"):
        with pytest.raises(SuiteUnavailable, match=f"suite {name} is unavailable"):
            suite.load(DEFINITIONS[name], data_dir=tmp_path)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_suite_is_found_by_name_in_the_settings(name: str) -> None:
    assert config.suite_path(name, relative_to=None) == DEFINITIONS[name]


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_documentation_lists_the_suite_as_it_is(name: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "suites.md").read_text(encoding="utf-8")
    found = suite_definition.read(DEFINITIONS[name])
    row = f"| `{name}` | {found.language} | {found.kind} | {EXAMPLES[name]:,} | {found.license}"
    assert row in page
