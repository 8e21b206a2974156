"""TEI documents whose sentences hold revisions: what was written beside what it should be.

    <s n="4"><w>inn</w> <revision><original><w>a</w></original>
    <corrected><w>á</w></corrected><errors><error xtype="…"/></errors></revision></s>

A sentence becomes its words and signs, one space between them; a document is a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from evals import errors, textfile, xmltree
from evals.converters import base
from evals.suite import Example
from evals.xmltree import Node

_CODE_COLUMN = "Error code"
_CATEGORY_COLUMN = "Main category"
_TOKENS = ("w", "c")


class Tei(base.Options):
    """Documents with `<s>` sentences and `<revision>` elements."""

    name: Literal["tei"]
    files: base.NonEmpty
    """Pattern of the documents' paths."""
    categories: str | None = None
    """A table of error codes, separated by tabs; its main categories become tags."""

    def examples(self, files: base.Files) -> Iterator[Example]:
        """One example per sentence; one that is empty before or after the revision is left out."""
        categories = _categories(files, self.categories) if self.categories else {}
        for path in files.matching(self.files):
            root = xmltree.parse(files.read(path), files.label(path))
            sentences = root.below("s")
            if not sentences:
                raise errors.SuiteInvalid(
                    f"{files.label(path)}:{root.line}: no <s> element; a document holds sentences"
                )
            for number, node in enumerate(sentences, start=1):
                found = _sentence(node, files.label(path))
                if found.original and found.corrected:
                    yield _example(found, f"{base.stem(path)}:{number}", path, categories)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sentence:
    original: str
    corrected: str
    codes: frozenset[str]
    where: str


def _example(found: _Sentence, name: str, path: str, categories: Mapping[str, str]) -> Example:
    unknown = sorted(found.codes - categories.keys()) if categories else []
    if unknown:
        raise errors.SuiteInvalid(
            f"{found.where}: error code {unknown[0]!r} is not in the table of categories"
        )
    return Example(
        id=name,
        source=found.original,
        references=(found.corrected,),
        tags=tuple(sorted({categories[code] for code in found.codes})) if categories else (),
        cluster=path,
    )


def _sentence(node: Node, name: str) -> _Sentence:
    original: list[str] = []
    corrected: list[str] = []
    codes: set[str] = set()
    for part in node.content:
        if isinstance(part, Node) and part.tag == "revision":
            original += _text(_only(part, "original", name))
            corrected += _text(_only(part, "corrected", name))
            codes.update(
                error.attributes["xtype"]
                for error in part.below("error")
                if "xtype" in error.attributes
            )
        else:
            words = _text(part)
            original += words
            corrected += words
    return _Sentence(
        original=" ".join(original),
        corrected=" ".join(corrected),
        codes=frozenset(codes),
        where=f"{name}:{node.line}",
    )


def _only(revision: Node, tag: str, name: str) -> Node:
    found = revision.children(tag)
    if len(found) != 1:
        raise errors.SuiteInvalid(
            f"{name}:{revision.line}: a revision must hold one <{tag}>, found {len(found)}"
        )
    return found[0]


def _text(part: Node | str) -> list[str]:
    """Words in document order."""
    if isinstance(part, str):
        return part.split()
    if part.tag in _TOKENS:
        return _inside(part).split()
    return [word for inner in part.content for word in _text(inner)]


def _inside(node: Node) -> str:
    """All text of a token: a word may be marked up inside, as in `<w>n<hi>th</hi></w>`."""
    return "".join(part if isinstance(part, str) else _inside(part) for part in node.content)


def _categories(files: base.Files, path: str) -> dict[str, str]:
    """Main category by error code."""
    rows = [
        (line.where, line.text.split("\t"))
        for line in textfile.lines(files.read(path), files.label(path))
    ]
    header = rows[0][1] if rows else []
    if _CODE_COLUMN not in header or _CATEGORY_COLUMN not in header:
        raise errors.SuiteInvalid(
            f"{files.label(path)}:1: expected columns {_CATEGORY_COLUMN!r} and {_CODE_COLUMN!r}, "
            f"found {header[:6]}"
        )
    code, category = header.index(_CODE_COLUMN), header.index(_CATEGORY_COLUMN)
    found: dict[str, str] = {}
    for where, row in rows[1:]:
        if len(row) <= max(code, category):
            raise errors.SuiteInvalid(f"{where}: expected {len(header)} columns, found {len(row)}")
        if found.setdefault(row[code], row[category]) != row[category]:
            raise errors.SuiteInvalid(
                f"{where}: error code {row[code]!r} is in category {found[row[code]]!r} already"
            )
    return found
