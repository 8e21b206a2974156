"""Parallel text: a file of sources and n files of references, line by line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pydantic

from evals import errors, textfile
from evals.converters import base
from evals.suite import Example
from evals.textfile import Line


class Parallel(base.Options):
    """One sentence a line, as many lines in each file."""

    name: Literal["parallel"]
    source: base.NonEmpty
    references: tuple[base.NonEmpty, ...] = pydantic.Field(min_length=1)
    skip_blank: bool = False
    """Leave out lines that are blank in every file; otherwise they are errors."""
    cluster_by_reference: bool = False
    """Sources with the same first reference are variants of one sentence."""

    def examples(self, files: base.Files) -> Iterator[Example]:
        """One example per line; the id is its number."""
        columns = [_column(files, path) for path in (self.source, *self.references)]
        self._check_lengths(files, columns)
        for number, row in enumerate(zip(*columns, strict=True), start=1):
            source, *references = (line.text.strip() for line in row)
            if self.skip_blank and not source and not any(references):
                continue
            _check_filled(row)
            yield Example(
                id=f"{base.stem(self.source)}:{number}",
                source=source,
                references=tuple(references),
                cluster=references[0] if self.cluster_by_reference else None,
            )

    def _check_lengths(self, files: base.Files, columns: list[list[Line]]) -> None:
        n = len(columns[0])
        for path, column in zip(self.references, columns[1:], strict=True):
            if len(column) != n:
                raise errors.SuiteInvalid(
                    f"{files.label(path)}:{min(n, len(column)) + 1}: references are missing or too "
                    f"many: the file has {len(column)} lines, {self.source} has {n}"
                )


def _column(files: base.Files, path: str) -> list[Line]:
    return list(textfile.lines(files.read(path), files.label(path)))


def _check_filled(row: tuple[Line, ...]) -> None:
    for line in row:
        if not line.text.strip():
            raise errors.SuiteInvalid(
                f"{line.where}: the line is blank; every source needs every reference"
            )
