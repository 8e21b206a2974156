"""Teaches the base model to correct, by LoRA, in about half an hour on one core.

    python -m examples.smollm2_gec.train BASE --text sentences.txt --out run --seed 1

`run/adapter` is the result. The state after each bucket of pairs lies beside it: after an
interruption the same command goes on from there. The loss is on the correction alone, and logits
are made for it alone: half of a forward pass would otherwise go into the vocabulary of 49,152.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
import transformers
from torch.nn import functional

from examples.smollm2_gec import checkpoint, lora
from examples.smollm2_gec.pairs import BUCKET_PAIRS, Lessons, Pair


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How long and how hard to train."""

    buckets: int = 10
    batch_tokens: int = 1_024
    learning_rate: float = 1e-3
    warmup_share: float = 0.05
    max_gradient_norm: float = 1.0

    def factor(self, done: float) -> float:
        """What the learning rate is multiplied with when `done` (0 to 1) of the run is done."""
        warmup = min(1.0, (done + 1e-3) / self.warmup_share)
        return warmup * (1 + math.cos(math.pi * done)) / 2


@dataclass(frozen=True, slots=True)
class Encoded:
    """Token ids of a prompt and its correction; `prompt_tokens` of them are the prompt."""

    ids: list[int]
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Inputs and next tokens, both [sentences, tokens]; `counts` marks those the loss is on."""

    inputs: torch.Tensor
    following: torch.Tensor
    counts: torch.Tensor


def encode(tokenizer: transformers.PreTrainedTokenizerBase, pair: Pair) -> Encoded:
    """Prompt, correction and its end, as token ids."""
    prompt = tokenizer(checkpoint.TEMPLATE.replace("{text}", pair.source)).input_ids
    answer = tokenizer(f" {pair.target}{checkpoint.END}", add_special_tokens=False).input_ids
    return Encoded([*prompt, *answer], len(prompt))


def collate(examples: Sequence[Encoded]) -> Batch:
    """Pads on the right, where causal attention never looks; padding is not counted."""
    width = max(len(example.ids) for example in examples)
    ids = torch.zeros(len(examples), width, dtype=torch.long)
    counts = torch.zeros(len(examples), width - 1, dtype=torch.bool)
    for row, example in enumerate(examples):
        ids[row, : len(example.ids)] = torch.tensor(example.ids)
        counts[row, example.prompt_tokens - 1 : len(example.ids) - 1] = True
    return Batch(ids[:, :-1], ids[:, 1:], counts)


def batches(examples: Sequence[Encoded], batch_tokens: int, rng: Random) -> list[Batch]:
    """Batches of examples of about one length, padded to at most `batch_tokens`; in any order."""
    groups: list[list[Encoded]] = [[]]
    for example in sorted(examples, key=lambda each: len(each.ids)):
        if groups[-1] and (len(groups[-1]) + 1) * len(example.ids) > batch_tokens:
            groups.append([])
        groups[-1].append(example)
    rng.shuffle(groups)
    return [collate(group) for group in groups if group]


def loss_of(model: transformers.LlamaForCausalLM, batch: Batch) -> torch.Tensor:
    """Mean cross-entropy of the tokens that count."""
    hidden = model.model(input_ids=batch.inputs, use_cache=False).last_hidden_state
    logits = model.lm_head(hidden[batch.counts])
    return functional.cross_entropy(logits.float(), batch.following[batch.counts])


class Trainer:
    """A model with adapters, their optimizer, and how many buckets it has seen."""

    def __init__(self, base: Path, schedule: Schedule, seed: int) -> None:
        torch.manual_seed(seed)
        self._model, self._tokenizer = checkpoint.load(base)
        self._schedule, self._seed, self._shape = schedule, seed, lora.Shape()
        lora.attach(self._model, self._shape)
        self._parameters = [parameter for _, parameter in lora.adapters(self._model)]
        self._optimizer = torch.optim.AdamW(
            self._parameters, lr=schedule.learning_rate, betas=(0.9, 0.98), weight_decay=0.0
        )
        self.buckets_done = 0

    def learn(self, bucket: Sequence[Pair]) -> Iterator[float]:
        """Trains on the next bucket; yields the loss of each step."""
        rng = Random(f"order {self._seed} {self.buckets_done}")
        encoded = [encode(self._tokenizer, pair) for pair in bucket]
        planned = batches(encoded, self._schedule.batch_tokens, rng)
        for number, batch in enumerate(planned):
            done = (self.buckets_done + number / len(planned)) / self._schedule.buckets
            yield self._step(batch, self._schedule.factor(done))
        self.buckets_done += 1

    def _step(self, batch: Batch, factor: float) -> float:
        for group in self._optimizer.param_groups:
            group["lr"] = self._schedule.learning_rate * factor
        loss = loss_of(self._model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._parameters, self._schedule.max_gradient_norm)
        self._optimizer.step()
        self._optimizer.zero_grad()
        value: float = loss.item()
        return value

    def save(self, out: Path) -> None:
        """Writes the adapter, and what it takes to go on."""
        lora.save(self._model, self._shape, out / "adapter")
        state = {
            "buckets_done": self.buckets_done,
            "seed": self._seed,
            "buckets": self._schedule.buckets,
            "weights": [parameter.detach() for parameter in self._parameters],
            "optimizer": self._optimizer.state_dict(),
        }
        torch.save(state, out / "state.partial")
        (out / "state.partial").replace(out / "state.pt")

    def resume(self, out: Path) -> None:
        """Goes on from what `save` wrote, if anything."""
        path = out / "state.pt"
        if not path.exists():
            return
        state = torch.load(path, weights_only=True)
        if (state["seed"], state["buckets"]) != (self._seed, self._schedule.buckets):
            raise ValueError(
                f"{out} holds a run of seed {state['seed']} and {state['buckets']} buckets, asked "
                f"for are {self._seed} and {self._schedule.buckets}; choose another --out"
            )
        with torch.no_grad():
            for parameter, saved in zip(self._parameters, state["weights"], strict=True):
                parameter.copy_(saved)
        self._optimizer.load_state_dict(state["optimizer"])
        self.buckets_done = state["buckets_done"]


def train(trainer: Trainer, lessons: Lessons, schedule: Schedule, out: Path) -> None:
    """Trains what is left and says how far it is."""
    started_s, started_cpu_s = time.monotonic(), time.process_time()
    for number in range(trainer.buckets_done, schedule.buckets):
        losses = list(trainer.learn(lessons.bucket(number)))
        trainer.save(out)
        elapsed_s, cpu_s = time.monotonic() - started_s, time.process_time() - started_cpu_s
        print(
            f"bucket {number + 1} of {schedule.buckets}: {len(losses)} steps, "
            f"loss {sum(losses) / len(losses):.4f}, {elapsed_s:.0f} s ({cpu_s:.0f} s CPU)",
            flush=True,
        )


def main(argv: Sequence[str] | None = None) -> None:
    """Trains an adapter."""
    options = _parse(argv)
    torch.set_num_threads(options.threads)
    transformers.logging.set_verbosity_error()
    schedule = Schedule(buckets=options.buckets)
    sentences = options.text.read_text(encoding="utf-8").splitlines()
    print(f"{len(sentences):,} sentences, {schedule.buckets * BUCKET_PAIRS:,} pairs", flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(options.base, schedule, options.seed)
    trainer.resume(options.out)
    train(trainer, Lessons(sentences, options.seed), schedule, options.out)
    print(f"saved {options.out / 'adapter'}")


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Tune SmolLM2 for correction.")
    parser.add_argument("base", type=Path, help="base checkpoint directory")
    parser.add_argument("--text", type=Path, required=True, help="clean sentences, one a line")
    parser.add_argument("--out", type=Path, required=True, help="directory of the run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--buckets", type=int, default=Schedule().buckets)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
