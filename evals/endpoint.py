"""A running endpoint as a model: `/v1/completions` in OpenAI's shape, over HTTP.

The one idea: one request per input and many in flight, so that the endpoint batches as it does
for its callers. Prompts go as text, for the endpoint's tokenizer is part of what is evaluated.
Sentences whose probability is asked for go as token ids, because only so can they begin with the
right token; that needs the checkpoint's tokenizer here, and log-probabilities of prompts (`echo`,
`logprobs`) there.

An endpoint that says its checkpoint's digest is held to it: what serves must not change on the way.
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from evals import errors, tokens
from evals.model import TOO_LONG, Answer, Ask, OnAnswer
from registry.manifest import Generation

IN_FLIGHT = 64
"""Requests at once; the engine's own default batch."""
TIMEOUT_S = 120.0
ATTEMPTS = 6
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 10.0
DIGEST_HEADER = "x-liftlock-digest"
_BUSY = (408, 425, 429, 502, 503, 504)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What an endpoint says it serves."""

    model: str
    digest: str | None
    """Of the checkpoint; None where the endpoint does not say."""
    context_tokens: int | None = None
    """What prompt and answer may have together; None where the endpoint does not say."""


def look(url: str, *, model: str | None, transport: httpx.BaseTransport | None = None) -> Served:
    """Asks an endpoint what it serves.

    Raises:
        EvaluationFailed: it does not answer as such an endpoint does, or serves several models and
            none was chosen.
    """
    address = f"{base(url)}/v1/models"
    try:
        with httpx.Client(timeout=TIMEOUT_S, trust_env=False, transport=transport) as client:
            listed = client.get(address).raise_for_status().json()["data"]
        found = {str(item["id"]): item for item in listed}
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as exc:
        raise errors.EvaluationFailed(
            f"{address} does not list models: {exc}; give the address of an endpoint that runs"
        ) from exc
    chosen = model if model is not None else next(iter(found), "")
    if chosen not in found or (model is None and len(found) > 1):
        raise errors.EvaluationFailed(
            f"{url} serves {', '.join(found) or 'nothing'}; choose one by --served-model"
        )
    context = found[chosen].get("max_model_len")
    return Served(
        model=chosen,
        digest=found[chosen].get("digest"),
        context_tokens=context if isinstance(context, int) else None,
    )


def base(url: str) -> str:
    """The address without the version of the interface, however it was given."""
    return url.rstrip("/").removesuffix("/v1")


class Endpoint:
    """One model behind one address, as a context manager."""

    def __init__(
        self,
        url: str,
        served: Served,
        generation: Generation,
        *,
        checkpoint_dir: Path | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """`checkpoint_dir` holds the tokenizer; None leaves likelihoods out."""
        self._url = f"{base(url)}/v1/completions"
        self._served = served
        self._generation = generation
        self._checkpoint_dir = checkpoint_dir
        self._transport = transport
        self._tokenizer: Any = None
        self._stop = threading.Event()
        self._no_likelihood: str | None = None

    def __enter__(self) -> Self:
        self._client = httpx.Client(
            timeout=TIMEOUT_S,
            trust_env=False,
            transport=self._transport,
            limits=httpx.Limits(max_connections=IN_FLIGHT, max_keepalive_connections=IN_FLIGHT),
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._client.close()

    def cannot(self, ask: Ask) -> str | None:
        """Tries log-probabilities once, on one word."""
        if ask is Ask.TEXT:
            return None
        if self._checkpoint_dir is None:
            return (
                "sentences are given to an endpoint as token ids; name the checkpoint that it "
                "serves, for its tokenizer"
            )
        if self._no_likelihood is None:
            self._no_likelihood = self._try_likelihood()
        return self._no_likelihood or None

    def check(self, ask: Ask, inputs: Sequence[str]) -> None:
        """The endpoint's settings are its own; what it has no room for it refuses."""

    def answer(self, ask: Ask, inputs: Sequence[str], on_answer: OnAnswer) -> None:
        """Answers every input; `TOO_LONG` where the endpoint's context is too short for it.

        Some endpoints shorten an answer for which there is no room and others refuse; both count as
        the engine counts in this process, where the endpoint says how long its context is.

        Raises:
            EvaluationFailed: the endpoint refused, kept failing or changed what it serves.
        """
        bodies = self._bodies(ask, inputs)
        self._stop.clear()
        with ThreadPoolExecutor(IN_FLIGHT, thread_name_prefix="endpoint") as pool:
            waiting: dict[Future[Answer], int] = {}
            try:
                for number, body in enumerate(bodies):
                    waiting[pool.submit(self._ask, ask, body)] = number
                for done in as_completed(waiting):
                    on_answer(waiting.pop(done), done.result())
            except BaseException:
                self._stop.set()
                pool.shutdown(cancel_futures=True)
                raise

    def _bodies(self, ask: Ask, inputs: Sequence[str]) -> list[dict[str, Any]]:
        if ask is Ask.LIKELIHOOD:
            likely = {"max_tokens": 1, "temperature": 0.0, "echo": True, "logprobs": 1}
            return [
                {"model": self._served.model, "prompt": ids, **likely} for ids in self._ids(inputs)
            ]
        generation = self._generation
        settings: dict[str, Any] = {
            "max_tokens": generation.max_tokens,
            "temperature": generation.temperature,
            "top_p": generation.top_p,
            **({"stop": list(generation.stop)} if generation.stop else {}),
            **({"seed": generation.seed} if generation.seed is not None else {}),
        }
        return [{"model": self._served.model, "prompt": text, **settings} for text in inputs]

    def _ids(self, sentences: Sequence[str]) -> list[list[int]]:
        if self._tokenizer is None and self._checkpoint_dir is not None:
            self._tokenizer = tokens.load(self._checkpoint_dir)
        return tokens.sentence_ids(self._tokenizer, sentences)

    def _try_likelihood(self) -> str:
        """Why there are no log-probabilities; empty where there are."""
        [body] = self._bodies(Ask.LIKELIHOOD, ["Yes"])
        reply = self._send(body)
        told = "the endpoint gives no log-probabilities of prompts (echo, logprobs): {}"
        if reply.status_code != httpx.codes.OK:
            return told.format(_message(reply))
        try:
            _logprob(reply.json(), len(body["prompt"]))
        except (KeyError, IndexError, TypeError, ValueError) as exc:
            return told.format(f"its answer has none ({exc!r})")
        return ""

    def _ask(self, ask: Ask, body: Mapping[str, Any]) -> Answer:
        reply = self._send(body)
        if reply.status_code != httpx.codes.OK:
            if _is_too_long(reply):
                return Answer(finish_reason=TOO_LONG)
            raise errors.EvaluationFailed(
                f"{self._url} answered {reply.status_code}: {_message(reply)}; the prompt was "
                f"{str(body['prompt'])[:80]!r}"
            )
        try:
            answer = _answer(ask, reply.json(), body)
            return self._fitting(answer, int(body["max_tokens"]))
        except (KeyError, IndexError, TypeError, ValueError) as exc:
            raise errors.EvaluationFailed(
                f"{self._url} answered in another shape than OpenAI's: {exc!r} in "
                f"{reply.text[:200]!r}"
            ) from exc

    def _fitting(self, answer: Answer, room: int) -> Answer:
        context = self._served.context_tokens
        if context is None or answer.prompt_tokens + room <= context:
            return answer
        return Answer(finish_reason=TOO_LONG, prompt_tokens=answer.prompt_tokens)

    def _send(self, body: Mapping[str, Any]) -> httpx.Response:
        """One request, again after a pause where the endpoint is busy or gone for a moment."""
        for attempt in range(1, ATTEMPTS + 1):
            fault = ""
            try:
                reply = self._client.post(self._url, json=body)
                if reply.status_code not in _BUSY:
                    self._refuse_change(reply)
                    return reply
                fault = f"{reply.status_code}: {_message(reply)}"
            except httpx.HTTPError as exc:
                fault = repr(exc)
            if attempt == ATTEMPTS or self._stop.wait(_pause_s(attempt)):
                break
        raise errors.EvaluationFailed(
            f"{self._url} did not answer in {ATTEMPTS} attempts, last {fault}; look at the "
            "endpoint and run the same command again, it goes on where it stopped"
        )

    def _refuse_change(self, reply: httpx.Response) -> None:
        found = reply.headers.get(DIGEST_HEADER)
        if found is not None and self._served.digest not in (None, found):
            raise errors.EvaluationFailed(
                f"{self._url} served {self._served.digest} at first and serves {found} now; "
                "answers of two checkpoints are no evaluation of either; evaluate again"
            )


