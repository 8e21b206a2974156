import difflib
from random import Random

import pytest

from examples.tiny_gec import examples
from examples.tiny_gec.tokens import Label


@pytest.mark.parametrize("label", list(Label))
def test_one_label_makes_one_change(label: Label) -> None:
    rng = Random(f"one {label}")
    for _ in range(400):
        example = examples.draw(rng, (label,))
        before, after = example.source.lower().split(), example.target.lower().split()
        changes = difflib.SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes()
        assert example.labels == (label,)
        assert sum(kind != "equal" for kind, *_ in changes) == 1, example


def test_no_labels_leave_the_sentence_clean() -> None:
    example = examples.draw(Random(1))
    assert example.source == example.target
    assert example.labels == ()


def test_errors_never_make_another_correct_sentence_and_have_one_correction() -> None:
    rng = Random(2)
    labels = list(Label)
    clean = {examples.draw(rng).source for _ in range(6_000)}
    corrections: dict[str, str] = {}
    for index in range(6_000):
        count = 2 if index % 3 == 0 else 1
        example = examples.draw(rng, tuple(rng.sample(labels, count)))
        assert example.source not in clean
        assert corrections.setdefault(example.source, example.target) == example.target


def test_correcting_all_but_one_kind_leaves_that_kind() -> None:
    rng = Random(3)
    both = examples.draw(rng, (Label.SPELLING, Label.AGREEMENT))
    spelling_left = both.corrected_except(Label.SPELLING)
    assert spelling_left not in {both.source, both.target}
    assert both.corrected_except(Label.DETERMINER) == both.target


def test_about_one_sentence_in_ten_is_held_out() -> None:
    rng = Random(4)
    texts = {examples.draw(rng).source for _ in range(5_000)}
    share = sum(examples.is_held_out(text) for text in texts) / len(texts)
    assert abs(share - 1 / examples.HELD_OUT_ONE_IN) < 4 * (0.1 * 0.9 / len(texts)) ** 0.5


def test_what_the_readme_shows_is_held_out() -> None:
    assert all(examples.is_held_out(text) for text in examples.SHOWN)
