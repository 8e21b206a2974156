"""Reads a suite: its definition, its verified data, and the examples in it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import pydantic

from evals import errors, sampling, suite_data, suite_definition, textfile
from evals.suite import Example, MarginHint, Sample, Suite, SuiteKind, examples_sha256
from evals.suite_definition import Definition, faults
from registry import reading, strict_json
from registry.wording import check_line

ID_LIMIT_CHARS = 1000
TAG_LIMIT_CHARS = 100
"""A tag is a part of the names of gates and metrics; MLflow's may have 250 characters."""
REFERENCE_LIMIT = 100

NonEmpty = Annotated[str, pydantic.StringConstraints(min_length=1)]


class _Line(pydantic.BaseModel):
    """One line of the data file; unknown keys are errors."""

    model_config = pydantic.ConfigDict(extra="forbid")

    id: NonEmpty
    source: NonEmpty
    references: tuple[NonEmpty, ...] = ()
    tags: tuple[NonEmpty, ...] = ()
    cluster: NonEmpty | None = None
    contrast: str = ""

    def example(self) -> Example:
        return Example(
            id=self.id,
            source=self.source,
            references=self.references,
            tags=self.tags,
            cluster=self.cluster,
            contrast=self.contrast,
        )


def load(path: Path, *, data_dir: Path | None = None) -> Suite:
    """Reads and verifies the suite defined in the YAML file at `path`.

    Raises:
        SuiteUnavailable: a file is absent, or the data does not have the sha256 it should have.
        SuiteInvalid: definition or data is malformed; names the file and, for data, the line.
    """
    definition = suite_definition.read(path)
    _check_metrics(definition, path)
    if definition.source is None or definition.converter is None:
        return _beside(definition, path, str(definition.data), str(definition.sha256))
    files = suite_data.read(definition.source, data_dir)
    if isinstance(files, tuple):
        raise suite_data.unavailable(definition.name, files)
    return _converted(definition, path, definition.converter.examples(files))


def _check_metrics(definition: Definition, path: Path) -> None:
    from evals import metrics  # numpy, which the command line does not need otherwise

    for name in (*definition.metrics, *definition.margin_points):
        try:
            metrics.get(name)
        except errors.SuiteInvalid as exc:
            raise errors.SuiteInvalid(f"suite definition {path}: {exc}") from exc


def _check_fit(definition: Definition, example: Example) -> None:
    from evals import metrics

    for name in (*definition.metrics, *definition.margin_points):
        problem = metrics.misfit(name, example)
        if problem is not None:
            raise errors.SuiteInvalid(f"suite {definition.name}: metric {name}: {problem}")


def _beside(definition: Definition, path: Path, data_name: str, sha256: str) -> Suite:
    """A suite whose data file lies beside its definition."""
    data_path = path.parent / data_name
    data = _verified(data_path, sha256)
    examples = tuple(_lines(data_path, data, definition))
    if not examples:
        raise errors.SuiteInvalid(f"suite data {data_path} holds no example; add at least one")
    return _suite(definition, examples, sha256, None)


def _converted(definition: Definition, path: Path, made: Iterable[Example]) -> Suite:
    """A suite of what a converter made of published files."""
    found = _checked(made, definition)
    examples = tuple(item for item in found if definition.keep is None or _left_alone(item))
    sample = None
    if definition.sample is not None:
        options = definition.sample
        examples, sample = sampling.stratified(examples, options.size, options.strata)
    if len(examples) != definition.examples:
        raise errors.SuiteInvalid(
            f"suite definition {path}: examples says {definition.examples}, the data gives "
            f"{len(examples)}; review what changed and write the number that is right"
        )
    return _suite(definition, examples, examples_sha256(examples), sample)


def _suite(
    definition: Definition, examples: tuple[Example, ...], sha256: str, sample: Sample | None
) -> Suite:
    _check_fit(definition, examples[0])
    source = definition.source
    return Suite(
        name=definition.name,
        language=definition.language,
        kind=definition.kind,
        license=definition.license,
        description=definition.description,
        group_by=definition.group_by,
        data_sha256=sha256,
        examples=examples,
        metrics=definition.metrics,
        cluster=definition.cluster,
        source=None if source is None else suite_data.origin(source, definition.license),
        sample=sample,
        margins=tuple(
            MarginHint(metric=metric, points=points)
            for metric, points in sorted(definition.margin_points.items())
        ),
    )


