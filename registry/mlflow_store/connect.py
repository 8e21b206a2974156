"""Opens the record on a tracking server, and translates MLflow's errors at this one boundary."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from registry.errors import NotFound, RecordConflict, RecordUnavailable, RegistryError
from registry.store import Record

if TYPE_CHECKING:
    from mlflow import MlflowClient

# Seven retries with long back-off are MLflow's default: a wrong address would take minutes to say.
CLIENT_ENV = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "60",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ASYNC_LOGGING": "false",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}


def connect(tracking_uri: str) -> Record:
    """Opens the record behind a tracking URI, such as `http://127.0.0.1:5000`.

    Raises:
        RecordUnavailable: the server does not answer.
    """
    for key, value in CLIENT_ENV.items():
        os.environ.setdefault(key, value)
    from mlflow import MlflowClient

    logging.getLogger("mlflow").setLevel(logging.WARNING)  # it announces each wait of 0 seconds

    from registry.mlflow_store.evidence import MlflowEvidence
    from registry.mlflow_store.ledger_log import MlflowLedger
    from registry.mlflow_store.versions import MlflowVersions

    with translated(f"reading experiments at {tracking_uri}"):
        client = MlflowClient(tracking_uri=tracking_uri, registry_uri=tracking_uri)
        client.search_experiments(max_results=1)
    evidence = MlflowEvidence(client, tracking_uri)
    return Record(
        versions=MlflowVersions(client, tracking_uri),
        evidence=evidence,
        ledger=MlflowLedger(client),
        address=tracking_uri,
    )


@contextlib.contextmanager
def translated(action: str) -> Iterator[None]:
    """Turns MLflow's and the connection's errors into ours; the cause stays attached."""
    import requests
    from mlflow.exceptions import MlflowException

    try:
        yield
    except MlflowException as exc:
        raise _error_for(exc, action) from exc
    except ImportError as exc:
        raise RecordUnavailable(
            f"{action} needs the Python package {exc.name}, which is not installed; install it "
            "beside liftlock (object stores bring their own clients)"
        ) from exc
    except (requests.RequestException, OSError) as exc:
        raise RecordUnavailable(
            f"MLflow failed while {action}: {exc}; check that the tracking server runs and retry"
        ) from exc


def _error_for(exc: Exception, action: str) -> RegistryError:
    code = getattr(exc, "error_code", "")
    detail = str(exc).splitlines()[0] if str(exc) else type(exc).__name__
    if code in ("RESOURCE_DOES_NOT_EXIST", "NOT_FOUND"):
        return NotFound(f"not found while {action}: {detail}")
    if code in ("RESOURCE_ALREADY_EXISTS", "INVALID_PARAMETER_VALUE"):
        return RecordConflict(f"MLflow refused {action}: {detail}")
    return RecordUnavailable(
        f"MLflow failed while {action} ({code or 'no code'}): {detail}; check the tracking server "
        "and its log, then run the same command again"
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
