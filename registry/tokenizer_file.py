"""The tokenizer beside the weights: there, readable, and without ids that have no embedding.

An id beyond the embeddings is an error only when a text first contains it, in production; so the
highest id is compared here. The files are read as data, no tokenizer is built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from registry.errors import CheckpointInvalid
from registry.prompt_file import read_json
from registry.wording import shown

MAX_TOKENIZER_BYTES = 64 << 20
"""The largest in use have 35 MiB."""
WHAT = "the tokenizer"


def check(directory: Path, embedding_rows: int | None) -> None:
    """Looks at every tokenizer file of a checkpoint.

    Args:
        directory: the checkpoint.
        embedding_rows: number of tokens that have an embedding; None where that is not known.

    Raises:
        CheckpointInvalid: there is none, one cannot be used, or an id has no embedding.
    """
    found = [name for name in READERS if (directory / name).is_file()]
    if not found:
        raise CheckpointInvalid(
            f"{directory} has no tokenizer (looked for {', '.join(READERS)}); save it beside the "
            "weights with `tokenizer.save_pretrained(dir)`"
        )
    for name in found:
        highest = READERS[name](directory / name)
        if highest is not None and embedding_rows is not None and highest >= embedding_rows:
            raise CheckpointInvalid(
                f"{directory / name} has token ids up to {highest}, but only {embedding_rows} "
                "tokens have an embedding; the tokenizer and the weights are not of one model"
            )


def _fast(path: Path) -> int:
    """Highest id in `tokenizer.json` (the tokenizers library's form)."""
    content = read_json(path, WHAT, limit_bytes=MAX_TOKENIZER_BYTES)
    model = content.get("model")
    vocab = model.get("vocab") if isinstance(model, dict) else None
    added = content.get("added_tokens") or []
    if not isinstance(vocab, dict | list) or not isinstance(added, list):
        raise _broken(path, "it has no model.vocab, or its added_tokens are no list")
    ids = list(_unigram(path, vocab) if isinstance(vocab, list) else _ids(path, vocab))
    for token in added:
        ids.append(_id(path, token.get("id") if isinstance(token, dict) else token))
    if not ids:
        raise _broken(path, "its vocabulary is empty")
    return max(ids)


def _slow(path: Path) -> int:
    """Highest id in `vocab.json` (GPT-2's form, with merges.txt beside it)."""
    ids = list(_ids(path, read_json(path, WHAT, limit_bytes=MAX_TOKENIZER_BYTES)))
    if not ids:
        raise _broken(path, "its vocabulary is empty")
    if (
        not (path.parent / "merges.txt").is_file()
        and not (path.parent / "tokenizer.json").is_file()
    ):
        raise _broken(path, "merges.txt is missing beside it")
    return max(ids)


def _tekken(path: Path) -> None:
    """`tekken.json` (Mistral's form); its ids follow from rules of its reader."""
    content = read_json(path, WHAT, limit_bytes=MAX_TOKENIZER_BYTES)
    if not isinstance(content.get("vocab"), list):
        raise _broken(path, "it has no vocab")


def _sentencepiece(path: Path) -> None:
    """`tokenizer.model`, a binary file of which only the engine knows more."""
    if path.stat().st_size == 0:
        raise _broken(path, "it is empty")


READERS: dict[str, Callable[[Path], int | None]] = {
    "tokenizer.json": _fast,
    "tokenizer.model": _sentencepiece,
    "vocab.json": _slow,
    "tekken.json": _tekken,
}


def _ids(path: Path, vocab: dict[str, Any]) -> Iterator[int]:
    return (_id(path, value) for value in vocab.values())


def _unigram(path: Path, vocab: list[Any]) -> Iterator[int]:
    """A list of pairs of piece and score, whose places are the ids."""
    for place, pair in enumerate(vocab):
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)):
            raise _broken(path, f"entry {place} of its vocabulary is {shown(pair)}")
        yield place


def _id(path: Path, value: object) -> int:
    if type(value) is not int or value < 0:
        raise _broken(path, f"a token has the id {shown(value)}")
    return value


def _broken(path: Path, why: str) -> CheckpointInvalid:
    return CheckpointInvalid(
        f"{path} ({WHAT}) cannot be used: {why}; save it again with "
        "`tokenizer.save_pretrained(dir)`"
    )
