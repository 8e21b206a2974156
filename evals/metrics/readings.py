"""The ways to make one annotator's edits when some of them overlap.

EstGEC marks a change of word order over words that it also marks one by one. No text shows both, so
a system could never be right about all of them. The one idea, from the scorer of that corpus: an
annotator with overlapping edits is read as several annotators without any, who keep either the wide
edit or the narrow ones. Edits of exactly one span are left together, as the scorer of CoNLL-2014
counts them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from evals.m2 import Edit

MAX_CHOICES = 4
"""Overlaps in one sentence that are decided one by one; with more, all are decided alike."""

Edits = tuple[Edit, ...]


def readings(edits: Sequence[Edit]) -> tuple[Edits, ...]:
    """The edits without overlaps, in at most 2 ** MAX_CHOICES ways; in one if nothing overlaps."""
    groups = [_choices(group) for group in _groups(edits)]
    if sum(len(choices) > 1 for choices in groups) > MAX_CHOICES:
        return _join(choices[0] for choices in groups), _join(choices[-1] for choices in groups)
    return tuple(_join(chosen) for chosen in itertools.product(*groups))


def _join(groups: Iterable[Edits]) -> Edits:
    return tuple(itertools.chain.from_iterable(groups))


def _groups(edits: Sequence[Edit]) -> list[list[Edit]]:
    """Edits connected by overlaps, in the order of the text."""
    groups: list[list[Edit]] = []
    # An insertion comes before a longer edit at the same place, with which it does not overlap.
    for edit in sorted(edits, key=lambda one: (one.start, one.end > one.start, -one.end)):
        if groups and any(_same_span(edit, one) or _overlap(edit, one) for one in groups[-1]):
            groups[-1].append(edit)
        else:
            groups.append([edit])
    return groups


def _choices(group: list[Edit]) -> tuple[Edits, ...]:
    """The group as it is if nothing overlaps, else with wide edits and with narrow ones."""
    if not any(_overlap(*two) for two in itertools.combinations(group, 2)):
        return (tuple(group),)
    by_width = sorted(group, key=_width_first)
    return _compatible(by_width), _compatible(by_width[::-1])


def _width_first(edit: Edit) -> tuple[int, int, int]:
    return (edit.start - edit.end, -len(edit.replacements[0].split()), edit.start)


def _compatible(edits: Iterable[Edit]) -> Edits:
    """The edits, without each that overlaps one before it; in the order of the text."""
    kept: list[Edit] = []
    for edit in edits:
        if not any(_overlap(edit, other) for other in kept):
            kept.append(edit)
    return tuple(sorted(kept, key=lambda one: (one.start, one.end)))


def _overlap(one: Edit, other: Edit) -> bool:
    """Whether not both can be made; an insertion at the end of another edit can."""
    if _same_span(one, other):
        return False
    if one.start == one.end:
        return other.start < one.start < other.end
    if other.start == other.end:
        return one.start < other.start < one.end
    return max(one.start, other.start) < min(one.end, other.end)


def _same_span(one: Edit, other: Edit) -> bool:
    return (one.start, one.end) == (other.start, other.end)
