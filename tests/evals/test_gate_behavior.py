"""What a gate is for: sameness passes, a lost skill and damage fail, too little is no answer."""

import dataclasses

from evals.evidence import Compared
from evals.gate import decide_all
from evals.policy import GatePolicy, SuiteOverride, Unit
from evals.suite import Grouping, Suite
from evals.verdict import GateStatus
from tests.evals import build

POLICY = GatePolicy()


def skills() -> Suite:
    tags = [(tag,) for tag in ("agreement", "spelling", "verb_form") for _ in range(400)]
    return build.suite(tags, group_by=Grouping.TAGS)


class TestSameness:
    def test_a_model_passes_against_itself_on_every_kind_of_suite(self) -> None:
        of = build.corpus(600, per_document=10)
        same = build.texts(of, build.fixed_but(of, {3, 40}))
        results = decide_all(
            [
                Compared(suite=of, candidate=same, champion=same),
                build.compared(skills(), [1.0] * 1200),
                build.compared(build.clean(), [1.0] * 800),
            ],
            GatePolicy(max_flip_rate=0.02),
        )
        assert build.verdict(results).status is GateStatus.PASS
        assert {r.name for r in results if r.name.endswith("/flips")} == {
            "corpus/flips",
            "errors/flips",
            "clean/flips",
        }


class TestLoss:
    def test_one_lost_skill_fails_by_name_though_another_gained_as_much(self) -> None:
        of = skills()
        champion = [1.0] * 400 + [1.0] * 400 + [0.0] * 400
        candidate = [1.0] * 400 + [0.0] * 400 + [1.0] * 400
        results = build.by_name(decide_all([build.compared(of, candidate, champion)], POLICY))
        assert results["errors"].estimate_points == 0.0
        assert results["errors/spelling"].status is GateStatus.FAIL
        assert results["errors/agreement"].status is GateStatus.PASS
        found = build.verdict(tuple(results.values()))
        assert found.status is GateStatus.FAIL
        assert found.reasons[0].startswith("spelling: 400 of 400 sentences")

    def test_damage_to_clean_text_fails_though_the_score_rose(self) -> None:
        errors, untouched = skills(), build.clean()
        results = build.by_name(
            decide_all(
                [
                    build.compared(errors, [1.0] * 1200, [1.0] * 900 + [0.0] * 300),
                    build.compared(untouched, [0.0] * 60 + [1.0] * 740),
                ],
                POLICY,
            )
        )
        assert (results["errors"].estimate_points or 0) > 20.0
        assert results["errors"].status is GateStatus.PASS
        assert results["clean"].status is GateStatus.FAIL
        assert build.verdict(tuple(results.values())).status is GateStatus.FAIL

    def test_a_corpus_score_that_fell_fails(self) -> None:
        result = build.judged_corpus(build.corpus(400), set(range(60)))["corpus"]
        assert result.status is GateStatus.FAIL
        assert result.metric == "gleu"
        assert result.method == "bootstrap"
        assert result.reason.startswith("corpus: GLEU ")
        assert result.threshold_points == -1.0
        assert result.p_value is not None
        assert result.p_value < 0.001

    def test_a_corpus_score_within_its_margin_passes(self) -> None:
        result = build.judged_corpus(build.corpus(800), {5})["corpus"]
        assert result.status is GateStatus.PASS
        assert result.power is not None
        assert result.power > 0.9


class TestTooLittle:
    def test_a_small_suite_says_how_many_examples_are_needed(self) -> None:
        of = build.suite([()] * 60)
        (result,) = decide_all([build.compared(of, [1.0] * 60)], POLICY)
        assert result.status is GateStatus.UNDERPOWERED
        assert result.needed_n is not None
        assert result.needed_n > 200
        assert f"about {result.needed_n:,} are needed" in result.reason
        assert (result.power or 0.0) < 0.05

    def test_so_does_a_small_corpus(self) -> None:
        result = build.judged_corpus(build.corpus(60), set())["corpus"]
        assert result.status is GateStatus.UNDERPOWERED
        assert result.needed_n is not None
        enough = build.judged_corpus(build.corpus(result.needed_n), set())["corpus"]
        assert enough.status is GateStatus.PASS

    def test_a_suite_large_enough_for_equal_models_says_that_it_is(self) -> None:
        of = build.suite([()] * 1200)
        candidate, champion = [0.0] * 50 + [1.0] * 1150, [1.0] * 50 + [0.0] * 38 + [1.0] * 1112
        (result,) = decide_all([build.compared(of, candidate, champion)], POLICY)
        assert result.status is GateStatus.UNDERPOWERED
        assert "probably somewhat worse" in result.reason

    def test_more_wanted_power_needs_more_examples(self) -> None:
        of = build.suite([()] * 60)
        few, many = (
            decide_all([build.compared(of, [1.0] * 60)], GatePolicy(power=power))[0].needed_n or 0
            for power in (0.8, 0.95)
        )
        assert many > few

    def test_documents_count_for_less_than_their_sentences(self) -> None:
        together = build.judged_corpus(build.corpus(400, per_document=20), set(range(20)))["corpus"]
        apart = build.judged_corpus(build.corpus(400), set(range(20)))["corpus"]
        assert together.method == "cluster bootstrap"
        assert together.units == 20
        assert (together.lower_points or 0) < (apart.lower_points or 0) - 1.0

    def test_unless_the_policy_asks_about_these_documents_only(self) -> None:
        policy = GatePolicy(overrides=(SuiteOverride(suite="corpus", unit=Unit.EXAMPLE),))
        result = build.judged_corpus(build.corpus(400, per_document=20), set(range(20)), policy)[
            "corpus"
        ]
        assert result.method == "bootstrap"

    def test_of_few_documents_only_these_are_spoken_of(self) -> None:
        result = build.judged_corpus(build.corpus(400, per_document=40), {1, 2})["corpus"]
        assert result.method == "bootstrap"
        assert "said of these 10 clusters only" in result.reason

    def test_few_documents_cannot_be_made_to_speak_for_others(self) -> None:
        policy = GatePolicy(overrides=(SuiteOverride(suite="corpus", unit=Unit.CLUSTER),))
        result = build.judged_corpus(build.corpus(400, per_document=40), set(), policy)["corpus"]
        assert result.status is GateStatus.UNDERPOWERED
        assert "too few clusters to speak for others" in result.reason


class TestRightOrWrongInClusters:
    def test_bounds_are_never_narrower_than_the_exact_ones(self) -> None:
        of = build.suite([()] * 400)
        examples = tuple(
            dataclasses.replace(e, cluster=f"c{i // 20}") for i, e in enumerate(of.examples)
        )
        grouped = dataclasses.replace(of, examples=examples)
        scores = [0.0] * 12 + [1.0] * 388
        (apart,) = decide_all([build.compared(of, scores)], POLICY)
        (together,) = decide_all([build.compared(grouped, scores)], POLICY)
        assert together.units == 20
        assert (together.lower_points or 0) < (apart.lower_points or 0)
        assert (together.upper_points or 0) >= (apart.upper_points or 0)
        assert (together.wins, together.losses) == (0, 12)
