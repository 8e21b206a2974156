"""Errors of the router. It is published with the client, so they derive from nothing of ours.

NoEndpoints     there is nothing to choose from; the caller answers 503 or waits
"""


class NoEndpoints(Exception):
    """A request cannot be sent anywhere: no endpoint is known that is not draining."""
