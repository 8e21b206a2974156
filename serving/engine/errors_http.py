"""Refusals and failures as HTTP: one exception, one JSON shape (OpenAI's), one place for both.

`code` is what a program switches on, `param` names the field to change, the message says what was
found and what to do. Nothing about the inside of the process is put into a message.
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
                    "message": self.message,
                    "type": _TYPES.get(self.status, "invalid_request_error"),
                    "param": self.param,
                    "code": self.code,
                }
            }
        )


def invalid(param: str | None, message: str, code: str = "invalid_value") -> ApiError:
    """400: the caller must change the request."""
    return ApiError(HTTPStatus.BAD_REQUEST, code, message, param=param)


def unavailable(code: str, message: str) -> ApiError:
    """503: another replica can answer now."""
    return ApiError(HTTPStatus.SERVICE_UNAVAILABLE, code, message, headers=(("retry-after", "1"),))
