import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.smollm2_gec.sentence import (
    Corruption,
    Edit,
    Label,
    Style,
    Token,
    deleted,
    inserted,
    render,
    replaced,
    tokenize,
)

TEXT = "Mary's dog doesn't bark, and I cannot say why."


def _texts(tokens: tuple[Token, ...]) -> list[str]:
    return [token.text for token in tokens]


def test_tokens_are_those_of_the_penn_treebank() -> None:
    assert render(tokenize(TEXT), Style.TOKENIZED) == (
        "Mary 's dog does n't bark , and I can not say why ."
    )


@pytest.mark.parametrize(
    "text", [TEXT, "It costs $1,000.50 (5%).", "We're well-known; they've won.", "Is it?"]
)
def test_natural_style_gives_the_text_back(text: str) -> None:
    assert render(tokenize(text), Style.NATURAL) == text


@given(st.lists(st.from_regex(r"[A-Za-z]{1,6}|[.,?!]", fullmatch=True), min_size=1))
def test_no_letter_is_lost(parts: list[str]) -> None:
    text = " ".join(parts)
    joined = "".join(_texts(tokenize(text)))
    assert joined == text.replace(" ", "")


def test_a_replacement_keeps_the_capital_and_adds_words() -> None:
    tokens = tokenize("They can go.")
    first = replaced(tokens, 0, "them", Label.WORD_CHOICE)
    last = replaced(tokens, 2, "to go", Label.VERB_FORM)
    spoiled = Corruption(tokens, (first, last)).tokens()
    assert render(spoiled, Style.NATURAL) == "Them can to go."


def test_what_is_left_of_a_deleted_first_word_starts_with_a_capital() -> None:
    tokens = tokenize("The dog barks.")
    edit = deleted(tokens, 0, Label.DETERMINER)
    assert render(Corruption(tokens, (edit,)).tokens(), Style.NATURAL) == "Dog barks."


def test_an_insertion_at_the_start_takes_the_capital_over() -> None:
    tokens = tokenize("Dogs bark.")
    edit = inserted(tokens, 0, "the", Label.DETERMINER)
    assert render(Corruption(tokens, (edit,)).tokens(), Style.NATURAL) == "The dogs bark."


def test_each_edit_can_be_put_back_on_its_own() -> None:
    tokens = tokenize("She goes to the school.")
    edits = (
        replaced(tokens, 1, "go", Label.AGREEMENT),
        deleted(tokens, 3, Label.DETERMINER),
    )
    corruption = Corruption(tokens, edits)
    one = corruption.tokens({Label.AGREEMENT})
    assert render(one, Style.NATURAL) == "She go to the school."
    assert corruption.tokens(frozenset()) == tokens


def test_edits_that_touch_are_refused() -> None:
    tokens = tokenize("She goes home.")
    both = [Edit(start=at, end=at + 1, wrong=(), label=Label.MISSING_WORD) for at in (0, 1)]
    with pytest.raises(ValueError, match="touching"):
        Corruption(tokens, tuple(both))
