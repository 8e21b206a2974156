"""Reads and validates a checkpoint directory, before a byte of it is copied.

The one idea: what cannot be verified is refused by name here, so that every later stage may trust
the directory. Weights are safetensors only, because pickle formats run code when loaded.
Tensor values are not read; headers are, by the safetensors library itself.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from registry.errors import CheckpointInvalid, RecordConflict
from registry.manifest import FileEntry, Manifest
from registry.prompt_file import MANIFEST_FILE, read_json, read_prompt
from registry.scheme import QuantScheme, read_scheme

PICKLE_SUFFIXES = frozenset(
    {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib", ".h5", ".msgpack", ".npy"}
)
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "tekken.json")
INDEX_FILE = "model.safetensors.index.json"
MLMODEL_FILE = "MLmodel"
# What registering adds beside the files; a downloaded version is the same checkpoint again.
BOOKKEEPING = frozenset({MANIFEST_FILE, MLMODEL_FILE, "registered_model_meta"})
HASH_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorInfo:
    """One tensor's header entry; `dtype` in safetensors' spelling, such as BF16 or F8_E4M3."""

    dtype: str
    shape: tuple[int, ...]
    file: str

    @property
    def elements(self) -> int:
        """Number of values."""
        count = 1
        for size in self.shape:
            count *= size
        return count


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A validated checkpoint directory."""

    directory: Path
    manifest: Manifest
    architecture: str
    parameters: int
    """Number of weights, quantization scales left out."""
    weight_dtypes: tuple[str, ...]
    scheme: QuantScheme | None
    """How it is quantized, None where it is not."""

    @property
    def digest(self) -> str:
        """The manifest's digest."""
        return self.manifest.digest


def inspect(directory: Path, *, prompt_file: Path | None = None) -> Checkpoint:
    """Validates a directory and computes its manifest. Reads every byte once, writes nothing.

    Args:
        directory: the checkpoint.
        prompt_file: prompt and generation settings for a checkpoint that has no `prompt.json`.

    Raises:
        CheckpointInvalid: with the file, what was found and what to do.
    """
    paths = list(_files(directory))
    _refuse_pickles(directory, paths)
    config = read_json(directory / "config.json", "the model configuration")
    architecture = _architecture(config)
    _require_tokenizer(directory)
    tensors = _tensors(directory)
    prompt, generation = read_prompt(directory, prompt_file)
    scheme = read_scheme(config, tensors)
    entries = tuple(_entry(directory, path) for path in paths)
    weights = {k: t for k, t in tensors.items() if not k.endswith(("_scale", "_zero_point"))}
    return Checkpoint(
        directory=directory,
        manifest=Manifest(files=entries, prompt=prompt, generation=generation),
        architecture=architecture,
        parameters=sum(t.elements for t in weights.values()),
        weight_dtypes=tuple(sorted({t.dtype for t in weights.values()})),
        scheme=scheme,
    )


def _files(directory: Path) -> Iterator[Path]:
    """Every regular file in a stable order; hidden files and folders are left out."""
    if not directory.is_dir():
        raise CheckpointInvalid(
            f"checkpoint {directory} is not a directory; give the folder that holds config.json "
            "and the safetensors files"
        )
    root = directory.resolve()
    for folder, folders, names in os.walk(directory):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        for name in sorted([*names, *(f for f in folders if (Path(folder) / f).is_symlink())]):
            path = Path(folder) / name
            if name.startswith(".") or path.relative_to(directory).as_posix() in BOOKKEEPING:
                continue
            if path.is_symlink() and not path.resolve().is_relative_to(root):
                raise CheckpointInvalid(
                    f"{path} is a symbolic link out of the checkpoint directory (to "
                    f"{path.resolve()}); copy the checkpoint with `cp -rL` and use the copy"
                )
            if path.is_symlink() and path.is_dir():
                raise CheckpointInvalid(
                    f"{path} is a symbolic link to a directory, which would be skipped on upload; "
                    "copy the checkpoint with `cp -rL` and use the copy"
                )
            if not path.is_file():
                raise CheckpointInvalid(f"{path} is neither a file nor a directory; remove it")
            yield path


def _refuse_pickles(directory: Path, paths: list[Path]) -> None:
    found = [p for p in paths if p.suffix.lower() in PICKLE_SUFFIXES]
    if found:
        names = ", ".join(p.relative_to(directory).as_posix() for p in found[:5])
        raise CheckpointInvalid(
            f"{directory} holds files in formats that can run code when loaded: {names}. Only "
            "safetensors weights are accepted: load the model once where you trust it, "
            "`model.save_pretrained(dir, safe_serialization=True)`, and leave these files out"
        )


