"""`promotion.yaml`: everything that shapes a promotion, typed, with unknown keys refused.

The one idea: the settings are an input like the checkpoint is. They have a digest, are stored with
the promotion, and the verdict is bound to that digest. Defaults make the demo work.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from evals.policy import GatePolicy
from pipelines import retired_keys
from pipelines.errors import ConfigInvalid
from pipelines.recipe import Recipe
from pipelines.rollout_policy import RolloutPolicy
from pipelines.waivers import WaiverPolicy
from registry import reading, strict_yaml
from registry.engine_settings import EngineSettings
from registry.model import check_model_name, content_digest
from registry.wording import shown, unknown_key
from serving.slo import SLO

MAX_BYTES = 64 << 10
"""Size of a settings file; reading YAML takes its time."""
MAX_DURATION_S = 7 * 24 * 3600
MAX_NUMBER = 10**15
MAX_FRONT_ENDS = 64
FAULTS_SHOWN = 10
_EXPONENT = re.compile(r"[-+]?[0-9.]+[eE][-+]?[0-9]+")
SETTINGS_FILE = "promotion.yaml"
"""The settings as they lie on a run; also what a file of them is called."""
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
    max_waiting: int = 1_024
    """Sentences or prompts that wait for the engine; requests beyond are answered 429."""
    front_ends: int = 1
    """Processes that answer HTTP on the one engine; one carries about 700 requests/s."""
    engine: EngineSettings = field(default_factory=EngineSettings)
    """vLLM settings, the same for evaluation and serving."""

    def __post_init__(self) -> None:
        if self.cpus_per_replica <= 0:
            raise ValueError(f"cpus_per_replica must be above 0, got {self.cpus_per_replica}")
        if self.gpus_per_replica < 0:
            raise ValueError(f"gpus_per_replica must be at least 0, got {self.gpus_per_replica}")
        if self.max_in_flight < 1:
            raise ValueError(f"max_in_flight must be at least 1, got {self.max_in_flight}")
        if self.max_waiting < 1:
            raise ValueError(f"max_waiting must be at least 1, got {self.max_waiting}")
        if not 1 <= self.front_ends <= MAX_FRONT_ENDS:
            raise ValueError(f"front_ends must be 1..{MAX_FRONT_ENDS}, got {self.front_ends}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionConfig:
    """All settings of a promotion."""

    model: str = "grammar"
    """Registered model name, and the name callers use."""
    slo: SLO = field(default_factory=SLO)
    recipe: Recipe = field(default_factory=Recipe)
    suites: tuple[str, ...] = ("synthetic-erroneous", "synthetic-clean")
    """Names of shipped suites, or paths of suite files relative to this one."""
    data_dir: str | None = None
    """Folder of published data, relative to this file; the environment and --data-dir win."""
    gates: GatePolicy = field(default_factory=GatePolicy)
    rollout: RolloutPolicy = field(default_factory=RolloutPolicy)
    resources: Resources = field(default_factory=Resources)
    evidence_max_age_days: float = 30.0
    """Outcomes and verdicts older than this are made again."""
    noise_run: bool = True
    """Evaluate a champion a second time, so that reports show how much it differs from itself."""
    waivers: WaiverPolicy = field(default_factory=WaiverPolicy)
    """Whether a person may let a candidate pass a gate that did not pass."""
    pointer: str | None = None
    """Object-store URI that already holds the files; None uploads them to MLflow's artifacts."""

    def __post_init__(self) -> None:
        check_model_name(self.model)
        if not self.evidence_max_age_days > 0:
            raise ValueError(
                f"evidence_max_age_days must be above 0, got {self.evidence_max_age_days}"
            )
        if not self.suites:
            raise ValueError("suites must name at least one suite; a gate needs something to judge")
        twice = next((name for name in self.suites if self.suites.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"suites must name each suite once, names {twice} twice")

    @property
    def digest(self) -> str:
        """Identity of the settings; verdicts are bound to it.

        Where data lies is left out: what it is, is in the digests of the suites.
        """
        content = self.as_dict()
        del content["data_dir"]
        return content_digest(content)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as YAML would hold it."""
        plain: dict[str, Any] = dataclasses.asdict(self)
        return plain

    def to_yaml(self) -> str:
        """The settings as a promotion.yaml."""
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
        raw = _read(path)
    if model is not None and isinstance(raw, dict):
        raw = {**raw, "model": model}
    return parse(raw, source=str(path) if path else "the default settings")


def parse_text(text: str, *, source: str) -> PromotionConfig:
    """Reads settings that were stored, such as those on a run, perhaps by an earlier release.

    Raises:
        ConfigInvalid: as `load`.
    """
    return parse(retired_keys.without(_from_yaml(text, source=source)), source=source)


def _read(path: Path) -> Any:
    try:
        return _from_yaml(reading.read_text(path, MAX_BYTES), source=f"settings file {path}")
    except reading.Unreadable as exc:
        raise ConfigInvalid(f"settings file {path} {exc}") from exc


def _from_yaml(text: str, *, source: str) -> Any:
    """The plain data of a settings file; ConfigInvalid where it is not YAML, or more than that."""
    try:
        raw = strict_yaml.parse(text)
    except ValueError as exc:
        raise ConfigInvalid(f"{source} cannot be read as YAML: {exc}") from exc
    return {} if raw is None else raw


def _check_model(name: str) -> None:
    try:
        check_model_name(name)
    except ValueError as exc:
        raise ConfigInvalid(f"--model: {exc}") from exc


def parse(raw: Any, *, source: str) -> PromotionConfig:
    """Checks plain data against the schema.

    Raises:
        ConfigInvalid: with the first faults found, and how many more there are.
    """
    from pydantic import TypeAdapter, ValidationError

    if not isinstance(raw, dict):
        raise ConfigInvalid(f"{source} must hold settings (key: value), holds {type(raw).__name__}")
    faults = [*_unknown_keys(PromotionConfig, raw, ""), *_endless(raw, "")]
    if faults:
        raise ConfigInvalid(f"{source}: {_some(faults)}")
    try:
        # As JSON, because strict there means what one expects of YAML too: a list may become a
        # tuple and a text an enum, but `yes` is no number and `8` no text.
        plain = json.dumps(raw, allow_nan=False)
        return TypeAdapter(PromotionConfig).validate_json(plain, strict=True)
    except ValidationError as exc:
        faults = [f"{'.'.join(map(str, e['loc'])) or 'settings'}: {_told(e)}" for e in exc.errors()]
        raise ConfigInvalid(f"{source}: {_some(faults)}") from exc
    except (ValueError, TypeError) as exc:  # from json: NaN, or a date
        raise ConfigInvalid(f"{source} holds what settings cannot: {exc}") from exc


def _some(faults: list[str]) -> str:
    more = len(faults) - FAULTS_SHOWN
    return "; ".join([*faults[:FAULTS_SHOWN], *([f"and {more} more faults"] if more > 0 else [])])


def _told(fault: Any) -> str:
    """pydantic's message, with what was found where the message does not say it."""
    found = fault["input"]
    if isinstance(found, str) and _EXPONENT.fullmatch(found) and fault["type"] == "float_type":
        return f"{fault['msg']}, is {found!r}: YAML wants a point and a sign, as in 1.0e-3"
    return str(fault["msg"]) if isinstance(found, dict) else f"{fault['msg']}, is {shown(found)}"


def _endless(raw: Any, prefix: str) -> Iterator[str]:
    """Numbers that nobody means: durations past a week, or past what a clock can hold."""
    items = raw.items() if isinstance(raw, dict) else enumerate(raw)
    for key, value in items:
        name = f"{prefix}{key}"
        if isinstance(value, dict | list):
            yield from _endless(value, f"{name}.")
        elif not isinstance(value, int | float):
            continue
        elif str(key).endswith("_s") and value > MAX_DURATION_S:
            yield f"{name} must be at most {MAX_DURATION_S} seconds (a week), is {shown(value)}"
        elif abs(value) > MAX_NUMBER:
            yield f"{name} must be at most {MAX_NUMBER}, is {shown(value)}"


def _unknown_keys(cls: type, raw: Mapping[Any, Any], prefix: str) -> Iterator[str]:
    hints = typing.get_type_hints(cls)
    for key, value in raw.items():
        kind = hints.get(key)
        name = f"{prefix}{key}"
        if kind is None and (instead := retired_keys.RETIRED.get(name)) is not None:
            yield f"{name} {instead}"
        elif kind is None:
            yield unknown_key(key, hints, prefix)
        elif dataclasses.is_dataclass(kind) and isinstance(value, dict):
            yield from _unknown_keys(typing.cast(type, kind), value, f"{name}.")
        elif isinstance(value, list):
            yield from _unknown_in_items(kind, value, name)


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
        if os.path.isfile(path):  # unlike Path.is_file also of a name too long
            return path.resolve()
        raise ConfigInvalid(f"suite file {shown(str(path))} does not exist, or is not a file")
    shipped = {_suite_name(p): p for p in sorted(SHIPPED_SUITES.rglob("*.yaml"))}
    if name not in shipped:
        raise ConfigInvalid(
            f"suite {shown(name)} is not shipped; known: {', '.join(sorted(shipped))}. A path must "
            "end in .yaml"
        )
    return shipped[name]


def _suite_name(path: Path) -> str:
    return str(yaml.safe_load(path.read_text(encoding="utf-8")).get("name"))
