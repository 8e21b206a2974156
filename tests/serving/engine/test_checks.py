"""A version pin holds on every counted route, in the header and in the body."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.fakes.engine import FakeEngine
from tests.serving.engine.conftest import error

BODIES: dict[str, dict[str, Any]] = {
    "/v1/completions": {"model": "grammar", "prompt": "she go"},
    "/v1/chat/completions": {"model": "grammar", "messages": [{"role": "user", "content": "a"}]},
    "/v1/corrections": {"text": "He go."},
    "/invocations": {"inputs": ["He go."]},
    "/serving-endpoints/grammar/invocations": {"inputs": ["He go."]},
}


def pinned(path: str, version: object) -> dict[str, Any]:
    """The body with a version in it, where the route has its place for one."""
    body = BODIES[path]
    pin = {"version": version}
    return {**body, "params": pin} if "inputs" in body else {**body, **pin}


@pytest.mark.parametrize("path", BODIES)
async def test_the_served_version_may_be_pinned(http: httpx.AsyncClient, path: str) -> None:
    headers = {"x-liftlock-version-pin": "7"}
    answer = await http.post(path, json=pinned(path, 7), headers=headers)
    assert (answer.status_code, answer.headers["x-liftlock-version"]) == (200, "7")


@pytest.mark.parametrize("path", BODIES)
async def test_another_version_is_refused_not_ignored(
    http: httpx.AsyncClient, engine: FakeEngine, path: str
) -> None:
    in_header = await http.post(path, json=BODIES[path], headers={"x-liftlock-version-pin": "6"})
    in_body = await http.post(path, json=pinned(path, 8))
    for answer, param in ((in_header, "x-liftlock-version-pin"), (in_body, "version")):
        assert (answer.status_code, error(answer)["code"]) == (412, "version_not_served")
        assert error(answer)["param"] == param
        assert answer.headers["x-liftlock-version"] == "7"
    assert engine.requests == []


@pytest.mark.parametrize("pin", ["", "seven", "7.0", "-7", "9" * 400, "²", "latest"])
async def test_a_pin_that_is_no_version_is_refused(http: httpx.AsyncClient, pin: str) -> None:
    headers = {"x-liftlock-version-pin": pin.encode("latin-1", "replace")}
    answer = await http.post("/v1/corrections", json={"text": "a"}, headers=headers)
    assert (answer.status_code, error(answer)["param"]) == (400, "x-liftlock-version-pin")


@pytest.mark.parametrize("version", ["7", 7.0, True, [7], 0, -1, 10**30])
@pytest.mark.parametrize("path", BODIES)
async def test_a_version_that_is_none_is_refused(
    http: httpx.AsyncClient, path: str, version: object
) -> None:
    answer = await http.post(path, json=pinned(path, version))
    assert answer.status_code == 400
