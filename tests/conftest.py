"""Shared fixtures: the record in memory and on a real MLflow server."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from jobs.settings import Settings
from jobs.stack import Stack
from registry.store import Record
from tests.fakes.record import memory_record

# What is tested is what comes out, never how long a busy machine takes for it. A change that is to
# land meets the same examples each time it is tried; elsewhere new ones are looked for.
hypothesis.settings.register_profile("liftlock", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("liftlock")

# A shell has what it starts in the background ignore SIGINT, and children ignore it then too, also
# those that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def mlflow_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where that server keeps its files."""
    return tmp_path_factory.mktemp("mlflow-home")


@pytest.fixture(scope="session")
def mlflow_uri(mlflow_home: Path) -> Iterator[str]:
    """A real tracking server on sqlite, one for the session."""
    stack = Stack(settings=Settings(home=mlflow_home, mlflow_port=free_port()), note=lambda _: None)
    try:
        yield stack.tracking_uri()
    finally:
        stack.down()


@pytest.fixture(params=["memory", "mlflow"])
def record(request: pytest.FixtureRequest) -> Record:
    """Both records, for contract tests; the server is started only for the real one."""
    if request.param == "memory":
        return memory_record()
    from registry.mlflow_store import connect

    return connect(request.getfixturevalue("mlflow_uri"))


@pytest.fixture
def checkpoint_dir(tmp_path: Path) -> Path:
    """A small valid checkpoint."""
    from tests.fakes import checkpoints

    return checkpoints.make(tmp_path / "ck")
