"""Chooses some examples of many, evenly over strata, the same ones everywhere.

The one idea: examples are ranked by a hash of their id, so a choice depends on nothing but the ids;
no random generator, no order of files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from enum import StrEnum

from evals.suite import Example, Sample


class Strata(StrEnum):
    """What a sample is spread over evenly."""

    CLUSTER = "cluster"  # each cluster, such as a paradigm
    TAGS = "tags"  # each combination of tags


def stratified(
    examples: Sequence[Example], size: int, by: Strata
) -> tuple[tuple[Example, ...], Sample]:
    """At most `size` examples in their order, and what was chosen of what.

    Every stratum gives as many as any other, or all it has; what does not divide evenly goes to
    the strata whose next example ranks first.
    """
    strata: dict[object, list[Example]] = {}
    for example in examples:
        strata.setdefault(_KEYS[by](example), []).append(example)
    ranked = [sorted(of, key=_rank) for of in strata.values()]
    wanted = {example.id for example in _round_robin(ranked, size)}
    kept = tuple(example for example in examples if example.id in wanted)
    return kept, Sample(kept=len(kept), total=len(examples), sha256=_sha256(kept))


_KEYS: dict[Strata, Callable[[Example], object]] = {
    Strata.CLUSTER: lambda example: example.cluster,
    Strata.TAGS: lambda example: example.tags,
}


def _round_robin(ranked: Sequence[Sequence[Example]], size: int) -> list[Example]:
    """One of each stratum, then the second of each, until there are enough."""
    chosen: list[Example] = []
    for turn in range(max((len(of) for of in ranked), default=0)):
        chosen += sorted((of[turn] for of in ranked if turn < len(of)), key=_rank)
        if len(chosen) >= size:
            break
    return chosen[:size]


def _rank(example: Example) -> str:
    return hashlib.sha256(example.id.encode()).hexdigest()


def _sha256(kept: Sequence[Example]) -> str:
    return hashlib.sha256("".join(f"{example.id}\n" for example in kept).encode()).hexdigest()
