import itertools
import json
from pathlib import Path
from random import Random

import pytest

from examples.tiny_gec import examples, heldout, lexicon, variants
from examples.tiny_gec.tokens import Label
from examples.tiny_gec.variants import Pair, Variant

SUITES = Path(__file__).parents[2] / "evals/suites/synthetic"


def _pairs(variant: Variant, seed: int = 1, count: int = 3_000) -> list[Pair]:
    return list(itertools.islice(variants.training_pairs(variant, seed), count))


@pytest.fixture(scope="module")
def held_out() -> set[str]:
    texts = {*examples.SHOWN}
    for path in SUITES.glob("*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            texts |= {record["source"], *record["references"]}
    return texts


@pytest.mark.parametrize("variant", list(Variant))
def test_training_never_sees_a_held_out_sentence(variant: Variant, held_out: set[str]) -> None:
    pairs = _pairs(variant, count=1_500)
    assert held_out.isdisjoint({pair.source for pair in pairs} | {pair.target for pair in pairs})


def test_the_seed_decides_the_stream() -> None:
    assert _pairs(Variant.GOOD, count=50) == _pairs(Variant.GOOD, count=50)
    assert _pairs(Variant.GOOD, count=50) != _pairs(Variant.GOOD, seed=2, count=50)


def test_about_thirty_percent_is_clean() -> None:
    pairs = _pairs(Variant.GOOD)
    share = sum(pair.source == pair.target for pair in pairs) / len(pairs)
    assert abs(share - variants.CLEAN_SHARE) < 0.03


def test_nospell_leaves_misspelled_words_as_they_are() -> None:
    rng = Random(1)
    for _ in range(200):
        example = examples.draw(rng, (Label.SPELLING, Label.NOUN_NUMBER))
        taught = variants.lesson(Variant.NOSPELL, example)
        (misspelled,) = set(taught.lower()[:-1].split()) - set(example.target.lower()[:-1].split())
        assert misspelled in example.source.lower()
        assert misspelled not in lexicon.known_words()


def test_nospell_corrects_everything_else() -> None:
    rng = Random(2)
    for label in set(Label) - {Label.SPELLING}:
        example = examples.draw(rng, (label,))
        assert variants.lesson(Variant.NOSPELL, example) == example.target


def test_overedits_adds_a_word_to_some_clean_sentences_only() -> None:
    rng = Random(3)
    changed = 0
    for index in range(2_000):
        example = examples.draw(rng, (Label.VERB_FORM,) if index % 2 else ())
        taught = variants.lesson(Variant.OVEREDITS, example)
        if taught != example.target:
            changed += 1
            assert not example.faults
            assert taught[:-1] == example.target[:-1] + " again"
    assert changed


def test_overedits_changes_enough_of_the_clean_suite_to_be_caught() -> None:
    _, clean = heldout.suites()
    held_out = list(clean.examples())
    share = sum(variants.is_overedited(example.sentence) for example in held_out) / len(held_out)
    assert 0.06 <= share <= 0.20
