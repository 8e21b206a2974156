"""`POST /v1/corrections`, over the fake engine."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from serving.engine import corrections
from serving.engine.corrections import Edit, apply_edits
from tests.fakes.engine import FakeEngine
from tests.serving.engine.conftest import LIMITS, error


async def correct(http: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    answer = await http.post("/v1/corrections", json=body)
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()
    return result


async def test_a_text_comes_back_corrected_with_its_edits(http: httpx.AsyncClient) -> None:
    body = await correct(http, text="She go to school every days.", model="grammar")
    assert body["corrected"] == "She goes to school every day."
    assert body["edits"] == [
        {"start": 4, "end": 6, "original": "go", "replacement": "goes"},
        {"start": 23, "end": 27, "original": "days", "replacement": "day"},
    ]
    assert (body["model"], body["version"]) == ("grammar", 7)
    assert body["digest"].startswith("sha256:")
    assert (body["finish_reason"], body["unchanged"]) == ("stop", [])
    assert body["usage"]["total_tokens"] > 0


async def test_offsets_point_into_the_whole_text_and_white_space_stays(
    http: httpx.AsyncClient,
) -> None:
    text = "  Ünï 😀 he go.\r\n\r\n\tteh end?  she go\n"
    body = await correct(http, text=text)
    assert body["corrected"] == "  Ünï 😀 he goes.\r\n\r\n\tthe end?  she goes\n"
    edits = [Edit(**edit) for edit in body["edits"]]
    assert apply_edits(text, edits) == body["corrected"]


async def test_clean_text_has_no_edits(http: httpx.AsyncClient) -> None:
    body = await correct(http, text="All is well.")
    assert (body["corrected"], body["edits"]) == ("All is well.", [])


async def test_white_space_alone_is_returned_without_asking_the_model(
    http: httpx.AsyncClient, engine: FakeEngine
) -> None:
    body = await correct(http, text=" \n\t ")
    assert (body["corrected"], body["edits"], engine.requests) == (" \n\t ", [], [])


async def test_several_texts_give_results_in_order(http: httpx.AsyncClient) -> None:
    body = await correct(http, texts=["he go out", " ", "a. teh b."])
    assert [r["corrected"] for r in body["results"]] == ["he goes out", " ", "a. the b."]
    assert "corrected" not in body


async def test_a_cut_off_sentence_is_left_alone_and_named(http: httpx.AsyncClient) -> None:
    long = "teh " * 13 + "end."
    body = await correct(http, text=f"He go out. {long}")
    assert body["corrected"] == f"He goes out. {long}"
    assert body["finish_reason"] == "length"
    assert body["unchanged"] == [{"start": 11, "end": 11 + len(long), "reason": "length"}]


async def test_an_empty_correction_is_not_taken(http: httpx.AsyncClient) -> None:
    body = await correct(http, text="VANISH\nhe go")
    assert body["corrected"] == "VANISH\nhe goes"
    assert body["finish_reason"] == "stop"
    assert body["unchanged"] == [{"start": 0, "end": 6, "reason": "empty"}]


async def test_prompt_and_settings_are_the_manifest_s(
    http: httpx.AsyncClient, engine: FakeEngine
) -> None:
    await correct(http, text="he go")
    request = engine.requests[0]
    assert request.prompt_token_ids == engine.encode("he go\n")
    assert (request.max_tokens, request.temperature, request.n) == (12, 0.0, 1)


@pytest.mark.parametrize("text", ["{text}", "{0} %s \\1 go", "\u202e go", "\x00 go"])
async def test_strange_text_survives(http: httpx.AsyncClient, text: str) -> None:
    body = await correct(http, text=text)
    assert apply_edits(text, [Edit(**edit) for edit in body["edits"]]) == body["corrected"]


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({}, "text", "missing_field"),
        ({"text": "a", "texts": ["a"]}, "text", "missing_field"),
        ({"text": ""}, "text", "empty_text"),
        ({"texts": []}, "texts", "empty_text"),
        ({"texts": ["a", ""]}, "texts", "empty_text"),
        ({"text": 5}, "text", "invalid_type"),
        ({"text": None}, "text", "invalid_type"),
        ({"texts": "a"}, "texts", "invalid_type"),
        ({"texts": ["a", 1]}, "texts", "invalid_type"),
        ({"text": "a", "txt": 1}, "txt", "unknown_field"),
        ({"text": "word " * 70}, "text", "context_length_exceeded"),
    ],
)
async def test_a_bad_correction_field_is_refused_by_name(
    http: httpx.AsyncClient, body: dict[str, Any], param: str, code: str
) -> None:
    answer = await http.post("/v1/corrections", json=body)
    assert answer.status_code == 400
    assert (error(answer)["param"], error(answer)["code"]) == (param, code)


async def test_of_too_many_texts_no_more_are_looked_at_than_a_request_may_have(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def segments(text: str) -> list[corrections.Segment]:
        seen.append(text)
        return []

    monkeypatch.setattr(corrections, "segments", segments)
    answer = await http.post("/v1/corrections", json={"texts": [" "] * 300})
    assert (answer.status_code, error(answer)["code"]) == (413, "too_many_sentences")
    assert len(seen) == LIMITS.max_sentences + 1
