"""Offsets in the caller's own unit: edits applied there reproduce the corrected text."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from serving.engine.corrections import edits
from serving.engine.offsets import Unit, converter
from tests.serving.engine.conftest import error

# Emoji with modifiers and joiners, flags, combining marks, right-to-left text and its marks, CRLF,
# and words that the fake engine corrects.
PIECES = st.sampled_from(
    ["go", "days", "teh", " ", "\r\n", "\n", ". ", "\N{GRINNING FACE}", "e\u0301", "\u0301",
     "\N{WOMAN}\u200d\N{PERSONAL COMPUTER}", "\N{THUMBS UP SIGN}\U0001f3fd", "\U0001f1e9\U0001f1ea",
     "שלום", "مرحبا", "\u202e", "\u200f", "\U00020000", "Ünï", "\uffff", "\U00010000", "a."]
)  # fmt: skip
TEXTS = st.lists(PIECES, min_size=1, max_size=14).map("".join)
ASKED = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def apply_in_utf16(source: str, changes: list[dict[str, Any]]) -> str:
    """What an editor that counts UTF-16 units does with the edits."""
    units = source.encode("utf-16-le")
    done, pieces = 0, []
    for edit in changes:
        start, end = 2 * edit["start"], 2 * edit["end"]
        assert units[start:end].decode("utf-16-le") == edit["original"]
        pieces += [units[done:start], edit["replacement"].encode("utf-16-le")]
        done = end
    return b"".join([*pieces, units[done:]]).decode("utf-16-le")


@given(TEXTS, TEXTS)
@example("\N{GRINNING FACE}go", "\N{GRINNING FACE}goes")
def test_edits_in_utf16_turn_the_source_into_the_corrected_text(source: str, fixed: str) -> None:
    place = converter(source, Unit.UTF16)
    changes = [
        {"start": place(e.start), "end": place(e.end), "original": e.original,
         "replacement": e.replacement}
        for e in edits(source, fixed)
    ]  # fmt: skip
    assert apply_in_utf16(source, changes) == fixed


@given(st.text(max_size=30))
def test_a_position_is_the_length_of_what_lies_before_it(text: str) -> None:
    place = converter(text, Unit.UTF16)
    lengths = [len(text[:at].encode("utf-16-le", "surrogatepass")) // 2 for at in range(len(text))]
    assert [place(at) for at in range(len(text))] == lengths


@pytest.mark.parametrize("unit", list(Unit))
async def test_edits_of_an_answer_reproduce_its_text_in_either_unit(
    http: httpx.AsyncClient, unit: Unit
) -> None:
    text = "\N{GRINNING FACE} he go. \U0001f1e9\U0001f1ea\r\n\u05e9\u05dc teh e\u0301 days\n"
    body = {"text": text, "offsets": unit}
    answer = (await http.post("/v1/corrections", json=body)).json()
    assert answer["offsets"] == unit
    assert answer["corrected"] != text
    if unit is Unit.UTF16:
        assert apply_in_utf16(text, answer["edits"]) == answer["corrected"]
    starts = [edit["start"] for edit in answer["edits"]]
    assert starts[0] == (6 if unit is Unit.UTF16 else 5)


async def test_parts_left_alone_are_placed_in_the_unit_too(http: httpx.AsyncClient) -> None:
    body = {"text": "\N{GRINNING FACE}.\nVANISH", "offsets": "utf16"}
    answer = (await http.post("/v1/corrections", json=body)).json()
    assert answer["unchanged"] == [{"start": 4, "end": 10, "reason": "empty"}]


@ASKED
@given(text=TEXTS)
async def test_any_text_comes_back_with_edits_that_fit(http: httpx.AsyncClient, text: str) -> None:
    answer = await http.post("/v1/corrections", json={"text": text, "offsets": "utf16"})
    if answer.status_code == 200:
        body = answer.json()
        assert apply_in_utf16(text, body["edits"]) == body["corrected"]
    else:
        assert error(answer)["code"] in ("too_many_sentences", "context_length_exceeded")


async def test_a_lone_surrogate_is_refused_since_no_utf8_has_it(http: httpx.AsyncClient) -> None:
    for content in (b'{"text": "a \\ud83d b"}', b'{"text": "a \xed\xa0\xbd b"}'):
        answer = await http.post("/v1/corrections", content=content)
        assert (answer.status_code, error(answer)["code"]) == (400, "bad_json")


@pytest.mark.parametrize(
    ("offsets", "code"),
    [("utf8", "invalid_value"), ("UTF16", "invalid_value"), (16, "invalid_type")],
)
async def test_an_unknown_unit_is_refused(
    http: httpx.AsyncClient, offsets: object, code: str
) -> None:
    answer = await http.post("/v1/corrections", json={"text": "a", "offsets": offsets})
    assert (answer.status_code, error(answer)["param"]) == (400, "offsets")
    assert error(answer)["code"] == code
