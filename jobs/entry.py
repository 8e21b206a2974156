"""Where the `liftlock` command begins: Ctrl-C is quiet even while the rest is still being read."""

from __future__ import annotations

import sys


def main() -> None:
    """Reads and runs the command line."""
    try:
        from jobs.cli import main as command_line

        command_line(prog_name="liftlock")
    except KeyboardInterrupt:
        print("liftlock: interrupted", file=sys.stderr)
        sys.exit(1)
