"""A stand-in engine core: a process that does nothing, and a `FakeEngine` in each front end.

Files in the checkpoint directory steer it: `delay_s`, and `no_seats` for a core without spares.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from registry.engine_settings import EngineSettings
from serving.engine.core import Seat
from serving.errors import DeploymentFailed
from tests.fakes.engine import FakeEngine

SPARE = 2


class FakeCore:
    def __init__(self, checkpoint_dir: str, settings: EngineSettings, seats: int) -> None:
        self._process = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL)
        self._left = seats
        self._arguments = {
            "checkpoint_dir": checkpoint_dir, "context": settings.max_model_len_tokens,
        }  # fmt: skip
        self._refuses = Path(checkpoint_dir, "refuses").is_file()

    @property
    def pid(self) -> int:
        return self._process.pid

    def seat(self) -> Seat | None:
        self._left -= 1
        if self._left < 0:
            return None
        return Seat(attach="tests.fakes.core:attach", arguments=self._arguments)

    def given(self, seat: Seat) -> None:
        """Holds nothing for a seat."""

    def wait_until_loaded(self) -> None:
        if self._refuses:
            raise DeploymentFailed("the fake core was told not to load")

    def shutdown(self) -> None:
        self._process.kill()
        self._process.wait()


def attach(arguments: dict[str, Any], fds: Sequence[int]) -> FakeEngine:
    directory = Path(arguments["checkpoint_dir"])
    if (directory / "dies").is_file():
        sys.exit(3)
    delay = directory / "delay_s"
    return FakeEngine(
        delay_s=float(delay.read_text()) if delay.is_file() else 0.0,
        max_model_len_tokens=arguments["context"],
    )


def launch(checkpoint_dir: str, settings: EngineSettings, front_ends: int) -> FakeCore:
    """A `CoreFactory`."""
    spare = 0 if Path(checkpoint_dir, "no_seats").is_file() else SPARE
    return FakeCore(checkpoint_dir, settings, front_ends + spare)
