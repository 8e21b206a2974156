"""What the calls of one client share: its settings, its clocks, and what it learned so far."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import httpx

from serving.client import edges, hedge, retry
from serving.client.steps import Flow

ApiKey = str | Callable[[], str | None]
"""A key, or what gives the one of the moment, where keys are renewed."""

_LONGEST_S = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Settings, checked."""

    addresses: tuple[str, ...]
    discovery: str | None = None
    """Where discovery lists the addresses; those above are asked until it was read."""
    timeout_s: float
    deadline_s: float
    policy: retry.RetryPolicy
    api_key: ApiKey | None = None
    model: str | None = None
    version: int | None = None
    hedge: hedge.Hedge | None = None

    def __post_init__(self) -> None:
        if not self.addresses and self.discovery is None:
            raise ValueError(
                "base_url must name at least one address, or discovery a feed; found none"
            )
        if len(set(self.addresses)) < len(self.addresses):
            raise ValueError(f"base_url names an address twice: {', '.join(self.addresses)}")
        for address in self.addresses:
            check_address(address, "base_url")
        if self.discovery is not None:
            check_address(self.discovery, "discovery")
        if not callable(self.api_key):
            _check_header("api_key", self.api_key)
        _check_header("model", self.model)
        for name in ("timeout_s", "deadline_s"):
            if not 0 < getattr(self, name) <= _LONGEST_S:
                raise ValueError(f"{name} must be above 0, found {getattr(self, name)}")
        check_version(self.version)

    def key_now(self) -> str | None:
        """The key to send now. Raises ValueError where what gives keys gave what is none."""
        if not callable(self.api_key):
            return self.api_key
        key = self.api_key()
        _check_header("api_key", key)
        return key


@dataclass(frozen=True, slots=True, kw_only=True)
class Chance:
    """Time and randomness, so that tests can hold them still."""

    monotonic_s: Callable[[], float]
    unix_s: Callable[[], float]
    rng: random.Random


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What one call wants otherwise than its client."""

    version: int | None = None
    deadline_s: float | None = None

    def __post_init__(self) -> None:
        check_version(self.version)
        if self.deadline_s is not None and not 0 < self.deadline_s <= _LONGEST_S:
            raise ValueError(f"deadline_s must be above 0, found {self.deadline_s}")


class Session:
    """A client's settings and its state: what it knows of its addresses and of latencies."""

    def __init__(self, config: Config, chance: Chance) -> None:
        self.config = config
        self.chance = chance
        self.edges = edges.Edges(config.addresses, chance.rng, chance.monotonic_s)
        self.hedging = hedge.Hedging(config.hedge) if config.hedge is not None else None
        self.learn: Callable[[float, str], Flow[None]] | None = None
        """What a call does first, where addresses are to be learned: Feed.ensure."""

    def now_s(self) -> float:
        """The monotonic clock."""
        return self.chance.monotonic_s()

    def until_s(self, wish: Wish) -> float:
        """When a call that begins now must be over."""
        own_s = wish.deadline_s
        return self.now_s() + (own_s if own_s is not None else self.config.deadline_s)


def check_version(version: int | None) -> None:
    """Raises ValueError for what can be no version."""
    if version is not None and (isinstance(version, bool) or version < 1):
        raise ValueError(f"version must be a number of at least 1, found {version!r}")


def _check_header(name: str, value: str | None) -> None:
    if value is not None and not (value.isascii() and value.isprintable()):
        raise ValueError(f"{name} must be printable ASCII, since it travels in a header")


def check_address(address: str, name: str) -> None:
    """Raises ValueError, by the name it was given under, for what cannot be asked.

    Read as httpx reads it, which is what asks. The message holds no key, wherever one was put.
    """
    shown = repr(address.partition("?")[0].partition("#")[0].rpartition("@")[2])
    try:
        url = httpx.URL(address)
        url.host.encode("idna")  # as whoever looks the name up does
    except (httpx.InvalidURL, UnicodeError) as exc:
        raise ValueError(f"{name} cannot be asked: {exc}, found {shown}") from exc
    if url.userinfo:  # would be sent in place of the API key, and be shown wherever an address is
        raise ValueError(f"{name} must hold no user and password, found some for {shown}")
    if "?" in address or "#" in address:
        raise ValueError(f"{name} must end before any ? or #, found some after {shown}")
    has_port = url.port is None or 0 < url.port < 2**16
    if url.scheme not in ("http", "https") or not url.host or not has_port:
        raise ValueError(f"{name} must be like http://host:port, found {shown}")
