"""`POST /v1/corrections`: texts in, corrected texts and edits out.

The prompt template and the generation settings are the manifest's, the ones the model was
evaluated with. A sentence whose correction was cut off or came back empty is left as it was, and
the answer says which and why: half a sentence is worse than an uncorrected one.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any

from registry.manifest import Manifest
from serving.engine import corrections, fields, gather, language, offsets, protocol, shapes
from serving.engine.checks import check_length, check_model, check_version, token_ids
from serving.engine.errors_http import ApiError, invalid
from serving.engine.exchange import Answer, Call
from serving.engine.metrics import Metrics
from serving.engine.state import ReplicaState

KNOWN = frozenset({"text", "texts", "model", "user", "offsets", "language", "version"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """How the caller wants its texts corrected."""

    language: str = ""
    """A BCP 47 tag, empty where the caller names none."""
    unit: offsets.Unit = offsets.Unit.CODE_POINTS

    @classmethod
    def parse(cls, body: dict[str, Any]) -> Wish:
        """Reads `language` and `offsets`.

        Raises:
            ApiError: 400, naming the field.
        """
        unit = fields.string(body, "offsets", default=offsets.Unit.CODE_POINTS)
        if unit not in set(offsets.Unit):
            raise invalid("offsets", f"offsets must be code_points or utf16, got {unit[:40]!r}")
        return cls(language=language.read(body), unit=offsets.Unit(unit))


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected:
    """The results, one for each text, and what they took."""

    results: list[dict[str, Any]]
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sentence:
    """A sentence of one of the texts, and the request that corrects it."""

    text_index: int
    part: corrections.Segment
    source: str
    request: protocol.GenerateRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class _Done:
    """What became of a sentence."""

    part: corrections.Segment
    body: str
    reason: str | None
    """Why it was left as it was, None where it was not."""
    edits: tuple[corrections.Edit, ...]
    result: protocol.GenerateResult


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
        done = await self.correct(texts, Wish.parse(body), call.request_id)
        identity = self._state.identity
        head = {
            "id": f"corr-{call.request_id}",
            "model": identity.model,
            "version": identity.version,
            "digest": identity.digest,
        }
        many = {"results": done.results} if "texts" in body else done.results[0]
        usage = shapes.usage(done.prompt_tokens, done.completion_tokens)
        return Answer.json({**head, **many, "usage": usage})

    async def correct(self, texts: Sequence[str], wish: Wish, request_id: str) -> Corrected:
        """The texts corrected, as many sentences of them at once as one request may have.

        Raises:
            ApiError: a text is too long, or there are too many.
        """
        sentences = self._sentences(texts, wish, request_id)
        room = asyncio.Semaphore(self._state.limits.max_parallel_sentences)
        all_done = await gather.all_of([self._correct(each, room) for each in sentences])
        prompt, completion = protocol.total_tokens([each.result for each in all_done])
        self._metrics.tokens(prompt=prompt, completion=completion)
        done: list[list[_Done]] = [[] for _ in texts]
        for sentence, each in zip(sentences, all_done, strict=True):
            done[sentence.text_index].append(each)
        return Corrected(
            results=[
                self._assemble(text, d, wish.unit) for text, d in zip(texts, done, strict=True)
            ],
            prompt_tokens=prompt,
            completion_tokens=completion,
        )

    def _texts(self, body: dict[str, Any]) -> list[str]:
        unknown = sorted(set(body) - KNOWN)
        if unknown:
            raise invalid(
                unknown[0], f"unknown field {unknown[0]!r}; there are {sorted(KNOWN)}",
                "unknown_field",
            )  # fmt: skip
        check_model(body, self._state.identity.model, required=False)
        check_version(body, self._state.identity.version)
        fields.string(body, "user", default="")
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

    def _sentences(self, texts: Sequence[str], wish: Wish, request_id: str) -> list[_Sentence]:
        most = self._state.limits.max_sentences
        found = itertools.chain.from_iterable(
            ((index, text, part) for part in corrections.segments(text))
            for index, text in enumerate(texts[: most + 1])
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
            _Sentence(
                text_index=index,
                part=part,
                source=text[part.start : part.end],
                request=self._request(text[part.start : part.end], wish, request_id),
            )
            for index, text, part in pieces
        ]

    def _request(self, source: str, wish: Wish, request_id: str) -> protocol.GenerateRequest:
        settings = self._manifest.generation
        prompt = self._manifest.prompt.render(source, language=wish.language)
        ids = token_ids(self._engine, prompt, "text")
        check_length(len(ids), settings.max_tokens, self._engine.max_model_len_tokens, param="text")
        return protocol.GenerateRequest(
            request_id=protocol.unique_id(request_id),
            prompt_token_ids=ids,
            max_tokens=settings.max_tokens,
            temperature=settings.temperature,
            top_p=settings.top_p,
            stop=settings.stop,
            seed=settings.seed,
        )

    async def _correct(self, sentence: _Sentence, room: asyncio.Semaphore) -> _Done:
        """One sentence, its edits too: those of a document at once would hold the event loop."""
        async with room:
            result = await self._engine.generate(sentence.request)
        choice = result.choices[0]
        body = self._manifest.prompt.parse(choice.text)
        reason = _why_left(choice, body)
        if reason is not None:
            body = sentence.source
        edits = corrections.edits(sentence.source, body, offset=sentence.part.start)
        return _Done(part=sentence.part, body=body, reason=reason, edits=edits, result=result)

    def _assemble(self, text: str, done: Sequence[_Done], unit: offsets.Unit) -> dict[str, Any]:
        """The result for one text."""
        place = offsets.converter(text, unit)
        cut = any(each.reason == protocol.FinishReason.LENGTH for each in done)
        return {
            "corrected": corrections.rejoin(
                text, [each.body for each in done], [each.part for each in done]
            ),
            "edits": [_placed(edit, place) for each in done for edit in each.edits],
            "offsets": unit,
            "finish_reason": protocol.FinishReason.LENGTH if cut else protocol.FinishReason.STOP,
            "unchanged": [
                {**_placed(each.part, place), "reason": each.reason}
                for each in done
                if each.reason is not None
            ],
        }


def _placed(
    part: corrections.Segment | corrections.Edit, place: Callable[[int], int]
) -> dict[str, Any]:
    """A part of the text as it is answered, with its borders in the caller's unit."""
    return {**asdict(part), "start": place(part.start), "end": place(part.end)}


def _why_left(choice: protocol.Choice, body: str) -> str | None:
    """Why a sentence keeps its source, or None where the correction is taken."""
    if choice.finish_reason is protocol.FinishReason.LENGTH:
        return choice.finish_reason
    return None if body else "empty"
