"""The language hint: well-formed by BCP 47; in the prompt where the template has a place for it."""

from __future__ import annotations

import re

import httpx
import pytest

from registry.manifest import Generation, Manifest, Prompt
from serving.engine.app import ReplicaApp
from serving.engine.language import PATTERN, is_well_formed
from serving.engine.state import ReplicaState
from tests.fakes.engine import FakeEngine
from tests.serving.engine.conftest import error

GOOD = [
    "en", "de-DE", "pt-BR", "zh-Hant-TW", "sr-Latn", "es-419", "de-CH-1996", "sl-rozaj-biske",
    "en-u-co-phonebk", "en-a-bbb-x-a-ccc", "zh-cmn", "ast", "EN-us", "yue",
]  # fmt: skip
BAD = ["", "e", "english", "en_US", "en-", "-en", "en US", "de-419-DE", "a-DE", "en-a", "en\n", "é",
       "en-x", "en" + "-abcdefgh" * 9]  # fmt: skip


@pytest.mark.parametrize("tag", GOOD)
def test_well_formed_tags_are_taken(tag: str) -> None:
    assert is_well_formed(tag)
    assert re.fullmatch(PATTERN, tag)


@pytest.mark.parametrize("tag", BAD)
async def test_other_tags_are_refused(http: httpx.AsyncClient, tag: str) -> None:
    answer = await http.post("/v1/corrections", json={"text": "a", "language": tag})
    assert (answer.status_code, error(answer)["param"]) == (400, "language")


async def test_a_hint_changes_nothing_where_the_template_has_no_place_for_it(
    http: httpx.AsyncClient, engine: FakeEngine
) -> None:
    for hint in ({}, {"language": "en"}, {"language": None}):
        body = {"text": "he go", **hint}
        assert (await http.post("/v1/corrections", json=body)).status_code == 200
    assert len({request.prompt_token_ids for request in engine.requests}) == 1


@pytest.mark.parametrize(
    ("language", "prompt"), [("de", "ab {language}\nde\n"), (None, "ab {language}\n\n")]
)
async def test_the_hint_goes_where_the_template_says_and_nowhere_else(
    engine: FakeEngine, state: ReplicaState, language: str | None, prompt: str
) -> None:
    manifest = Manifest(
        files=(),
        prompt=Prompt(template="{text}\n{language}\n"),
        generation=Generation(max_tokens=9),
    )
    app = ReplicaApp(engine, state, manifest)
    transport = httpx.ASGITransport(app=app)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://replica") as http:
        body = {"text": "ab {language}", "language": language}
        assert (await http.post("/v1/corrections", json=body)).status_code == 200
    assert engine.requests[0].prompt_token_ids == engine.encode(prompt)
