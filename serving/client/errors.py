"""Errors of the client: one class per thing a caller may want to do about it.

ClientError
├── ConnectionFailed    nobody answered: check the address, or start the endpoint
├── DeadlineExceeded    no answer in time: allow more, or send less
├── BadRequest          the request is at fault: change it
├── NotAllowed          the API key is missing or not good for this
├── NotFound            no such model or path there
├── VersionNotServed    the pinned version does not serve: pin one of `served`, or none
├── Overloaded          the endpoint takes no more now: come back later, more slowly
└── ServerFault         the endpoint failed, or gave an answer that is none

Retries are over when one of these is raised. Each carries the request id to look for in the
endpoint's logs, the HTTP status and the endpoint's own error code where there was one, and what
the endpoint said about rates.
"""

from __future__ import annotations

from serving.client.rate_limit import RateLimit


class ClientError(Exception):
    """Base of everything the client raises on purpose."""

    def __init__(
        self,
        message: str,
        *,
        request_id: str,
        status: int | None = None,
        code: str | None = None,
        rate_limit: RateLimit | None = None,
    ) -> None:
        super().__init__(f"{message} [request {request_id}]")
        self.request_id = request_id
        self.status = status
        self.code = code
        self.rate_limit = rate_limit

    @property
    def retry_after_s(self) -> float | None:
        """How long the endpoint asks to be left alone; None where it did not say."""
        return self.rate_limit.wait_s if self.rate_limit is not None else None


class ConnectionFailed(ClientError):
    """No connection, or it broke before the answer was complete."""


class DeadlineExceeded(ClientError):
    """No answer in time: not within the client's limits, or the endpoint gave up itself."""


class BadRequest(ClientError):
    """The endpoint refused the request; sending it again unchanged is of no use."""


class NotAllowed(ClientError):
    """The API key is missing, unknown, or not good for this."""


class NotFound(ClientError):
    """No such model or path at this endpoint."""


class VersionNotServed(ClientError):
    """The version that was asked for does not serve; `served` names those that do."""

    served: tuple[int, ...] = ()
    """Empty where the endpoint did not say."""


class Overloaded(ClientError):
    """The endpoint, or its share for this caller, is full."""


class ServerFault(ClientError):
    """The endpoint failed, or answered with something this client does not understand."""
