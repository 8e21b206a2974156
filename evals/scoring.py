"""From an answer to an outcome: right or wrong, and what the example adds to each metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evals import errors, metrics
from evals.metrics import exact, pairs
from evals.model import Answer, Ask
from evals.outcome import Outcome
from evals.suite import Example, Suite, SuiteKind


def ask_of(kind: SuiteKind) -> Ask:
    """What a suite of this kind wants of a model."""
    return Ask.LIKELIHOOD if kind is SuiteKind.MINIMAL_PAIRS else Ask.TEXT


def parts_of(kind: SuiteKind) -> int:
    """How many inputs an example of this kind is: two sentences to compare, or one text."""
    return 2 if kind is SuiteKind.MINIMAL_PAIRS else 1


def written(suite: Suite, example: Example, answer: Answer, output: str) -> Outcome:
    """The outcome of a text that a model wrote; `output` is its parsed text.

    Raises:
        SuiteInvalid, EvaluationFailed: a metric cannot be computed; names suite and example.
    """
    if answer.is_missing:
        return _missing(example, output, answer.finish_reason)
    return Outcome(
        example_id=example.id,
        output=output,
        score=_score(suite.kind, example, output),
        finish_reason=answer.finish_reason,
        statistics=_statistics(suite, example, output),
    )


def compared(suite: Suite, example: Example, answers: Sequence[Answer]) -> Outcome:
    """The outcome of a minimal pair: its output is the sentence that the model prefers.

    Raises:
        EvaluationFailed: a probability is not a number.
    """
    missing = next((answer for answer in answers if answer.is_missing), None)
    if missing is not None:
        return _missing(example, "", missing.finish_reason)
    source, contrast = (answer.logprob for answer in answers)
    if source is None or contrast is None:
        return _missing(example, "", "error")
    try:
        output = pairs.preferred(example, source, contrast)
    except ValueError as exc:
        raise errors.EvaluationFailed(f"suite {suite.name}: {exc}") from exc
    return Outcome(
        example_id=example.id,
        output=output,
        score=float(source > contrast),
        finish_reason="stop",
        statistics=_statistics(suite, example, output),
    )


def _missing(example: Example, output: str, reason: str) -> Outcome:
    return Outcome(example_id=example.id, output=output, score=None, finish_reason=reason)


def _score(kind: SuiteKind, example: Example, output: str) -> float:
    """1.0 or 0.0. Acceptable sentences should be left alone, and the others should not."""
    if kind is SuiteKind.ACCEPTABILITY:
        return float(exact.left_alone(output, example.source) == bool(example.references))
    return metrics.score(kind, example, output)


def _statistics(suite: Suite, example: Example, output: str) -> Mapping[str, tuple[float, ...]]:
    try:
        return {name: metrics.get(name).statistics(example, output) for name in suite.metrics}
    except (errors.SuiteInvalid, errors.EvaluationFailed) as exc:
        raise type(exc)(f"suite {suite.name}: {exc}") from exc
