"""A process is told from a later one of its id, and a set clock changes nothing."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

import pytest

from registry import processes


def test_this_process_lives_and_others_of_its_id_do_not() -> None:
    me = processes.started(os.getpid())
    assert me is not None
    assert me.alive()
    assert not dataclasses.replace(me, ticks=me.ticks + 1).alive()
    assert not dataclasses.replace(me, boot="another").alive()


def test_one_that_has_ended_is_gone_even_before_it_is_reaped() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        found = processes.started(child.pid)
        assert found is not None
        assert found.alive()
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, not reaped
        assert not found.alive()
    assert processes.started(child.pid) is None


def test_a_clock_that_is_set_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    me = processes.started(os.getpid())
    assert me is not None
    monkeypatch.setattr("time.time", lambda: 0.0)
    monkeypatch.setattr("psutil.boot_time", lambda: 0.0)
    monkeypatch.setattr("psutil._pslinux.boot_time", lambda: 0.0)
    assert me.alive()
