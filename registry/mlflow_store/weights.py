"""Whether a version's files lie where they are said to, without fetching them all."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from registry.manifest import FileEntry, Manifest
from registry.mlflow_store.artifacts import Artifacts
from registry.mlflow_store.translating import translated


def fault(storage: str, manifest: Manifest, tracking_uri: str) -> str | None:
    """What is wrong with the files at a location; None where all have their sizes and one is read.

    The smallest file is read and hashed, since a listing alone proves no access.
    """
    files = manifest.files
    stored = dict(Artifacts(storage, tracking_uri).listing())
    wrong = [f for f in files if stored.get(f.path) != f.size_bytes]
    if not wrong:
        return _unreadable(storage, min(files, key=lambda f: f.size_bytes), tracking_uri)
    first, more = wrong[0], f" ({len(wrong)} of {len(files)} files)" if len(wrong) > 1 else ""
    have = stored.get(first.path)
    told = "is not there" if have is None else f"has {have} bytes, not {first.size_bytes}"
    return f"{first.path} {told} at {storage}{more}"


def _unreadable(storage: str, file: FileEntry, tracking_uri: str) -> str | None:
    import mlflow.artifacts

    with (
        translated(f"reading {storage}/{file.path}"),
        tempfile.TemporaryDirectory(prefix="liftlock-") as folder,
    ):
        path = mlflow.artifacts.download_artifacts(
            artifact_uri=f"{storage}/{file.path}", dst_path=folder, tracking_uri=tracking_uri
        )
        found = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return None if found == file.sha256 else f"{file.path} at {storage} has other bytes"
