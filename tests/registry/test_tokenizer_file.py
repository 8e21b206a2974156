"""A tokenizer must be there, readable, and without ids beyond the embeddings."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from registry import checkpoint, tokenizer_file
from registry.errors import CheckpointInvalid


def fast(vocab: Any, added: Any = ()) -> str:
    return json.dumps({"model": {"type": "BPE", "vocab": vocab}, "added_tokens": list(added)})


WORDS = {f"w{n}": n for n in range(8)}


@pytest.mark.parametrize(
    "content",
    [fast(WORDS), fast([["a", -1.5]] * 8), fast({"a": 0}, [{"id": 7, "content": "<pad>"}])],
)
def test_ids_within_the_embeddings_are_accepted(checkpoint_dir: Path, content: str) -> None:
    (checkpoint_dir / "tokenizer.json").write_text(content)
    checkpoint.inspect(checkpoint_dir)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "JSON"),
        ("{", "JSON"),
        ("[]", "must be a JSON object"),
        ("{}", "no model.vocab"),
        ('{"model": []}', "no model.vocab"),
        ('{"model": {"vocab": "abc"}}', "no model.vocab"),
        (fast({}), "vocabulary is empty"),
        (fast({"a": "0"}), "id '0'"),
        (fast({"a": -1}), "id -1"),
        (fast({"a": True}), "id True"),
        (fast({"a": 0.0}), "id 0.0"),
        (fast([["a"]]), "entry 0"),
        (fast(["a"]), "entry 0"),
        (fast({"a": 0}, [{"content": "x"}]), "id None"),
        (fast({"a": 0}, ["<pad>"]), "id '<pad>'"),
        ('{"model": {"vocab": {"a": 0, "a": 1}}}', "more than once"),
        (fast({**WORDS, "more": 8}), "ids up to 8, but only 8 tokens have an embedding"),
        (fast([["a", 0.0]] * 9), "ids up to 8"),
        (fast(WORDS, [{"id": 31_999, "content": "<pad>"}]), "ids up to 31999"),
    ],
)
def test_a_tokenizer_that_cannot_be_used_is_refused(
    checkpoint_dir: Path, content: str, told: str
) -> None:
    (checkpoint_dir / "tokenizer.json").write_text(content)
    with pytest.raises(CheckpointInvalid, match=rf"tokenizer\.json.*{told}"):
        checkpoint.inspect(checkpoint_dir)


def test_an_endless_tokenizer_is_refused_unread(checkpoint_dir: Path) -> None:
    with (checkpoint_dir / "tokenizer.json").open("wb") as handle:
        handle.truncate(tokenizer_file.MAX_TOKENIZER_BYTES + 1)
    with pytest.raises(CheckpointInvalid, match=r"more than 64\.0 MiB"):
        checkpoint.inspect(checkpoint_dir)


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, "has no tokenizer"),
        ({"vocab.json": '{"a": 0}', "merges.txt": ""}, None),
        ({"vocab.json": '{"a": 0}'}, "merges.txt is missing"),
        ({"vocab.json": "[]"}, "must be a JSON object"),
        ({"vocab.json": "{}", "merges.txt": ""}, "empty"),
        ({"vocab.json": '{"a": 8}', "merges.txt": ""}, "ids up to 8"),
        ({"tokenizer.model": "x"}, None),
        ({"tokenizer.model": ""}, "it is empty"),
        ({"tekken.json": '{"vocab": []}'}, None),
        ({"tekken.json": "{}"}, "no vocab"),
    ],
)
def test_other_forms_of_tokenizers(
    checkpoint_dir: Path, files: dict[str, str], told: str | None
) -> None:
    (checkpoint_dir / "tokenizer.json").unlink()
    for name, content in files.items():
        (checkpoint_dir / name).write_text(content)
    if told is None:
        checkpoint.inspect(checkpoint_dir)
        return
    with pytest.raises(CheckpointInvalid, match=told):
        checkpoint.inspect(checkpoint_dir)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(vocab=JSON, added=JSON, model=JSON, whole=st.booleans())
def test_any_tokenizer_is_accepted_or_refused(
    tmp_path: Path, vocab: Any, added: Any, model: Any, whole: bool
) -> None:
    content = {"model": {"vocab": vocab} if whole else model, "added_tokens": added}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with contextlib.suppress(CheckpointInvalid):
        tokenizer_file.check(tmp_path, 10)
