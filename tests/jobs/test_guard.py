"""Every error becomes a message and a code; what nobody foresaw is kept in a file."""

from __future__ import annotations

import errno
import os
import re
import signal
from pathlib import Path

import pytest

from jobs.errors import StackError, UsageError
from jobs.exits import Exit
from jobs.guard import guarded
from pipelines.errors import ConfigInvalid, NothingToServe, RolloutReverted, StageFailed
from registry.errors import (
    CheckpointInvalid,
    NotFound,
    OutOfSpace,
    RecordConflict,
    RecordUnavailable,
)
from serving.client import ServerFault
from serving.errors import DeploymentFailed, EdgeError


def code_of(error: BaseException) -> int:
    def body() -> None:
        raise error

    with pytest.raises(SystemExit) as ended:
        guarded(body)
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), Exit.USAGE),
        (ConfigInvalid("x"), Exit.USAGE),
        (CheckpointInvalid("x"), Exit.USAGE),
        (NothingToServe("x"), Exit.USAGE),
        (RolloutReverted("x"), Exit.ROLLED_BACK),
        (StageFailed("x"), Exit.FAULT),
        (NotFound("x"), Exit.FAULT),
        (RecordConflict("x"), Exit.FAULT),
        (RecordUnavailable("x"), Exit.FAULT),
        (DeploymentFailed("x"), Exit.FAULT),
        (EdgeError("x"), Exit.FAULT),
        (StackError("x"), Exit.FAULT),
        (ServerFault("x", request_id="r"), Exit.FAULT),
        (KeyboardInterrupt(), Exit.FAULT),
        (OutOfSpace("x"), Exit.FAULT),
        (MemoryError(), Exit.FAULT),
        (OSError(errno.ENOSPC, "No space left on device"), Exit.FAULT),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), Exit.FAULT),
    ],
)
def test_codes(error: BaseException, code: Exit) -> None:
    assert code_of(error) == code


def test_unforeseen_error_is_a_fault_whose_details_are_kept(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert code_of(ZeroDivisionError("by nought")) == Exit.FAULT
    told = capsys.readouterr().err
    assert "unexpected ZeroDivisionError: by nought" in told
    assert "Traceback" not in told
    kept = re.search(r"details: (\S+)\)", told)
    assert kept is not None
    assert "Traceback" in Path(kept[1]).read_text()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "No space left", "/x/y"), "disk ran full while writing '/x/y'"),
        (OSError(errno.ENOSPC, "No space left"), "disk ran full while writing a file"),
        (OSError(errno.EDQUOT, "Disk quota exceeded", b"/x/y"), "disk ran full while writing"),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), "cannot use '/x': Permission"),
        (OSError(errno.EROFS, "Read-only file system", "/x"), "cannot use '/x': Read-only"),
        (MemoryError(), "ran out of memory"),
    ],
)
def test_what_the_system_refuses_is_told_without_a_traceback(
    capsys: pytest.CaptureFixture[str], error: BaseException, told: str
) -> None:
    assert code_of(error) == Exit.FAULT
    said = capsys.readouterr().err
    assert told in said
    assert "details" not in said


def test_a_message_cannot_forge_lines_or_drive_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code_of(CheckpointInvalid("a\x1b[2J\rliftlock: promoted\u202e\ttab\nsecond line"))
    assert capsys.readouterr().err == "liftlock: a?[2J?liftlock: promoted? tab\nsecond line\n"


def test_details_that_cannot_be_kept_do_not_hide_the_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**more: object) -> tuple[int, str]:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.mkstemp", full)
    assert code_of(ZeroDivisionError("by nought")) == Exit.FAULT
    said = capsys.readouterr().err
    assert "unexpected ZeroDivisionError: by nought" in said
    assert "could not be kept, No space left on device" in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_being_ended_unwinds_like_ctrl_c(
    capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    unwound: list[str] = []
    before = signal.getsignal(number)

    def body() -> None:
        try:
            os.kill(os.getpid(), number)
            signal.pause()
        finally:
            unwound.append("traffic put back")

    with pytest.raises(SystemExit) as ended:
        guarded(body)
    assert ended.value.code == Exit.FAULT
    assert unwound == ["traffic put back"]
    assert "goes on where this one stopped" in capsys.readouterr().err
    assert signal.getsignal(number) is before
