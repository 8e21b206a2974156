"""The service level objective: an input that rollouts, load tests and alerts read alike."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

DAY_S = 86_400.0
LEAST_AVAILABILITY = 0.01
"""Whoever means a lower one has mistaken a percentage or the share of faults for it."""


class Sli(enum.StrEnum):
    """What is measured: a share of requests that were as promised."""

    AVAILABILITY = "availability"
    """Requests that were answered without a server fault."""
    LATENCY = "latency"
    """Requests that took at most `latency_ms`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SLO:
    """What callers are promised."""

    latency_quantile: float = 0.99
    """Share of requests that must be at least as fast as `latency_ms`."""
    latency_ms: float = 1000.0
    """From the last byte of the request to the last of the answer, measured at the edge."""
    availability: float = 0.9999
    """Share of requests answered without a server fault, over the window."""
    window_days: int = 30
    """The window that both shares are counted over."""
    expected_peak_rps: float = 10.0
    """Requests per second to be ready for; the demo's laptop, not production's 200,000."""

    def __post_init__(self) -> None:
        if not 0.5 <= self.latency_quantile < 1.0:
            raise ValueError(
                f"latency_quantile must be 0.5 to below 1, got {self.latency_quantile}"
            )
        if not 0.0 < self.latency_ms < math.inf:
            raise ValueError(f"latency_ms must be above 0, got {self.latency_ms}")
        if not LEAST_AVAILABILITY <= self.availability < 1.0:
            raise ValueError(
                f"availability must be between 0 and 1, and at least {LEAST_AVAILABILITY}, got "
                f"{self.availability}"
            )
        if self.window_days < 1:
            raise ValueError(f"window_days must be at least 1, got {self.window_days}")
        if not 0.0 < self.expected_peak_rps < math.inf:
            raise ValueError(f"expected_peak_rps must be above 0, got {self.expected_peak_rps}")

    @property
    def window_s(self) -> float:
        """The window in seconds."""
        return self.window_days * DAY_S

    def objective(self, sli: Sli) -> float:
        """Share of requests that must be as promised."""
        return self.availability if sli is Sli.AVAILABILITY else self.latency_quantile

    def budget(self, sli: Sli) -> float:
        """Share of requests that need not be: the error budget."""
        return 1.0 - self.objective(sli)
