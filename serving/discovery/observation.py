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
    as_of_s: float | None = None
    """When this was known to be so (monotonic seconds), from a source that answers from memory;
    None from one that asks each time."""
    refused: tuple[str, ...] = ()
    """What the source left out, and why, a sentence each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The last good listing and when it was so (monotonic seconds); None before the first."""

    listing: Listing | None = None
    listed_at_s: float | None = None

    @property
    def endpoints(self) -> tuple[endpoint.Endpoint, ...]:
        """The endpoints to serve from."""
        return self.listing.endpoints if self.listing is not None else ()

    def age_s(self, now_s: float) -> float | None:
        """Seconds since what is believed was known to be so; None when nothing is believed."""
        return now_s - self.listed_at_s if self.listed_at_s is not None else None


def observe(previous: Observation, listing: Listing | None, *, now_s: float) -> Observation:
    """The belief after one more attempt to list; `listing` is None when the attempt failed."""
    if listing is None:
        return previous
    as_of_s = now_s if listing.as_of_s is None else min(listing.as_of_s, now_s)
    return Observation(listing=listing, listed_at_s=as_of_s)
