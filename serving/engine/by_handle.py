"""Corrections that are asked for by Serve handle instead of HTTP: for batches inside the cluster.

The one idea: the replica's actor holds no engine, its front ends do, so a call goes on to the
replica's own port. There it is admitted, counted, bounded and refused like any other request, and
what comes back is that answer as plain values, which cross releases.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from serving.engine import orca
from serving.engine.errors_http import unavailable

_PATH = "/v1/corrections"
_TIMEOUT_HEADER = "x-request-timeout-ms"
_LONGEST_S = 60.0
_SLACK_S = 5.0
"""The front end answers 408 at the deadline; this is for one that does not answer at all."""


class HandleCalls:
    """A replica's own callers. `close` once nothing is under way."""

    def __init__(self, url: str) -> None:
        # As many connections as there are calls: whoever is refused is refused by admission.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=32)
        self._http = httpx.AsyncClient(base_url=url, limits=limits, timeout=None, trust_env=False)

    async def correct(
        self,
        texts: Sequence[str],
        options: Mapping[str, Any],
        headers: Mapping[str, str],
        timeout_s: float | None,
    ) -> dict[str, Any]:
        """See `Replica.correct`."""
        allowed_s = _LONGEST_S if timeout_s is None else timeout_s
        deadline = {_TIMEOUT_HEADER: str(max(1, int(allowed_s * 1000)))}
        try:
            answer = await self._http.post(
                _PATH,
                content=json.dumps({**options, "texts": list(texts)}).encode(),
                headers={**headers, **deadline, "content-type": "application/json"},
                timeout=allowed_s + _SLACK_S,
            )
        except httpx.TransportError as exc:
            lost = unavailable("not_ready", f"a front end of this replica did not answer: {exc!r}")
            return _plain(int(lost.status), lost.headers, lost.body(), None)
        load = orca.in_flight(answer.headers.get(orca.HEADER))
        return _plain(answer.status_code, answer.headers.items(), answer.content, load)

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()


def _plain(status: int, headers: Any, body: bytes, in_flight: int | None) -> dict[str, Any]:
    return {"status": status, "headers": dict(headers), "body": body, "in_flight": in_flight}
