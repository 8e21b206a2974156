"""MaxMatch: F0.5 of a system's edits against annotators' edits, in any language.

Formula and idea: Dahlmeier and Ng 2012, "Better Evaluation for Grammatical Error Correction". A
system gives a text, not edits. Of all shortest ways from source to output (evals.metrics.alignment)
the one is taken that agrees with most gold edits, then the shortest, then the one of fewest edits.
Neighboring changes may be one edit, also across up to two kept tokens.

    precision = correct / proposed    recall = correct / gold
    F0.5 = 1.25 * correct / (proposed + 0.25 * gold), 1 where there is nothing to find or propose

With several annotators the one is taken who is kindest to the sentence. The released scorer decides
that by the score so far, so a sentence's counts depend on those before it and cannot be resampled;
`released` does the same, for comparison with published numbers. The metric decides by the sentence
alone: most 1.25 * correct - REFERENCE_F * (proposed + 0.25 * gold), which is the choice that raises
the corpus score when that score is near REFERENCE_F.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evals import errors
from evals.m2 import Edit
from evals.metrics import alignment, metric, readings, text
from evals.suite import Example

BETA_SQUARED = 0.25
REFERENCE_F = 0.7
"""With it the corpus score of five published systems on CoNLL-2014 is within 0.03 points of the
released scorer's, and corpora scored against themselves reach 0.997."""

MAX_KEPT = 2
"""Tokens that one edit may keep in its middle, as in the released scorer. A gold edit of word order
moves words across others and may keep any number."""

_WORD_ORDER = ":WO"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Edits of one sentence, or of many, against one annotator each."""

    correct: int
    proposed: int
    gold: int

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            correct=self.correct + other.correct,
            proposed=self.proposed + other.proposed,
            gold=self.gold + other.gold,
        )

    @property
    def f(self) -> float:
        """F0.5, in 0..1."""
        return float(f_score(np.array([self.correct, self.proposed, self.gold], dtype=float)))


NOTHING = Counts(correct=0, proposed=0, gold=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxMatch:
    """The metric over `Example.edits`; statistics are correct, proposed and gold edits."""

    name: str = "maxmatch_f0.5"
    higher_is_better: bool = True
    is_rate: bool = False

    def statistics(self, example: Example, output: str) -> tuple[float, ...]:
        if not example.edits:
            raise errors.SuiteInvalid(
                f"example {example.id!r} has no gold edits, which {self.name} compares with; "
                "use a suite read from M2, or another metric"
            )
        best = kindest(count(example.source, output, example.edits))
        return (float(best.correct), float(best.proposed), float(best.gold))

    def value(self, totals: metric.Floats) -> metric.Floats | float:
        return f_score(totals)


def f_score(totals: metric.Floats) -> metric.Floats | float:
    """F0.5 of sums of shape (..., 3): correct, proposed, gold."""
    correct, proposed, gold = totals[..., 0], totals[..., 1], totals[..., 2]
    weighted = proposed + BETA_SQUARED * gold
    return metric.ratio((1 + BETA_SQUARED) * correct, weighted, empty=1.0)


def count(source: str, output: str, annotators: Iterable[Sequence[Edit]]) -> tuple[Counts, ...]:
    """The counts against each annotator's edits of the source, in each way to read them."""
    source_tokens, output_tokens = text.tokens(source), text.tokens(output)
    graph = alignment.shortest_paths(source_tokens, output_tokens)
    found = []
    for edits in annotators:
        for reading in readings.readings(edits):
            golds = _by_start(source_tokens, reading)
            correct, others = _best_path(graph, output_tokens, golds)
            found.append(Counts(correct=correct, proposed=correct + others, gold=len(reading)))
    return tuple(found)


def kindest(choices: Sequence[Counts], so_far: Counts | None = None) -> Counts:
    """The annotator's counts to score a sentence by.

    By the sentence alone, or, with the counts `so_far`, by the score that they would become.
    """

    def merit(choice: Counts) -> tuple[float, ...]:
        weighted = choice.proposed + BETA_SQUARED * choice.gold
        if so_far is None:
            gain = (1 + BETA_SQUARED) * choice.correct - REFERENCE_F * weighted
        else:
            gain = (so_far + choice).f
        return (gain, choice.correct, -weighted)

    return max(choices, key=merit)


