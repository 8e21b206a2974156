"""Checkpoints as logged models and model versions.

Files are uploaded straight from the checkpoint directory (no second copy of the weights): they lie
at the logged model's root beside a small MLmodel and the manifest, so a downloaded version is a
checkpoint directory again. Only after the stored listing has been compared with the manifest is the
version made, with its digest; a half upload therefore never becomes a version.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.checkpoint import MLMODEL_FILE, Checkpoint
from registry.errors import NotFound, RecordConflict
from registry.manifest import Manifest
from registry.mlflow_store.connect import experiment_id, translated
from registry.mlflow_store.evidence import experiment_name
from registry.model import ModelVersion, Tag, short
from registry.prompt_file import MANIFEST_FILE
from registry.store import Registration

if TYPE_CHECKING:
    from mlflow import MlflowClient


MODEL_SCHEME = "models:/"
UPLOADED = "upload"
"""Value of the storage tag for files in MLflow's own artifact store; else it is their URI."""


class MlflowVersions:
    """`registry.store.Versions` on MLflow."""

    def __init__(self, client: MlflowClient, tracking_uri: str) -> None:
        self._client = client
        self._uri = tracking_uri

    def register(self, model: str, checkpoint: Checkpoint, what: Registration) -> ModelVersion:
        """See `Versions.register`."""
        found = self.find(model, checkpoint.digest)
        if found is not None:
            return found
        with translated(f"registering {checkpoint.directory} as {model}"):
            self._ensure_model(model)
            model_id = self._upload(model, checkpoint, what)
            tags = {**what.tags, Tag.DIGEST: checkpoint.digest}
            tags[Tag.STORAGE] = what.pointer or UPLOADED
            made = self._client.create_model_version(
                model, f"{MODEL_SCHEME}{model_id}", run_id=what.run_id, tags=tags, model_id=model_id
            )
        return self.get(model, int(made.version))

    def find(self, model: str, digest: str) -> ModelVersion | None:
        """See `Versions.find`."""
        query = f"name = '{model}' and tags.`{Tag.DIGEST}` = '{digest}'"
        with translated(f"searching versions of {model}"):
            found = self._client.search_model_versions(query)
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
        with translated(f"downloading version {version.version} of {version.model}"):
            if source == UPLOADED:
                source = self._location(version.source)
            got = mlflow.artifacts.download_artifacts(
                artifact_uri=source, dst_path=str(target), tracking_uri=self._uri
            )
        # Some stores put the files into a folder of the location's name below the target.
        if Path(got) != target:
            for path in list(Path(got).iterdir()):
                path.rename(target / path.name)
            Path(got).rmdir()

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

    def _ensure_model(self, model: str) -> None:
        try:
            with translated(f"creating model {model}"):
                self._client.create_registered_model(model)
        except RecordConflict:
            pass  # it exists

    def _upload(self, model: str, checkpoint: Checkpoint, what: Registration) -> str:
        experiment = experiment_id(self._client, experiment_name(model))
        logged = self._client.create_logged_model(
            experiment,
            name=f"{what.name}-{short(checkpoint.digest)[:8]}",
            source_run_id=what.run_id,
            params=_facts(checkpoint),
            tags={Tag.DIGEST: checkpoint.digest},
            model_type="checkpoint",
        )
        model_id = str(logged.model_id)
        finished = False
        try:
            with tempfile.TemporaryDirectory(prefix="liftlock-") as folder:
                _stage(Path(folder), checkpoint, model_id, what)
                self._client.log_model_artifacts(model_id, folder)
            self._check_stored(model_id, checkpoint.manifest, what.pointer)
            finished = True
        finally:
            self._client.finalize_logged_model(model_id, "READY" if finished else "FAILED")
        return model_id

    def _check_stored(self, model_id: str, manifest: Manifest, pointer: str | None) -> None:
        stored = dict(self._listing(model_id, None))
        wanted = {MANIFEST_FILE, MLMODEL_FILE}
        if pointer is None:
            sizes = {f.path: f.size_bytes for f in manifest.files}
            wanted |= set(sizes)
            different = [p for p, size in sizes.items() if stored.get(p, -1) != size]
            if different:
                raise RecordConflict(
                    f"after upload {len(different)} files are missing or of another size on the "
                    f"server, such as {different[0]}; nothing was registered, try again"
                )
        if not wanted <= set(stored):
            raise RecordConflict(f"upload incomplete: {sorted(wanted - set(stored))} missing")

    def _listing(self, model_id: str, folder: str | None) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        for info in self._client.list_logged_model_artifacts(model_id, folder):
            if info.is_dir:
                found += self._listing(model_id, info.path)
            else:
                found.append((info.path, int(info.file_size or 0)))
        return found

    def _location(self, source: str) -> str:
        """The artifact location of a logged model.

        MLflow resolves `models:/m-…` with the process's default store instead of ours, and takes
        no file name after it; a location works with both.
        """
        model_id = source.removeprefix(MODEL_SCHEME)
        return str(self._client.get_logged_model(model_id).artifact_location)

    def _manifest(self, source: str) -> Manifest:
        import mlflow.artifacts

        with (
            translated(f"reading the manifest of {source}"),
            tempfile.TemporaryDirectory(prefix="liftlock-") as folder,
        ):
            path = mlflow.artifacts.download_artifacts(
                artifact_uri=f"{self._location(source)}/{MANIFEST_FILE}",
                dst_path=folder,
                tracking_uri=self._uri,
            )
            text = Path(path).read_text(encoding="utf-8")
        try:
            return Manifest.from_json(text)
        except ValueError as exc:
            raise NotFound(f"{source} is not a liftlock checkpoint: {exc}") from exc


