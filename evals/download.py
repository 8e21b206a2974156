"""Downloads one file whose checksum is known, over connections that break.

The one idea: what arrives is kept beside the target under `.part` and gone on with after a break;
it takes the target's name, in one step, only when it has the right sha256.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import httpx

from evals import errors, textfile

ATTEMPTS = 4
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
TIMEOUT = httpx.Timeout(30.0, connect=10.0)
"""For silence; a file as a whole may take `DEADLINE_S`."""
DEADLINE_S = 900.0

_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_BEGINS_AT = re.compile(r"bytes (\d+)-")

OnBytes = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Time, replaceable in tests."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class _Broken(Exception):
    """The transfer ended early; another attempt goes on from what is there."""

    def __init__(self, reason: str, pause_s: float | None = None) -> None:
        super().__init__(reason)
        self.pause_s = pause_s


def download(
    client: httpx.Client,
    url: str,
    part: Path,
    sha256: str,
    *,
    on_bytes: OnBytes = lambda total: None,
    clock: Clock | None = None,
) -> None:
    """Leaves the verified bytes of `url` in the file `part`, which may hold a beginning of them.

    Raises:
        FetchFailed: not found, still broken after some attempts, too slow, or other bytes; what
            arrived is kept, except when it is wrong.
    """
    clock = clock or Clock()
    deadline = clock.now() + DEADLINE_S
    for attempt in range(1, ATTEMPTS + 1):
        resumed = part.exists()
        try:
            _go_on(client, url, part, on_bytes, lambda: clock.now() > deadline)
        except _Broken as exc:
            if attempt == ATTEMPTS:
                raise errors.FetchFailed(
                    f"cannot fetch {url}: {exc} ({ATTEMPTS} attempts); "
                    "the same command goes on with what has arrived"
                ) from exc
            pause_s = FIRST_PAUSE_S * 2 ** (attempt - 1) if exc.pause_s is None else exc.pause_s
            clock.sleep(min(pause_s, LONGEST_PAUSE_S))
            continue
        found = _sha256(part)
        if found == sha256:
            return
        part.unlink(missing_ok=True)
        if not resumed:
            break  # whole and wrong: another attempt would bring the same
    raise errors.FetchFailed(
        f"{url} has other bytes than were reviewed: expected sha256 {sha256}, found {found}; "
        "nothing was kept"
    )


def _go_on(
    client: httpx.Client, url: str, part: Path, on_bytes: OnBytes, is_late: Callable[[], bool]
) -> None:
    """Adds what is missing to the part.

    Raises:
        _Broken: worth another attempt.
        FetchFailed: not worth one.
    """
    there = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"}
    if there:
        headers["Range"] = f"bytes={there}-"
    with _translated(url), client.stream("GET", url, headers=headers) as response:
        if response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            return  # nothing is missing, or what is there is wrong; the checksum tells
        _check_status(response, url)
        with part.open("ab" if _continues(response, there) else "wb") as file:
            _receive(response, file, url, on_bytes, is_late)


def _receive(
    response: httpx.Response,
    file: IO[bytes],
    url: str,
    on_bytes: OnBytes,
    is_late: Callable[[], bool],
) -> None:
    total = file.tell()
    for chunk in response.iter_raw():  # as it arrives: a slow sender must not hide the deadline
        total += len(chunk)
        if total > textfile.FILE_LIMIT_BYTES:
            file.truncate(0)
            raise errors.FetchFailed(
                f"{url} is larger than {textfile.FILE_LIMIT_BYTES:,} bytes; it is not what it was; "
                "nothing was kept"
            )
        file.write(chunk)
        on_bytes(total)
        if is_late():
            raise errors.FetchFailed(
                f"fetching {url} took longer than {DEADLINE_S:.0f} s; "
                "the same command goes on with what has arrived"
            )
    file.flush()
    os.fsync(file.fileno())


@contextlib.contextmanager
def _translated(url: str) -> Iterator[None]:
    """httpx's errors as ours."""
    try:
        yield
    except httpx.TransportError as exc:
        raise _Broken(str(exc) or type(exc).__name__) from exc
    except (httpx.HTTPError, httpx.InvalidURL) as exc:
        raise errors.FetchFailed(f"cannot fetch {url}: {exc}") from exc


def _check_status(response: httpx.Response, url: str) -> None:
    status = response.status_code
    if status in _AGAIN:
        raise _Broken(f"the server answered {status}", _retry_after_s(response))
    if status not in (httpx.codes.OK, httpx.codes.PARTIAL_CONTENT):
        raise errors.FetchFailed(
            f"cannot fetch {url}: the server answered {status}; "
            "look at the address in a browser, or give a mirror"
        )


def _retry_after_s(response: httpx.Response) -> float | None:
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isascii() and value.isdigit() else None


def _continues(response: httpx.Response, there: int) -> bool:
    """Whether the answer begins where the part ends; a server may send all of it again."""
    if response.status_code != httpx.codes.PARTIAL_CONTENT:
        return False
    begins = _BEGINS_AT.match(response.headers.get("Content-Range", ""))
    if begins is None or int(begins[1]) != there:
        raise _Broken("the server sent another part than was asked for")
    return True


def _sha256(path: Path) -> str:
    if not path.exists():
        return "of no file"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
