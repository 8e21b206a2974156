"""ERRANT: comparison of typed edits, the extra's absence, and the real library where installed."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from evals import errors, m2, metrics
from evals.metrics import errant_english, maxmatch
from evals.metrics.maxmatch import Counts
from tests.evals.metrics import build
from tests.evals.metrics.build import edit

installed = pytest.mark.skipif(
    importlib.util.find_spec("errant") is None, reason="the extra `errant` is not installed"
)


def test_counts_by_type_go_to_the_gold_type_when_right() -> None:
    gold = (
        edit(1, 2, "goes", kind="R:VERB:SVA"),
        edit(3, 3, "the", kind="M:DET"),
        edit(5, 6, "x", kind="UNK"),
    )
    proposed = (
        edit(1, 2, "goes", kind="R:VERB:FORM"),
        edit(3, 3, "a", kind="M:DET"),
        edit(5, 6, "x", kind="R:NOUN"),
    )
    assert errant_english.compare(proposed, gold) == {
        "R:VERB:SVA": Counts(correct=1, proposed=1, gold=1),
        "M:DET": Counts(correct=0, proposed=1, gold=1),
        "R:NOUN": Counts(correct=0, proposed=1, gold=0),
    }


def test_a_gold_edit_is_found_once() -> None:
    gold = (edit(1, 1, "x"),)
    (found,) = errant_english.compare((edit(1, 1, "x"), edit(1, 1, "x")), gold).values()
    assert found == Counts(correct=1, proposed=2, gold=1)


def test_any_alternative_of_a_gold_edit_is_right() -> None:
    (found,) = errant_english.compare((edit(0, 1, "y"),), (edit(0, 1, "x", "y"),)).values()
    assert found.correct == 1


def test_absence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "errant", None)
    errant_english._annotator.cache_clear()
    with pytest.raises(errors.EvaluationFailed, match=r"requirements/errant-model\.txt"):
        metrics.get("errant_f0.5").statistics(build.example("He go", "He goes"), "He went")


@installed
def test_types_of_real_edits() -> None:
    found = errant_english.edits("He go to school yesterday .", "He went to the school yesterday .")
    assert found == (
        edit(1, 2, "went", kind="R:VERB:TENSE"),
        edit(3, 3, "the", kind="M:DET"),
    )
    assert errant_english.edits("He goes .", "He  goes .") == ()


@installed
def test_statistics_from_references_and_from_gold_edits() -> None:
    errant = metrics.get("errant_f0.5")
    by_reference = build.example("He go home .", "He goes home .", "He went home .")
    assert errant.statistics(by_reference, "He went home .") == (1.0, 1.0, 1.0)
    assert errant.statistics(by_reference, "He go home .") == (0.0, 0.0, 1.0)
    by_edits = build.example("He go home .", edits=((edit(1, 2, "went"),), ()))
    assert errant.statistics(by_edits, "He went home .") == (1.0, 1.0, 1.0)
    assert errant.statistics(by_edits, "He go home .") == (0.0, 0.0, 0.0)
    (types,) = errant_english.by_type(build.example("a cats", "cats"), "cats")
    assert types == {"U:DET": Counts(correct=1, proposed=1, gold=1)}


@installed
def test_an_example_without_gold_is_refused() -> None:
    with pytest.raises(errors.SuiteInvalid, match="'e1' has neither gold edits nor references"):
        metrics.get("errant_f0.5").statistics(build.example("a"), "a")


@installed
@pytest.mark.slow
def test_published_score_of_a_system_on_bea_dev() -> None:
    root = "pillars-of-gec/data"
    gold = m2.read(build.data_file(f"{root}/evaluation_sets/bea-dev.m2"))
    outputs = build.lines(f"{root}/system_preds/single_systems/CTC-Copy___bea-dev.txt")
    found = maxmatch.NOTHING
    for sentence, output in zip(gold, outputs, strict=True):
        proposed = errant_english.edits(" ".join(sentence.tokens), output)
        for counts in errant_english.compare(proposed, sentence.annotations[0]).values():
            found += counts
    assert 100 * found.f == pytest.approx(52.7, abs=0.1)
