"""What a sweep tries: recipes, exclusions and calibration text, chosen from data alone. Pure."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from evals.suite import Example, Suite, SuiteKind
from pipelines.recipe import Recipe
from registry.manifest import Prompt
from registry.scheme import ATTENTION

MAX_EXCLUDED = 4
"""Layer groups that a variant may leave in BF16 beside what its recipe leaves."""
EXCLUDED_SHARE = 0.25
COMPARED = (SuiteKind.MINIMAL_PAIRS, SuiteKind.ACCEPTABILITY)
"""Kinds of suites whose sentences are not corrected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much a sweep measures."""

    rounds: int = 7
    """Turns of each engine; the interval of its speed comes from them."""
    prompts: int = 64
    """Requests in one turn, all sent at once."""
    texts: int = 64
    """Calibration texts of the sensitivity pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One variant to make."""

    name: str
    recipe: Recipe
    excluded: tuple[str, ...] = ()


def grid(recipe: Recipe) -> tuple[Planned, ...]:
    """{MLP only, MLP + attention projections} x {per tensor, per channel}; the settings' recipe
    says what is left alone in all of them."""
    recipes = (
        dataclasses.replace(recipe, enabled=True, weights=weights, attention=attention)
        for attention in (False, True)
        for weights in ("tensor", "channel")
    )
    return tuple(Planned(name=made.label, recipe=made) for made in recipes)


def exclusions(recipe: Recipe, ranked: Sequence[str]) -> tuple[Planned, ...]:
    """Per channel with attention, without the most sensitive group, and without the most sensitive
    quarter of them, at most `MAX_EXCLUDED`.

    Args:
        ranked: layer groups, the most sensitive first.
    """
    base = dataclasses.replace(recipe, enabled=True, weights="channel", attention=True)
    most = min(MAX_EXCLUDED, math.ceil(EXCLUDED_SHARE * len(ranked)))
    made = []
    for count in sorted({1, most} if most else ()):
        worst, left = ranked[:count], ranked[count:]
        if not any(_is_attention(group) for group in left):
            continue  # it would be the recipe without attention
        patterns = tuple(pattern(group) for group in worst)
        made.append(
            Planned(
                name=f"{base.label}-less-{count}",
                recipe=dataclasses.replace(base, ignore=(*base.ignore, *patterns)),
                excluded=tuple(worst),
            )
        )
    return tuple(made)


def pattern(group: str) -> str:
    """What a recipe's `ignore` says to leave a layer group in BF16."""
    return f"re:{re.escape(group)}\\."


def _is_attention(group: str) -> bool:
    return ATTENTION.search(f"{group}.") is not None


def chosen(suites: Sequence[Suite], count: int) -> tuple[tuple[Suite, Example], ...]:
    """Examples of all suites, suite by suite in turn, each in an order that is fixed by hash."""
    queues = [
        sorted(suite.examples, key=lambda e: hashlib.sha256(e.id.encode()).digest())
        for suite in suites
    ]
    longest = max((len(queue) for queue in queues), default=0)
    found = [
        (suite, queue[n])
        for n in range(longest)
        for suite, queue in zip(suites, queues, strict=True)
        if n < len(queue)
    ]
    return tuple(found[:count])


def calibration(suites: Sequence[Suite], prompt: Prompt, count: int) -> tuple[str, ...]:
    """Texts as the model sees them: a prompt with its right answer, or a plain sentence."""
    return tuple(_text(suite, example, prompt) for suite, example in chosen(suites, count))


def _text(suite: Suite, example: Example, prompt: Prompt) -> str:
    if suite.kind in COMPARED:
        return example.source
    asked = prompt.render(example.source)
    answer = example.references[0] if example.references else example.source
    gap = "" if asked[-1:].isspace() else " "
    return f"{asked}{gap}{answer}"


def prompts(suites: Sequence[Suite], prompt: Prompt, count: int) -> tuple[str, ...]:
    """What engines are asked with while their speed is measured."""
    written = [suite for suite in suites if suite.kind not in COMPARED] or suites
    return tuple(prompt.render(example.source) for _, example in chosen(written, count))
