"""Opens a tracking server for a backup or a restore."""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.mlflow_store.catalog import load

if TYPE_CHECKING:
    from registry.mlflow_store.backup_target import MlflowVault


def vault(tracking_uri: str) -> MlflowVault:
    """The vault of a tracking server; nothing is asked yet."""
    load()
    from mlflow import MlflowClient

    from registry.mlflow_store.backup_target import MlflowVault

    client = MlflowClient(tracking_uri=tracking_uri, registry_uri=tracking_uri)
    return MlflowVault(client, tracking_uri)
