"""Scores of one example, as pure functions: 1.0 right, 0.0 wrong.

Both compare normalized text. They leave out partial credit on purpose: paired gates count sentences
that changed sides, and a sentence is either fixed or not.
"""

from __future__ import annotations

from collections.abc import Iterable

from evals.metrics.text import normalize
from evals.suite import Example, SuiteKind

VERSION = "liftlock/metrics/v1"
"""Part of every outcome's runtime digest; changes when a score can change."""


def exact_match(output: str, references: Iterable[str]) -> bool:
    """Whether the output equals any reference, both normalized."""
    wanted = normalize(output)
    return any(wanted == normalize(reference) for reference in references)


def left_alone(output: str, source: str) -> bool:
    """Whether the output equals the source, both normalized."""
    return normalize(output) == normalize(source)


def score(kind: SuiteKind, example: Example, output: str) -> float:
    """1.0 or 0.0: fixed for a correction suite, left alone for a clean suite."""
    if kind is SuiteKind.CLEAN:
        return float(left_alone(output, example.source))
    return float(exact_match(output, example.references))
