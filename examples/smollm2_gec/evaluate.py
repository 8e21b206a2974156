"""GLEU and over-correction of a checkpoint on JFLEG, without a serving engine: for development.

    python -m examples.smollm2_gec.evaluate CHECKPOINT --jfleg DIR --split dev --limit 200

DIR is the corpus folder with `dev/` and `test/`. The gate does not read this: it evaluates on its
own, with its own engine. The last line is `RESULT` and the figures as JSON, in percent.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers

from evals.metrics import gleu
from examples.smollm2_gec import checkpoint

REFERENCES = 4
BATCH_SENTENCES = 32
MAX_NEW_TOKENS = 96


@dataclass(frozen=True, slots=True)
class Sentence:
    """What a learner wrote and what four people made of it."""

    source: str
    references: tuple[str, ...]

    @property
    def is_left_alone(self) -> bool:
        """Whether somebody changed nothing."""
        return self.source in self.references


def read(directory: Path, split: str) -> list[Sentence]:
    """The sentences of one split, with single spaces between tokens."""
    names = ["src", *(f"ref{number}" for number in range(REFERENCES))]
    columns = [_lines(directory / split / f"{split}.{name}") for name in names]
    return [Sentence(row[0], tuple(row[1:])) for row in zip(*columns, strict=True)]


def _lines(path: Path) -> list[str]:
    return [" ".join(line.split()) for line in path.read_text(encoding="utf-8").splitlines()]


def thinned(sentences: Sequence[Sentence], limit: int | None) -> Sequence[Sentence]:
    """At most `limit` of them, evenly spaced: neighbors are much alike."""
    if limit is None or limit >= len(sentences):
        return sentences
    return [sentences[number * len(sentences) // limit] for number in range(limit)]


class Corrector:
    """A checkpoint, greedy, one line per sentence."""

    def __init__(self, directory: Path) -> None:
        self._model, self._tokenizer = checkpoint.load(directory)
        self._tokenizer.padding_side = "left"

    def correct(self, sources: Sequence[str]) -> list[str]:
        """The corrections, in the order of the sources."""
        corrected = [""] * len(sources)
        for indices in _batches(sources):
            answers = self._generate([sources[index] for index in indices])
            for index, answer in zip(indices, answers, strict=True):
                corrected[index] = answer
        return corrected

    def _generate(self, sources: Sequence[str]) -> list[str]:
        prompts = [checkpoint.TEMPLATE.replace("{text}", source) for source in sources]
        encoded = self._tokenizer(prompts, return_tensors="pt", padding=True)
        with torch.inference_mode():
            output = self._model.generate(
                **encoded,
                max_new_tokens=MAX_NEW_TOKENS,
                do_sample=False,
                stop_strings=[checkpoint.END],
                tokenizer=self._tokenizer,
            )
        written = output[:, encoded["input_ids"].shape[1] :]
        answers = self._tokenizer.batch_decode(written, skip_special_tokens=True)
        return [answer.split(checkpoint.END)[0].strip() for answer in answers]


def _batches(sources: Sequence[str]) -> Iterator[list[int]]:
    """Indices of sentences of about one length, so that little is padded."""
    order = sorted(range(len(sources)), key=lambda index: len(sources[index]))
    for start in range(0, len(order), BATCH_SENTENCES):
        yield order[start : start + BATCH_SENTENCES]


def figures(sentences: Sequence[Sentence], outputs: Sequence[str]) -> dict[str, float]:
    """In percent: GLEU as the corpus is scored, and how often what was changed."""
    pairs = list(zip(sentences, outputs, strict=True))
    statistics = [gleu.sentence(each.source, out, each.references) for each, out in pairs]
    alone = [each.source != out for each, out in pairs if each.is_left_alone]
    return {
        "gleu": 100 * gleu.released(statistics),
        "exact_any": _percent([out in each.references for each, out in pairs]),
        "changed": _percent([each.source != out for each, out in pairs]),
        "changed_of_left_alone": _percent(alone),
    }


def _percent(hits: Sequence[bool]) -> float:
    return 100 * sum(hits) / len(hits) if hits else 0.0


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the figures of a checkpoint, or of the untouched sources."""
    options = _parse(argv)
    torch.set_num_threads(options.threads)
    transformers.logging.set_verbosity_error()
    sentences = thinned(read(options.jfleg, options.split), options.limit)
    sources = [each.source for each in sentences]
    started_s = time.monotonic()
    outputs = sources if options.copy else Corrector(options.checkpoint).correct(sources)
    for each, output in list(zip(sentences, outputs, strict=True))[: options.show]:
        print(f"{each.source}\n    {output}")
    found = {name: round(value, 2) for name, value in figures(sentences, outputs).items()}
    shown = {**found, "sentences": len(sentences), "seconds": round(time.monotonic() - started_s)}
    print("RESULT " + json.dumps(shown))


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Evaluate a checkpoint on JFLEG.")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--jfleg", type=Path, required=True, help="folder of the corpus")
    parser.add_argument("--split", choices=("dev", "test"), default="dev")
    parser.add_argument("--limit", type=int, help="only so many sentences, evenly spaced")
    parser.add_argument("--copy", action="store_true", help="score the sources themselves")
    parser.add_argument("--show", type=int, default=0, metavar="N")
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
