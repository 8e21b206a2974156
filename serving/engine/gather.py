"""Runs coroutines together; when one fails or the caller is cancelled, the rest are cancelled too.

`asyncio.gather` alone would let the others run on, and a `TaskGroup` would wrap the one error that
matters into a group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


async def all_of(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Results in order; raises the first failure after everything has stopped."""
    if len(work) == 1:
        return [await work[0]]
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
