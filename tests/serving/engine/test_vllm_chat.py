"""The chat template of a real tokenizer as the production engine renders it, with no engine up."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import pytest

from serving.engine import protocol
from serving.engine.vllm_engine import VllmEngine

CHECKPOINT = Path(__file__).parents[3] / "examples" / "checkpoints" / "tiny-gec-1"
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'assistant' %}{{ raise_exception('no turns') }}"
    "{% endif %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}Fixed:{% endif %}"
)
# transformers imports for seconds and warns of its own deprecations.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def engine(template: str | None) -> VllmEngine:
    """The engine's own side over a real tokenizer, with nothing behind it."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(CHECKPOINT))
    tokenizer.chat_template = template
    llm: Any = types.SimpleNamespace(
        get_tokenizer=lambda: tokenizer, model_config=types.SimpleNamespace(max_model_len=256)
    )
    tokenizer.max_chars_per_token = 32  # vLLM adds it to every tokenizer it loads
    return VllmEngine(llm)


def test_a_conversation_is_rendered_by_the_tokenizer_s_own_template() -> None:
    made = engine(TEMPLATE)
    turns = [
        protocol.Message(role="system", content="Be kind."),
        protocol.Message(role="user", content="She go."),
    ]
    ids = made.encode_chat(turns)
    assert ids is not None
    tokenizer: Any = made._tokenizer
    expected = "system: Be kind.\nuser: She go.\nFixed:"
    assert ids == tuple(tokenizer.encode(expected, add_special_tokens=False))


def test_what_the_template_refuses_is_rejected_with_its_words() -> None:
    turns = [protocol.Message(role="assistant", content="Hi.")]
    with pytest.raises(protocol.RequestRejected, match="no turns"):
        engine(TEMPLATE).encode_chat(turns)


def test_a_template_that_is_broken_is_no_fault_of_the_engine() -> None:
    turns = [protocol.Message(role="user", content="Hi.")]
    with pytest.raises(protocol.RequestRejected, match="template"):
        engine("{% for %}").encode_chat(turns)


def test_a_conversation_that_can_never_fit_is_rejected_unread() -> None:
    turns = [protocol.Message(role="user", content="a" * 100_000)]
    with pytest.raises(protocol.RequestRejected, match="characters cannot fit 256 tokens"):
        engine(TEMPLATE).encode_chat(turns)


def test_without_a_template_there_is_no_prompt() -> None:
    assert engine(None).encode_chat([protocol.Message(role="user", content="Hi.")]) is None
