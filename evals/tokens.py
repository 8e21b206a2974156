"""Tokens of a sentence whose probability is asked for.

The one idea: a sentence is judged as the beginning of a text, with nothing before it but the token
that texts begin with; no prompt template, because the question is which sentence the language model
finds more probable, not what it does when asked to correct. As in lm-eval, that token is the
tokenizer's BOS, or its EOS where it has no BOS, given once whatever the tokenizer itself adds; so
the first word counts too, and the sums compare with published ones.

The only import of transformers in this package.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evals import errors


def sentence_ids(tokenizer: Any, sentences: Sequence[str]) -> list[list[int]]:
    """Token ids of each sentence, the first of them the one that texts begin with.

    Raises:
        EvaluationFailed: the tokenizer has no such token.
    """
    first = tokenizer.bos_token_id
    if first is None:
        first = tokenizer.eos_token_id
    if first is None:
        raise errors.EvaluationFailed(
            "cannot tell how probable sentences are: the checkpoint's tokenizer has neither a BOS "
            "nor an EOS token to begin them with; leave out suites of minimal pairs"
        )
    if not sentences:
        return []
    encoded = tokenizer(list(sentences), add_special_tokens=False).input_ids
    return [[first, *ids] for ids in encoded]


def prompt_ids(tokenizer: Any, prompts: Sequence[str]) -> list[list[int]]:
    """Token ids of each prompt, with the special tokens that the tokenizer adds by itself."""
    if not prompts:
        return []
    found: list[list[int]] = tokenizer(list(prompts)).input_ids
    return found


def load(checkpoint_dir: Path) -> Any:
    """The tokenizer of a checkpoint.

    Raises:
        EvaluationFailed: it cannot be read.
    """
    try:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(str(checkpoint_dir), local_files_only=True)
    except (ImportError, OSError, ValueError, KeyError) as exc:
        raise errors.EvaluationFailed(
            f"cannot read the tokenizer of {checkpoint_dir}: {exc}; name a checkpoint directory "
            "that is complete"
        ) from exc
