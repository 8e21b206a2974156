"""Reads and validates a checkpoint directory, before a byte of it is copied.

The one idea: what cannot be verified is refused by name here, so that every later stage may trust
the directory. The cheap looks come first, each byte is read once, and at the end the directory must
still be what it was at the beginning. Nothing is written and nothing of the checkpoint is run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from registry import listing, model_config, reading, tensor_file, tokenizer_file
from registry.errors import CheckpointInvalid, RecordConflict
from registry.listing import Listed
from registry.manifest import FileEntry, Manifest
from registry.prompt_file import read_json, read_prompt
from registry.scheme import QuantScheme, read_scheme
from registry.tensor_file import Header, TensorInfo
from registry.wording import shown

INDEX_FILE = "model.safetensors.index.json"
MAX_INDEX_BYTES = 32 << 20
HASH_CHUNK_BYTES = 1 << 20


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
    files = listing.list_files(directory)
    config = read_json(directory / "config.json", "the model configuration")
    model_config.refuse_code(directory, config)
    architecture = model_config.architecture(config)
    headers = _headers(directory, files)
    tensors = _tensors(directory, headers)
    model_config.check_sizes(config, tensors)
    tokenizer_file.check(directory, _embedding_rows(tensors))
    prompt, generation = read_prompt(directory, prompt_file)
    scheme = read_scheme(config, tensors)
    entries = tuple(_entry(file, headers.get(file.inside)) for file in files)
    listing.unchanged(directory, files)
    weights = {k: t for k, t in tensors.items() if not k.endswith(("_scale", "_zero_point"))}
    return Checkpoint(
        directory=directory,
        manifest=Manifest(files=entries, prompt=prompt, generation=generation),
        architecture=architecture,
        parameters=sum(t.elements for t in weights.values()),
        weight_dtypes=tuple(sorted({t.dtype for t in weights.values()})),
        scheme=scheme,
    )


def _headers(directory: Path, files: tuple[Listed, ...]) -> dict[str, Header]:
    """The header of every shard, by file name."""
    shards = [f for f in files if f.path.suffix == ".safetensors"]
    deeper = [f for f in shards if "/" in f.inside]
    if deeper:
        raise CheckpointInvalid(
            f"{deeper[0].path} lies in a subfolder; weights must lie beside config.json, where the "
            "engine looks for them"
        )
    if not shards:
        raise CheckpointInvalid(f"{directory} has no *.safetensors file; its weights are missing")
    return {f.inside: tensor_file.read_header(f.path) for f in shards}


def _tensors(directory: Path, headers: Mapping[str, Header]) -> dict[str, TensorInfo]:
    """The tensors of all shards, checked against the index where there is one."""
    tensors: dict[str, TensorInfo] = {}
    for shard, header in headers.items():
        for name, info in header.tensors.items():
            if name in tensors:
                raise CheckpointInvalid(
                    f"tensor {shown(name)} is in both {tensors[name].file} and {shard}; one of the "
                    "files does not belong to this checkpoint"
                )
            tensors[name] = info
    index = directory / INDEX_FILE
    if index.is_file():
        _check_index(index, tensors)
    elif len(headers) > 1:
        raise CheckpointInvalid(
            f"{directory} has {len(headers)} safetensors files but no {INDEX_FILE}; without it a "
            "missing shard could not be noticed"
        )
    return tensors


def _check_index(index: Path, tensors: Mapping[str, TensorInfo]) -> None:
    raw = read_json(index, "the shard index", limit_bytes=MAX_INDEX_BYTES)
    weight_map = raw.get("weight_map")
    if not isinstance(weight_map, dict):
        raise CheckpointInvalid(f"{index} has no weight_map")
    shards = {info.file for info in tensors.values()}
    strange = sorted(
        {shown(v) for v in weight_map.values() if not isinstance(v, str) or v not in shards}
    )
    missing = sorted(set(weight_map) - set(tensors))
    extra = sorted(set(tensors) - set(weight_map))
    moved = sorted(k for k in set(tensors) & set(weight_map) if weight_map[k] != tensors[k].file)
    for what, names in (
        ("names shards that are not there", strange),
        ("names tensors that no shard holds", missing),
        ("leaves out tensors that the shards hold", extra),
        ("names the wrong shard for", moved),
    ):
        if names:
            raise CheckpointInvalid(
                f"{index} {what}: {', '.join(shown(n) for n in names[:3])}"
                f"{f' and {len(names) - 3} more' if len(names) > 3 else ''}; "
                "the shards and the index are not of one checkpoint"
            )


def _embedding_rows(tensors: Mapping[str, TensorInfo]) -> int | None:
    return max((t.shape[0] for t in model_config.embeddings(tensors).values()), default=None)


def _entry(file: Listed, header: Header | None) -> FileEntry:
    if header is not None:
        digest, count = tensor_file.read_values(file.path, header)
        return FileEntry(path=file.inside, size_bytes=count, sha256=digest)
    try:
        digest, count = hash_file(file.path)
    except reading.Unreadable as exc:
        raise CheckpointInvalid(
            f"{file.path} {exc}; make it readable or leave it out, and where something still "
            "writes here, wait until it has finished"
        ) from exc
    return FileEntry(path=file.inside, size_bytes=count, sha256=digest)


def hash_file(path: Path) -> tuple[str, int]:
    """sha256 in hex and the size in bytes of one file.

    Raises:
        Unreadable: it cannot be opened or read, or is no regular file.
    """
    digest, count = hashlib.sha256(), 0
    with reading.open_regular(path) as handle:
        try:
            while chunk := handle.read(HASH_CHUNK_BYTES):
                digest.update(chunk)
                count += len(chunk)
        except OSError as exc:
            raise reading.Unreadable(f"cannot be read: {exc.strerror}") from exc
    return digest.hexdigest(), count


def verify_files(directory: Path, manifest: Manifest) -> None:
    """Compares a directory with a manifest, byte for byte by sha256.

    Raises:
        RecordConflict: a file is missing or differs.
    """
    for entry in manifest.files:
        path = directory / entry.path
        if not path.is_file():
            raise RecordConflict(f"{path} is missing, though the manifest lists it")
        try:
            digest, count = hash_file(path)
        except reading.Unreadable as exc:
            raise RecordConflict(f"{path}, which the manifest lists, {exc}") from exc
        if (digest, count) != (entry.sha256, entry.size_bytes):
            raise RecordConflict(
                f"{path} differs from its manifest: {count} bytes sha256 {digest[:12]}, expected "
                f"{entry.size_bytes} bytes sha256 {entry.sha256[:12]}"
            )
