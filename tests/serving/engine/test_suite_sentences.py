"""Edits turn a caller's own string into the corrected text, for each sentence of every suite.

The route is the real one; the engine says what the annotators wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from evals.suite import Example, SuiteKind
from registry.manifest import Generation, Manifest, Prompt
from serving.engine.correct import Corrections, Wish
from serving.engine.corrections import rejoin, segments
from serving.engine.metrics import Metrics
from serving.engine.offsets import Unit
from serving.engine.protocol import Choice, FinishReason, GenerateRequest, GenerateResult
from serving.engine.state import Identity, Limits, Phase, ReplicaState
from tests.evals.test_shipped_suites import EXAMPLES, load
from tests.fakes.engine import FakeEngine

BATCH = 50
QUICK = ("jfleg-dev", "ua-gec-test")
MANIFEST = Manifest(
    files=(), prompt=Prompt(template="{text}"), generation=Generation(max_tokens=12)
)
AROUND = (
    ("", "", ""),
    (
        "\u05e9\u05dc\u05d5\u05dd \U0001f600\r\n",
        "\r\n\r\n",
        " e\u0301 \U0001f468\u200d\U0001f4bb \r\n",
    ),
)
"""Put before, between and behind: right to left, an emoji of three, a combining mark, CRLF."""


class Annotator(FakeEngine):
    """Answers a sentence with what is known of it, else with the sentence."""

    def __init__(self) -> None:
        super().__init__(max_model_len_tokens=100_000)
        self.known: Mapping[str, str] = {}
        self._prompts: list[str] = []

    def encode(self, text: str) -> tuple[int, ...]:
        self._prompts.append(text)
        return (len(self._prompts) - 1,)

    async def generate(self, request: GenerateRequest) -> GenerateResult:
        prompt = self._prompts[request.prompt_token_ids[0]]
        choice = Choice(
            index=0, text=self.known.get(prompt, prompt), finish_reason=FinishReason.STOP
        )
        return GenerateResult(choices=(choice,), prompt_tokens=1, completion_tokens=1)


def applied(text: str, edits: list[dict[str, Any]], unit: Unit) -> str:
    """As an editor does it that counts in `unit`, from the end backwards."""
    if unit is Unit.UTF16:
        wide = text.encode("utf-16-le", "surrogatepass")
        for edit in reversed(edits):
            start, end = 2 * edit["start"], 2 * edit["end"]
            assert wide[start:end].decode("utf-16-le") == edit["original"]
            wide = wide[:start] + edit["replacement"].encode("utf-16-le") + wide[end:]
        return wide.decode("utf-16-le")
    for edit in reversed(edits):
        start, end = edit["start"], edit["end"]
        assert text[start:end] == edit["original"]
        text = text[:start] + edit["replacement"] + text[end:]
    return text


def batches(examples: tuple[Example, ...]) -> Iterator[dict[str, str]]:
    """Sources and what an annotator made of each; another's different text is in another batch."""
    for number in range(max(len(e.references) for e in examples)):
        found = {e.source: e.references[number] for e in examples if number < len(e.references)}
        for some in batched([*found.items()]):
            yield dict(some)


def batched(pairs: list[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """In pieces of BATCH."""
    return (pairs[start : start + BATCH] for start in range(0, len(pairs), BATCH))


def said(source: str, target: str) -> tuple[str, str, str]:
    """The first sentence of a source, what the engine answers to it, and the rest."""
    first = next(segments(source))
    return source[first.start : first.end], target, source[first.end :]


async def check(batch: dict[str, str], around: tuple[str, str, str], unit: Unit) -> int:
    """How many edits there were over the batch, all of which led to the corrected text."""
    engine = Annotator()
    identity = Identity(model="grammar", version=1, digest=MANIFEST.digest)
    limits = Limits(max_in_flight=2, max_sentences=10_000, max_parallel_sentences=64)
    state = ReplicaState(identity, limits, warmup_token="secret")
    state.phase = Phase.READY
    route = Corrections(engine, state, MANIFEST, Metrics(in_flight=int, waiting=int))
    before, between, behind = around
    parts = [said(source, target) for source, target in batch.items()]
    engine.known = {first: target for first, target, _ in parts}
    texts = [f"{before}{source}{between}{behind}" for source in batch]
    done = await route.correct(texts, Wish(unit=unit), "r1")
    count = 0
    for text, (first, _, rest), result in zip(texts, parts, done.results, strict=True):
        assert applied(text, result["edits"], unit) == result["corrected"]
        wanted = engine.known[first].strip() or first
        rest_wanted = rejoin(
            rest, [engine.known.get(b, b).strip() for b in bodies(rest)], [*segments(rest)]
        )
        assert result["corrected"] == f"{before}{wanted}{rest_wanted}{between}{behind}"
        count += len(result["edits"])
    return count


def bodies(text: str) -> list[str]:
    """Its sentences."""
    return [text[part.start : part.end] for part in segments(text)]


@pytest.mark.parametrize("around", AROUND, ids=["plain", "strange"])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name in sorted(EXAMPLES)
        if "clean" not in name
    ],
)
async def test_edits_reproduce_the_corrected_text(name: str, around: tuple[str, str, str]) -> None:
    suite = load(name)
    if suite.kind not in (SuiteKind.CORRECTION, SuiteKind.SPELLING):
        pytest.skip("nothing is corrected in this suite")
    edits = 0
    for batch in batches(suite.examples):
        for unit in Unit:
            edits += await check(batch, around, unit)
    assert edits > len(suite.examples)
