"""What the calls of one client share: its settings, its clocks, and what it learned so far."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from serving.client import arguments, edges, hedge, retry
from serving.client.steps import Flow

ApiKey = str | Callable[[], str | None]
"""A key, or what gives the one of the moment, where keys are renewed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Settings, checked."""

    addresses: tuple[str, ...]
    discovery: str | None = None
    """Where discovery lists the addresses; those above are asked until it was read."""
    timeout_s: float
    deadline_s: float
    policy: retry.RetryPolicy
    api_key: ApiKey | None = field(default=None, repr=False)
    model: str | None = None
    version: int | None = None
    hedge: hedge.Hedge | None = None
    zone: str | None = None
    """The zone whose edges are asked first."""

    def __post_init__(self) -> None:
        if not self.addresses and self.discovery is None:
            raise ValueError(
                "base_url must name at least one address, or discovery a feed; found none"
            )
        if len(set(self.addresses)) < len(self.addresses):
            raise ValueError(f"base_url names an address twice: {', '.join(self.addresses)}")
        for address in self.addresses:
            arguments.address("base_url", address)
        if self.discovery is not None:
            arguments.address("discovery", self.discovery)
        if self.api_key is not None and not callable(self.api_key):
            arguments.header("api_key", self.api_key)
        if self.model is not None:
            arguments.header("model", self.model)
        if self.version is not None:
            arguments.whole("version", self.version, least=1)
        if self.hedge is not None:
            arguments.of_type("hedge", self.hedge, hedge.Hedge)
        if self.zone is not None:
            arguments.of_type("zone", self.zone, str)
            if self.discovery is None:
                raise ValueError("zone needs discovery, which tells the zones of the edges")
        arguments.seconds("timeout_s", self.timeout_s)
        arguments.seconds("deadline_s", self.deadline_s)

    def key_now(self) -> str | None:
        """The key to send now. Raises ValueError where what gives keys gave what is none."""
        if not callable(self.api_key):
            return self.api_key
        key = self.api_key()
        if key is not None:
            arguments.header("api_key", key)
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
        if self.version is not None:
            arguments.whole("version", self.version, least=1)
        if self.deadline_s is not None:
            arguments.seconds("deadline_s", self.deadline_s)


class Session:
    """A client's settings and its state: what it knows of its addresses and of latencies."""

    def __init__(self, config: Config, chance: Chance) -> None:
        self.config = config
        self.chance = chance
        self.edges = edges.Edges(config.addresses, chance.rng, chance.monotonic_s, config.zone)
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
