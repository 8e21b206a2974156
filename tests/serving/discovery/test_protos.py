"""Envoy's message classes beside everybody else's packages."""

from __future__ import annotations

import importlib.util

from serving.discovery import protos


def test_packages_of_others_stay_theirs() -> None:
    """xds-protos has an `opentelemetry` too, and MLflow cannot be imported with that."""
    protos.discovery()
    found = importlib.util.find_spec("opentelemetry.trace")
    assert found is not None
    assert not str(found.origin).startswith(str(protos.directory()))
