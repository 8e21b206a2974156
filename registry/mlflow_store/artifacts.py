"""Files at an artifact location: read one, list them, delete them.

Always by location. MLflow's own way by run (`runs:/…`) turns every failure, also a server that is
away, into "does not exist", which would be taken for evidence that is gone.
"""

from __future__ import annotations

import posixpath
import tempfile
from pathlib import Path
from typing import Any

from registry.errors import NotFound, RegistryError
from registry.mlflow_store.translating import translated


class Artifacts:
    """The files of one run or logged model."""

    def __init__(self, location: str, tracking_uri: str) -> None:
        self._location = location.rstrip("/")
        self._uri = tracking_uri

    def read_text(self, name: str) -> str:
        """A file's content.

        Raises:
            NotFound: it is not there.
            RecordUnavailable: the store did not answer, so nobody knows whether it is.
        """
        import mlflow.artifacts

        action = f"reading {name} in {self._location}"
        with tempfile.TemporaryDirectory(prefix="liftlock-") as folder:
            try:
                with translated(action):
                    path = mlflow.artifacts.download_artifacts(
                        artifact_uri=f"{self._location}/{name}",
                        dst_path=folder,
                        tracking_uri=self._uri,
                    )
            except NotFound:
                raise
            except RegistryError as exc:
                # A download that fails does not say why; a listing that answers does.
                if name not in dict(self.listing(posixpath.dirname(name) or None)):
                    raise NotFound(f"{action}: there is no such file") from exc
                raise
            return Path(path).read_text(encoding="utf-8")

    def listing(self, folder: str | None = None) -> list[tuple[str, int]]:
        """Path and size in bytes of every file below a folder of the location."""
        found: list[tuple[str, int]] = []
        with translated(f"listing {self._location}"):
            for info in self._repository().list_artifacts(folder):
                if info.is_dir:
                    found += self.listing(info.path)
                else:
                    found.append((info.path, int(info.file_size or 0)))
        return found

    def delete(self) -> None:
        """Removes every file; nothing to remove is fine."""
        with translated(f"deleting {self._location}"):
            self._repository().delete_artifacts()

    def _repository(self) -> Any:
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        return get_artifact_repository(self._location, tracking_uri=self._uri)
