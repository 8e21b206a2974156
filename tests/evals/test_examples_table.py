"""The per-example table and the examples that got worse."""

from evals import examples_table
from evals.evidence import Compared
from evals.outcome import Outcome, Outcomes
from tests.evals import build, build_pairs

SUITE = build.suite([("spelling",), (), ("verb_form", "spelling")])


def test_columns_have_one_row_per_example_in_suite_order() -> None:
    candidate = build.outcomes(SUITE, [1.0, None, 0.0])
    champion = build.outcomes(SUITE, [1.0, 1.0, 1.0], checkpoint=build.CHAMPION)
    table = examples_table.per_example_table(SUITE, candidate, champion)
    assert {len(column) for column in table.values()} == {3}
    assert table["id"] == ["e0", "e1", "e2"]
    assert table["tags"] == ["spelling", "", "verb_form, spelling"]
    assert table["candidate_score"] == [1.0, None, 0.0]
    assert table["champion_score"] == [1.0, 1.0, 1.0]


def test_there_are_no_champion_columns_without_a_champion() -> None:
    table = examples_table.per_example_table(SUITE, build.outcomes(SUITE, [1.0] * 3), None)
    assert not [name for name in table if name.startswith("champion")]


def test_pairs_show_the_sentence_that_should_be_less_probable() -> None:
    pairs = build_pairs.pairs([("good", "bad")])
    outcomes = Outcomes(
        suite="pairs", suite_digest=pairs.digest, checkpoint_digest="c", runtime_digest="r",
        outcomes=(Outcome(example_id="p0", output="bad", score=0.0, finish_reason="stop"),),
    )  # fmt: skip
    table = examples_table.per_example_table(pairs, outcomes, None)
    assert (table["source"], table["contrast"], table["candidate_output"]) == (
        ["good"], ["bad"], ["bad"],
    )  # fmt: skip
    assert "contrast" not in examples_table.per_example_table(
        SUITE, build.outcomes(SUITE, [1.0] * 3), None
    )


def test_regressions_are_right_before_and_wrong_now() -> None:
    candidate = build.outcomes(SUITE, [0.0, None, 0.0])
    champion = build.outcomes(SUITE, [0.0, 1.0, 1.0], checkpoint=build.CHAMPION)
    found = examples_table.regressions(SUITE, candidate, champion)
    assert [item.example.id for item in found] == ["e2"]


def test_without_a_champion_every_wrong_answer_is_listed() -> None:
    found = examples_table.regressions(SUITE, build.outcomes(SUITE, [0.0, 1.0, 0.0]), None)
    assert [item.example.id for item in found] == ["e0", "e2"]
    assert found[0].champion is None


def test_the_worst_of_a_corpus_score_come_first() -> None:
    of = build.corpus(20)
    outputs = build.fixed_but(of, {4})
    outputs[7] = of.examples[7].source
    found = examples_table.worst(
        Compared(
            suite=of,
            candidate=build.texts(of, outputs),
            champion=build.texts(of, build.fixed_but(of, set()), checkpoint=build.CHAMPION),
        )
    )
    assert [item.example.id for item in found[:2]] == ["e4", "e7"]


def test_the_worst_of_right_and_wrong_are_in_suite_order() -> None:
    found = examples_table.worst(build.compared(SUITE, [0.0, 1.0, 0.0]))
    assert [item.example.id for item in found] == ["e0", "e2"]
