"""Reads the `messages` of a chat, and says which of them a correction model can take.

The one idea: nothing that was said is dropped in silence. Where the checkpoint has a chat template
all turns reach the model. Where it has none, the model corrects one text at a time: the last user
message is that text, earlier turns are the corrections before it, and a system message, which
would want to change how the model works, is refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from serving.engine.checks import refuse_unsupported
from serving.engine.errors_http import invalid
from serving.engine.exchange import json_type
from serving.engine.protocol import Message

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
"""What callers may say, and what templates know: OpenAI renamed system to developer."""
# What OpenAI's client sends back with an answer it was given, where it says nothing.
_OFF: dict[str, tuple[object, ...]] = {
    "annotations": (None, []),
    "audio": (None,),
    "function_call": (None,),
    "name": (None,),
    "refusal": (None,),
    "tool_calls": (None, []),
}


def read(body: dict[str, Any]) -> list[Message]:
    """The messages in order.

    Raises:
        ApiError: 400, naming the message and what is wrong with it.
    """
    value = body.get("messages")
    if not isinstance(value, list) or not value:
        code = "missing_field" if value is None else "invalid_type"
        raise invalid("messages", "messages must be a list of at least one message", code)
    return [_message(each, f"messages[{number}]") for number, each in enumerate(value)]


def text_to_correct(messages: Sequence[Message]) -> str:
    """The last user message, for a model without a chat template.

    Raises:
        ApiError: 400, a system message is there, or the last message is no user's.
    """
    for number, message in enumerate(messages):
        if message.role == "system":
            raise invalid(
                f"messages[{number}].role",
                "this model has no chat template: it corrects the last user message and takes no "
                "system or developer messages; leave them out",
                "unsupported_field",
            )
    last = messages[-1]
    if last.role != "user" or not last.content.strip():
        raise invalid(
            f"messages[{len(messages) - 1}]",
            "the last message must be the user's, with the text to correct",
            "empty_text" if last.role == "user" else "invalid_value",
        )
    return last.content


def _message(value: object, where: str) -> Message:
    if not isinstance(value, dict):
        raise invalid(where, f"{where} must be an object, found {json_type(value)}", "invalid_type")
    refuse_unsupported(value, honored=("role", "content"), off=_OFF, prefix=f"{where}.")
    role = value.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise invalid(
            f"{where}.role",
            f"{where}.role must be one of {', '.join(sorted(ROLES))}; tools are not supported",
            "invalid_value" if isinstance(role, str) else "invalid_type",
        )
    return Message(role=ROLES[role], content=_content(value.get("content"), f"{where}.content"))


def _content(value: object, where: str) -> str:
    """A text, or OpenAI's list of text parts, joined."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value:
        raise invalid(
            where,
            f"{where} must be a text or a list of text parts, found {json_type(value)}",
            "missing_field" if value is None else "invalid_type",
        )
    return "".join(_part(part, f"{where}[{number}]") for number, part in enumerate(value))


def _part(part: object, where: str) -> str:
    match part:
        case {"type": "text", "text": str(text), **rest} if not rest:
            return text
        case {"type": str(kind)} if kind != "text":
            raise invalid(where, f"{where}: only text parts are supported", "unsupported_field")
    raise invalid(where, f'{where} must be {{"type": "text", "text": "…"}}', "invalid_type")
