"""What is accepted as a checkpoint, and how each kind of bad one is refused."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from registry import checkpoint, listing
from registry.errors import CheckpointInvalid, RecordConflict
from registry.manifest import Manifest
from registry.prompt_file import MANIFEST_FILE
from tests.fakes import checkpoints


def test_valid_directory_is_described(tmp_path: Path) -> None:
    found = checkpoint.inspect(checkpoints.make(tmp_path / "ck"))
    assert found.architecture == "LlamaForCausalLM"
    assert found.parameters == 8 * 4 + 4 * 4
    assert found.weight_dtypes == ("F32",)
    assert found.scheme is None
    assert [f.path for f in found.manifest.files] == [
        "config.json", "model.safetensors", "prompt.json", "tokenizer.json",
    ]  # fmt: skip


def test_same_bytes_have_the_same_digest_wherever_they_lie(tmp_path: Path) -> None:
    first = checkpoint.inspect(checkpoints.make(tmp_path / "a"))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    assert checkpoint.inspect(tmp_path / "b").digest == first.digest


def test_prompt_template_is_part_of_the_digest(tmp_path: Path) -> None:
    first = checkpoint.inspect(
        checkpoints.make(tmp_path / "a", prompt=None),
        prompt_file=_prompt(tmp_path, "one.json", "Correct: {text}"),
    )
    second = checkpoint.inspect(
        tmp_path / "a", prompt_file=_prompt(tmp_path, "two.json", "Fix: {text}")
    )
    assert first.manifest.files == second.manifest.files
    assert first.digest != second.digest


def test_bookkeeping_of_an_earlier_registration_is_not_part_of_it(tmp_path: Path) -> None:
    directory = checkpoints.make(tmp_path / "ck")
    before = checkpoint.inspect(directory)
    (directory / MANIFEST_FILE).write_text(before.manifest.to_json())
    (directory / listing.MLMODEL_FILE).write_text("flavors: {}")
    assert checkpoint.inspect(directory).digest == before.digest


@pytest.mark.parametrize("name", ["pytorch_model.bin", "optimizer.pt", "x.pkl", "deep/y.ckpt"])
def test_pickle_formats_are_refused_by_name(tmp_path: Path, name: str) -> None:
    directory = checkpoints.make(tmp_path / "ck")
    (directory / name).parent.mkdir(exist_ok=True)
    (directory / name).write_bytes(b"x")
    with pytest.raises(CheckpointInvalid, match=name):
        checkpoint.inspect(directory)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_missing_parts_are_named(tmp_path: Path, name: str) -> None:
    directory = checkpoints.make(tmp_path / "ck")
    (directory / name).unlink()
    part = {"config.json": "config.json", "tokenizer.json": "tokenizer"}.get(name, "safetensors")
    with pytest.raises(CheckpointInvalid, match=part):
        checkpoint.inspect(directory)


def test_missing_prompt_says_how_to_give_one(tmp_path: Path) -> None:
    with pytest.raises(CheckpointInvalid, match="--prompt"):
        checkpoint.inspect(checkpoints.make(tmp_path / "ck", prompt=None))


@pytest.mark.parametrize(
    ("prompt", "told"),
    [
        ({"template": "no place", "max_tokens": 8}, "{text}"),
        ({"template": "{text}", "max_tokens": 0}, "max_tokens"),
        ({"template": "{text}", "max_tokens": "8"}, "max_tokens"),
        ({"template": "{text}", "max_tokens": True}, "max_tokens"),
        ({"template": "{text}"}, "max_tokens"),
        ({"template": "{text}", "max_tokens": 8, "stop": [""]}, "stop"),
        ({"template": "{text}", "max_tokens": 8, "temprature": 0}, "temprature"),
    ],
)
def test_bad_prompt_settings_are_named(
    tmp_path: Path, prompt: dict[str, object], told: str
) -> None:
    with pytest.raises(CheckpointInvalid, match=told):
        checkpoint.inspect(checkpoints.make(tmp_path / "ck", prompt=prompt))


def test_symlink_out_of_the_directory_is_refused(tmp_path: Path) -> None:
    directory = checkpoints.make(tmp_path / "ck")
    (tmp_path / "secret.json").write_text("{}")
    (directory / "extra.json").symlink_to(tmp_path / "secret.json")
    with pytest.raises(CheckpointInvalid, match="symbolic link out"):
        checkpoint.inspect(directory)


def test_symlinked_directory_is_refused_because_upload_would_skip_it(tmp_path: Path) -> None:
    directory = checkpoints.make(tmp_path / "ck")
    (directory / "real").mkdir()
    (directory / "real" / "a.txt").write_text("a")
    (directory / "linked").symlink_to(directory / "real", target_is_directory=True)
    with pytest.raises(CheckpointInvalid, match="symbolic link to a directory"):
        checkpoint.inspect(directory)


@pytest.mark.parametrize("keep", [0, 4, 20, -5])
def test_truncated_weights_are_refused(tmp_path: Path, keep: int) -> None:
    directory = checkpoints.make(tmp_path / "ck")
    weights = directory / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:keep])
    with pytest.raises(CheckpointInvalid, match=r"model\.safetensors"):
        checkpoint.inspect(directory)


def test_overlapping_tensors_are_refused(tmp_path: Path) -> None:
    directory = checkpoints.make(tmp_path / "ck")
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    header = {"a": entry, "b": {**entry, "data_offsets": [4, 12]}}
    checkpoints.write_safetensors(directory / "model.safetensors", header, b"\0" * 12)
    with pytest.raises(CheckpointInvalid, match="not a whole safetensors file"):
        checkpoint.inspect(directory)


def test_shards_need_an_index(tmp_path: Path) -> None:
    directory = checkpoints.make(tmp_path / "ck")
    save_file({"other": np.zeros(2, np.float32)}, directory / "model-2.safetensors")
    with pytest.raises(CheckpointInvalid, match=r"index\.json"):
        checkpoint.inspect(directory)


@pytest.mark.parametrize(
    ("weight_map", "told"),
    [
        ({"other": "model-2.safetensors"}, "leaves out"),
        ({"gone": "model.safetensors"}, "no shard holds"),
        ({"other": "model.safetensors"}, "wrong shard"),
    ],
)
def test_index_that_disagrees_with_the_shards_is_refused(
    tmp_path: Path, weight_map: dict[str, str], told: str
) -> None:
    directory = checkpoints.make(tmp_path / "ck")
    save_file({"other": np.zeros(2, np.float32)}, directory / "model-2.safetensors")
    names = {
        "model.embed_tokens.weight": "model.safetensors",
        "model.layers.0.mlp.up_proj.weight": "model.safetensors",
        "other": "model-2.safetensors",
    }
    if told == "leaves out":
        names.pop("model.embed_tokens.weight")
    index = {"weight_map": {**names, **weight_map}}
    (directory / checkpoint.INDEX_FILE).write_text(json.dumps(index))
    with pytest.raises(CheckpointInvalid, match=told):
        checkpoint.inspect(directory)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200))
def test_any_bytes_as_weights_are_refused_without_a_crash(tmp_path: Path, data: bytes) -> None:
    directory = checkpoints.make(tmp_path / "ck")
    (directory / "model.safetensors").write_bytes(data)
    with pytest.raises(CheckpointInvalid):
        checkpoint.inspect(directory)


def test_verify_files_notices_one_changed_byte(tmp_path: Path) -> None:
    directory = checkpoints.make(tmp_path / "ck")
    manifest = checkpoint.inspect(directory).manifest
    checkpoint.verify_files(directory, manifest)
    weights = directory / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(RecordConflict, match="differs from its manifest"):
        checkpoint.verify_files(directory, manifest)


def test_manifest_survives_storage(tmp_path: Path) -> None:
    manifest = checkpoint.inspect(checkpoints.make(tmp_path / "ck")).manifest
    assert Manifest.from_json(manifest.to_json()) == manifest


def test_edited_manifest_is_refused(tmp_path: Path) -> None:
    manifest = checkpoint.inspect(checkpoints.make(tmp_path / "ck")).manifest
    edited = json.loads(manifest.to_json())
    edited["generation"]["temperature"] = 1.0
    with pytest.raises(ValueError, match="edited"):
        Manifest.from_json(json.dumps(edited))


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", "", "a//b", "./a", "a\\\\b"])
def test_manifest_path_out_of_the_directory_is_refused(tmp_path: Path, path: str) -> None:
    manifest = checkpoint.inspect(checkpoints.make(tmp_path / "ck")).manifest
    edited = json.loads(manifest.to_json())
    edited["files"][0]["path"] = path
    with pytest.raises(ValueError, match="does not stay in the checkpoint"):
        Manifest.from_json(json.dumps(edited))


def test_digest_does_not_depend_on_file_order(tmp_path: Path) -> None:
    manifest = checkpoint.inspect(checkpoints.make(tmp_path / "ck")).manifest
    turned = dataclasses.replace(manifest, files=tuple(reversed(manifest.files)))
    assert turned.digest == manifest.digest


def _prompt(folder: Path, name: str, template: str) -> Path:
    path = folder / name
    path.write_text(json.dumps({"template": template, "max_tokens": 8}))
    return path


def test_every_message_in_the_documentation_is_one_that_is_given() -> None:
    root = Path(__file__).resolve().parents[2]
    page = (root / "docs" / "checkpoints.md").read_text(encoding="utf-8")
    table = page.split("## What is refused")[1].split("\n\nWhere no vLLM")[0]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("|")]
    quoted = [text for row in rows for text in re.findall(r"`([^`]+)`", row[-2])]
    code = "".join(
        re.sub(r'"\s+f?"', "", path.read_text(encoding="utf-8"))
        for path in sorted((root / "registry").glob("*.py"))
    )
    assert len(quoted) > 40
    assert [text for text in quoted if text not in code] == []


def test_every_suffix_in_the_documentation_is_refused() -> None:
    root = Path(__file__).resolve().parents[2]
    page = (root / "docs" / "checkpoints.md").read_text(encoding="utf-8")
    (told,) = (line for line in page.splitlines() if "formats that can run code" in line)
    assert set(re.findall(r"\.[a-z0-9]+", told.split("|")[1])) == listing.RUNS_CODE
