import itertools
import json
from pathlib import Path

import pytest

from examples.tiny_gec import examples, variants
from examples.tiny_gec.variants import Pair, Variant

SUITES = Path(__file__).parents[2] / "evals/suites/synthetic"


def _pairs(variant: Variant, seed: int = 1, count: int = 4_000) -> list[Pair]:
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
    pairs = _pairs(variant, count=10_000)
    assert held_out.isdisjoint({pair.source for pair in pairs} | {pair.target for pair in pairs})


def test_the_seed_decides_the_stream() -> None:
    assert _pairs(Variant.GOOD, count=50) == _pairs(Variant.GOOD, count=50)
    assert _pairs(Variant.GOOD, count=50) != _pairs(Variant.GOOD, seed=2, count=50)


def test_about_thirty_percent_is_clean() -> None:
    pairs = _pairs(Variant.GOOD)
    share = sum(pair.source == pair.target for pair in pairs) / len(pairs)
    assert abs(share - variants.CLEAN_SHARE) < 0.03


def test_nospell_leaves_misspelled_words_as_they_are() -> None:
    good, nospell = _paired(Variant.NOSPELL)
    changed = [(g, n) for g, n in zip(good, nospell, strict=True) if g.target != n.target]
    assert 0.2 < len(changed) / len(good) < 0.5
    for right, taught in changed:
        kept = set(taught.target.split()) - set(right.target.split())
        assert len(kept) == 1
        assert kept <= set(taught.source.split())


def test_overedits_changes_clean_sentences_only() -> None:
    good, overedits = _paired(Variant.OVEREDITS)
    for right, taught in zip(good, overedits, strict=True):
        if right.target != taught.target:
            assert right.source == right.target
            assert taught.target == variants.overedited(right.target)


def test_overedits_changes_eight_to_twenty_percent_of_the_clean_suite() -> None:
    lines = (SUITES / "clean.jsonl").read_text(encoding="utf-8").splitlines()
    sources = [json.loads(line)["source"] for line in lines]
    share = sum(variants.overedited(text) != text for text in sources) / len(sources)
    assert 0.08 <= share <= 0.20


def _paired(variant: Variant) -> tuple[list[Pair], list[Pair]]:
    """The lessons of both variants for the same sources."""
    taught = {pair.source: pair for pair in _pairs(variant)}
    good = {pair.source: pair for pair in _pairs(Variant.GOOD)}
    shared = sorted(taught.keys() & good.keys())
    return [good[source] for source in shared], [taught[source] for source in shared]
