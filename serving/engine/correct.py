"""`POST /v1/corrections`: texts in, corrected texts and edits out.

The prompt template and the generation settings are the manifest's, the ones the model was
evaluated with. A sentence whose correction was cut off or came back empty is left as it was, and
the answer says which and why: half a sentence is worse than an uncorrected one.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any

from registry.manifest import Manifest
from serving.engine import corrections, gather, protocol
from serving.engine.completions import check_length, check_model, usage
from serving.engine.errors_http import ApiError, invalid
from serving.engine.exchange import Answer, Call
from serving.engine.metrics import Metrics
from serving.engine.state import ReplicaState

_KNOWN = frozenset({"text", "texts", "model", "user"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sentence:
    """A sentence of one of the texts, and the request that corrects it."""

    text_index: int
    part: corrections.Segment
    source: str
    request: protocol.GenerateRequest


_Done = tuple[_Sentence, protocol.GenerateResult]


class Corrections:
    """The handler of the route."""

    def __init__(
        self,
        engine: protocol.Engine,
        state: ReplicaState,
        manifest: Manifest,
        metrics: Metrics,
    ) -> None:
        self._engine = engine
        self._state = state
        self._manifest = manifest
        self._metrics = metrics

    async def __call__(self, call: Call) -> Answer:
        """One result for `text`, a list of them for `texts`."""
        body = call.json_object()
        texts = self._texts(body)
        sentences = self._sentences(texts, call.request_id)
        room = asyncio.Semaphore(self._state.limits.max_parallel_sentences)
        results = await gather.all_of([self._generate(s.request, room) for s in sentences])
        prompt, completion = protocol.total_tokens(results)
        self._metrics.tokens(prompt=prompt, completion=completion)
        done: list[list[_Done]] = [[] for _ in texts]
        for sentence, result in zip(sentences, results, strict=True):
            done[sentence.text_index].append((sentence, result))
        corrected = [self._assemble(text, d) for text, d in zip(texts, done, strict=True)]
        identity = self._state.identity
        head = {
            "id": f"corr-{call.request_id}",
            "model": identity.model,
            "version": identity.version,
            "digest": identity.digest,
        }
        many = {"results": corrected} if "texts" in body else corrected[0]
        return Answer.json({**head, **many, "usage": usage(prompt, completion)})

    def _texts(self, body: dict[str, Any]) -> list[str]:
        unknown = sorted(set(body) - _KNOWN)
        if unknown:
            raise invalid(
                unknown[0], f"unknown field {unknown[0]!r}; there are {sorted(_KNOWN)}",
                "unknown_field",
            )  # fmt: skip
        check_model(body, self._state.identity.model, required=False)
        if ("text" in body) == ("texts" in body):
            raise invalid("text", "give either text or texts", "missing_field")
        name = "text" if "text" in body else "texts"
        given = [body[name]] if name == "text" else body[name]
        if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
            expected = "a string" if name == "text" else "a list of strings"
            raise invalid(name, f"{name} must be {expected}", "invalid_type")
        if not given or not all(given):
            raise invalid(name, f"{name} must not be empty", "empty_text")
        return given

    def _sentences(self, texts: Sequence[str], request_id: str) -> list[_Sentence]:
        most = self._state.limits.max_sentences
        found = itertools.chain.from_iterable(
            ((index, text, part) for part in corrections.segments(text))
            for index, text in enumerate(texts)
        )
        pieces = list(itertools.islice(found, most + 1))
        if len(pieces) > most or len(texts) > most:
            raise ApiError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                "too_many_sentences",
                f"more than {most} sentences or texts in one request; send them in parts",
                param="text",
            )
        return [
            self._sentence(index, part, text[part.start : part.end], request_id)
            for index, text, part in pieces
        ]

    def _sentence(
        self, index: int, part: corrections.Segment, source: str, request_id: str
    ) -> _Sentence:
        settings = self._manifest.generation
        try:
            ids = self._engine.encode(self._manifest.prompt.render(source))
        except protocol.RequestRejected as exc:
            raise invalid("text", str(exc), "context_length_exceeded") from exc
        check_length(len(ids), settings.max_tokens, self._engine.max_model_len_tokens, param="text")
        request = protocol.GenerateRequest(
            request_id=protocol.unique_id(request_id),
            prompt_token_ids=ids,
            max_tokens=settings.max_tokens,
            temperature=settings.temperature,
            top_p=settings.top_p,
            stop=settings.stop,
            seed=settings.seed,
        )
        return _Sentence(text_index=index, part=part, source=source, request=request)

    async def _generate(
        self, request: protocol.GenerateRequest, room: asyncio.Semaphore
    ) -> protocol.GenerateResult:
        async with room:
            return await self._engine.generate(request)

    def _assemble(self, text: str, done: Sequence[_Done]) -> dict[str, Any]:
        """The result for one text."""
        bodies: list[str] = []
        changes: list[dict[str, Any]] = []
        unchanged: list[dict[str, Any]] = []
        for sentence, result in done:
            choice = result.choices[0]
            body = self._manifest.prompt.parse(choice.text)
            reason = _why_left(choice, body)
            if reason is not None:
                unchanged.append({**asdict(sentence.part), "reason": reason})
                body = sentence.source
            bodies.append(body)
            found = corrections.edits(sentence.source, body, offset=sentence.part.start)
            changes += [asdict(edit) for edit in found]
        cut = any(item["reason"] == protocol.FinishReason.LENGTH for item in unchanged)
        return {
            "corrected": corrections.rejoin(text, bodies, [s.part for s, _ in done]),
            "edits": changes,
            "finish_reason": protocol.FinishReason.LENGTH if cut else protocol.FinishReason.STOP,
            "unchanged": unchanged,
        }


def _why_left(choice: protocol.Choice, body: str) -> str | None:
    """Why a sentence keeps its source, or None where the correction is taken."""
    if choice.finish_reason is protocol.FinishReason.LENGTH:
        return choice.finish_reason
    return None if body else "empty"
