"""A replica's spec refuses what cannot be served, and finds the checkpoint's files."""

from __future__ import annotations

import hashlib
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from registry.errors import CheckpointInvalid, RecordConflict
from registry.manifest import FileEntry, Generation, Manifest, Prompt
from serving.engine.spec import Listing, ReplicaSpec, local_checkpoint

CONTENT = b"weights"
MANIFEST = Manifest(
    files=(
        FileEntry(
            path="model.safetensors",
            size_bytes=len(CONTENT),
            sha256=hashlib.sha256(CONTENT).hexdigest(),
        ),
    ),
    prompt=Prompt(template="{text}\n"),
    generation=Generation(max_tokens=8),
)


def spec(**changes: Any) -> ReplicaSpec:
    known: dict[str, Any] = {
        "model": "grammar", "version": 1, "digest": MANIFEST.digest,
        "manifest_json": MANIFEST.to_json(), "checkpoint_dir": "",
    }  # fmt: skip
    return ReplicaSpec(**{**known, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"digest": "sha256:0"}, "digest must be the manifest's"),
        ({"heartbeat_s": 0}, "heartbeat_s must be above 0, got 0"),
        ({"quiet_s": -1}, "quiet_s must be at least 0, got -1"),
        ({"port": 65_536}, r"port must be 0\.\.65535, got 65536"),
        (
            {"listing": Listing.PROBES, "settle_s": 10.0},
            r"settle_s must be above 0 and below release_timeout_s \(10\.0\), got 10\.0",
        ),
        ({"front_ends": 0}, "front_ends must be 1..64, got 0"),
        ({"tracking_uri": "http://x"}, "cache_dir must be given with tracking_uri"),
        ({"manifest_json": "{}"}, "not a liftlock manifest"),
    ],
)
def test_a_bad_spec_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        spec(**changes)


def test_a_spec_survives_the_way_to_a_worker() -> None:
    assert pickle.loads(pickle.dumps(spec())) == spec()


def test_files_on_the_node_are_used_when_they_match(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(CONTENT)
    assert local_checkpoint(spec(checkpoint_dir=str(tmp_path))) == tmp_path


def test_files_that_differ_from_the_manifest_are_not_loaded(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"w3ights")
    with pytest.raises(RecordConflict, match="differs from its manifest"):
        local_checkpoint(spec(checkpoint_dir=str(tmp_path)))


def test_files_that_are_nowhere_are_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointInvalid, match="not on this node and no record was given"):
        local_checkpoint(spec(checkpoint_dir=str(tmp_path / "absent")))


def test_a_shutdown_is_given_the_time_its_steps_may_take() -> None:
    one = spec()
    longer = replace(one, drain_timeout_s=one.drain_timeout_s + 100.0)
    assert longer.shutdown_timeout_s == pytest.approx(one.shutdown_timeout_s + 100.0)
    assert one.shutdown_timeout_s > one.release_timeout_s + one.drain_timeout_s + one.quiet_s
