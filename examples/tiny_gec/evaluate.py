"""Greedy evaluation of a checkpoint on the held-out suites, without a serving engine.

    python -m examples.tiny_gec.evaluate examples/checkpoints/tiny-gec-1

Prints how many sentences come out exactly right, per kind of error, and how many clean ones are
left alone; the last line is `RESULT` and the same as JSON.
"""

from __future__ import annotations

import argparse
import collections
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
import transformers

from examples.tiny_gec import examples, heldout

BATCH_SENTENCES = 128


@dataclass(frozen=True, slots=True)
class Rate:
    """How many of how many came out right."""

    right: int
    total: int

    @property
    def percent(self) -> float:
        """The rate in percent."""
        return 100 * self.right / self.total


class Corrects(Protocol):
    """Whatever corrects sentences, in the order given."""

    def correct(self, sources: list[str]) -> list[str]:
        """The corrections, one per source."""
        ...


class Corrector:
    """A checkpoint directory, ready to correct; prompt and limits come from its `prompt.json`."""

    def __init__(self, directory: Path) -> None:
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
        self._model = transformers.AutoModelForCausalLM.from_pretrained(directory).eval()
        settings = json.loads((directory / "prompt.json").read_text(encoding="utf-8"))
        self._template: str = settings["template"]
        self._max_tokens: int = settings["max_tokens"]

    def correct(self, sources: list[str]) -> list[str]:
        """The corrections, in the order of the sources."""
        prompts = [self._tokenizer(self._template.replace("{text}", s)).input_ids for s in sources]
        corrected = [""] * len(sources)
        for indices in batches_of_equal_length(prompts):
            answers = self._generate([prompts[index] for index in indices])
            for index, answer in zip(indices, answers, strict=True):
                corrected[index] = answer
        return corrected

    def _generate(self, prompts: list[list[int]]) -> list[str]:
        ids = torch.tensor(prompts)
        with torch.inference_mode():
            output = self._model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=self._max_tokens,
                do_sample=False,
            )
        answers = self._tokenizer.batch_decode(output[:, ids.shape[1] :], skip_special_tokens=True)
        return [answer.strip() for answer in answers]


def batches_of_equal_length(prompts: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Indices of prompts of one length each, so that nothing needs padding."""
    by_length: dict[int, list[int]] = collections.defaultdict(list)
    for index, prompt in enumerate(prompts):
        by_length[len(prompt)].append(index)
    for indices in by_length.values():
        for start in range(0, len(indices), BATCH_SENTENCES):
            yield indices[start : start + BATCH_SENTENCES]


def evaluate(corrector: Corrects, failures_shown: int) -> dict[str, Rate]:
    """Rates by name: `erroneous`, one per kind of error, and `clean`."""
    outcomes: dict[str, list[bool]] = collections.defaultdict(list)
    for suite in heldout.suites():
        held_out = list(suite.examples())
        corrected = corrector.correct([example.source for example in held_out])
        for example, answer in zip(held_out, corrected, strict=True):
            is_right = answer == example.target
            for name in (suite.name, *example.labels):
                outcomes[name].append(is_right)
            if not is_right and failures_shown > 0:
                failures_shown -= 1
                print(f"wrong: {example.source}\n   got {answer}\n  want {example.target}")
    return {name: Rate(sum(rights), len(rights)) for name, rights in outcomes.items()}


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the rates of one checkpoint."""
    options = _parse(argv)
    torch.set_num_threads(options.threads)
    corrector = Corrector(options.checkpoint)
    rates = evaluate(corrector, options.show_failures)
    for name, rate in rates.items():
        print(f"{name:12} {rate.percent:6.2f} %  ({rate.right:,} of {rate.total:,})")
    asked, wanted = examples.SHOWN
    (answer,) = corrector.correct([asked])
    print(f"{asked} -> {answer}")
    result = {name: round(rate.percent, 2) for name, rate in rates.items()}
    print("RESULT " + json.dumps({**result, "shown_is_right": answer == wanted}))


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Evaluate a demo checkpoint.")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--show-failures", type=int, default=0, metavar="N")
    options = parser.parse_args(argv)
    if not (options.checkpoint / "prompt.json").is_file():
        parser.error(f"{options.checkpoint} is no demo checkpoint: it has no prompt.json")
    return options


if __name__ == "__main__":
    main()
