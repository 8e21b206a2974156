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

from evals.errors import EvalError, SuiteInvalid
from jobs.errors import JobError, UsageError
from jobs.exits import Exit
from pipelines.errors import ConfigInvalid, NothingToServe, PipelineError, RolloutReverted
from registry.errors import CheckpointInvalid, RegistryError
from serving.client import ClientError
from serving.errors import ServingError

ASKED_WRONG = (UsageError, ConfigInvalid, CheckpointInvalid, SuiteInvalid, NothingToServe)
BROKE = (JobError, PipelineError, RegistryError, EvalError, ServingError, ClientError)
STOP_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def fail(error: Exception | str, code: Exit) -> NoReturn:
    """Says what is wrong on stderr and exits."""
    click.echo(f"liftlock: {error}", err=True)
    sys.exit(code)


def guarded(call: Callable[[], None]) -> None:
    """Runs a command's body."""
    try:
        with _stops_cleanly():
            call()
    except ASKED_WRONG as exc:
        fail(exc, Exit.USAGE)
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


def _keep(error: BaseException) -> Path:
    handle, name = tempfile.mkstemp(prefix="liftlock-", suffix=".txt")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write("".join(traceback.format_exception(error)))
    return Path(name)
