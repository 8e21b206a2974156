"""Small suites, outcomes and verdicts for tests."""

from collections.abc import Sequence

from evals.outcome import Outcome, Outcomes
from evals.suite import Example, Grouping, Suite, SuiteKind

RUNTIME = "sha256:" + "e" * 64
CANDIDATE = "sha256:" + "c" * 64
CHAMPION = "sha256:" + "a" * 64


def suite(
    tags: Sequence[tuple[str, ...]],
    *,
    name: str = "errors",
    kind: SuiteKind = SuiteKind.CORRECTION,
    group_by: Grouping | None = None,
) -> Suite:
    """A suite with one example for each tuple of tags."""
    return Suite(
        name=name,
        language="en",
        kind=kind,
        license="Apache-2.0",
        description="made for a test",
        group_by=group_by,
        data_sha256="d" * 64,
        examples=tuple(
            Example(id=f"e{i}", source=f"She go {i}.", references=(f"She goes {i}.",), tags=of)
            for i, of in enumerate(tags)
        ),
    )


def outcomes(of: Suite, scores: Sequence[float | None], checkpoint: str = CANDIDATE) -> Outcomes:
    """Outcomes with the given scores; right answers are the reference, wrong ones the source."""
    return Outcomes(
        suite=of.name,
        suite_digest=of.digest,
        checkpoint_digest=checkpoint,
        runtime_digest=RUNTIME,
        outcomes=tuple(
            Outcome(
                example_id=example.id,
                output=example.references[0] if score == 1.0 else example.source,
                score=score,
                finish_reason="abort" if score is None else "stop",
            )
            for example, score in zip(of.examples, scores, strict=True)
        ),
    )
