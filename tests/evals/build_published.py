"""Suites of published files in a data directory, made for tests."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import yaml

COMMIT = "1234567890" * 4


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def definition(folder: Path, files: dict[str, bytes], **changes: Any) -> Path:
    """A parallel-text suite of two files, `a.src` and `a.ref`; None drops a key."""
    content: dict[str, Any] = {
        "name": "tiny",
        "language": "en",
        "kind": "correction",
        "license": "CC-BY-4.0",
        "description": "made for a test",
        "source": source(files),
        "converter": {"name": "parallel", "source": "a.src", "references": ["a.ref"]},
        "examples": 2,
        **changes,
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{content['name']}.yaml"
    path.write_text(yaml.safe_dump({k: v for k, v in content.items() if v is not None}))
    return path


def source(files: dict[str, bytes], /, **changes: Any) -> dict[str, Any]:
    return {
        "folder": "corpus",
        "repository": "https://github.com/owner/corpus",
        "commit": COMMIT,
        "files": [{"path": path, "sha256": sha256(data)} for path, data in files.items()],
        **changes,
    }


def lay(data_dir: Path, files: dict[str, bytes]) -> None:
    """Puts the files where the suite looks for them."""
    for path, data in files.items():
        target = data_dir / "corpus" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
