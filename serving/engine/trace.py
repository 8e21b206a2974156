"""W3C trace context: which trace a request belongs to, and our own span in it.

The one idea, and the standard's: a header that is malformed is as if it had not been sent, and
`tracestate` without a good `traceparent` means nothing. No trace is begun here; where the caller
has none there is nothing to pass on, and the request id finds the log lines.

Source: https://www.w3.org/TR/trace-context/, sections 3.2 and 3.3.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

PARENT, STATE = "traceparent", "tracestate"
_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_KEY = r"[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13}"
_VALUE = r"[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
_MEMBER = re.compile(rf"(?:({_KEY})={_VALUE})?")
_MOST_MEMBERS = 32
_MOST_STATE_CHARS = 16_384
"""Far above 32 members of usual size; the standard asks for at least 512 to be passed on."""
_SAMPLED = 0x01


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One request's place in a trace; `span_id` is ours, new for each request."""

    trace_id: str
    span_id: str
    flags: int
    state: str = ""

    def headers(self) -> tuple[tuple[str, str], ...]:
        """What is passed on: the same trace, our span, the caller's vendor state untouched."""
        parent = (PARENT, f"00-{self.trace_id}-{self.span_id}-{self.flags:02x}")
        return (parent, (STATE, self.state)) if self.state else (parent,)


def read(headers: Iterable[tuple[str, str]]) -> Trace | None:
    """The trace in a request's headers (names in lower case), or None where there is no good one.

    Versions above 00 are read by their first four parts, as the standard asks; only the sampled
    flag is known and passed on. Two parents are none; several headers of state are one list.
    """
    given: dict[str, list[str]] = {PARENT: [], STATE: []}
    for name, value in headers:
        if name in given:
            given[name].append(value)
    if len(given[PARENT]) != 1:
        return None
    match = _PARENT.fullmatch(given[PARENT][0])
    if match is None:
        return None
    version, trace_id, parent_id, flags, more = match.groups()
    if version == "ff" or (version == "00" and more) or not int(trace_id, 16):
        return None
    if not int(parent_id, 16):
        return None
    return Trace(
        trace_id=trace_id,
        span_id=secrets.token_hex(8),
        flags=int(flags, 16) & _SAMPLED,
        state=_state(",".join(given[STATE])),
    )


def _state(given: str) -> str:
    """The vendors' state, empty where it is malformed."""
    if len(given) > _MOST_STATE_CHARS:
        return ""
    keys: list[str] = []
    for member in given.split(","):
        # Stripped first: white space in the pattern takes time in the square of its length.
        match = _MEMBER.fullmatch(member.strip(" \t"))
        if match is None:
            return ""
        if match[1]:
            keys.append(match[1])
    return given.strip() if len(set(keys)) == len(keys) <= _MOST_MEMBERS else ""
