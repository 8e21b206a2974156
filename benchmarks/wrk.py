"""wrk, the closed-loop load generator: one run, its counts and latencies.

In C, since a Python generator would be full before the proxies are. `scripts/wrk.sh` fetches it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FETCHED = ROOT / ".venv" / "opt" / "wrk" / "wrk"
SCRIPT = """
wrk.method = "POST"
wrk.body = %s
%s
done = function(summary, latency)
  local e = summary.errors
  io.write(string.format(
    'WRK {"requests": %%d, "seconds": %%.6f, "p50_ms": %%.3f, "p99_ms": %%.3f, ' ..
    '"errors": {"connect": %%d, "read": %%d, "write": %%d, "status": %%d, "timeout": %%d}}\\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3,
    latency:percentile(99) / 1e3, e.connect, e.read, e.write, e.status, e.timeout))
end
"""


def binary(given: Path | None) -> Path:
    """Where wrk is; raises FileNotFoundError with what to do."""
    on_path = shutil.which("wrk")
    for found in (given, FETCHED, Path(on_path) if on_path else None):
        if found is not None and found.exists():
            return found
    raise FileNotFoundError(
        "wrk was not found: run scripts/wrk.sh, or install it and give its path as --wrk"
    )


def run(
    wrk: Path, url: str, body: bytes, headers: Mapping[str, str], *, callers: int, seconds: float
) -> dict[str, Any]:
    """One thread, `callers` connections, each asking again as soon as it has its answer.

    Raises RuntimeError when an answer was not 2xx or 3xx, or did not come.
    """
    lines = "\n".join(f"wrk.headers[{_lua(n)}] = {_lua(v)}" for n, v in headers.items())
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(SCRIPT % (_lua(body.decode()), lines))
        script.flush()
        length = max(1, round(seconds))
        command = [str(wrk), "-t1", "--timeout", "60s", f"-c{callers}", f"-d{length}s",
                   "-s", script.name, url]  # fmt: skip
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    said = next(line for line in out.splitlines() if line.startswith("WRK "))
    found: dict[str, Any] = json.loads(said.removeprefix("WRK "))
    errors = {kind: count for kind, count in found.pop("errors").items() if count}
    if errors or not found["requests"]:
        raise RuntimeError(f"of {found['requests']} requests to {url} failed {errors}")
    return {**found, "rps": round(found["requests"] / found["seconds"], 1)}


def _lua(text: str) -> str:
    return json.dumps(text)  # quotes and escapes of short ASCII are the same
