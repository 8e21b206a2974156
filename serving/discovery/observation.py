"""What is believed of a source: its last good listing and how old that is.

A listing that failed (None) changes nothing but the age; an empty listing that succeeded is the
truth and is taken. A source that is not sure of having met everybody must fail, not guess: the
Ray directory does so for one heartbeat timeout after its start.
"""

from __future__ import annotations

from dataclasses import dataclass

from serving import endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One complete answer of a source. Another generation means that something changed."""

    generation: int
    endpoints: tuple[endpoint.Endpoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The last good listing and when it came (monotonic seconds); None before the first."""

    listing: Listing | None = None
    listed_at_s: float | None = None

    @property
    def endpoints(self) -> tuple[endpoint.Endpoint, ...]:
        """The endpoints to serve from."""
        return self.listing.endpoints if self.listing is not None else ()

    def age_s(self, now_s: float) -> float | None:
        """Seconds since the source last answered; None when it never did."""
        return now_s - self.listed_at_s if self.listed_at_s is not None else None


def observe(previous: Observation, listing: Listing | None, *, now_s: float) -> Observation:
    """The belief after one more attempt to list; `listing` is None when the attempt failed."""
    return previous if listing is None else Observation(listing=listing, listed_at_s=now_s)
