"""Turns our errors into a message and an exit code, never a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NoReturn

import click

from evals.errors import EvalError, SuiteInvalid
from jobs.errors import JobError, UsageError
from jobs.exits import Exit
from pipelines.errors import ConfigInvalid, PipelineError, RolloutReverted
from registry.errors import CheckpointInvalid, NotFound, RegistryError
from serving.errors import ServingError

ASKED_WRONG = (UsageError, ConfigInvalid, CheckpointInvalid, SuiteInvalid, NotFound)
BROKE = (JobError, PipelineError, RegistryError, EvalError, ServingError, OSError)


def fail(error: Exception | str, code: Exit) -> NoReturn:
    """Says what is wrong on stderr and exits."""
    click.echo(f"liftlock: {error}", err=True)
    sys.exit(code)


def guarded(call: Callable[[], None]) -> None:
    """Runs a command's body."""
    try:
        call()
    except ASKED_WRONG as exc:
        fail(exc, Exit.USAGE)
    except RolloutReverted as exc:
        fail(exc, Exit.ROLLED_BACK)
    except BROKE as exc:
        fail(exc, Exit.FAULT)
    except KeyboardInterrupt:
        fail("interrupted; the same command goes on where this one stopped", Exit.FAULT)
