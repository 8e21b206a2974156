"""How a replica tells its load on every answer: ORCA's header `endpoint-load-metrics`, as text.

ORCA (Open Request Cost Aggregation, gRFC A51 and `xds.data.orca.v3`) is what Envoy, gRPC and vLLM
speak. Of its forms the text is written, since it needs neither JSON nor protobuf:

    endpoint-load-metrics: TEXT named_metrics.in_flight=7
"""

from __future__ import annotations

HEADER = "endpoint-load-metrics"
_FORM = "TEXT "
_NAME = "named_metrics.in_flight"


def text(in_flight: int) -> str:
    """The header's value: requests of everybody that the replica holds, the answered one not."""
    return f"{_FORM}{_NAME}={in_flight}"


def in_flight(value: str | None) -> int | None:
    """What a header says of requests in flight; None where it says nothing or is no such header."""
    if value is None or not value.startswith(_FORM):
        return None
    for pair in value[len(_FORM) :].split(","):
        name, _, number = pair.partition("=")
        if name.strip() == _NAME:
            return _count(number.strip())
    return None


def _count(number: str) -> int | None:
    try:
        found = float(number)
    except ValueError:
        return None
    return int(found) if 0 <= found < 2**31 else None
