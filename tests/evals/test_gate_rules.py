"""What a policy can ask: limits, metrics, floors, families, and suites that are not there."""

import dataclasses

import pytest

from evals import gate
from evals.errors import PolicyInvalid
from evals.evidence import Compared, Unavailable
from evals.gate import decide_all
from evals.policy import Direction, Family, GatePolicy, SuiteOverride
from evals.verdict import Basis, GateResult, GateStatus, Verdict
from tests.evals import build

POLICY = GatePolicy()


class TestLimits:
    def test_many_flips_fail_though_right_answers_are_as_many(self) -> None:
        of = build.suite([()] * 1000)
        candidate = [0.0] * 100 + [1.0] * 100 + [1.0] * 800
        champion = [1.0] * 100 + [0.0] * 100 + [1.0] * 800
        results = build.by_name(
            decide_all([build.compared(of, candidate, champion)], GatePolicy(max_flip_rate=0.1))
        )
        flips = results["errors/flips"]
        assert results["errors"].estimate_points == 0.0
        assert flips.status is GateStatus.FAIL
        assert flips.basis is Basis.CEILING
        assert flips.estimate_points == pytest.approx(20.0)
        assert "200 of 1,000 answers changed sides" in flips.reason

    def test_a_limit_of_flips_can_be_one_suites_own(self) -> None:
        policy = GatePolicy(
            max_flip_rate=0.01, overrides=(SuiteOverride(suite="errors", max_flip_rate=0.5),)
        )
        of = build.suite([()] * 1000)
        results = build.by_name(decide_all([build.compared(of, [0.0] * 50 + [1.0] * 950)], policy))
        assert results["errors/flips"].threshold_points == 50.0
        assert results["errors/flips"].status is GateStatus.PASS

    def test_edits_of_clean_text_have_a_limit_that_a_bad_champion_does_not_move(self) -> None:
        of = build.clean(1000)
        worse = [0.0] * 200 + [1.0] * 800
        results = build.by_name(
            decide_all([build.compared(of, worse, worse)], GatePolicy(max_false_positive_rate=0.1))
        )
        assert results["clean"].status is GateStatus.PASS
        limit = results["clean/false positives"]
        assert limit.status is GateStatus.FAIL
        assert limit.threshold_points == 10.0

    def test_near_the_limit_neither_is_shown(self) -> None:
        of = build.clean(1000)
        near = [0.0] * 98 + [1.0] * 902
        results = build.by_name(
            decide_all([build.compared(of, near, near)], GatePolicy(max_false_positive_rate=0.1))
        )
        assert results["clean/false positives"].status is GateStatus.UNDERPOWERED


class TestMetrics:
    def test_a_metric_that_is_better_when_lower_is_turned_around(self) -> None:
        of = build.corpus(300)
        policy = GatePolicy(overrides=(SuiteOverride(suite="corpus", metric="runaway"),))
        result = build.judged_corpus(of, set(), policy)["corpus/runaway"]
        assert result.status is GateStatus.PASS
        assert result.candidate_rate == result.champion_rate == 0.0
        rambling = [o.references[0] * 5 for o in of.examples]
        compared = Compared(
            suite=of,
            candidate=build.texts(of, rambling),
            champion=build.texts(of, build.fixed_but(of, set()), checkpoint=build.CHAMPION),
        )
        worse = build.by_name(decide_all([compared], policy))["corpus/runaway"]
        assert worse.candidate_rate == 1.0
        assert worse.estimate_points == -100.0
        assert worse.status is GateStatus.FAIL

    def test_the_policy_can_say_which_way_is_good(self) -> None:
        of = build.corpus(300)
        shorter = [o.references[0][:-10] for o in of.examples]
        compared = Compared(
            suite=of,
            candidate=build.texts(of, shorter),
            champion=build.texts(of, build.fixed_but(of, set()), checkpoint=build.CHAMPION),
        )
        for direction, status in (
            (Direction.LOWER, GateStatus.PASS),
            (Direction.HIGHER, GateStatus.FAIL),
        ):
            override = SuiteOverride(suite="corpus", metric="length_ratio", direction=direction)
            results = build.by_name(decide_all([compared], GatePolicy(overrides=(override,))))
            assert results["corpus/length_ratio"].status is status

    def test_a_metric_can_be_kept_from_deciding(self) -> None:
        policy = GatePolicy(
            overrides=(
                SuiteOverride(suite="corpus", metric="gleu", gated=False),
                SuiteOverride(suite="corpus", metric="exact", margin_points=5.0),
            )
        )
        results = build.judged_corpus(build.corpus(300), set(), policy)
        assert set(results) == {"corpus/exact"}
        assert results["corpus/exact"].threshold_points == -5.0
        assert results["corpus/exact"].method == "exact"

    def test_stored_statistics_are_used_instead_of_the_text(self) -> None:
        of = build.corpus(300)
        good = build.texts(of, build.fixed_but(of, set()))
        metric_rows = (10.0, 10.0, 0.0, 10.0, 0.0, 9.0, 0.0, 8.0, 0.0, 7.0)
        stored = dataclasses.replace(
            good,
            outcomes=tuple(
                dataclasses.replace(o, statistics={"gleu": metric_rows}) for o in good.outcomes
            ),
        )
        (result, *_) = decide_all([Compared(suite=of, candidate=stored, champion=good)], POLICY)
        assert result.candidate_rate == 0.0
        assert result.status is GateStatus.FAIL


