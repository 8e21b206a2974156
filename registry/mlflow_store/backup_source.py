"""What a backup reads from MLflow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from registry.backup.facts import (
    PREFIX,
    LedgerFacts,
    LedgerHead,
    LoggedFacts,
    ModelFacts,
    RestoredTag,
    RunFacts,
    VersionFacts,
)
from registry.backup.layout import MAX_TEXT_BYTES, TEXT_NAME
from registry.errors import NotFound, RecordConflict
from registry.listing import MLMODEL_FILE
from registry.manifest import Manifest
from registry.mlflow_store.artifacts import Artifacts
from registry.mlflow_store.evidence import PARENT_TAG
from registry.mlflow_store.ledger_log import find_run
from registry.mlflow_store.restored import known_as, restored_run
from registry.mlflow_store.translating import translated
from registry.mlflow_store.uploads import UPLOADED
from registry.mlflow_store.versions import MODEL_SCHEME
from registry.model import Tag
from registry.prompt_file import MANIFEST_FILE

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel, Run
    from mlflow.entities.model_registry import ModelVersion

OURS = f"{MODEL_SCHEME}m-"


class MlflowSource:
    """`registry.backup.vault.Source` on MLflow."""

    def __init__(self, client: MlflowClient, tracking_uri: str) -> None:
        self._client = client
        self._uri = tracking_uri
        self._runs: dict[str, Run] = {}

    @property
    def address(self) -> str:
        """See `Source.address`."""
        return self._uri

    def model(self, model: str) -> ModelFacts | None:
        """See `Source.model`."""
        try:
            with translated(f"reading the registered model {model}"):
                found = self._client.get_registered_model(model)
        except NotFound:
            return None
        return ModelFacts(
            model=model,
            description=str(found.description or ""),
            tags=_kept(found.tags),
            aliases={str(a): int(v) for a, v in found.aliases.items()},
        )

    def ledger(self, model: str) -> LedgerFacts:
        """See `Source.ledger`."""
        with translated(f"reading the ledger of {model}"):
            run = find_run(self._client, model)
        if run is None:
            return LedgerFacts(head=LedgerHead(), items=())
        keys = tuple(sorted(run.data.params))
        head = LedgerHead(
            run_id=str(run.info.run_id),
            started_at_ms=int(run.info.start_time or 0),
            tags={k: v for k, v in _kept(run.data.tags).items() if k.startswith("liftlock.")},
            keys=keys,
        )
        return LedgerFacts(head=head, items=tuple(str(run.data.params[k]) for k in keys))

    def digests(self, model: str) -> Mapping[int, str]:
        """See `Source.digests`."""
        with translated(f"listing versions of {model}"):
            found = {int(v.version): v for v in self._versions(model)}
        return {n: str(found[n].tags.get(Tag.DIGEST, "")) for n in sorted(found)}

    def version(self, model: str, version: int) -> VersionFacts:
        """See `Source.version`."""
        with translated(f"reading version {version} of {model}"):
            raw = self._client.get_model_version(model, str(version))
        source, tags = str(raw.source), {str(k): str(v) for k, v in raw.tags.items()}
        if not source.startswith(OURS):
            raise NotFound(f"it was not registered by liftlock (source {source})")
        with translated(f"reading the logged model of version {version} of {model}"):
            logged = self._client.get_logged_model(source.removeprefix(MODEL_SCHEME))
        manifest = self._file(logged, MANIFEST_FILE)
        try:
            digest = Manifest.from_json(manifest).digest
        except ValueError as exc:
            raise RecordConflict(f"its manifest is not valid: {exc}") from exc
        if digest != tags.get(Tag.DIGEST):
            raise RecordConflict(f"tagged {tags.get(Tag.DIGEST)}, its manifest says {digest}")
        stored = tags.get(Tag.STORAGE, UPLOADED)
        return VersionFacts(
            version=version,
            tags=tags,
            description=str(raw.description or ""),
            run_id=self._known_as(str(raw.run_id or "")),
            manifest=manifest,
            storage=str(logged.artifact_location) if stored == UPLOADED else stored,
            logged=self._logged(logged),
        )

    def run(self, run_id: str) -> RunFacts | None:
        """See `Source.run`."""
        run = self._find(run_id)
        if run is None:
            return None
        ended, parent = run.info.end_time, run.data.tags.get(PARENT_TAG)
        tags = _kept(run.data.tags)
        tags.pop(PARENT_TAG, None)
        return RunFacts(
            run_id=run_id,
            name=str(run.info.run_name or ""),
            parent=self._known_as(parent) if parent else None,
            status=str(run.info.status),
            started_at_ms=int(run.info.start_time or 0),
            ended_at_ms=int(ended) if ended else None,
            params=dict(run.data.params),
            tags=tags,
            metrics={k: float(v) for k, v in run.data.metrics.items()},
            texts=self._texts(run),
        )

    def text(self, run_id: str, name: str) -> str:
        """See `Source.text`."""
        run = self._find(run_id)
        if run is None:
            raise NotFound(f"run {run_id} is gone")
        try:
            return self._artifacts(run).read_text(name)
        except UnicodeDecodeError as exc:
            raise NotFound(f"{name} of run {run_id} is not text") from exc

    def _versions(self, model: str) -> Iterator[ModelVersion]:
        token: str | None = None
        while True:
            page = self._client.search_model_versions(f"name = '{model}'", page_token=token)
            yield from page
            token = page.token
            if not token:
                return

    def _find(self, run_id: str) -> Run | None:
        """A run by its own id or by the one it had before it was restored."""
        if run_id not in self._runs:
            try:
                with translated(f"reading run {run_id}"):
                    found = self._client.get_run(run_id)
            except NotFound:
                with translated(f"looking for the restored run {run_id}"):
                    found = restored_run(self._client, run_id)
            if found is None:
                return None
            self._runs[run_id] = found
        return self._runs[run_id]

    def _known_as(self, run_id: str) -> str | None:
        """The id that others know a run of this server by; its own where it is gone."""
        if not run_id:
            return None
        found = self._find(run_id)
        return known_as(found) if found is not None else run_id

    def _texts(self, run: Run) -> tuple[str, ...]:
        listed = self._artifacts(run).listing()
        small = (name for name, size_bytes in listed if size_bytes <= MAX_TEXT_BYTES)
        return tuple(sorted(name for name in small if TEXT_NAME.fullmatch(name)))

    def _artifacts(self, run: Run) -> Artifacts:
        return Artifacts(str(run.info.artifact_uri), self._uri)

    def _logged(self, logged: LoggedModel) -> LoggedFacts:
        tags = {str(k): str(v) for k, v in logged.tags.items()}
        return LoggedFacts(
            model_id=tags.get(RestoredTag.MODEL, str(logged.model_id)),
            name=str(logged.name),
            model_type=str(logged.model_type) if logged.model_type else None,
            params={str(k): str(v) for k, v in logged.params.items()},
            tags={k: v for k, v in _kept(tags).items() if not k.startswith("mlflow.")},
            mlmodel=self._file(logged, MLMODEL_FILE),
        )

    def _file(self, logged: LoggedModel, name: str) -> str:
        return Artifacts(str(logged.artifact_location), self._uri).read_text(name)


def _kept(tags: Mapping[str, str]) -> dict[str, str]:
    """Tags without those that an earlier restore left."""
    return {str(k): str(v) for k, v in tags.items() if not str(k).startswith(PREFIX)}
