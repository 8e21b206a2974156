"""`python -m pipelines.child PARENT_PID MODULE ARGS…`: runs a worker that ends with its parent.

A command that is killed outright cannot stop its workers; Linux does it for us, if the worker asks.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main() -> None:
    """Asks, and becomes the module."""
    parent, module = int(sys.argv[1]), sys.argv[2]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was over before we asked
        sys.exit(1)
    sys.argv = sys.argv[2:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
