"""Callers that send without pause until told to stop, and count what they get."""

from __future__ import annotations

import asyncio
from collections import Counter

import httpx


class Load:
    """`callers` connections in a loop against one path, for the body of an `async with`."""

    def __init__(self, url: str, callers: int = 8) -> None:
        self._url = url
        self._callers = callers
        self._stop = False
        self.versions: Counter[str] = Counter()
        self.ports: Counter[int] = Counter()
        self.failures: list[str] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Load:
        self._tasks = [asyncio.create_task(self._call()) for _ in range(self._callers)]
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self._stop = True
        await asyncio.gather(*self._tasks)

    async def _call(self) -> None:
        async with httpx.AsyncClient(trust_env=False, verify=False, timeout=10.0) as client:
            while not self._stop:
                try:
                    response = await client.post(self._url, json={"text": "a"})
                except httpx.HTTPError as exc:
                    self.failures.append(repr(exc))
                    continue
                if response.status_code != 200:
                    self.failures.append(f"{response.status_code} {response.text}")
                    continue
                self.versions[response.headers["x-liftlock-version"]] += 1
                self.ports[response.json()["port"]] += 1
