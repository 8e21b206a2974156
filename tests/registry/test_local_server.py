"""The tracking server that the embedded default starts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from registry.mlflow_store import connect
from tests.registry.mlflow_story import new_model


def test_searches_at_the_same_moment_are_all_answered(mlflow_uri: str) -> None:
    """MLflow alone answers some of them 500; see registry.mlflow_store.app."""
    record = connect(mlflow_uri)
    models = [new_model() for _ in range(4)]
    for model in models:
        record.ledger.beat(model, 1, "1 working")
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda n: record.ledger.beats(models[n % 4]), range(800)))
    assert found == [{1: "1 working"}] * 800
