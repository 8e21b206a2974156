"""The record in MLflow: the only package that imports mlflow."""

from registry.mlflow_store.connect import connect

__all__ = ["connect"]