def _architecture(config: Mapping[str, Any]) -> str:
    names = config.get("architectures")
    if not (isinstance(names, list) and names and all(isinstance(n, str) for n in names)):
        raise CheckpointInvalid(
            f"config.json names no architecture (architectures: {names!r}); the engine needs one, "
            'such as ["LlamaForCausalLM"]'
        )
    return str(names[0])


def _require_tokenizer(directory: Path) -> None:
    if not any((directory / name).is_file() for name in TOKENIZER_FILES):
        raise CheckpointInvalid(
            f"{directory} has no tokenizer (looked for {', '.join(TOKENIZER_FILES)}); save it "
            "beside the weights with `tokenizer.save_pretrained(dir)`"
        )


def _tensors(directory: Path) -> dict[str, TensorInfo]:
    """Header entries of every shard, checked against the index where there is one."""
    shards = sorted(directory.glob("*.safetensors"))
    deeper = sorted(set(directory.rglob("*.safetensors")) - set(shards))
    if deeper:
        raise CheckpointInvalid(
            f"{deeper[0]} lies in a subfolder; weights must lie beside config.json, where the "
            "engine looks for them"
        )
    if not shards:
        raise CheckpointInvalid(f"{directory} has no *.safetensors file; its weights are missing")
    tensors: dict[str, TensorInfo] = {}
    for shard in shards:
        for name, info in _header(shard).items():
            if name in tensors:
                raise CheckpointInvalid(
                    f"tensor {name} is in both {tensors[name].file} and {shard.name}; one of the "
                    "files does not belong to this checkpoint"
                )
            tensors[name] = info
    index = directory / INDEX_FILE
    if index.is_file():
        _check_index(index, tensors)
    elif len(shards) > 1:
        raise CheckpointInvalid(
            f"{directory} has {len(shards)} safetensors files but no {INDEX_FILE}; without it a "
            "missing shard could not be noticed"
        )
    return tensors


def _header(shard: Path) -> dict[str, TensorInfo]:
    # The library validates the header when it opens a file: length, JSON, dtypes, and that the
    # offsets cover the buffer exactly, without holes or overlaps.
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(shard), framework="np") as handle:
            names = list(handle.keys())
            slices = {name: handle.get_slice(name) for name in names}
            return {
                name: TensorInfo(dtype=s.get_dtype(), shape=tuple(s.get_shape()), file=shard.name)
                for name, s in slices.items()
            }
    except (SafetensorError, OSError, ValueError) as exc:
        raise CheckpointInvalid(
            f"{shard} is not a whole safetensors file ({exc}); copy it again from where it was made"
        ) from exc


def _check_index(index: Path, tensors: Mapping[str, TensorInfo]) -> None:
    weight_map = read_json(index, "the shard index").get("weight_map")
    if not isinstance(weight_map, dict):
        raise CheckpointInvalid(f"{index} has no weight_map")
    missing = sorted(set(weight_map) - set(tensors))
    extra = sorted(set(tensors) - set(weight_map))
    moved = sorted(k for k in set(tensors) & set(weight_map) if weight_map[k] != tensors[k].file)
    for what, names in (
        ("names tensors that no shard holds", missing),
        ("leaves out tensors that the shards hold", extra),
        ("names the wrong shard for", moved),
    ):
        if names:
            raise CheckpointInvalid(
                f"{index} {what}: {', '.join(names[:3])}"
                f"{f' and {len(names) - 3} more' if len(names) > 3 else ''}; "
                "the shards and the index are not of one checkpoint"
            )


def _entry(directory: Path, path: Path) -> FileEntry:
    digest, size = hash_file(path)
    try:
        return FileEntry(
            path=path.relative_to(directory).as_posix(), size_bytes=size, sha256=digest
        )
    except ValueError as exc:
        raise CheckpointInvalid(f"{path} cannot be kept under its name: {exc}") from exc


def hash_file(path: Path) -> tuple[str, int]:
    """sha256 in hex and the size in bytes of one file."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as handle:
        while chunk := handle.read(HASH_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return digest.hexdigest(), size


def verify_files(directory: Path, manifest: Manifest) -> None:
    """Compares a directory with a manifest, byte for byte by sha256.

    Raises:
        RecordConflict: a file is missing or differs.
    """
    for entry in manifest.files:
        path = directory / entry.path
        if not path.is_file():
            raise RecordConflict(f"{path} is missing, though the manifest lists it")
        digest, size = hash_file(path)
        if (digest, size) != (entry.sha256, entry.size_bytes):
            raise RecordConflict(
                f"{path} differs from its manifest: {size} bytes sha256 {digest[:12]}, expected "
                f"{entry.size_bytes} bytes sha256 {entry.sha256[:12]}"
            )
