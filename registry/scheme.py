"""Reads how a compressed-tensors checkpoint is quantized, and checks that its tensors agree.

A config that claims FP8 over weights that are not, or the other way round, would be served wrongly
or not at all; both are refused. Format: the `quantization_config` block that llm-compressor writes
(compressed-tensors, `float-quantized`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from registry.errors import CheckpointInvalid
from registry.wording import shown

FP8_DTYPE = "F8_E4M3"
ATTENTION = re.compile(r"\.(self_attn|self_attention|attention|attn)\.")
"""What architectures call the module whose Linear layers project queries, keys and values."""


class HasHeader(Protocol):
    """The part of a tensor's header that is read here."""

    @property
    def dtype(self) -> str:
        """safetensors' name of the element type."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """The tensor's shape."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantScheme:
    """An FP8 scheme as found in a checkpoint."""

    weights: str
    """Granularity of the weight scales: `channel` or `tensor`."""
    activations: str
    """`dynamic-token`, `dynamic-tensor` or `static-tensor`."""
    attention: bool
    """True if the q/k/v/o projections are FP8."""
    kv_cache: bool
    """True if the KV cache is quantized too."""
    layers: int
    """Number of Linear layers in FP8."""
    ignore: tuple[str, ...]

    @property
    def label(self) -> str:
        """A short name, such as `fp8-channel-attn`."""
        return f"fp8-{self.weights}{'-attn' if self.attention else '-mlp'}" + (
            "-kv" if self.kv_cache else ""
        )


def read_scheme(config: Mapping[str, Any], tensors: Mapping[str, HasHeader]) -> QuantScheme | None:
    """The scheme of a checkpoint, or None where nothing is quantized.

    Raises:
        CheckpointInvalid: an unsupported method, or configuration and tensors disagree.
    """
    try:
        return _read_scheme(config, tensors)
    except (AttributeError, TypeError, IndexError) as exc:
        raise CheckpointInvalid(
            f"quantization_config in config.json is not what compressed-tensors writes: {exc}"
        ) from exc


def _read_scheme(config: Mapping[str, Any], tensors: Mapping[str, HasHeader]) -> QuantScheme | None:
    block = config.get("quantization_config") or config.get("compression_config")
    fp8 = sorted(k for k, t in tensors.items() if t.dtype == FP8_DTYPE)
    if not block:
        if fp8:
            raise CheckpointInvalid(
                f"config.json has no quantization_config, yet {len(fp8)} tensors are FP8, such as "
                f"{shown(fp8[0])}; the engine would read them as plain weights"
            )
        return None
    if block.get("quant_method") != "compressed-tensors":
        raise CheckpointInvalid(
            f"quantization method {shown(block.get('quant_method'))} is not accepted; liftlock "
            "takes compressed-tensors checkpoints or unquantized ones"
        )
    weights, activations = _strategies(block)
    if not fp8:
        raise CheckpointInvalid("config.json claims FP8 weights, but no tensor is FP8")
    _check_scales(fp8, tensors, weights)
    return QuantScheme(
        weights=weights,
        activations=activations,
        attention=any(ATTENTION.search(name) for name in fp8),
        kv_cache=bool(block.get("kv_cache_scheme")),
        layers=len(fp8),
        ignore=_ignored(block),
    )


def _ignored(block: Mapping[str, Any]) -> tuple[str, ...]:
    ignored = block.get("ignore") or []
    if not isinstance(ignored, list) or not all(isinstance(name, str) for name in ignored):
        raise CheckpointInvalid(
            f"quantization_config: ignore must be a list of names, is {shown(ignored)}"
        )
    return tuple(ignored)


def _strategies(block: Mapping[str, Any]) -> tuple[str, str]:
    groups = block.get("config_groups")
    if not isinstance(groups, dict) or not groups:
        raise CheckpointInvalid("quantization_config has no config_groups; its scheme is unknown")
    found = {_group_strategies(group) for group in groups.values()}
    if len(found) != 1:
        raise CheckpointInvalid(
            f"quantization_config mixes schemes {shown(sorted(found))}; use one"
        )
    return found.pop()


def _group_strategies(group: Mapping[str, Any]) -> tuple[str, str]:
    weights = group.get("weights") or {}
    if (weights.get("type"), weights.get("num_bits")) != ("float", 8):
        raise CheckpointInvalid(
            f"weights are {shown(weights.get('num_bits'))}-bit {shown(weights.get('type'))}; only "
            "FP8 is accepted"
        )
    if weights.get("strategy") not in ("channel", "tensor") or weights.get("dynamic"):
        raise CheckpointInvalid(
            f"FP8 weights must be static per channel or per tensor, found strategy "
            f"{shown(weights.get('strategy'))}, dynamic {shown(weights.get('dynamic'))}"
        )
    inputs = group.get("input_activations") or {}
    kind = "dynamic" if inputs.get("dynamic") else "static"
    return str(weights["strategy"]), f"{kind}-{inputs.get('strategy', 'tensor')}"


def _check_scales(fp8: list[str], tensors: Mapping[str, HasHeader], strategy: str) -> None:
    for name in fp8:
        scale = tensors.get(f"{name}_scale")
        if scale is None:
            raise CheckpointInvalid(f"{shown(name)} is FP8 but {shown(f'{name}_scale')} is missing")
        if len(tensors[name].shape) != 2:
            raise CheckpointInvalid(
                f"{shown(name)} is FP8 with the shape {list(tensors[name].shape)}; only the "
                "weights of Linear layers, with two dimensions, may be"
            )
        rows = tensors[name].shape[0]
        elements = 1
        for size in scale.shape:
            elements *= size
        wanted = rows if strategy == "channel" else 1
        if elements != wanted:
            raise CheckpointInvalid(
                f"{shown(f'{name}_scale')} has {elements} values, a {strategy} scheme "
                f"needs {wanted}"
            )
