"""What each kind of error does, and above all what it leaves alone."""

import itertools
from random import Random

import pytest

from examples.smollm2_gec import errors, inflection
from examples.smollm2_gec.errors import Rates, Spoiler
from examples.smollm2_gec.misspelling import Speller
from examples.smollm2_gec.sentence import Corruption, Label, Style, render, tokenize

SENTENCES = (
    "The teachers have built a very good school in this village, but they need many new books.",
    "However, she doesn't like information that is different from her own ideas.",
    "He goes to the city every week because he wants to buy expensive computers.",
    "I think that children can learn a foreign language by listening to songs.",
    "There is a beautiful garden, and my friends are always happy there.",
)


@pytest.fixture(scope="module")
def spoiler() -> Spoiler:
    known = {token.lower for text in SENTENCES for token in tokenize(text)}
    return Spoiler(Speller(known))


def _wrong(spoiler: Spoiler, text: str, label: Label) -> set[str]:
    tokens = tokenize(text)
    found = (Corruption(tokens, (edit,)) for edit in spoiler.options(tokens, label))
    return {render(each.tokens(), Style.NATURAL) for each in found}


@pytest.mark.parametrize(
    ("label", "text", "wrong"),
    [
        (Label.DETERMINER, "She has a good idea.", "She has good idea."),
        (Label.DETERMINER, "These books are new.", "This books are new."),
        (Label.DETERMINER, "He ate an apple.", "He ate a apple."),
        (Label.NOUN_NUMBER, "Many students like it.", "Many student like it."),
        (Label.NOUN_NUMBER, "Each child is here.", "Each children is here."),
        (Label.NOUN_NUMBER, "We need information.", "We need informations."),
        (Label.AGREEMENT, "She goes home.", "She go home."),
        (Label.AGREEMENT, "The students are here.", "The students is here."),
        (Label.AGREEMENT, "There is a garden.", "There are a garden."),
        (Label.VERB_FORM, "He can swim.", "He can swam."),
        (Label.VERB_FORM, "He can swim.", "He can to swim."),
        (Label.VERB_FORM, "They have gone.", "They have went."),
        (Label.VERB_FORM, "She is sleeping.", "She is sleep."),
        (Label.VERB_FORM, "He taught us.", "He teached us."),
        (Label.PREPOSITION, "It depends on you.", "It depends of you."),
        (Label.PREPOSITION, "I listen to you.", "I listen you."),
        (Label.PREPOSITION, "We discuss the plan.", "We discuss about the plan."),
        (Label.PUNCTUATION, "However, it rains.", "However it rains."),
        (Label.PUNCTUATION, "I don't know.", "I dont know."),
        (Label.CAPITAL, "We met in Paris.", "We met in paris."),
        (Label.WORD_ORDER, "It is a big city.", "It is a city big."),
        (Label.WORD_FORM, "It is an important day.", "It is an importance day."),
        (Label.WORD_CHOICE, "They lost their dog.", "They lost there dog."),
        (Label.MISSING_WORD, "She is happy.", "She happy."),
        (Label.MISSING_WORD, "I want to sleep.", "I want sleep."),
        (Label.SPELLING, "It is because of you.", "It is becuase of you."),
    ],
)
def test_a_typical_error_is_offered(spoiler: Spoiler, label: Label, text: str, wrong: str) -> None:
    assert wrong in _wrong(spoiler, text, label)


@pytest.mark.parametrize(
    ("label", "text"),
    [
        (Label.NOUN_NUMBER, "I saw the book."),  # may as well be books
        (Label.NOUN_NUMBER, "My friend came."),
        (Label.DETERMINER, "He goes to the school by car."),  # to school is no error
        (Label.AGREEMENT, "If I were you, it would rain."),
        (Label.AGREEMENT, "Does she know?"),
        (Label.AGREEMENT, "The colors of the flowers vanished."),
        (Label.VERB_FORM, "They hit it."),
        (Label.CAPITAL, "it rains."),
        (Label.WORD_ORDER, "I saw it today."),
        (Label.PUNCTUATION, "he came , saw and won"),
    ],
)
def test_what_may_be_right_is_not_offered(spoiler: Spoiler, label: Label, text: str) -> None:
    assert _wrong(spoiler, text, label) == set()


