"""Minimal pairs: does the model find the grammatical sentence more probable than its twin?

The measure of BLiMP (Warstadt et al. 2020): the log-probabilities of all tokens of a sentence are
summed, without dividing by length, and the greater sum wins. The two differ by a word or so; where
they differ in length, the longer one is at a disadvantage that the makers of the pairs accept.

An outcome holds an output text, so the preferred sentence is the output. A tie prefers neither.
"""

from __future__ import annotations

import math

from evals import errors
from evals.metrics import exact
from evals.suite import Example


def preferred(example: Example, source_logprob: float, contrast_logprob: float) -> str:
    """The more probable sentence; empty if both are equally so.

    Raises:
        ValueError: a sum is not a number.
    """
    if math.isnan(source_logprob) or math.isnan(contrast_logprob):
        raise ValueError(
            f"comparing the pair {example.id!r}: log-probabilities {source_logprob} and "
            f"{contrast_logprob}; a model that gives nan cannot be judged"
        )
    if source_logprob == contrast_logprob:
        return ""
    return example.source if source_logprob > contrast_logprob else example.contrast


def right(example: Example, output: str) -> bool:
    """Whether the preferred sentence is the grammatical one, which is the pair's source."""
    if not example.contrast:
        raise errors.SuiteInvalid(
            f"example {example.id!r} is no minimal pair: it has no contrast; "
            "use a suite of the kind minimal-pairs, or another metric"
        )
    return exact.left_alone(output, example.source)


def statistics(source_logprob: float, contrast_logprob: float) -> tuple[float, ...]:
    """The statistics of `pair_accuracy` from two summed log-probabilities; a tie is wrong."""
    return (float(source_logprob > contrast_logprob), 1.0)
