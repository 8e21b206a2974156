"""The seam between the harness and what it evaluates.

The one idea: a model answers many inputs at once and hands over each answer when it has it, in any
order, so that nothing that was computed waits in memory for the rest. An engine in this process, a
running endpoint and a baseline without any weights all do that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

VERSION = "liftlock/asking/v2"
"""Part of every outcome's runtime digest; changes when a model is asked in another way."""
TOO_LONG = "too_long"
"""Finish reason of an input that the model's context cannot hold: there is no answer to score."""
NO_ANSWER = ("abort", "error", TOO_LONG)
"""Finish reasons after which there is no answer to score."""


class Ask(StrEnum):
    """What is wanted for an input."""

    TEXT = "text"  # what the model writes after a prompt
    LIKELIHOOD = "likelihood"  # how probable a sentence is


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a model gave for one input. `finish_reason` is vLLM's, or `TOO_LONG`."""

    finish_reason: str
    text: str = ""
    """The raw text after a prompt."""
    logprob: float | None = None
    """Natural logarithm of a sentence's probability; None where it was not asked for."""
    prompt_tokens: int = 0
    output_tokens: int = 0

    @property
    def is_missing(self) -> bool:
        """Whether there is nothing to score."""
        return self.finish_reason in NO_ANSWER


OnAnswer = Callable[[int, Answer], None]
"""Called with the position of an input and its answer, once for each input."""


class Model(Protocol):
    """What the harness needs of whatever is evaluated."""

    def cannot(self, ask: Ask) -> str | None:
        """Why it can give no such answers at all; None where it can."""

    def check(self, ask: Ask, inputs: Sequence[str]) -> None:
        """Raises ContextTooShort for an input that longer settings would let in."""

    def answer(self, ask: Ask, inputs: Sequence[str], on_answer: OnAnswer) -> None:
        """Answers every input: prompts for a text, sentences for a likelihood.

        Raises:
            EvaluationFailed: an answer could not be had; what was handed over stays good.
        """


class SourceCopy:
    """The baseline that leaves every sentence as it is; its prompt is the sentence alone."""

    TEMPLATE = "{text}"

    def cannot(self, ask: Ask) -> str | None:
        """A copy has no probabilities."""
        if ask is Ask.TEXT:
            return None
        return "a copy of the source has no probabilities; evaluate a checkpoint"

    def check(self, ask: Ask, inputs: Sequence[str]) -> None:
        """Any text fits."""

    def answer(self, ask: Ask, inputs: Sequence[str], on_answer: OnAnswer) -> None:
        """Every prompt is its own answer."""
        for number, prompt in enumerate(inputs):
            on_answer(number, Answer(text=prompt, finish_reason="stop"))
