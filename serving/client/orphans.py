"""Connections that a cancelled request left behind in httpcore's pool.

httpcore 1.0.9 can be cancelled after it connected and before it sent: the connection is then
neither idle nor closed nor anybody's, so the pool keeps it, and its socket, for good
(https://github.com/encode/httpcore/issues/1093). Timeouts and hedges cancel a lot. The pool has no
public way to find such connections; where its inside is not as known, nothing is done.
"""

from __future__ import annotations

from typing import Any

import httpx


async def close(client: httpx.AsyncClient) -> None:
    """Closes what belongs to no request any more. To be called after a request that failed."""
    transports = [client._transport, *client._mounts.values()]
    for pool in (getattr(each, "_pool", None) for each in transports if each is not None):
        for connection in _take(pool):
            await connection.aclose()


def _take(pool: Any) -> list[Any]:
    """The orphans, out of the pool. A connection in use has its request in the pool's list."""
    requests, connections = getattr(pool, "_requests", None), getattr(pool, "_connections", None)
    if not isinstance(requests, list) or not isinstance(connections, list):
        return []
    owned = {id(getattr(each, "connection", None)) for each in requests}
    found = [
        each
        for each in connections
        if not (each.is_idle() or each.is_closed() or id(each) in owned)
    ]
    for each in found:
        connections.remove(each)
    return found
