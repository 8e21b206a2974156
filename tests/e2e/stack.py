"""Runs the real command line on a home folder and ports of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jobs.settings import Settings
from jobs.stack import Stack
from serving.client import Client, ClientError
from tests.conftest import free_port

ROOT = Path(__file__).resolve().parents[2]
CHECKPOINTS = ROOT / "examples" / "checkpoints"


@dataclass
class Ran:
    """A finished command."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class LiveStack:
    """A home folder with its own ports; commands run as a user would run them."""

    home: Path
    port: int = field(default_factory=free_port)
    mlflow_port: int = field(default_factory=free_port)
    more: dict[str, str] = field(default_factory=dict)
    """Further variables of the environment."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def mlflow_url(self) -> str:
        return f"http://127.0.0.1:{self.mlflow_port}"

    def env(self) -> dict[str, str]:
        """What a command of this stack finds in its environment."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("LIFTLOCK_", "MLFLOW_"))}
        return env | {
            "LIFTLOCK_HOME": str(self.home),
            "LIFTLOCK_PORT": str(self.port),
            "LIFTLOCK_MLFLOW_PORT": str(self.mlflow_port),
            **self.more,
        }

    def run(self, *args: str, timeout_s: float = 1500) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "jobs", *args],
            capture_output=True, text=True, env=self.env(), cwd=ROOT, timeout=timeout_s,
            check=False,
        )  # fmt: skip
        return Ran(code=done.returncode, out=done.stdout, err=done.stderr)

    def start_mlflow(self) -> None:
        """As any command would that finds it not running."""
        settings = Settings(home=self.home, mlflow_port=self.mlflow_port)
        Stack(settings=settings, note=lambda _: None).tracking_uri()

    def promote(self, name: str, *more: str) -> Ran:
        return self.run("promote", str(CHECKPOINTS / name), "--model", "grammar", "--json", *more)


class Asking:
    """Asks the endpoint on a thread, and keeps count of what came back."""

    def __init__(self, url: str, *, pause_s: float = 0.0) -> None:
        self._url = url
        self._pause_s = pause_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self.answers: Counter[int] = Counter()
        self.failures: list[str] = []

    def __enter__(self) -> Asking:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join(timeout=60)

    def _ask(self) -> None:
        # No retries: what the client would hide is what must be seen here.
        with Client(self._url, retries=0, timeout_s=60) as client:
            while not self._stop.wait(self._pause_s):
                try:
                    self.answers[client.correct("The cats sleeps.").version] += 1
                except ClientError as exc:
                    self.failures.append(str(exc))
