"""The OpenAPI 3.1 description of a replica, served at `/openapi.json`.

`python -m serving.engine.openapi` prints it; docs/openapi.json is that output, and a test holds
them together. It says nothing of one model: names, context length and version are at `/v1/models`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import orjson

from serving.engine import error_table, orca, schemas
from serving.engine.exchange import EVENT_STREAM_TYPE, JSON_TYPE
from serving.engine.schemas import Schema, ref

VERSION = "1"
"""Raised when the surface changes in a way that can break a caller."""

_INVOCATION: Schema = {
    "anyOf": [ref("ScoringRequest"), ref("InvocationChat"), ref("InvocationCompletion")]
}
_INVOKED: Schema = {"anyOf": [ref("Predictions"), ref("ChatCompletion"), ref("Completion")]}
_INVOKED_CHUNK: Schema = {"anyOf": [ref("ChatCompletionChunk"), ref("CompletionChunk")]}
_ANY_ROUTE = ("bad_http", "head_too_large", "unknown_path", "wrong_method", "internal_error")
_COUNTED = (
    "bad_json", "missing_field", "invalid_type", "invalid_value", "out_of_range", "empty_text",
    "unknown_field", "context_length_exceeded", "rejected_by_engine", "model_not_found",
    "deadline_exceeded", "version_not_served", "body_too_large", "replica_full", "queue_full",
    "deadline_unreachable", "unsupported_media_type", "engine_failed", "engine_dead", "not_ready",
    "draining",
)  # fmt: skip
_OPENAI = (*_COUNTED, "unsupported_field")
_CORRECTIONS = (*_COUNTED, "too_many_sentences")
_INVOCATIONS = (*_OPENAI, "too_many_sentences", "unknown_column")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One route as it is described; it takes POST where it has a body."""

    summary: str
    answer: Schema
    codes: tuple[str, ...] = ()
    body: Schema | None = None
    event: Schema | None = None
    """What the data of one event holds, where `stream` is true."""
    kind: str = JSON_TYPE

    @property
    def method(self) -> str:
        """As OpenAPI spells it."""
        return "get" if self.body is None else "post"


OPERATIONS: Mapping[str, Operation] = {
    "/v1/completions": Operation(
        summary="Continues a prompt; OpenAI's completions.",
        body=ref("CompletionRequest"),
        answer=ref("Completion"),
        codes=_OPENAI,
        event=ref("CompletionChunk"),
    ),
    "/v1/chat/completions": Operation(
        summary="Answers a chat; OpenAI's chat completions.",
        body=ref("ChatRequest"),
        answer=ref("ChatCompletion"),
        codes=_OPENAI,
        event=ref("ChatCompletionChunk"),
    ),
    "/v1/corrections": Operation(
        summary="Corrects one text, or several, and says what was changed where.",
        body=ref("CorrectionRequest"),
        answer={"anyOf": [ref("Correction"), ref("Corrections")]},
        codes=_CORRECTIONS,
    ),
    "/invocations": Operation(
        summary="MLflow's scoring protocol.",
        body=_INVOCATION,
        answer=_INVOKED,
        codes=_INVOCATIONS,
        event=_INVOKED_CHUNK,
    ),
    "/serving-endpoints/{name}/invocations": Operation(
        summary="Databricks' protocol; the name is the model's.",
        body=_INVOCATION,
        answer=_INVOKED,
        codes=(*_INVOCATIONS, "endpoint_not_found"),
        event=_INVOKED_CHUNK,
    ),
    "/v1/models": Operation(summary="What is served.", answer=ref("Models")),
    "/openapi.json": Operation(summary="This document.", answer={"type": "object"}),
    "/healthz": Operation(
        summary="Whether the engine lives.", answer=ref("Health"), codes=("engine_dead",)
    ),
    "/readyz": Operation(
        summary="Whether requests are taken.",
        answer=ref("Health"),
        codes=("engine_dead", "not_ready"),
    ),
    "/metrics": Operation(
        summary="Prometheus' text format.", answer={"type": "string"}, kind="text/plain"
    ),
}