def _checked(examples: Iterable[Example], definition: Definition) -> Iterator[Example]:
    """Passes on examples that the kind of suite can use, with ids of their own."""
    seen: set[str] = set()
    for example in examples:
        if example.id in seen:
            raise errors.SuiteInvalid(
                f"suite {definition.name}: two examples have the id {example.id!r}; ids pair the "
                "answers of two models, so each must be unique"
            )
        seen.add(example.id)
        problem = _problem(example, definition)
        if problem:
            raise errors.SuiteInvalid(
                f"suite {definition.name}: example {example.id!r}: {problem}; "
                "check kind and converter options of the definition"
            )
        yield example


def _problem(example: Example, definition: Definition) -> str | None:
    """What makes an example useless for its suite."""
    if definition.cluster is not None and example.cluster is None:
        return f"it belongs to no {definition.cluster}"
    if len(example.references) > REFERENCE_LIMIT:
        return f"it has {len(example.references):,} references, more than {REFERENCE_LIMIT}"
    texts = (example.source, example.contrast, *example.references, example.cluster or "")
    found = (textfile.not_text(text) or textfile.too_long(text) for text in texts)
    return (
        next((problem for problem in found if problem), None)
        or _wrong_name(example)
        or _wrong_for(definition, example)
    )


def _wrong_name(example: Example) -> str | None:
    """Why the id or a tag cannot name anything: both are shown line by line."""
    names = [("id", example.id, ID_LIMIT_CHARS)]
    names += [("tags", tag, TAG_LIMIT_CHARS) for tag in example.tags]
    for key, name, most_chars in names:
        if not name.strip():
            return f"{key}: it is blank"
        try:
            check_line(f"{key}: it", name, most_chars)
        except ValueError as exc:
            return str(exc)
    return None


def _wrong_for(definition: Definition, example: Example) -> str | None:
    """The fields that an example of this kind must and must not have."""
    kind = definition.kind
    if not example.source.strip():
        return "its source is empty"
    if kind is SuiteKind.MINIMAL_PAIRS:
        return _wrong_pair(example)
    if example.contrast:
        return f"contrast: only minimal pairs have one, this is a {kind} suite"
    if not example.references and kind is not SuiteKind.ACCEPTABILITY:
        return "references: at least one is needed"
    if kind is SuiteKind.CLEAN and definition.keep is None and not _is_clean(example):
        return "references: none is the source itself, so the sentence is not clean"
    return None


def _wrong_pair(example: Example) -> str | None:
    if not example.contrast.strip():
        return "contrast: a minimal pair needs a second sentence"
    if example.contrast.split() == example.source.split():
        return "contrast: both sentences of the pair are the same"
    return None


def _is_clean(example: Example) -> bool:
    wanted = example.source.split()
    return any(reference.split() == wanted for reference in example.references)


def _left_alone(example: Example) -> bool:
    wanted = example.source.split()
    return bool(example.references) and all(
        reference.split() == wanted for reference in example.references
    )


def _verified(path: Path, expected_sha256: str) -> bytes:
    try:
        data = reading.read_bytes(path, textfile.FILE_LIMIT_BYTES)
    except reading.Unreadable as exc:
        raise errors.SuiteUnavailable(
            f"suite file {path} {exc}; fetch the data or drop the suite from the configuration"
        ) from exc
    found = hashlib.sha256(data).hexdigest()
    if found != expected_sha256:
        raise errors.SuiteUnavailable(
            f"suite data {path} was changed: expected sha256 {expected_sha256}, found {found}; "
            "restore the file, or review the change and name the new sha256 in the definition"
        )
    return data


def _lines(path: Path, data: bytes, definition: Definition) -> Iterator[Example]:
    seen: dict[str, int] = {}
    for number, line in enumerate(textfile.lines(data, str(path)), start=1):
        if not line.text.strip():
            continue
        example = _example(line, definition)
        if example.id in seen:
            raise errors.SuiteInvalid(
                f"{line.where}: id {example.id!r} was used on line {seen[example.id]} already; "
                "ids pair the answers of two models, so each must be unique"
            )
        seen[example.id] = number
        yield example


def _example(line: textfile.Line, definition: Definition) -> Example:
    try:
        example = _Line.model_validate(strict_json.parse(line.text)).example()
    except pydantic.ValidationError as exc:
        raise errors.SuiteInvalid(f"{line.where}: {faults(exc)}") from exc
    except ValueError as exc:
        raise errors.SuiteInvalid(f"{line.where}: not a JSON object: {exc}") from exc
    problem = _problem(example, definition)
    if problem:
        raise errors.SuiteInvalid(f"{line.where}: {problem}")
    return example
