"""How a router chooses. What each number is worth is measured in docs/router.md."""

from __future__ import annotations

from dataclasses import dataclass

_SHARES = (
    "slow_start_floor", "failure_weight", "unreached_weight", "eject_at", "probation_share",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterSettings:
    """Settings of one router.

    Raises:
        ValueError: a field is out of its bounds; the message names field, value and bound.
    """

    report_max_age_s: float = 1.0
    """Loads that replicas report are believed for so long (Prequal's limit); twenty requests of
    50 ms. Older ones count as unknown."""
    probe_max_age_s: float = 0.1
    """An answered probe proposes its endpoint for so long; two requests of 50 ms."""
    probe_pool_size: int = 16
    """Answered probes that are kept, the newest ones (Prequal's size)."""
    probes_per_pick: float = 2.0
    """Probes that a choice asks for; each choice uses up two. 0 where nobody sends probes."""
    spill_at: int = 200
    """Requests in flight from which an endpoint of the own zone is full, and other zones are
    looked at: 0.8 of the 256 that a replica takes."""
    slow_start_s: float = 10.0
    """A new endpoint's share grows to the full one over this time."""
    slow_start_floor: float = 0.1
    """Its share at the start."""
    failure_weight: float = 0.2
    """Weight of the newest outcome in the failure rate, which is a moving average."""
    unreached_weight: float = 0.2
    """The same for an endpoint that was not reached; 1 ejects it at once."""
    eject_at: float = 0.6
    """Failure rate of an ejection; with the weight above, five failures in a row from zero."""
    ejection_s: float = 5.0
    """First ejection, the edge's value too; the n-th lasts n times as long."""
    max_ejection_s: float = 60.0
    """Longest ejection, the edge's value too."""
    max_ejected_share: float = 0.2
    """Endpoints ejected at most, the edge's value too (one is allowed where there are two or
    more): beyond it the fault is not the endpoints'."""
    probation_share: float = 0.1
    """Share of an endpoint that comes back from an ejection, one request at a time."""
    probation_successes: int = 3
    """Successes after which it goes on as a new endpoint does."""

    def __post_init__(self) -> None:
        for name in ("report_max_age_s", "probe_max_age_s", "slow_start_s", "ejection_s"):
            self._require(name, getattr(self, name) > 0, "above 0")
        for name in _SHARES:
            self._require(name, 0 < getattr(self, name) <= 1, "above 0 and at most 1")
        for name in ("probe_pool_size", "spill_at", "probation_successes"):
            self._require(name, getattr(self, name) >= 1, "at least 1")
        self._require("probes_per_pick", self.probes_per_pick >= 0, "at least 0")
        self._require(
            "max_ejection_s", self.max_ejection_s >= self.ejection_s, f"at least {self.ejection_s}"
        )
        self._require("max_ejected_share", 0 <= self.max_ejected_share < 1, "0 to below 1")

    def _require(self, name: str, holds: bool, bound: str) -> None:
        if not holds:
            raise ValueError(f"router setting {name} must be {bound}, got {getattr(self, name)}")
