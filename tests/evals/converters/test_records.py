"""Tables and files of JSON objects."""

import io
import json
import zipfile

import pytest
from pydantic import ValidationError

from evals.converters import Csv, Jsonl
from evals.converters.records import Fields, Identical
from evals.errors import SuiteInvalid
from evals.suite import Example
from tests.evals.converters.build import files

PAIR = Fields(source="good", contrast="bad", tags=("field",), cluster="uid", id=("uid", "n"))
ROW = {"good": "He goes.", "bad": "He go.", "field": "syntax ", "uid": "sva", "n": 3}


def jsonl(fields: Fields, *rows: object) -> list[Example]:
    text = "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)
    options = Jsonl(name="jsonl", files="*.jsonl", fields=fields)
    return list(options.examples(files(a__jsonl=text)))


def csv(fields: Fields, text: str, delimiter: str = ",") -> list[Example]:
    options = Csv(name="csv", files="*.csv", delimiter=delimiter, fields=fields)
    return list(options.examples(files(a__csv=text)))


def test_object_becomes_a_pair() -> None:
    (pair,) = jsonl(PAIR, "", ROW)
    assert pair == Example(
        id="sva:3",
        source="He goes.",
        references=(),
        tags=("syntax",),
        cluster="sva",
        contrast="He go.",
    )


def test_table_becomes_pairs_named_by_file_and_line() -> None:
    fields = Fields(source="good", contrast="bad", cluster_by_file=True)
    (pair,) = csv(fields, 'good;bad\n"He; goes.";He go.\n', ";")
    assert (pair.id, pair.source, pair.contrast, pair.cluster) == (
        "a:2",
        "He; goes.",
        "He go.",
        "a",
    )


def test_references_come_from_columns_or_from_a_list() -> None:
    fields = Fields(source="s", references=("r", "t"))
    (example,) = jsonl(fields, {"s": "a", "r": ["b", "c"], "t": "d"})
    assert example.references == ("b", "c", "d")


def test_acceptable_sentences_are_their_own_reference() -> None:
    fields = Fields(source="s", acceptable="ok")
    good, bad = jsonl(fields, {"s": "a", "ok": True}, {"s": "b", "ok": 0})
    assert (good.references, bad.references) == (("a",), ())
    with pytest.raises(SuiteInvalid, match=r"a.jsonl:1: ok: expected true, false, 1 or 0"):
        jsonl(fields, {"s": "a", "ok": "maybe"})


def test_identical_pairs_are_refused_or_skipped() -> None:
    same = {**ROW, "bad": "He goes."}
    with pytest.raises(SuiteInvalid, match=r"a.jsonl:2: both sentences of the pair are"):
        jsonl(PAIR, ROW, same)
    skipping = PAIR.model_copy(update={"identical": Identical.SKIP})
    assert len(jsonl(skipping, ROW, same)) == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{", "a.jsonl:2: not a JSON object"),
        ("[" * 100_000, "a.jsonl:2: not a JSON object"),
        ('{"good": ' + "9" * 5_000 + "}", "a.jsonl:2: not a JSON object"),
        ("[1]", "a.jsonl:2: expected a JSON object, found list"),
        ({"good": "x"}, "a.jsonl:2: no column 'bad'; found 'good'"),
        ({**ROW, "bad": " "}, "a.jsonl:2: bad: expected text, found ' '"),
        ({**ROW, "bad": None}, "a.jsonl:2: bad: expected text, found None"),
        ({**ROW, "bad": ["x"]}, "a.jsonl:2: bad: expected text"),
        ({**ROW, "n": True}, "a.jsonl:2: n: expected text, found True"),
    ],
)
def test_broken_objects_are_named_by_file_and_line(row: object, message: str) -> None:
    with pytest.raises(SuiteInvalid, match=message):
        jsonl(PAIR, ROW, row)


def test_empty_list_of_references_is_refused() -> None:
    with pytest.raises(SuiteInvalid, match=r"a.jsonl:1: r: references are missing"):
        jsonl(Fields(source="s", references=("r",)), {"s": "a", "r": []})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("good,bad\nx\n", "a.csv:2: expected 2 columns, found 1"),
        ("good,bad\nx,y,z\n", "a.csv:2: expected 2 columns, found 3"),
        ("good,good\nx,y\n", "a.csv:1: the header must name each column once"),
        ("good,\nx,y\n", "a.csv:1: the header must name each column once"),
        ('good,bad\n"x,y\n', "a.csv:2: not a table: unexpected end of data"),
        ('good,bad\n"x"z,y\n', "a.csv:2: not a table"),
        ("good,bad\n" + "x" * 200_000 + ",y\n", "a.csv:2: not a table: field larger than"),
        ("good,bad\nx,y\x00\n", r"a.csv:2: holds U\+0000"),
    ],
)
def test_broken_tables_are_named_by_file_and_line(text: str, message: str) -> None:
    with pytest.raises(SuiteInvalid, match=message):
        csv(Fields(source="good", contrast="bad"), text)


def test_members_of_an_archive_are_read_by_path() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("data/b.jsonl", json.dumps({**ROW, "n": 2}))
        archive.writestr("data/a.jsonl", json.dumps({**ROW, "n": 1}))
        archive.writestr("__MACOSX/data/._a.jsonl", b"\x00\x05")
    options = Jsonl(name="jsonl", archive="x.zip", files="data/*.jsonl", fields=PAIR)
    found = list(options.examples(files(x__zip=packed.getvalue())))
    assert [example.id for example in found] == ["sva:1", "sva:2"]


def test_broken_member_is_named_with_its_archive() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.jsonl", "\n{")
    options = Jsonl(name="jsonl", archive="x.zip", files="*.jsonl", fields=PAIR)
    with pytest.raises(SuiteInvalid, match=r"/data/x.zip/a.jsonl:2: not a JSON object"):
        list(options.examples(files(x__zip=packed.getvalue())))


@pytest.mark.parametrize("delimiter", ["", ";;", '"', "\n"])
def test_delimiter_must_be_one_character(delimiter: str) -> None:
    with pytest.raises(ValidationError):
        Csv(name="csv", files="*", delimiter=delimiter, fields=PAIR)
