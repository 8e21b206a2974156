"""A suite's definition as it is written in YAML; unknown keys are errors.

Two forms: `data` and `sha256` name a file of examples beside the definition; `source` and
`converter` name published files in the data directory and what makes examples of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

import pydantic

from evals import errors, policy, textfile
from evals.converters import AnyConverter
from evals.sampling import Strata
from evals.suite import Clustering, Grouping, SuiteKind
from registry import reading, strict_yaml
from registry.wording import breaks_lines, check_line, shown

DEFINITION_LIMIT_BYTES = 64 << 10
"""Reading YAML takes its time: a megabyte a minute."""
TEXT_LIMIT_CHARS = 4096
FAULTS_SHOWN = 5
KEY_CHARS_SHOWN = 60
_PUBLISHED, _PACKAGED, _LIST, _NAME = "=published", "=packaged", "=list", "=name"
"""Tags of the alternatives below, which say nothing to a reader of an error."""

NonEmpty = Annotated[str, pydantic.StringConstraints(min_length=1)]
Name = Annotated[str, pydantic.StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
Sha256 = Annotated[str, pydantic.StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Commit = Annotated[str, pydantic.StringConstraints(pattern=r"^[0-9a-f]{40}$")]
Repository = Annotated[
    str, pydantic.StringConstraints(pattern=r"^https://github\.com/[\w.-]+/[\w.-]+$")
]
_CHECKSUM_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


def _line(value: str) -> str:
    """These are shown on terminals and in reports, line by line."""
    if not value.strip():
        raise ValueError("must not be blank")
    return check_line("it", value, TEXT_LIMIT_CHARS)


def _prose(value: str) -> str:
    strange = next((c for c in value if breaks_lines(c) and c not in "\n\t"), None)
    if strange is not None or not value.strip():
        raise ValueError(f"must be text, holds {strange!a}" if strange else "must not be blank")
    return value


OneLine = Annotated[str, pydantic.AfterValidator(_line)]
Prose = Annotated[str, pydantic.AfterValidator(_prose)]


def _below(value: str) -> str:
    path = PurePosixPath(value)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\\" in value:
        raise ValueError(f"must be a path below the folder, got {value!r}")
    return check_line("it", value, TEXT_LIMIT_CHARS)


Below = Annotated[str, pydantic.AfterValidator(_below)]


class _Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class File(_Model):
    """One published file."""

    path: Below
    """Below the source's folder in the data directory."""
    sha256: Sha256
    address: Below | None = None
    """Path in the repository, where it is another one."""
    published_sha256: Sha256 | None = None
    """Of the file as it was published, where the source is thinned."""


class Thinning(_Model):
    """Only some lines of a file are kept when it is fetched.

    Its groups of lines are shuffled by Python's `random.Random(seed).shuffle`, and the first kept.
    """

    groups: int = pydantic.Field(ge=1)
    lines_per_group: int = pydantic.Field(ge=1)
    seed: int


def _once(files: tuple[File, ...]) -> tuple[File, ...]:
    seen: set[str] = set()
    for file in files:
        if file.path in seen:
            raise ValueError(f"file {file.path!r} is listed twice")
        seen.add(file.path)
    return files


Listed = Annotated[tuple[File, ...], pydantic.Field(min_length=1), pydantic.AfterValidator(_once)]


class Published(_Model):
    """Files of a repository at a commit, in a folder of the data directory."""

    folder: Below
    repository: Repository
    commit: Commit
    files: Annotated[
        Annotated[Listed, pydantic.Tag(_LIST)] | Annotated[Below, pydantic.Tag(_NAME)],
        pydantic.Discriminator(lambda value: _NAME if isinstance(value, str) else _LIST),
    ]
    """Or the name of a file beside the definition, in the form of `sha256sum`."""
    notices: tuple[File, ...] = ()
    """License and the like: fetched with the data, not needed to run."""
    thinned: Thinning | None = None
    terms: OneLine | Literal[""] = ""
    """What the license asks of a user, where it is more than naming the authors."""
    by_hand: Prose | Literal[""] = ""
    """Why the files must be fetched by hand, and how; empty where they need not be."""


