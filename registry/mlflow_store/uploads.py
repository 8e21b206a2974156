"""Checkpoint files as logged models: stored, found again when interrupted, swept when abandoned.

Files are uploaded straight from the checkpoint directory (no second copy of the weights): they lie
at the logged model's root beside a small MLmodel and the manifest, so a downloaded version is a
checkpoint directory again. An upload counts once the stored listing agrees with the manifest.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.checkpoint import Checkpoint
from registry.errors import RecordConflict, RecordRefused, RegistryError
from registry.listing import MLMODEL_FILE
from registry.mlflow_store.artifacts import Artifacts
from registry.mlflow_store.connect import experiment_id
from registry.mlflow_store.evidence import experiment_name
from registry.mlflow_store.translating import translated
from registry.model import Tag, short
from registry.prompt_file import MANIFEST_FILE
from registry.store import Registration

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel

UPLOADED = "upload"
"""Value of the storage tag for files in MLflow's own artifact store; else it is their URI."""
VERSIONS_TAG = "mlflow.modelVersions"
"""Set by MLflow on a logged model that became a version, and kept when the version is deleted."""


class Uploads:
    """The logged models of checkpoints."""

    def __init__(self, client: MlflowClient, tracking_uri: str) -> None:
        self._client = client
        self._uri = tracking_uri

    def store(self, model: str, checkpoint: Checkpoint, what: Registration) -> str:
        """The id of a logged model that holds all files; one that is there already is used.

        Raises:
            RegistryError: not all files are stored.
        """
        found = self._whole(model, checkpoint, what)
        if found is not None:
            return found
        model_id = self._begun(model, checkpoint, what) or self._begin(model, checkpoint, what)
        try:
            self._send(model_id, checkpoint, what)
        except BaseException:
            with contextlib.suppress(RegistryError), translated(f"giving up {model_id}"):
                self._client.finalize_logged_model(model_id, "FAILED")
            raise
        with translated(f"finishing upload {model_id}"):
            self._client.finalize_logged_model(model_id, "READY")
        return model_id

    def sweep(self, model: str, is_a_version: Callable[[str], bool]) -> tuple[str, ...]:
        """Deletes what never became a version: the files first, so that a kill leaves no orphan.

        An upload that was a version once is kept even when somebody has deleted the version: the
        ledger may name it.
        """
        swept = []
        for logged in self._logged(model, None):
            model_id = str(logged.model_id)
            ours = Tag.DIGEST in logged.tags
            if not ours or VERSIONS_TAG in logged.tags or is_a_version(model_id):
                continue
            self._delete(logged)
            swept.append(model_id)
        return tuple(swept)

    def _delete(self, logged: LoggedModel) -> None:
        model_id, location = str(logged.model_id), str(logged.artifact_location)
        if model_id in location.split("/"):  # a place of its own, so nothing else lies there
            with contextlib.suppress(RecordRefused):  # a store that cannot delete (Databricks)
                Artifacts(location, self._uri).delete()
        with translated(f"deleting upload {model_id}"):
            self._client.delete_logged_model(model_id)

    def _whole(self, model: str, checkpoint: Checkpoint, what: Registration) -> str | None:
        """A finished upload of the same bytes, which a registration that was cut off has left."""
        for logged in self._same(model, checkpoint, what):
            if str(logged.status) == "READY":
                with contextlib.suppress(RecordConflict):  # its files are gone: not whole
                    self._check_stored(str(logged.model_id), checkpoint, what)
                    return str(logged.model_id)
        return None

    def _begun(self, model: str, checkpoint: Checkpoint, what: Registration) -> str | None:
        """An unfinished one of the same run: nobody else is writing to it."""
        for logged in self._same(model, checkpoint, what):
            if str(logged.status) != "READY" and logged.source_run_id == what.run_id:
                return str(logged.model_id)
        return None

    def _same(self, model: str, checkpoint: Checkpoint, what: Registration) -> list[LoggedModel]:
        storage = what.pointer or UPLOADED
        found = self._logged(model, f"tags.`{Tag.DIGEST}` = '{checkpoint.digest}'")
        return [m for m in found if m.tags.get(Tag.STORAGE) == storage]

    def _logged(self, model: str, query: str | None) -> list[LoggedModel]:
        def pages() -> Iterator[LoggedModel]:
            token = None
            while True:
                page = self._client.search_logged_models([experiment], query, page_token=token)
                yield from page
                token = page.token
                if not token:
                    return

        with translated(f"searching uploads of {model}"):
            experiment = experiment_id(self._client, experiment_name(model))
            return list(pages())

    def _begin(self, model: str, checkpoint: Checkpoint, what: Registration) -> str:
        with translated(f"starting the upload of {checkpoint.directory}"):
            logged = self._client.create_logged_model(
                experiment_id(self._client, experiment_name(model)),
                name=f"{what.name}-{short(checkpoint.digest)[:8]}",
                source_run_id=what.run_id,
                params=_facts(checkpoint),
                tags={Tag.DIGEST: checkpoint.digest, Tag.STORAGE: what.pointer or UPLOADED},
                model_type="checkpoint",
            )
        return str(logged.model_id)

    def _send(self, model_id: str, checkpoint: Checkpoint, what: Registration) -> None:
        stored = self._stored(model_id)
        with (
            translated(f"uploading {checkpoint.directory}"),
            tempfile.TemporaryDirectory(prefix="liftlock-") as folder,
        ):
            _stage(Path(folder), checkpoint, model_id, what, stored)
            self._client.log_model_artifacts(model_id, folder)
        self._check_stored(model_id, checkpoint, what)

    def _stored(self, model_id: str) -> dict[str, int]:
        with translated(f"checking upload {model_id}"):
            location = str(self._client.get_logged_model(model_id).artifact_location)
        return dict(Artifacts(location, self._uri).listing())

    def _check_stored(self, model_id: str, checkpoint: Checkpoint, what: Registration) -> None:
        stored = self._stored(model_id)
        wanted = {MANIFEST_FILE, MLMODEL_FILE}
        if what.pointer is None:
            sizes = {f.path: f.size_bytes for f in checkpoint.manifest.files}
            wanted |= set(sizes)
            different = [p for p, size in sizes.items() if stored.get(p, -1) != size]
            if different:
                raise RecordConflict(
                    f"after upload {len(different)} files are missing or of another size on the "
                    f"server, such as {different[0]}; nothing was registered, try again"
                )
        if not wanted <= set(stored):
            raise RecordConflict(f"upload incomplete: {sorted(wanted - set(stored))} missing")


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


def _stage(
    folder: Path,
    checkpoint: Checkpoint,
    model_id: str,
    what: Registration,
    stored: Mapping[str, int],
) -> None:
    """A folder of links to the files, the manifest and the MLmodel; file links are followed.

    Files that an earlier attempt has stored (path and size) are left out.
    """
    for entry in checkpoint.manifest.files if what.pointer is None else ():
        if stored.get(entry.path) == entry.size_bytes:
            continue
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
