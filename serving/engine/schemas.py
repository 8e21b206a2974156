"""JSON schemas of what the replica reads and answers, for the published description.

The one idea: a test holds the fields here and the handlers' own lists of what they honor together,
so a field can neither be taken without being described, nor described and refused.
"""

from __future__ import annotations

from typing import Any

from serving.engine import error_table, language, offsets, protocol, sampling, tabular
from serving.engine.messages import ROLES

Schema = dict[str, Any]
_MOST_VERSION = 2**31 - 1


def ref(name: str) -> Schema:
    """A reference to one of `SCHEMAS`."""
    return {"$ref": f"#/components/schemas/{name}"}


def optional(schema: Schema) -> Schema:
    """`null` counts as not given."""
    return {"anyOf": [schema, {"type": "null"}]}


def record(fields: dict[str, Schema], *required: str) -> Schema:
    """An object that takes these fields and no others."""
    return {
        "type": "object",
        "properties": fields,
        "required": list(required),
        "additionalProperties": False,
    }


def answered(fields: dict[str, Schema]) -> Schema:
    """An answered object: every field is there, later ones may join."""
    return {"type": "object", "properties": fields, "required": list(fields)}


def whole(low: int, high: int) -> Schema:
    """A whole number."""
    return {"type": "integer", "minimum": low, "maximum": high}


def listed(items: Schema, *, least: int = 0) -> Schema:
    """A list."""
    return {"type": "array", "items": items, **({"minItems": least} if least else {})}


TEXT: Schema = {"type": "string"}
FILLED: Schema = {"type": "string", "minLength": 1}
FLAG: Schema = {"type": "boolean"}
NULL: Schema = {"type": "null"}
VERSION = whole(1, _MOST_VERSION)
_LANGUAGE: Schema = {
    "type": "string",
    "pattern": f"^(?:{language.PATTERN})$",
    "maxLength": language.MOST_CHARS,
    "description": "BCP 47; passed on where the model's template has a place for it, else a hint",
}
_UNIT: Schema = {"enum": list(offsets.Unit), "description": "what start and end count"}
_LOGPROBS = whole(0, protocol.MOST_LOGPROBS)

SAMPLED: dict[str, Schema] = {
    "model": TEXT,
    "temperature": optional({"type": "number", "minimum": 0, "maximum": 2}),
    "top_p": optional({"type": "number", "exclusiveMinimum": 0, "maximum": 1}),
    "n": optional(whole(1, 128)),
    "stop": optional({"anyOf": [FILLED, {**listed(FILLED), "maxItems": sampling.MOST_STOPS}]}),
    "seed": optional(whole(-(2**63), 2**63 - 1)),
    "stream": optional(FLAG),
    "stream_options": optional(record({"include_usage": optional(FLAG)})),
    "user": optional(TEXT),
    "version": optional(VERSION),
    "max_tokens": optional({"type": "integer", "minimum": 1}),
}
_TOKEN_IDS = listed(whole(0, 2**31 - 1), least=1)
COMPLETION_REQUEST: dict[str, Schema] = {
    **SAMPLED,
    "prompt": {"anyOf": [FILLED, listed(FILLED, least=1), _TOKEN_IDS, listed(_TOKEN_IDS, least=1)]},
    "logprobs": optional(_LOGPROBS),
}
_PART = record({"type": {"const": "text"}, "text": TEXT}, "type", "text")
CHAT_REQUEST: dict[str, Schema] = {
    **SAMPLED,
    "messages": listed(
        {
            "type": "object",
            "properties": {
                "role": {"enum": sorted(ROLES)},
                "content": {"anyOf": [TEXT, listed(_PART, least=1)]},
            },
            "required": ["role", "content"],
        },
        least=1,
    ),
    "max_completion_tokens": optional({"type": "integer", "minimum": 1}),
    "logprobs": optional(FLAG),
    "top_logprobs": optional(_LOGPROBS),
}
CORRECTION_REQUEST: dict[str, Schema] = {
    "text": FILLED,
    "texts": listed(FILLED, least=1),
    "model": optional(TEXT),
    "user": optional(TEXT),
    "offsets": optional(_UNIT),
    "language": optional(_LANGUAGE),
    "version": optional(VERSION),
}
PARAMS: dict[str, Schema] = {
    "details": optional(FLAG),
    "offsets": optional(_UNIT),
    "language": optional(_LANGUAGE),
    "version": optional(VERSION),
}
_ROW: Schema = {
    "anyOf": [
        TEXT,
        record({tabular.COLUMN: TEXT}, tabular.COLUMN),
        {**listed(TEXT), "minItems": 1, "maxItems": 1},
    ]
}
TABLES: dict[str, Schema] = {
    "dataframe_split": record(
        {
            "columns": optional({"enum": [[tabular.COLUMN], [0]]}),
            "index": {},
            "data": listed({**listed(TEXT), "minItems": 1, "maxItems": 1}),
        },
        "data",
    ),
    "dataframe_records": listed(record({tabular.COLUMN: TEXT}, tabular.COLUMN)),
    "instances": listed(_ROW),
    "inputs": {
        "anyOf": [
            TEXT,
            listed(_ROW),
            record({tabular.COLUMN: {"anyOf": [TEXT, listed(TEXT)]}}, tabular.COLUMN),
        ]
    },
}
_EDIT = answered(
    {"start": whole(0, 2**31), "end": whole(0, 2**31), "original": TEXT, "replacement": TEXT}
)
_FINISH: Schema = {"enum": list(protocol.FinishReason)}
CORRECTED: dict[str, Schema] = {
    "corrected": TEXT,
    "edits": listed(_EDIT),
    "offsets": _UNIT,
    "finish_reason": _FINISH,
    "unchanged": listed(
        answered(
            {
                "start": whole(0, 2**31),
                "end": whole(0, 2**31),
                "reason": {"enum": ["length", "empty"]},
            }
        )
    ),
}
_USAGE = answered(
    dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"), whole(0, 2**53))
)
_STAMP: dict[str, Schema] = {"id": TEXT, "created": whole(0, 2**53), "model": TEXT}
_LEGACY_LOGPROBS = answered(
    {
        "tokens": listed(TEXT),
        "token_logprobs": listed({"type": "number"}),
        "top_logprobs": optional(listed({"type": "object"})),
        "text_offset": listed(whole(0, 2**31)),
    }
)
_ENTRY: dict[str, Schema] = {
    "token": TEXT,
    "logprob": {"type": "number"},
    "bytes": listed(whole(0, 255)),
}
_CHAT_LOGPROBS = answered(
    {
        "content": listed(answered({**_ENTRY, "top_logprobs": listed(answered(_ENTRY))})),
        "refusal": NULL,
    }
)
_MODEL = answered(
    {
        "id": TEXT, "object": {"const": "model"}, "created": whole(0, 2**53), "owned_by": TEXT,
        "version": VERSION, "digest": TEXT, "max_model_len": whole(1, 2**31),
    }
)  # fmt: skip
_IDENTITY: dict[str, Schema] = {"id": TEXT, "model": TEXT, "version": VERSION, "digest": TEXT}


