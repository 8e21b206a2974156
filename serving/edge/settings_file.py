"""An edge's settings as a YAML file: typed, in range, with unknown keys refused.

Every field of `serving.edge.config.EdgeSettings` by its name. Relative paths are the file's
neighbors'.
"""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from registry import reading, strict_yaml
from registry.wording import shown, unknown_key
from serving.edge import config
from serving.errors import EdgeError

MAX_BYTES = 64 << 10
_PATHS = (("tls", "certificate"), ("tls", "key"), ("keys", "folder"))


def load(path: Path | None) -> config.EdgeSettings:
    """Read a file of settings; raises EdgeError naming the key and what is wrong with it.

    Without a file they are the defaults.
    """
    if path is None:
        return config.EdgeSettings()
    try:
        raw = strict_yaml.parse(reading.read_text(path, MAX_BYTES))
    except ValueError as exc:  # Unreadable is one
        raise EdgeError(f"edge settings {path}: {exc}") from exc
    raw = {} if raw is None else raw
    if not isinstance(raw, dict):
        raise EdgeError(f"edge settings {path} must hold `key: value`, holds {shown(raw)}")
    faults = list(_unknown(config.EdgeSettings, raw, ""))
    if faults:
        raise EdgeError(f"edge settings {path}: {'; '.join(faults)}")
    return _checked(_beside(raw, path.absolute().parent), path)


def _checked(raw: dict[str, Any], path: Path) -> config.EdgeSettings:
    from pydantic import TypeAdapter, ValidationError

    try:
        # As JSON, where strict lets a list become a tuple and a text a path, and nothing else.
        plain = json.dumps(raw, allow_nan=False)
        return TypeAdapter(config.EdgeSettings).validate_json(plain, strict=True)
    except ValidationError as exc:
        faults = [f"{'.'.join(map(str, e['loc'])) or 'settings'}: {e['msg']}" for e in exc.errors()]
        raise EdgeError(f"edge settings {path}: {'; '.join(faults[:5])}") from exc
    except (ValueError, TypeError) as exc:  # from json: a date, or a key that is no text
        raise EdgeError(f"edge settings {path} hold what settings cannot: {exc}") from exc


def _unknown(cls: type, raw: dict[Any, Any], prefix: str) -> Iterator[str]:
    hints = typing.get_type_hints(cls)
    for key, value in raw.items():
        if key not in hints:
            yield unknown_key(key, hints, prefix)
            continue
        for kind in (hints[key], *typing.get_args(hints[key])):
            if dataclasses.is_dataclass(kind):
                items = value if isinstance(value, list) else [value]
                for item in items:
                    if isinstance(item, dict):
                        yield from _unknown(typing.cast(type, kind), item, f"{key}.")


def _beside(raw: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The settings with paths made absolute."""
    made = dict(raw)
    for block, name in _PATHS:
        known = made.get(block)
        if isinstance(known, dict) and isinstance(known.get(name), str):
            made[block] = {**known, name: str(folder / known[name])}
    return made
