"""Whether a port is free, and who has it if not.

Envoy listens with SO_REUSEPORT, so a second Envoy on the same port would not fail: the kernel
would share the callers between the two. The check has to come first.
"""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

from serving import errors

_LISTEN = "0A"


def require_free(host: str, port: int) -> None:
    """Raise PortTaken when another process listens on the port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as exc:
            raise errors.PortTaken(
                f"cannot listen on {host}:{port}: {exc.strerror or exc} ({_holder(port)}). "
                f"Stop that process or choose another port"
            ) from exc


def _holder(port: int) -> str:
    pid = listener_pid(port)
    if pid is None:
        return "its process is not visible from here"
    return f"process {pid}, {_command(pid)}"


def listener_pid(port: int) -> int | None:
    """The process that listens on a TCP port; None when nobody, or when it cannot be seen."""
    inodes = {
        f"socket:[{inode}]"
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for inode in _listening_inodes(Path(table), port)
    }
    processes = (int(entry.name) for entry in Path("/proc").glob("[0-9]*")) if inodes else ()
    return next((pid for pid in processes if inodes & _open_files(pid)), None)


def _listening_inodes(table: Path, port: int) -> list[str]:
    try:
        rows = [line.split() for line in table.read_text().splitlines()[1:]]
    except OSError:
        return []
    suffix = f":{port:04X}"
    return [row[9] for row in rows if row[3] == _LISTEN and row[1].endswith(suffix)]


def _open_files(pid: int) -> set[str]:
    try:
        entries = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:  # gone, or another user's
        return set()
    links = set()
    for entry in entries:
        with contextlib.suppress(OSError):  # closed meanwhile
            links.add(os.readlink(entry))
    return links


def _command(pid: int) -> str:
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return "gone meanwhile"
    return raw.replace(b"\0", b" ").decode(errors="replace").strip()[:120]
