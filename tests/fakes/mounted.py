"""A mounted Secret or ConfigMap, replaced as the kubelet does it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path


class Mount:
    """A folder of links `NAME -> ..data/NAME`, where `..data` leads to what was written last.

    As Kubernetes' atomic writer (pkg/volume/util/atomic_writer.go): a new folder, then `..data` is
    replaced by a rename, then the old folder goes. The links themselves never change.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._written = 0

    def write(self, content: Mapping[str, bytes]) -> None:
        """Replace all files at once."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._written += 1
        made, data = self.folder / f"..{self._written}", self.folder / "..data"
        made.mkdir()
        for name, text in content.items():
            (made / name).write_bytes(text)
        before = data.resolve() if data.is_symlink() else None
        leads = self.folder / "..data_tmp"
        leads.symlink_to(made.name)
        leads.rename(data)
        for name in content:
            link = self.folder / name
            if not link.is_symlink():
                link.symlink_to(f"..data/{name}")
        if before is not None:
            shutil.rmtree(before)
