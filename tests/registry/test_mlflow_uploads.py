"""Uploads on a real MLflow: repeated without doubling, gone on with, swept with their files."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import pytest

from registry import checkpoint
from registry.errors import RecordRefused
from registry.journal import journaled
from registry.mlflow_store import connect
from registry.model import Tag
from registry.store import Registration
from tests.fakes import checkpoints
from tests.fakes.proxy import Proxy
from tests.registry.mlflow_story import client_of, new_model


@pytest.mark.slow
@pytest.mark.parametrize("how", ["away", "lost", 503])
def test_registration_is_repeated_until_it_is_there_once(
    through: tuple[str, Proxy], tmp_path: Path, how: str | int
) -> None:
    address, proxy = through
    model, uri = new_model(), proxy.upstream.geturl()
    given = checkpoint.inspect(checkpoints.make(tmp_path / "ck", seed=7))
    record = journaled(
        connect(address), tmp_path / "journal", patience_s=600.0, note=lambda text: None,
        sleep=lambda seconds: None,
    )  # fmt: skip
    run = record.evidence.open(model, "register", {}, None)
    tries = [0, 0]

    def one_request_further_each_time(number: int, method: str, path: str) -> str | int:
        if tries[1] >= tries[0]:
            tries[:] = [tries[0] + 1, 0]
            return how
        tries[1] += 1
        return "fine"

    proxy.from_now(one_request_further_each_time)
    made = record.versions.register(model, given, Registration(name="ck", run_id=run))
    proxy.from_now(lambda n, method, path: "fine")
    assert tries[0] > 10
    client = client_of(uri)
    assert [int(v.version) for v in client.search_model_versions(f"name = '{model}'")] == [1]
    logged = client.search_logged_models([client.get_run(run).info.experiment_id])
    # Where the answer to a creation was lost one upload is left over, without a version.
    left = [m for m in logged if m.model_id != made.model_id]
    assert len(left) <= (1 if how == "lost" else 0)
    assert len(record.versions.sweep(model)) == len(left)
    (tmp_path / "got").mkdir()
    record.versions.download(made, tmp_path / "got")
    assert {p.name for p in (tmp_path / "got").iterdir()} >= {f.path for f in given.manifest.files}


def files_of(home: Path, model_id: str) -> list[Path]:
    return [p for p in home.rglob("*") if model_id in str(p) and p.is_file()]


def test_sweep_removes_only_what_never_was_a_version_and_its_files(
    mlflow_uri: str, mlflow_home: Path, tmp_path: Path
) -> None:
    model, client = new_model(), client_of(mlflow_uri)
    record = connect(mlflow_uri)
    run = record.evidence.open(model, "register", {}, None)
    seeds = itertools.count(1)

    def version() -> tuple[str, int]:
        seed = next(seeds)
        given = checkpoint.inspect(checkpoints.make(tmp_path / str(seed), seed=seed))
        made = record.versions.register(model, given, Registration(name="ck", run_id=run))
        assert made.model_id is not None
        return made.model_id, made.version

    def upload(status: str | None, tags: Mapping[str, str]) -> str:
        number = client.get_run(run).info.experiment_id
        made = str(client.create_logged_model(number, name="ck", tags=tags).model_id)
        client.log_model_artifacts(made, str(tmp_path / "1"))
        if status is not None:
            client.finalize_logged_model(made, status)
        return made

    kept, _ = version()
    deleted, number = version()
    client.delete_model_version(model, str(number))  # the ledger may still name it
    digest = {Tag.DIGEST: "sha256:x"}
    lost = [upload(status, digest) for status in (None, "READY", "FAILED")]
    elsewhere = upload("READY", digest)
    client.create_registered_model(f"{model}-other")
    client.create_model_version(f"{model}-other", f"models:/{elsewhere}", model_id=elsewhere)
    # What is left where the server died before it said on the upload that it is a version.
    client.delete_logged_model_tag(elsewhere, "mlflow.modelVersions")
    foreign = upload(None, {})
    assert all(files_of(mlflow_home, m) for m in (kept, deleted, *lost, elsewhere, foreign))
    assert sorted(record.versions.sweep(model)) == sorted(lost)
    assert [files_of(mlflow_home, m) for m in lost] == [[], [], []]
    assert all(files_of(mlflow_home, m) for m in (kept, deleted, elsewhere, foreign))
    assert record.versions.sweep(model) == ()


def test_upload_is_gone_on_with_in_the_same_run(mlflow_uri: str, tmp_path: Path) -> None:
    model, client, record = new_model(), client_of(mlflow_uri), connect(mlflow_uri)
    given = checkpoint.inspect(checkpoints.make(tmp_path / "ck", seed=1))
    run = record.evidence.open(model, "register", {}, None)
    what = Registration(name="ck", run_id=run)
    gone = tmp_path / "ck" / given.manifest.files[-1].path
    content = gone.read_bytes()
    gone.unlink()
    with pytest.raises(RecordRefused, match="this machine"):
        record.versions.register(model, given, what)
    gone.write_bytes(content)
    made = record.versions.register(model, given, what)
    number = client.get_run(run).info.experiment_id
    assert [m.model_id for m in client.search_logged_models([number])] == [made.model_id]
