"""Power before a run: the same gates, the same numbers that the gate would give."""

import dataclasses

import pytest

from evals import planning, stats
from evals.errors import EvidenceMismatch
from evals.evidence import Compared
from evals.gate import decide_all
from evals.planning import Row
from evals.policy import Family, GatePolicy
from evals.suite import Grouping, SuiteKind
from tests.evals import build

POLICY = GatePolicy()


def by_gate(rows: tuple[Row, ...]) -> dict[str, Row]:
    return {row.gate: row for row in rows}


def test_every_gate_has_a_row_for_each_assumption() -> None:
    of = build.suite([("spelling",)] * 300 + [("verb_form",)] * 100, group_by=Grouping.TAGS)
    rows = planning.plan([of], POLICY, (0.01, 0.05))
    assert [(row.gate, row.n, row.margin_points) for row in rows[::2]] == [
        ("errors", 400, 2.0),
        ("errors/spelling", 300, 5.0),
        ("errors/verb_form", 100, 5.0),
    ]
    assert [row.assumed for row in rows[:2]] == ["1 % change sides", "5 % change sides"]


def test_planned_gates_are_the_ones_that_are_judged() -> None:
    suites = [
        build.suite([("a",)] * 60, name="de", group_by=Grouping.TAGS),
        build.suite([()] * 60, name="en"),
        build.corpus(60),
        build.suite([()] * 60, name="clean", kind=SuiteKind.CLEAN),
    ]
    policy = GatePolicy(
        max_flip_rate=0.1,
        max_false_positive_rate=0.1,
        families=(Family(name="all", suites=("de", "en"), member_margin_points=10.0),),
    )
    planned = [row.gate for row in planning.plan(suites, policy, (0.02,))]
    judged = decide_all([build.compared(of, [1.0] * 60) for of in suites], policy)
    assert planned == [result.name for result in judged]


def test_power_and_size_are_those_of_the_exact_test() -> None:
    (row,) = planning.plan([build.suite([()] * 500)], POLICY, (0.02,))
    assert row.power == pytest.approx(stats.power(500, 0.02, 0.02, 0.05))
    assert row.needed_n == stats.examples_needed(0.02, 0.02, 0.05)
    assert row.is_enough == (row.power >= 0.8)


def test_a_limit_below_what_is_assumed_can_never_be_met() -> None:
    rows = by_gate(
        planning.plan([build.suite([()] * 500)], GatePolicy(max_flip_rate=0.04), (0.05,))
    )
    assert rows["errors/flips"].needed_n is None
    assert rows["errors/flips"].power < 0.05
    assert not rows["errors/flips"].is_enough


def test_clusters_are_counted() -> None:
    (row,) = planning.plan([build.corpus(100, per_document=20)], POLICY, (0.02,))
    assert row.clusters == 5
    assert planning.plan([build.corpus(100)], POLICY, (0.02,))[0].clusters is None


class TestMeasured:
    def test_the_noise_of_two_runs_takes_the_place_of_assumptions(self) -> None:
        of = build.suite([()] * 500)
        first = build.outcomes(of, [0.0] * 5 + [1.0] * 495)
        second = build.outcomes(of, [1.0] * 5 + [0.0] * 5 + [1.0] * 490)
        (row,) = planning.plan([of], POLICY, runs={of.name: (first, second)})
        assert row.assumed == planning.MEASURED
        assert row.power == pytest.approx(stats.power(500, 0.02, 0.02, 0.05))

    def test_it_is_the_power_that_the_gate_itself_reports(self) -> None:
        of = build.corpus(300, per_document=10)
        first = build.texts(of, build.fixed_but(of, {4, 40}))
        second = build.texts(of, build.fixed_but(of, {77}))
        (row,) = planning.plan([of], POLICY, runs={of.name: (first, second)})
        champion = dataclasses.replace(second, checkpoint_digest=build.CHAMPION)
        (judged,) = decide_all([Compared(suite=of, candidate=first, champion=champion)], POLICY)
        assert row.power == pytest.approx(judged.power)
        assert row.needed_n == judged.needed_n

    def test_limits_are_measured_too(self) -> None:
        of = build.suite([()] * 500, kind=SuiteKind.CLEAN, name="clean")
        first = build.outcomes(of, [0.0] * 10 + [1.0] * 490)
        policy = GatePolicy(max_flip_rate=0.05, max_false_positive_rate=0.05)
        rows = by_gate(planning.plan([of], policy, runs={of.name: (first, first)}))
        assert rows["clean/flips"].power == 1.0
        assert 0.5 < rows["clean/false positives"].power < 1.0

    def test_runs_of_two_models_are_refused(self) -> None:
        of = build.suite([()] * 50)
        first = build.outcomes(of, [1.0] * 50)
        second = build.outcomes(of, [1.0] * 50, checkpoint=build.CHAMPION)
        with pytest.raises(EvidenceMismatch, match="two runs of one model"):
            planning.plan([of], POLICY, runs={of.name: (first, second)})
