"""One real stack for the session: promoted once, then looked at from all sides."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.stack import LiveStack, Ran


@dataclass
class Promoted:
    """The stack after the first promotion."""

    stack: LiveStack
    ran: Ran

    @property
    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = self.ran.json()
        return found


@pytest.fixture(scope="session")
def promoted() -> Iterator[Promoted]:
    """The real job on real parts; everything is stopped at the end, whatever happened."""
    home = Path(tempfile.mkdtemp(prefix="liftlock-e2e-"))
    stack = LiveStack(home=home)
    try:
        ran = stack.promote("tiny-gec-1")
        assert ran.code == 0, f"{ran.out}\n{ran.err}"
        yield Promoted(stack=stack, ran=ran)
    finally:
        stack.run("serve", "--stop", timeout_s=180)
        shutil.rmtree(home, ignore_errors=True)
