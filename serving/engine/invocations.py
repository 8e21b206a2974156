"""`POST /invocations` (MLflow) and `POST /serving-endpoints/{name}/invocations` (Databricks).

The one idea: both are other wrappings of what is there already. A body with `messages` is a chat,
one with `prompt` a completion, and both are answered in OpenAI's shape, as both protocols have it;
any other body is a table of texts to correct and is answered by `{"predictions": [...]}`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from serving.engine import fields, tabular
from serving.engine.chat import Chat
from serving.engine.checks import check_version
from serving.engine.completions import Completions
from serving.engine.correct import Corrections, Wish
from serving.engine.errors_http import ApiError, invalid
from serving.engine.exchange import JSON_TYPE, Answer, Call
from serving.engine.state import Identity

PREFIX, SUFFIX = "/serving-endpoints/", "/invocations"
TEMPLATE = f"{PREFIX}{{name}}{SUFFIX}"
PARAMS = frozenset({"details", "offsets", "language", "version"})
RECORDED = ("client_request_id", "usage_context")
"""Databricks records these beside a request; they pass and change nothing."""
# curl says it sends a form unless it is told otherwise.
_TYPES = ("", JSON_TYPE, "application/x-www-form-urlencoded")


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocations:
    """The handler of both routes."""

    identity: Identity
    chat: Chat
    completions: Completions
    corrections: Corrections

    async def __call__(self, call: Call) -> Answer:
        """Predictions, or a chat's or completion's answer.

        Raises:
            ApiError: 404, no endpoint of this name; 415, not JSON; 400, what is wrong in the body.
        """
        named = _endpoint(call.path)
        if named is not None and named != self.identity.model:
            raise ApiError(
                HTTPStatus.NOT_FOUND,
                "endpoint_not_found",
                f"there is no serving endpoint {named!r}; this one is {self.identity.model!r}",
                param="name",
            )
        _check_type(call.headers.get("content-type", ""))
        answer = await self._dispatch(call, call.json_object())
        if named is None:
            return answer
        served = f"{self.identity.model}-{self.identity.version}"
        return dataclasses.replace(answer, headers=(("served-model-name", served),))

    async def _dispatch(self, call: Call, body: dict[str, Any]) -> Answer:
        _take_recorded(body)
        kinds = [name for name in ("messages", "prompt") if name in body]
        if len(kinds) == 2:
            raise invalid("prompt", "give either messages or prompt", "missing_field")
        if "input" in body:
            raise invalid("input", "embeddings are not served here", "unsupported_field")
        if not kinds:
            return await self._predictions(call, body)
        given = body.get("model")
        asked = {**body, "model": self.identity.model if given is None else given}
        if kinds == ["messages"]:
            return await self.chat.answer(call, asked)
        return await self.completions.answer(call, asked)

    async def _predictions(self, call: Call, body: dict[str, Any]) -> Answer:
        unknown = sorted(set(body) - {*tabular.FORMATS, "params"})
        if unknown:
            raise invalid(
                unknown[0], f"unknown field {unknown[0]!r}; check its spelling", "unknown_field"
            )
        params = _params(body)
        check_version(params, self.identity.version)
        details = fields.boolean(params, "details", default=False)
        texts = tabular.rows(body)
        done = await self.corrections.correct(texts, Wish.parse(params), call.request_id)
        results = done.results if details else [each["corrected"] for each in done.results]
        return Answer.json({"predictions": results})


def _endpoint(path: str) -> str | None:
    """The endpoint's name in a Databricks path, None for MLflow's."""
    if not path.startswith(PREFIX):
        return None
    return path.removeprefix(PREFIX).removesuffix(SUFFIX)


def _check_type(header: str) -> None:
    """Refuses what MLflow would read as something else than JSON in UTF-8."""
    kind, *parameters = (part.strip().lower() for part in header.split(";"))
    if kind not in _TYPES or any(each and each != "charset=utf-8" for each in parameters):
        raise ApiError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            f"send {JSON_TYPE} in UTF-8, not {header[:80]!r}",
            param="content-type",
        )


def _take_recorded(body: dict[str, Any]) -> None:
    """Takes out what Databricks' clients send for the record, after checking its type."""
    fields.string(body, "client_request_id", default="")
    context = body.get("usage_context")
    if context is not None and not isinstance(context, dict):
        raise invalid("usage_context", "usage_context must be an object", "invalid_type")
    if body.get("extra_params"):
        raise invalid(
            "extra_params", "extra_params is not supported; give fields themselves",
            "unsupported_field",
        )  # fmt: skip
    for name in (*RECORDED, "extra_params"):
        body.pop(name, None)


def _params(body: dict[str, Any]) -> dict[str, Any]:
    params = body.get("params")
    if params is None:
        return {}
    if not isinstance(params, dict):
        raise invalid("params", "params must be an object", "invalid_type")
    unknown = sorted(set(params) - PARAMS)
    if unknown:
        raise invalid(
            f"params.{unknown[0]}", f"params takes {', '.join(sorted(PARAMS))}", "unknown_field"
        )
    return params