def released(sentences: Iterable[Sequence[Counts]]) -> Counts:
    """The sums as the released scorer makes them: each annotator chosen by the score so far."""
    so_far = NOTHING
    for choices in sentences:
        so_far += kindest(choices, so_far)
    return so_far


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gold:
    """One way to satisfy a gold edit. `once` is a bit by which an insertion is used only once."""

    end: int
    tokens: list[str]
    once: int
    max_kept: int


# A state at a node: how many tokens the edit in progress has kept, or _CLOSED, and the bits of the
# gold insertions already used at this place of the source.
_State = tuple[int, int]
_CLOSED = -1

# One number orders the paths: gold edits agreed with, then steps besides, then edits besides.
_AGREED = 1 << 48
_STEP = 1 << 24
_EDIT = 1


def _by_start(source: list[str], edits: Sequence[Edit]) -> Mapping[int, list[_Gold]]:
    """Where edits start, what satisfies them; an edit that changes nothing cannot be satisfied."""
    found: dict[int, list[_Gold]] = {}
    for number, edit in enumerate(edits):
        once = 1 << number if edit.start == edit.end else 0
        max_kept = len(source) if edit.type.endswith(_WORD_ORDER) else MAX_KEPT
        for replacement in map(text.tokens, edit.replacements):
            if replacement != source[edit.start : edit.end]:
                gold = _Gold(end=edit.end, tokens=replacement, once=once, max_kept=max_kept)
                found.setdefault(edit.start, []).append(gold)
    return found


def _best_path(
    graph: alignment.Graph, output: list[str], golds: Mapping[int, list[_Gold]]
) -> tuple[int, int]:
    """Edits of the best path that agree with the gold ones, and edits that do not."""
    reached: dict[alignment.Node, dict[_State, int]] = {alignment.START: {(_CLOSED, 0): 0}}
    states: dict[_State, int] = {}
    for node in graph.steps:  # in the order of the text: what leads here has been visited
        states = reached.pop(node)
        _close(states)
        arcs = tuple(_gold_arcs(graph, output, node, golds))
        for state, score in states.items():
            for target, (kept, used), new_score in _moves(graph, node, (state, score), arcs):
                there = reached.setdefault(target, {})
                new_state = (kept, used if target[0] == node[0] else 0)
                there[new_state] = max(new_score, there.get(new_state, new_score))
    best = max(states.values())
    agreed = -(-best // _AGREED)
    return agreed, (agreed * _AGREED - best) % _STEP


def _close(states: dict[_State, int]) -> None:
    """An edit in progress may end at any node."""
    for (_, used), score in tuple(states.items()):
        states[_CLOSED, used] = max(score, states.get((_CLOSED, used), score))


def _gold_arcs(
    graph: alignment.Graph,
    output: list[str],
    node: alignment.Node,
    golds: Mapping[int, list[_Gold]],
) -> Iterator[tuple[alignment.Node, int]]:
    """Where gold edits lead from here, if the output has them, with their bits."""
    i, j = node
    for gold in golds.get(i, ()):
        target = (gold.end, j + len(gold.tokens))
        if (
            output[j : target[1]] == gold.tokens
            and target in graph.steps
            and alignment.fewest_kept(graph, node, target) <= gold.max_kept
        ):
            yield target, gold.once


def _moves(
    graph: alignment.Graph,
    node: alignment.Node,
    reached: tuple[_State, int],
    arcs: Sequence[tuple[alignment.Node, int]],
) -> Iterator[tuple[alignment.Node, _State, int]]:
    """Every way on from a state and its score: the node, the state there and the score."""
    (kept, used), score = reached
    for target, keeps in graph.steps[node]:
        if not keeps:
            opens = kept == _CLOSED
            yield target, (0 if opens else kept, used), score - _STEP - opens * _EDIT
        elif kept == _CLOSED:
            yield target, (_CLOSED, used), score - _STEP
        elif kept < MAX_KEPT:
            yield target, (kept + 1, used), score - _STEP
    if kept == _CLOSED:
        for target, once in arcs:
            if not used & once:
                yield target, (_CLOSED, used | once), score + _AGREED
