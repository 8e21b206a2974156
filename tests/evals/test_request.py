"""Requests to the worker."""

import json
from pathlib import Path
from typing import Any

import pytest

from evals.errors import EvaluationFailed
from evals.request import Request
from registry.engine_settings import DeviceKind, EngineSettings

REQUEST = Request(
    checkpoint_dir=Path("checkpoint"),
    manifest=Path("manifest.json"),
    engine=EngineSettings(device=DeviceKind.CUDA, kv_cache_gib=None, max_num_seqs=8),
    suites=(Path("a.yaml"), Path("b.yaml")),
)


def test_json_round_trip_is_exact() -> None:
    assert Request.from_json(REQUEST.to_json()) == REQUEST


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
