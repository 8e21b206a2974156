"""Requests to an API server: a list to its last page, and one watch until it ends.

The one place that imports httpx. What goes wrong on the way is an Interrupted; what the server says
is read by `wire`. Every answer is bounded in time and in bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from http import HTTPStatus

import httpx

from registry.wording import shown
from serving.discovery import errors
from serving.discovery.kubernetes import wire
from serving.discovery.kubernetes.access import Access
from serving.discovery.kubernetes.settings import KubernetesSettings, Timing

_PAGE_ITEMS = 500
_LIST_BYTES = 256 * 1024 * 1024
"""All pages of a list; 10,000 endpoints take about 6 MB."""
_LINE_BYTES = 8 * 1024 * 1024
"""etcd takes no object above 1.5 MiB."""
_ERROR_BYTES = 4096
_END_S = 15.0
"""How much longer than asked a server may take to end a watch."""

# A server that is gone without a word (its machine died) is noticed after about 25 s.
_KEEP_ALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """What is listed and watched. `path` is that of its API group and version."""

    path: str
    plural: str
    list_kind: str


SERVICES = Resource(path="/api/v1", plural="services", list_kind="ServiceList")
SLICES = Resource(
    path="/apis/discovery.k8s.io/v1", plural="endpointslices", list_kind="EndpointSliceList"
)


class Api:
    """One connection to an API server, for one resource."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        resource: Resource,
        settings: KubernetesSettings,
        timing: Timing,
        rng: random.Random,
    ) -> None:
        self._client = client
        self._resource = resource
        self._timing = timing
        self._rng = rng
        scope = f"/namespaces/{settings.namespace}" if settings.namespace is not None else ""
        self._path = f"{resource.path}{scope}/{resource.plural}"
        selector = settings.label_selector
        self._selection = {"labelSelector": selector} if selector else {}

    async def list(self, headers: dict[str, str]) -> wire.Page:
        """All objects now; raises Interrupted or SourceFailed."""
        try:
            async with asyncio.timeout(self._timing.list_s):
                return await self._all_pages(headers)
        except TimeoutError as exc:
            raise errors.Interrupted(
                f"the API server did not list {self._resource.plural} within "
                f"{self._timing.list_s:g} s"
            ) from exc

    async def _all_pages(self, headers: dict[str, str]) -> wire.Page:
        items: list[object] = []
        more, left_bytes = "", _LIST_BYTES
        while True:
            params = {**self._selection, "limit": str(_PAGE_ITEMS)}
            if more:
                params["continue"] = more
            body = b""
            async with self._answer("list", params, headers) as response:
                body = await _read(response, left_bytes)
            left_bytes -= max(len(body), 1)
            page = wire.page(body, self._resource.list_kind)
            items.extend(page.items)
            if not page.more:
                return wire.Page(items=tuple(items), version=page.version)
            if page.more == more:
                raise errors.SourceFailed("the API server sends the same page of a list for ever")
            more = page.more

    async def watch(
        self,
        version: str,
        headers: dict[str, str],
        *,
        opened: Callable[[], None],
        take: Callable[[wire.Event], None],
    ) -> None:
        """Give `take` every event after `version` until the server ends the watch, which it does
        now and then. Raises Interrupted, SourceFailed, and what `take` raises."""
        watch_s = int(self._timing.watch_s * (1 + self._rng.random() / 2)) + 1
        params = {
            **self._selection,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(watch_s),
        }
        lines = wire.Lines(_LINE_BYTES)
        try:
            async with (
                asyncio.timeout(watch_s + _END_S),
                self._answer("watch", params, headers) as response,
            ):
                opened()
                async for chunk in response.aiter_bytes():
                    for line in lines.feed(chunk):
                        take(wire.event(line))
        except TimeoutError as exc:
            raise errors.Interrupted("the API server did not end a watch as it was asked") from exc

    @contextlib.asynccontextmanager
    async def _answer(
        self, doing: str, params: dict[str, str], headers: dict[str, str]
    ) -> AsyncIterator[httpx.Response]:
        """An answer with status 200, its body still to be read."""
        doing = f"{doing} {self._resource.plural}"
        try:
            async with self._client.stream(
                "GET", self._path, params=params, headers=headers
            ) as response:
                if response.status_code != HTTPStatus.OK:
                    raise await _refused(response, doing)
                yield response
        except httpx.ReadTimeout as exc:
            raise errors.Interrupted(
                f"the API server said nothing for {self._timing.inactivity_s:g} s when asked to "
                f"{doing}"
            ) from exc
        except httpx.RequestError as exc:
            raise errors.Interrupted(
                f"the API server could not be asked to {doing} ({type(exc).__name__}: {exc})"
            ) from exc


def client(access: Access, timing: Timing) -> httpx.AsyncClient:
    """A client for one server, with the certificates as they are now. Blocks; raises
    AccessInvalid."""
    is_encrypted = access.server.startswith("https:")
    return httpx.AsyncClient(
        base_url=access.server,
        headers={"Accept": "application/json", "User-Agent": "liftlock-discovery"},
        timeout=httpx.Timeout(timing.inactivity_s, connect=timing.connect_s),
        transport=httpx.AsyncHTTPTransport(
            verify=access.context() if is_encrypted else False, socket_options=_KEEP_ALIVE
        ),
        trust_env=False,  # a proxy of the environment is not meant for the cluster's own server
    )


async def _read(response: httpx.Response, limit_bytes: int) -> bytes:
    parts, left_bytes = [], limit_bytes
    async for chunk in response.aiter_bytes():
        left_bytes -= len(chunk)
        if left_bytes < 0:
            raise errors.SourceFailed(
                f"the API server's list is above {_LIST_BYTES} bytes; select fewer objects"
            )
        parts.append(chunk)
    return b"".join(parts)


async def _refused(response: httpx.Response, doing: str) -> errors.SourceFailed:
    said = b""
    async for chunk in response.aiter_bytes():
        said += chunk
        if len(said) > _ERROR_BYTES:
            break
    after = response.headers.get("retry-after", "")
    return wire.refusal(
        response.status_code,
        doing,
        shown(said.decode("utf-8", "replace")),
        retry_after_s=float(after) if after.isdecimal() and len(after) < 9 else 0.0,
    )
