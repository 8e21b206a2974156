"""Errors of the request path and of what steers it.

ServingError
├── EdgeError           Envoy refused a configuration, did not start or did not take a change
├── DeploymentFailed    a version did not become ready, with the replica's own reason
├── MetricsUnread       a metrics server did not answer, or what answered is none
├── StaleEpoch          another owner has taken the model over; nothing was changed
├── PortTaken           a port that liftlock must own is in use
├── KeysUnusable        the store of API keys is not there or cannot be read
└── NoSuchKey           an API key that was asked for is unknown, or has ended
"""


class ServingError(Exception):
    """Base of everything this package raises on purpose."""


class EdgeError(ServingError):
    """Envoy refused a configuration, did not start, or did not take a change in time."""


class DeploymentFailed(ServingError):
    """A version did not become ready."""


class MetricsUnread(ServingError):
    """A metrics server did not answer, or what answered is none."""


class StaleEpoch(ServingError):
    """Another owner has taken the model over, and the one who asked may not change it any more."""


class PortTaken(ServingError):
    """A port that liftlock must own is in use by another process."""


class KeysUnusable(ServingError):
    """The store of API keys is not there or cannot be read."""


class NoSuchKey(ServingError):
    """An API key that something was asked of is unknown, or has ended."""
