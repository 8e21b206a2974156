"""Tables (csv) and files of one JSON object per line: which column is what.

The one idea: reading rows and making examples of rows are apart, so both forms have the same
options and the same errors.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import pydantic

from evals import archive, errors, textfile
from evals.converters import base
from evals.suite import Example
from registry import strict_json
from registry.wording import shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One record. `stem` is the name of its file, `number` that of its line."""

    where: str
    stem: str
    number: int
    values: Mapping[str, object]


class Identical(StrEnum):
    """What becomes of a pair whose two sentences are the same."""

    REFUSE = "refuse"  # an error: nothing can tell them apart
    SKIP = "skip"  # left out


class Fields(base.Options):
    """Which columns of a record hold what."""

    source: base.NonEmpty
    references: tuple[base.NonEmpty, ...] = ()
    """Columns with a reference each; in JSON one may hold a list."""
    contrast: str | None = None
    """Column of the ungrammatical sentence of a minimal pair."""
    acceptable: str | None = None
    """Column that says whether the source is acceptable: true or false, 1 or 0."""
    tags: tuple[base.NonEmpty, ...] = ()
    cluster: str | None = None
    cluster_by_file: bool = False
    id: tuple[base.NonEmpty, ...] = ()
    """Columns that make the id; without any it is file and line."""
    identical: Identical = Identical.REFUSE

    def example(self, row: Row) -> Example | None:
        """The example in a row; None for an identical pair that is to be skipped.

        Raises:
            SuiteInvalid: a column is absent, empty or of the wrong type.
        """
        source = text(row, self.source)
        contrast = text(row, self.contrast) if self.contrast else ""
        if contrast == source:
            if self.identical is Identical.SKIP:
                return None
            raise errors.SuiteInvalid(f"{row.where}: both sentences of the pair are {source!r}")
        parts = [text(row, column) for column in self.id]
        return Example(
            id=":".join(parts or [row.stem, str(row.number)]),
            source=source,
            references=self._references(row, source),
            tags=tuple(dict.fromkeys(text(row, column) for column in self.tags)),
            cluster=self._cluster(row),
            contrast=contrast,
        )

    def _references(self, row: Row, source: str) -> tuple[str, ...]:
        if self.acceptable:
            return (source,) if _flag(row, self.acceptable) else ()
        return tuple(found for column in self.references for found in _texts(row, column))

    def _cluster(self, row: Row) -> str | None:
        if self.cluster_by_file:
            return row.stem
        return text(row, self.cluster) if self.cluster else None


class Csv(base.Options):
    """Tables with a header line."""

    name: Literal["csv"]
    files: base.NonEmpty
    """Pattern of the files' paths."""
    delimiter: str = pydantic.Field(default=",", min_length=1, max_length=1, pattern=r'[^\r\n"]')
    fields: Fields

    def examples(self, files: base.Files) -> Iterator[Example]:
        """One example per row, in file order."""
        for path in files.matching(self.files):
            rows = table(files.read(path), files.label(path), self.delimiter)
            yield from _examples(rows, self.fields)


class Jsonl(base.Options):
    """One JSON object per line, in files or in one zip file."""

    name: Literal["jsonl"]
    files: base.NonEmpty
    """Pattern of the files' paths; of the archive's members where there is an archive."""
    archive: str | None = None
    fields: Fields

    def examples(self, files: base.Files) -> Iterator[Example]:
        """One example per line, in file order."""
        for name, data in self._documents(files):
            yield from _examples(objects(data, name), self.fields)

    def _documents(self, files: base.Files) -> Iterator[tuple[str, bytes]]:
        if self.archive is None:
            for path in files.matching(self.files):
                yield files.label(path), files.read(path)
            return
        name = files.label(self.archive)
        for member in archive.members(files.read(self.archive), name, self.files):
            yield f"{name}/{member.path}", member.data


def _examples(rows: Iterator[Row], fields: Fields) -> Iterator[Example]:
    for row in rows:
        example = fields.example(row)
        if example is not None:
            yield example


def table(data: bytes, name: str, delimiter: str) -> Iterator[Row]:
    """The rows of a table.

    Raises:
        SuiteInvalid: not a table: no header, a column named twice, a row with too few or many.
    """
    lines = (f"{line.text}\n" for line in textfile.lines(data, name))
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    header: list[str] | None = None
    stem = base.stem(name)
    try:
        for values in reader:
            where = f"{name}:{reader.line_num}"
            if header is None:
                header = _header(values, where)
                continue
            if len(values) != len(header):
                raise errors.SuiteInvalid(
                    f"{where}: expected {len(header)} columns, found {len(values)}"
                )
            yield Row(
                where=where,
                stem=stem,
                number=reader.line_num,
                values=dict(zip(header, values, strict=True)),
            )
    except csv.Error as exc:
        raise errors.SuiteInvalid(f"{name}:{reader.line_num}: not a table: {exc}") from exc


def _header(values: list[str], where: str) -> list[str]:
    if len(set(values)) != len(values) or not all(values):
        raise errors.SuiteInvalid(
            f"{where}: the header must name each column once, found {values[:8]}"
        )
    return values


def objects(data: bytes, name: str) -> Iterator[Row]:
    """The objects of a file with one JSON object per line; blank lines are skipped.

    Raises:
        SuiteInvalid: a line is not a JSON object.
    """
    stem = base.stem(name)
    for number, line in enumerate(textfile.lines(data, name), start=1):
        if not line.text.strip():
            continue
        try:
            values = strict_json.parse(line.text)
        except ValueError as exc:
            raise errors.SuiteInvalid(f"{line.where}: not a JSON object: {exc}") from exc
        if not isinstance(values, dict):
            raise errors.SuiteInvalid(
                f"{line.where}: expected a JSON object, found {type(values).__name__}"
            )
        yield Row(where=line.where, stem=stem, number=number, values=values)


def text(row: Row, column: str) -> str:
    """The text in a column, without white space at its ends.

    Raises:
        SuiteInvalid: the column is absent, empty, or not text.
    """
    return _checked(row, column, _value(row, column))


def _texts(row: Row, column: str) -> list[str]:
    value = _value(row, column)
    if not isinstance(value, list):
        return [_checked(row, column, value)]
    if not value:
        raise errors.SuiteInvalid(f"{row.where}: {column}: references are missing")
    return [_checked(row, column, item) for item in value]


def _value(row: Row, column: str) -> object:
    if column not in row.values:
        found = ", ".join(map(shown, list(row.values)[:8]))
        raise errors.SuiteInvalid(f"{row.where}: no column {column!r}; found {found}")
    return row.values[column]


def _checked(row: Row, column: str, value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        raise errors.SuiteInvalid(f"{row.where}: {column}: expected text, found {value!r:.60}")
    return value.strip()


_FLAGS: Mapping[str, bool] = {"1": True, "true": True, "0": False, "false": False}


def _flag(row: Row, column: str) -> bool:
    value = str(_value(row, column)).strip().lower()
    if value not in _FLAGS:
        raise errors.SuiteInvalid(
            f"{row.where}: {column}: expected true, false, 1 or 0, found {value!r:.40}"
        )
    return _FLAGS[value]
