"""Callers that send without pause until told to stop, and count what they get.

Bare asyncio streams: an HTTP library would take most of a small machine for itself.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Mapping
from urllib import parse

_BODY = '{"text": "a"}'


class Load:
    """`callers` connections in a loop against one address, for the body of an `async with`."""

    def __init__(
        self,
        url: str,
        callers: int = 8,
        *,
        path: str = "/",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        given = {"host": "edge", "content-length": str(len(_BODY)), **(headers or {})}
        lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
        self._request = ("\r\n".join(lines) + "\r\n\r\n" + _BODY).encode()
        self._port = parse.urlsplit(url).port
        self._callers = callers
        self._stop = False
        self.versions: Counter[int] = Counter()
        self.ports: Counter[int] = Counter()
        self.failures: list[str] = []
        self.seconds: Counter[int] = Counter()
        """Time that the answers of each port took, together."""
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Load:
        self._tasks = [asyncio.create_task(self._call()) for _ in range(self._callers)]
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self._stop = True
        await asyncio.gather(*self._tasks)

    async def _call(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        while not self._stop:
            writer.write(self._request)
            try:
                await self._answer(reader, time.monotonic())
            except (asyncio.IncompleteReadError, ConnectionError) as exc:
                self.failures.append(repr(exc))
                writer.close()
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, sent_s: float) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = next(line for line in head.split("\r\n") if line.startswith("content-length"))
        body = await reader.readexactly(int(length.partition(":")[2]))
        if " 200 " in head[:16]:
            said = json.loads(body)
            self.versions[said["version"]] += 1
            self.ports[said["port"]] += 1
            self.seconds[said["port"]] += time.monotonic() - sent_s  # type: ignore[assignment]
        else:
            self.failures.append(head.partition("\r\n")[0] + body.decode())
