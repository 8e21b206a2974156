"""Turns errors into a message and an exit code; nobody is shown a traceback."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import click

from evals.errors import DataDirInvalid, EvalError, PolicyInvalid, SuiteInvalid
from jobs.errors import JobError, UsageError
from jobs.exits import Exit
from pipelines.errors import (
    ConfigInvalid,
    NothingToServe,
    NotNow,
    PipelineError,
    RolloutReverted,
)
from registry import disk
from registry.errors import CheckpointInvalid, RegistryError
from registry.wording import one_line, shown
from serving.client import ClientError
from serving.errors import NoSuchKey, ServingError, StaleEpoch

ASKED_WRONG = (
    UsageError,
    ConfigInvalid,
    CheckpointInvalid,
    SuiteInvalid,
    PolicyInvalid,
    DataDirInvalid,
    NothingToServe,
    NoSuchKey,
)
BROKE = (JobError, PipelineError, RegistryError, EvalError, ServingError, ClientError)
STOP_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def fail(error: Exception | str, code: Exit) -> NoReturn:
    """Says what is wrong on stderr and exits."""
    lines = str(error).replace("\t", " ").split("\n")
    click.echo("liftlock: " + "\n".join(one_line(line) for line in lines), err=True)
    sys.exit(code)


def guarded(call: Callable[[], None]) -> None:
    """Runs a command's body."""
    try:
        with _stops_cleanly():
            call()
    except ASKED_WRONG as exc:
        fail(exc, Exit.USAGE)
    except (NotNow, StaleEpoch) as exc:
        fail(exc, Exit.BUSY)
    except RolloutReverted as exc:
        fail(exc, Exit.ROLLED_BACK)
    except BROKE as exc:
        fail(exc, Exit.FAULT)
    except BrokenPipeError:
        # Whoever read our output has left (`| head`); Python must not try to flush it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(Exit.FAULT)
    except KeyboardInterrupt:
        fail("interrupted; the same command goes on where this one stopped", Exit.FAULT)
    except MemoryError:
        fail("ran out of memory; free some and run the same command again", Exit.FAULT)
    except OSError as exc:
        fail(_of_the_system(exc), Exit.FAULT)
    except Exception as exc:  # the last boundary: what nobody foresaw is kept for whoever mends it
        kept = _keep(exc)
        fail(f"unexpected {type(exc).__name__}: {exc} (details: {kept})", Exit.FAULT)


@contextlib.contextmanager
def _stops_cleanly() -> Iterator[None]:
    """A terminal that closes or a job that is ended unwinds like Ctrl-C does."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    try:
        before = {number: signal.signal(number, interrupt) for number in STOP_SIGNALS}
    except ValueError:  # not the main thread: signals are somebody else's
        before = {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _of_the_system(error: OSError) -> str:
    """A file or a connection that the system refused, where nobody could say more of it."""
    where = shown(str(error.filename)) if error.filename else ""
    if disk.is_full(error):
        folder = Path(os.fsdecode(error.filename)).parent if error.filename else Path.cwd()
        return disk.out_of_space(error, f"writing {where or 'a file'}", folder)
    if where:
        return f"cannot use {where}: {error.strerror}; mend that and run the same command again"
    return f"unexpected {type(error).__name__}: {error} (details: {_keep(error)})"


def _keep(error: BaseException) -> str:
    try:
        handle, name = tempfile.mkstemp(prefix="liftlock-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write("".join(traceback.format_exception(error)))
    except OSError as exc:
        return f"could not be kept, {exc.strerror}"
    return name
