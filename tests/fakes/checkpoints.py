"""Small checkpoint directories on disk, whole or broken in one named way."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
SIZED_CONFIG = {**CONFIG, "vocab_size": 8, "hidden_size": 4, "num_hidden_layers": 1}
TOKENIZER = {
    "added_tokens": [{"id": 0, "content": "<s>"}],
    "model": {"type": "WordLevel", "vocab": {"<s>": 0, "a": 1, "b": 2}, "unk_token": "<s>"},
}
PROMPT = {"template": "Correct: {text}\nFixed:", "max_tokens": 64, "stop": ["\n"]}


def make(
    directory: Path,
    *,
    seed: int = 0,
    config: Mapping[str, Any] | None = None,
    prompt: Mapping[str, Any] | None = PROMPT,
) -> Path:
    """A valid checkpoint; its weights are random but repeat with the seed."""
    directory.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    tensors = {
        "model.embed_tokens.weight": rng.random((8, 4), dtype=np.float32),
        "model.layers.0.mlp.up_proj.weight": rng.random((4, 4), dtype=np.float32),
    }
    save_file(tensors, directory / "model.safetensors")
    (directory / "config.json").write_text(json.dumps(CONFIG if config is None else config))
    (directory / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    if prompt is not None:
        (directory / "prompt.json").write_text(json.dumps(prompt))
    return directory


def write_safetensors(path: Path, header: Mapping[str, Any], data: bytes) -> None:
    """A safetensors file with a header of one's own, truthful or not."""
    encoded = json.dumps(header).encode()
    path.write_bytes(len(encoded).to_bytes(8, "little") + encoded + data)


def make_fp8(
    directory: Path,
    *,
    attention: bool = True,
    weights: str = "channel",
    ignore: Sequence[str] = ("lm_head",),
) -> Path:
    """A checkpoint that is FP8 already, with dynamic token activations."""
    scales = 4 if weights == "channel" else 1
    layers = ["model.layers.0.mlp.up_proj"] + ["model.layers.0.self_attn.q_proj"] * attention
    header: dict[str, Any] = {}
    at = 0
    for layer in layers:
        for name, dtype, shape, size in (
            (f"{layer}.weight", "F8_E4M3", [4, 4], 16),
            (f"{layer}.weight_scale", "F32", [scales, 1], 4 * scales),
        ):
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
            at += size
    group = {
        "weights": {"num_bits": 8, "type": "float", "strategy": weights, "dynamic": False},
        "input_activations": {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True},
    }
    config = {
        **CONFIG,
        "quantization_config": {
            "quant_method": "compressed-tensors",
            "config_groups": {"group_0": group},
            "ignore": list(ignore),
        },
    }
    make(directory, config=config)
    write_safetensors(directory / "model.safetensors", header, b"\x38" * at)
    return directory
