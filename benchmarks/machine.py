"""What a figure was measured on."""

from __future__ import annotations

import datetime
import json
import os
import platform
from typing import Any

import psutil


def describe() -> dict[str, Any]:
    """Machine and date, for the RESULT line."""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "cpus": os.cpu_count(),
        "cpu": _cpu_name(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "load_before": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
    }


def result(figures: dict[str, Any]) -> str:
    """The last line of a benchmark."""
    return "RESULT " + json.dumps(figures, sort_keys=True)


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            found = (
                line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
            )
            return next(found, platform.machine())
    except OSError:
        return platform.machine()