def _completion(kind: str, choice: dict[str, Schema], logprobs: Schema) -> Schema:
    """An answer of OpenAI's two routes."""
    choices = answered(
        {
            "index": whole(0, 2**31),
            **choice,
            "logprobs": optional(logprobs),
            "finish_reason": _FINISH,
        }
    )
    return answered(
        {**_STAMP, "object": {"const": kind}, "choices": listed(choices), "usage": _USAGE}
    )


def _chunk(kind: str, choice: dict[str, Schema], logprobs: Schema) -> Schema:
    """One event of a stream of OpenAI's two routes."""
    choices = answered(
        {
            "index": whole(0, 2**31),
            **choice,
            "logprobs": optional(logprobs),
            "finish_reason": optional(_FINISH),
        }
    )
    chunk = answered({**_STAMP, "object": {"const": kind}, "choices": listed(choices)})
    return {**chunk, "properties": {**chunk["properties"], "usage": optional(_USAGE)}}


_DELTA: Schema = {
    "type": "object",
    "properties": {"role": {"const": "assistant"}, "content": TEXT, "refusal": NULL},
}
SCHEMAS: dict[str, Schema] = {
    "CompletionRequest": record(COMPLETION_REQUEST, "model", "prompt"),
    "ChatRequest": record(CHAT_REQUEST, "model", "messages"),
    "CorrectionRequest": {
        **record(CORRECTION_REQUEST),
        "oneOf": [{"required": ["text"]}, {"required": ["texts"]}],
    },
    "ScoringRequest": {
        **record({**TABLES, "params": optional(record(PARAMS))}),
        "oneOf": [{"required": [name]} for name in tabular.FORMATS],
    },
    "Completion": _completion("text_completion", {"text": TEXT}, _LEGACY_LOGPROBS),
    "ChatCompletion": _completion(
        "chat.completion",
        {"message": answered({"role": {"const": "assistant"}, "content": TEXT, "refusal": NULL})},
        _CHAT_LOGPROBS,
    ),
    "CompletionChunk": _chunk("text_completion", {"text": TEXT}, _LEGACY_LOGPROBS),
    "ChatCompletionChunk": _chunk("chat.completion.chunk", {"delta": _DELTA}, _CHAT_LOGPROBS),
    "Corrected": answered(CORRECTED),
    "Correction": answered({**_IDENTITY, **CORRECTED, "usage": _USAGE}),
    "Corrections": answered({**_IDENTITY, "results": listed(ref("Corrected")), "usage": _USAGE}),
    "Predictions": answered({"predictions": listed({"anyOf": [TEXT, ref("Corrected")]})}),
    "Models": answered({"object": {"const": "list"}, "data": listed(_MODEL)}),
    "Health": answered({"status": TEXT}),
    "Error": answered(
        {
            "error": answered(
                {
                    "message": TEXT,
                    "type": TEXT,
                    "param": optional(TEXT),
                    "code": {"enum": [row.code for row in error_table.ROWS]},
                }
            )
        }
    ),
}
