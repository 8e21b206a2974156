"""Keeps some groups of lines of a large file, the same ones everywhere."""

from __future__ import annotations

import random

from evals.suite_definition import Thinning


def thin(data: bytes, options: Thinning) -> bytes:
    """The first groups of lines of the file after a seeded shuffle; each line ends in a newline.

    Blank lines are dropped. The result is checked by sha256, so it does not matter here that
    another Python might shuffle otherwise.
    """
    lines = [line for line in data.split(b"\n") if line.strip()]
    size = options.lines_per_group
    groups = [lines[i : i + size] for i in range(0, len(lines), size)]
    random.Random(options.seed).shuffle(groups)
    return b"".join(line + b"\n" for group in groups[: options.groups] for line in group)
