"""A quantization recipe as data: what is made FP8, at what granularity, and what for.

The recipe travels as YAML (promotion.yaml), as a tag on the variant and as an artifact beside it.
Source of the scheme: compressed-tensors `FP8_DYNAMIC`, static weight scales, activations scaled per
token while running; the KV cache and lm_head are left alone because quantizing them costs quality
without throughput for a small model.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from registry.scheme import ATTENTION

ATTENTION_PATTERN = f"re:.*{ATTENTION.pattern}"


class Aim(enum.StrEnum):
    """What a variant is for; only `throughput` may be judged by speed."""

    THROUGHPUT = "throughput"
    """More requests per second; needs FP8 tensor cores (Hopper or newer)."""
    MEMORY = "memory"
    """A smaller checkpoint; on CPU FP8 runs slower than BF16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """FP8 weights and activations for Linear layers."""

    enabled: bool = True
    """False promotes the checkpoint as it is."""
    weights: str = "channel"
    """Granularity of the static weight scales: `channel` (one per output row) or `tensor`."""
    attention: bool = True
    """Quantize the Linear q/k/v/o projections too."""
    ignore: tuple[str, ...] = ("lm_head",)
    """Modules left in BF16: names, or patterns that start with `re:`."""
    aim: Aim = Aim.MEMORY
    """`memory` by default, because the default hardware is a CPU."""

    def __post_init__(self) -> None:
        if self.weights not in ("channel", "tensor"):
            raise ValueError(f"recipe weights must be channel or tensor, got {self.weights!r}")

    @property
    def label(self) -> str:
        """A short name that matches `QuantScheme.label`."""
        if not self.enabled:
            return "none"
        return f"fp8-{self.weights}{'-attn' if self.attention else '-mlp'}"

    @property
    def ignored(self) -> tuple[str, ...]:
        """All modules left alone, attention included where it is switched off."""
        return self.ignore if self.attention else (*self.ignore, ATTENTION_PATTERN)
