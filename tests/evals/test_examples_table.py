"""The per-example table and the examples that got worse."""

from evals import examples_table
from tests.evals import build

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


def test_regressions_are_right_before_and_wrong_now() -> None:
    candidate = build.outcomes(SUITE, [0.0, None, 0.0])
    champion = build.outcomes(SUITE, [0.0, 1.0, 1.0], checkpoint=build.CHAMPION)
    found = examples_table.regressions(SUITE, candidate, champion)
    assert [item.example.id for item in found] == ["e2"]


def test_without_a_champion_every_wrong_answer_is_listed() -> None:
    found = examples_table.regressions(SUITE, build.outcomes(SUITE, [0.0, 1.0, 0.0]), None)
    assert [item.example.id for item in found] == ["e0", "e2"]
    assert found[0].champion is None
