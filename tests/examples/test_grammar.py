import re
from random import Random

from examples.tiny_gec import grammar, lexicon
from examples.tiny_gec.tokens import Label

SAMPLE = 4_000


def _texts(seed: int, count: int = SAMPLE) -> list[str]:
    rng = Random(seed)
    return [grammar.sentence(rng).text for _ in range(count)]


def test_the_seed_decides_the_sentences() -> None:
    assert _texts(1, 200) == _texts(1, 200)
    assert _texts(1, 200) != _texts(2, 200)


def test_sentences_are_written_as_sentences() -> None:
    for text in _texts(3):
        assert re.fullmatch(r"[A-Z][a-zA-Z]*( [a-zA-Z]+)+[.?]", text), text


def test_every_word_is_in_the_lexicon() -> None:
    names = {name.lower() for name in lexicon.NAMES}
    known = lexicon.known_words() | names | {"and", "night"}
    used = {word.lower() for text in _texts(4) for word in text[:-1].split()}
    assert used <= known


def test_articles_fit_the_next_word() -> None:
    for text in _texts(5):
        for article, following in re.findall(r"\b([Aa]n?) (\w+)", text):
            assert article.lower() == ("a" if _is_period(following) else lexicon.article(following))


def _is_period(text: str) -> bool:
    return any(text in period for period in lexicon.PERIODS)


def test_the_family_of_the_shown_sentence_is_generated_with_both_of_its_faults() -> None:
    rng = Random(6)
    family = re.compile(r"(He|She|Anna|Tom) \w+s to school every \w+\.")
    sentences = (grammar.sentence(rng) for _ in range(30_000))
    found = [sentence for sentence in sentences if family.fullmatch(sentence.text)]
    assert found
    for sentence in found:
        labels = {token.text: {fault.label for fault in token.faults} for token in sentence.tokens}
        verb, period = sentence.tokens[1].text, sentence.tokens[-1].text
        assert labels[verb] == {Label.AGREEMENT}
        assert labels[period] == {Label.NOUN_NUMBER}


def test_a_fault_always_changes_its_word() -> None:
    rng = Random(7)
    for _ in range(SAMPLE):
        for token in grammar.sentence(rng).tokens:
            assert token.text not in {fault.text for fault in token.faults}


def test_words_of_an_agreement_group_can_fail_only_one_at_a_time() -> None:
    rng = Random(8)
    for _ in range(SAMPLE):
        tokens = grammar.sentence(rng).tokens
        for index, token in enumerate(tokens):
            agrees = any(fault.label is Label.AGREEMENT for fault in token.faults)
            assert not agrees or token.group, (tokens, index)