def document() -> dict[str, Any]:
    """The description."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "liftlock endpoint",
            "version": VERSION,
            "summary": "One model behind OpenAI's, MLflow's, Databricks' and its own shapes.",
            "description": "Refusals carry the headers of an answer too, but for `bad_http` and "
            "`head_too_large`, which reach no route.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": {
            path: {operation.method: _operation(path, operation)}
            for path, operation in OPERATIONS.items()
        },
        "components": {
            "schemas": {**schemas.SCHEMAS, **_invocation_schemas()},
            "headers": _HEADERS,
        },
    }


@functools.cache
def encoded() -> bytes:
    """The document as it is served and committed."""
    return orjson.dumps(document(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


_HEADERS: dict[str, Any] = {
    "x-liftlock-model": {"schema": schemas.TEXT, "description": "what answered"},
    "x-liftlock-version": {"schema": schemas.TEXT, "description": "its version"},
    "x-liftlock-digest": {"schema": schemas.TEXT, "description": "its checkpoint"},
    "x-request-id": {"schema": schemas.TEXT, "description": "the caller's own, or a new one"},
    orca.HEADER: {
        "schema": schemas.TEXT,
        "description": "ORCA: requests of everybody that the replica holds beside this one",
    },
    "traceparent": {
        "schema": schemas.TEXT,
        "description": "W3C trace context: the caller's trace, our span; where one was sent",
    },
}
_ON_EVERY_ANSWER = {name: {"$ref": f"#/components/headers/{name}"} for name in _HEADERS}


def _invocation_schemas() -> dict[str, Schema]:
    """OpenAI's bodies as they come in an invocation: the model is known, Databricks adds fields."""
    recorded = {
        "client_request_id": schemas.optional(schemas.TEXT),
        "usage_context": schemas.optional({"type": "object"}),
        "extra_params": schemas.optional({"type": "object", "maxProperties": 0}),
    }
    scoring = schemas.SCHEMAS["ScoringRequest"]
    return {
        "ScoringRequest": {**scoring, "properties": {**scoring["properties"], **recorded}},
        "InvocationChat": schemas.record({**schemas.CHAT_REQUEST, **recorded}, "messages"),
        "InvocationCompletion": schemas.record(
            {**schemas.COMPLETION_REQUEST, **recorded}, "prompt"
        ),
    }


def _operation(path: str, operation: Operation) -> dict[str, Any]:
    content: dict[str, Any] = {operation.kind: {"schema": operation.answer}}
    if operation.event is not None:
        content[EVENT_STREAM_TYPE] = {"schema": _event(operation.event)}
    described: dict[str, Any] = {
        "operationId": path.strip("/").translate(str.maketrans("/.-{}", "_____")),
        "summary": operation.summary,
        "parameters": list(_parameters(path, operation)),
        "responses": {
            "200": {"description": "done", "headers": _ON_EVERY_ANSWER, "content": content},
            **_refusals({*operation.codes, *_ANY_ROUTE}),
        },
    }
    if operation.body is not None:
        described["requestBody"] = {
            "required": True,
            "content": {JSON_TYPE: {"schema": operation.body}},
        }
    return described


def _event(data: Schema) -> Schema:
    """One server-sent event. The last is `[DONE]`, or an error where the stream broke off."""
    inside = {"contentMediaType": "application/json", "contentSchema": data}
    told = [{"const": "[DONE]"}, {**schemas.TEXT, **inside}]
    return schemas.answered({"data": {"anyOf": told}})


def _parameters(path: str, operation: Operation) -> Iterable[dict[str, Any]]:
    if "{name}" in path:
        yield {"name": "name", "in": "path", "required": True, "schema": schemas.FILLED}
    if operation.body is None:
        return
    for name, pattern, text in (
        ("x-request-timeout-ms", "^-?[0-9]{1,12}$", "time left, in milliseconds"),
        ("x-liftlock-version-pin", "^[0-9]{1,10}$", "refused where another version is served"),
        ("x-request-id", "^[A-Za-z0-9._:/+=-]{1,128}$", "comes back on the answer"),
        ("traceparent", "^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$", "W3C trace context"),
    ):
        schema = {"type": "string", "pattern": pattern}
        yield {"name": name, "in": "header", "required": False, "schema": schema,
               "description": text}  # fmt: skip


def _refusals(codes: set[str]) -> dict[str, Any]:
    """The answers other than 200, by status; each lists its codes and whether to try again."""
    found: dict[str, Any] = {}
    for status in sorted({row.status for row in error_table.ROWS if row.code in codes}):
        rows = [r for r in error_table.ROWS if r.status == status and r.code in codes]
        found[str(status.value)] = _refusal(status, rows)
    return found


def _refusal(status: HTTPStatus, rows: list[error_table.Row]) -> dict[str, Any]:
    after = {"retry-after": {"schema": schemas.TEXT, "description": "seconds"}}
    return {
        "description": "; ".join(f"`{r.code}`: {r.when} (retry: {r.retry})" for r in rows),
        **({"headers": after} if any(row.retry_after for row in rows) else {}),
        "content": {JSON_TYPE: {"schema": ref("Error")}},
        "x-codes": [row.code for row in rows],
    }


if __name__ == "__main__":
    sys.stdout.write(encoded().decode())
