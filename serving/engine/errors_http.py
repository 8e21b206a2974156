"""Refusals and failures as HTTP: one exception, one JSON shape (OpenAI's), one place for both.

`code` is what a program switches on, `param` names the field to change, the message says what was
found and what to do. Nothing about the inside of the process is put into a message, and of what the
caller sent no more than fits a log line.
"""

from __future__ import annotations

from http import HTTPStatus

import orjson

_TYPES = {
    408: "timeout_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "unavailable_error",
}


_MESSAGE_CHARS = 600
_PARAM_CHARS = 100


class ApiError(Exception):
    """An answer other than 200. `code` is stable; `retry_after_s` tells a caller when to return."""

    def __init__(
        self,
        status: HTTPStatus,
        code: str,
        message: str,
        *,
        param: str | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.headers = headers

    def body(self) -> bytes:
        """The JSON answer."""
        return orjson.dumps(
            {
                "error": {
                    "message": _cut(self.message, _MESSAGE_CHARS),
                    "type": _TYPES.get(self.status, "invalid_request_error"),
                    "param": None if self.param is None else _cut(self.param, _PARAM_CHARS),
                    "code": self.code,
                }
            }
        )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def invalid(param: str | None, message: str, code: str = "invalid_value") -> ApiError:
    """400: the caller must change the request."""
    return ApiError(HTTPStatus.BAD_REQUEST, code, message, param=param)


def unavailable(code: str, message: str) -> ApiError:
    """503: another replica can answer now."""
    return ApiError(HTTPStatus.SERVICE_UNAVAILABLE, code, message, headers=(("retry-after", "1"),))
