"""A local cache of checkpoint directories, keyed by digest.

A directory under its digest is whole and verified or not there at all: files are fetched beside it,
compared with the manifest byte for byte, and the folder is renamed into place.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from registry import disk
from registry.checkpoint import verify_files
from registry.manifest import Manifest
from registry.model import ModelVersion
from registry.prompt_file import MANIFEST_FILE
from registry.store import Versions


def path_for(cache: Path, digest: str) -> Path:
    """Where a checkpoint with this digest lies in a cache."""
    return cache / digest.removeprefix("sha256:")


def fetch(versions: Versions, version: ModelVersion, cache: Path) -> Path:
    """The verified local directory of a version, downloaded if it is not there yet.

    Raises:
        RecordConflict: downloaded bytes differ from the manifest.
        RecordUnavailable: the store did not answer.
        OutOfSpace: the disk has, or had, too little room; nothing is left of the copy.
    """
    return _place(version.manifest, cache, lambda part: versions.download(version, part))


def adopt(manifest: Manifest, directory: Path, cache: Path) -> Path:
    """Puts a local checkpoint into the cache by copying it; verified like a download."""

    def copy(part: Path) -> None:
        for entry in manifest.files:
            (part / entry.path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(directory / entry.path, part / entry.path)

    return _place(manifest, cache, copy)


def _place(manifest: Manifest, cache: Path, fill: Callable[[Path], None]) -> Path:
    target = path_for(cache, manifest.digest)
    if target.is_dir():
        return target
    disk.require(cache, manifest.size_bytes, "the files of the checkpoint in the cache")
    with disk.told("copying a checkpoint into the cache", cache):
        cache.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix="part-", dir=cache))
        try:
            fill(part)
            _keep_only_listed(part, manifest)
            verify_files(part, manifest)
            (part / MANIFEST_FILE).write_text(manifest.to_json(), encoding="utf-8")
            _rename(part, target)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return target


def _rename(part: Path, target: Path) -> None:
    try:
        part.rename(target)
    except OSError:
        if not target.is_dir():  # another process may have placed the same digest first
            raise


def _keep_only_listed(folder: Path, manifest: Manifest) -> None:
    """Removes what the manifest does not list: an engine would read a stray shard or config too."""
    listed = {entry.path for entry in manifest.files}
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.is_symlink() or path.relative_to(folder).as_posix() not in listed:
            path.unlink()
