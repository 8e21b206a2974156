"""An XML document as a tree, from bytes that nobody has to trust.

The one idea: a document type may declare entities that grow without bound or read other files, and
no corpus needs one, so a document that declares a type is refused at that line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat

from evals import errors

DEPTH_LIMIT = 100
"""Deeper nesting is not text; it would exhaust the stack of whoever walks the tree."""


@dataclass(slots=True, kw_only=True)
class Node:
    """An element without its namespace. `content` is text and elements in document order."""

    tag: str
    attributes: dict[str, str]
    line: int
    content: list[Node | str] = field(default_factory=list)

    def children(self, tag: str) -> list[Node]:
        """Elements directly below with this tag."""
        return [part for part in self.content if isinstance(part, Node) and part.tag == tag]

    def below(self, tag: str) -> list[Node]:
        """Elements with this tag at any depth, in document order, none inside another."""
        found: list[Node] = []
        for part in self.content:
            if isinstance(part, Node):
                found += [part] if part.tag == tag else part.below(tag)
        return found


def parse(data: bytes, name: str) -> Node:
    """The root of the document in UTF-8; `name` is the file to name in errors.

    Raises:
        SuiteInvalid: not well-formed, nested too deeply, or it declares a document type.
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise errors.SuiteInvalid(f"{name}:1: not XML in UTF-8: it is UTF-16; convert it to UTF-8")
    builder = _Builder(name)
    try:
        builder.parser.Parse(data, True)
    except expat.ExpatError as exc:
        reason = expat.errors.messages.get(exc.code, str(exc.code))
        raise errors.SuiteInvalid(
            f"{name}:{exc.lineno}: not XML in UTF-8: {reason}; fetch the file again"
        ) from exc
    except UnicodeDecodeError as exc:
        raise errors.SuiteInvalid(f"{name}: not XML in UTF-8: {exc.reason}") from exc
    return builder.top.children(builder.root)[0]


class _Builder:
    """Receives what the parser finds."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.root = ""
        self.top = Node(tag="", attributes={}, line=0)
        self._open = [self.top]
        self.parser = expat.ParserCreate(encoding="UTF-8", namespace_separator="}")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.StartDoctypeDeclHandler = self._doctype

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._open) > DEPTH_LIMIT:
            self._refuse(f"elements are nested more than {DEPTH_LIMIT} deep")
        line = self.parser.CurrentLineNumber
        node = Node(tag=tag.rpartition("}")[2], attributes=attributes, line=line)
        self.root = self.root or node.tag
        self._open[-1].content.append(node)
        self._open.append(node)

    def _end(self, tag: str) -> None:
        self._open.pop()

    def _text(self, text: str) -> None:
        self._open[-1].content.append(text)

    def _doctype(self, *_: object) -> None:
        self._refuse("it declares a document type, which could define entities without bound")

    def _refuse(self, reason: str) -> NoReturn:
        raise errors.SuiteInvalid(
            f"{self._name}:{self.parser.CurrentLineNumber}: {reason}; such a document is not read"
        )