class Packaged(_Model):
    """Files of an installed Python package."""

    package: OneLine
    version: OneLine
    module: Annotated[str, pydantic.StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")]
    """Top-level module whose folder holds the files; to look inside another would run that."""
    files: Listed
    terms: OneLine | Literal[""] = ""


def _source_form(value: object) -> str:
    is_packaged = isinstance(value, Packaged) or (isinstance(value, dict) and "package" in value)
    return _PACKAGED if is_packaged else _PUBLISHED


class SampleOptions(_Model):
    """Run only some of the examples."""

    size: int = pydantic.Field(ge=1)
    strata: Strata


class Definition(_Model):
    """The YAML file."""

    name: Name
    language: OneLine
    kind: SuiteKind
    license: OneLine
    description: Prose
    group_by: Grouping | None = None
    data: Below | None = None
    sha256: Sha256 | None = None
    source: (
        Annotated[
            Annotated[Published, pydantic.Tag(_PUBLISHED)]
            | Annotated[Packaged, pydantic.Tag(_PACKAGED)],
            pydantic.Discriminator(_source_form),
        ]
        | None
    ) = None
    converter: AnyConverter | None = None
    keep: Literal["left-alone"] | None = None
    """Only sentences that every annotator left alone; what a suite of clean text is made of."""
    sample: SampleOptions | None = None
    examples: int | None = pydantic.Field(default=None, ge=1)
    """How many there must be in the end."""
    metrics: tuple[NonEmpty, ...] = ()
    cluster: Clustering | None = None
    margin_points: dict[
        NonEmpty, Annotated[float, pydantic.Field(ge=policy.LEAST_POINTS, le=100)]
    ] = {}

    @pydantic.field_validator("metrics")
    @classmethod
    def _metrics_once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) != len(value):
            raise ValueError(f"each metric once, got {', '.join(value)}")
        return value

    @pydantic.model_validator(mode="after")
    def _one_form(self) -> Definition:
        beside: dict[str, object] = {"data": self.data, "sha256": self.sha256}
        needed: dict[str, object] = {
            "source": self.source, "converter": self.converter, "examples": self.examples,
        }  # fmt: skip
        optional = {"keep": self.keep, "sample": self.sample}
        form, other = (beside, needed | optional) if self.source is None else (needed, beside)
        for key, value in form.items():
            if value is None:
                raise ValueError(f"{key}: Field required with {', '.join(form)}")
        for key, value in other.items():
            if value is not None:
                raise ValueError(f"{key}: not together with {next(iter(form))}")
        if self.kind is SuiteKind.ACCEPTABILITY and not self.metrics:
            raise ValueError("metrics: Field required for a suite of this kind")
        return self


def read(path: Path) -> Definition:
    """Reads the definition at `path`; a file of checksums it names is read into it.

    Raises:
        SuiteUnavailable: the file cannot be read.
        SuiteInvalid: it is malformed; names the file and every fault.
    """
    try:
        raw = strict_yaml.parse(reading.read_text(path, DEFINITION_LIMIT_BYTES))
        # As JSON, because strict there means what one expects of YAML too: a list may become a
        # tuple and a text an enum, but `yes` is no number and `8` no text.
        found = Definition.model_validate_json(json.dumps(raw), strict=True)
    except reading.Absent as exc:
        raise errors.SuiteUnavailable(
            f"suite file {path} {exc}; fetch the data or drop the suite from the configuration"
        ) from exc
    except reading.Unreadable as exc:
        raise errors.SuiteInvalid(f"suite definition {path} {exc}") from exc
    except pydantic.ValidationError as exc:
        raise errors.SuiteInvalid(f"suite definition {path}: {faults(exc)}") from exc
    except RecursionError as exc:
        raise errors.SuiteInvalid(f"suite definition {path} is nested too deeply") from exc
    except (ValueError, TypeError) as exc:  # TypeError from json: a date
        raise errors.SuiteInvalid(f"suite definition {path} is not YAML text: {exc}") from exc
    return _with_files(found, path.parent)


def _with_files(found: Definition, folder: Path) -> Definition:
    source = found.source
    if not isinstance(source, Published) or not isinstance(source.files, str):
        return found
    path = folder / source.files
    try:
        files = _once(tuple(_checksums(path)))
    except ValueError as exc:
        raise errors.SuiteInvalid(f"{path}: {exc}") from exc
    if not files:
        raise errors.SuiteInvalid(f"{path} names no file; name each with its checksum")
    return found.model_copy(update={"source": source.model_copy(update={"files": files})})


def _checksums(path: Path) -> Iterator[File]:
    try:
        data = reading.read_bytes(path, textfile.FILE_LIMIT_BYTES)
    except reading.Unreadable as exc:
        raise errors.SuiteUnavailable(f"the file of checksums {path} {exc}") from exc
    for line in textfile.lines(data, str(path)):
        found = _CHECKSUM_LINE.fullmatch(line.text)
        if not found:
            raise errors.SuiteInvalid(
                f"{line.where}: expected 64 hex digits, two spaces and a path, "
                f"found {line.text[:40]!r}"
            )
        try:
            yield File(path=found[2], sha256=found[1])
        except pydantic.ValidationError as exc:
            raise errors.SuiteInvalid(f"{line.where}: {faults(exc)}") from exc


def faults(exc: pydantic.ValidationError) -> str:
    """The first faults as `field: what is wrong`, in one line, and how many more there are."""
    found = exc.errors()
    told = [_told(fault) for fault in found[:FAULTS_SHOWN]]
    if len(found) > FAULTS_SHOWN:
        told.append(f"and {len(found) - FAULTS_SHOWN} more faults")
    return "; ".join(told)


def _told(fault: Any) -> str:
    """pydantic's message, with what was found where the message does not say it."""
    where = ".".join(_key(part) for part in fault["loc"] if str(part)[:1] != "=") or "document"
    found = fault["input"]
    if isinstance(found, Sequence | dict) and not isinstance(found, str):
        return f"{where}: {fault['msg']}"
    return f"{where}: {fault['msg']}, found {shown(found)}"


def _key(part: str | int) -> str:
    text = str(part)
    return text if text.isprintable() and len(text) <= KEY_CHARS_SHOWN else shown(text)
