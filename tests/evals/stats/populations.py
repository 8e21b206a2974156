"""Make-believe models whose true difference is known, to count how often a gate is wrong.

Each example has gold edits; the champion finds some and proposes some that are wrong. The candidate
answers like the champion but for a share of examples, where it either answers anew, just as well,
or loses the example: nothing found and one wrong edit more. Changes can be gathered in documents,
so that a document has many of them or hardly any.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evals.stats.sample import Floats, Scores

GOLD, FOUND, WRONG = 1.5, 0.55, 0.35
"""Mean gold edits of an example, the share found, mean wrong edits."""
_GATHERED = 3.0
"""Pseudo-count of the beta distribution of a document's share of changes; small is gathered."""


def f_half(totals: Floats) -> Floats:
    """F0.5 of found, wrong and missed edits; shape (...) of (..., 3)."""
    found, wrong, missed = totals[..., 0], totals[..., 1], totals[..., 2]
    below = 1.25 * found + wrong + 0.25 * missed
    return np.asarray(np.where(below > 0, 1.25 * found / np.where(below > 0, below, 1.0), 1.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """Examples to draw from. `changed` and `lost` are shares: of examples, and of the changed."""

    n: int
    changed: float
    lost: float
    per_document: int = 1

    @property
    def difference(self) -> float:
        """True F0.5 of the candidate less that of the champion, from expected counts."""
        share = self.changed * self.lost
        champion = np.array([FOUND * GOLD, WRONG, (1 - FOUND) * GOLD])
        candidate = champion + share * np.array([-FOUND * GOLD, 1.0, FOUND * GOLD])
        return float(f_half(candidate) - f_half(champion))

    def draw(self, rng: np.random.Generator) -> Scores:
        """One sample of n examples."""
        gold = rng.poisson(GOLD, self.n)
        champion = _answers(rng, gold)
        changes = rng.random(self.n) < self._chances(rng)
        loses = changes & (rng.random(self.n) < self.lost)
        candidate = np.where((changes & ~loses)[:, None], _answers(rng, gold), champion)
        losing = np.column_stack([np.zeros(self.n), champion[:, 1] + 1.0, gold])
        documents = None
        if self.per_document > 1:
            documents = (np.arange(self.n) // self.per_document).astype(np.intp)
        return Scores(
            candidate=np.where(loses[:, None], losing, candidate),
            champion=champion,
            lost=np.column_stack([np.zeros(self.n), np.ones(self.n), gold]).astype(np.float64),
            value=f_half,
            clusters=documents,
        )

    def _chances(self, rng: np.random.Generator) -> Floats:
        if self.per_document == 1:
            return np.full(self.n, self.changed)
        documents = -(-self.n // self.per_document)
        shares = (self.changed * _GATHERED, (1.0 - self.changed) * _GATHERED)
        return np.repeat(rng.beta(*shares, documents), self.per_document)[: self.n]


def _answers(rng: np.random.Generator, gold: Floats) -> Floats:
    found = rng.binomial(gold.astype(np.int64), FOUND)
    return np.column_stack([found, rng.poisson(WRONG, len(gold)), gold - found]).astype(np.float64)
