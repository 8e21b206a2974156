"""Every error becomes a message and a code; what nobody foresaw is kept in a file."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from jobs.errors import StackError, UsageError
from jobs.exits import Exit
from jobs.guard import guarded
from pipelines.errors import ConfigInvalid, NothingToServe, RolloutReverted, StageFailed
from registry.errors import CheckpointInvalid, NotFound, RecordConflict, RecordUnavailable
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
