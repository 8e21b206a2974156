"""Models and unfinished runs, as a real MLflow server lists them."""

from __future__ import annotations

import uuid

import pytest

from registry.mlflow_store import catalog, connect
from registry.model import Tag
from registry.store import Record


@pytest.fixture
def model() -> str:
    return f"m-{uuid.uuid4().hex[:10]}"


@pytest.fixture
def real(mlflow_uri: str) -> Record:
    return connect(mlflow_uri)


def test_models_are_those_with_a_promotion_or_a_ledger(
    mlflow_uri: str, real: Record, model: str
) -> None:
    listing = catalog(mlflow_uri)
    assert model not in listing.models()
    real.evidence.open(model, "promote x", {}, None)
    assert model in listing.models()
    assert listing.models() == tuple(sorted(listing.models()))


def test_unfinished_is_the_newest_that_nobody_ended_with_its_stages_in_order(
    mlflow_uri: str, real: Record, model: str
) -> None:
    listing, evidence = catalog(mlflow_uri), real.evidence
    assert listing.unfinished(model) is None
    ended = evidence.open(model, "promote a", {Tag.STAGE: "promotion"}, None)
    evidence.close(ended, tags={})
    assert listing.unfinished(model) is None
    run = evidence.open(model, "promote b", {Tag.STAGE: "promotion"}, None)
    evidence.log(run, params={"actor": "ana"})
    first = evidence.open(model, "register", {Tag.STAGE: "register"}, run)
    evidence.close(first, tags={})
    second = evidence.open(model, "evaluate", {Tag.STAGE: "evaluate"}, run)
    found = listing.unfinished(model)
    assert found is not None
    assert (found.run_id, found.name, found.stage) == (run, "promote b", "promotion")
    assert (found.is_running, found.params["actor"], found.ended_at_ms) == (True, "ana", None)
    stages = listing.stages(model, run)
    assert [(s.run_id, s.stage, s.is_running) for s in stages] == [
        (first, "register", False), (second, "evaluate", True),
    ]  # fmt: skip
    assert stages[0].ended_at_ms is not None
