"""A suite: examples to answer, what a right answer is, and where they come from.

The values only; `evals.suite_file` reads them. A suite is either exactly the one that was reviewed
or an error: everything that can change an outcome or a decision is in its digest.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from evals.m2 import Edit

FORMAT = "liftlock/suite/v1"


class SuiteKind(StrEnum):
    """What counts as right."""

    CORRECTION = "correction"  # the output equals one of the references
    CLEAN = "clean"  # the source has no error, and the output leaves it alone
    SPELLING = "spelling"  # scored like a correction; one misspelled word in a sentence
    MINIMAL_PAIRS = "minimal-pairs"  # the source is more probable than the contrast
    ACCEPTABILITY = "acceptability"  # acceptable if there is a reference, not if there is none


class Grouping(StrEnum):
    """What a suite's examples are also judged by, besides all together."""

    TAGS = "tags"  # one group per tag; an example with two tags is in two groups


class Clustering(StrEnum):
    """What the examples of one cluster share; they are resampled together."""

    DOCUMENT = "document"  # one text by one author
    PARADIGM = "paradigm"  # one template that pairs are made from
    SENTENCE = "sentence"  # one sentence with an error here or there


_METRICS_BY_KIND = {
    SuiteKind.CORRECTION: ("exact",),
    SuiteKind.CLEAN: ("false_positive",),
    SuiteKind.SPELLING: ("exact",),
    SuiteKind.MINIMAL_PAIRS: ("pair_accuracy",),
    SuiteKind.ACCEPTABILITY: (),  # how to tell acceptable from not is for the suite to say
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One input with the outputs that are right, and the kinds of error it holds."""

    id: str
    source: str
    """The input; of a minimal pair the grammatical sentence."""
    references: tuple[str, ...]
    """Right outputs, one per annotator, repeated where they agree; none for a minimal pair."""
    tags: tuple[str, ...] = ()
    cluster: str | None = None
    """Name of the cluster that this example belongs to; None stands for itself."""
    edits: tuple[tuple[Edit, ...], ...] = ()
    """Gold edits of each annotator on the source split at white space; an empty inner tuple is an
    annotator who found no error, an empty outer one that nobody marked edits."""
    contrast: str = ""
    """The ungrammatical sentence of a minimal pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where the data was published."""

    address: str
    """URL of a repository at a commit, or a package with its version."""
    sha256: str
    """Hex digits over names and checksums of all files, in the form of `sha256sum`."""
    license: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A suite that holds only some of its data, chosen by hash."""

    kept: int
    total: int
    sha256: str
    """Hex digits over the ids that were kept, one a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginHint:
    """How much worse a metric may get on this suite, if a gate policy does not say otherwise."""

    metric: str
    points: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Examples in a fixed order."""

    name: str
    language: str
    kind: SuiteKind
    license: str
    description: str
    group_by: Grouping | None
    data_sha256: str
    """Hex digits: of the data file's bytes, or of the examples where a converter made them."""
    examples: tuple[Example, ...]
    metrics: tuple[str, ...] = ()
    """Names in the metric registry, the headline first; none takes the default of the kind."""
    cluster: Clustering | None = None
    source: Source | None = None
    sample: Sample | None = None
    margins: tuple[MarginHint, ...] = ()

    def __post_init__(self) -> None:
        if not self.metrics:
            object.__setattr__(self, "metrics", _METRICS_BY_KIND[self.kind])

    @property
    def digest(self) -> str:
        """`sha256:<hex>` over everything that can change an outcome or a decision.

        License, description, source and margin hints are left out: rewording one must not
        invalidate outcomes. What has its default is left out, so that a new field changes no
        digest of before.
        """
        content: dict[str, object] = {
            "format": FORMAT,
            "name": self.name,
            "language": self.language,
            "kind": str(self.kind),
            "group_by": None if self.group_by is None else str(self.group_by),
            "data_sha256": self.data_sha256,
        }
        if self.metrics != _METRICS_BY_KIND[self.kind]:
            content["metrics"] = self.metrics
        if self.cluster is not None:
            content["cluster"] = str(self.cluster)
        if self.sample is not None:
            content["sample"] = self.sample.sha256
        return "sha256:" + hashlib.sha256(_canonical(content)).hexdigest()

    @property
    def tags(self) -> tuple[str, ...]:
        """Every tag of the examples, sorted; empty unless the suite is grouped by tags."""
        if self.group_by is not Grouping.TAGS:
            return ()
        return tuple(sorted({tag for example in self.examples for tag in example.tags}))


def examples_sha256(examples: Iterable[Example]) -> str:
    """Hex digits over the examples as they are, so that a changed converter is a changed suite."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(_canonical(dataclasses.asdict(example)) + b"\n")
    return digest.hexdigest()


def load(path: Path, *, data_dir: Path | None = None) -> Suite:
    """Reads and verifies the suite defined in the YAML file at `path`.

    `data_dir` is the data directory that a suite with a `source` finds its files in.

    Raises:
        SuiteUnavailable: a file is absent, or the data does not have the sha256 it should have.
        SuiteInvalid: definition or data is malformed; names the file and, for data, the line.
    """
    from evals import suite_file  # it imports the values above

    return suite_file.load(path, data_dir=data_dir)


def _canonical(content: object) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
