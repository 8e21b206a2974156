"""Samples: derivative, clusters, shapes."""

import numpy as np
import pytest

from evals.stats.sample import Scores, gradient
from tests.evals.stats.populations import Population, f_half


def test_the_gradient_of_a_ratio_is_the_quotient_rule() -> None:
    found = gradient(lambda t: t[..., 0] / t[..., 1], np.array([30.0, 120.0]))
    assert found == pytest.approx([1 / 120, -30 / 120**2], rel=1e-6)


def test_the_gradient_does_not_ask_for_negative_sums() -> None:
    found = gradient(f_half, np.array([0.0, 5.0, 5.0]))
    assert found[0] == pytest.approx(1.25 / 6.25, rel=1e-3)
    assert np.isfinite(found).all()


def test_taking_examples_keeps_their_clusters_together() -> None:
    sample = Population(n=40, changed=0.2, lost=0.5, per_document=10).draw(np.random.default_rng(1))
    taken = sample.take(np.array([12, 3, 13, 35]))
    assert taken.n == 4
    assert taken.clusters is not None
    assert taken.clusters.tolist() == [1, 0, 1, 2]
    assert len(taken.units()) == 3
    assert taken.units().sum() == pytest.approx(taken.rows.sum())


@pytest.mark.parametrize("rows", [np.zeros((0, 2)), np.zeros((3, 3)), np.zeros(3)])
def test_shapes_that_do_not_agree_are_refused(rows: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"\(n, k\)"):
        Scores(candidate=rows, champion=None, lost=np.zeros((3, 2)), value=f_half)
    with pytest.raises(ValueError, match="a cluster for each"):
        Scores(
            candidate=np.zeros((3, 2)),
            champion=None,
            lost=np.zeros((3, 2)),
            value=f_half,
            clusters=np.zeros(2, dtype=np.intp),
        )
