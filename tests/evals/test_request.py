"""Requests to the worker."""

import json
from pathlib import Path
from typing import Any

import pytest

from evals.errors import EvaluationFailed
from evals.request import Baseline, Request
from registry.engine_settings import DeviceKind, EngineSettings

REQUEST = Request(
    checkpoint_dir=Path("checkpoint"),
    manifest=Path("manifest.json"),
    engine=EngineSettings(device=DeviceKind.CUDA, kv_cache_gib=None, max_num_seqs=8),
    suites=(Path("a.yaml"), Path("b.yaml")),
)


def test_json_round_trip_is_exact() -> None:
    assert Request.from_json(REQUEST.to_json()) == REQUEST


ENDPOINT = Request(
    manifest=Path("manifest.json"),
    endpoint="http://127.0.0.1:8000",
    served_model="grammar",
    data_dir=Path("data"),
    suites=(Path("a.yaml"),),
)
BASELINE = Request(baseline=Baseline.SOURCE_COPY, suites=(Path("a.yaml"),))


@pytest.mark.parametrize("request_", [ENDPOINT, BASELINE])
def test_other_routes_survive_the_file_too(request_: Request) -> None:
    assert Request.from_json(request_.to_json()) == request_
    assert "checkpoint_dir" not in request_.to_dict()


@pytest.mark.parametrize(
    ("drop", "message"),
    [
        ("manifest", "manifest: Field required"),
        ("checkpoint_dir", "checkpoint_dir: Field required"),
    ],
)
def test_a_checkpoint_needs_its_directory_and_its_manifest(drop: str, message: str) -> None:
    raw = json.loads(REQUEST.to_json())
    del raw[drop]
    with pytest.raises(EvaluationFailed, match=message):
        Request.from_json(json.dumps(raw))


def test_absent_engine_settings_take_their_defaults() -> None:
    raw = json.loads(REQUEST.to_json())
    del raw["engine"]
    assert Request.from_json(json.dumps(raw)).engine == EngineSettings()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colour": 1}, "unknown keys colour"),
        ({"engine": {"gpu": 1}}, "request engine has unknown keys gpu"),
        ({"engine": {"max_num_seqs": 0}}, "max_num_seqs must be"),
        ({"engine": {"device": "tpu"}}, "device"),
        ({"suites": 3}, "suites"),
        ({"baseline": "source-copy"}, "baseline: it needs neither"),
        ({"baseline": "oracle"}, "source-copy"),
    ],
)
def test_faults_are_named(change: dict[str, Any], message: str) -> None:
    raw = {**json.loads(REQUEST.to_json()), **change}
    with pytest.raises(EvaluationFailed, match=message):
        Request.from_json(json.dumps(raw))


@pytest.mark.parametrize("text", ["", "[]", "3"])
def test_other_documents_are_refused(text: str) -> None:
    with pytest.raises(EvaluationFailed, match="cannot read the evaluation request"):
        Request.from_json(text)
