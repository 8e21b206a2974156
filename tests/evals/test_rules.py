"""A policy that could only fail once everything has been evaluated is refused before."""

import pytest

from evals import rules
from evals.errors import PolicyInvalid
from evals.policy import Family, GatePolicy, SuiteOverride
from evals.suite import Grouping
from tests.evals import build
from tests.evals.build_pairs import pairs

TAGGED = build.suite([("flips",), ("gleu",)], group_by=Grouping.TAGS)
PLAIN = build.suite([()], name="plain")
PAIRS = pairs([("a b", "a c")])


def test_a_policy_that_fits_is_fit() -> None:
    rules.check(GatePolicy(), [TAGGED, PLAIN, PAIRS], ["jfleg-test"])


@pytest.mark.parametrize(
    "override",
    [
        SuiteOverride(suite="plain", metric="pair_accuracy"),
        SuiteOverride(suite="plain", metric="maxmatch_f0.5"),
        SuiteOverride(suite=PAIRS.name, metric="exact"),
        SuiteOverride(suite=PAIRS.name, metric="gleu"),
    ],
)
def test_a_metric_that_a_suite_has_nothing_for_is_refused(override: SuiteOverride) -> None:
    with pytest.raises(PolicyInvalid, match=f"judged by {override.metric}, which suite"):
        rules.check(GatePolicy(overrides=(override,)), [PLAIN, PAIRS], [])


def test_so_is_one_of_a_family() -> None:
    family = Family(name="f", suites=("plain", PAIRS.name), metric="exact")
    with pytest.raises(
        PolicyInvalid, match=f"f is to be judged by exact, which suite {PAIRS.name}"
    ):
        rules.check(GatePolicy(families=(family,)), [PLAIN, PAIRS], [])


@pytest.mark.parametrize(
    ("policy", "absent"),
    [
        (GatePolicy(overrides=(SuiteOverride(suite="plain", metric="exact", gated=False),)), []),
        (
            GatePolicy(
                overrides=(SuiteOverride(suite="plain", metric="exact", gated=False),),
                max_flip_rate=0.1,  # judges nothing where there is no champion
            ),
            [],
        ),
        (
            GatePolicy(
                overrides=(SuiteOverride(suite="plain", metric="exact", gated=False),),
                optional_suites=("jfleg-test",),
            ),
            ["jfleg-test"],
        ),
    ],
)
def test_a_policy_that_judges_nothing_is_refused(policy: GatePolicy, absent: list[str]) -> None:
    with pytest.raises(PolicyInvalid, match="nothing would be judged"):
        rules.check(policy, [PLAIN], absent)


def test_every_gate_and_suite_has_a_name_of_its_own() -> None:
    with pytest.raises(PolicyInvalid, match="two suites are named plain"):
        rules.check(GatePolicy(), [PLAIN, PLAIN], [])
    with pytest.raises(PolicyInvalid, match="two gates are named errors/flips"):
        rules.check(GatePolicy(max_flip_rate=0.1), [TAGGED], [])
    gleu = SuiteOverride(suite="errors", metric="gleu")
    with pytest.raises(PolicyInvalid, match="two gates are named errors/gleu"):
        rules.check(GatePolicy(overrides=(gleu,)), [TAGGED], [])
