"""Translates MLflow's, the connection's and this machine's errors at the one boundary.

What counts is whether asking again can help: away (no connection, no answer in time, 429, 5xx),
refused (the request is wrong), denied (no request would do), not found, or a conflict.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from registry.errors import (
    NotFound,
    RecordConflict,
    RecordDenied,
    RecordRefused,
    RecordUnavailable,
    RegistryError,
)

ABSENT = ("RESOURCE_DOES_NOT_EXIST", "NOT_FOUND")
TAKEN = (
    "RESOURCE_ALREADY_EXISTS", "ALREADY_EXISTS", "RESOURCE_CONFLICT", "INVALID_PARAMETER_VALUE",
)  # fmt: skip
DENIED = (
    "CUSTOMER_UNAUTHORIZED", "UNAUTHENTICATED", "PERMISSION_DENIED", "ENDPOINT_NOT_FOUND",
)  # fmt: skip
REFUSED = ("BAD_REQUEST", "MALFORMED_REQUEST", "NOT_IMPLEMENTED", "FEATURE_DISABLED")
DENIED_STATUS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
AWAY_STATUS = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
FULL = (errno.ENOSPC, errno.EDQUOT)


@contextlib.contextmanager
def translated(action: str) -> Iterator[None]:
    """Turns errors of the block into ours; the cause stays attached."""
    import requests
    from mlflow.exceptions import MlflowException

    try:
        yield
    except MlflowException as exc:
        raise _of_mlflow(exc, action) from exc
    except ImportError as exc:
        raise RecordRefused(
            f"{action} needs the Python package {exc.name}, which is not installed; install it "
            "beside liftlock (object stores bring their own clients)"
        ) from exc
    except requests.RequestException as exc:
        raise _of_request(exc, action) from exc
    except (ConnectionError, TimeoutError, socket.gaierror) as exc:
        raise _away(action, exc) from exc
    except OSError as exc:
        raise _of_this_machine(action, exc) from exc


def _of_mlflow(exc: Exception, action: str) -> RegistryError:
    code = getattr(exc, "error_code", "")
    detail = _first_line(exc)
    if code in ABSENT:
        return NotFound(f"not found while {action}: {detail}")
    if code in TAKEN:
        return RecordConflict(f"MLflow refused {action}: {detail}")
    if code in DENIED:
        return _denied(action, detail)
    if code in REFUSED:
        return RecordRefused(f"MLflow refused {action} ({code}): {detail}")
    return _of_no_code(exc, action, code)


def _of_no_code(exc: Exception, action: str, code: str) -> RegistryError:
    """MLflow wraps whatever the connection or a worker thread raised and keeps only the text."""
    import requests

    inner = exc.__cause__ or exc.__context__
    if isinstance(inner, requests.RequestException):
        return _of_request(inner, action)
    text = str(exc)
    if "not in a valid JSON format" in text:
        return _denied(action, "what answers there is not an MLflow server")
    for number in FULL:  # said by a thread that was downloading to this machine
        if f"[Errno {number}] {os.strerror(number)}" in text:
            return _of_this_machine(action, OSError(number, os.strerror(number)))
    return RecordUnavailable(
        f"MLflow failed while {action} ({code or 'no code'}): {_first_line(exc)}; check the "
        "tracking server and its log"
    )


def _of_request(exc: Exception, action: str) -> RegistryError:
    import requests
    from requests.exceptions import InvalidProxyURL, InvalidSchema, InvalidURL, MissingSchema

    if isinstance(exc, (InvalidProxyURL, InvalidSchema, InvalidURL, MissingSchema)):
        return _denied(action, f"the address is none: {exc}")
    if isinstance(exc, requests.exceptions.SSLError) and "CERTIFICATE_VERIFY_FAILED" in str(exc):
        return _denied(action, f"its certificate is not trusted: {exc}")
    response = getattr(exc, "response", None)
    status = response.status_code if response is not None else None
    if status == HTTPStatus.NOT_FOUND and _says_code(response):
        return NotFound(f"not found while {action}: {_first_line(exc)}")
    if status == HTTPStatus.NOT_FOUND or status in DENIED_STATUS:
        return _denied(action, _first_line(exc))
    if status is None or status in AWAY_STATUS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return _away(action, exc)
    return RecordRefused(f"MLflow refused {action}: {_first_line(exc)}")


def _says_code(response: Any) -> bool:
    """Whether MLflow itself answered, and not something in front of it that knows no such path."""
    try:
        return "error_code" in response.json()
    except (ValueError, TypeError):
        return False


def _away(action: str, exc: Exception) -> RecordUnavailable:
    return RecordUnavailable(
        f"no answer while {action}: {_first_line(exc)}; check that the tracking server runs"
    )


def _denied(action: str, detail: str) -> RecordDenied:
    return RecordDenied(
        f"MLflow does not let {action} through: {detail}; check the tracking address and the "
        "credentials in the environment (MLFLOW_TRACKING_USERNAME, MLFLOW_TRACKING_TOKEN, …)"
    )


def _of_this_machine(action: str, exc: OSError) -> RecordRefused:
    what = "make room on that disk" if exc.errno in FULL else "mend that"
    return RecordRefused(
        f"{action} failed on this machine, not in MLflow: {exc}; {what}, then run the same command "
        "again"
    )


def _first_line(exc: Exception) -> str:
    text = str(exc)
    return text.splitlines()[0] if text else type(exc).__name__
