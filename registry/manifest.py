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

FORMAT = "liftlock/manifest/v1"
PLACEHOLDER = "{text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One file of the checkpoint; `path` is relative to its directory, with forward slashes."""

    path: str
    size_bytes: int
    sha256: str

    def __post_init__(self) -> None:
        parts = self.path.split("/")
        if not self.path or "\\" in self.path or any(p in ("", ".", "..") for p in parts):
            raise ValueError(f"manifest path {self.path!r} does not stay in the checkpoint")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """How a text becomes a prompt and a completion becomes a corrected text."""

    template: str

    def __post_init__(self) -> None:
        if self.template.count(PLACEHOLDER) != 1:
            raise ValueError(
                f"prompt template must hold {PLACEHOLDER} exactly once, found "
                f"{self.template.count(PLACEHOLDER)} in {self.template!r}"
            )

    def render(self, text: str) -> str:
        """The prompt for one text. Plain replacement, so braces in the text are harmless."""
        return self.template.replace(PLACEHOLDER, text)

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
        if not 1 <= self.max_tokens <= 32_768:
            raise ValueError(f"generation max_tokens must be 1..32768, got {self.max_tokens}")
        if not 0.0 <= self.temperature <= 2.0:
            raise ValueError(f"generation temperature must be 0..2, got {self.temperature}")
        if not 0.0 < self.top_p <= 1.0:
            raise ValueError(f"generation top_p must be above 0 and at most 1, got {self.top_p}")


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
            raw = json.loads(text)
            manifest = cls(
                files=tuple(FileEntry(**f) for f in raw["files"]),
                prompt=Prompt(**raw["prompt"]),
                generation=Generation(
                    **{**raw["generation"], "stop": tuple(raw["generation"]["stop"])}
                ),
            )
            stored = raw["digest"]
        except (KeyError, TypeError) as exc:
            raise ValueError(f"not a liftlock manifest: {exc!r}") from exc
        if stored != manifest.digest:
            raise ValueError(
                f"manifest digest {stored} does not match its content {manifest.digest}; "
                "the manifest was edited after it was made"
            )
        return manifest
