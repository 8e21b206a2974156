"""Every refusal and failure a replica can answer with: when, and whether to send it again.

The one idea: there is one table. The published description and docs/endpoint.md are made from it,
and a test reads the source for codes that are not in it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from http import HTTPStatus


class Retry(enum.StrEnum):
    """Whether the same request can succeed when it is sent again."""

    NO = "no"
    """It will be refused again; change it."""
    YES = "yes"
    """As it is, after `Retry-After` where there is one; sampled text may come out differently."""
    MORE_TIME = "with more time"
    """With a later deadline, or less work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One kind of error; `code` is unique."""

    status: HTTPStatus
    code: str
    when: str
    retry: Retry = Retry.NO
    retry_after: bool = False
    """Whether the answer has the header `Retry-After`, in seconds."""


_BAD = HTTPStatus.BAD_REQUEST
_LARGE = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
_FAULT = HTTPStatus.INTERNAL_SERVER_ERROR
_AWAY = HTTPStatus.SERVICE_UNAVAILABLE
_FULL = HTTPStatus.TOO_MANY_REQUESTS


def _bad(code: str, when: str) -> Row:
    return Row(status=_BAD, code=code, when=when)


def _later(status: HTTPStatus, code: str, when: str) -> Row:
    return Row(status=status, code=code, when=when, retry=Retry.YES, retry_after=True)


ROWS = (
    _bad("bad_http", "what came is no request in HTTP/1.1; the connection is closed"),
    _bad("bad_json", "the body is not JSON in UTF-8, or no object"),
    _bad("missing_field", "a field that is needed is not there"),
    _bad("invalid_type", "a field is of the wrong type"),
    _bad("invalid_value", "a field or header has a value that cannot be"),
    _bad("out_of_range", "a number, or a number of things, is out of its range"),
    _bad("empty_text", "there is no text to work on"),
    _bad("unknown_field", "no such field"),
    _bad("unknown_column", "a table has other columns than `text`"),
    _bad("unsupported_field", "a field of the protocol that is not supported"),
    _bad("context_length_exceeded", "prompt and answer do not fit the model's context"),
    _bad("rejected_by_engine", "the engine or the model's chat template refused the prompt"),
    Row(status=HTTPStatus.NOT_FOUND, code="model_not_found", when="another model is served"),
    Row(
        status=HTTPStatus.NOT_FOUND, code="endpoint_not_found", when="no serving endpoint so named"
    ),
    Row(status=HTTPStatus.NOT_FOUND, code="unknown_path", when="no such path"),
    Row(
        status=HTTPStatus.METHOD_NOT_ALLOWED,
        code="wrong_method",
        when="the path takes another method, named in `Allow`",
    ),
    Row(
        status=HTTPStatus.REQUEST_TIMEOUT,
        code="deadline_exceeded",
        when="past the deadline; the work was stopped",
        retry=Retry.MORE_TIME,
    ),
    Row(
        status=HTTPStatus.PRECONDITION_FAILED,
        code="version_not_served",
        when="a pinned version is not the one this replica serves",
    ),
    Row(status=_LARGE, code="body_too_large", when="the body is over the limit, 1 MB"),
    Row(status=_LARGE, code="too_many_sentences", when="too many sentences or texts at once"),
    Row(
        status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        code="unsupported_media_type",
        when="a compressed body, or an invocation that is not JSON in UTF-8",
    ),
    Row(
        status=HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        code="head_too_large",
        when="headers, or what else surrounds the body, over 64 KiB; the connection is closed",
    ),
    _later(_FULL, "replica_full", "more in flight than the replica takes"),
    _later(_FULL, "queue_full", "more waits for the engine than the replica lets wait"),
    _later(_FULL, "deadline_unreachable", "behind what waits already it would be late; not begun"),
    Row(
        status=_FAULT,
        code="engine_failed",
        when="the engine could not finish this request",
        retry=Retry.YES,
    ),
    Row(status=_FAULT, code="internal_error", when="a fault of ours; it is in the log"),
    _later(_AWAY, "engine_dead", "the engine is gone; the replica will be replaced"),
    _later(_AWAY, "not_ready", "the replica is warming up or leaving"),
    _later(_AWAY, "draining", "the replica is shutting down"),
)


def markdown() -> str:
    """The table for people."""
    lines = [
        "| status | code | when | retry | `Retry-After` |",
        "|---|---|---|---|---|",
    ]
    for row in ROWS:
        after = "yes" if row.retry_after else ""
        lines.append(
            f"| {row.status.value} | `{row.code}` | {row.when} | {row.retry.value} | {after} |"
        )
    return "\n".join(lines) + "\n"
