from examples.tiny_gec import lexicon, spelling


def test_each_slip_is_near_its_word_and_near_no_other() -> None:
    near = {known: spelling.edits(known) for known in lexicon.known_words()}
    for text, slips in list(spelling.slips().items())[::10]:
        for slip in slips:
            assert [known for known, around in near.items() if slip in around] == [text]


def test_slips_are_no_words_themselves() -> None:
    slips = {slip for found in spelling.slips().values() for slip in found}
    assert slips.isdisjoint(lexicon.known_words() | {*lexicon.OTHER_WORDS})


def test_the_first_letter_stays() -> None:
    assert all(slip[0] == text[0] for text, found in spelling.slips().items() for slip in found)


def test_almost_every_long_word_can_be_misspelled() -> None:
    long = {text for text in lexicon.content_words() if len(text) >= spelling.MIN_LENGTH}
    assert len(spelling.slips()) >= 0.98 * len(long)


def test_edits_are_one_step_away() -> None:
    around = spelling.edits("cat")
    assert {"at", "act", "cut", "chat", "cats"} <= around
    assert {"cat", "tac", "c"}.isdisjoint(around)
