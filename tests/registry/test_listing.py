"""A checkpoint directory is a set of plain files; everything else in it is refused by name."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from registry import checkpoint, listing, tensor_file
from registry.errors import CheckpointInvalid
from registry.manifest import Manifest


def add(name: str | bytes) -> Callable[[Path], None]:
    def change(directory: Path) -> None:
        path = os.fsencode(directory) + b"/" + (name if isinstance(name, bytes) else name.encode())
        with open(path, "w") as handle:
            handle.write("x")

    return change


def fifo(directory: Path) -> None:
    os.mkfifo(directory / "pipe.json")


def weights_are_a_fifo(directory: Path) -> None:
    (directory / "model.safetensors").unlink()
    os.mkfifo(directory / "model.safetensors")


def listening(directory: Path) -> None:
    # Paths of sockets must be short, those of test folders are not.
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{short}/s")
        os.rename(f"{short}/s", directory / "s")


def link(name: str, to: str) -> Callable[[Path], None]:
    return lambda directory: (directory / name).symlink_to(to)


def link_to_folder(directory: Path) -> None:
    (directory / "real").mkdir()
    (directory / "real" / "a.txt").write_text("a")
    (directory / "linked").symlink_to(directory / "real")


def large(directory: Path) -> None:
    with (directory / "model.gguf").open("wb") as handle:
        handle.truncate(listing.MAX_OTHER_BYTES + 1)  # sparse


def many(directory: Path) -> None:
    for number in range(listing.MAX_FILES):
        (directory / f"{number}.txt").touch()


def colliding(directory: Path) -> None:
    (directory / "Merges.txt").touch()
    (directory / "merges.txt").touch()


def composed(directory: Path) -> None:
    (directory / "e\u0301.txt").touch()
    (directory / "\u00e9.txt").touch()


def empty(directory: Path) -> None:
    for path in directory.iterdir():
        path.unlink()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (fifo, "neither a file nor a directory"),
        (weights_are_a_fifo, "neither a file nor a directory"),
        (listening, "neither a file nor a directory"),
        (link("passwd.json", "/etc/passwd"), "symbolic link out of the checkpoint"),
        (link("up.json", "../../etc/passwd"), "symbolic link out of the checkpoint"),
        (link("zero.json", "/dev/zero"), "symbolic link out of the checkpoint"),
        (link("gone.json", "absent"), "cannot be read"),
        (link("round.json", "round.json"), "cannot be read"),
        (link_to_folder, "symbolic link to a directory"),
        (add("a\nb.txt"), r"'.*a\\nb\.txt' cannot be kept under its name"),
        (add("a\x1b[2Jb.txt"), r"a\\x1b\[2Jb"),
        (add("\u202etxt.exe"), "cannot be printed"),
        (add(b"\xff.txt"), r"\\udcff\.txt.*cannot be printed"),
        (add("back\\slash"), "does not stay in the checkpoint"),
        (add("modeling_llama.py"), "can run code"),
        (add("pytorch_model.BIN"), "can run code"),
        (add("consolidated.00.pth"), "can run code"),
        (large, "is no safetensors file; at most 1.0 GiB"),
        (colliding, "same file where upper and lower case are"),
        (composed, "same file"),
        (empty, "is missing; give the folder"),
    ],
)
def test_what_cannot_be_kept_is_refused(
    checkpoint_dir: Path, change: Callable[[Path], None], told: str
) -> None:
    change(checkpoint_dir)
    with pytest.raises(CheckpointInvalid, match=told) as refused:
        checkpoint.inspect(checkpoint_dir)
    assert str(refused.value).isprintable()


def test_a_home_directory_given_by_mistake_is_told_soon(
    checkpoint_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MAX_FILES", 20)
    many(checkpoint_dir)
    with pytest.raises(CheckpointInvalid, match="more than 20 files"):
        checkpoint.inspect(checkpoint_dir)


def test_files_links_and_folders_inside_are_accepted(checkpoint_dir: Path) -> None:
    (checkpoint_dir / "docs").mkdir()
    (checkpoint_dir / "docs" / "模型 card é.md").write_text("x")
    (checkpoint_dir / "LICENSE").symlink_to("docs/模型 card é.md")
    (checkpoint_dir / ".git").mkdir()
    (checkpoint_dir / ".git" / "x.py").write_text("hidden, so not part of it")
    found = {f.path for f in checkpoint.inspect(checkpoint_dir).manifest.files}
    assert {"LICENSE", "docs/模型 card é.md"} < found
    assert not any("git" in path for path in found)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("absent", "does not exist"),
        ("ck/config.json", "is not a directory"),
        ("x" * 5000, "cannot be read"),
        ("nul", "config.json"),
    ],
)
def test_what_is_no_checkpoint_directory_is_told(
    tmp_path: Path, checkpoint_dir: Path, given: str, told: str
) -> None:
    (tmp_path / "nul").mkdir()
    with pytest.raises(CheckpointInvalid, match=told):
        checkpoint.inspect(tmp_path / given)


def test_a_directory_whose_name_cannot_be_printed_is_refused(checkpoint_dir: Path) -> None:
    renamed = checkpoint_dir.rename(checkpoint_dir.with_name("ck\n2"))
    with pytest.raises(CheckpointInvalid, match=r"name 'ck\\n2' holds"):
        checkpoint.inspect(renamed)


def test_an_unreadable_folder_is_an_error_and_not_left_out(
    checkpoint_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkpoint_dir / "closed").mkdir()
    real = os.scandir

    def denied(path: str) -> object:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr("os.scandir", denied)
    with pytest.raises(CheckpointInvalid, match=r"closed' cannot be read \(Permission denied\)"):
        checkpoint.inspect(checkpoint_dir)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "prompt.json", "README.md"])
def test_an_unreadable_file_is_named(
    checkpoint_dir: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (checkpoint_dir / "README.md").write_text("x")
    real = os.open

    def denied(path: object, *args: int) -> int:
        if str(path).endswith(name):
            raise PermissionError(13, "Permission denied")
        return real(path, *args)  # type: ignore[call-overload]

    monkeypatch.setattr("os.open", denied)
    with pytest.raises(CheckpointInvalid, match=rf"{name}.* cannot be opened: Permission denied"):
        checkpoint.inspect(checkpoint_dir)


def write(directory: Path) -> None:
    (directory / "config.json").write_text((directory / "config.json").read_text())


def grow(directory: Path) -> None:
    (directory / "late.txt").touch()


def shrink(directory: Path) -> None:
    (directory / "notes.md").unlink()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (write, r"'config\.json' in .* changed while"),
        (grow, r"'late\.txt' in .* changed while"),
        (shrink, r"notes\.md does not exist"),
    ],
)
def test_a_directory_that_changes_meanwhile_is_refused(
    checkpoint_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path], None],
    told: str,
) -> None:
    (checkpoint_dir / "notes.md").touch()
    real = tensor_file.read_values

    def meanwhile(path: Path, header: tensor_file.Header) -> tuple[str, int]:
        change(checkpoint_dir)
        return real(path, header)

    monkeypatch.setattr(tensor_file, "read_values", meanwhile)
    with pytest.raises(CheckpointInvalid, match=told) as refused:
        checkpoint.inspect(checkpoint_dir)
    assert "wait until" in str(refused.value)


def test_listing_changes_nothing(checkpoint_dir: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in (checkpoint_dir, *checkpoint_dir.iterdir())}
    manifest = checkpoint.inspect(checkpoint_dir).manifest
    assert {p: p.stat().st_mtime_ns for p in (checkpoint_dir, *checkpoint_dir.iterdir())} == before
    assert Manifest.from_json(manifest.to_json()) == manifest
