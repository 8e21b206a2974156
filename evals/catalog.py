"""What is known of a suite without running it: its definition, and the state of its data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evals import errors, suite_data, suite_definition, suite_file
from evals.suite import Suite
from evals.suite_data import State
from evals.suite_definition import Definition

SHIPPED = Path(__file__).resolve().parent / "suites"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One suite in a list."""

    name: str
    language: str
    kind: str
    examples: int
    license: str
    terms: str
    """What the license asks beyond naming the authors; empty where nothing."""
    address: str
    """Where the data was published; empty where it comes with the definition."""
    state: State
    reasons: tuple[str, ...]
    """Why the data cannot be used; empty where it can."""


def shipped() -> tuple[Path, ...]:
    """Definitions that come with the product, by path."""
    return tuple(sorted(SHIPPED.rglob("*.yaml")))


def entry(path: Path, data_dir: Path) -> Entry:
    """The suite defined at `path`; its files are read and compared, its examples are not made.

    Raises:
        SuiteInvalid: the definition is malformed.
        SuiteUnavailable: the definition cannot be read.
    """
    definition = suite_definition.read(path)
    state, reasons, examples = _state(definition, path, data_dir)
    source = definition.source
    return Entry(
        name=definition.name,
        language=definition.language,
        kind=str(definition.kind),
        examples=examples,
        license=definition.license,
        terms="" if source is None else source.terms,
        address="" if source is None else suite_data.origin(source, definition.license).address,
        state=state,
        reasons=reasons,
    )


def _state(
    definition: Definition, path: Path, data_dir: Path
) -> tuple[State, tuple[str, ...], int]:
    if definition.source is None:
        try:
            return State.PRESENT, (), len(suite_file.load(path).examples)
        except errors.SuiteUnavailable as exc:
            is_there = (path.parent / str(definition.data)).exists()
            return State.CHANGED if is_there else State.ABSENT, (str(exc),), 0
    examples = definition.examples or 0
    found = suite_data.read(definition.source, data_dir)
    if isinstance(found, tuple):
        return found[0].state, tuple(suite_data.reasons(found)), examples
    return State.PRESENT, (), examples


def facts(suite: Suite) -> Iterator[str]:
    """What identifies a loaded suite, for people."""
    yield f"{len(suite.examples)} examples"
    if suite.sample is not None and suite.sample.kept < suite.sample.total:
        yield f"sample of {suite.sample.total} sha256:{suite.sample.sha256[:12]}"
    yield suite.digest[:19]
