"""The SDK's batches by Serve handle: chunks, retries and refusals as over HTTP, other transport.

For programs on the cluster, past the edge: no key, no limit of an edge and no sampling of its log,
and the choice among replicas is made here (`serving.ray_router`, in this process). Admission is the
replica's own, so what it refuses over HTTP it refuses here.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncGenerator, Iterable
from typing import Any

from serving.client import async_driver, batch, calls, retry
from serving.client.settings import Chance, Config, Session, Wish
from serving.client.steps import Flow, Outcome, Race, Raced, Send, T

_ADDRESS = "http://serve-handle"
"""What stands for the deployment where the SDK wants an address."""
_SLACK_S = 5.0
"""The replica answers at the deadline; this is for one that does not."""


async def correct_many(
    handle: Any,
    texts: Iterable[str],
    *,
    concurrency: int = 8,
    texts_per_request: int = 16,
    language: str | None = None,
    timeout_s: float = 30.0,
    deadline_s: float = 120.0,
) -> AsyncGenerator[batch.Result, None]:
    """Corrects texts by `RayCluster.handle`; yields a Correction or a ClientError for each.

    See `Client.correct_many`. Wrap it in `contextlib.aclosing` where it may be left early.
    """
    config = Config(
        addresses=(_ADDRESS,),
        timeout_s=timeout_s,
        deadline_s=deadline_s,
        policy=retry.RetryPolicy(),
    )
    chance = Chance(monotonic_s=time.monotonic, unix_s=time.time, rng=random.Random())
    plan = batch.Plan(
        texts=batch.several(texts),
        options=calls.CorrectionOptions(language=language),
        wish=Wish(),
        concurrency=concurrency,
        texts_per_request=texts_per_request,
    )
    driver = HandleDriver(handle)
    advances = batch.run(Session(config, chance), plan, driver.run)
    try:
        async for advance in advances:
            for result in advance.results:
                yield result
    finally:
        await advances.aclose()


class HandleDriver:
    """Moves the SDK's requests for corrections by handle."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    async def run(self, flow: Flow[T]) -> T:
        """A call's result; what it holds is given back, also when this is canceled."""
        return await async_driver.drive(flow, self._move)

    async def _move(self, step: Send | Race) -> Outcome | Raced:
        if not isinstance(step, Send) or step.opens:
            raise TypeError("batches by handle are neither raced nor streamed")
        options = json.loads(step.content)
        response = self._handle.correct.remote(
            options.pop("texts"),
            options=options,
            headers=dict(step.headers),
            timeout_s=step.timeout_s,
        )
        try:
            async with asyncio.timeout(step.timeout_s + _SLACK_S):
                answer = await response
        except BaseException as exc:
            failed = _failure(exc, step)
            response.cancel()
            if failed is None:
                raise
            return failed
        return retry.Reply(status=answer["status"], headers=answer["headers"], body=answer["body"])


def _failure(exc: BaseException, step: Send) -> retry.Failure | None:
    """What Serve raises for a call without an answer; None is none of its errors."""
    from ray.exceptions import RayError
    from ray.serve.exceptions import RayServeException

    if isinstance(exc, TimeoutError):
        kind, reason = retry.FailureKind.TIMEOUT, f"no answer within {step.timeout_s:g} s"
    elif isinstance(exc, RayError | RayServeException):
        kind, reason = retry.FailureKind.BROKEN, f"{type(exc).__name__}: {exc}"
    else:
        return None
    return retry.Failure(kind=kind, reason=reason)
