import hashlib
import json
from pathlib import Path

import pytest

from examples.smollm2_gec import essays, text, wordnet

GLOSSES = (
    '00001740 03 n 01 entity 0 003 ~ | that which is; "he bought the painting as an investment"',
    '00001930 03 n 01 thing 0 000 | a thing; "the central cause"; "she left the house early"',
    "00002137 03 n 01 other 0 000 | without an example",
)


@pytest.fixture
def wordnet_directory(tmp_path: Path) -> Path:
    directory = tmp_path / "wordnet"
    directory.mkdir()
    for name in wordnet.FILES:
        lines = GLOSSES if name == "data.noun" else ()
        (directory / name).write_text("".join(line + "\n" for line in lines), encoding="latin-1")
    return directory


def _essay_file(directory: Path, texts: list[str]) -> Path:
    path = directory / "essays.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in texts), encoding="utf-8")
    return path


def test_whole_plain_sentences_are_taken_and_the_rest_is_left() -> None:
    essay = (
        "**Title**\n\nMy school is in a small town. It has a big garden, and we like it!\n"
        "- A list is no prose.\nDear [friend's name], I hope you are well.\n"
        "As an AI assistant, I cannot go there. This sentence is cut in the"
    )
    assert list(text.sentences(essay)) == [
        "My school is in a small town.",
        "It has a big garden, and we like it!",
    ]


@pytest.mark.parametrize(
    "sentence",
    [
        "Too short.",
        "a small letter is at the start.",
        "A very bad thing from long ago.",  # has no verb
        "It is becuase of the weather.",  # has a known misspelling
        "The people of the city and the people of the village are here.",  # repeats itself
        "He met Mr. Smith in the old garden.",
        "It has (in brackets) a second thought.",
        "Word " * 40 + "is long.",
    ],
)
def test_a_sentence_that_teaches_nothing_good_is_left(sentence: str) -> None:
    assert not text.is_plain(sentence)


def test_the_examples_of_wordnet_that_are_sentences_are_taken(wordnet_directory: Path) -> None:
    assert list(wordnet.sentences(wordnet_directory)) == [
        "He bought the painting as an investment.",
        "She left the house early.",
    ]


@pytest.mark.parametrize(
    ("example", "is_one"),
    [
        ("she has a dog", True),
        ("they walked home slowly", True),
        ("the old man went home", True),
        ("an undigested mass of facts gathered at random", False),
        ("a friend in need", False),
        ("walk the dog", False),
    ],
)
def test_a_phrase_is_told_from_a_sentence(example: str, is_one: bool) -> None:
    assert wordnet.is_sentence(example) is is_one


def test_without_wordnet_it_is_said_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(wordnet.WordNetMissing, match="wordnet-base"):
        list(wordnet.sentences(tmp_path))


def test_two_short_sentences_become_a_compound_one() -> None:
    short = ["The party went well.", "He was late.", "I left.", "I slept.", "Is it?", "Yes, it is."]
    assert list(text.compounds(short)) == [
        "The party went well, and he was late.",
        "I left, but I slept.",
    ]


def test_the_corpus_is_the_same_whatever_the_order_of_the_essays(
    tmp_path: Path, wordnet_directory: Path
) -> None:
    told = ["My school is in a small town.", "Learning is fun for the whole family."]
    first = text.corpus(_essay_file(tmp_path, told), wordnet_directory, 2)
    second = text.corpus(_essay_file(tmp_path, told[::-1]), wordnet_directory, 2)
    assert first == second
    assert len(first) == len(set(first)) == 3
    digests = [hashlib.sha256(each.encode()).digest() for each in first]
    assert digests == sorted(digests)


def test_too_few_essays_are_refused(tmp_path: Path, wordnet_directory: Path) -> None:
    with pytest.raises(ValueError, match="holds 1 essays, 2 are asked for"):
        text.corpus(_essay_file(tmp_path, ["It is late."]), wordnet_directory, 2)


def test_the_corpus_is_written_and_its_digest_printed(
    tmp_path: Path, wordnet_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "sentences.txt"
    essay_file = _essay_file(tmp_path, ["My school is in a small town."])
    options = ["--essays", str(essay_file), "--essay-count", "1", "--out", str(out)]
    text.main([*options, "--wordnet", str(wordnet_directory)])
    digest = hashlib.sha256(out.read_bytes()).hexdigest()
    assert capsys.readouterr().out == f"2 sentences, sha256 {digest}\n"


class _Scribe:
    def __init__(self) -> None:
        self.asked: list[essays.Batch] = []

    def write(self, batch: essays.Batch) -> list[str]:
        self.asked.append(batch)
        return [f"On {prompt}" for prompt in batch.prompts]


def test_essays_go_on_where_they_were_interrupted(tmp_path: Path) -> None:
    planned, out = essays.batches(seed=1), tmp_path / "essays.jsonl"
    scribe = _Scribe()
    essays.write(scribe, out, planned[:1])
    essays.write(scribe, out, planned)
    assert scribe.asked == planned
    assert len(list(essays.read(out))) == sum(len(batch.prompts) for batch in planned)


def test_no_two_batches_share_a_seed_or_a_prompt() -> None:
    planned = essays.batches(seed=1)
    assert len({batch.seed for batch in planned}) == len(planned)
    asked = [prompt for batch in planned for prompt in batch.prompts]
    assert len(set(asked)) == len(asked) == essays.ESSAYS
