"""How a vLLM engine is built, as data, so that evaluation and serving build the same one.

A model evaluated with one precision or context length and served with another is a different
model, so both read this dataclass. It imports nothing heavy: it only names the keyword arguments.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

BYTES_PER_GIB = 1 << 30
UNLIMITED_TOKENS = 1_048_576
DTYPES = ("auto", "bfloat16", "float16", "float32")
ONLINE_METHODS = ("fp8",)


class DeviceKind(StrEnum):
    """What the engine computes on."""

    CPU = "cpu"  # vLLM's CPU build; for correctness and for laptops
    CUDA = "cuda"  # an NVIDIA GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Settings of one engine.

    Raises:
        ValueError: a field is out of its bounds; the message names field, value and bound.
    """

    device: DeviceKind = DeviceKind.CPU
    """What the engine computes on; the installed vLLM build must match."""
    dtype: str = "bfloat16"
    """Activation precision; bfloat16 is what checkpoints are trained and quantized from."""
    max_model_len_tokens: int = 512
    """Prompt plus completion, at most, in tokens; a model with a shorter context keeps its own.
    Sentences need far less than contexts offer, and less is less memory."""
    max_num_seqs: int = 64
    """Sequences in one batch; more raises throughput and latency together."""
    kv_cache_gib: float | None = 1.0
    """KV cache in GiB; None lets vLLM take `gpu_memory_utilization` of the device's memory."""
    enforce_eager: bool = True
    """Skip graph capture and compilation: minutes of start-up on CPU for nothing."""
    gpu_memory_utilization: float = 0.9
    """Share of the device's memory the engine may use when `kv_cache_gib` is None, 0..1."""
    quantization: str | None = None
    """vLLM's own quantization of plain weights while it loads them: `fp8`, per tensor. None runs
    the checkpoint as it is, which includes one that is FP8 already."""

    def __post_init__(self) -> None:
        if self.device not in tuple(DeviceKind):
            raise ValueError(f"engine device must be one of cpu, cuda, got {self.device!r}")
        if self.dtype not in DTYPES:
            raise ValueError(f"engine dtype must be one of {', '.join(DTYPES)}, got {self.dtype!r}")
        if not 16 <= self.max_model_len_tokens <= UNLIMITED_TOKENS:
            raise ValueError(
                f"engine max_model_len_tokens must be 16..1048576, got {self.max_model_len_tokens}"
            )
        if not 1 <= self.max_num_seqs <= 4096:
            raise ValueError(f"engine max_num_seqs must be 1..4096, got {self.max_num_seqs}")
        if self.kv_cache_gib is not None and not 0.0 < self.kv_cache_gib <= 4096.0:
            raise ValueError(
                f"engine kv_cache_gib must be above 0 and at most 4096, got {self.kv_cache_gib}"
            )
        if not 0.0 < self.gpu_memory_utilization <= 1.0:
            raise ValueError(
                "engine gpu_memory_utilization must be above 0 and at most 1, "
                f"got {self.gpu_memory_utilization}"
            )
        if self.quantization is not None and self.quantization not in ONLINE_METHODS:
            raise ValueError(
                f"engine quantization must be null or one of {', '.join(ONLINE_METHODS)}, "
                f"got {self.quantization!r}"
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values, for requests, tags and digests.

        Without `quantization` where there is none, so that digests of before it existed hold.
        """
        plain = {**dataclasses.asdict(self), "device": str(self.device)}
        if self.quantization is None:
            del plain["quantization"]
        return plain

    def engine_kwargs(self, model: str) -> dict[str, Any]:
        """Keyword arguments for `vllm.LLM` and `vllm.AsyncEngineArgs`; `model` is a directory.

        vLLM's CPU build lets the variable VLLM_CPU_KVCACHE_SPACE override `kv_cache_memory_bytes`,
        so whoever builds an engine removes that variable from its own process first.
        """
        kwargs: dict[str, Any] = {
            "model": model,
            "dtype": self.dtype,
            "max_model_len": min(self.max_model_len_tokens, context_tokens(Path(model))),
            "max_num_seqs": self.max_num_seqs,
            "enforce_eager": self.enforce_eager,
            "gpu_memory_utilization": self.gpu_memory_utilization,
            "seed": 0,
            "disable_log_stats": True,
        }
        if self.kv_cache_gib is not None:
            kwargs["kv_cache_memory_bytes"] = int(self.kv_cache_gib * BYTES_PER_GIB)
        if self.quantization is not None:
            kwargs["quantization"] = self.quantization
        return kwargs


def context_tokens(directory: Path) -> int:
    """The context that a model's configuration states; unlimited where it states none."""
    try:
        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        stated = config.get("max_position_embeddings")
    except (OSError, ValueError, AttributeError):
        return UNLIMITED_TOKENS  # the engine will say what is wrong with the directory
    return stated if isinstance(stated, int) and stated > 0 else UNLIMITED_TOKENS
