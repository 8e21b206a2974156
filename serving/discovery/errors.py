"""Errors of discovery.

ServingError
└── DiscoveryError
    ├── SourceFailed         a source could not list; the last good listing stays in use
    └── TrafficPlanInvalid   a traffic plan cannot be read or does not add up; nothing was applied

A plan of an older owner is refused with `serving.errors.StaleEpoch`.
"""

from serving import errors


class DiscoveryError(errors.ServingError):
    """Base of everything discovery raises on purpose."""


class SourceFailed(DiscoveryError):
    """A source could not list its endpoints this time."""


class TrafficPlanInvalid(DiscoveryError):
    """A traffic plan cannot be read, or its weights do not add up."""
