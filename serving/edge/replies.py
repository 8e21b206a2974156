"""Errors that the edge makes itself, in the replicas' JSON shape, which is OpenAI's."""

from __future__ import annotations

from typing import Any

from serving.edge import filters
from serving.keys.scopes import PREFIXES, Scope

_TYPE = "type.googleapis.com/envoy."
_SCOPES = (
    ", ".join(f"{scope} for {prefix}" for prefix, scope in PREFIXES.items())
    + f", {Scope.ADMIN} for all else"
)
_KEY_HINT = "send a valid API key as 'Authorization: Bearer KEY' or 'x-api-key: KEY'"


def own_errors() -> dict[str, Any]:
    """The answer's status, code and words by what Envoy refused; the first that fits counts."""
    ended = f"this API key was revoked or replaced; {_KEY_HINT}"
    scope = f"this API key lacks the scope that the path needs: {_SCOPES}"
    rate = "over the rate of this API key or model; wait as retry-after and x-ratelimit-reset say"
    broke = "the replica broke off while it worked on this; it may be sent again where that is safe"
    late = "no answer within the deadline; allow more by x-request-timeout-ms, or send less"
    invalid = "invalid_request_error"
    return {
        "mappers": [
            {
                "filter": _because_of(f"response.code_details.contains('[{filters.ENDED}]')"),
                "status_code": 401,
                **_json("invalid_api_key", invalid, ended),
            },
            {
                "filter": _because_of("response.code_details == 'upgrade_failed'"),
                **_json(_DETAILS, "edge_error", "the edge takes neither CONNECT nor upgrades"),
            },
            {
                "filter": _because_of(_NO_KEY),
                **_json(
                    "invalid_api_key",
                    invalid,
                    f"no API key was sent, or what was is none; {_KEY_HINT}",
                ),
            },
            _of(401, _json("invalid_api_key", invalid, f"%LOCAL_REPLY_BODY%; {_KEY_HINT}")),
            _of(403, _json("insufficient_scope", invalid, scope)),
            _of(429, _json("rate_limit_exceeded", "rate_limit_error", rate)),
            _of(504, _json("deadline_exceeded", "timeout_error", late)),
            # An unknown transfer coding: no fault of the edge's, so none that an alert may count.
            {**_of(501, _json(_DETAILS, "edge_error", "Bad Request")), "status_code": 400},
            # Envoy says 503 here too, which tells callers that nothing was begun.
            {
                "filter": _because_of(_BEGUN),
                "status_code": 502,
                **_json("replica_broke_off", "edge_error", broke),
            },
            {**_of(503, _json(_DETAILS, "edge_error", _BODY)), "headers_to_add": [_retry_after()]},
            {"filter": _status("GE", 400), **_json(_DETAILS, "edge_error", _BODY)},
        ]
    }


_DETAILS, _BODY = "%RESPONSE_CODE_DETAILS%", "%LOCAL_REPLY_BODY%"


_RESET = "upstream_reset_before_response_started{"
_BEGUN = " || ".join(
    f"response.code_details.contains('{_RESET}{why}')"
    for why in ("connection_termination", "remote_reset", "local_reset", "protocol_error")
)
"""A replica had the request, or may have had it."""
_NO_KEY = " || ".join(
    f"response.code_details.contains('{{Jwt_is_{why}')" for why in ("missing", "not_in_the_form")
)


def _of(status: int, answer: dict[str, Any]) -> dict[str, Any]:
    return {"filter": _status("EQ", status), **answer}


def _because_of(expression: str) -> dict[str, Any]:
    """Evaluated for the edge's own answers only, so not on the path of a request that is served."""
    typed = {
        "@type": f"{_TYPE}extensions.access_loggers.filters.cel.v3.ExpressionFilter",
        "expression": expression,
    }
    return {"extension_filter": {"name": "details", "typed_config": typed}}


def _json(code: str, kind: str, message: str) -> dict[str, Any]:
    body = {"error": {"message": message, "type": kind, "code": code, "param": None}}
    return {"body_format_override": {"json_format": body, "content_type": "application/json"}}


def _status(op: str, status: int) -> dict[str, Any]:
    value = {"default_value": status, "runtime_key": f"edge.status_{op.lower()}_{status}"}
    return {"status_code_filter": {"comparison": {"op": op, "value": value}}}


def _retry_after() -> dict[str, Any]:
    return {
        "header": {"key": "retry-after", "value": "1"},
        "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
    }
