"""Lines of `True|False<TAB>sentence`, a grammatical one and then its ungrammatical twin.

Each file is one paradigm.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from evals import errors, textfile
from evals.converters import base
from evals.suite import Example
from evals.textfile import Line

_LABELS = ("True", "False")


class Labeled(base.Options):
    """Files of alternating labeled lines."""

    name: Literal["labeled"]
    files: base.NonEmpty
    """Pattern of the files' paths."""

    def examples(self, files: base.Files) -> Iterator[Example]:
        """One minimal pair per two lines; the id is the number of the first."""
        for path in files.matching(self.files):
            lines = list(textfile.lines(files.read(path), files.label(path)))
            if len(lines) % 2:
                raise errors.SuiteInvalid(
                    f"{lines[-1].where}: the last line has no twin; lines come in pairs"
                )
            for number in range(0, len(lines), 2):
                good, bad = (_sentence(lines[number + i], label) for i, label in enumerate(_LABELS))
                yield Example(
                    id=f"{base.stem(path)}:{number + 1}",
                    source=good,
                    references=(),
                    tags=(base.stem(path),),
                    cluster=path,
                    contrast=bad,
                )


def _sentence(line: Line, expected: str) -> str:
    label, tab, text = line.text.partition("\t")
    if label != expected or not tab or not text.strip():
        raise errors.SuiteInvalid(
            f"{line.where}: expected {expected!r}, a tab and a sentence, found {line.text[:40]!r}; "
            "a grammatical line is followed by its ungrammatical twin"
        )
    return text.strip()
