"""The files of a checkpoint directory: which they are, and that each is one that may be kept.

The one idea: a directory is accepted as a set of plain files that mean the same wherever they are
copied. What would be skipped, followed out of the directory, run, or stored under another name is
refused here by name. `unchanged` says at the end whether it still is what was looked at.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from registry.errors import CheckpointInvalid
from registry.manifest import check_path
from registry.prompt_file import MANIFEST_FILE
from registry.wording import shown, size

RUNS_CODE = frozenset(
    {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib", ".h5", ".msgpack", ".npy"}
    | {".npz", ".py", ".pyc", ".so"}
)
"""Formats that run code when they are loaded, and code itself."""
MLMODEL_FILE = "MLmodel"
BOOKKEEPING = frozenset({MANIFEST_FILE, MLMODEL_FILE, "registered_model_meta"})
"""What registering adds beside the files; a downloaded version is the same checkpoint again."""
MAX_FILES = 10_000
"""Far above any checkpoint; a home directory given by mistake is told within a second."""
MAX_OTHER_BYTES = 1 << 30
"""Size of a file that holds no weights; the largest tokenizers have 35 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One file as it was found."""

    path: Path
    inside: str
    """Path in the directory, with forward slashes."""
    stamp: tuple[int, ...]
    """Device, inode, size and times of last change of content and of the entry, in ns."""

    @property
    def size_bytes(self) -> int:
        """Its size."""
        return self.stamp[2]


def list_files(directory: Path) -> tuple[Listed, ...]:
    """Every file of the directory in a stable order; hidden files and folders are left out.

    Raises:
        CheckpointInvalid: it is no directory, or one of its entries cannot be kept.
    """
    try:
        _check_directory(directory)
        found = tuple(_walk(directory))
    except (OSError, RuntimeError) as exc:  # RuntimeError: symbolic links in a circle
        name = getattr(exc, "filename", None) or directory
        reason = getattr(exc, "strerror", None) or exc
        raise CheckpointInvalid(
            f"{shown(str(name))} cannot be read ({reason}); make the whole checkpoint readable, or "
            "give a copy that is"
        ) from exc
    if not found:
        raise CheckpointInvalid(
            f"checkpoint {directory} is empty; give the folder that holds config.json and the "
            "safetensors files"
        )
    _refuse_collisions(directory, found)
    _refuse_code(directory, found)
    return found


def unchanged(directory: Path, before: tuple[Listed, ...]) -> None:
    """Compares the directory with what was listed.

    Raises:
        CheckpointInvalid: a file was changed, added or removed meanwhile.
    """
    after = list_files(directory)
    if after == before:
        return
    differing = sorted({f.inside for f in set(after) ^ set(before)})
    raise CheckpointInvalid(
        f"{shown(differing[0])} in {directory} changed while the checkpoint was being read; wait "
        "until whatever writes it has finished, then run it again"
    )


def _check_directory(directory: Path) -> None:
    if not directory.is_dir():
        raise CheckpointInvalid(
            f"checkpoint {shown(str(directory))} "
            f"{'is not a directory' if directory.exists() else 'does not exist'}; give the folder "
            "that holds config.json and the safetensors files"
        )
    name = directory.resolve().name
    if not name.isprintable():
        raise CheckpointInvalid(
            f"the checkpoint directory's name {shown(name)} holds characters that cannot be "
            "printed; runs and versions are named after it, so rename it"
        )
    if not (directory / "config.json").exists():  # told first: it may be no checkpoint at all
        raise CheckpointInvalid(
            f"{directory / 'config.json'} (the model configuration) is missing; give the folder "
            "that holds config.json and the safetensors files"
        )


def _walk(directory: Path) -> Iterator[Listed]:
    root, count = directory.resolve(), 0
    for folder, folders, names in os.walk(directory, onerror=_raise):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        for name in sorted([*names, *(f for f in folders if (Path(folder) / f).is_symlink())]):
            path = Path(folder) / name
            inside = path.relative_to(directory).as_posix()
            if name.startswith(".") or inside in BOOKKEEPING:
                continue
            count += 1
            if count > MAX_FILES:
                raise CheckpointInvalid(
                    f"{directory} holds more than {MAX_FILES} files; give the folder of one "
                    "checkpoint"
                )
            yield _listed(path, inside, root)


def _raise(error: OSError) -> None:
    raise error


def _listed(path: Path, inside: str, root: Path) -> Listed:
    link = path.is_symlink()
    if link and not path.resolve().is_relative_to(root):
        raise CheckpointInvalid(
            f"{shown(str(path))} is a symbolic link out of the checkpoint directory (to "
            f"{shown(str(path.resolve()))}); copy the checkpoint with `cp -rL` and use the copy"
        )
    if link and path.is_dir():
        raise CheckpointInvalid(
            f"{shown(str(path))} is a symbolic link to a directory, which would be skipped on "
            "upload; copy the checkpoint with `cp -rL` and use the copy"
        )
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise CheckpointInvalid(f"{shown(str(path))} is neither a file nor a directory; remove it")
    try:
        check_path(inside)
    except ValueError as exc:
        raise CheckpointInvalid(f"{shown(str(path))} cannot be kept under its name: {exc}") from exc
    if found.st_size > MAX_OTHER_BYTES and path.suffix != ".safetensors":
        raise CheckpointInvalid(
            f"{path} has {size(found.st_size)} and is no safetensors file; at most "
            f"{size(MAX_OTHER_BYTES)} beside the weights are accepted, so leave it out"
        )
    stamp = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return Listed(path=path, inside=inside, stamp=stamp)


def _refuse_collisions(directory: Path, found: tuple[Listed, ...]) -> None:
    """Two names that differ in case only are one file on stores that do not tell them apart."""
    seen: dict[str, str] = {}
    for file in found:
        plain = unicodedata.normalize("NFC", file.inside).casefold()
        other = seen.setdefault(plain, file.inside)
        if other != file.inside:
            raise CheckpointInvalid(
                f"{directory} holds {shown(other)} and {shown(file.inside)}, which are the same "
                "file where upper and lower case are; rename one"
            )


def _refuse_code(directory: Path, found: tuple[Listed, ...]) -> None:
    names = [shown(f.inside) for f in found if f.path.suffix.lower() in RUNS_CODE]
    if names:
        raise CheckpointInvalid(
            f"{directory} holds files in formats that can run code when loaded: "
            f"{', '.join(names[:5])}. Only safetensors weights are accepted: load the model once "
            "where you trust it, `model.save_pretrained(dir, safe_serialization=True)`, and leave "
            "these files out"
        )
