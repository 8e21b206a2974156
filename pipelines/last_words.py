"""What a worker process died of, in a sentence for people: from how it ended and what it said last.

The one idea: a kill, an allocator's message and an engine's traceback mean the same to whoever
started the promotion, and the same knob is to be turned. What a worker says of itself on purpose
wins over all guesses.
"""

from __future__ import annotations

import errno
import os
import re
import signal
from collections.abc import Sequence

from registry import engine_memory

OWN_WORDS = "error: "
DISK = re.compile(
    "|".join(re.escape(os.strerror(n)) for n in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
)
ENGINES = ("evals.harness",)
OTHER_KNOBS = "free memory, or run it on a machine with more; it holds the whole model"


def told(module: str, code: int, last: Sequence[str]) -> str:
    """Why a worker failed.

    Args:
        module: what ran.
        code: its exit code; negative for the signal that ended it, as subprocess gives it.
        last: its last lines of output, oldest first.
    """
    own = [line.removeprefix(OWN_WORDS) for line in last if line.startswith(OWN_WORDS)]
    if own:
        return own[-1]
    killed = code in (-signal.SIGKILL, 128 + signal.SIGKILL)
    said = next((line for line in reversed(last) if engine_memory.says(line)), None)
    if killed or said is not None:
        return _memory(module, said)
    full = next((line for line in reversed(last) if DISK.search(line)), None)
    if full is not None:
        return (
            f"the disk ran full in {module}: {full.strip()}; free some or choose another --home, "
            "then run the same command again"
        )
    tail = next((line for line in reversed(last) if line.strip()), "no output")
    return f"{module} {_ended(code)}: {tail} (its log is on the stage's run in MLflow)"


def _memory(module: str, said: str | None) -> str:
    why = said.strip() if said is not None else "it was killed, most likely for memory"
    if module in ENGINES:
        return f"{engine_memory.told(why)}, then run the same command again"
    return f"{module} ran out of memory ({why}); {OTHER_KNOBS}, then run the same command again"


def _ended(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"crashed with {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
