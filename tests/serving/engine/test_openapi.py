"""The published description is what the code does, and the committed file is what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest

from serving.engine import (
    chat,
    completions,
    correct,
    error_table,
    invocations,
    openapi,
    schemas,
    tabular,
)
from serving.engine.app import ReplicaApp
from tests.fakes.engine import FakeEngine

ROOT = Path(__file__).parents[3]
DOCUMENT = openapi.document()
USER = [{"role": "user", "content": "she go"}]


def test_the_committed_file_is_what_the_code_says() -> None:
    committed = (ROOT / "docs" / "openapi.json").read_bytes()
    assert committed == openapi.encoded(), (
        "run python -m serving.engine.openapi > docs/openapi.json"
    )


async def test_the_replica_serves_it(http: httpx.AsyncClient) -> None:
    answer = await http.get("/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == DOCUMENT


def test_it_has_every_route_and_no_other(app: ReplicaApp) -> None:
    routes = {path: route.method.lower() for path, route in app.routes.items()}
    assert routes == {path: each.method for path, each in openapi.OPERATIONS.items()}


def test_it_describes_exactly_the_fields_that_are_honored() -> None:
    assert set(schemas.COMPLETION_REQUEST) == completions.HONORED
    assert set(schemas.CHAT_REQUEST) == chat.HONORED
    assert set(schemas.CORRECTION_REQUEST) == correct.KNOWN
    assert set(schemas.PARAMS) == invocations.PARAMS
    assert set(schemas.TABLES) == set(tabular.FORMATS)


def test_every_error_code_is_some_route_s_and_in_the_table() -> None:
    told = {
        code
        for path in DOCUMENT["paths"].values()
        for operation in path.values()
        for response in operation["responses"].values()
        for code in response.get("x-codes", ())
    }
    assert told == {row.code for row in error_table.ROWS}
    for operation in openapi.OPERATIONS.values():
        assert set(operation.codes) <= told


@pytest.mark.parametrize("name", DOCUMENT["components"]["schemas"])
def test_schemas_are_schemas(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(DOCUMENT["components"]["schemas"][name])


def conforms(value: object, name: str) -> None:
    """Raises where a value is not what the document calls by that name."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]}
    jsonschema.Draft202012Validator(schema).validate(value)


@pytest.mark.parametrize(
    ("path", "body", "asked", "answered"),
    [
        ("/v1/completions", {"model": "grammar", "prompt": ["a", "b"], "logprobs": 2, "n": 2},
         "CompletionRequest", "Completion"),
        ("/v1/completions", {"model": "grammar", "prompt": "a", "logprobs": 0, "stop": ["x"]},
         "CompletionRequest", "Completion"),
        ("/v1/chat/completions", {"model": "grammar", "messages": USER, "logprobs": True,
         "top_logprobs": 3, "max_completion_tokens": 4}, "ChatRequest", "ChatCompletion"),
        ("/v1/corrections", {"text": "He go.\nVANISH", "offsets": "utf16",
         "language": "de-CH-1996"}, "CorrectionRequest", "Correction"),
        ("/v1/corrections", {"texts": ["He go.", " "], "version": 7},
         "CorrectionRequest", "Corrections"),
        ("/invocations", {"dataframe_split": {"columns": ["text"], "data": [["a go"]]}},
         "ScoringRequest", "Predictions"),
        ("/invocations", {"inputs": {"text": ["a go"]}, "params": {"details": True}},
         "ScoringRequest", "Predictions"),
        ("/invocations", {"messages": USER, "usage_context": {"a": "b"}},
         "InvocationChat", "ChatCompletion"),
        ("/invocations", {"prompt": "a"}, "InvocationCompletion", "Completion"),
    ],
)  # fmt: skip
async def test_requests_and_answers_are_as_described(
    http: httpx.AsyncClient, path: str, body: dict[str, Any], asked: str, answered: str
) -> None:
    conforms(body, asked)
    answer = await http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    conforms(answer.json(), answered)


@pytest.mark.parametrize(
    ("path", "body", "answered"),
    [
        ("/v1/completions", {"prompt": "a go", "logprobs": 1}, "CompletionChunk"),
        (
            "/v1/chat/completions",
            {"messages": USER, "logprobs": True, "top_logprobs": 1},
            "ChatCompletionChunk",
        ),
    ],
)
async def test_events_are_as_described(
    http: httpx.AsyncClient, path: str, body: dict[str, Any], answered: str
) -> None:
    streamed = {"model": "grammar", "stream": True, "stream_options": {"include_usage": True}}
    answer = await http.post(path, json={**body, **streamed})
    *events, done = answer.text.strip().split("\n\n")
    assert done == "data: [DONE]"
    for event in events:
        conforms(json.loads(event.removeprefix("data: ")), answered)


async def test_what_is_told_and_what_is_refused_is_as_described(
    http: httpx.AsyncClient, engine: FakeEngine
) -> None:
    conforms((await http.get("/v1/models")).json(), "Models")
    conforms((await http.get("/healthz")).json(), "Health")
    conforms((await http.get("/readyz")).json(), "Health")
    conforms((await http.post("/v1/corrections", content=b"{")).json(), "Error")
    engine.dead = True
    conforms((await http.get("/healthz")).json(), "Error")


def test_a_wrong_answer_would_not_conform() -> None:
    with pytest.raises(jsonschema.ValidationError):
        conforms({"predictions": [1]}, "Predictions")


def test_it_is_json_without_surprises() -> None:
    assert json.loads(openapi.encoded()) == json.loads(json.dumps(DOCUMENT))
