"""An endpoint: one replica's address and what may be sent to it."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class EndpointState(enum.StrEnum):
    """What a replica says of itself."""

    READY = "ready"
    """Answered its warm-up requests; may take traffic."""
    DRAINING = "draining"
    """Finishes what it holds; must get nothing new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One replica as discovery sees it."""

    replica_id: str
    model: str
    version: int
    digest: str
    host: str
    port: int
    state: EndpointState
    zone: str | None = None
    """Where to prefer it from; None where zones are not known."""
