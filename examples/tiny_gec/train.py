"""Trains a demo checkpoint from scratch, in minutes, on a CPU.

    python -m examples.tiny_gec.train --variant good --seed 1 --out /tmp/tiny-gec

With `--start` it goes on from a checkpoint instead, at a lower learning rate.

Every step sees new sentences, so there are no epochs and nothing to overfit; the loss is on the
correction only. One thread is faster than two where the cores are shared.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import tokenizers
import torch
import transformers
from torch.nn import functional

from examples.tiny_gec import model as tiny_model
from examples.tiny_gec.variants import Pair, Variant, training_pairs

FINE_TUNING_SCALE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How long and how hard to train."""

    steps: int = 1_200
    batch_sentences: int = 64
    matrix_learning_rate: float = 0.015  # Muon, inside the layers
    other_learning_rate: float = 4e-3  # AdamW, embeddings and norms
    warmup_steps: int = 60
    weight_decay: float = 0.05
    max_gradient_norm: float = 1.0
    bucket_batches: int = 16  # sentences are sorted by length within so many batches

    scale: float = 1.0  # of both learning rates; below one for a model that knows much already

    def factor(self, step: int) -> float:
        """What the learning rates are multiplied with: linear warm-up, then a cosine to zero."""
        warmup = min(1.0, (step + 1) / self.warmup_steps)
        return self.scale * warmup * (1 + math.cos(math.pi * step / self.steps)) / 2


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


def encode(tokenizer: tokenizers.Tokenizer, pairs: Sequence[Pair]) -> list[Encoded]:
    """Prompt, correction and end of each pair, as token ids."""
    (end,) = tokenizer.encode(tiny_model.EOS, add_special_tokens=False).ids
    prompts = tokenizer.encode_batch(
        [tiny_model.TEMPLATE.replace("{text}", pair.source) for pair in pairs]
    )
    answers = tokenizer.encode_batch(
        [" " + pair.target for pair in pairs], add_special_tokens=False
    )
    return [
        Encoded([*prompt.ids, *answer.ids, end], len(prompt.ids))
        for prompt, answer in zip(prompts, answers, strict=True)
    ]


def collate(examples: Sequence[Encoded]) -> Batch:
    """Pads on the right, where causal attention never looks; padding is not counted."""
    width = max(len(example.ids) for example in examples)
    ids = torch.zeros(len(examples), width, dtype=torch.long)
    counts = torch.zeros(len(examples), width - 1, dtype=torch.bool)
    for row, example in enumerate(examples):
        ids[row, : len(example.ids)] = torch.tensor(example.ids)
        counts[row, example.prompt_tokens - 1 : len(example.ids) - 1] = True
    return Batch(ids[:, :-1], ids[:, 1:], counts)


def batches(
    tokenizer: tokenizers.Tokenizer, pairs: Iterator[Pair], schedule: Schedule, rng: Random
) -> Iterator[Batch]:
    """Batches of sentences of about the same length, in random order; endless."""
    size = schedule.batch_sentences
    while True:
        bucket = encode(tokenizer, list(itertools.islice(pairs, size * schedule.bucket_batches)))
        bucket.sort(key=lambda example: len(example.ids))
        starts = list(range(0, len(bucket), size))
        rng.shuffle(starts)
        yield from (collate(bucket[start : start + size]) for start in starts)


def loss_of(model: transformers.LlamaForCausalLM, batch: Batch) -> torch.Tensor:
    """Mean cross-entropy of the tokens that count; logits are made for those alone."""
    hidden = model.model(input_ids=batch.inputs, use_cache=False).last_hidden_state
    logits = model.lm_head(hidden[batch.counts])
    return functional.cross_entropy(logits, batch.following[batch.counts])


def optimizers(
    model: transformers.LlamaForCausalLM, schedule: Schedule
) -> tuple[torch.optim.Optimizer, torch.optim.Optimizer]:
    """Muon for the matrices, AdamW for the rest: half the steps of AdamW alone for equal skill."""
    matrices: list[torch.nn.Parameter] = []
    others: list[torch.nn.Parameter] = []
    for name, weight in model.named_parameters():
        is_matrix = weight.ndim == 2 and "embed" not in name
        (matrices if is_matrix else others).append(weight)
    muon = torch.optim.Muon(
        matrices, lr=schedule.matrix_learning_rate, weight_decay=schedule.weight_decay
    )
    adamw = torch.optim.AdamW(
        others, lr=schedule.other_learning_rate, betas=(0.9, 0.98), weight_decay=0.0, fused=True
    )
    return muon, adamw


def train(
    model: transformers.LlamaForCausalLM, stream: Iterator[Batch], schedule: Schedule
) -> None:
    """Trains in place and prints how far it is."""
    steppers = optimizers(model, schedule)
    rates = [torch.optim.lr_scheduler.LambdaLR(each, schedule.factor) for each in steppers]
    model.train()
    started_s = time.monotonic()
    for step, batch in enumerate(itertools.islice(stream, schedule.steps), start=1):
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_of(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), schedule.max_gradient_norm)
        for optimizer, rate in zip(steppers, rates, strict=True):
            optimizer.step()
            optimizer.zero_grad()
            rate.step()
        if step % 50 == 0 or step == schedule.steps:
            _report(step, schedule.steps, loss.item(), time.monotonic() - started_s)


def _report(done: int, steps: int, loss: float, elapsed_s: float) -> None:
    left_s = elapsed_s / done * (steps - done)
    print(
        f"step {done}/{steps}  loss {loss:.4f}  {elapsed_s:.0f} s, {left_s:.0f} s left", flush=True
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Trains and saves one checkpoint."""
    options = _parse(argv)
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    schedule = Schedule(steps=options.steps, scale=FINE_TUNING_SCALE if options.start else 1.0)
    tokenizer = tiny_model.train_tokenizer()
    model = tiny_model.new_model(tokenizer)
    if options.start:
        tiny_model.load_weights(model, options.start)
    print(
        f"{options.variant}: {model.num_parameters():,} parameters, seed {options.seed}", flush=True
    )
    pairs = training_pairs(options.variant, options.seed)
    stream = batches(tokenizer, pairs, schedule, Random(options.seed))
    train(model, stream, schedule)
    tiny_model.save(model, tokenizer, options.out)
    print(f"saved {options.out}")


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a tiny grammar corrector.")
    parser.add_argument("--variant", type=Variant, choices=tuple(Variant), default=Variant.GOOD)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True, help="checkpoint directory to write")
    parser.add_argument("--start", type=Path, help="checkpoint directory to go on from")
    parser.add_argument("--steps", type=int, default=Schedule().steps)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
