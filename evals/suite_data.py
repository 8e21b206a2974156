"""The published files of a suite: where they are, whether they are the ones that were reviewed.

The one idea: bytes are read once, checked, and only those bytes are used.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from evals import errors, textfile
from evals.converters import Files
from evals.suite import Source
from evals.suite_definition import File, Packaged, Published
from registry import reading


class State(StrEnum):
    """What is known of a suite's files."""

    PRESENT = "present"  # all there, as they were reviewed
    ABSENT = "absent"  # some are missing
    CHANGED = "changed"  # some have other bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why a file cannot be used."""

    state: State
    reason: str


def listed(source: Published | Packaged) -> tuple[File, ...]:
    """The files of a source whose file of checksums has been read."""
    if isinstance(source.files, str):
        raise ValueError(f"checksums {source.files} were not read")
    return source.files


def origin(source: Published | Packaged, license_name: str) -> Source:
    """Address and checksum of a source as a whole."""
    address = (
        f"{source.repository}/tree/{source.commit}"
        if isinstance(source, Published)
        else f"pypi:{source.package}=={source.version}"
    )
    lines = sorted(f"{file.sha256}  {file.path}\n" for file in listed(source))
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    return Source(address=address, sha256=digest, license=license_name)


def folder_of(source: Published | Packaged, data_dir: Path | None) -> Path | Fault:
    """Where the files lie, or why nowhere."""
    if isinstance(source, Packaged):
        spec = importlib.util.find_spec(source.module)
        if spec is None or not spec.submodule_search_locations:
            reason = (
                f"package {source.package} is not installed; "
                f"run `pip install {source.package}=={source.version}`"
            )
            return Fault(state=State.ABSENT, reason=reason)
        return Path(next(iter(spec.submodule_search_locations)))
    if data_dir is None:
        return Fault(
            state=State.ABSENT,
            reason=f"the folder {source.folder} is looked up in a data directory, and none is "
            "named; set LIFTLOCK_DATA_DIR or give --data-dir",
        )
    return data_dir / source.folder


def read(source: Published | Packaged, data_dir: Path | None) -> Files | tuple[Fault, ...]:
    """All files of a source, verified, or every fault that was found, the worst first."""
    folder = folder_of(source, data_dir)
    if isinstance(folder, Fault):
        return (folder,)
    contents: dict[str, bytes] = {}
    faults: list[Fault] = []
    for file in listed(source):
        found = _read(folder / file.path, file, source)
        if isinstance(found, Fault):
            faults.append(found)
        else:
            contents[file.path] = found
    if faults:
        return tuple(sorted(faults, key=lambda fault: fault.state is not State.CHANGED))
    return Files(folder=folder, contents=contents)


def _read(path: Path, file: File, source: Published | Packaged) -> bytes | Fault:
    try:
        data = reading.read_bytes(path, textfile.FILE_LIMIT_BYTES)
    except reading.Unreadable as exc:
        # Unlike Path.is_file also of a name that is too long.
        state = State.CHANGED if os.path.isfile(path) else State.ABSENT
        return Fault(state=state, reason=f"{path} {exc}; {_remedy(source)}")
    found = hashlib.sha256(data).hexdigest()
    if found == file.sha256:
        return data
    return Fault(
        state=State.CHANGED,
        reason=f"{path} was changed: expected sha256 {file.sha256}, found {found}; move it away "
        f"and {_remedy(source)}, or review the change and name the new sha256 in the definition",
    )


def _remedy(source: Published | Packaged) -> str:
    if isinstance(source, Packaged):
        return f"run `pip install {source.package}=={source.version}`"
    if source.by_hand:
        return f"fetch it by hand: {source.by_hand}"
    return "run `liftlock suites fetch`"


def reasons(faults: tuple[Fault, ...], limit: int = 3) -> Iterator[str]:
    """The first reasons, and how many more there are."""
    for fault in faults[:limit]:
        yield fault.reason
    if len(faults) > limit:
        yield f"and {len(faults) - limit} more files"


def unavailable(name: str, faults: tuple[Fault, ...]) -> errors.SuiteUnavailable:
    """The error of a suite that cannot be run."""
    return errors.SuiteUnavailable(
        f"suite {name} is unavailable ({faults[0].state}): {'; '.join(reasons(faults))}"
    )
