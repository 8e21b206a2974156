"""The cache holds exactly what a manifest lists, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from registry import cache, checkpoint
from registry.errors import RecordConflict
from registry.model import ModelVersion
from tests.fakes import checkpoints


class Serving:
    """A store that gives the files of a directory, after a change of the test's."""

    def __init__(self, source: Path, change: Callable[[Path], None]) -> None:
        self._source = source
        self._change = change

    def download(self, version: ModelVersion, target: Path) -> None:
        for path in self._source.iterdir():
            (target / path.name).write_bytes(path.read_bytes())
        self._change(target)


def version_of(directory: Path) -> ModelVersion:
    manifest = checkpoint.inspect(directory).manifest
    return ModelVersion(
        model="m", version=1, digest=manifest.digest, source="models:/m-1", model_id=None,
        manifest=manifest,
    )  # fmt: skip


def fetch(directory: Path, folder: Path, change: Callable[[Path], None]) -> Path:
    return cache.fetch(Serving(directory, change), version_of(directory), folder)  # type: ignore[arg-type]


def test_files_that_the_manifest_does_not_list_are_left_out(
    tmp_path: Path, checkpoint_dir: Path
) -> None:
    def add(target: Path) -> None:
        (target / "model-00002.safetensors").write_bytes(b"stray shard")
        (target / "deep").mkdir()
        (target / "deep" / "pytorch_model.bin").write_bytes(b"pickle")
        (target / "link.json").symlink_to("/etc/hostname")

    found = fetch(checkpoint_dir, tmp_path / "cache", add)
    listed = {f.path for f in version_of(checkpoint_dir).manifest.files}
    assert {p.name for p in found.iterdir()} == listed | {"liftlock-manifest.json"}


def test_missing_or_changed_files_are_refused_and_nothing_is_kept(
    tmp_path: Path, checkpoint_dir: Path
) -> None:
    changes: tuple[Callable[[Path], object], ...] = (
        lambda target: (target / "config.json").unlink(),
        lambda target: (target / "config.json").write_text("{}"),
    )
    for change in changes:
        with pytest.raises(RecordConflict, match=r"config\.json"):
            fetch(checkpoint_dir, tmp_path / "cache", change)  # type: ignore[arg-type]
        assert list((tmp_path / "cache").iterdir()) == []


def test_checkpoint_with_a_prompt_given_by_hand_is_the_same_from_the_cache(tmp_path: Path) -> None:
    directory = checkpoints.make(tmp_path / "ck", prompt=None)
    prompt = tmp_path / "given.json"
    prompt.write_text('{"template": "Correct: {text}", "max_tokens": 8}')
    given = checkpoint.inspect(directory, prompt_file=prompt)
    cached = cache.adopt(given.manifest, directory, tmp_path / "cache")
    assert checkpoint.inspect(cached).digest == given.digest
