"""Small suites, outcomes and verdicts for tests."""

from collections.abc import Collection, Sequence

from evals import metrics
from evals.evidence import Compared
from evals.gate import decide_all
from evals.outcome import Outcome, Outcomes
from evals.policy import GatePolicy
from evals.suite import Example, Grouping, MarginHint, Suite, SuiteKind
from evals.verdict import GateResult, Verdict

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


def compared(
    of: Suite, candidate: Sequence[float | None], champion: Sequence[float | None] | None = None
) -> Compared:
    """A suite with both models' scores; the champion is right everywhere unless told otherwise."""
    before = [1.0] * len(of.examples) if champion is None else champion
    return Compared(
        suite=of,
        candidate=outcomes(of, candidate),
        champion=outcomes(of, before, checkpoint=CHAMPION),
    )


def texts(of: Suite, outputs: Sequence[str], checkpoint: str = CANDIDATE) -> Outcomes:
    """Outcomes with the given outputs, scored as the kind of the suite says."""
    return Outcomes(
        suite=of.name,
        suite_digest=of.digest,
        checkpoint_digest=checkpoint,
        runtime_digest=RUNTIME,
        outcomes=tuple(
            Outcome(
                example_id=example.id,
                output=output,
                score=metrics.score(of.kind, example, output),
                finish_reason="stop",
            )
            for example, output in zip(of.examples, outputs, strict=True)
        ),
    )


def corpus(
    n: int, *, name: str = "corpus", metric: str = "gleu", per_document: int = 1, margin: float = 1
) -> Suite:
    """A suite that is judged by a corpus score; every source holds one error of ten words."""
    return Suite(
        name=name,
        language="en",
        kind=SuiteKind.CORRECTION,
        license="Apache-2.0",
        description="made for a test",
        group_by=None,
        data_sha256="d" * 64,
        examples=tuple(
            Example(
                id=f"e{i}",
                source=f"{i} she go to the old school every single morning .",
                references=(f"{i} she goes to the old school every single morning .",),
                cluster=None if per_document == 1 else f"d{i // per_document}",
            )
            for i in range(n)
        ),
        metrics=(metric, "exact"),
        margins=(MarginHint(metric=metric, points=margin),),
    )


def fixed_but(of: Suite, spoiled: Collection[int]) -> list[str]:
    """Right answers, but for some examples that are answered with nonsense."""
    return [
        "nothing of the kind" if i in spoiled else example.references[0]
        for i, example in enumerate(of.examples)
    ]


def clean(n: int = 800, name: str = "clean") -> Suite:
    return suite([()] * n, name=name, kind=SuiteKind.CLEAN)


def by_name(results: tuple[GateResult, ...]) -> dict[str, GateResult]:
    return {result.name: result for result in results}


def judged_corpus(
    of: Suite, spoiled: set[int], policy: GatePolicy | None = None
) -> dict[str, GateResult]:
    against = Compared(
        suite=of,
        candidate=texts(of, fixed_but(of, spoiled)),
        champion=texts(of, fixed_but(of, set()), checkpoint=CHAMPION),
    )
    return by_name(decide_all([against], policy or GatePolicy()))


def verdict(results: tuple[GateResult, ...]) -> Verdict:
    return Verdict.combine(
        results,
        candidate_digest=CANDIDATE,
        champion_digest=CHAMPION,
        policy_digest=GatePolicy().digest,
    )
