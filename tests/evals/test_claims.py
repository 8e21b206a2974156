"""Sentences about some gate are corrected for how many there are."""

import dataclasses

from evals import claims
from evals.verdict import Basis, GateResult, GateStatus


def result(name: str, p_value: float | None, estimate: float) -> GateResult:
    return GateResult(
        name=name,
        suite=name,
        suite_digest="sha256:0",
        tag=None,
        n=100,
        basis=Basis.CHAMPION,
        status=GateStatus.PASS,
        reason="",
        threshold_points=-2.0,
        estimate_points=estimate,
        p_value=p_value,
    )


def test_one_small_p_value_among_many_is_no_difference() -> None:
    results = [result("a", 0.03, -1.0), *(result(f"b{i}", 0.6, 0.1) for i in range(9))]
    found = claims.differences(results, 0.05)
    assert found.regressed == found.improved == ()
    assert found.sentences == (
        "No gate differs from the champion beyond chance (Holm over 10 gates at 5 %).",
    )
    assert claims.differences(results[:1], 0.05).regressed == (results[0],)


def test_both_directions_are_named() -> None:
    results = [result("worse", 0.0001, -3.0), result("better", 0.0002, 2.0), result("c", 0.9, 0.0)]
    found = claims.differences(results, 0.05)
    assert found.sentences == (
        "Regressed beyond chance (Holm over 3 gates at 5 %): worse.",
        "Improved beyond chance (Holm over 3 gates at 5 %): better.",
    )


def test_gates_without_a_p_value_are_not_tested() -> None:
    undecided = dataclasses.replace(result("a", None, 0.0), estimate_points=None)
    found = claims.differences([undecided], 0.05)
    assert (found.tested, found.sentences) == (0, ())
