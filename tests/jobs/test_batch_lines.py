"""A batch reads texts, and its output tells how far it came."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs import batch_lines
from jobs.batch_lines import Item
from jobs.errors import UsageError
from serving.client import BadRequest, Correction, Edit

GOOD = Correction(
    corrected="She goes.",
    edits=(Edit(start=4, end=6, original="go", replacement="goes"),),
    model="grammar",
    version=3,
    finish_reason="stop",
    request_id="r",
)


def items(*texts: str) -> list[Item]:
    return [Item(line=number, text=text) for number, text in enumerate(texts, 1)]


def lines(*found: Item) -> str:
    return "".join(batch_lines.encoded(batch_lines.written(item, GOOD)) for item in found)


def test_a_line_is_a_text() -> None:
    found = list(batch_lines.read([b"She go.\n", b"\n", b"He\r\n", b"end"], "f", is_json=False))
    assert found == items("She go.", "", "He\r", "end")
    assert [item.is_blank for item in found] == [False, True, False, False]


def test_a_json_line_holds_text_and_id() -> None:
    raw = [b'{"text": "She go.", "id": 7, "other": 1}\n', b'{"text": ""}\n']
    assert list(batch_lines.read(raw, "f", is_json=True)) == [
        Item(line=1, text="She go.", id=7),
        Item(line=2, text=""),
    ]


@pytest.mark.parametrize("raw", [b"she go\n", b"[]\n", b"{}\n", b'{"text": 3}\n', b"\n", b"\xff\n"])
def test_a_line_that_holds_no_text_is_named(raw: bytes) -> None:
    with pytest.raises(UsageError, match="line 2 of f"):
        list(batch_lines.read([b'{"text": "a"}\n', raw], "f", is_json=True))


def test_a_text_that_is_not_utf_8_is_named() -> None:
    with pytest.raises(UsageError, match="line 1 of f is not UTF-8"):
        list(batch_lines.read([b"caf\xe9\n"], "f", is_json=False))


def test_what_is_written_says_all() -> None:
    assert batch_lines.written(Item(line=2, text="She go.", id="x"), GOOD) == {
        "line": 2, "text": "She go.", "id": "x", "corrected": "She goes.",
        "edits": [{"start": 4, "end": 6, "original": "go", "replacement": "goes"}],
        "finish_reason": "stop", "model": "grammar", "version": 3, "request_id": "r",
    }  # fmt: skip
    refused = BadRequest("too long", request_id="r", status=400, code="context_length_exceeded")
    assert batch_lines.written(Item(line=1, text="a"), refused)["error"] == {
        "code": "context_length_exceeded", "message": str(refused),
    }  # fmt: skip
    assert batch_lines.written(Item(line=1, text=" "), None)["corrected"] == " "


@given(texts=st.lists(st.text(), max_size=5), whole=st.integers(0, 5), cut_bytes=st.integers(0, 30))
def test_an_output_cut_anywhere_is_gone_on_with(
    texts: list[str], whole: int, cut_bytes: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    out = tmp_path_factory.mktemp("out") / "o.jsonl"
    texts = [text.encode("utf-8", "ignore").decode() for text in texts]
    everything = items(*texts)
    done = everything[:whole]
    following = lines(*everything[whole : whole + 1]).encode()
    half = following[: min(cut_bytes, max(0, len(following) - 1))]
    out.write_bytes(lines(*done).encode() + half)
    left = iter(everything)
    kept = batch_lines.skip_kept(out, left)
    assert kept.lines == len(done)
    with batch_lines.append_to(out, kept) as file:
        file.write(lines(*left))
    assert out.read_text() == lines(*everything)


@pytest.mark.parametrize(
    "text",
    [lines(*items("other")), lines(*items("a", "b", "c")), "{}\n", "[1]\n", "no json\n"],
)
def test_an_output_of_another_input_is_refused_and_left_alone(tmp_path: Path, text: str) -> None:
    out = tmp_path / "o.jsonl"
    out.write_text(text)
    with pytest.raises(UsageError, match=r"of this input; name another --out"):
        batch_lines.skip_kept(out, iter(items("a", "b")))
    assert out.read_text() == text


def test_refused_texts_of_an_earlier_run_are_counted(tmp_path: Path) -> None:
    out = tmp_path / "o.jsonl"
    bad = batch_lines.written(items("a")[0], BadRequest("no", request_id="r"))
    out.write_text(json.dumps(bad) + "\n")
    assert batch_lines.skip_kept(out, iter(items("a"))).refused == 1
