"""The service level objective: an input that rollouts, load tests and alerts read alike."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SLO:
    """What callers are promised."""

    latency_quantile: float = 0.99
    """Share of requests that must be at least as fast as `latency_ms`."""
    latency_ms: float = 1000.0
    """End to end, measured at the edge."""
    availability: float = 0.9999
    """Share of requests answered without a server fault, over the window."""
    window_days: int = 30
    """The window that availability is counted over."""
    expected_peak_rps: float = 10.0
    """Requests per second to be ready for; the demo's laptop, not production's 200,000."""

    def __post_init__(self) -> None:
        if not 0.5 <= self.latency_quantile < 1.0:
            raise ValueError(
                f"latency_quantile must be 0.5 to below 1, got {self.latency_quantile}"
            )
        if self.latency_ms <= 0:
            raise ValueError(f"latency_ms must be above 0, got {self.latency_ms}")
        if not 0.0 < self.availability < 1.0:
            raise ValueError(f"availability must be between 0 and 1, got {self.availability}")
        if self.window_days < 1:
            raise ValueError(f"window_days must be at least 1, got {self.window_days}")
        if self.expected_peak_rps <= 0:
            raise ValueError(f"expected_peak_rps must be above 0, got {self.expected_peak_rps}")

    @property
    def error_budget(self) -> float:
        """Share of requests that may fail."""
        return 1.0 - self.availability
