"""What changed between two models' answers, whatever their scores.

Equal scores can hide many answers that changed sides in both directions; Dutta et al. 2024,
"Accuracy is Not All You Need" (arXiv 2407.09141), call those flips. For a quantized model they are
the sharper question: its parent's answers are the ones it should give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evals.metrics import exact, metric, text
from evals.suite import Example, SuiteKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Flips:
    """Counts over `examples`: outputs that differ, right answers lost, right answers gained."""

    examples: int
    changed: int
    lost: int
    gained: int


def compare(
    kind: SuiteKind,
    examples: Sequence[Example],
    candidate: Sequence[str],
    champion: Sequence[str],
) -> Flips:
    """Compares outputs in suite order.

    Raises:
        ValueError: the three sequences are not equally long.
    """
    lost = gained = 0
    for example, new, old in zip(examples, candidate, champion, strict=True):
        step = exact.score(kind, example, new) - exact.score(kind, example, old)
        lost += step < 0
        gained += step > 0
    changed = int(statistics(candidate, champion)[:, 0].sum())
    return Flips(examples=len(examples), changed=changed, lost=lost, gained=gained)


def statistics(candidate: Sequence[str], champion: Sequence[str]) -> metric.Floats:
    """Shape (n, 2): whether each output differs from the champion's, and 1; a rate's statistics.

    Raises:
        ValueError: the two sequences are not equally long.
    """
    pairs = zip(candidate, champion, strict=True)
    changed = [text.normalize(new) != text.normalize(old) for new, old in pairs]
    return np.column_stack([np.array(changed, dtype=np.float64), np.ones(len(changed))])
