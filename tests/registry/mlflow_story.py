"""What the tests on a real MLflow write, read back and start."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import time
import urllib.request
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from registry.journal import flush, journaled
from registry.mlflow_store import connect, server
from registry.mlflow_store.evidence import experiment_name
from registry.model import Tag
from registry.pending import Pending
from registry.store import Record
from tests.registry.journal_story import promotion

SHOWN = ("liftlock.", "done", "last", "evidence", "mlflow.loggedArtifacts")


def new_model() -> str:
    return f"m-{uuid.uuid4().hex[:10]}"


def client_of(uri: str) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=uri, registry_uri=uri)


def runs_of(uri: str, model: str) -> list[Any]:
    client = client_of(uri)
    experiment = client.get_experiment_by_name(experiment_name(model))
    return list(client.search_runs([experiment.experiment_id])) if experiment else []


def contents(uri: str, model: str, model_id: str) -> list[Mapping[str, Any]]:
    """Everything that MLflow holds of a model's runs, with names in place of ids."""
    client, evidence = client_of(uri), connect(uri).evidence
    runs = sorted(runs_of(uri, model), key=lambda r: r.info.start_time)
    names = {r.info.run_id: f"<{r.info.run_name}>" for r in runs}

    def named(text: str) -> str:
        for run_id, name in names.items():
            text = text.replace(run_id, name)
        return text

    def files(run_id: str) -> dict[str, str]:
        paths = [f.path for f in client.list_artifacts(run_id)]
        return {path: named(evidence.read(run_id, path)) for path in paths}

    def points(run: Any) -> list[tuple[str, float, int, int]]:
        history = (client.get_metric_history(run.info.run_id, k) for k in run.data.metrics)
        found = itertools.chain.from_iterable(history)
        return sorted((m.key, m.value, m.timestamp, m.step) for m in found)

    of_model = [
        (m.key, m.value, m.timestamp, named(m.run_id))
        for m in client.get_logged_model(model_id).metrics
    ]
    told = [
        {
            "name": r.info.run_name,
            "status": r.info.status,
            "times": (r.info.start_time, r.info.end_time),
            "params": {k: named(v) for k, v in r.data.params.items()},
            "tags": {
                k: named(v)
                for k, v in r.data.tags.items()
                if k.startswith(SHOWN) and k != Tag.JOURNAL
            },
            "parent": names.get(r.data.tags.get("mlflow.parentRunId", "")),
            "points": points(r),
            "files": files(r.info.run_id),
        }
        for r in runs
    ]
    return [*told, {"model metrics": sorted(of_model)}]


def a_logged_model(uri: str, model: str) -> str:
    """Something that metrics can belong to."""
    client = client_of(uri)
    name = experiment_name(model)
    experiment = client.get_experiment_by_name(name)
    number = experiment.experiment_id if experiment else client.create_experiment(name)
    return str(client.create_logged_model(number, name="lm").model_id)


class Story:
    """One promotion's evidence, written by one process after another."""

    def __init__(self, uri: str, folder: Path) -> None:
        self.uri = uri
        self.model = new_model()
        self.model_id = a_logged_model(uri, self.model)
        self.folder = folder / self.model
        self.notes: list[str] = []
        self._ms = itertools.count(1000)

    def record(self, address: str, patience_s: float = 0.0) -> Record:
        return journaled(
            connect(address, check=False), self.folder, patience_s=patience_s,
            note=self.notes.append, now_ms=lambda: next(self._ms),
        )  # fmt: skip

    def tell(self, address: str, pause_s: float = 0.0) -> None:
        promotion(
            self.record(address).evidence, lambda s: time.sleep(pause_s),
            model=self.model, model_id=self.model_id,
        )  # fmt: skip

    def settled(self, address: str | None = None) -> list[Mapping[str, Any]]:
        flush(connect(address or self.uri), self.folder, self.notes.append)
        assert Pending(self.folder).waiting() == []
        return contents(self.uri, self.model, self.model_id)


class Server:
    """A tracking server of the test's own, which can be killed, paused and started again."""

    def __init__(self, home: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.home = home
        self.uri = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        log = (self.home / "log").open("ab")
        with log:
            self._process = subprocess.Popen(
                ["nice", "-n", "10", *server.command(self.home, "127.0.0.1", self.port)],
                env={**os.environ, **server.environment()},
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def send(self, number: int) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        assert self._process is not None
        self._process.wait(30)

    def wait(self) -> None:
        end = time.monotonic() + 120
        while time.monotonic() < end:
            with (
                contextlib.suppress(OSError),
                urllib.request.urlopen(f"{self.uri}/health", timeout=2) as answer,
            ):
                if answer.status == 200:
                    return
            time.sleep(0.2)
        raise AssertionError((self.home / "log").read_text()[-2000:])
