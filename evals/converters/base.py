"""What converters have in common: options that come from YAML, and verified bytes to read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Annotated, Protocol

import pydantic

from evals import errors
from evals.suite import Example

NonEmpty = Annotated[str, pydantic.StringConstraints(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The files of a source, read and verified; `folder` is where they lay."""

    folder: Path
    contents: Mapping[str, bytes]

    def read(self, path: str) -> bytes:
        """The bytes of one file.

        Raises:
            SuiteInvalid: the definition lists no such file.
        """
        if path not in self.contents:
            raise errors.SuiteInvalid(
                f"the converter reads {path!r}, which is not among the files of the source: "
                f"{', '.join(sorted(self.contents)[:5])}; list it with its sha256"
            )
        return self.contents[path]

    def matching(self, pattern: str) -> tuple[str, ...]:
        """Paths like the pattern, sorted.

        Raises:
            SuiteInvalid: there is none.
        """
        found = tuple(sorted(path for path in self.contents if fnmatchcase(path, pattern)))
        if not found:
            raise errors.SuiteInvalid(f"no file of the source is like {pattern!r}; list some")
        return found

    def label(self, path: str) -> str:
        """The file as it is named in errors."""
        return str(self.folder / path)


class Options(pydantic.BaseModel):
    """Options of a converter; unknown keys are errors."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class Converter(Protocol):
    """Makes examples of files. Order and ids depend on the files' bytes and the options only."""

    def examples(self, files: Files) -> Iterator[Example]:
        """The examples.

        Raises:
            SuiteInvalid: the files are not of the form; names the file and the line.
        """


def stem(path: str) -> str:
    """The file's name without folder and extension."""
    return PurePosixPath(path).stem
