"""One verdict over many gates."""

import dataclasses
import itertools

import pytest

from evals.gate import decide
from evals.policy import GatePolicy
from evals.verdict import Basis, GateResult, GateStatus, Verdict
from tests.evals import build


def result(status: GateStatus, name: str = "a") -> GateResult:
    return GateResult(
        name=name,
        suite=name,
        suite_digest="sha256:0",
        tag=None,
        n=1,
        basis=Basis.CHAMPION,
        status=status,
        reason=f"{name} {status}",
        threshold_points=-2.0,
    )


def combine(*results: GateResult) -> Verdict:
    return Verdict.combine(
        results,
        candidate_digest=build.CANDIDATE,
        champion_digest=build.CHAMPION,
        policy_digest=GatePolicy().digest,
    )


@pytest.mark.parametrize("statuses", list(itertools.product(GateStatus, repeat=3)))
def test_fail_beats_underpowered_beats_pass(statuses: tuple[GateStatus, ...]) -> None:
    expected = GateStatus.PASS
    if GateStatus.UNDERPOWERED in statuses:
        expected = GateStatus.UNDERPOWERED
    if GateStatus.FAIL in statuses:
        expected = GateStatus.FAIL
    assert combine(*(result(status) for status in statuses)).status is expected


def test_no_evidence_is_not_a_pass() -> None:
    with pytest.raises(ValueError, match="at least one gate result"):
        combine()


def test_reasons_name_what_did_not_pass_failures_first() -> None:
    verdict = combine(
        result(GateStatus.PASS, "a"),
        result(GateStatus.UNDERPOWERED, "b"),
        result(GateStatus.FAIL, "c"),
    )
    assert verdict.reasons == ("c fail", "b underpowered")


def test_the_worst_failure_comes_first() -> None:
    near = dataclasses.replace(result(GateStatus.FAIL, "near"), estimate_points=-3.0)
    far = dataclasses.replace(result(GateStatus.FAIL, "far"), estimate_points=-60.0)
    unknown = result(GateStatus.FAIL, "unknown")
    assert combine(unknown, near, far).reasons == ("far fail", "near fail", "unknown fail")


def test_reasons_of_a_pass_are_all_of_them() -> None:
    assert combine(result(GateStatus.PASS, "a")).reasons == ("a pass",)


def test_json_round_trip_is_exact() -> None:
    of = build.suite([()] * 30)
    candidate = build.outcomes(of, [1.0] * 29 + [0.0])
    paired = decide(candidate, build.outcomes(of, [1.0] * 30), of, GatePolicy())
    missing = decide(build.outcomes(of, [None] * 30), None, of, GatePolicy())
    verdict = combine(*paired, *missing, *decide(candidate, None, of, GatePolicy()))
    assert Verdict.from_json(verdict.to_json()) == verdict


@pytest.mark.parametrize("text", ["[]", "{}", "nonsense", '{"format": "liftlock/verdict/v1"}'])
def test_other_documents_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Verdict.from_json(text)
