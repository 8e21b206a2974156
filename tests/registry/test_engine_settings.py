"""Engine settings: bounds, plain form, and the keyword arguments vLLM gets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from registry.engine_settings import DeviceKind, EngineSettings


def test_keyword_arguments_name_the_directory_and_the_limits() -> None:
    kwargs = EngineSettings(kv_cache_gib=0.5, max_num_seqs=8).engine_kwargs("/models/a")
    assert kwargs["model"] == "/models/a"
    assert kwargs["max_num_seqs"] == 8
    assert kwargs["kv_cache_memory_bytes"] == 1 << 29


def test_without_a_cache_size_vllm_chooses_it() -> None:
    kwargs = EngineSettings(kv_cache_gib=None, gpu_memory_utilization=0.5).engine_kwargs("a")
    assert "kv_cache_memory_bytes" not in kwargs
    assert kwargs["gpu_memory_utilization"] == 0.5


def test_the_plain_form_has_every_field() -> None:
    plain = EngineSettings(device=DeviceKind.CUDA).to_dict()
    assert plain["device"] == "cuda"
    assert type(plain["device"]) is str
    assert EngineSettings(**plain) == EngineSettings(device=DeviceKind.CUDA)


def test_online_quantization_is_asked_for_and_leaves_other_digests_alone() -> None:
    assert EngineSettings(quantization="fp8").engine_kwargs("a")["quantization"] == "fp8"
    assert EngineSettings(quantization="fp8").to_dict()["quantization"] == "fp8"
    assert "quantization" not in EngineSettings().engine_kwargs("a")
    assert "quantization" not in EngineSettings().to_dict()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"quantization": "int3"}, "quantization must be null or one of fp8"),
        ({"device": "tpu"}, "device must be one of cpu, cuda"),
        ({"dtype": "fp8"}, "dtype must be one of"),
        ({"max_model_len_tokens": 8}, r"max_model_len_tokens must be 16\.\.1048576, got 8"),
        ({"max_num_seqs": 0}, "max_num_seqs must be"),
        ({"kv_cache_gib": 0.0}, "kv_cache_gib must be above 0"),
        ({"gpu_memory_utilization": 1.5}, "gpu_memory_utilization must be above 0"),
    ],
)
def test_values_out_of_bounds_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EngineSettings(**arguments)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"max_position_embeddings": 256}, 256),
        ({"max_position_embeddings": 131_072}, 512),
        ({"max_position_embeddings": None}, 512),
        (None, 512),
    ],
)
def test_context_is_the_setting_or_the_models_if_that_is_shorter(
    tmp_path: Path, config: dict[str, object] | None, expected: int
) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(json.dumps(config))
    kwargs = EngineSettings(max_model_len_tokens=512).engine_kwargs(str(tmp_path))
    assert kwargs["max_model_len"] == expected
