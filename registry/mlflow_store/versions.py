"""Checkpoints as model versions.

A version is made, with its digest, only when `Uploads` says that all files are stored; a half
upload therefore never becomes a version. Whether a version exists is looked up by digest before
anything is made, so a registration whose answer was lost can be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from registry.checkpoint import Checkpoint
from registry.errors import NotFound, RecordConflict, RegistryError
from registry.manifest import Manifest
from registry.mlflow_store.artifacts import Artifacts
from registry.mlflow_store.translating import translated
from registry.mlflow_store.uploads import UPLOADED, Uploads
from registry.model import ModelVersion, Tag
from registry.prompt_file import MANIFEST_FILE
from registry.store import Registration

if TYPE_CHECKING:
    from mlflow import MlflowClient

MODEL_SCHEME = "models:/"


class MlflowVersions:
    """`registry.store.Versions` on MLflow."""

    def __init__(self, client: MlflowClient, tracking_uri: str) -> None:
        self._client = client
        self._uri = tracking_uri
        self._uploads = Uploads(client, tracking_uri)

    def register(self, model: str, checkpoint: Checkpoint, what: Registration) -> ModelVersion:
        """See `Versions.register`."""
        found = self.find(model, checkpoint.digest)
        if found is not None:
            return found
        with translated(f"registering {checkpoint.directory} as {model}"):
            self._ensure_model(model)
            model_id = self._uploads.store(model, checkpoint, what)
            tags = {**what.tags, Tag.DIGEST: checkpoint.digest}
            tags[Tag.STORAGE] = what.pointer or UPLOADED
            made = self._client.create_model_version(
                model, f"{MODEL_SCHEME}{model_id}", run_id=what.run_id, tags=tags, model_id=model_id
            )
        return self.get(model, int(made.version))

    def again(self, version: ModelVersion, tags: Mapping[str, str]) -> ModelVersion:
        """See `Versions.again`."""
        own = {str(k): v for k, v in tags.items()}
        found = self._tagged(version.model, {Tag.DIGEST: version.digest, **own})
        if found is not None:
            return found
        with translated(f"registering {version.model} version {version.version} once more"):
            made = self._client.create_model_version(
                version.model,
                version.source,
                tags={**version.tags, **own},
                model_id=version.model_id,
            )
        return self.get(version.model, int(made.version))

    def find(self, model: str, digest: str) -> ModelVersion | None:
        """See `Versions.find`."""
        return self._tagged(model, {Tag.DIGEST: digest})

    def _tagged(self, model: str, tags: Mapping[str, str]) -> ModelVersion | None:
        wanted = " and ".join(f"tags.`{key}` = '{value}'" for key, value in tags.items())
        with translated(f"searching versions of {model}"):
            found = self._client.search_model_versions(f"name = '{model}' and {wanted}")
        # The oldest one: if two registrations ever raced, everybody agrees on the same answer.
        numbers = sorted(int(v.version) for v in found)
        return self.get(model, numbers[0]) if numbers else None

    def get(self, model: str, version: int) -> ModelVersion:
        """See `Versions.get`."""
        with translated(f"reading version {version} of {model}"):
            raw = self._client.get_model_version(model, str(version))
        source = str(raw.source)
        if not source.startswith(f"{MODEL_SCHEME}m-"):
            raise NotFound(
                f"version {version} of {model} was not registered by liftlock (source {source}); "
                "register its checkpoint with `liftlock promote`"
            )
        manifest = self._manifest(source)
        tags = {str(k): str(v) for k, v in raw.tags.items()}
        if tags.get(Tag.DIGEST) != manifest.digest:
            raise RecordConflict(
                f"version {version} of {model} is tagged {tags.get(Tag.DIGEST)}, but its manifest "
                f"says {manifest.digest}; the tag or the artifact was changed, do not serve it"
            )
        return ModelVersion(
            model=model,
            version=version,
            digest=manifest.digest,
            source=source,
            model_id=source.removeprefix(MODEL_SCHEME),
            manifest=manifest,
            tags=tags,
        )

    def download(self, version: ModelVersion, target: Path) -> None:
        """See `Versions.download`."""
        import mlflow.artifacts

        source = version.tags.get(Tag.STORAGE, UPLOADED)
        uploaded = source == UPLOADED
        with translated(f"downloading version {version.version} of {version.model}"):
            location = self._location(version.source) if uploaded else source
        try:
            with translated(f"downloading version {version.version} of {version.model}"):
                got = mlflow.artifacts.download_artifacts(
                    artifact_uri=location, dst_path=str(target), tracking_uri=self._uri
                )
        except RegistryError:
            self._require_files(version, location)
            raise
        # Some stores put the files into a folder of the location's name below the target.
        if Path(got) != target:
            for path in list(Path(got).iterdir()):
                path.rename(target / path.name)
            Path(got).rmdir()

    def _require_files(self, version: ModelVersion, location: str) -> None:
        """A failed download does not say why; files that are gone are not worth waiting for."""
        stored = dict(Artifacts(location, self._uri).listing())
        gone = [f.path for f in version.manifest.files if f.path not in stored]
        if gone:
            raise NotFound(
                f"{len(gone)} files of version {version.version} of {version.model} are not in "
                f"{location} any more, such as {gone[0]}; register the checkpoint again"
            )

    def tag(self, version: ModelVersion, tags: Mapping[str, str]) -> None:
        """See `Versions.tag`."""
        with translated(f"tagging version {version.version} of {version.model}"):
            for key, value in tags.items():
                self._client.set_model_version_tag(
                    version.model, str(version.version), str(key), value
                )

    def describe(self, model: str, version: int | None, text: str) -> None:
        """See `Versions.describe`."""
        with translated(f"describing {model}"):
            if version is None:
                self._client.update_registered_model(model, description=text)
            else:
                self._client.update_model_version(model, str(version), description=text)

    def mirror(self, model: str, aliases: Mapping[str, int | None]) -> None:
        """See `Versions.mirror`."""
        with translated(f"setting aliases of {model}"):
            current = self._client.get_registered_model(model).aliases
            for alias, version in aliases.items():
                if version is None and alias in current:
                    self._client.delete_registered_model_alias(model, alias)
                elif version is not None and int(current.get(alias, 0)) != version:
                    self._client.set_registered_model_alias(model, alias, str(version))

    def sweep(self, model: str) -> tuple[str, ...]:
        """See `Versions.sweep`."""
        return self._uploads.sweep(model, self._is_a_version)

    def _is_a_version(self, model_id: str) -> bool:
        """Whether any registered model has a version of this upload, ours or somebody else's."""
        source = f"{MODEL_SCHEME}{model_id}"
        with translated(f"searching versions of {source}"):
            return bool(self._client.search_model_versions(f"source_path = '{source}'"))

    def _ensure_model(self, model: str) -> None:
        try:
            with translated(f"creating model {model}"):
                self._client.create_registered_model(model)
        except RecordConflict:
            pass  # it exists

    def _location(self, source: str) -> str:
        """The artifact location of a logged model.

        MLflow resolves `models:/m-…` with the process's default store instead of ours, and takes
        no file name after it; a location works with both.
        """
        model_id = source.removeprefix(MODEL_SCHEME)
        return str(self._client.get_logged_model(model_id).artifact_location)

    def _manifest(self, source: str) -> Manifest:
        with translated(f"reading the manifest of {source}"):
            location = self._location(source)
        text = Artifacts(location, self._uri).read_text(MANIFEST_FILE)
        try:
            return Manifest.from_json(text)
        except ValueError as exc:
            raise NotFound(f"{source} is not a liftlock checkpoint: {exc}") from exc
