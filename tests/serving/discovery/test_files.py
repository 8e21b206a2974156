"""A file is replaced whole or not at all, and a full disk leaves no part of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from serving.discovery import files, traffic
from serving.edge import control, home
from serving.errors import EdgeError
from tests.fakes.full_disk import writing_fails


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_replaced(tmp_path: Path, durable: bool) -> None:
    for content in (b"old", b"new"):
        files.write_atomic(tmp_path / "a", content, durable=durable)
    assert (tmp_path / "a").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("broken", ["open", "write", "replace"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool, broken: str
) -> None:
    files.write_atomic(tmp_path / "a", b"old", durable=durable)

    def full(*args: object, **more: object) -> None:
        raise OSError(28, os.strerror(28))

    def half(path: Path, data: bytes, *, durable: bool) -> None:
        path.write_bytes(data[:1])
        full()

    with monkeypatch.context() as patch:
        if broken == "replace":
            patch.setattr("os.replace", full)
        elif broken == "write":
            patch.setattr(files, "_write", half)
        else:
            patch.setattr(files, "_write", full)
        with pytest.raises(EdgeError, match=r"/a could not be written \(No space left on device\)"):
            files.write_atomic(tmp_path / "a", b"new", durable=durable)
    assert (tmp_path / "a").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_traffic_that_cannot_be_written_is_an_error_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control.claim_model(tmp_path, "grammar", epoch=1, owner="me")
    before = control.set_model_traffic(tmp_path, traffic.whole("grammar", 1), epoch=1)
    root = home.EdgeHome.of(tmp_path).root
    listed = sorted(os.listdir(root))
    with (
        writing_fails(monkeypatch, under=root, after_files=1),  # the lock, which exists
        pytest.raises(EdgeError, match=r"traffic\.json could not be written"),
    ):
        control.set_model_traffic(tmp_path, traffic.whole("grammar", 2), epoch=1)
    assert control.current_traffic(tmp_path) == before
    assert sorted(os.listdir(root)) == listed
