"""Errors of the router.

ServingError
└── NoEndpoints     there is nothing to choose from; the caller answers 503 or waits
"""

from serving import errors


class NoEndpoints(errors.ServingError):
    """A request cannot be sent anywhere: no endpoint is known that is not draining."""
