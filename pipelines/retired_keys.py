"""Settings that there once were: what to write instead, and how to read what was stored with them.

A file that somebody gives must say what it means, so there they are errors. The settings that
a version was promoted with cannot be changed any more, and it must stay possible to go back to it.
"""

from __future__ import annotations

from typing import Any

RETIRED = {
    "rollout.max_fault_rate": "is no more: rollouts are held against slo.availability and "
    "slo.latency_ms, as alerts are; take the line out",
}
"""By the full name of the key, with one block before it."""


def without(raw: Any) -> Any:
    """Plain data of stored settings without what has no meaning any more."""
    if not isinstance(raw, dict):
        return raw
    gone = {tuple(name.split(".")) for name in RETIRED}
    return {
        block: {key: v for key, v in found.items() if (block, key) not in gone}
        if isinstance(found, dict)
        else found
        for block, found in raw.items()
    }
