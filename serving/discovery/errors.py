"""Errors of discovery.

ServingError
└── DiscoveryError
    ├── SourceFailed         a source could not list; the last good listing stays in use
    │   └── Interrupted      an API server broke off or is busy; the same request may be made again
    ├── AccessInvalid        the address or the credentials of an API server cannot be used
    ├── TrafficPlanInvalid   a traffic plan cannot be read or does not add up; nothing was applied
    ├── ProtosMissing        Envoy's message classes are not installed
    ├── ResourceInvalid      what was built for Envoy does not fit its messages; nothing was sent
    ├── RequestRefused       a client of the discovery protocol sent what no server can take
    └── AddressTaken         the address to listen on is in use or not this machine's

A plan of an older owner is refused with `serving.errors.StaleEpoch`.
"""

from serving import errors


class DiscoveryError(errors.ServingError):
    """Base of everything discovery raises on purpose."""


class SourceFailed(DiscoveryError):
    """A source could not list its endpoints this time."""


class Interrupted(SourceFailed):
    """An API server broke off or is busy; the same request may be made again.

    `retry_after_s` is the wait that it asked for.
    """

    def __init__(self, message: str, *, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class AccessInvalid(DiscoveryError):
    """The address or the credentials of an API server cannot be used."""


class TrafficPlanInvalid(DiscoveryError):
    """A traffic plan cannot be read, or its weights do not add up."""


class ProtosMissing(DiscoveryError):
    """Envoy's message classes are not installed."""


class ResourceInvalid(DiscoveryError):
    """A dictionary built for Envoy does not fit the message it is meant for."""


class RequestRefused(DiscoveryError):
    """A client of the discovery protocol sent what cannot be answered; its stream ends."""


class AddressTaken(DiscoveryError):
    """The address to listen on is in use or not this machine's."""
