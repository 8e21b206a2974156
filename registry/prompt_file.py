"""Reads `prompt.json`: how a checkpoint wants to be asked, and with which generation settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from registry import reading, strict_json
from registry.errors import CheckpointInvalid
from registry.manifest import Generation, Manifest, Prompt
from registry.wording import shown

PROMPT_FILE = "prompt.json"
MANIFEST_FILE = "liftlock-manifest.json"
MAX_JSON_BYTES = 8 << 20
MAX_PROMPT_BYTES = 256 << 10
MAX_MANIFEST_BYTES = 16 << 20


def read_json(path: Path, what: str, *, limit_bytes: int = MAX_JSON_BYTES) -> dict[str, Any]:
    """A JSON object from a file of a checkpoint.

    Raises:
        CheckpointInvalid: names the file and what is wrong with it.
    """
    try:
        value = strict_json.parse(reading.read_text(path, limit_bytes))
    except reading.Unreadable as exc:
        raise CheckpointInvalid(f"{path} ({what}) {exc}") from exc
    except ValueError as exc:
        raise CheckpointInvalid(f"{path} ({what}) cannot be read as JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise CheckpointInvalid(
            f"{path} ({what}) must be a JSON object, is a {type(value).__name__}"
        )
    return value


def read_prompt(directory: Path, prompt_file: Path | None) -> tuple[Prompt, Generation]:
    """How a checkpoint is asked: its `prompt.json`, or the file given for one without it.

    A checkpoint that was registered with a given file and downloaded again has its settings in the
    manifest beside it.

    Raises:
        CheckpointInvalid: neither or both are there, or the file is not as it must be.
    """
    own = directory / PROMPT_FILE
    if own.is_file() and prompt_file is not None and prompt_file.resolve() != own.resolve():
        raise CheckpointInvalid(
            f"{own} and {prompt_file} both give a prompt template; the checkpoint's own is part of "
            "its digest, so drop the option or make a checkpoint with another template"
        )
    source = own if own.is_file() else prompt_file
    if source is None and (directory / MANIFEST_FILE).is_file():
        return _from_manifest(directory / MANIFEST_FILE)
    if source is None:
        raise CheckpointInvalid(
            f"{own} is missing: evaluation and serving need the prompt template and generation "
            'settings, such as {"template": "Correct: {text}\\nFixed:", "max_tokens": 64, '
            '"stop": ["\\n"]}; add the file or give one with --prompt'
        )
    raw = read_json(source, "prompt template and generation settings", limit_bytes=MAX_PROMPT_BYTES)
    return parse_prompt(raw, str(source))


def parse_prompt(raw: Mapping[str, Any], source: str) -> tuple[Prompt, Generation]:
    """Reads `prompt.json`: template and max_tokens are required, the rest has defaults.

    Raises:
        CheckpointInvalid: a key is unknown, missing, of the wrong type or out of range.
    """
    known = {"template", "max_tokens", "stop", "temperature", "top_p", "seed"}
    unknown = sorted(set(raw) - known)
    if unknown:
        raise CheckpointInvalid(
            f"{source}: unknown keys {shown(unknown)}; known are {sorted(known)}"
        )
    absent = [key for key in ("template", "max_tokens") if key not in raw]
    if absent:
        raise CheckpointInvalid(f"{source}: {', '.join(absent)} missing")
    stop = raw.get("stop", [])
    if not isinstance(stop, list):
        raise CheckpointInvalid(f"{source}: stop must be a list of texts, is {shown(stop)}")
    settings = {k: raw[k] for k in ("temperature", "top_p", "seed") if k in raw}
    try:
        generation = Generation(max_tokens=raw["max_tokens"], stop=tuple(stop), **settings)
        return Prompt(template=raw["template"]), generation
    except ValueError as exc:
        raise CheckpointInvalid(f"{source}: {exc}") from exc


def _from_manifest(path: Path) -> tuple[Prompt, Generation]:
    try:
        manifest = Manifest.from_json(reading.read_text(path, MAX_MANIFEST_BYTES))
    except reading.Unreadable as exc:
        raise CheckpointInvalid(f"{path} {exc}") from exc
    except ValueError as exc:
        raise CheckpointInvalid(f"{path} cannot be read: {exc}") from exc
    return manifest.prompt, manifest.generation
