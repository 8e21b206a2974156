"""What a checkpoint is, as data: files, prompt template, generation settings, one digest.

The prompt template and the generation settings are part of the digest because a model evaluated
with one template and served with another is a different model. Evaluation, serving and shadow
read both from here and nowhere else.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from registry import strict_json
from registry.wording import shown

FORMAT = "liftlock/manifest/v1"
PLACEHOLDER = "{text}"
LANGUAGE_PLACEHOLDER = "{language}"
MAX_TEMPLATE_CHARS = 20_000
MAX_STOPS, MAX_STOP_CHARS = 16, 200
"""Far above what prompts need; the engine compares every stop text with every token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One file of the checkpoint; `path` is relative to its directory, with forward slashes."""

    path: str
    size_bytes: int
    sha256: str

    def __post_init__(self) -> None:
        check_path(self.path)
        _require_type("size_bytes", self.size_bytes, int)
        _require_type("sha256", self.sha256, str)


def check_path(path: str) -> None:
    """Refuses a path that leaves the checkpoint, or that cannot be stored and printed as it is.

    Raises:
        ValueError: with what is wrong.
    """
    _require_type("path", path, str)
    if "\\" in path or any(p in ("", ".", "..") for p in path.split("/")):
        raise ValueError(f"manifest path {shown(path)} does not stay in the checkpoint")
    if not path.isprintable():
        raise ValueError(
            f"manifest path {shown(path)} holds characters that cannot be printed; rename the file"
        )


def _require_type(name: str, value: object, *kinds: type) -> None:
    """The values also come from files that somebody else wrote. A boolean is never a number."""
    if not isinstance(value, kinds) or isinstance(value, bool):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"{name} must be of type {wanted}, is {shown(value)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """How a text becomes a prompt and a completion becomes a corrected text."""

    template: str

    def __post_init__(self) -> None:
        _require_type("template", self.template, str)
        if self.template.count(PLACEHOLDER) != 1:
            raise ValueError(
                f"prompt template must hold {PLACEHOLDER} exactly once, found "
                f"{self.template.count(PLACEHOLDER)} in {shown(self.template)}"
            )
        if len(self.template) > MAX_TEMPLATE_CHARS:
            raise ValueError(
                f"prompt template has {len(self.template)} characters, at most "
                f"{MAX_TEMPLATE_CHARS} are accepted"
            )

    def render(self, text: str, *, language: str = "") -> str:
        """The prompt for one text. Plain replacement, so braces in the text are harmless.

        `language` goes where the template says `{language}`; evaluation names none.
        """
        before, after = (
            part.replace(LANGUAGE_PLACEHOLDER, language)
            for part in self.template.split(PLACEHOLDER)
        )
        return f"{before}{text}{after}"

    def parse(self, completion: str) -> str:
        """The corrected text in a completion: surrounding white space belongs to the template."""
        return completion.strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """Sampling settings a correction is made with. Greedy by default, so outcomes repeat."""

    max_tokens: int
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        _require_type("max_tokens", self.max_tokens, int)
        _require_type("temperature", self.temperature, int, float)
        _require_type("top_p", self.top_p, int, float)
        _require_type("seed", self.seed, int, type(None))
        if not 1 <= self.max_tokens <= 32_768:
            raise ValueError(f"max_tokens must be 1..32768, got {shown(self.max_tokens)}")
        if not 0.0 <= self.temperature <= 2.0:
            raise ValueError(f"temperature must be 0..2, got {shown(self.temperature)}")
        if not 0.0 < self.top_p <= 1.0:
            raise ValueError(f"top_p must be above 0 and at most 1, got {shown(self.top_p)}")
        if self.seed is not None and not 0 <= self.seed < 1 << 63:
            raise ValueError(f"seed must be 0 to 2**63 - 1, got {shown(self.seed)}")
        self._check_stop()

    def _check_stop(self) -> None:
        fits = all(isinstance(s, str) and 0 < len(s) <= MAX_STOP_CHARS for s in self.stop)
        if not fits or len(self.stop) > MAX_STOPS:
            raise ValueError(
                f"stop must be a list of at most {MAX_STOPS} texts of 1..{MAX_STOP_CHARS} "
                f"characters, is {shown(list(self.stop))}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Everything that identifies a checkpoint.

    `digest` is sha256 over the canonical JSON of files, prompt and generation: two directories
    with the same bytes and the same settings have the same digest, wherever they lie.
    """

    files: tuple[FileEntry, ...]
    prompt: Prompt
    generation: Generation

    @property
    def digest(self) -> str:
        """`sha256:<64 hex digits>` of the canonical content."""
        canonical = json.dumps(self._content(), sort_keys=True, separators=(",", ":"))
        return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def size_bytes(self) -> int:
        """Sum of the file sizes, in bytes."""
        return sum(entry.size_bytes for entry in self.files)

    def _content(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "files": [dataclasses.asdict(f) for f in sorted(self.files, key=lambda f: f.path)],
            "prompt": dataclasses.asdict(self.prompt),
            "generation": {**dataclasses.asdict(self.generation)},
        }

    def to_json(self) -> str:
        """The stored form, with the digest beside the content it covers."""
        return json.dumps({**self._content(), "digest": self.digest}, indent=2, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Reads the stored form.

        Raises:
            ValueError: the text is not such a manifest, or its digest does not match its content.
        """
        try:
            raw = strict_json.parse(text)
            manifest = cls(
                files=tuple(FileEntry(**f) for f in raw["files"]),
                prompt=Prompt(**raw["prompt"]),
                generation=Generation(
                    **{**raw["generation"], "stop": tuple(raw["generation"]["stop"])}
                ),
            )
            stored = raw["digest"]
        except (KeyError, TypeError) as exc:
            raise ValueError(f"not a liftlock manifest: {shown(exc)}") from exc
        if stored != manifest.digest:
            raise ValueError(
                f"manifest digest {shown(stored)} does not match its content {manifest.digest}; "
                "the manifest was edited after it was made"
            )
        return manifest
