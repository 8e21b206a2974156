"""One vLLM engine in this process, from a checkpoint directory and its manifest.

Prompt template, stop strings and sampling come from the manifest and from nowhere else, so what
is evaluated is what is served. The engine core runs in this process, not in a child of it: start
is faster, and what goes wrong inside arrives here as an exception that can be explained.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from evals import errors, tokens
from evals.model import TOO_LONG, Answer, Ask, OnAnswer
from registry.engine_settings import EngineSettings, context_tokens
from registry.manifest import Generation, Manifest

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
        if "_c::" in text:  # vLLM's compiled kernels
            return f"{what}; this build of vLLM has no such kernel for this hardware"
        if "architecture" in text:
            return f"{what}; this vLLM cannot run the architecture named in config.json"
        if isinstance(exc, MemoryError) or "memory" in text:
            return (
                f"{what}; lower engine kv_cache_gib ({self._settings.kv_cache_gib}), "
                "max_num_seqs or max_model_len_tokens, or free memory on this machine"
            )
        return f"{what}; check that the directory is a complete checkpoint this vLLM supports"

    def cannot(self, ask: Ask) -> str | None:
        """An engine can do everything."""
        return None

    def check(self, ask: Ask, inputs: Sequence[str]) -> None:
        """Refuses an input that fits the model and not the settings, for they can be changed.

        Raises:
            ContextTooShort: with the position of the first such input.
        """
        stated, room = context_tokens(self._checkpoint_dir), self._room(ask)
        allowed = min(stated, self._settings.max_model_len_tokens)
        for number, ids in enumerate(self._encode(ask, inputs)):
            needed = len(ids) + room
            if allowed < needed <= stated:
                raise errors.ContextTooShort(
                    number,
                    f"{len(ids)} tokens of input and {room} for the answer do not fit "
                    f"engine max_model_len_tokens {self._settings.max_model_len_tokens}; raise it "
                    f"to {needed} or more, the model itself takes {stated:,}",
                )

    def answer(self, ask: Ask, inputs: Sequence[str], on_answer: OnAnswer) -> None:
        """Answers every input, all sent at once; `TOO_LONG` where the model has no room for it.

        The rule is the endpoint's: what a prompt and the longest answer need must fit the context.

        Raises:
            EvaluationFailed: the engine failed on the way.
        """
        context = min(context_tokens(self._checkpoint_dir), self._settings.max_model_len_tokens)
        longest = context - self._room(ask)
        fitting: list[int] = []
        prompts: list[list[int]] = []
        for number, ids in enumerate(self._encode(ask, inputs)):
            if len(ids) > longest:
                on_answer(number, Answer(finish_reason=TOO_LONG, prompt_tokens=len(ids)))
            else:
                fitting.append(number)
                prompts.append(ids)
        params = sampling_params(ask, self._manifest.generation)
        try:
            with contextlib.closing(self._outputs(prompts, params)) as outputs:
                for position, output in outputs:
                    on_answer(fitting[position], _answer(ask, output))
        except (ValueError, RuntimeError, MemoryError) as exc:
            raise errors.EvaluationFailed(
                f"the engine failed on {len(prompts):,} inputs: {_first_line(exc)}; "
                "lower engine max_num_seqs or kv_cache_gib if it was memory, else report it"
            ) from exc

    def forget(self) -> None:
        """Drops what is kept of earlier prompts, so that the same ones are the same work again."""
        self._llm.reset_prefix_cache()

    def _outputs(
        self, prompts: list[list[int]], params: Any
    ) -> Generator[tuple[int, Any], None, None]:
        """Each finished output with its position, in the order in which they finish.

        `LLM.generate` is the same loop and hands out nothing before its end.
        """
        from vllm.inputs.engine import tokens_input

        core = self._llm.llm_engine
        given = [
            core.add_request(str(number), tokens_input(ids), params)
            for number, ids in enumerate(prompts)
        ]
        try:
            while core.has_unfinished_requests():
                for output in core.step():
                    if output.finished:
                        yield int(output.request_id), output
        finally:
            if core.has_unfinished_requests():  # whoever took the outputs has given up
                core.abort_request(given, internal=True)

    def _encode(self, ask: Ask, inputs: Sequence[str]) -> list[list[int]]:
        encode = tokens.prompt_ids if ask is Ask.TEXT else tokens.sentence_ids
        return encode(self._llm.get_tokenizer(), inputs)

    def _room(self, ask: Ask) -> int:
        """Tokens that an answer may take; the engine always writes one."""
        return self._manifest.generation.max_tokens if ask is Ask.TEXT else 1


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


def sampling_params(ask: Ask, generation: Generation) -> Any:
    """vLLM's parameters: the manifest's generation settings, or the least work for a likelihood."""
    import vllm
    from vllm.sampling_params import RequestOutputKind

    if ask is Ask.LIKELIHOOD:
        return vllm.SamplingParams(
            max_tokens=1,
            temperature=0.0,
            prompt_logprobs=0,  # of the tokens that are there, and of no others
            flat_logprobs=True,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
    return vllm.SamplingParams(
        max_tokens=generation.max_tokens,
        stop=list(generation.stop),
        temperature=generation.temperature,
        top_p=generation.top_p,
        seed=generation.seed,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def _answer(ask: Ask, output: Any) -> Answer:
    choice = output.outputs[0]
    prompt_tokens = len(output.prompt_token_ids)
    if ask is Ask.LIKELIHOOD:
        # The first token has no probability: nothing comes before it.
        logprob = math.fsum(output.prompt_logprobs.logprobs)
        return Answer(finish_reason="stop", logprob=logprob, prompt_tokens=prompt_tokens)
    return Answer(
        finish_reason=str(choice.finish_reason),
        text=choice.text,
        prompt_tokens=prompt_tokens,
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
