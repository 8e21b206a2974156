"""Essays, letters and stories that the base model writes: clean prose that nobody else owns.

    python -m examples.smollm2_gec.essays BASE --out essays.jsonl

A corrector should see what people write about: school, work, travel, opinions. Text of that kind
with a license that lets weights be passed on is rare; a model with an Apache-2.0 license writes it
on demand. A small model writes little sense, but its grammar is right, and grammar is all that is
taken from it. Each batch has a seed of its own, so that an interrupted run goes on where it was.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
import transformers

from examples.smollm2_gec import checkpoint

FORMS = (
    "Write a short opinion essay about {}. Use simple words.",
    "Write a letter to a friend about {}.",
    "Explain in simple words why some people like {} and some do not.",
    "Write about what {} was like in the past and what it may be like in the future.",
)
TOPICS = (
    *(
        "going to school",
        "learning a foreign language",
        "studying abroad",
        "exams",
        "a good teacher",
    ),
    *("university students", "reading books", "learning from mistakes", "knowing many subjects"),
    *(
        "working in a team",
        "a first job",
        "working from home",
        "starting a company",
        "earning money",
    ),
    *("being a nurse", "being a farmer", "a long career", "taking risks", "trying new things"),
    *("advertisements", "shopping", "buying a new product", "saving money", "fast food", "cooking"),
    *("eating with the family", "parents and children", "grandparents", "old people", "friendship"),
    *("young people helping others", "weddings", "a neighbor", "pets", "living in a village"),
    *("living in a big city", "public transport", "cars in the city", "traveling in a group"),
    *("a tour guide", "a trip to the mountains", "a day at the sea", "airports", "hotels", "maps"),
    *("computers", "mobile phones", "the internet", "television", "movies", "newspapers", "robots"),
    *("music", "painting", "museums", "sports", "football", "health", "doctors", "sleep", "stress"),
    *("the weather", "forests", "saving water", "pollution", "energy", "animals in danger"),
    *("science", "history", "laws", "voting", "traditions", "holidays", "success", "fashion"),
    *(
        "genetic testing",
        "telling relatives about an illness",
        "privacy",
        "social media",
        "gardens",
    ),
)
BATCH_ESSAYS = 64
ESSAYS = 128  # enough beside the other source; a core writes one in about three seconds
MAX_ESSAY_TOKENS = 224
TEMPERATURE = 0.8
TOP_K = 40  # sorting for top-p would take longer than the model does


@dataclass(frozen=True, slots=True)
class Batch:
    """Prompts that are answered together, and the seed of their answers."""

    prompts: tuple[str, ...]
    seed: int


def prompts() -> list[str]:
    """Every form with every topic."""
    return [form.format(topic) for form, topic in itertools.product(FORMS, TOPICS)]


def batches(seed: int) -> list[Batch]:
    """The first prompts, as many as essays are wanted, in batches."""
    asked = prompts()
    starts = range(0, ESSAYS, BATCH_ESSAYS)
    return [
        Batch(tuple(asked[start : start + BATCH_ESSAYS]), seed * 1_000 + number)
        for number, start in enumerate(starts)
    ]


class Author(Protocol):
    """Whoever writes essays."""

    def write(self, batch: Batch) -> list[str]:
        """One text per prompt; the last sentence may be cut short."""
        ...


class Writer:
    """The base model as an author."""

    def __init__(self, directory: Path) -> None:
        self._model, self._tokenizer = checkpoint.load(directory)
        self._tokenizer.padding_side = "left"

    def write(self, batch: Batch) -> list[str]:
        """One sampled text per prompt."""
        chats = [[{"role": "user", "content": prompt}] for prompt in batch.prompts]
        texts = self._tokenizer.apply_chat_template(
            chats, tokenize=False, add_generation_prompt=True
        )
        encoded = self._tokenizer(texts, return_tensors="pt", padding=True)
        torch.manual_seed(batch.seed)
        with torch.inference_mode():
            output = self._model.generate(
                **encoded,
                max_new_tokens=MAX_ESSAY_TOKENS,
                do_sample=True,
                temperature=TEMPERATURE,
                top_k=TOP_K,
            )
        written = output[:, encoded["input_ids"].shape[1] :]
        answers: list[str] = self._tokenizer.batch_decode(written, skip_special_tokens=True)
        return answers


def write(author: Author, out: Path, planned: Sequence[Batch]) -> None:
    """Adds to `out` what is missing of the essays; each line is a JSON string."""
    done = sum(1 for _ in read(out)) if out.exists() else 0
    started_s = time.monotonic()
    for number, batch in enumerate(planned, start=1):
        if number * BATCH_ESSAYS <= done:
            continue
        essays = author.write(batch)
        with out.open("a", encoding="utf-8") as lines:
            lines.write("".join(json.dumps(essay) + "\n" for essay in essays))
        elapsed_s = time.monotonic() - started_s
        print(f"batch {number} of {len(planned)}, {elapsed_s:.0f} s", flush=True)


def read(path: Path) -> Iterator[str]:
    """The essays of a file that `write` made."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def main(argv: Sequence[str] | None = None) -> None:
    """Writes the essays."""
    parser = argparse.ArgumentParser(description="Let the base model write clean text.")
    parser.add_argument("base", type=Path, help="base checkpoint directory")
    parser.add_argument("--out", type=Path, required=True, help="jsonl file to write or go on with")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(argv)
    torch.set_num_threads(options.threads)
    transformers.logging.set_verbosity_error()
    write(Writer(options.base), options.out, batches(options.seed))


if __name__ == "__main__":
    main()
