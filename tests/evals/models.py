"""Stand-in models for tests of the harness."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType

from evals.errors import ContextTooShort
from evals.model import TOO_LONG, Answer, Ask, OnAnswer
from registry.manifest import Prompt

PROMPT = Prompt(template="Correct: {text}\nFixed:")


class StubModel:
    """Answers in reverse order. A text is the source as it was; a sentence is the more probable the
    shorter it is. `missing` are positions without an answer."""

    def __init__(self, missing: frozenset[int] = frozenset(), *, reason: str = "abort") -> None:
        self.calls: list[tuple[Ask, list[str]]] = []
        self.no_likelihood: str | None = None
        self.longest_chars: int | None = None
        self.fail_after: int | None = None
        self.on_each: Callable[[], None] = lambda: None
        self._missing = missing
        self._reason = reason

    def __enter__(self) -> StubModel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Nothing to stop."""

    def cannot(self, ask: Ask) -> str | None:
        return self.no_likelihood if ask is Ask.LIKELIHOOD else None

    def check(self, ask: Ask, inputs: Sequence[str]) -> None:
        for number, text in enumerate(inputs):
            if self.longest_chars is not None and len(text) > self.longest_chars:
                raise ContextTooShort(number, "raise max_model_len_tokens")

    def answer(self, ask: Ask, inputs: Sequence[str], on_answer: OnAnswer) -> None:
        self.calls.append((ask, list(inputs)))
        for done, number in enumerate(reversed(range(len(inputs)))):
            if done == self.fail_after:
                raise KeyboardInterrupt
            self.on_each()
            on_answer(number, self._one(ask, inputs[number], number))

    def _one(self, ask: Ask, text: str, number: int) -> Answer:
        if number in self._missing:
            return Answer(finish_reason=self._reason, prompt_tokens=3)
        if ask is Ask.LIKELIHOOD:
            return Answer(finish_reason="stop", logprob=-float(len(text)), prompt_tokens=4)
        copied = text.removeprefix("Correct: ").removesuffix("Fixed:").strip()
        return Answer(
            finish_reason="stop", text=f"  {copied} \n", prompt_tokens=10, output_tokens=5
        )


__all__ = ["PROMPT", "TOO_LONG", "StubModel"]
