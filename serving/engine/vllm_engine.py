"""The production engine: vLLM's `AsyncLLM` behind the `Engine` protocol.

The one idea: only finished texts cross from the engine process unless the caller streams
(`FINAL_ONLY`), because per-token hand-over is most of a front end's CPU time. The only import of
vLLM on the serving side; everything vLLM raises leaves here as one of our two errors.

Left out: LoRA. How an engine is started and shared is in `vllm_core`.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING

from registry import engine_memory
from serving.engine import protocol

if TYPE_CHECKING:
    from vllm import RequestOutput, SamplingParams
    from vllm.outputs import CompletionOutput
    from vllm.v1.engine.async_llm import AsyncLLM

_MESSAGE_CHARS = 500
_FINISH = {"stop": protocol.FinishReason.STOP, "length": protocol.FinishReason.LENGTH}


class VllmEngine:
    """One `AsyncLLM`. Use from the event loop that was running when it was made."""

    def __init__(self, llm: AsyncLLM) -> None:
        self._llm = llm
        self._tokenizer = llm.get_tokenizer()

    @property
    def max_model_len_tokens(self) -> int:
        """The most tokens prompt and continuation may have together."""
        return int(self._llm.model_config.max_model_len)

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids of a prompt, special tokens included."""
        self._check_chars(text)
        return tuple(self._tokenizer.encode(text))

    def encode_chat(self, messages: Sequence[protocol.Message]) -> tuple[int, ...] | None:
        """Token ids of a conversation in the tokenizer's own template, None where it has none."""
        if not self._tokenizer.chat_template:
            return None
        from jinja2 import TemplateError

        turns = [{"role": each.role, "content": each.content} for each in messages]
        try:
            # transformers renders it in a sandbox; a template refuses by raising.
            text = self._tokenizer.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=True
            )
        except (TemplateError, TypeError, ValueError) as exc:
            raise protocol.RequestRejected(
                f"the model's chat template refuses these messages: {exc}"
            ) from exc
        self._check_chars(text)
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))

    async def generate(self, request: protocol.GenerateRequest) -> protocol.GenerateResult:
        """The finished continuations."""
        final: RequestOutput | None = None
        async with contextlib.aclosing(self._outputs(request, final_only=True)) as outputs:
            async for output in outputs:
                final = output
        if final is None:
            raise protocol.EngineFailed("the engine ended a request without an answer")
        choices = sorted(final.outputs, key=lambda choice: choice.index)
        return protocol.GenerateResult(
            choices=tuple(
                protocol.Choice(
                    index=choice.index,
                    text=choice.text,
                    finish_reason=_finish_reason(choice),
                    logprobs=_logprobs(choice, request.logprobs),
                )
                for choice in choices
            ),
            prompt_tokens=len(request.prompt_token_ids),
            completion_tokens=sum(len(choice.token_ids) for choice in choices),
        )

    async def stream(
        self, request: protocol.GenerateRequest
    ) -> AsyncGenerator[protocol.Delta, None]:
        """The continuations piece by piece."""
        async with contextlib.aclosing(self._outputs(request, final_only=False)) as outputs:
            async for output in outputs:
                for choice in output.outputs:
                    yield protocol.Delta(
                        index=choice.index,
                        text=choice.text,
                        completion_tokens=len(choice.token_ids),
                        finish_reason=_finish_reason(choice) if choice.finish_reason else None,
                        logprobs=_logprobs(choice, request.logprobs),
                    )

    async def check_health(self) -> None:
        """Returns when the engine is alive."""
        from vllm.v1.engine.exceptions import EngineDeadError

        try:
            await self._llm.check_health()
        except EngineDeadError as exc:
            raise protocol.EngineDead(f"the vLLM engine is dead: {exc}") from exc

    def shutdown(self) -> None:
        """Stops the engine and its processes."""
        self._llm.shutdown()

    def _check_chars(self, text: str) -> None:
        """Spares the event loop from tokenizing a megabyte."""
        most_chars = self.max_model_len_tokens * int(self._tokenizer.max_chars_per_token)
        if len(text) > most_chars:
            raise protocol.RequestRejected(
                f"a prompt of {len(text)} characters cannot fit {self.max_model_len_tokens} tokens"
            )

    async def _outputs(
        self, request: protocol.GenerateRequest, *, final_only: bool
    ) -> AsyncGenerator[RequestOutput, None]:
        """vLLM's outputs with its errors translated; ending early aborts the request."""
        from vllm.exceptions import VLLMClientError, VLLMServerError
        from vllm.inputs.engine import tokens_input
        from vllm.v1.engine.exceptions import EngineDeadError

        try:
            outputs = self._llm.generate(
                tokens_input(list(request.prompt_token_ids)),
                _sampling(request, final_only=final_only),
                request.request_id,
            )
            # Without closing, an early end would abort only when the generator is collected.
            async with contextlib.aclosing(outputs):
                async for output in outputs:
                    yield output
        except VLLMClientError as exc:
            raise protocol.RequestRejected(str(exc)) from exc
        except EngineDeadError as exc:
            raise protocol.EngineDead(f"the vLLM engine is dead: {exc}") from exc
        except VLLMServerError as exc:
            raise protocol.EngineFailed(f"the vLLM engine failed on a request: {exc}") from exc


def _sampling(request: protocol.GenerateRequest, *, final_only: bool) -> SamplingParams:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        n=request.n,
        max_tokens=request.max_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        stop=list(request.stop),
        seed=request.seed,
        logprobs=request.logprobs,
        output_kind=RequestOutputKind.FINAL_ONLY if final_only else RequestOutputKind.DELTA,
    )


def _finish_reason(choice: CompletionOutput) -> protocol.FinishReason:
    reason = _FINISH.get(choice.finish_reason or "")
    if reason is None:
        raise protocol.EngineFailed(
            f"the engine ended a completion with {choice.finish_reason!r} instead of stop or length"
        )
    return reason


def _logprobs(
    choice: CompletionOutput, most: int | None
) -> tuple[protocol.TokenLogprob, ...] | None:
    """The tokens of an output as they were taken, with the `most` likeliest in each place.

    vLLM gives per place a dict by token id: the taken one first, then the likeliest by rank.
    """
    if most is None or choice.logprobs is None:
        return None
    found = []
    for token_id, place in zip(choice.token_ids, choice.logprobs, strict=True):
        ranked = sorted(place.values(), key=lambda each: each.rank or 0)
        found.append(
            protocol.TokenLogprob(
                token=place[token_id].decoded_token or "",
                logprob=max(place[token_id].logprob, protocol.LEAST_LOGPROB),
                top=tuple(
                    (each.decoded_token or "", max(each.logprob, protocol.LEAST_LOGPROB))
                    for each in ranked[:most]
                ),
            )
        )
    return tuple(found)


def why_not_started(exc: Exception, checkpoint_dir: str) -> str:
    """What a failed start means to whoever deploys."""
    said = f"{type(exc).__name__}: {' '.join(str(exc).split())[:_MESSAGE_CHARS]}"
    if engine_memory.says(said):
        return engine_memory.told(said)
    return f"the engine did not start on {checkpoint_dir}: {said}"
