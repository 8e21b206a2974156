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
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import psutil

from pipelines import last_words
from pipelines.errors import PipelineError, StageFailed
from registry import disk

OFFLINE_ENV = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}
KEPT_LINES = 40
LOG_FILE = "worker.log"
POLL_S = 0.2
STOP_GRACE_S = 10.0
KEPT_S = 7 * 24 * 3600.0


def run(
    module: str,
    request: Mapping[str, Any],
    out: Path,
    progress: Callable[[str], None],
    *,
    threads: int | None = None,
) -> None:
    """Runs `python -m module --request … --out …` to its end.

    Args:
        module: the worker module.
        request: JSON-serializable input, kept as OUT/request.json.
        out: folder for its results and its log, OUT/worker.log.
        progress: called with each progress line.
        threads: CPU threads for its arithmetic; None lets it take all cores. A small model is not
            faster with more, and threads that wait for each other burn the cores of others.

    Raises:
        StageFailed: the worker ended with an error; with its own last words, or with the end of
            its log.
        OutOfSpace: there is no room for its log; the worker was stopped.
    """
    with disk.told(f"running {module}", out):
        last, code = _run(module, request, out, progress, threads)
    if code != 0:
        raise StageFailed(last_words.told(module, code, last))


def _run(
    module: str,
    request: Mapping[str, Any],
    out: Path,
    progress: Callable[[str], None],
    threads: int | None,
) -> tuple[deque[str], int]:
    """The worker's last lines and its exit code."""
    out.mkdir(parents=True, exist_ok=True)
    request_file = out / "request.json"
    request_file.write_text(json.dumps(request, indent=2), encoding="utf-8")
    arguments = ["--request", str(request_file), "--out", str(out)]
    command = [sys.executable, "-m", "pipelines.child", str(os.getpid()), module, *arguments]
    with (out / LOG_FILE).open("w", encoding="utf-8") as sink:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            env={**os.environ, **OFFLINE_ENV, **_thread_env(threads)},
            start_new_session=True,
        )
        last = _follow(process, sink, progress)
    return last, process.returncode


def _thread_env(threads: int | None) -> dict[str, str]:
    return {} if threads is None else {"OMP_NUM_THREADS": str(threads)}


@contextlib.contextmanager
def scratch(folder: Path, prefix: str) -> Iterator[Path]:
    """A new folder for one worker, gone afterwards; what killed commands left goes too."""
    with disk.told("making a folder for a worker", folder):
        folder.mkdir(parents=True, exist_ok=True)
        _remove_left(folder)
        out = Path(tempfile.mkdtemp(prefix=f"{prefix}-{os.getpid()}-", dir=folder))
    try:
        yield out
    finally:
        shutil.rmtree(out, ignore_errors=True)


def _remove_left(folder: Path) -> None:
    for left in folder.glob("*-*-*"):
        owner = left.name.split("-")[1]
        if owner.isdecimal() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(left, ignore_errors=True)


@contextlib.contextmanager
def resumable(folder: Path, name: str) -> Iterator[Path]:
    """A folder for one worker that stays where the block fails: the same work goes on in it.

    It is gone after success. One that nobody came back to in a week goes too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    prefix = name.partition("-")[0]
    for left in folder.glob(f"{prefix}-*"):
        is_kept = left.name.count("-") == 1  # a scratch folder has its owner's pid besides
        if is_kept and time.time() - left.stat().st_mtime > KEPT_S and left.name != name:
            shutil.rmtree(left, ignore_errors=True)
    out = folder / name
    out.mkdir(exist_ok=True)
    yield out
    shutil.rmtree(out, ignore_errors=True)


def _follow(
    process: subprocess.Popen[str], sink: IO[str], progress: Callable[[str], None]
) -> deque[str]:
    """Copies both streams to the log; progress lines go to the caller. Returns the last lines.

    Lines come by a queue, so that the end of the process ends the reading too: something that it
    started may hold the pipes open.
    """
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    readers = [
        threading.Thread(target=_read, args=(stream, lines), daemon=True)
        for stream in (process.stdout, process.stderr)
    ]
    for reader in readers:
        reader.start()
    last: deque[str] = deque(maxlen=KEPT_LINES)

    def take(line: str) -> None:
        sink.write(line)
        if line.startswith("progress "):
            progress(line.removeprefix("progress ").rstrip())
        else:
            last.append(line.rstrip())

    try:
        while process.poll() is None or not lines.empty():
            with contextlib.suppress(queue.Empty):
                take(lines.get(timeout=POLL_S))
    finally:
        stop_group(process)  # whatever still holds the pipes ends, and with it the readers
        for reader in readers:
            reader.join()
    while not lines.empty():
        take(lines.get())
    return last


def _read(stream: IO[str], lines: queue.SimpleQueue[str]) -> None:
    with stream:
        for line in stream:
            lines.put(line)


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
