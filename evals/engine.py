"""One vLLM engine in this process, from a checkpoint directory and its manifest.

Prompt template, stop strings and sampling come from the manifest and from nowhere else, so what
is evaluated is what is served. The engine core runs in this process, not in a child of it: start
is faster, and what goes wrong inside arrives here as an exception that can be explained.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from evals import errors
from registry.engine_settings import EngineSettings
from registry.manifest import Generation, Manifest

OnProgress = Callable[[int, int], None]
"""Called with (done, total) completions."""

ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",  # standard output is for progress
    "VLLM_LOGGING_LEVEL": "WARNING",
    "HF_HUB_OFFLINE": "1",  # a checkpoint is complete or invalid; nothing is fetched
    "TOKENIZERS_PARALLELISM": "false",
}
OVERRIDING = ("VLLM_CPU_KVCACHE_SPACE",)
"""Variables by which an outer environment would override the settings."""

_MESSAGE_CHARS = 240
"""Enough of vLLM's message to act on; it may go on to list every architecture it knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The raw text after one prompt. `finish_reason` is vLLM's: stop, length, abort, error."""

    text: str
    finish_reason: str
    prompt_tokens: int
    output_tokens: int


class Engine:
    """A running engine, as a context manager.

    Raises (on entering):
        EvaluationFailed: the engine cannot be built; the message says why and what to do.
    """

    def __init__(self, checkpoint_dir: Path, manifest: Manifest, settings: EngineSettings) -> None:
        self._checkpoint_dir = checkpoint_dir
        self._manifest = manifest
        self._settings = settings
        self._llm: Any = None
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(environment())
        try:
            self._llm = self._build()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._llm.llm_engine.engine_core.shutdown()
        self._llm = None
        self._stack.close()

    def _build(self) -> Any:
        if not (self._checkpoint_dir / "config.json").is_file():
            raise errors.EvaluationFailed(
                f"{self._checkpoint_dir} is not a checkpoint directory: it has no config.json; "
                "name the directory that holds the weights and the tokenizer"
            )
        kwargs = self._settings.engine_kwargs(str(self._checkpoint_dir))
        try:
            import vllm

            return vllm.LLM(**kwargs)
        except (ImportError, ValueError, RuntimeError, MemoryError, OSError, KeyError) as exc:
            raise errors.EvaluationFailed(self._explain(exc)) from exc

    def _explain(self, exc: BaseException) -> str:
        what = f"cannot start the engine on {self._checkpoint_dir}: {_first_line(exc)}"
        text = str(exc).lower()
        if isinstance(exc, ImportError):
            return f"{what}; install the extra `cpu` or `cuda` of this project"
        if "architecture" in text:
            return f"{what}; this vLLM cannot run the architecture named in config.json"
        if isinstance(exc, MemoryError) or "memory" in text:
            return (
                f"{what}; lower engine kv_cache_gib ({self._settings.kv_cache_gib}), "
                "max_num_seqs or max_model_len_tokens, or free memory on this machine"
            )
        return f"{what}; check that the directory is a complete checkpoint this vLLM supports"

    def prompt_tokens(self, prompt: str) -> int:
        """Tokens of one prompt, special tokens included."""
        return len(self._llm.get_tokenizer()(prompt).input_ids)

    def complete(
        self, prompts: Sequence[str], on_progress: OnProgress | None = None
    ) -> tuple[Completion, ...]:
        """Completions in the order of the prompts, all sent at once.

        Raises:
            EvaluationFailed: a prompt does not fit, or the engine failed while generating.
        """
        self._check_lengths(prompts)
        progress: Any = False if on_progress is None else _Progress.reporting(on_progress)
        try:
            answers = self._llm.generate(
                list(prompts), sampling_params(self._manifest.generation), use_tqdm=progress
            )
        except (ValueError, RuntimeError, MemoryError) as exc:
            raise errors.EvaluationFailed(
                f"the engine failed on {len(prompts):,} prompts: {_first_line(exc)}; "
                "lower engine max_num_seqs or kv_cache_gib if it was memory, else report it"
            ) from exc
        return tuple(_completion(answer) for answer in answers)

    def _check_lengths(self, prompts: Sequence[str]) -> None:
        limit = self._settings.max_model_len_tokens
        for number, prompt in enumerate(prompts):
            tokens = self.prompt_tokens(prompt)
            if tokens >= limit:
                raise errors.EvaluationFailed(
                    f"prompt {number} has {tokens} tokens, which leaves no room for an answer in "
                    f"max_model_len_tokens {limit}; raise it, or shorten the example: "
                    f"{prompt[:60]!r}"
                )


class _Progress:
    """The part of tqdm that vLLM uses, reporting counts instead of drawing a bar."""

    def __init__(self, on_progress: OnProgress, total: int) -> None:
        self.n = 0
        self.postfix = ""
        self.format_dict = {"elapsed": float("inf")}  # vLLM divides by it for a speed nobody reads
        self._total = total
        self._on_progress = on_progress

    @classmethod
    def reporting(cls, on_progress: OnProgress) -> Callable[..., Any]:
        """What vLLM calls to make its bars: one while adding prompts, one while running them."""

        def make(iterable: Any = None, *, total: int = 0, **_: object) -> Any:
            return cls(on_progress, total) if iterable is None else iterable

        return make

    def update(self, n: int) -> None:
        self.n += n
        self._on_progress(self.n, self._total)

    def refresh(self) -> None:
        """Nothing is drawn, so nothing is redrawn."""

    def close(self) -> None:
        """Nothing is held open."""


@contextlib.contextmanager
def environment() -> Iterator[None]:
    """Sets what vLLM reads from the environment, for the life of the engine in this process."""
    names = (*ENVIRONMENT, *OVERRIDING)
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(ENVIRONMENT)
    for name in OVERRIDING:
        os.environ.pop(name, None)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def sampling_params(generation: Generation) -> Any:
    """The manifest's generation settings as vLLM's."""
    import vllm

    return vllm.SamplingParams(
        max_tokens=generation.max_tokens,
        stop=list(generation.stop),
        temperature=generation.temperature,
        top_p=generation.top_p,
        seed=generation.seed,
    )


def _completion(answer: Any) -> Completion:
    choice = answer.outputs[0]
    return Completion(
        text=choice.text,
        finish_reason=str(choice.finish_reason),
        prompt_tokens=len(answer.prompt_token_ids),
        output_tokens=len(choice.token_ids),
    )


def _first_line(exc: BaseException) -> str:
    """What a message says first, without the heading and the input that pydantic puts around it."""
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
    if len(lines) > 1 and "validation error" in lines[0]:
        lines = lines[1:]
    text = lines[0] if lines else type(exc).__name__
    text = text.removeprefix("Value error, ").partition(" [type=")[0].rstrip(".")
    return text if len(text) <= _MESSAGE_CHARS else f"{text[:_MESSAGE_CHARS]}..."
