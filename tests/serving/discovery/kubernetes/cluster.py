"""An API server that says what a test tells it to, on a real socket (kmock)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import kmock

from serving.discovery import observation
from serving.discovery.kubernetes import KubernetesSettings, KubernetesSource, Timing
from serving.discovery.kubernetes.access import Access, Material
from serving.endpoint import EndpointState
from tests.serving.discovery.kubernetes.build import QUICK, service, services, slices

READY = EndpointState.READY
SERVICES, SLICES = "services", "endpointslices"
QUIET: tuple[Any, ...] = (b"", ...)
"""A watch that stays open and says what `say` gives it."""
_PATHS = {
    SERVICES: "/api/v1/namespaces/ns/services",
    SLICES: "/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices",
}


def answer(status: int, said: Any = b"", **headers: str) -> kmock.Response:
    """An answer with a status other than 200."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return kmock.Response(status=status, payload=said, headers=named)


class Cluster:
    """Lists and watches are answered from scripts, of which the last line is said for ever."""

    def __init__(self, server: kmock.RawHandler) -> None:
        self._server = server
        self.lists: dict[str, list[Any]] = {SERVICES: [services(service())], SLICES: [slices()]}
        self.watches: dict[str, list[Any]] = {SERVICES: [QUIET], SLICES: [QUIET]}
        for plural in _PATHS:
            self._watched(plural) << self._next(self.watches, plural)
            self._listed(plural) << self._next(self.lists, plural)

    @property
    def url(self) -> str:
        return str(self._server.url)

    def say(self, plural: str, *events: Any, last: bool = False) -> None:
        """Give the open watches these lines; `last` ends them."""
        self._watched(plural)[...] << (*events, *([] if last else [...]))

    def asked(self, plural: str, watch: bool) -> Sequence[kmock.Request]:
        return list(self._watched(plural) if watch else self._listed(plural))

    def paths(self) -> set[str]:
        """All paths that were asked for."""
        return {request.url.path for request in self._server}

    async def until_watched(self, plural: str = SLICES, times: int = 1) -> None:
        await until(lambda: len(self.asked(plural, watch=True)) >= times)

    def _watched(self, plural: str) -> kmock.View:
        return self._server[kmock.method.GET, _PATHS[plural], kmock.params({"watch": "true"})]

    def _listed(self, plural: str) -> kmock.View:
        return self._server[kmock.method.GET, _PATHS[plural]] - self._watched(plural)

    @staticmethod
    def _next(scripts: dict[str, list[Any]], plural: str) -> Callable[[], Any]:
        def say() -> kmock.Response:
            script = scripts[plural]
            said = script.pop(0) if len(script) > 1 else script[0]
            if isinstance(said, kmock.Response):
                return said
            # kmock keeps a header until another value comes
            return answer(200, said, content_encoding="identity")

        return say


async def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition; fails after seconds."""
    async with asyncio.timeout(5.0):
        while not holds():  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.002)


async def settled(source: KubernetesSource, generation: int | None = None) -> observation.Listing:
    """The listing after that generation."""
    async with asyncio.timeout(5.0):
        await source.changed(generation)
    return await source.list()


async def becomes(source: KubernetesSource, *hosts: str) -> observation.Listing:
    """The listing once just these are ready.

    What a script says comes at once, so the first look at the source may find all of it.
    """
    await source.changed()
    async with asyncio.timeout(5.0):
        while True:
            listing = await source.list()
            if sorted(e.host for e in listing.endpoints if e.state is READY) == sorted(hosts):
                return listing
            await source.changed(listing.generation)


@contextlib.asynccontextmanager
async def watching(
    url: str,
    *,
    timing: Timing = QUICK,
    token: Material | None = None,
    settings: KubernetesSettings | None = None,
    **options: Any,
) -> AsyncIterator[KubernetesSource]:
    """A source that is closed at the end."""
    source = KubernetesSource(
        Access(server=url, token=token),
        settings or KubernetesSettings(namespace="ns"),
        timing=timing,
        **options,
    )
    try:
        yield source
    finally:
        await source.close()
