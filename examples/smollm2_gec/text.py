"""Clean English sentences to spoil: what is taken, from where, and what is left out.

    python -m examples.smollm2_gec.text --essays essays.jsonl --out sentences.txt

Both sources allow the weights trained on them to be passed on: essays written by the base model,
and WordNet's example sentences. A sentence is taken if it is plain (letters, digits, common marks),
of a usual length, and new. The order is fixed by a hash of the text, so that the sources are mixed
and the file is the same whenever the sources are.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from examples.smollm2_gec import essays, misspelling, wordnet
from examples.smollm2_gec.sentence import lowered, tokenize

MIN_WORDS = 4
WORD = re.compile(r"[a-z]+")
MAX_WORDS = 28
PLAIN = re.compile(r"[A-Z][A-Za-z0-9 ,.'?!:;%$-]*[a-z0-9%'][.?!]")
END_OF_SENTENCE = re.compile(r"(?<=[a-z0-9,'][.?!])\s+(?=[A-Z])")
WORDNET_PER_ESSAY = 3  # compound sentences of WordNet for each one of the essays
JOINERS = (", and", ", but", " because", ", so", " when", " although")
ABBREVIATION = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|St|etc|e\.g|i\.e|vs|No|Jr|Inc|U\.S)\.")
# The base model speaking of itself or of its task.
SHOP_TALK = re.compile(r"\b(?:AI|assistant|SmolLM|Hugging|language model|essay|prompt|I'm sorry)\b")


def sentences(text: str) -> Iterator[str]:
    """The plain whole sentences of a text; headings, lists and a cut end are left out."""
    for line in text.splitlines():
        for sentence in END_OF_SENTENCE.split(line.strip()):
            if is_plain(sentence):
                yield sentence


def is_plain(sentence: str) -> bool:
    """Whether a sentence is one to learn from."""
    count = len(sentence.split())
    known_typos = misspelling.known_typos()
    return (
        MIN_WORDS <= count <= MAX_WORDS
        and PLAIN.fullmatch(sentence) is not None
        and not ABBREVIATION.search(sentence)
        and not SHOP_TALK.search(sentence)
        and not _repeats_itself(sentence)
        and any(wordnet.may_be_finite(word) for word in WORD.findall(sentence.lower()))
        and known_typos.isdisjoint(WORD.findall(sentence.lower()))
    )


def _repeats_itself(sentence: str) -> bool:
    """Whether three words in a row come twice, as small models do when they are lost."""
    told = sentence.lower().split()
    triples = list(zip(told, told[1:], told[2:], strict=False))
    return len(set(triples)) < len(triples)


def mixed(found: Iterable[str]) -> list[str]:
    """Each sentence once, in an order that only the sentences decide."""
    return sorted(set(found), key=lambda text: hashlib.sha256(text.encode()).digest())


def corpus(essay_file: Path, wordnet_directory: Path, essay_count: int) -> list[str]:
    """All sentences of the first `essay_count` essays and a multiple of WordNet's, mixed."""
    texts = list(itertools.islice(essays.read(essay_file), essay_count))
    if len(texts) < essay_count:
        raise ValueError(
            f"{essay_file} holds {len(texts)} essays, {essay_count} are asked for; "
            "go on writing them with: python -m examples.smollm2_gec.essays"
        )
    written = mixed(sentence for text in texts for sentence in sentences(text))
    examples = mixed(filter(is_plain, wordnet.sentences(wordnet_directory)))
    return mixed([*written, *compounds(examples[: 2 * WORDNET_PER_ESSAY * len(written)])])


def compounds(short: Sequence[str]) -> Iterator[str]:
    """Every two sentences as one: WordNet's are short, and people's are not.

    The two have nothing to do with each other; how clauses are joined can be learned all the same.
    """
    joiners = itertools.cycle(JOINERS)
    for first, second, joiner in zip(short[::2], short[1::2], joiners, strict=False):
        if first[-1] + second[-1] == "..":
            following = lowered(tokenize(second)[0]) + second[len(tokenize(second)[0].text) :]
            yield f"{first[:-1]}{joiner} {following}"


def main(argv: Sequence[str] | None = None) -> None:
    """Writes the sentences, one a line, and prints how many there are and their sha256."""
    parser = argparse.ArgumentParser(description="Collect clean sentences to train on.")
    parser.add_argument("--essays", type=Path, required=True, help="file that essays.py wrote")
    parser.add_argument("--essay-count", type=int, default=essays.ESSAYS)
    parser.add_argument("--wordnet", type=Path, default=wordnet.DIRECTORY, metavar="DIR")
    parser.add_argument("--out", type=Path, required=True, help="text file to write")
    options = parser.parse_args(argv)
    try:
        found = corpus(options.essays, options.wordnet, options.essay_count)
    except (ValueError, OSError, wordnet.WordNetMissing) as failure:
        parser.exit(1, f"text: error: {failure}\n")
    content = "".join(sentence + "\n" for sentence in found).encode()
    options.out.write_bytes(content)
    print(f"{len(found):,} sentences, sha256 {hashlib.sha256(content).hexdigest()}")


if __name__ == "__main__":
    main()
