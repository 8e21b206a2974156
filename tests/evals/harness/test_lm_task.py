"""Suites through the real lm-eval; the model is a stub."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evals.errors import EvaluationFailed
from evals.harness import Evaluator
from evals.journal import Journal, Owner
from evals.model import TOO_LONG, Ask
from evals.progress import Place, Progress
from evals.results import Evaluated
from evals.suite import Suite, SuiteKind
from tests.evals import build, build_pairs
from tests.evals.models import PROMPT, StubModel

# lm-eval and its libraries warn about their own future while being imported.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

PAIRS = build_pairs.pairs([("a cat", "a cat sits"), ("long one", "short"), ("same", "size")])


def evaluator(model: StubModel) -> Evaluator:
    return Evaluator(
        model=model,
        prompt=PROMPT,
        checkpoint_digest=build.CANDIDATE,
        runtime_digest=build.RUNTIME,
    )


@contextmanager
def journal(folder: Path, of: Suite) -> Iterator[Journal]:
    owner = Owner(
        suite_digest=of.digest, checkpoint_digest=build.CANDIDATE, runtime_digest=build.RUNTIME
    )
    with Journal(folder / f"answers-{of.name}.jsonl", owner) as opened:
        yield opened


def evaluate(model: StubModel, of: Suite, folder: Path, told: list[str] | None = None) -> Evaluated:
    progress = Progress(Place(name=of.name, number=1, of=1), (told or []).append)
    with journal(folder, of) as opened:
        return evaluator(model).evaluate(of, opened, progress)


def small(kind: SuiteKind, **changes: object) -> Suite:
    made = build.suite([()] * 12, kind=kind, name=f"small-{kind}")
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def test_all_prompts_go_to_the_model_at_once_rendered_by_the_manifest(tmp_path: Path) -> None:
    model, chosen = StubModel(), small(SuiteKind.CORRECTION)
    evaluate(model, chosen, tmp_path)
    assert model.calls == [(Ask.TEXT, [PROMPT.render(one.source) for one in chosen.examples])]


def test_a_source_copy_fixes_nothing_and_leaves_clean_text_alone(tmp_path: Path) -> None:
    assert evaluate(StubModel(), small(SuiteKind.CORRECTION), tmp_path).outcomes.rate == 0.0
    assert evaluate(StubModel(), small(SuiteKind.SPELLING), tmp_path).outcomes.rate == 0.0
    assert evaluate(StubModel(), small(SuiteKind.CLEAN), tmp_path).outcomes.rate == 1.0


def test_outcomes_are_in_suite_order_parsed_and_bound_to_their_digests(tmp_path: Path) -> None:
    chosen = small(SuiteKind.CLEAN)
    evaluated = evaluate(StubModel(), chosen, tmp_path)
    outcomes = evaluated.outcomes
    assert [one.example_id for one in outcomes.outcomes] == [one.id for one in chosen.examples]
    assert [one.output for one in outcomes.outcomes] == [one.source for one in chosen.examples]
    assert outcomes.suite_digest == chosen.digest
    assert outcomes.checkpoint_digest == build.CANDIDATE
    assert outcomes.runtime_digest == build.RUNTIME
    assert (evaluated.prompt_tokens, evaluated.output_tokens) == (120, 60)


def test_every_metric_of_the_suite_leaves_its_statistics(tmp_path: Path) -> None:
    chosen = small(SuiteKind.CORRECTION, metrics=("gleu", "exact", "length_ratio"))
    outcomes = evaluate(StubModel(), chosen, tmp_path).outcomes.outcomes
    assert {tuple(one.statistics) for one in outcomes} == {("gleu", "exact", "length_ratio")}
    assert {len(one.statistics["gleu"]) for one in outcomes} == {10}
    assert {one.statistics["exact"] for one in outcomes} == {(0.0, 1.0)}


def test_an_example_without_an_answer_is_missing_and_not_wrong(tmp_path: Path) -> None:
    outcomes = evaluate(StubModel(frozenset({3})), small(SuiteKind.CLEAN), tmp_path).outcomes
    assert [one.score for one in outcomes.outcomes] == [1.0] * 3 + [None] + [1.0] * 8
    assert outcomes.outcomes[3].finish_reason == "abort"
    assert outcomes.outcomes[3].statistics == {}
    assert outcomes.rate is None


def test_a_suite_without_any_answer_is_all_missing(tmp_path: Path) -> None:
    for chosen in (small(SuiteKind.CLEAN), PAIRS):
        model = StubModel(frozenset(range(12)), reason=TOO_LONG)
        outcomes = evaluate(model, chosen, tmp_path).outcomes
        assert outcomes.missing == len(chosen.examples)
        assert {one.finish_reason for one in outcomes.outcomes} == {TOO_LONG}


def test_both_sentences_of_a_pair_are_asked_for_as_they_are(tmp_path: Path) -> None:
    model = StubModel()
    outcomes = evaluate(model, PAIRS, tmp_path).outcomes
    asked = ["a cat", "a cat sits", "long one", "short", "same", "size"]
    assert model.calls == [(Ask.LIKELIHOOD, asked)]
    assert [one.output for one in outcomes.outcomes] == ["a cat", "short", ""]
    assert [one.score for one in outcomes.outcomes] == [1.0, 0.0, 0.0]
    assert [one.statistics for one in outcomes.outcomes] == [
        {"pair_accuracy": (1.0, 1.0)}, {"pair_accuracy": (0.0, 1.0)}, {"pair_accuracy": (0.0, 1.0)},
    ]  # fmt: skip


def test_a_pair_with_one_sentence_missing_is_missing(tmp_path: Path) -> None:
    outcomes = evaluate(StubModel(frozenset({2}), reason=TOO_LONG), PAIRS, tmp_path).outcomes
    assert [one.score for one in outcomes.outcomes] == [1.0, None, 0.0]
    assert outcomes.outcomes[1].finish_reason == TOO_LONG


def test_what_was_killed_goes_on_with_what_is_left(tmp_path: Path) -> None:
    for chosen, left in ((small(SuiteKind.CLEAN), 5), (PAIRS, 3)):
        asked = len(chosen.examples) * (2 if chosen is PAIRS else 1)
        broken = StubModel()
        broken.fail_after = asked - left
        with pytest.raises(KeyboardInterrupt):
            evaluate(broken, chosen, tmp_path)
        model, told = StubModel(), [""]
        again = evaluate(model, chosen, tmp_path, told).outcomes
        assert [len(inputs) for _, inputs in model.calls] == [left]
        assert "were answered before" in told[1]
        assert again == evaluate(StubModel(), chosen, tmp_path / "afresh").outcomes


def test_settings_that_are_too_short_are_refused_naming_suite_and_example() -> None:
    model = StubModel()
    model.longest_chars = 7
    with pytest.raises(EvaluationFailed, match=r"suite pairs, example 'p0': raise max_model_len"):
        evaluator(model).check(PAIRS)
    model.longest_chars = 100
    evaluator(model).check(PAIRS)
