"""A suite's definition as it is written in YAML; unknown keys are errors.

Two forms: `data` and `sha256` name a file of examples beside the definition; `source` and
`converter` name published files in the data directory and what makes examples of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

import pydantic

from evals import errors, textfile
from evals.converters import AnyConverter
from evals.sampling import Strata
from evals.suite import Clustering, Grouping, SuiteKind
from registry import strict_yaml

DEFINITION_LIMIT_BYTES = 1_000_000

NonEmpty = Annotated[str, pydantic.StringConstraints(min_length=1)]
Name = Annotated[str, pydantic.StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
Sha256 = Annotated[str, pydantic.StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Commit = Annotated[str, pydantic.StringConstraints(pattern=r"^[0-9a-f]{40}$")]
Repository = Annotated[
    str, pydantic.StringConstraints(pattern=r"^https://github\.com/[\w.-]+/[\w.-]+$")
]
_CHECKSUM_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


def _below(value: str) -> str:
    path = PurePosixPath(value)
    if not value or path.is_absolute() or ".." in path.parts or "\\" in value or value == ".":
        raise ValueError(f"must be a path below the folder, got {value!r}")
    return value


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


class Published(_Model):
    """Files of a repository at a commit, in a folder of the data directory."""

    folder: Below
    repository: Repository
    commit: Commit
    files: tuple[File, ...] | Below
    """Or the name of a file beside the definition, in the form of `sha256sum`."""
    notices: tuple[File, ...] = ()
    """License and the like: fetched with the data, not needed to run."""
    thinned: Thinning | None = None
    terms: str = ""
    """What the license asks of a user, where it is more than naming the authors."""
    by_hand: str = ""
    """Why the files must be fetched by hand, and how; empty where they need not be."""


class Packaged(_Model):
    """Files of an installed Python package."""

    package: NonEmpty
    version: NonEmpty
    module: NonEmpty
    """Top-level module whose folder holds the files."""
    files: tuple[File, ...] = pydantic.Field(min_length=1)
    terms: str = ""


class SampleOptions(_Model):
    """Run only some of the examples."""

    size: int = pydantic.Field(ge=1)
    strata: Strata


class Definition(_Model):
    """The YAML file."""

    name: Name
    language: NonEmpty
    kind: SuiteKind
    license: NonEmpty
    description: NonEmpty
    group_by: Grouping | None = None
    data: NonEmpty | None = None
    sha256: Sha256 | None = None
    source: Published | Packaged | None = None
    converter: AnyConverter | None = None
    keep: Literal["left-alone"] | None = None
    """Only sentences that every annotator left alone; what a suite of clean text is made of."""
    sample: SampleOptions | None = None
    examples: int | None = pydantic.Field(default=None, ge=1)
    """How many there must be in the end."""
    metrics: tuple[NonEmpty, ...] = ()
    cluster: Clustering | None = None
    margin_points: dict[NonEmpty, Annotated[float, pydantic.Field(gt=0, le=100)]] = {}

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
        data = path.read_bytes()
        if len(data) > DEFINITION_LIMIT_BYTES:
            raise errors.SuiteInvalid(f"suite definition {path} has {len(data):,} bytes; too many")
        found = Definition.model_validate(strict_yaml.parse(data.decode()))
    except OSError as exc:
        raise errors.SuiteUnavailable(
            f"cannot read suite file {path}: {exc.strerror}; "
            "fetch the data or drop the suite from the configuration"
        ) from exc
    except pydantic.ValidationError as exc:
        raise errors.SuiteInvalid(f"suite definition {path}: {faults(exc)}") from exc
    except RecursionError as exc:
        raise errors.SuiteInvalid(f"suite definition {path} is nested too deeply") from exc
    except ValueError as exc:
        raise errors.SuiteInvalid(f"suite definition {path} is not YAML text: {exc}") from exc
    return _with_files(found, path.parent)


def _with_files(found: Definition, folder: Path) -> Definition:
    source = found.source
    if not isinstance(source, Published) or not isinstance(source.files, str):
        return found
    files = tuple(_checksums(folder / source.files))
    return found.model_copy(update={"source": source.model_copy(update={"files": files})})


def _checksums(path: Path) -> Iterator[File]:
    try:
        data = path.read_bytes()
    except OSError as exc:
        raise errors.SuiteUnavailable(f"cannot read checksums {path}: {exc.strerror}") from exc
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
    """Every fault as `field: what is wrong`, in one line."""
    return "; ".join(
        f"{'.'.join(str(part) for part in fault['loc']) or 'document'}: {fault['msg']}"
        for fault in exc.errors()
    )
