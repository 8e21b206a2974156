"""From answers to outcomes."""

from __future__ import annotations

import dataclasses

import pytest

from evals import scoring
from evals.errors import EvaluationFailed, SuiteInvalid
from evals.model import Answer, Ask
from evals.suite import Example, SuiteKind
from tests.evals import build, build_pairs

GOOD = Answer(finish_reason="stop", text="ignored", prompt_tokens=1)
PAIRS = build_pairs.pairs([("good", "bad")])


def likely(logprob: float | None) -> Answer:
    return Answer(finish_reason="stop", logprob=logprob)


@pytest.mark.parametrize("kind", list(SuiteKind))
def test_only_pairs_ask_for_probabilities_and_for_two(kind: SuiteKind) -> None:
    is_pair = kind is SuiteKind.MINIMAL_PAIRS
    assert (scoring.ask_of(kind) is Ask.LIKELIHOOD) == is_pair
    assert scoring.parts_of(kind) == (2 if is_pair else 1)


def test_acceptable_sentences_should_be_left_alone_and_the_others_should_not() -> None:
    suite = dataclasses.replace(
        build.suite([], kind=SuiteKind.ACCEPTABILITY), metrics=("change_rate",)
    )
    fine = Example(id="a", source="It is.", references=("It is.",))
    wrong = Example(id="b", source="It be.", references=())
    scores = [
        scoring.written(suite, example, GOOD, output).score
        for example, output in (
            (fine, "It is."), (fine, "It was."), (wrong, "It be."), (wrong, "It is."),
        )
    ]  # fmt: skip
    assert scores == [1.0, 0.0, 0.0, 1.0]


def test_an_example_that_a_metric_cannot_use_is_named_with_its_suite() -> None:
    suite = dataclasses.replace(build.suite([()]), metrics=("maxmatch_f0.5",))
    with pytest.raises(SuiteInvalid, match=r"suite errors: example 'e0' has no gold edits"):
        scoring.written(suite, suite.examples[0], GOOD, "x")


def test_a_probability_that_is_no_number_judges_nobody() -> None:
    with pytest.raises(EvaluationFailed, match="suite pairs: comparing the pair 'p0'"):
        scoring.compared(PAIRS, PAIRS.examples[0], (likely(float("nan")), likely(-1.0)))


def test_an_answer_without_a_probability_is_missing() -> None:
    outcome = scoring.compared(PAIRS, PAIRS.examples[0], (likely(-1.0), likely(None)))
    assert (outcome.score, outcome.finish_reason) == (None, "error")


def test_the_more_probable_sentence_is_the_output() -> None:
    right = scoring.compared(PAIRS, PAIRS.examples[0], (likely(-1.0), likely(-2.0)))
    wrong = scoring.compared(PAIRS, PAIRS.examples[0], (likely(-2.0), likely(-1.0)))
    assert (right.output, right.score) == ("good", 1.0)
    assert (wrong.output, wrong.score) == ("bad", 0.0)
