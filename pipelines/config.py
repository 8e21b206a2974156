"""`promotion.yaml`: everything that shapes a promotion, typed, with unknown keys refused.

The one idea: the settings are an input like the checkpoint is. They have a digest, are stored with
the promotion, and the verdict is bound to that digest. Defaults make the demo work.
"""

from __future__ import annotations

import dataclasses
import difflib
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from evals.policy import GatePolicy
from pipelines.errors import ConfigInvalid
from pipelines.recipe import Recipe
from pipelines.rollout import RolloutPolicy
from registry.engine_settings import EngineSettings
from registry.model import check_model_name, content_digest
from serving.slo import SLO

SHIPPED_SUITES = Path(__file__).resolve().parent.parent / "evals" / "suites"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one replica gets."""

    cpus_per_replica: float = 1.0
    """Ray CPUs reserved per replica."""
    gpus_per_replica: float = 0.0
    """Ray GPUs reserved per replica; 1 in production."""
    max_in_flight: int = 256
    """Requests one replica accepts at once; more are answered 429."""
    engine: EngineSettings = field(default_factory=EngineSettings)
    """vLLM settings, the same for evaluation and serving."""

    def __post_init__(self) -> None:
        if self.cpus_per_replica <= 0:
            raise ValueError(f"cpus_per_replica must be above 0, got {self.cpus_per_replica}")
        if self.gpus_per_replica < 0:
            raise ValueError(f"gpus_per_replica must be at least 0, got {self.gpus_per_replica}")
        if self.max_in_flight < 1:
            raise ValueError(f"max_in_flight must be at least 1, got {self.max_in_flight}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionConfig:
    """All settings of a promotion."""

    model: str = "grammar"
    """Registered model name, and the name callers use."""
    slo: SLO = field(default_factory=SLO)
    recipe: Recipe = field(default_factory=Recipe)
    suites: tuple[str, ...] = ("synthetic-erroneous", "synthetic-clean")
    """Names of shipped suites, or paths of suite files relative to this one."""
    gates: GatePolicy = field(default_factory=GatePolicy)
    rollout: RolloutPolicy = field(default_factory=RolloutPolicy)
    resources: Resources = field(default_factory=Resources)
    pointer: str | None = None
    """Object-store URI that already holds the files; None uploads them to MLflow's artifacts."""

    def __post_init__(self) -> None:
        check_model_name(self.model)
        if not self.suites:
            raise ValueError("suites must name at least one suite; a gate needs something to judge")

    @property
    def digest(self) -> str:
        """Identity of the settings; verdicts are bound to it."""
        return content_digest(self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as YAML would hold it."""
        plain: dict[str, Any] = dataclasses.asdict(self)
        return plain

    def to_yaml(self) -> str:
        """The settings as a promotion.yaml."""
        import json

        return yaml.safe_dump(json.loads(json.dumps(self.as_dict())), sort_keys=False)


def load(path: Path | None, *, model: str | None = None) -> PromotionConfig:
    """Reads a settings file, or the defaults where none is given.

    Args:
        path: the YAML file.
        model: the model name from the command line; it wins over the file's.

    Raises:
        ConfigInvalid: unreadable, an unknown key, a wrong type or a value out of range.
    """
    raw: Any = {}
    if model is not None:
        _check_model(model)
    if path is not None:
        try:
            raw = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        except RecursionError as exc:
            raise ConfigInvalid(f"{path} is nested too deeply to be settings") from exc
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as exc:
            raise ConfigInvalid(f"{path} cannot be read as YAML: {exc}") from exc
    if model is not None and isinstance(raw, dict):
        raw = {**raw, "model": model}
    return parse(raw, source=str(path) if path else "the default settings")


def _check_model(name: str) -> None:
    try:
        check_model_name(name)
    except ValueError as exc:
        raise ConfigInvalid(f"--model: {exc}") from exc


def parse(raw: Any, *, source: str) -> PromotionConfig:
    """Checks plain data against the schema.

    Raises:
        ConfigInvalid: with every fault found, one per line.
    """
    from pydantic import TypeAdapter, ValidationError

    if not isinstance(raw, dict):
        raise ConfigInvalid(f"{source} must hold settings (key: value), holds {type(raw).__name__}")
    unknown = list(_unknown_keys(PromotionConfig, raw, ""))
    if unknown:
        raise ConfigInvalid(f"{source}: " + "; ".join(unknown))
    try:
        return TypeAdapter(PromotionConfig).validate_python(raw)
    except ValidationError as exc:
        faults = [f"{'.'.join(map(str, e['loc'])) or 'settings'}: {e['msg']}" for e in exc.errors()]
        raise ConfigInvalid(f"{source}: " + "; ".join(faults)) from exc


def _unknown_keys(cls: type, raw: Mapping[Any, Any], prefix: str) -> Iterator[str]:
    hints = typing.get_type_hints(cls)
    for key, value in raw.items():
        kind = hints.get(key)
        if kind is None:
            close = difflib.get_close_matches(str(key), hints, n=1)
            hint = (
                f", did you mean {close[0]}?" if close else f"; known: {', '.join(sorted(hints))}"
            )
            yield f"unknown key {prefix}{key}{hint}"
        elif dataclasses.is_dataclass(kind) and isinstance(value, dict):
            yield from _unknown_keys(typing.cast(type, kind), value, f"{prefix}{key}.")
        elif isinstance(value, list):
            yield from _unknown_in_items(kind, value, f"{prefix}{key}")


def _unknown_in_items(kind: Any, items: list[Any], prefix: str) -> Iterator[str]:
    (item_kind, *_) = typing.get_args(kind) or (None,)
    if not dataclasses.is_dataclass(item_kind):
        return
    for number, item in enumerate(items):
        if isinstance(item, dict):
            yield from _unknown_keys(typing.cast(type, item_kind), item, f"{prefix}[{number}].")


def suite_path(name: str, *, relative_to: Path | None) -> Path:
    """The definition file of a suite named in the settings.

    Raises:
        ConfigInvalid: neither a shipped suite nor a file.
    """
    if name.endswith((".yaml", ".yml")):
        path = (relative_to or Path.cwd()) / name
        if path.is_file():
            return path.resolve()
        raise ConfigInvalid(f"suite file {path} does not exist")
    shipped = {_suite_name(p): p for p in sorted(SHIPPED_SUITES.rglob("*.yaml"))}
    if name not in shipped:
        raise ConfigInvalid(
            f"suite {name!r} is not shipped; known: {', '.join(sorted(shipped))}. A path must end "
            "in .yaml"
        )
    return shipped[name]


def _suite_name(path: Path) -> str:
    return str(yaml.safe_load(path.read_text(encoding="utf-8")).get("name"))
