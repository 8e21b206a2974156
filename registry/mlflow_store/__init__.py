"""The record in MLflow: the only package that imports mlflow."""

from registry.mlflow_store.catalog import catalog, load
from registry.mlflow_store.connect import connect
from registry.mlflow_store.vault import vault

__all__ = ["catalog", "connect", "load", "vault"]
