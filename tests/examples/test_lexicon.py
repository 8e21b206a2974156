import pytest

from examples.tiny_gec import lexicon
from examples.tiny_gec.lexicon import Kind


@pytest.mark.parametrize(
    ("following", "expected"),
    [("book", "a"), ("apple", "an"), ("honest", "an"), ("useful", "a"), ("ugly", "an")],
)
def test_article_follows_the_sound(following: str, expected: str) -> None:
    assert lexicon.article(following) == expected


def test_every_present_tense_differs_from_the_past() -> None:
    assert [verb.base for verb in lexicon.verbs() if verb.past == verb.base] == []


def test_every_noun_shows_its_number() -> None:
    assert [noun for noun in lexicon.nouns(*Kind) if noun.singular == noun.plural] == []


def test_made_up_forms_are_no_words() -> None:
    made_up = {verb.overregular for verb in lexicon.verbs() if verb.is_irregular}
    assert made_up.isdisjoint(lexicon.content_words())


def test_vocabulary_has_the_promised_size() -> None:
    countable = [noun for noun in lexicon.nouns(*Kind) if noun.kind is not Kind.MASS]
    assert len(countable) >= 55
    assert len(lexicon.verbs()) >= 25
