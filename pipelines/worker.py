"""Runs a heavy stage in a process of its own.

torch, vLLM and llm-compressor hold gigabytes and cannot be unloaded; a child process gives it all
back when it ends, and a crash in it is an error here, not the end of the promotion. A worker prints
`progress …` lines on stdout and, where it fails on purpose, a last `error: …` line on stderr.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from pipelines.errors import PipelineError, StageFailed

OFFLINE_ENV = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}
KEPT_LINES = 40
STOP_GRACE_S = 10.0


def run(
    module: str, request: Mapping[str, Any], out: Path, progress: Callable[[str], None]
) -> None:
    """Runs `python -m module --request … --out …` to its end.

    Args:
        module: the worker module.
        request: JSON-serializable input, kept as OUT/request.json.
        out: folder for its results and its log.
        progress: called with each progress line.

    Raises:
        StageFailed: the worker ended with an error, with its own last words and the log's path.
    """
    out.mkdir(parents=True, exist_ok=True)
    request_file = out / "request.json"
    request_file.write_text(json.dumps(request, indent=2), encoding="utf-8")
    log = out / "worker.log"
    command = [sys.executable, "-m", module, "--request", str(request_file), "--out", str(out)]
    with log.open("w", encoding="utf-8") as sink:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            env={**os.environ, **OFFLINE_ENV},
            start_new_session=True,
        )
        last = _follow(process, sink, progress)
    if process.returncode != 0:
        raise StageFailed(_last_words(module, process.returncode, last, log))


@contextlib.contextmanager
def scratch(folder: Path, prefix: str) -> Iterator[Path]:
    """A new folder for one worker, gone afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    out = Path(tempfile.mkdtemp(prefix=f"{prefix}-", dir=folder))
    try:
        yield out
    finally:
        shutil.rmtree(out, ignore_errors=True)


def _follow(
    process: subprocess.Popen[str], sink: Any, progress: Callable[[str], None]
) -> deque[str]:
    """Copies both streams to the log; progress lines go to the caller. Returns the last lines."""
    last: deque[str] = deque(maxlen=KEPT_LINES)
    assert process.stdout is not None
    assert process.stderr is not None

    def drain(stream: IO[str]) -> None:
        with stream:
            for line in stream:
                sink.write(line)
                last.append(line.rstrip())

    thread = threading.Thread(target=drain, args=(process.stderr,), daemon=True)
    thread.start()
    try:
        with process.stdout:
            for line in process.stdout:
                sink.write(line)
                if line.startswith("progress "):
                    progress(line.removeprefix("progress ").rstrip())
        process.wait()
    finally:
        stop_group(process)  # whatever still holds the pipes ends, and with it the thread
        thread.join()
    return last


def stop_group(process: subprocess.Popen[str]) -> None:
    """Ends a worker and all it started: first politely, then for good."""
    if process.poll() is None:
        _signal_group(process, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_GRACE_S)
    _signal_group(process, signal.SIGKILL)
    process.wait()


def _signal_group(process: subprocess.Popen[str], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _last_words(module: str, code: int, last: deque[str], log: Path) -> str:
    told = [line.removeprefix("error: ") for line in last if line.startswith("error: ")]
    if told:
        return told[-1]
    if code in (-signal.SIGKILL, 128 + signal.SIGKILL):
        return f"{module} was killed, most likely for memory; free some and retry (log: {log})"
    tail = next((line for line in reversed(last) if line.strip()), "no output")
    return f"{module} ended with code {code}: {tail} (log: {log})"


def main_of(body: Callable[[Mapping[str, Any], Path], None]) -> None:
    """The `__main__` of a worker module: reads the request, runs the body, maps errors to exits."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--request", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    try:
        body(json.loads(args.request.read_text(encoding="utf-8")), args.out)
    except PipelineError as exc:
        print(f"error: {exc}", file=sys.stderr, flush=True)
        sys.exit(1)
