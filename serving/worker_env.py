"""The runtime environment of our actors: where their processes find our code.

Ray starts replicas from its own controller, which knows nothing of the directory that a command
was started in, so the directory our packages lie in is handed on by `PYTHONPATH`. Every node must
have the code at the same place, as nodes made from one image have.
"""

from __future__ import annotations

import os
from pathlib import Path


def worker_env() -> dict[str, dict[str, str]]:
    """A Ray `runtime_env` that puts our packages first on the import path."""
    root = str(Path(__file__).resolve().parents[1])
    inherited = os.environ.get("PYTHONPATH", "")
    others = [part for part in inherited.split(os.pathsep) if part and part != root]
    return {"env_vars": {"PYTHONPATH": os.pathsep.join([root, *others])}}
