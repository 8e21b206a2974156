"""Metrics are found by name."""

from __future__ import annotations

import pytest

from evals import errors, metrics


def test_every_metric_has_the_name_it_is_found_by() -> None:
    assert metrics.names() == (
        *("exact", "change_rate", "false_positive", "gleu", "maxmatch_f0.5", "errant_f0.5"),
        *("length_ratio", "runaway", "script_kept", "pair_accuracy"),
    )
    assert [metrics.get(name).name for name in metrics.names()] == list(metrics.names())


def test_directions_and_rates() -> None:
    found = [metrics.get(name) for name in metrics.names()]
    better = {metric.name for metric in found if metric.higher_is_better}
    assert better == {
        *("exact", "gleu", "maxmatch_f0.5", "errant_f0.5", "script_kept", "pair_accuracy")
    }
    rates = {metric.name for metric in found if metric.is_rate}
    assert rates == set(metrics.names()) - {"gleu", "maxmatch_f0.5", "errant_f0.5", "length_ratio"}


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(errors.SuiteInvalid, match=r"no metric 'bleu'; known are exact, .*gleu"):
        metrics.get("bleu")