class TestFirstVersion:
    def floor(self, spoiled: set[int], floor: float | None) -> GateResult:
        of = build.corpus(300)
        policy = GatePolicy(overrides=(SuiteOverride(suite="corpus", metric="gleu", floor=floor),))
        compared = Compared(
            suite=of, candidate=build.texts(of, build.fixed_but(of, spoiled)), champion=None
        )
        return build.by_name(decide_all([compared], policy))["corpus"]

    def test_a_corpus_score_is_held_against_its_floor(self) -> None:
        assert self.floor(set(), 0.9).status is GateStatus.PASS
        assert self.floor(set(range(100)), 0.9).status is GateStatus.FAIL
        near = self.floor(set(range(30)), 0.9)
        assert near.basis is Basis.FLOOR
        assert near.threshold_points == 90.0

    def test_without_a_floor_there_is_no_pass(self) -> None:
        result = self.floor(set(), None)
        assert result.status is GateStatus.UNDERPOWERED
        assert result.threshold_points is None
        assert "no floor is set for GLEU" in result.reason

    def test_a_metric_that_is_better_when_lower_is_held_against_a_ceiling(self) -> None:
        of = build.corpus(300)
        policy = GatePolicy(
            overrides=(
                SuiteOverride(suite="corpus", metric="gleu", floor=0.5),
                SuiteOverride(suite="corpus", metric="runaway", floor=0.05),
            )
        )
        outputs = [e.references[0] * 5 if i < 60 else e.source for i, e in enumerate(of.examples)]
        compared = Compared(suite=of, candidate=build.texts(of, outputs), champion=None)
        result = build.by_name(decide_all([compared], policy))["corpus/runaway"]
        assert result.basis is Basis.CEILING
        assert result.status is GateStatus.FAIL
        assert result.estimate_points == pytest.approx(20.0)
        assert "60 of 300" in result.reason


class TestFamilies:
    def suites(self) -> list[Compared]:
        return [
            build.compared(build.suite([()] * 120, name=name), [1.0] * 120)
            for name in ("de", "en", "fr")
        ]

    def policy(self, **more: float) -> GatePolicy:
        return GatePolicy(families=(Family(name="all", suites=("de", "en", "fr"), **more),))  # type: ignore[arg-type]

    def test_suites_too_small_alone_pass_together(self) -> None:
        assert {r.status for r in decide_all(self.suites(), POLICY)} == {GateStatus.UNDERPOWERED}
        (result,) = decide_all(self.suites(), self.policy())
        assert result.status is GateStatus.PASS
        assert (result.name, result.suite, result.n) == ("all", "all", 360)

    def test_a_member_can_be_held_to_a_wider_margin_besides(self) -> None:
        suites = self.suites()
        lost = build.compared(suites[0].suite, [0.0] * 30 + [1.0] * 90)
        results = build.by_name(
            decide_all([lost, *suites[1:]], self.policy(margin_points=12, member_margin_points=10))
        )
        assert results["all"].status is GateStatus.PASS
        assert results["de"].status is GateStatus.FAIL
        assert results["de"].threshold_points == -10.0

    def test_suites_of_different_metrics_are_no_family(self) -> None:
        suites = [*self.suites()[:2], build.compared(build.clean(120, "fr"), [1.0] * 120)]
        with pytest.raises(PolicyInvalid, match="different metrics"):
            decide_all(suites, self.policy())

    def test_a_family_that_lacks_a_suite_says_so(self) -> None:
        absent = [Unavailable(suite="fr", reason="no file")]
        results = build.by_name(decide_all(self.suites()[:2], self.policy(), absent))
        assert results["all"].status is GateStatus.UNDERPOWERED
        assert "lacks fr" in results["all"].reason


class TestUnavailable:
    def test_a_required_suite_that_is_absent_does_not_pass_and_says_why(self) -> None:
        compared = build.compared(build.suite([()] * 600), [1.0] * 600)
        results = build.by_name(
            decide_all([compared], POLICY, [Unavailable(suite="jfleg", reason="cannot read x")])
        )
        assert results["errors"].status is GateStatus.PASS
        absent = results["jfleg"]
        assert absent.status is GateStatus.UNDERPOWERED
        assert absent.n == 0
        assert absent.reason.startswith("jfleg: not run")
        assert "cannot read x" in absent.reason
        found = build.verdict(tuple(results.values()))
        assert found.status is GateStatus.UNDERPOWERED
        assert Verdict.from_json(found.to_json()) == found

    def test_an_optional_one_is_only_told(self) -> None:
        policy = GatePolicy(optional_suites=("jfleg",))
        absent = [Unavailable(suite="jfleg", reason="cannot read x")]
        compared = build.compared(build.suite([()] * 600), [1.0] * 600)
        assert build.verdict(decide_all([compared], policy, absent)).status is GateStatus.PASS
        assert gate.skipped(policy, absent) == (
            "jfleg: not available, and not required: cannot read x",
        )

    @pytest.mark.parametrize(
        "policy",
        [
            GatePolicy(overrides=(SuiteOverride(suite="typo", margin_points=1.0),)),
            GatePolicy(families=(Family(name="f", suites=("errors", "typo")),)),
            GatePolicy(optional_suites=("typo",)),
        ],
    )
    def test_a_policy_about_other_suites_is_refused(self, policy: GatePolicy) -> None:
        compared = build.compared(build.suite([()] * 10), [1.0] * 10)
        with pytest.raises(PolicyInvalid, match="suite typo, which is not configured"):
            decide_all([compared], policy)

    def test_a_family_cannot_be_named_like_a_suite(self) -> None:
        suites = [build.compared(build.suite([()] * 10, name=n), [1.0] * 10) for n in ("a", "b")]
        with pytest.raises(PolicyInvalid, match="named like a suite"):
            decide_all(suites, GatePolicy(families=(Family(name="a", suites=("a", "b")),)))
