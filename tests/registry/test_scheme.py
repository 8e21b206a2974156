"""A claimed FP8 scheme is checked against the tensors."""

from __future__ import annotations

from typing import Any

import pytest

from registry.checkpoint import TensorInfo
from registry.errors import CheckpointInvalid
from registry.scheme import read_scheme

WEIGHTS = {"num_bits": 8, "type": "float", "strategy": "channel", "dynamic": False}
INPUTS = {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True}


def config(**changes: Any) -> dict[str, Any]:
    group = {"weights": {**WEIGHTS, **changes}, "input_activations": INPUTS}
    block = {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": group},
        "ignore": ["lm_head"],
        "kv_cache_scheme": None,
    }
    return {"quantization_config": block}


def tensors(*layers: str, scale_rows: int = 4) -> dict[str, TensorInfo]:
    found = {}
    for layer in layers:
        found[f"{layer}.weight"] = TensorInfo(dtype="F8_E4M3", shape=(4, 2), file="m")
        found[f"{layer}.weight_scale"] = TensorInfo(dtype="BF16", shape=(scale_rows, 1), file="m")
    return found


def test_plain_checkpoint_has_no_scheme() -> None:
    plain = {"a.weight": TensorInfo(dtype="BF16", shape=(4, 2), file="m")}
    assert read_scheme({}, plain) is None


@pytest.mark.parametrize(
    ("layers", "label"),
    [
        (("l.mlp.up_proj",), "fp8-channel-mlp"),
        (("l.mlp.up_proj", "l.self_attn.q_proj"), "fp8-channel-attn"),
    ],
)
def test_scheme_says_whether_attention_is_quantized(layers: tuple[str, ...], label: str) -> None:
    found = read_scheme(config(), tensors(*layers))
    assert found is not None
    assert (found.label, found.activations, found.layers) == (label, "dynamic-token", len(layers))


@pytest.mark.parametrize(
    ("given", "found", "told"),
    [
        ({}, tensors("l.mlp"), "no quantization_config"),
        (config(), {}, "no tensor is FP8"),
        (config(num_bits=4, type="int"), tensors("l.mlp"), "only FP8"),
        (config(strategy="block"), tensors("l.mlp"), "per channel or per tensor"),
        (config(dynamic=True), tensors("l.mlp"), "static"),
        (config(), tensors("l.mlp", scale_rows=1), "needs 4"),
        (config(strategy="tensor"), tensors("l.mlp"), "needs 1"),
        ({"quantization_config": {"quant_method": "gptq"}}, tensors("l.mlp"), "gptq"),
    ],
)
def test_config_that_disagrees_with_the_tensors_is_refused(
    given: dict[str, Any], found: dict[str, TensorInfo], told: str
) -> None:
    with pytest.raises(CheckpointInvalid, match=told):
        read_scheme(given, found)


def test_missing_scale_is_refused() -> None:
    found = tensors("l.mlp")
    del found["l.mlp.weight_scale"]
    with pytest.raises(CheckpointInvalid, match="weight_scale' is missing"):
        read_scheme(config(), found)
