"""MLflow's scoring protocol and Databricks' invocations, over the fake engine."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.fakes.engine import FakeEngine
from tests.serving.engine.conftest import error

MLFLOW, DATABRICKS = "/invocations", "/serving-endpoints/grammar/invocations"
PATHS = (MLFLOW, DATABRICKS)
USER = [{"role": "user", "content": "she go"}]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "body",
    [
        {"dataframe_split": {"columns": ["text"], "data": [["he go"], ["teh b"]]}},
        {"dataframe_split": {"columns": ["text"], "index": [0, 1], "data": [["he go"], ["teh b"]]}},
        {"dataframe_split": {"data": [["he go"], ["teh b"]]}},
        {"dataframe_records": [{"text": "he go"}, {"text": "teh b"}]},
        {"instances": ["he go", "teh b"]},
        {"instances": [{"text": "he go"}, {"text": "teh b"}]},
        {"instances": [["he go"], ["teh b"]]},
        {"inputs": ["he go", "teh b"]},
        {"inputs": {"text": ["he go", "teh b"]}},
        {"inputs": ["he go", "teh b"], "params": None},
        {"inputs": ["he go", "teh b"], "params": {"language": "en"}},
    ],
)
async def test_every_shape_of_a_table_gives_predictions_in_order(
    http: httpx.AsyncClient, path: str, body: dict[str, Any]
) -> None:
    answer = await http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json() == {"predictions": ["he goes", "the b"]}


@pytest.mark.parametrize("inputs", ["he go", {"text": "he go"}])
async def test_one_text_is_a_table_of_one(http: httpx.AsyncClient, inputs: object) -> None:
    assert (await http.post(MLFLOW, json={"inputs": inputs})).json() == {"predictions": ["he goes"]}


async def test_empty_tables_and_empty_cells_are_no_fault(
    http: httpx.AsyncClient, engine: FakeEngine
) -> None:
    assert (await http.post(MLFLOW, json={"instances": []})).json() == {"predictions": []}
    assert (await http.post(MLFLOW, json={"inputs": ["", " "]})).json() == {
        "predictions": ["", " "]
    }
    assert engine.requests == []


async def test_details_are_those_of_a_correction(http: httpx.AsyncClient) -> None:
    params = {"details": True, "offsets": "utf16"}
    body = {"inputs": ["\N{GRINNING FACE} go"], "params": params}
    answer = (await http.post(MLFLOW, json=body)).json()
    assert answer["predictions"][0]["edits"] == [
        {"start": 3, "end": 5, "original": "go", "replacement": "goes"}
    ]


@pytest.mark.parametrize("path", PATHS)
async def test_a_chat_is_answered_as_a_chat(http: httpx.AsyncClient, path: str) -> None:
    answer = (await http.post(path, json={"messages": USER, "max_tokens": 5})).json()
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"]["content"] == "she goes"


@pytest.mark.parametrize("path", PATHS)
async def test_a_prompt_is_completed(http: httpx.AsyncClient, path: str) -> None:
    answer = (await http.post(path, json={"prompt": "she go", "model": "grammar"})).json()
    assert (answer["object"], answer["choices"][0]["text"]) == ("text_completion", "she goes")


async def test_a_null_for_the_model_is_none_given(http: httpx.AsyncClient) -> None:
    answer = await http.post("/invocations", json={"prompt": "she go", "model": None})
    assert answer.status_code == 200


async def test_invocations_stream_too(http: httpx.AsyncClient) -> None:
    answer = await http.post(DATABRICKS, json={"messages": USER, "stream": True})
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["served-model-name"] == "grammar-7"
    assert answer.text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize("path", ["/serving-endpoints/other/invocations"])
async def test_another_endpoint_is_not_found(http: httpx.AsyncClient, path: str) -> None:
    answer = await http.post(path, json={"inputs": ["a"]})
    assert (answer.status_code, error(answer)["code"]) == (404, "endpoint_not_found")


@pytest.mark.parametrize(
    "path", ["/serving-endpoints//invocations", "/serving-endpoints/a/b/invocations",
             "/serving-endpoints/grammar", "/serving-endpoints/invocations"]
)  # fmt: skip
async def test_paths_that_are_no_endpoint_s_are_unknown(http: httpx.AsyncClient, path: str) -> None:
    answer = await http.post(path, json={"inputs": ["a"]})
    assert (answer.status_code, error(answer)["code"]) == (404, "unknown_path")


async def test_endpoints_are_counted_under_one_route(http: httpx.AsyncClient) -> None:
    for name in ("grammar", "made-up"):
        await http.post(f"/serving-endpoints/{name}/invocations", json={"inputs": ["a"]})
    lines = (await http.get("/metrics")).text
    assert "made-up" not in lines
    assert 'code="404",route="/serving-endpoints/{name}/invocations"' in lines


async def test_what_databricks_records_changes_nothing(http: httpx.AsyncClient) -> None:
    recorded = {"client_request_id": "c1", "usage_context": {"team": "a"}, "extra_params": {}}
    for body in ({"inputs": ["go"]}, {"messages": USER}, {"prompt": "go"}):
        assert (await http.post(DATABRICKS, json={**body, **recorded})).status_code == 200


@pytest.mark.parametrize(
    "kind", ["text/csv", "application/vnd.apache.parquet", "application/json; charset=latin-1"]
)
async def test_what_mlflow_would_not_read_as_json_is_refused(
    http: httpx.AsyncClient, kind: str
) -> None:
    answer = await http.post(MLFLOW, content=b'{"inputs": []}', headers={"content-type": kind})
    assert (answer.status_code, error(answer)["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", "", "application/x-www-form-urlencoded"]
)
async def test_json_is_taken_as_clients_send_it(http: httpx.AsyncClient, kind: str) -> None:
    answer = await http.post(MLFLOW, content=b'{"inputs": []}', headers={"content-type": kind})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({}, "inputs", "missing_field"),
        ({"inputs": ["a"], "instances": ["a"]}, "inputs", "missing_field"),
        ({"inputs": 5}, "inputs", "invalid_type"),
        ({"instances": {"text": ["a"]}}, "instances", "invalid_type"),
        ({"inputs": [None]}, "inputs", "invalid_type"),
        ({"inputs": ["a", 5]}, "inputs", "invalid_type"),
        ({"inputs": {"txt": ["a"]}}, "inputs", "unknown_column"),
        ({"inputs": {"text": [1]}}, "inputs", "invalid_type"),
        ({"dataframe_records": [{"text": "a", "b": 1}]}, "dataframe_records[0]", "unknown_column"),
        ({"dataframe_split": [["a"]]}, "dataframe_split", "invalid_type"),
        ({"dataframe_split": {"columns": ["text"]}}, "dataframe_split", "invalid_type"),
        (
            {"dataframe_split": {"columns": ["a"], "data": []}},
            "dataframe_split.columns",
            "unknown_column",
        ),
        ({"dataframe_split": {"data": [["a", "b"]]}}, "dataframe_split.data[0]", "unknown_column"),
        ({"dataframe_split": {"data": [], "dtype": 1}}, "dataframe_split.dtype", "unknown_field"),
        ({"inputs": ["a"], "params": []}, "params", "invalid_type"),
        ({"inputs": ["a"], "params": {"temperature": 1}}, "params.temperature", "unknown_field"),
        ({"inputs": ["a"], "params": {"details": 1}}, "details", "invalid_type"),
        ({"inputs": ["a"], "temperature": 1}, "temperature", "unknown_field"),
        ({"input": "a"}, "input", "unsupported_field"),
        ({"messages": USER, "prompt": "a"}, "prompt", "missing_field"),
        ({"messages": USER, "inputs": ["a"]}, "inputs", "unknown_field"),
        ({"inputs": ["a"], "extra_params": {"a": "b"}}, "extra_params", "unsupported_field"),
        ({"inputs": ["a"], "client_request_id": 5}, "client_request_id", "invalid_type"),
        ({"inputs": ["a"], "usage_context": 5}, "usage_context", "invalid_type"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", PATHS)
async def test_a_bad_invocation_is_refused_by_name(
    http: httpx.AsyncClient, path: str, body: dict[str, Any], param: str, code: str
) -> None:
    answer = await http.post(path, json=body)
    assert answer.status_code == 400, answer.text
    assert (error(answer)["param"], error(answer)["code"]) == (param, code)
