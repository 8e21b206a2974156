"""Fixtures of the journal's tests, on the fake and on a real MLflow."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.proxy import Proxy, proxied
from tests.registry.journal_story import MODEL, Home
from tests.registry.mlflow_story import Story


@pytest.fixture(scope="session")
def wanted(mlflow_uri: str, tmp_path_factory: pytest.TempPathFactory) -> list[Mapping[str, Any]]:
    """The evidence of a promotion in fine weather."""
    story = Story(mlflow_uri, tmp_path_factory.mktemp("fine"))
    story.tell(mlflow_uri)
    assert not story.folder.exists()
    return story.settled()


@pytest.fixture
def through(mlflow_uri: str) -> Iterator[tuple[str, Proxy]]:
    """MLflow behind a proxy."""
    with proxied(mlflow_uri) as both:
        yield both


@pytest.fixture
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that write thousands of lines; that each is synced is tested where it is done."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A machine with a journal, and a record behind it."""
    return Home(tmp_path / "journal" / MODEL)
