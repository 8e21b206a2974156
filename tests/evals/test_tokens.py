"""Sentences begin with the token that texts begin with, once."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evals import tokens
from evals.errors import EvaluationFailed


class Tokenizer:
    """Adds its own BOS, 7, where it may; a token a letter."""

    def __init__(self, bos: int | None, eos: int | None) -> None:
        self.bos_token_id, self.eos_token_id = bos, eos

    def __call__(self, texts: list[str], *, add_special_tokens: bool = True) -> Any:
        own = [7] if add_special_tokens else []
        return SimpleNamespace(input_ids=[[*own, *map(ord, text)] for text in texts])


@pytest.mark.parametrize(("bos", "eos", "first"), [(7, 8, 7), (None, 8, 8), (0, None, 0)])
def test_a_sentence_begins_once_with_bos_or_else_eos(
    bos: int | None, eos: int | None, first: int
) -> None:
    assert tokens.sentence_ids(Tokenizer(bos, eos), ["ab", ""]) == [[first, 97, 98], [first]]


def test_a_tokenizer_without_either_cannot_begin_a_sentence() -> None:
    with pytest.raises(EvaluationFailed, match="neither a BOS nor an EOS"):
        tokens.sentence_ids(Tokenizer(None, None), ["a"])


def test_a_prompt_is_tokenized_as_the_tokenizer_does() -> None:
    assert tokens.prompt_ids(Tokenizer(7, 8), ["a"]) == [[7, 97]]


def test_nothing_is_nothing() -> None:
    assert tokens.prompt_ids(Tokenizer(7, 8), []) == []
    assert tokens.sentence_ids(Tokenizer(7, 8), []) == []


def test_a_folder_without_a_tokenizer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: str, **_: object) -> None:
        raise OSError(f"no tokenizer in {folder}")

    library = SimpleNamespace(AutoTokenizer=SimpleNamespace(from_pretrained=refuse))
    monkeypatch.setitem(sys.modules, "transformers", library)
    with pytest.raises(EvaluationFailed, match=f"cannot read the tokenizer of {tmp_path}: no"):
        tokens.load(tmp_path)
