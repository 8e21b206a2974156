"""How a prompt is to be continued, as OpenAI's clients say it, and the engine requests of it.

The fields are the same for completions and chat; only defaults differ: OpenAI's own where the
caller writes the prompt, the manifest's where the manifest's template does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from registry.manifest import Generation
from serving.engine import fields, protocol
from serving.engine.errors_http import invalid

HONORED = frozenset(
    {"model", "temperature", "top_p", "n", "stop", "seed", "stream", "stream_options", "user",
     "version", "logprobs", "max_tokens"}
)  # fmt: skip
# What OpenAI's two routes have in common, with the values at which it does nothing.
OFF: dict[str, tuple[object, ...]] = {
    "frequency_penalty": (None, 0, 0.0),
    "logit_bias": (None, {}),
    "presence_penalty": (None, 0, 0.0),
}
MOST_STOPS = 4  # OpenAI's


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What holds where the caller says nothing. `stop` holds beside what the caller gives."""

    temperature: float = 1.0
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int | None = None

    @classmethod
    def of(cls, settings: Generation) -> Defaults:
        """The manifest's."""
        return cls(
            temperature=settings.temperature,
            top_p=settings.top_p,
            stop=settings.stop,
            seed=settings.seed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Checked settings of one body."""

    temperature: float
    top_p: float
    n: int
    stop: tuple[str, ...]
    seed: int | None
    stream: bool
    include_usage: bool

    @classmethod
    def parse(cls, body: dict[str, Any], defaults: Defaults, *, most_n: int) -> Sampling:
        """Reads the fields.

        Raises:
            ApiError: 400, naming the field.
        """
        fields.string(body, "user", default="")
        n = fields.integer(body, "n", default=1, low=1, high=most_n)
        temperature = fields.number(
            body, "temperature", default=defaults.temperature, low=0.0, high=2.0
        )
        if n > 1 and temperature == 0.0:
            raise invalid(
                "n", "n above 1 needs a temperature above 0: greedy choices are all alike"
            )
        given_stop = fields.strings(body, "stop", most=MOST_STOPS)
        given_seed = fields.optional_integer(body, "seed", low=-(2**63), high=2**63 - 1)
        stream = fields.boolean(body, "stream", default=False)
        return cls(
            temperature=temperature,
            top_p=_top_p(body, defaults.top_p),
            n=n,
            stop=tuple(dict.fromkeys((*defaults.stop, *given_stop))),
            seed=defaults.seed if given_seed is None else given_seed,
            stream=stream,
            include_usage=_include_usage(body, stream=stream),
        )

    def request(
        self,
        request_id: str,
        prompt_token_ids: tuple[int, ...],
        *,
        max_tokens: int,
        logprobs: int | None,
    ) -> protocol.GenerateRequest:
        """The engine request for one prompt."""
        return protocol.GenerateRequest(
            request_id=protocol.unique_id(request_id),
            prompt_token_ids=prompt_token_ids,
            max_tokens=max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            n=self.n,
            stop=self.stop,
            seed=self.seed,
            logprobs=logprobs,
        )


def max_tokens(body: dict[str, Any], names: Sequence[str], longest: int) -> tuple[str, int] | None:
    """The caller's limit and the field it came from; None where no such field is given.

    Raises:
        ApiError: 400, out of range, or two of the fields disagree.
    """
    given: tuple[str, int] | None = None
    for name in names:
        value = fields.optional_integer(body, name, low=1, high=longest)
        if value is None:
            continue
        if given is not None and given[1] != value:
            raise invalid(name, f"{name}={value} contradicts {given[0]}={given[1]}; give one")
        given = given or (name, value)
    return given


def _top_p(body: dict[str, Any], default: float) -> float:
    top_p = fields.number(body, "top_p", default=default, low=0.0, high=1.0)
    if top_p == 0.0:
        raise invalid("top_p", "top_p must be above 0; for the likeliest token use temperature 0")
    return top_p


def _include_usage(body: dict[str, Any], *, stream: bool) -> bool:
    options = body.get("stream_options")
    if options is None:
        return False
    if not isinstance(options, dict) or set(options) - {"include_usage"} or not stream:
        raise invalid(
            "stream_options", 'stream_options must be {"include_usage": true} and needs stream'
        )
    return fields.boolean(options, "include_usage", default=False)
