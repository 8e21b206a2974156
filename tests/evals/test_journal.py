"""Answers survive the death of whoever wrote them, and never answer another question."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from evals.errors import EvaluationFailed
from evals.journal import SYNC_EVERY_S, Journal, Key, Owner
from evals.model import Answer

OWNER = Owner(suite_digest="s", checkpoint_digest="c", runtime_digest="r")
TEXT = Answer(finish_reason="stop", text="Ünïcode\u2028\n\x85", prompt_tokens=3, output_tokens=2)
LIKELY = Answer(finish_reason="stop", logprob=-12.062500001, prompt_tokens=4)


def filled(path: Path) -> Path:
    with Journal(path, OWNER) as journal:
        journal.add(Key("a", 0), TEXT)
        journal.add(Key("a", 1), LIKELY)
    return path


def answers(path: Path, owner: Owner = OWNER) -> dict[Key, Answer]:
    with Journal(path, owner) as journal:
        return dict(journal.answers)


def test_answers_come_back_exactly(tmp_path: Path) -> None:
    path = filled(tmp_path / "new" / "answers.jsonl")
    assert answers(path) == {Key("a", 0): TEXT, Key("a", 1): LIKELY}


@pytest.mark.parametrize(
    "owner",
    [
        Owner(suite_digest="x", checkpoint_digest="c", runtime_digest="r"),
        Owner(suite_digest="s", checkpoint_digest="x", runtime_digest="r"),
        Owner(suite_digest="s", checkpoint_digest="c", runtime_digest="x"),
    ],
)
def test_answers_of_something_else_are_thrown_away(tmp_path: Path, owner: Owner) -> None:
    path = filled(tmp_path / "answers.jsonl")
    assert answers(path, owner) == {}
    assert answers(path, OWNER) == {}


def test_a_torn_file_is_gone_on_with_after_its_last_whole_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # two hundred times over
    whole = filled(tmp_path / "answers.jsonl").read_bytes()
    header = whole.index(b"\n") + 1
    first = whole.index(b"\n", header) + 1
    for cut in range(len(whole)):
        path = tmp_path / "torn.jsonl"
        path.write_bytes(whole[:cut])
        kept = answers(path)
        assert len(kept) == (cut >= first)
        with Journal(path, OWNER) as journal:
            journal.add(Key("b", 0), TEXT)
        assert answers(path) == {**kept, Key("b", 0): TEXT}


@pytest.mark.parametrize("line", [b"[]\n", b'{"example_id": "z"}\n', b'{"x": 1}\n', b"\xff\n"])
def test_a_line_that_is_no_answer_ends_what_is_trusted(tmp_path: Path, line: bytes) -> None:
    path = filled(tmp_path / "answers.jsonl")
    path.write_bytes(path.read_bytes() + line)
    assert len(answers(path)) == 2
    assert path.read_bytes().endswith(b"\n")
    assert line not in path.read_bytes()


def test_two_commands_do_not_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    with (
        Journal(path, OWNER),
        pytest.raises(EvaluationFailed, match="choose another --out"),
        Journal(path, OWNER),
    ):
        pass


def test_the_disk_is_synced_at_intervals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    now_s = 0.0
    with Journal(tmp_path / "answers.jsonl", OWNER, clock_s=lambda: now_s) as journal:
        for number in range(10):
            journal.add(Key(str(number), 0), TEXT)
        assert len(synced) == 1
        now_s = SYNC_EVERY_S
        journal.add(Key("x", 0), TEXT)
        assert len(synced) == 2
    assert len(synced) == 3


def test_adding_to_a_closed_journal_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not open"):
        Journal(tmp_path / "answers.jsonl", OWNER).add(Key("a", 0), TEXT)


KILLED = """
import os, signal, sys
from pathlib import Path
from evals.journal import Journal, Key, Owner
from evals.model import Answer
owner = Owner(suite_digest="s", checkpoint_digest="c", runtime_digest="r")
with Journal(Path(sys.argv[1]), owner) as journal:
    for number in range(1000):
        journal.add(Key(str(number), 0), Answer(finish_reason="stop", text="x"))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_answered_before_a_kill_is_there_after_it(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(answers(path)) == 1000
