"""A client of the discovery protocol for tests: what Envoy sends, one request at a time."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
from google.protobuf import json_format

from serving.discovery import protos, xds
from serving.discovery.catalog import Kind

NODE = {"id": "edge-1", "metadata": {"liftlock.url": "http://e:1"}, "locality": {"zone": "z"}}


class Client:
    """One stream; use as an async context manager."""

    def __init__(self, address: str, method: str = f"/{xds.SERVICE}/{xds.METHOD}") -> None:
        self._channel = grpc.aio.insecure_channel(address)
        self._call: Any = self._channel.stream_stream(method)()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        self._call.cancel()
        await self._channel.close()

    async def send(self, **content: Any) -> None:
        await self.send_bytes(request(**content).SerializeToString())

    async def send_bytes(self, data: bytes) -> None:
        await self._call.write(data)

    async def ask(self, kind: Kind, *names: str, node: dict[str, Any] | None = None) -> None:
        await self.send(
            type_url=kind.type_url, resource_names_subscribe=list(names), node=node or NODE
        )

    async def hear(self) -> Any:
        """The next response; raises TimeoutError after five seconds without one."""
        async with asyncio.timeout(5):
            data = await self._call.read()
        assert data is not grpc.aio.EOF, (await self._call.code(), await self._call.details())
        return protos.discovery().DeltaDiscoveryResponse.FromString(data)

    async def answer(self, response: Any, refusal: str | None = None) -> None:
        more = {"error_detail": {"code": 3, "message": refusal}} if refusal is not None else {}
        await self.send(type_url=response.type_url, response_nonce=response.nonce, **more)

    async def status(self) -> tuple[grpc.StatusCode, str]:
        """How the stream ended."""
        async with asyncio.timeout(5):
            return await self._call.code(), await self._call.details()

    async def take_all(self, node: dict[str, Any] | None = None) -> None:
        """Start as Envoy does and take everything."""
        await self.ask(Kind.CLUSTERS, node=node)
        clusters = await self.hear()
        await self.answer(clusters)
        names = [resource.name for resource in clusters.resources]
        if names:
            await self.ask(Kind.ENDPOINTS, *names)
            await self.answer(await self.hear())
        await self.ask(Kind.ROUTES, "edge")
        await self.answer(await self.hear())


def request(**content: Any) -> Any:
    return json_format.ParseDict(content, protos.discovery().DeltaDiscoveryRequest())


def assignment(response: Any) -> list[tuple[str, int, str]]:
    """The endpoints of a response with one assignment: address, port, zone."""
    (resource,) = response.resources
    data = json_format.MessageToDict(resource.resource, preserving_proto_field_name=True)
    return [
        (
            (at := e["endpoint"]["address"]["socket_address"])["address"],
            at["port_value"],
            group["locality"].get("zone", ""),
        )
        for group in data.get("endpoints", ())
        for e in group["lb_endpoints"]
    ]
