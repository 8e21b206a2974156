"""Opens the record on a tracking server."""

from __future__ import annotations

import logging
import os
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from registry.errors import RecordConflict, RecordDenied
from registry.mlflow_store.translating import translated
from registry.store import Record

if TYPE_CHECKING:
    from mlflow import MlflowClient

# MLflow's client repeats a failed request seven times, with long pauses, also one that starts a
# run: where only the answer was lost there are two runs then. So it asks once; what may be repeated
# and who is patient is known to registry.journal.
CLIENT_ENV = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "60",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ASYNC_LOGGING": "false",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}

SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://")
WORDS = ("databricks", "databricks-uc", "uc")
"""Addresses that are no URI: the client finds the workspace itself."""


def connect(tracking_uri: str, *, check: bool = True) -> Record:
    """Opens the record behind a tracking URI, such as `http://127.0.0.1:5000`.

    Args:
        check: asks the server something first, so that a wrong address is said at once; without
            it a record can be opened whose server is away.

    Raises:
        RecordUnavailable: the server does not answer.
        RecordDenied: it lets nothing through, or is not MLflow, or the URI is none.
    """
    _check_address(tracking_uri)
    for key, value in CLIENT_ENV.items():
        os.environ.setdefault(key, value)
    from mlflow import MlflowClient

    logging.getLogger("mlflow").setLevel(logging.WARNING)  # it announces each wait of 0 seconds

    from registry.mlflow_store.evidence import MlflowEvidence
    from registry.mlflow_store.ledger_log import MlflowLedger
    from registry.mlflow_store.versions import MlflowVersions

    with translated(f"reading experiments at {tracking_uri}"):
        client = MlflowClient(tracking_uri=tracking_uri, registry_uri=tracking_uri)
        if check:
            client.search_experiments(max_results=1)
    evidence = MlflowEvidence(client, tracking_uri)
    return Record(
        versions=MlflowVersions(client, tracking_uri),
        evidence=evidence,
        ledger=MlflowLedger(client),
        address=tracking_uri,
    )


def _check_address(tracking_uri: str) -> None:
    try:
        parts = urlsplit(tracking_uri)
        whole = bool(parts.hostname) if parts.scheme in ("http", "https") else True
    except ValueError:
        whole = False
    if not whole or not (SCHEME.match(tracking_uri) or tracking_uri in WORDS):
        raise RecordDenied(
            f"{tracking_uri!r} is no address of an MLflow server; give one such as "
            "http://mlflow.example:5000 (MLFLOW_TRACKING_URI)"
        )


def experiment_id(client: MlflowClient, name: str) -> str:
    """The id of an experiment, made if absent; two makers at once get the same one."""
    found = client.get_experiment_by_name(name)
    if found is not None:
        return str(found.experiment_id)
    try:
        with translated(f"creating experiment {name}"):
            return str(client.create_experiment(name))
    except RecordConflict:
        found = client.get_experiment_by_name(name)
        if found is None:
            raise
        return str(found.experiment_id)
