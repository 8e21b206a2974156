"""What a restore writes to MLflow. Every call may be repeated after one that was cut short."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from registry import strict_yaml
from registry.backup.facts import (
    LedgerFacts,
    ModelFacts,
    RestoredTag,
    RunFacts,
    VersionFacts,
)
from registry.errors import BackupInvalid, NotFound, RecordConflict, RegistryError
from registry.listing import MLMODEL_FILE
from registry.manifest import Manifest
from registry.mlflow_store import weights
from registry.mlflow_store.backup_source import MlflowSource
from registry.mlflow_store.connect import experiment_id
from registry.mlflow_store.evidence import PARENT_TAG, experiment_name
from registry.mlflow_store.ledger_log import ledger_experiment
from registry.mlflow_store.translating import translated
from registry.mlflow_store.versions import MODEL_SCHEME
from registry.model import Tag
from registry.prompt_file import MANIFEST_FILE

if TYPE_CHECKING:
    from mlflow.entities import LoggedModel, Run

PARAMS_AT_ONCE = 100  # MLflow's limit for one batch
METRICS_AT_ONCE = 1000
PLACEHOLDER = "placeholder"
ENDED = {"FINISHED", "FAILED", "KILLED"}


class MlflowVault(MlflowSource):
    """`registry.backup.vault.Vault` on MLflow."""

    def unfinished(self, model: str) -> str | None:
        """See `Target.unfinished`."""
        digest, _ = self._mark(model)
        return digest

    def begin(self, model: str, digest: str) -> None:
        """See `Target.begin`."""
        with translated(f"creating model {model}"):
            self._client.create_registered_model(
                model, tags={str(RestoredTag.UNFINISHED): f"{digest} 0"}
            )

    def put_run(self, model: str, run: RunFacts, text: Callable[[str], str]) -> None:
        """See `Target.put_run`."""
        found = self._find(run.run_id)
        if found is not None and (str(found.info.status) in ENDED or not _is_restored(found)):
            return  # it is whole, or the very run, which this server still has
        with translated(f"restoring run {run.run_id}"):
            made = found or self._client.create_run(
                experiment_id(self._client, experiment_name(model)),
                start_time=run.started_at_ms,
                tags=self._run_tags(run),
                run_name=run.name,
            )
            run_id = str(made.info.run_id)
            self._log(run_id, run.params, run.metrics, run.ended_at_ms or run.started_at_ms)
            for name in run.texts:
                self._client.log_text(run_id, text(name), name)
            # One that nobody ended before the backup is not going on here.
            status = run.status if run.status in ENDED else "KILLED"
            self._client.set_terminated(run_id, status, run.ended_at_ms or run.started_at_ms)

    def reached(self, model: str) -> int:
        """See `Target.reached`."""
        _, given = self._mark(model)
        live = self.digests(model)
        last = max([given, *live])
        # Cut short between making a placeholder and deleting it.
        if live and last > given and not live[last]:
            self.skip_version(model, last)
        return last

    def put_version(self, model: str, version: VersionFacts) -> None:
        """See `Target.put_version`."""
        run_id = self._here(version.run_id)
        logged = self._logged_model(model, version, run_id)
        with translated(f"restoring version {version.version} of {model}"):
            made = self._client.create_model_version(
                model,
                f"{MODEL_SCHEME}{logged.model_id}",
                run_id=run_id,
                tags={**version.tags, str(Tag.STORAGE): version.storage},
                description=version.description,
                model_id=logged.model_id,
            )
        _require_number(model, int(made.version), version.version)

    def skip_version(self, model: str, version: int) -> None:
        """See `Target.skip_version`."""
        with translated(f"leaving out version {version} of {model}"):
            if version not in self.digests(model):
                logged = self._placeholder(model)
                made = self._client.create_model_version(
                    model, f"{MODEL_SCHEME}{logged}", model_id=logged
                )
                _require_number(model, int(made.version), version)
            digest, _ = self._mark(model)
            self._client.set_registered_model_tag(
                model, str(RestoredTag.UNFINISHED), f"{digest} {version}"
            )
            self._client.delete_model_version(model, str(version))

    def put_ledger(self, model: str, ledger: LedgerFacts) -> None:
        """See `Target.put_ledger`."""
        with translated(f"restoring the ledger of {model}"):
            experiment = experiment_id(self._client, ledger_experiment(model))
            run_id = self._ledger_in_the_making(experiment, model, ledger)
            self._log(run_id, ledger.params, {}, ledger.head.started_at_ms)
            self._client.set_terminated(run_id, "FINISHED")
            for key, value in ledger.head.tags.items():
                if key != Tag.LEDGER:
                    self._client.set_tag(run_id, key, value)
            self._client.set_tag(run_id, str(Tag.LEDGER), model)  # from now on it is the ledger

    def finish(self, facts: ModelFacts, digest: str) -> None:
        """See `Target.finish`."""
        client, model = self._client, facts.model
        numbers = self.digests(model)
        with translated(f"restoring the registered model {model}"):
            client.update_registered_model(model, description=facts.description)
            for key, value in {**facts.tags, str(RestoredTag.BACKUP): digest}.items():
                client.set_registered_model_tag(model, key, value)
            for alias, version in facts.aliases.items():
                if version in numbers:
                    client.set_registered_model_alias(model, alias, str(version))
            self._drop_placeholder(model)
            client.delete_registered_model_tag(model, str(RestoredTag.UNFINISHED))

    def weights_fault(self, model: str, version: int) -> str | None:
        """See `Target.weights_fault`."""
        try:
            facts = self.version(model, version)
            return weights.fault(facts.storage, Manifest.from_json(facts.manifest), self._uri)
        except RegistryError as exc:
            return str(exc)

    def _mark(self, model: str) -> tuple[str | None, int]:
        """The backup that a model is being restored from, and the highest number used up."""
        try:
            with translated(f"reading the registered model {model}"):
                tags = self._client.get_registered_model(model).tags
        except NotFound:
            return None, 0
        digest, _, reached = str(tags.get(RestoredTag.UNFINISHED, "")).partition(" ")
        return digest or None, int(reached or 0)

    def _run_tags(self, run: RunFacts) -> dict[str, str]:
        tags = {**run.tags, str(RestoredTag.RUN): run.run_id}
        parent = self._here(run.parent)
        return {**tags, PARENT_TAG: parent} if parent is not None else tags

    def _here(self, run_id: str | None) -> str | None:
        """This server's id of a run that others know by another."""
        found = self._find(run_id) if run_id else None
        return str(found.info.run_id) if found is not None else None

    def _log(
        self, run_id: str, params: Mapping[str, str], metrics: Mapping[str, float], at_ms: int
    ) -> None:
        from mlflow.entities import Metric, Param

        values = [Param(key, value) for key, value in sorted(params.items())]
        for begin in range(0, len(values), PARAMS_AT_ONCE):
            self._client.log_batch(run_id, params=values[begin : begin + PARAMS_AT_ONCE])
        points = [Metric(key, value, at_ms, 0) for key, value in sorted(metrics.items())]
        for begin in range(0, len(points), METRICS_AT_ONCE):
            self._client.log_batch(run_id, metrics=points[begin : begin + METRICS_AT_ONCE])

    def _ledger_in_the_making(self, experiment: str, model: str, ledger: LedgerFacts) -> str:
        known = ledger.head.run_id
        found = self._client.search_runs(
            [experiment], f"tags.`{RestoredTag.RUN}` = '{known}'", max_results=1
        )
        run: Run = (
            found[0]
            if found
            else self._client.create_run(
                experiment,
                start_time=ledger.head.started_at_ms,
                tags={str(RestoredTag.RUN): known},
                run_name=f"{model} ledger",
            )
        )
        return str(run.info.run_id)

    def _logged_model(self, model: str, version: VersionFacts, run_id: str | None) -> LoggedModel:
        """The logged model that stands for the one the version was made from."""
        facts = version.logged
        found = self._made(model, facts.model_id)
        if found is not None and str(found.status) == "READY":
            return found
        with translated(f"restoring the logged model of version {version.version} of {model}"):
            made = found or self._client.create_logged_model(
                experiment_id(self._client, experiment_name(model)),
                name=facts.name,
                source_run_id=run_id,
                params=dict(facts.params),
                tags={**facts.tags, str(RestoredTag.MODEL): facts.model_id},
                model_type=facts.model_type,
            )
            with tempfile.TemporaryDirectory(prefix="liftlock-") as folder:
                (Path(folder) / MANIFEST_FILE).write_text(version.manifest, encoding="utf-8")
                mlmodel = _mlmodel(facts.mlmodel, str(made.model_id), run_id)
                (Path(folder) / MLMODEL_FILE).write_text(mlmodel, encoding="utf-8")
                self._client.log_model_artifacts(made.model_id, folder)
            return self._client.finalize_logged_model(made.model_id, "READY")

    def _made(self, model: str, known_as: str) -> LoggedModel | None:
        with translated(f"looking for the logged model {known_as}"):
            found = self._client.search_logged_models(
                [experiment_id(self._client, experiment_name(model))],
                filter_string=f"tags.`{RestoredTag.MODEL}` = '{known_as}'",
                max_results=1,
            )
        return found[0] if found else None

    def _placeholder(self, model: str) -> str:
        """A logged model without files, for versions that are made only to be deleted."""
        found = self._made(model, PLACEHOLDER)
        if found is None:
            found = self._client.create_logged_model(
                experiment_id(self._client, experiment_name(model)),
                name=PLACEHOLDER,
                tags={str(RestoredTag.MODEL): PLACEHOLDER},
            )
        if str(found.status) != "READY":
            found = self._client.finalize_logged_model(found.model_id, "READY")
        return str(found.model_id)

    def _drop_placeholder(self, model: str) -> None:
        found = self._made(model, PLACEHOLDER)
        if found is not None:
            with contextlib.suppress(NotFound):
                self._client.delete_logged_model(found.model_id)


def _is_restored(run: Run) -> bool:
    return RestoredTag.RUN in run.data.tags


def _require_number(model: str, made: int, wanted: int) -> None:
    if made != wanted:
        raise RecordConflict(
            f"the server gave {model} version {made} where {wanted} was to be restored: somebody "
            "registers there, or it numbers differently; restore onto a server that nobody uses yet"
        )


def _mlmodel(text: str, model_id: str, run_id: str | None) -> str:
    """An MLmodel file that names the logged model and the run of this server."""
    try:
        raw = strict_yaml.parse(text)
    except ValueError as exc:
        raise BackupInvalid(f"an MLmodel in the backup is no YAML: {exc}") from exc
    if not isinstance(raw, dict):
        raise BackupInvalid("an MLmodel in the backup is no mapping")
    return str(yaml.safe_dump({**raw, "model_id": model_id, "run_id": run_id}, sort_keys=False))
