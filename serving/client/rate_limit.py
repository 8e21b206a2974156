"""What an answer's headers say about rates, in one value.

Read are `Retry-After` (RFC 9110: seconds or a date), `RateLimit-Limit`, `-Remaining` and `-Reset`
and the newer `RateLimit: "name";r=3;t=5` with `RateLimit-Policy: "name";q=100` (the IETF's
draft-ietf-httpapi-ratelimit-headers, older and newer form), and the `x-ratelimit-*` headers of
Envoy and of OpenAI, whose times may read `1m30s`. What cannot be understood counts as not said.
"""

from __future__ import annotations

import email.utils
import re
from collections.abc import Mapping
from dataclasses import dataclass

_LIMIT = ("ratelimit-limit", "x-ratelimit-limit", "x-ratelimit-limit-requests")
_REMAINING = ("ratelimit-remaining", "x-ratelimit-remaining", "x-ratelimit-remaining-requests")
_RESET = ("ratelimit-reset", "x-ratelimit-reset", "x-ratelimit-reset-requests")
_WHOLE = re.compile(r"\s*([0-9]{1,15})(?:\s*[,;].*)?", re.ASCII)
_PARAMETER = re.compile(r";\s*([a-z]+)\s*=\s*([0-9]{1,15})(?![0-9.])", re.ASCII)
_SPAN = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|h|m|s)", re.ASCII)
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", re.ASCII)
_MOST_DIGITS = 15
_UNIT_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """What the endpoint said about rates; None is what it did not say."""

    limit: int | None = None
    """Requests that a window allows."""
    remaining: int | None = None
    """Requests still allowed in this window."""
    reset_s: float | None = None
    """Seconds until the window ends."""
    retry_after_s: float | None = None
    """Seconds to stay away, where the endpoint asks for that."""

    @property
    def wait_s(self) -> float | None:
        """Seconds until it makes sense to ask again; None where nothing says so."""
        if self.retry_after_s is not None:
            return self.retry_after_s
        return self.reset_s if self.remaining == 0 else None


def read(headers: Mapping[str, str], unix_s: float) -> RateLimit | None:
    """What these headers say at the time of day `unix_s`; None where they say nothing.

    headers: names in lower case.
    """
    newer = _parameters(headers.get("ratelimit", ""))
    found = RateLimit(
        limit=_first_whole(headers, _LIMIT, _parameters(headers.get("ratelimit-policy", "")), "q"),
        remaining=_first_whole(headers, _REMAINING, newer, "r"),
        reset_s=_reset_s(headers, newer),
        retry_after_s=_retry_after_s(headers.get("retry-after", ""), unix_s),
    )
    return None if found == RateLimit() else found


def _parameters(value: str) -> dict[str, int]:
    """Of the first item of a list of items with parameters."""
    return {name: int(number) for name, number in _PARAMETER.findall(value.partition(",")[0])}


def _first_whole(
    headers: Mapping[str, str], names: tuple[str, ...], newer: Mapping[str, int], parameter: str
) -> int | None:
    for name in names:
        found = _WHOLE.fullmatch(headers.get(name, ""))
        if found is not None:
            return int(found[1])
    return newer.get(parameter)


def _reset_s(headers: Mapping[str, str], newer: Mapping[str, int]) -> float | None:
    for name in _RESET:
        value = headers.get(name, "").partition(",")[0].strip()
        if _SECONDS.fullmatch(value):
            return float(value)
        spans = _SPAN.findall(value)
        if spans and "".join(number + unit for number, unit in spans) == value:
            return sum(float(number) * _UNIT_S[unit] for number, unit in spans)
    return float(newer["t"]) if "t" in newer else None


def _retry_after_s(value: str, unix_s: float) -> float | None:
    if value.isascii() and value.isdecimal():
        return float(value) if len(value) <= _MOST_DIGITS else None
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - unix_s)
    except (ValueError, OverflowError):
        return None
