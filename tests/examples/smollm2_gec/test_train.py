from pathlib import Path
from random import Random

import pytest
import torch
import transformers

from examples.smollm2_gec import checkpoint, lora, pairs, train
from examples.smollm2_gec.pairs import Lessons, Pair
from examples.smollm2_gec.train import Encoded, Schedule, Trainer

TINY = Path(__file__).parents[3] / "examples/checkpoints/tiny-gec-1"  # any small Llama will do
SENTENCES = (
    "She goes to school every week.",
    "The teachers are very happy because the children have learned a new song.",
    "They don't like the weather, but he can't change it.",
)


def test_more_than_a_third_of_the_pairs_is_to_be_left_alone() -> None:
    bucket = Lessons(SENTENCES, seed=1).bucket(0)
    assert len(bucket) == pairs.BUCKET_PAIRS
    share = sum(pair.source == pair.target for pair in bucket) / len(bucket)
    assert share == pytest.approx(pairs.CLEAN_SHARE, abs=0.07)


def test_both_styles_are_taught_and_source_and_target_share_one() -> None:
    for pair in Lessons(SENTENCES[2:], seed=1).bucket(0):
        is_tokenized = pair.target == "They do n't like the weather , but he ca n't change it ."
        assert is_tokenized or pair.target == SENTENCES[2]
        assert (" ," in pair.source or " it ." in pair.source) == is_tokenized or (
            "," not in pair.source
        )


def test_a_bucket_is_the_same_each_time_and_unlike_the_next() -> None:
    lessons = Lessons(SENTENCES, seed=1)
    assert lessons.bucket(1) == Lessons(SENTENCES, seed=1).bucket(1)
    assert lessons.bucket(1) != lessons.bucket(2)
    assert lessons.bucket(1) != Lessons(SENTENCES, seed=2).bucket(1)


def test_learning_rate_warms_up_and_ends_at_zero() -> None:
    schedule = Schedule()
    factors = [schedule.factor(step / 100) for step in range(101)]
    assert factors[0] < 0.1 < factors[5]
    assert factors[5:] == sorted(factors[5:], reverse=True)
    assert factors[100] == pytest.approx(0)


def test_an_encoded_pair_is_what_the_engine_will_see() -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(TINY)
    encoded = train.encode(tokenizer, Pair("He go.", "He goes."))
    prompt, answer = encoded.ids[: encoded.prompt_tokens], encoded.ids[encoded.prompt_tokens :]
    asked = tokenizer(checkpoint.TEMPLATE.replace("{text}", "He go.")).input_ids
    assert prompt == asked
    assert tokenizer.decode(answer) == " He goes.\n"


def test_batches_keep_to_their_size_and_lose_nothing() -> None:
    rng = Random(1)
    examples = [Encoded(list(range(1, rng.randint(10, 60))), 4) for _ in range(100)]
    planned = train.batches(examples, 256, rng)
    assert sum(len(batch.inputs) for batch in planned) == len(examples)
    assert all((batch.inputs.shape[1] + 1) * len(batch.inputs) <= 256 for batch in planned)


def test_the_loss_counts_the_correction_and_its_end_alone() -> None:
    batch = train.collate([Encoded([1, 2, 3, 4, 5], 3), Encoded([1, 2, 9], 2)])
    assert batch.following[batch.counts].tolist() == [4, 5, 9]


def _trained(out: Path, buckets: range, schedule: Schedule) -> dict[str, torch.Tensor]:
    trainer = Trainer(TINY, schedule, seed=1)
    trainer.resume(out)
    for number in buckets:
        assert trainer.buckets_done == number
        list(trainer.learn([Pair(text.lower(), text) for text in SENTENCES]))
        out.mkdir(exist_ok=True)
        trainer.save(out)
    return lora.load(out / "adapter")[0]


def test_an_interrupted_run_ends_as_one_that_was_not(tmp_path: Path) -> None:
    schedule = Schedule(buckets=2)
    whole = _trained(tmp_path / "whole", range(2), schedule)
    _trained(tmp_path / "parts", range(1), schedule)
    parts = _trained(tmp_path / "parts", range(1, 2), schedule)
    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_a_run_of_another_seed_is_not_gone_on_with(tmp_path: Path) -> None:
    schedule = Schedule(buckets=2)
    _trained(tmp_path, range(1), schedule)
    with pytest.raises(ValueError, match="choose another --out"):
        Trainer(TINY, schedule, seed=2).resume(tmp_path)


def test_training_lowers_the_loss(tmp_path: Path) -> None:
    trainer = Trainer(TINY, Schedule(buckets=6), seed=1)
    lesson = [Pair("zebra zebra", "quartz quartz")]
    losses = [loss for _ in range(6) for loss in trainer.learn(lesson)]
    assert losses[-1] < losses[0]