def _facts(checkpoint: Checkpoint) -> dict[str, str]:
    scheme = checkpoint.scheme
    return {
        "architecture": checkpoint.architecture,
        "parameters": str(checkpoint.parameters),
        "weight_dtypes": ",".join(checkpoint.weight_dtypes),
        "scheme": scheme.label if scheme else "unquantized",
        "size_bytes": str(checkpoint.manifest.size_bytes),
        "digest": checkpoint.digest,
    }


def _stage(folder: Path, checkpoint: Checkpoint, model_id: str, what: Registration) -> None:
    """A folder of links to the files, the manifest and the MLmodel; file links are followed."""
    for entry in checkpoint.manifest.files if what.pointer is None else ():
        link = folder / entry.path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to((checkpoint.directory / entry.path).resolve())
    (folder / MANIFEST_FILE).write_text(checkpoint.manifest.to_json(), encoding="utf-8")
    _mlmodel(checkpoint, model_id, what).save(str(folder / MLMODEL_FILE))
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)


def _mlmodel(checkpoint: Checkpoint, model_id: str, what: Registration) -> Any:
    """MLmodel with the signature of a completion endpoint and our own `vllm` flavor."""
    from mlflow.models import Model, ModelSignature
    from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec, Schema
    from mlflow.types.schema import Array, Object, Property

    choice = Object([Property("text", DataType.string), Property("finish_reason", DataType.string)])
    generation = checkpoint.manifest.generation
    signature = ModelSignature(
        inputs=Schema([ColSpec(DataType.string, "prompt")]),
        outputs=Schema([ColSpec(Array(choice), "choices")]),
        params=ParamSchema(
            [
                ParamSpec("max_tokens", DataType.integer, generation.max_tokens),
                ParamSpec("temperature", DataType.float, generation.temperature),
            ]
        ),
    )
    made = Model(run_id=what.run_id, signature=signature, model_id=model_id)
    made.add_flavor(
        "vllm",
        architecture=checkpoint.architecture,
        manifest=MANIFEST_FILE,
        digest=checkpoint.digest,
        weights=what.pointer or ".",
    )
    return made
