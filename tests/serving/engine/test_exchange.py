"""Bodies that are no JSON, or too long, are refused before any handler sees them."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.serving.engine.conftest import error

JSON_HEADERS = {"content-type": "application/json"}


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/corrections"])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'"text"',
        b'{"text": NaN}',
        b'{"text": "\xff\xfe"}',
        b'{"text": "\\ud800"}',
        b"[" * 1_900,
    ],
)
async def test_what_is_not_a_json_object_in_utf8_is_refused(
    http: httpx.AsyncClient, path: str, content: bytes
) -> None:
    answer = await http.post(path, content=content, headers=JSON_HEADERS)
    assert answer.status_code == 400
    assert error(answer)["code"] == "bad_json"


async def test_a_long_body_is_refused_before_it_is_read(http: httpx.AsyncClient) -> None:
    answer = await http.post("/v1/corrections", json={"text": "a" * 3_000})
    assert (answer.status_code, error(answer)["code"]) == (413, "body_too_large")


async def test_a_long_body_of_unknown_length_is_refused(http: httpx.AsyncClient) -> None:
    async def chunks() -> Any:
        for _ in range(30):
            yield b"a" * 100

    answer = await http.post("/v1/corrections", content=chunks())
    assert (answer.status_code, error(answer)["code"]) == (413, "body_too_large")


@pytest.mark.parametrize(
    ("name", "values", "status"),
    [
        ("x-request-timeout-ms", ("1", "20000"), 400),
        ("x-liftlock-version-pin", ("6", "7"), 400),
        ("content-encoding", ("gzip", "identity"), 415),
    ],
)
async def test_a_header_that_comes_twice_is_not_read_as_its_last_value(
    http: httpx.AsyncClient, name: str, values: tuple[str, str], status: int
) -> None:
    headers = [(name, value) for value in values]
    answer = await http.post("/v1/corrections", json={"text": "He go."}, headers=headers)
    assert (answer.status_code, error(answer)["param"]) == (status, name)


async def test_of_two_request_ids_none_is_taken(http: httpx.AsyncClient) -> None:
    headers = [("x-request-id", "one"), ("x-request-id", "two")]
    answer = await http.get("/healthz", headers=headers)
    assert answer.headers["x-request-id"] not in ("one", "two")
