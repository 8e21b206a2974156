"""What the edges must know of the keys: which are ended, and which rates there are.

The one idea: a key says for itself what it allows and is believed because it is signed, so edges
need no list of keys. They are told only what a signature cannot know: what happened afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass

from serving.keys.record import KeyList

CLOCK_SKEW_S = 1
"""Edges take a key for this much longer than it says."""
LATE_CLOCK_S = 86_400
"""How far an edge's clock may be behind the one that these rules are made by: for so long an edge
may still take a key that has expired here, and must know that it was ended, and its rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRules:
    """One moment's rules, sorted, so that equal ones compare equal."""

    ended: tuple[str, ...] = ()
    """Labels of keys that are refused although they have not expired."""
    rates_rps: tuple[int, ...] = ()
    """The rates that keys in use have; each key has a bucket of its own of its rate."""


def rules(listed: KeyList, unix_s: float) -> KeyRules:
    """The rules at a time of day.

    Keys that expired long enough ago are left out: their own signature says so. So the rules do
    not grow for ever.
    """
    now = max(unix_s, listed.written_at)
    known = [r for r in listed.records if unix_s <= r.expires_at + CLOCK_SKEW_S + LATE_CLOCK_S]
    ended = {r.label for r in known if r.ends_at is not None and r.ends_at <= now}
    rates = {r.rate_rps for r in known if r.label not in ended}
    return KeyRules(ended=tuple(sorted(ended)), rates_rps=tuple(sorted(rates)))
