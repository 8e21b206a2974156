"""What `config.json` claims: an architecture that can be loaded, no code, the tensors' sizes.

The engine believes the configuration and would fail minutes later, or leave weights that are
missing at random values; here the two are compared by name and shape.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from registry import architectures
from registry.errors import CheckpointInvalid
from registry.prompt_file import read_json
from registry.tensor_file import TensorInfo
from registry.wording import shown

CODE_KEYS = ("auto_map", "trust_remote_code", "custom_pipelines")
MAY_NAME_CODE = (
    "tokenizer_config.json", "generation_config.json", "preprocessor_config.json",
    "processor_config.json",
)  # fmt: skip
MAX_SIZE = (1 << 31) - 1
EMBEDDING = re.compile(
    r"(?:^|\.)(?:embed_tokens|wte|word_embeddings|tok_embeddings|embed_in)\.weight$"
)
"""What architectures call the table of input embeddings."""
LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.([0-9]{1,9})\.")
OTHER_TOWERS = re.compile(r"vision|visual|audio|image")
OTHER_WIDTHS = ("word_embed_proj_dim", "embedding_size", "embedding_dim")
"""With one of these the embeddings have another width than the layers."""


def architecture(config: Mapping[str, Any]) -> str:
    """The architecture to load.

    Raises:
        CheckpointInvalid: none is named, or the installed engine knows none of them.
    """
    names = config.get("architectures")
    if not (isinstance(names, list) and names and all(isinstance(n, str) for n in names)):
        raise CheckpointInvalid(
            f"config.json names no architecture (architectures: {shown(names)}); the engine needs "
            'one, such as ["LlamaForCausalLM"]'
        )
    kind = config.get("model_type")
    if not isinstance(kind, str) or not kind:
        raise CheckpointInvalid(
            f"config.json has no model_type (it is {shown(kind)}), from which the engine takes the "
            'meaning of the other keys; add it, such as "llama"'
        )
    known = architectures.known()
    if known is not None and known.isdisjoint(names):
        raise CheckpointInvalid(
            f"config.json names the architecture {shown(names[0])}, which neither the installed "
            "vLLM nor transformers knows as a model that generates text; correct the name, or "
            "upgrade them"
        )
    return str(names[0])


def refuse_code(directory: Path, config: Mapping[str, Any]) -> None:
    """Refuses a checkpoint that wants its own Python code to be run.

    Raises:
        CheckpointInvalid: with the file and the key.
    """
    configs = {"config.json": config}
    for name in MAY_NAME_CODE:
        if (directory / name).is_file():
            configs[name] = read_json(directory / name, "a configuration")
    for name, content in configs.items():
        for part in (content, *(v for v in content.values() if isinstance(v, dict))):
            key = next((k for k in CODE_KEYS if part.get(k)), None)
            if key is not None:
                raise CheckpointInvalid(
                    f"{directory / name} asks for the checkpoint's own code to be run ({key}: "
                    f"{shown(part[key])}), which is never done; where vLLM knows the architecture "
                    "without it, remove the key and the code"
                )


def text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration of the language model, where a multimodal one nests it."""
    part = config.get("text_config")
    return part if isinstance(part, dict) else config


def check_sizes(config: Mapping[str, Any], tensors: Mapping[str, TensorInfo]) -> None:
    """Compares vocabulary, width and number of layers with the tensors.

    Raises:
        CheckpointInvalid: a size is no whole number, or is not that of the tensors.
    """
    part = text_part(config)
    sizes = {k: _size(part, k) for k in ("vocab_size", "hidden_size", "num_hidden_layers")}
    found = embeddings(tensors)
    if len(found) == 1:
        _check_embedding(*next(iter(found.items())), sizes, part)
    _check_layers(sizes["num_hidden_layers"], tensors)


def _size(part: Mapping[str, Any], key: str) -> int | None:
    value = part.get(key)
    if value is None:
        return None
    if type(value) is not int or not 1 <= value <= MAX_SIZE:
        raise CheckpointInvalid(
            f"config.json: {key} must be a whole number from 1 to {MAX_SIZE}, is {shown(value)}"
        )
    return value


def embeddings(tensors: Mapping[str, TensorInfo]) -> dict[str, TensorInfo]:
    """The tables of input embeddings of the language model, by tensor name."""
    return {
        name: info
        for name, info in tensors.items()
        if EMBEDDING.search(name) and not OTHER_TOWERS.search(name) and len(info.shape) == 2
    }


def _check_embedding(
    name: str, info: TensorInfo, sizes: Mapping[str, int | None], part: Mapping[str, Any]
) -> None:
    wanted = {"vocab_size": info.shape[0], "hidden_size": info.shape[1]}
    if any(key in part for key in OTHER_WIDTHS):
        del wanted["hidden_size"]
    for key, real in wanted.items():
        if sizes[key] not in (None, real):
            raise CheckpointInvalid(
                f"config.json says {key} {sizes[key]}, but the embeddings {shown(name)} have the "
                f"shape {list(info.shape)}; the configuration and the weights are not of one model"
            )


def _check_layers(claimed: int | None, tensors: Mapping[str, TensorInfo]) -> None:
    found = {int(m[1]) for name in tensors if (m := LAYER.search(name))}
    if claimed is None or not found:
        return
    first_missing = next(n for n in itertools.count() if n not in found)
    if first_missing < claimed:
        raise CheckpointInvalid(
            f"config.json says num_hidden_layers {claimed}, but no tensor is of layer "
            f"{first_missing} (the first is 0); the configuration and the weights are not of one "
            "model, or a part of them is missing"
        )
