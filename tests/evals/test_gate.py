"""The gate passes on evidence only, fails on evidence only, and says which sentences changed."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evals import gate, stats
from evals.errors import EvidenceMismatch
from evals.gate import decide
from evals.policy import Floors, GatePolicy, SuiteOverride
from evals.suite import Grouping, Suite, SuiteKind
from evals.verdict import Basis, GateResult, GateStatus
from tests.evals import build

POLICY = GatePolicy(tag_margin_points=5.0)
WIDE = GatePolicy(margin_points=15.0)
"""A margin that a few dozen examples can show, so that many cases are cheap."""


def judged(wins: int, losses: int, ties: int, policy: GatePolicy = POLICY) -> GateResult:
    """The result of one suite with these counts; ties are right in both."""
    of = build.suite([()] * (wins + losses + ties))
    candidate = build.outcomes(of, [1.0] * wins + [0.0] * losses + [1.0] * ties)
    champion = build.outcomes(
        of, [0.0] * wins + [1.0] * losses + [1.0] * ties, checkpoint=build.CHAMPION
    )
    return decide(candidate, champion, of, policy)[0]


def tagged_suite() -> Suite:
    tags = [("spelling",)] * 400 + [("verb_form",)] * 400 + [("spelling", "verb_form")] * 10
    return build.suite(tags, group_by=Grouping.TAGS)


class TestAgainstChampion:
    def test_an_equal_candidate_passes(self) -> None:
        result = judged(wins=3, losses=3, ties=994)
        assert result.status is GateStatus.PASS
        assert result.basis is Basis.CHAMPION
        assert (result.wins, result.losses, result.n) == (3, 3, 1000)
        assert result.candidate_rate == result.champion_rate == 0.997
        assert result.estimate_points == 0.0
        assert result.threshold_points == -2.0
        assert result.needed_n is None

    def test_a_clearly_worse_candidate_fails(self) -> None:
        assert judged(wins=0, losses=100, ties=900).status is GateStatus.FAIL

    def test_a_slightly_worse_candidate_within_the_margin_passes(self) -> None:
        result = judged(wins=0, losses=10, ties=2990)
        assert result.upper_points is not None
        assert result.upper_points < 0.0
        assert result.status is GateStatus.PASS

    def test_too_few_examples_are_underpowered_and_say_how_many_are_needed(self) -> None:
        result = judged(wins=0, losses=0, ties=100)
        assert result.status is GateStatus.UNDERPOWERED
        assert result.needed_n is not None
        assert result.needed_n > 200
        assert f"about {result.needed_n:,} are needed" in result.reason

    def test_the_needed_number_is_enough(self) -> None:
        needed = judged(wins=2, losses=2, ties=96).needed_n
        assert needed is not None
        share = round(needed * 0.02)
        assert judged(share, share, needed - 2 * share).status is GateStatus.PASS

    def test_the_reason_counts_sentences(self) -> None:
        result = judged(wins=2, losses=312, ties=88)
        assert result.reason.startswith(
            "errors: 312 of 400 sentences that the champion fixed are no longer fixed "
            "and 2 others are newly fixed; difference -77.1 points ["
        )
        assert result.reason.endswith("margin -2.0")

    def test_a_bound_next_to_the_margin_is_shown_in_full(self) -> None:
        policy = GatePolicy(margin_points=0.76)
        result = judged(wins=2, losses=3, ties=795, policy=policy)
        assert "[-0.707, +0.4]" in result.reason

    def test_the_reason_of_a_clean_suite_speaks_of_edits(self) -> None:
        of = build.suite([()] * 100, kind=SuiteKind.CLEAN)
        candidate = build.outcomes(of, [0.0] * 30 + [1.0] * 70)
        champion = build.outcomes(of, [1.0] * 100, checkpoint=build.CHAMPION)
        (result,) = decide(candidate, champion, of, POLICY)
        assert (
            "of 100 clean sentences that the champion left alone, 30 are now edited"
            in result.reason
        )

    def test_a_large_suite_is_sized_by_the_normal_approximation(self) -> None:
        policy = GatePolicy(margin_points=0.1)
        result = judged(wins=10, losses=10, ties=80, policy=policy)
        assert result.needed_n == stats.required_n(0.2, 0.001, 0.05, 0.8)

    @given(st.integers(0, 12), st.integers(0, 12), st.integers(1, 150))
    @settings(max_examples=20, deadline=None)
    def test_the_status_follows_from_the_bounds(self, wins: int, losses: int, ties: int) -> None:
        result = judged(wins, losses, ties, WIDE)
        assert result.lower_points is not None
        assert result.upper_points is not None
        if result.lower_points > result.threshold_points:
            expected = GateStatus.PASS
        elif result.upper_points < 0:
            expected = GateStatus.FAIL
        else:
            expected = GateStatus.UNDERPOWERED
        assert result.status is expected
        assert (result.needed_n is not None) == (expected is GateStatus.UNDERPOWERED)

    @given(st.integers(0, 10), st.integers(1, 10), st.integers(1, 150))
    @settings(max_examples=8, deadline=None)
    def test_one_more_right_answer_never_turns_a_pass_into_anything_else(
        self, wins: int, losses: int, ties: int
    ) -> None:
        if judged(wins, losses, ties, WIDE).status is GateStatus.PASS:
            assert judged(wins + 1, losses - 1, ties, WIDE).status is GateStatus.PASS
            assert judged(wins, losses - 1, ties + 1, WIDE).status is GateStatus.PASS

    def test_a_suite_override_sets_the_margin(self) -> None:
        policy = GatePolicy(overrides=(SuiteOverride(suite="errors", margin_points=0.1),))
        result = judged(3, 3, 994, policy)
        assert result.threshold_points == -0.1
        assert result.status is GateStatus.UNDERPOWERED


class TestTags:
    def test_a_lost_skill_fails_by_name_beside_the_kept_ones(self) -> None:
        of = tagged_suite()
        scores = [0.0] * 400 + [1.0] * 400 + [1.0] * 10
        champion = build.outcomes(of, [1.0] * 810, checkpoint=build.CHAMPION)
        whole, spelling, verb_form = decide(build.outcomes(of, scores), champion, of, POLICY)
        assert (whole.name, spelling.name, verb_form.name) == (
            "errors",
            "errors/spelling",
            "errors/verb_form",
        )
        assert (spelling.n, verb_form.n) == (410, 410)
        assert whole.status is spelling.status is GateStatus.FAIL
        assert verb_form.status is GateStatus.PASS
        assert spelling.reason.startswith("spelling: 400 of 410 sentences")
        assert verb_form.reason.startswith("verb form: ")
        assert spelling.threshold_points == -5.0

    def test_tags_are_left_out_when_the_policy_says_so(self) -> None:
        of = tagged_suite()
        same = build.outcomes(of, [1.0] * 810)
        assert len(decide(same, same, of, GatePolicy(per_tag=False))) == 1

    def test_a_suite_that_is_not_grouped_has_one_result(self) -> None:
        of = build.suite([("spelling",)] * 20)
        same = build.outcomes(of, [1.0] * 20)
        assert len(decide(same, same, of, POLICY)) == 1


class TestMissing:
    @given(
        st.lists(st.sampled_from([0.0, 1.0, None]), min_size=8, max_size=8),
        st.lists(st.sampled_from([0.0, 1.0, None]), min_size=8, max_size=8),
    )
    @settings(max_examples=20, deadline=None)
    def test_a_missing_answer_on_either_side_is_never_a_decision(
        self, candidate: list[float | None], champion: list[float | None]
    ) -> None:
        of = build.suite([()] * 8)
        (result,) = decide(
            build.outcomes(of, candidate),
            build.outcomes(of, champion, checkpoint=build.CHAMPION),
            of,
            GatePolicy(margin_points=100.0),
        )
        if None in candidate or None in champion:
            assert result.status is GateStatus.UNDERPOWERED
            assert result.estimate_points is None
            assert result.candidate_rate is None
            assert "missing" in result.reason
        else:
            assert result.estimate_points is not None

    def test_a_tag_without_missing_answers_is_still_decided(self) -> None:
        of = tagged_suite()
        scores: list[float | None] = [None] + [1.0] * 809
        champion = build.outcomes(of, [1.0] * 810, checkpoint=build.CHAMPION)
        whole, spelling, verb_form = decide(build.outcomes(of, scores), champion, of, POLICY)
        assert whole.status is spelling.status is GateStatus.UNDERPOWERED
        assert verb_form.status is GateStatus.PASS
        assert "1 of the candidate are missing" in whole.reason


class TestFirstVersion:
    def floor(self, right: int, n: int, kind: SuiteKind = SuiteKind.CORRECTION) -> GateResult:
        of = build.suite([()] * n, kind=kind)
        candidate = build.outcomes(of, [1.0] * right + [0.0] * (n - right))
        return decide(candidate, None, of, POLICY)[0]

    def test_passes_above_the_floor(self) -> None:
        result = self.floor(990, 1000)
        assert result.status is GateStatus.PASS
        assert result.basis is Basis.FLOOR
        assert result.threshold_points == 95.0
        assert result.champion_rate is None
        assert result.reason.startswith("errors: 990 of 1,000 sentences fixed, 99.0 % [")

    def test_fails_below_the_floor(self) -> None:
        assert self.floor(900, 1000).status is GateStatus.FAIL

    def test_is_underpowered_near_the_floor(self) -> None:
        result = self.floor(955, 1000)
        assert result.status is GateStatus.UNDERPOWERED
        assert "not enough examples" in result.reason

    def test_speaks_of_sentences_left_alone_on_a_clean_suite(self) -> None:
        assert "sentences left alone" in self.floor(990, 1000, SuiteKind.CLEAN).reason

    def test_missing_answers_are_not_wrong_answers(self) -> None:
        of = build.suite([()] * 1000)
        candidate = build.outcomes(of, [None] + [1.0] * 999)
        (result,) = decide(candidate, None, of, POLICY)
        assert result.status is GateStatus.UNDERPOWERED
        assert result.threshold_points == 95.0
        assert result.basis is Basis.FLOOR

    def test_tags_have_a_floor_of_their_own(self) -> None:
        of = tagged_suite()
        policy = GatePolicy(floors=Floors(correction=0.5, tag=0.99))
        candidate = build.outcomes(of, [0.0] * 20 + [1.0] * 790)
        whole, spelling, verb_form = decide(candidate, None, of, policy)
        assert whole.status is GateStatus.PASS
        assert spelling.status is GateStatus.FAIL
        assert verb_form.status is GateStatus.PASS


class TestMismatch:
    def test_outcomes_of_another_suite_are_refused(self) -> None:
        of, other = build.suite([()] * 3), build.suite([()] * 3, name="other")
        with pytest.raises(EvidenceMismatch, match="evaluate again"):
            decide(build.outcomes(other, [1.0] * 3), None, of, POLICY)

    def test_outcomes_in_another_order_are_refused(self) -> None:
        of = build.suite([()] * 3)
        good = build.outcomes(of, [1.0] * 3)
        turned = dataclasses.replace(good, outcomes=good.outcomes[::-1])
        with pytest.raises(EvidenceMismatch, match="order"):
            decide(good, turned, of, POLICY)

    def test_outcomes_with_an_example_less_are_refused(self) -> None:
        of = build.suite([()] * 3)
        good = build.outcomes(of, [1.0] * 3)
        with pytest.raises(EvidenceMismatch, match="2 examples"):
            decide(dataclasses.replace(good, outcomes=good.outcomes[:2]), None, of, POLICY)

    def test_outcomes_of_different_software_are_refused(self) -> None:
        of = build.suite([()] * 3)
        good = build.outcomes(of, [1.0] * 3)
        other = dataclasses.replace(good, runtime_digest="sha256:other")
        with pytest.raises(EvidenceMismatch, match="software or hardware"):
            decide(good, other, of, POLICY)


def test_deciding_does_no_io() -> None:
    """The gate runs in tests, in production and over stored outcomes alike."""
    assert not {"pathlib", "os", "json", "time"} & set(vars(gate))