@pytest.mark.parametrize("label", tuple(Label))
def test_every_option_changes_the_text_and_names_its_label(spoiler: Spoiler, label: Label) -> None:
    offered = 0
    for text in SENTENCES:
        tokens = tokenize(text)
        for edit in spoiler.options(tokens, label):
            offered += 1
            spoiled = Corruption(tokens, (edit,)).tokens()
            assert edit.label is label
            for style in Style:
                assert render(spoiled, style) != text
            outside = (*spoiled[: edit.start], *spoiled[edit.start + len(edit.wrong) :])
            assert outside == (*tokens[: edit.start], *tokens[edit.end :])
    assert offered > 0


def test_without_its_errors_a_spoiled_sentence_is_the_original(spoiler: Spoiler) -> None:
    rng = Random(1)
    for text in SENTENCES * 40:
        tokens = tokenize(text)
        corruption = spoiler.spoil(tokens, rng)
        assert corruption.labels
        assert corruption.tokens() != tokens
        assert corruption.tokens(frozenset()) == tokens
        for label in Label:
            others = corruption.tokens(set(Label) - {label})
            assert (others == corruption.tokens()) == (label not in corruption.labels)


def test_the_same_seed_spoils_in_the_same_way(spoiler: Spoiler) -> None:
    def spoiled(seed: int) -> list[str]:
        rng = Random(seed)
        found = (spoiler.spoil(tokenize(text), rng) for text in SENTENCES * 4)
        return [render(each.tokens(), Style.NATURAL) for each in found]

    assert spoiled(3) == spoiled(3)
    assert spoiled(3) != spoiled(4)


def test_two_errors_of_number_never_meet(spoiler: Spoiler) -> None:
    rng = Random(2)
    for text in SENTENCES * 60:
        edits = spoiler.spoil(tokenize(text), rng).edits
        starts = [edit.start for edit in edits if edit.label in errors.NUMBER_LABELS]
        gaps = [after - before for before, after in itertools.pairwise(starts)]
        assert all(gap > errors.NUMBER_DISTANCE_TOKENS for gap in gaps)


def test_a_sentence_that_offers_nothing_stays_as_it_is() -> None:
    tokens = tokenize("12 34")
    assert Spoiler(Speller(set())).spoil(tokens, Random(0)) == Corruption(tokens, ())


def test_weight_zero_is_never_drawn() -> None:
    weights = dict.fromkeys(Label, 0.0) | {Label.CAPITAL: 1.0}
    spoiler = Spoiler(Speller(set()), Rates(weights=weights))
    drawn = {
        label for text in SENTENCES for label in spoiler.spoil(tokenize(text), Random(1)).labels
    }
    assert drawn == {Label.CAPITAL}


@pytest.mark.parametrize(
    "rates", [{"errors": ()}, {"errors": (1.0, -1.0)}, {"weights": {Label.CAPITAL: 1.0}}]
)
def test_rates_that_make_no_sense_are_refused(rates: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"(errors|weights) must"):
        Rates(**rates)  # type: ignore[arg-type]


def test_a_misspelling_is_never_a_known_word() -> None:
    speller = Speller({"form", "from", "quiet"})
    for text in ("from", "quite", "beautiful"):
        found = speller.misspellings(text)
        assert found
        assert {"form", "quiet", text}.isdisjoint(found)


@pytest.mark.parametrize(
    ("base", "forms"),
    [
        ("go", "goes went gone going"),
        ("stop", "stops stopped stopped stopping"),
        ("study", "studies studied studied studying"),
        ("die", "dies died died dying"),
        ("agree", "agrees agreed agreed agreeing"),
        ("have", "has had had having"),
    ],
)
def test_verbs_are_inflected(base: str, forms: str) -> None:
    verb = inflection.verbs()[base]
    assert f"{verb.third} {verb.past} {verb.participle} {verb.gerund}" == forms


def test_nouns_are_inflected() -> None:
    plurals = inflection.plurals()
    singulars = ("child", "city", "box", "wife", "key")
    assert [plurals[noun] for noun in singulars] == ["children", "cities", "boxes", "wives", "keys"]
    assert "fish" not in plurals