def _pause_s(attempt: int) -> float:
    """Twice as long each time, up to a limit, and never the same for all that wait."""
    longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** (attempt - 1))
    return longest * random.uniform(0.5, 1.0)


def _answer(ask: Ask, reply: Mapping[str, Any], body: Mapping[str, Any]) -> Answer:
    choice = reply["choices"][0]
    usage = reply.get("usage") or {}
    if ask is Ask.LIKELIHOOD:
        count = len(body["prompt"])
        return Answer(finish_reason="stop", logprob=_logprob(reply, count), prompt_tokens=count)
    return Answer(
        finish_reason=str(choice["finish_reason"]),
        # JSON can hold halves of characters, which no file can.
        text=str(choice["text"]).encode(errors="replace").decode(),
        prompt_tokens=int(usage.get("prompt_tokens", 0)),
        output_tokens=int(usage.get("completion_tokens", 0)),
    )


def _logprob(reply: Mapping[str, Any], count: int) -> float:
    """The sum over a prompt of `count` tokens; the first has none, what follows was generated."""
    found: list[float] = reply["choices"][0]["logprobs"]["token_logprobs"][1:count]
    if len(found) != count - 1:
        raise ValueError(f"{len(found)} log-probabilities for {count - 1} tokens")
    return math.fsum(found)


def _message(reply: httpx.Response) -> str:
    """What an endpoint says of a fault, in OpenAI's shape or in its own."""
    try:
        fault = reply.json()["error"]
        return str(fault["message"] if isinstance(fault, dict) else fault)[:300]
    except (ValueError, KeyError, TypeError):
        return reply.text[:300]


def _is_too_long(reply: httpx.Response) -> bool:
    """OpenAI's code for it, or vLLM's words."""
    if reply.status_code != httpx.codes.BAD_REQUEST:
        return False
    try:
        code = reply.json()["error"].get("code")
    except (ValueError, KeyError, TypeError, AttributeError):
        code = None
    words = _message(reply).lower()
    return code == "context_length_exceeded" or "context length" in words
