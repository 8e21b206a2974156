"""A worker that breaks in the way it is asked to."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.errors import StageFailed
from pipelines.worker import main_of


def body(request: Mapping[str, Any], out: Path) -> None:
    print("progress one of two", flush=True)
    if request["how"] == "error":
        raise StageFailed("the moon is not in phase")
    if request["how"] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if request["how"] == "orphan":  # as an engine's core process would be
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        os.kill(os.getpid(), signal.SIGKILL)
    if request["how"] == "sleep":
        time.sleep(60)
    if request["how"] == "memory":
        raise MemoryError
    if request["how"] == "allocate":
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        bytearray(2 << 30)
    if request["how"] == "full disk":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(out / "weights"))
    if request["how"] == "abort":
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.abort()
    raise ValueError("unforeseen")


if __name__ == "__main__":
    main_of(body)
