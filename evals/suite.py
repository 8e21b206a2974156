"""A suite: examples to answer, and what a right answer is.

A suite is a small YAML definition beside a data file of one JSON object per line. The definition
names the sha256 of the data, so a suite is either exactly the one that was reviewed or an error.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pydantic
import yaml

from evals import errors

FORMAT = "liftlock/suite/v1"


class SuiteKind(StrEnum):
    """What counts as right."""

    CORRECTION = "correction"  # the output equals one of the references
    CLEAN = "clean"  # the source has no error, and the output leaves it alone


class Grouping(StrEnum):
    """What a suite's examples are also judged by, besides all together."""

    TAGS = "tags"  # one group per tag; an example with two tags is in two groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One input with the outputs that are right, and the kinds of error it holds."""

    id: str
    source: str
    references: tuple[str, ...]
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Examples in a fixed order. `data_sha256` is of the data file's bytes, as hex digits."""

    name: str
    language: str
    kind: SuiteKind
    license: str
    description: str
    group_by: Grouping | None
    data_sha256: str
    examples: tuple[Example, ...]

    @property
    def digest(self) -> str:
        """`sha256:<hex>` over everything that can change an outcome or a decision.

        License and description are left out: rewording one must not invalidate outcomes.
        """
        content = {
            "format": FORMAT,
            "name": self.name,
            "language": self.language,
            "kind": str(self.kind),
            "group_by": None if self.group_by is None else str(self.group_by),
            "data_sha256": self.data_sha256,
        }
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def tags(self) -> tuple[str, ...]:
        """Every tag of the examples, sorted; empty unless the suite is grouped by tags."""
        if self.group_by is not Grouping.TAGS:
            return ()
        return tuple(sorted({tag for example in self.examples for tag in example.tags}))


NonEmpty = Annotated[str, pydantic.StringConstraints(min_length=1)]
Name = Annotated[str, pydantic.StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
Sha256 = Annotated[str, pydantic.StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class _Definition(pydantic.BaseModel):
    """The YAML file as it is written; unknown keys are errors."""

    model_config = pydantic.ConfigDict(extra="forbid")

    name: Name
    language: NonEmpty
    kind: SuiteKind
    data: NonEmpty
    sha256: Sha256
    license: NonEmpty
    description: NonEmpty
    group_by: Grouping | None = None


class _Line(pydantic.BaseModel):
    """One line of the data file; unknown keys are errors."""

    model_config = pydantic.ConfigDict(extra="forbid")

    id: NonEmpty
    source: NonEmpty
    references: tuple[NonEmpty, ...] = pydantic.Field(min_length=1)
    tags: tuple[NonEmpty, ...] = ()

    def example(self) -> Example:
        return Example(id=self.id, source=self.source, references=self.references, tags=self.tags)


def load(path: Path) -> Suite:
    """Reads and verifies the suite defined in the YAML file at `path`.

    Raises:
        SuiteUnavailable: a file is absent, or the data does not have the sha256 it should have.
        SuiteInvalid: definition or data is malformed; names the file and, for data, the line.
    """
    definition = _definition(path)
    data_path = path.parent / definition.data
    data = _verified(data_path, definition.sha256)
    examples = tuple(_examples(data_path, data))
    if not examples:
        raise errors.SuiteInvalid(f"suite data {data_path} holds no example; add at least one")
    return Suite(
        name=definition.name,
        language=definition.language,
        kind=definition.kind,
        license=definition.license,
        description=definition.description,
        group_by=definition.group_by,
        data_sha256=definition.sha256,
        examples=examples,
    )


def _definition(path: Path) -> _Definition:
    try:
        raw = yaml.safe_load(_read(path).decode())
        return _Definition.model_validate(raw)
    except (yaml.YAMLError, UnicodeDecodeError) as exc:
        raise errors.SuiteInvalid(f"suite definition {path} is not YAML text: {exc}") from exc
    except pydantic.ValidationError as exc:
        raise errors.SuiteInvalid(f"suite definition {path}: {_faults(exc)}") from exc


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as exc:
        raise errors.SuiteUnavailable(
            f"cannot read suite file {path}: {exc.strerror}; "
            "fetch the data or drop the suite from the configuration"
        ) from exc


def _verified(path: Path, expected_sha256: str) -> bytes:
    data = _read(path)
    found = hashlib.sha256(data).hexdigest()
    if found != expected_sha256:
        raise errors.SuiteUnavailable(
            f"suite data {path} was changed: expected sha256 {expected_sha256}, found {found}; "
            "restore the file, or review the change and name the new sha256 in the definition"
        )
    return data


def _examples(path: Path, data: bytes) -> Iterator[Example]:
    seen: dict[str, int] = {}
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        example = _example(f"{path}:{number}", line)
        if example.id in seen:
            raise errors.SuiteInvalid(
                f"{path}:{number}: id {example.id!r} was used on line {seen[example.id]} already; "
                "ids pair the answers of two models, so each must be unique"
            )
        seen[example.id] = number
        yield example


def _example(where: str, line: bytes) -> Example:
    try:
        return _Line.model_validate_json(line).example()
    except pydantic.ValidationError as exc:
        raise errors.SuiteInvalid(f"{where}: {_faults(exc)}") from exc


def _faults(exc: pydantic.ValidationError) -> str:
    """Every fault as `field: what is wrong`, in one line."""
    return "; ".join(
        f"{'.'.join(str(part) for part in fault['loc']) or 'document'}: {fault['msg']}"
        for fault in exc.errors()
    )
