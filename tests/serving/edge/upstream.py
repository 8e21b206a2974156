"""A replica of a few lines: HTTP/1.1 over asyncio, with knobs for how badly it behaves."""

from __future__ import annotations

import asyncio
import json
from collections import deque

from serving import endpoint


class Upstream:
    """Answers every request with its version after `delay_s`; counts what it serves."""

    def __init__(self, version: int, *, delay_s: float = 0.0, model: str = "grammar") -> None:
        self.model = model
        self.version = version
        self.delay_s = delay_s
        self.status = 200
        self.padding_bytes = 0
        """What every answer is longer by."""
        self.gate = asyncio.Event()
        """Requests wait while it is cleared."""
        self.gate.set()
        self.working = asyncio.Event()
        """Set once a request was read."""
        self.served = 0
        self.in_flight = 0
        self.most_in_flight = 0
        self.requests: deque[tuple[str, dict[str, str], bytes]] = deque(maxlen=100)
        """The last ones."""
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Upstream:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_exc: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._connections):
            writer.close()
        await asyncio.sleep(0)

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    def endpoint(
        self, state: endpoint.EndpointState = endpoint.EndpointState.READY
    ) -> endpoint.Endpoint:
        return endpoint.Endpoint(
            replica_id=f"{self.model}-{self.version}-{self.port}",
            model=self.model,
            version=self.version,
            digest="d",
            host="127.0.0.1",
            port=self.port,
            state=state,
        )

    def hang_up(self) -> None:
        """Break every connection, whatever is asked on it."""
        for writer in list(self._connections):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            while await self._exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._connections.discard(writer)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:] if line)
        }
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.requests.append((head[0], headers, body))
        self.in_flight += 1
        self.working.set()
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(self.delay_s)
            await self.gate.wait()
        finally:
            self.in_flight -= 1
        self.served += 1
        writer.write(self._answer(headers))
        await writer.drain()
        return True

    def _answer(self, headers: dict[str, str]) -> bytes:
        more = {"padding": "x" * self.padding_bytes} if self.padding_bytes else {}
        said = {
            **more,
            "model": self.model,
            "version": self.version,
            "corrected": "She goes.",
            "edits": [],
        }
        content = json.dumps({**said, "finish_reason": "stop", "port": self.port}).encode()
        return (
            f"HTTP/1.1 {self.status} X\r\ncontent-length: {len(content)}\r\n"
            f"x-liftlock-model: {self.model}\r\nx-liftlock-version: {self.version}\r\n"
            f"x-request-id: {headers.get('x-request-id', '')}\r\nserver: replica\r\n\r\n"
        ).encode() + content
