"""How long to wait before an API server is asked again: doubling, capped, half of it by chance.

The fixed half keeps a failing server from being asked at once; the other half keeps all who lost
it at one moment from coming back at one moment.
"""

from __future__ import annotations

import random

from serving.discovery.kubernetes.settings import Timing

_MOST_DOUBLINGS = 32  # beyond any cap; 2.0**1024 would be an error


def delay_s(attempt: int, rng: random.Random, timing: Timing) -> float:
    """Seconds to wait after `attempt` failures in a row (0 for the first)."""
    doubled = timing.backoff_s * 2.0 ** min(max(attempt, 0), _MOST_DOUBLINGS)
    bound = min(doubled, timing.backoff_max_s)
    return bound / 2 + rng.random() * bound / 2
