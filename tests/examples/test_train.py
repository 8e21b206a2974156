import json
from pathlib import Path
from random import Random

import pytest
import tokenizers
import torch

from examples.tiny_gec import model as tiny_model
from examples.tiny_gec import train
from examples.tiny_gec.train import Encoded, Schedule
from examples.tiny_gec.variants import Pair, Variant, training_pairs

CHECKPOINT = Path(__file__).parents[2] / "examples/checkpoints/tiny-gec-1"


@pytest.fixture(scope="module")
def tokenizer() -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_file(str(CHECKPOINT / "tokenizer.json"))


def test_learning_rate_warms_up_and_ends_at_zero() -> None:
    schedule = Schedule(steps=100, warmup_steps=10)
    factors = [schedule.factor(step) for step in range(101)]
    assert factors[0] == pytest.approx(0.1)
    assert max(factors) == factors[9]
    assert factors[100] == pytest.approx(0)


def test_an_encoded_pair_is_what_the_engine_will_see(tokenizer: tokenizers.Tokenizer) -> None:
    (encoded,) = train.encode(tokenizer, [Pair("He go.", "He goes.")])
    prompt = tokenizer.decode(encoded.ids[: encoded.prompt_tokens], skip_special_tokens=False)
    answer = tokenizer.decode(encoded.ids[encoded.prompt_tokens :], skip_special_tokens=False)
    assert prompt == "<s>Correct: He go.\nFixed:"
    assert answer == " He goes.</s>"


def test_the_loss_counts_the_correction_and_its_end_alone() -> None:
    batch = train.collate([Encoded([1, 2, 3, 4, 5], 3), Encoded([1, 2, 9], 2)])
    assert batch.following[batch.counts].tolist() == [4, 5, 9]
    assert batch.inputs.shape == batch.counts.shape == (2, 4)


def test_batches_hold_sentences_of_similar_length(tokenizer: tokenizers.Tokenizer) -> None:
    schedule = Schedule(batch_sentences=8, bucket_batches=4)
    pairs = training_pairs(Variant.GOOD, 1)
    stream = train.batches(tokenizer, pairs, schedule, Random(1))
    for _ in range(8):
        batch = next(stream)
        assert batch.inputs.shape[0] == 8
        assert batch.counts.any(dim=1).all()


@pytest.mark.slow
def test_training_lowers_the_loss_and_saves_a_whole_checkpoint(
    tokenizer: tokenizers.Tokenizer, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = tiny_model.new_model(tokenizer)
    schedule = Schedule(steps=12, batch_sentences=16, warmup_steps=2)
    stream = train.batches(tokenizer, training_pairs(Variant.GOOD, 1), schedule, Random(1))
    probe = next(stream)
    before = train.loss_of(model, probe).item()
    train.train(model, stream, schedule)
    assert train.loss_of(model, probe).item() < before - 1
    tiny_model.save(model, tokenizer, tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"out"}
    prompt = json.loads((tmp_path / "out/prompt.json").read_text(encoding="utf-8"))
    assert prompt["template"] == tiny_model.TEMPLATE


@pytest.mark.slow
def test_the_committed_tokenizer_is_what_training_it_again_gives(
    tokenizer: tokenizers.Tokenizer,
) -> None:
    assert tiny_model.train_tokenizer().to_str() == tokenizer.to_str()
