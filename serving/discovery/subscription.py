"""What one Envoy asked for and has, for one kind of resource, and the words of the protocol.

Versions stand for content: what differs between the versions Envoy acknowledged and those on offer
is what it must be told. Pure; serving.discovery.stream decides when.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from serving.discovery.catalog import Resource

ABSENT = ""
"""In place of a version: there is no such resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What an Envoy says."""

    type_url: str
    subscribe: tuple[str, ...] = ()
    unsubscribe: tuple[str, ...] = ()
    has: Mapping[str, str] = field(default_factory=dict)
    """Versions it has from an earlier stream; only in the first request of a kind."""
    nonce: str = ""
    """Which response this answers; empty for none."""
    refusal: str | None = None
    """Why it did not take that response; None when it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What it is told."""

    type_url: str
    nonce: str
    resources: tuple[Resource, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A response on its way."""

    number: int
    versions: Mapping[str, str]
    needs: frozenset[str]
    filled: frozenset[str]
    """Names that exist and, being assignments, have endpoints."""


@dataclass(slots=True)
class Subscription:
    """One kind of resource at one Envoy; versions by name."""

    wildcard: bool = False
    names: set[str] = field(default_factory=set)
    acked: dict[str, str] = field(default_factory=dict)
    filled: set[str] = field(default_factory=set)
    """Names acknowledged in this stream that exist and, being assignments, have endpoints."""
    refused: dict[str, str] = field(default_factory=dict)
    """Refused as part of a response; sent again only alone."""
    refused_alone: dict[str, str] = field(default_factory=dict)
    """Refused for themselves; not sent again before they change."""
    waiting: Sent | None = None
    """The unanswered response."""
    greeted: bool = True
    """Whether it was told anything; who asks for all there is must hear even of nothing."""

    def stands(self, name: str, offered: Resource | None) -> bool:
        """Whether Envoy has it, with endpoints if it is an assignment, and nothing on its way says
        otherwise."""
        if self.waiting is not None and name in self.waiting.versions.keys() - self.waiting.filled:
            return False
        same = offered is not None and self.acked.get(name) == offered.version
        return name in self.filled or (same and offered is not None and not offered.empty)

    def take(self, sent: Sent) -> None:
        """Note that Envoy took a response."""
        self.filled |= sent.filled
        self.filled -= sent.versions.keys() - sent.filled
        for name, version in sent.versions.items():
            self.refused.pop(name, None)
            self.refused_alone.pop(name, None)
            if version == ABSENT and name not in self.names:
                self.acked.pop(name, None)
            else:
                self.acked[name] = version

    def forget(self, name: str) -> None:
        """Envoy no longer has it, or asks for it as if it had not."""
        self.acked.pop(name, None)
        self.filled.discard(name)

    def refuses(self, wanted: Mapping[str, str]) -> bool:
        """Whether something still wanted was refused; what is no longer wanted is forgotten."""
        for refused in (self.refused, self.refused_alone):
            for name in [n for n, version in refused.items() if wanted.get(n) != version]:
                del refused[name]
        return bool(self.refused or self.refused_alone)

    def wanted(self, offered: Mapping[str, Resource]) -> Iterator[tuple[str, str]]:
        """Names and versions that differ from what Envoy acknowledged."""
        names = {*offered, *self.acked} | self.names if self.wildcard else self.names
        for name in sorted(names):
            version = offered[name].version if name in offered else ABSENT
            # What the wildcard covers and nobody has needs no word; a name asked for does.
            known = self.acked.get(name, None if name in self.names else ABSENT)
            if known != version:
                yield name, version
