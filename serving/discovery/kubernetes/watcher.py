"""Keeping one mirror like one resource of the API server, for ever.

Three loops, each with one reason to go around. The outer one connects anew and lists anew; the
middle one watches on from the last version when a watch ends or breaks off; the inner one takes one
event after the other. Whatever fails, the mirror stays as it was until a complete list replaces it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from serving.discovery import errors
from serving.discovery.kubernetes import api, backoff, wire
from serving.discovery.kubernetes.access import Access
from serving.discovery.kubernetes.mirror import Mirror
from serving.discovery.kubernetes.settings import KubernetesSettings, Timing

_log = logging.getLogger(__name__)

_RESUMES = 3
"""Watches in a row without an event after which the list is read again: it is cheap, and finds out
what a server that lies about versions keeps to itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How often since the start."""

    lists: int = 0
    watches: int = 0
    events: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What both watchers of a source share."""

    access: Access
    settings: KubernetesSettings
    timing: Timing
    rng: random.Random
    clock: Callable[[], float]
    changed: Callable[[], None]
    """Called after each change of a mirror."""


class Watcher:
    """One resource. `run` ends by cancellation alone."""

    def __init__(
        self, resource: api.Resource, mirror: Mirror[Any], surroundings: Surroundings
    ) -> None:
        self._resource = resource
        self._mirror = mirror
        self._around = surroundings
        self._failed = 0  # attempts in a row that came to nothing
        self.counts = Counts()
        self.heard_at_s: float | None = None
        """When the server last said something that made sense."""
        self.fault: str | None = None
        """Why it is not being listened to; None while all is well."""

    async def run(self) -> NoReturn:
        """Loop 1: connect, and connect anew."""
        while True:
            try:
                await self._connect()
            except errors.DiscoveryError as exc:
                await self._pause(exc)
            except Exception as exc:  # supervisor: a fault of ours must not end the watching
                _log.exception("watching %s failed", self._resource.plural)
                await self._pause(exc)
            else:
                await self._pause(None)

    async def _connect(self) -> None:
        client = await asyncio.to_thread(api.client, self._around.access, self._around.timing)
        around = self._around
        async with client:
            await self._list_then_watch(
                api.Api(client, self._resource, around.settings, around.timing, around.rng)
            )

    async def _list_then_watch(self, server: api.Api) -> None:
        """Loop 2: list once, then watch from there for as long as watches bring something."""
        headers = await self._headers()
        self._mirror.replace(await server.list(headers))
        self._heard(lists=1)
        self._around.changed()
        barren = 0
        while barren < _RESUMES:
            seen, since_s, interruption = self.counts.events, self._around.clock(), None
            try:
                await self._watch(server)
            except errors.Interrupted as exc:
                interruption = exc
            barren = 0 if self.counts.events > seen else barren + 1
            if self._around.clock() - since_s > self._around.timing.backoff_max_s:
                self._failed = 0  # it held, and nothing happened
            await self._pause(interruption)

    async def _watch(self, server: api.Api) -> None:
        """Loop 3, which `server.watch` goes around: one event after the other."""
        await server.watch(
            self._mirror.version or "",
            await self._headers(),
            opened=lambda: self._heard(watches=1),
            take=self._take,
        )

    def _take(self, event: wire.Event) -> None:
        self._mirror.take(event)
        self._failed = 0
        self._heard(events=1)
        if event.kind is not wire.EventKind.BOOKMARK:
            self._around.changed()

    async def _headers(self) -> dict[str, str]:
        return await asyncio.to_thread(self._around.access.headers)

    def _heard(self, *, lists: int = 0, watches: int = 0, events: int = 0) -> None:
        self.heard_at_s, self.fault = self._around.clock(), None
        self._count(lists=lists, watches=watches, events=events)

    def _count(
        self, *, lists: int = 0, watches: int = 0, events: int = 0, failures: int = 0
    ) -> None:
        known = self.counts
        self.counts = Counts(
            lists=known.lists + lists,
            watches=known.watches + watches,
            events=known.events + events,
            failures=known.failures + failures,
        )

    async def _pause(self, fault: Exception | None) -> None:
        """Wait before the next attempt: longer each time, until an event comes."""
        around = self._around
        wait_s = backoff.delay_s(self._failed, around.rng, around.timing)
        self._failed += 1
        if fault is not None:
            self._count(failures=1)
            if self.fault is None:
                _log.warning("watching %s: %s", self._resource.plural, fault)
            self.fault = str(fault) or type(fault).__name__
        if isinstance(fault, errors.Interrupted):
            wait_s = max(wait_s, min(fault.retry_after_s, around.timing.retry_after_max_s))
        await asyncio.sleep(wait_s)
