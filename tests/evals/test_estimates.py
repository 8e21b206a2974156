"""Intervals of one model from stored statistics."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from evals import estimates, metrics
from evals.outcome import Outcome, Outcomes
from evals.suite import Clustering, Suite
from tests.evals import build


def outcomes_of(suite: Suite, outputs: list[str | None]) -> Outcomes:
    return dataclasses.replace(
        build.outcomes(suite, [None] * len(suite.examples)),
        outcomes=tuple(
            Outcome(
                example_id=example.id,
                output=output or "",
                score=None if output is None else 1.0,
                finish_reason="stop",
                statistics={}
                if output is None
                else {
                    name: metrics.get(name).statistics(example, output) for name in suite.metrics
                },
            )
            for example, output in zip(suite.examples, outputs, strict=True)
        ),
    )


def suite_of(count: int, *names: str) -> Suite:
    return dataclasses.replace(build.suite([()] * count), metrics=names or ("exact",))


def half_right(suite: Suite) -> Outcomes:
    return outcomes_of(
        suite, [e.references[0] if n % 2 else e.source for n, e in enumerate(suite.examples)]
    )


def test_a_rate_has_the_exact_interval() -> None:
    suite = suite_of(20)
    (found,) = estimates.estimates(suite, half_right(suite))
    assert found.value == 0.5
    # Clopper-Pearson for 10 of 20, as tables have it.
    assert (found.lower, found.upper) == (
        pytest.approx(0.2720, abs=1e-4),
        pytest.approx(0.7280, abs=1e-4),
    )


def test_nothing_seen_is_not_nothing_possible() -> None:
    suite = suite_of(100)
    (found,) = estimates.estimates(suite, outcomes_of(suite, [e.source for e in suite.examples]))
    assert (found.value, found.lower) == (0.0, 0.0)
    assert found.upper == pytest.approx(1 - 0.025 ** (1 / 100))
    clustered = dataclasses.replace(
        suite,
        cluster=Clustering.DOCUMENT,
        examples=tuple(dataclasses.replace(e, cluster=e.id[-1]) for e in suite.examples),
    )
    (found,) = estimates.estimates(
        clustered, outcomes_of(clustered, [e.source for e in clustered.examples])
    )
    assert found.upper == pytest.approx(1 - 0.025 ** (1 / 10))  # ten documents, not a hundred


def test_values_are_those_of_the_metrics() -> None:
    suite = suite_of(30, "gleu", "exact", "length_ratio", "change_rate")
    outcomes = half_right(suite)
    outputs = [one.output for one in outcomes.outcomes]
    for found in estimates.estimates(suite, outcomes):
        metric = metrics.get(found.metric)
        value = float(metric.value(metrics.total(metric, suite.examples, outputs)))
        assert found.value == pytest.approx(value)
        assert found.lower is not None
        assert found.upper is not None
        assert found.lower <= value <= found.upper


def test_missing_answers_are_left_out_and_all_missing_is_no_estimate() -> None:
    suite = suite_of(20)
    some = outcomes_of(suite, [None] * 10 + [e.source for e in suite.examples[10:]])
    (found,) = estimates.estimates(suite, some)
    assert found.upper == pytest.approx(1 - 0.025 ** (1 / 10))
    assert estimates.estimates(suite, outcomes_of(suite, [None] * 20)) == ()


def test_outcomes_of_before_have_no_statistics_and_no_estimates() -> None:
    suite = suite_of(3)
    assert estimates.estimates(suite, build.outcomes(suite, [1.0, 0.0, 1.0])) == ()


def test_the_same_outcomes_print_the_same_numbers() -> None:
    suite = suite_of(40, "gleu")
    assert estimates.estimates(suite, half_right(suite)) == estimates.estimates(
        suite, half_right(suite)
    )


def test_clusters_that_agree_in_themselves_widen_the_interval() -> None:
    plain = suite_of(100, "length_ratio")
    clustered = dataclasses.replace(
        plain,
        cluster=Clustering.DOCUMENT,
        examples=tuple(
            dataclasses.replace(e, cluster=str(n // 10)) for n, e in enumerate(plain.examples)
        ),
    )
    outputs: list[str | None] = [
        e.source * 2 if n // 10 % 2 else e.source for n, e in enumerate(plain.examples)
    ]
    widths = []
    for suite in (plain, clustered):
        (found,) = estimates.estimates(suite, outcomes_of(suite, outputs))
        assert found.lower is not None
        assert found.upper is not None
        widths.append(found.upper - found.lower)
    # Ten clusters of ten equals: the variance is ten times as large.
    assert widths[1] / widths[0] == pytest.approx(np.sqrt(10), rel=0.15)


def test_the_bootstrap_agrees_with_the_closed_form_of_a_mean() -> None:
    rng = np.random.default_rng(7)
    suite = suite_of(400, "length_ratio")
    lengths = rng.integers(1, 20, size=400)
    outcomes = outcomes_of(suite, ["x" * int(n) for n in lengths])
    (found,) = estimates.estimates(suite, outcomes)
    sources = np.array([len(e.source) for e in suite.examples])
    ratio = lengths.sum() / sources.sum()
    error = np.sqrt(np.mean((lengths - ratio * sources) ** 2) / 400) / sources.mean()
    assert found.lower == pytest.approx(ratio - 1.96 * error, rel=0.02)
    assert found.upper == pytest.approx(ratio + 1.96 * error, rel=0.02)


def test_blocks_of_draws_change_nothing_but_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    suite = suite_of(50, "gleu")
    (whole,) = estimates.estimates(suite, half_right(suite))
    monkeypatch.setattr(estimates, "_BLOCK_CELLS", 50 * 7)
    (pieces,) = estimates.estimates(suite, half_right(suite))
    assert whole == pieces
