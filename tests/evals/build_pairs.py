"""Suites of minimal pairs for tests."""

from __future__ import annotations

from collections.abc import Sequence

from evals.suite import Example, Suite, SuiteKind


def pairs(texts: Sequence[tuple[str, str]]) -> Suite:
    """A suite of minimal pairs, the grammatical sentence first."""
    return Suite(
        name="pairs",
        language="en",
        kind=SuiteKind.MINIMAL_PAIRS,
        license="Apache-2.0",
        description="made for a test",
        group_by=None,
        data_sha256="d" * 64,
        examples=tuple(
            Example(id=f"p{i}", source=good, references=(), contrast=bad)
            for i, (good, bad) in enumerate(texts)
        ),
    )
