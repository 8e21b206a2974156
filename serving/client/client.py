"""The clients: thin drivers that move bytes and time for the calls in serving.client.core.

Both keep connections open between calls; use them as context managers, or close them.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from typing import Any
from urllib import parse

import httpx

from serving.client import core, retry, types

_CONNECT_S = 5.0
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class _Base:
    """What the two clients share: their settings."""

    def __init__(
        self,
        base_url: str,
        *,
        timeout_s: float = 10.0,
        deadline_s: float = 30.0,
        retries: int = 2,
        api_key: str | None = None,
        model: str | None = None,
    ) -> None:
        """A client of the endpoint at `base_url`.

        timeout_s: longest wait for one attempt.
        deadline_s: longest time for a call with all its attempts and pauses.
        retries: attempts after the first, made only where they can do no harm.
        api_key: sent as a bearer token.
        model: which model to ask, where several answer at the same address.
        """
        self._config = core.Config(
            base_url=base_url.rstrip("/"),
            timeout_s=timeout_s,
            deadline_s=deadline_s,
            policy=retry.RetryPolicy(retries=retries),
            api_key=api_key,
            model=model,
        )
        self._chance = core.Chance(
            monotonic_s=time.monotonic, unix_s=time.time, rng=random.Random()
        )
        self._connect()

    def _connect(self) -> None:
        raise NotImplementedError

    def _url(self, step: core.Send) -> str:
        return self._config.base_url + step.path

    def _uses_tls(self) -> bool:
        """Loading certificates takes 50 ms, for nothing on plain HTTP (no redirect is followed)."""
        return self._config.base_url.startswith("https:")

    def _uses_proxy(self) -> bool:
        """A proxy from the environment cannot reach this machine's own loopback."""
        return parse.urlsplit(self._config.base_url).hostname not in _LOOPBACK


class Client(_Base):
    """A client that waits. Safe to share between threads."""

    def _connect(self) -> None:
        self._http = httpx.Client(trust_env=self._uses_proxy(), verify=self._uses_tls())

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; the client is of no use afterwards."""
        self._http.close()

    def correct(self, text: str) -> types.Correction:
        """Correct a text. Raises a ClientError."""
        return self._run(core.correct(self._config, self._chance, text))

    def complete(
        self,
        prompt: str,
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        stop: Sequence[str] | None = None,
        seed: int | None = None,
    ) -> types.Completion:
        """Complete a prompt; what is None is left to the endpoint. Raises a ClientError."""
        options = _options(max_tokens, temperature, stop, seed)
        return self._run(core.complete(self._config, self._chance, prompt, options))

    def models(self) -> tuple[types.Model, ...]:
        """The models that answer there. Raises a ClientError."""
        return self._run(core.models(self._config, self._chance))

    def health(self) -> types.Health:
        """Whether a replica is well. Raises ConnectionFailed or DeadlineExceeded without answer."""
        return self._run(core.health(self._config, self._chance))

    def _run(self, flow: core.Flow[core.T]) -> core.T:
        outcome: retry.Reply | retry.Failure | None = None
        while True:
            try:
                step = flow.send(outcome)
            except StopIteration as done:
                result: core.T = done.value
                return result
            if isinstance(step, core.Send):
                outcome = self._send(step)
            else:
                time.sleep(step.delay_s)
                outcome = None

    def _send(self, step: core.Send) -> retry.Reply | retry.Failure:
        until_s = time.monotonic() + step.timeout_s
        try:
            with self._http.stream(
                step.method,
                self._url(step),
                headers=dict(step.headers),
                content=step.content,
                timeout=_timeout(step),
            ) as response:
                body = bytearray()
                for chunk in response.iter_bytes():
                    body += chunk
                    if time.monotonic() > until_s:  # httpx limits each read, not their sum
                        return _too_slow(step)
        except httpx.RequestError as exc:
            return _failure(exc)
        return _reply(response, bytes(body))


class AsyncClient(_Base):
    """A client for asyncio, with the surface of Client."""

    def _connect(self) -> None:
        self._http = httpx.AsyncClient(trust_env=self._uses_proxy(), verify=self._uses_tls())

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; the client is of no use afterwards."""
        await self._http.aclose()

    async def correct(self, text: str) -> types.Correction:
        """Correct a text. Raises a ClientError."""
        return await self._run(core.correct(self._config, self._chance, text))

    async def complete(
        self,
        prompt: str,
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        stop: Sequence[str] | None = None,
        seed: int | None = None,
    ) -> types.Completion:
        """Complete a prompt; what is None is left to the endpoint. Raises a ClientError."""
        options = _options(max_tokens, temperature, stop, seed)
        return await self._run(core.complete(self._config, self._chance, prompt, options))

    async def models(self) -> tuple[types.Model, ...]:
        """The models that answer there. Raises a ClientError."""
        return await self._run(core.models(self._config, self._chance))

    async def health(self) -> types.Health:
        """Whether a replica is well. Raises ConnectionFailed or DeadlineExceeded without answer."""
        return await self._run(core.health(self._config, self._chance))

    async def _run(self, flow: core.Flow[core.T]) -> core.T:
        outcome: retry.Reply | retry.Failure | None = None
        while True:
            try:
                step = flow.send(outcome)
            except StopIteration as done:
                result: core.T = done.value
                return result
            if isinstance(step, core.Send):
                outcome = await self._send(step)
            else:
                await asyncio.sleep(step.delay_s)
                outcome = None

    async def _send(self, step: core.Send) -> retry.Reply | retry.Failure:
        try:
            async with asyncio.timeout(step.timeout_s):
                response = await self._http.request(
                    step.method,
                    self._url(step),
                    headers=dict(step.headers),
                    content=step.content,
                    timeout=_timeout(step),
                )
        except TimeoutError:
            return _too_slow(step)
        except httpx.RequestError as exc:
            return _failure(exc)
        return _reply(response, response.content)


def _options(
    max_tokens: int | None,
    temperature: float | None,
    stop: Sequence[str] | None,
    seed: int | None,
) -> dict[str, Any]:
    return {
        "max_tokens": max_tokens,
        "temperature": temperature,
        "stop": list(stop) if stop is not None else None,
        "seed": seed,
    }


def _timeout(step: core.Send) -> httpx.Timeout:
    return httpx.Timeout(step.timeout_s, connect=min(_CONNECT_S, step.timeout_s))


def _reply(response: httpx.Response, body: bytes) -> retry.Reply:
    return retry.Reply(status=response.status_code, headers=dict(response.headers), body=body)


def _failure(exc: httpx.RequestError) -> retry.Failure:
    """httpx tells apart what matters here: whether a request can have left."""
    match exc:
        case httpx.ConnectError() | httpx.ConnectTimeout():
            kind = retry.FailureKind.NOT_SENT
        case httpx.TimeoutException():
            kind = retry.FailureKind.TIMEOUT
        case _:
            kind = retry.FailureKind.BROKEN
    return retry.Failure(kind=kind, reason=f"{type(exc).__name__}: {exc}".rstrip(": "))


def _too_slow(step: core.Send) -> retry.Failure:
    reason = f"more than {step.timeout_s:.3g} s"
    return retry.Failure(kind=retry.FailureKind.TIMEOUT, reason=reason)
