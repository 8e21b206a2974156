"""What a batch of corrections reads and writes: texts in, one line of JSON out for each, in order.

The one idea: the output is its own record of progress. It holds the texts as they were sent, so the
same command finds out how far it came, whether this is still the same input, and goes on there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from jobs.errors import UsageError
from registry.wording import shown
from serving.client import ClientError, Correction

JSONL_SUFFIXES = (".jsonl", ".ndjson")


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One text of the input."""

    line: int
    """Where it stands, from 1."""
    text: str
    id: Any = None
    """What its line said under `id`; any JSON value."""

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing to correct."""
        return not self.text.strip()


def read(lines: Iterable[bytes], name: str, *, is_json: bool) -> Iterator[Item]:
    """The texts of an input: a line each, or under `text` in a JSON object each.

    Raises:
        UsageError: a line is none; the message names it.
    """
    for number, raw in enumerate(lines, 1):
        where = f"line {number} of {name}"
        try:
            text = raw.decode().removesuffix("\n")
        except UnicodeDecodeError as exc:
            raise UsageError(f"{where} is not UTF-8: {exc}") from exc
        yield _item(number, text, where) if is_json else Item(line=number, text=text)


def _item(number: int, line: str, where: str) -> Item:
    try:
        data = json.loads(line)
    except ValueError as exc:
        raise UsageError(f"{where} is not JSON: {exc}") from exc
    if not isinstance(data, dict) or not isinstance(data.get("text"), str):
        raise UsageError(f'{where} must be an object with a string "text", found {shown(line)}')
    return Item(line=number, text=data["text"], id=data.get("id"))


def written(item: Item, result: Correction | ClientError | None) -> dict[str, Any]:
    """A line of the output; None is a blank text, which is not sent."""
    head: dict[str, Any] = {"line": item.line, "text": item.text}
    if item.id is not None:
        head["id"] = item.id
    if result is None:
        return {**head, "corrected": item.text, "edits": []}
    if isinstance(result, ClientError):
        return {**head, "error": {"code": result.code, "message": str(result)}}
    edits = [
        {"start": e.start, "end": e.end, "original": e.original, "replacement": e.replacement}
        for e in result.edits
    ]
    return {
        **head,
        "corrected": result.corrected,
        "edits": edits,
        "finish_reason": result.finish_reason,
        "model": result.model,
        "version": result.version,
        "request_id": result.request_id,
    }


def encoded(line: dict[str, Any]) -> str:
    """The line as it is written."""
    return json.dumps(line, ensure_ascii=False) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What an earlier run left in an output."""

    lines: int
    refused: int
    size_bytes: int
    """Of the whole lines; what follows is half a line."""


def skip_kept(out: Path, items: Iterator[Item]) -> Kept:
    """Takes from `items` what an output holds already.

    Raises:
        UsageError: the output is none of this input; nothing is changed.
    """
    lines = refused = size = 0
    if not out.exists():
        return Kept(lines=0, refused=0, size_bytes=0)
    with out.open("rb") as file:
        for raw in file:
            if not raw.endswith(b"\n"):
                break
            item = next(items, None)
            kept = _kept(raw)
            if item is None or kept.get("line") != item.line or kept.get("text") != item.text:
                raise UsageError(
                    f"line {lines + 1} of {out} is no correction of this input; name another "
                    "--out, or remove that file to begin anew"
                )
            lines, refused, size = lines + 1, refused + ("error" in kept), size + len(raw)
    return Kept(lines=lines, refused=refused, size_bytes=size)


def _kept(raw: bytes) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def append_to(out: Path, kept: Kept) -> IO[str]:
    """The output, opened behind its last whole line; each line is written through at once."""
    descriptor = os.open(out, os.O_RDWR | os.O_CREAT, 0o666)
    os.ftruncate(descriptor, kept.size_bytes)
    os.lseek(descriptor, 0, os.SEEK_END)
    return os.fdopen(descriptor, "w", buffering=1, encoding="utf-8", newline="\n")
