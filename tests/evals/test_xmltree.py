"""XML that nobody has to trust."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals import xmltree
from evals.errors import SuiteInvalid

LAUGHS = b"""<?xml version="1.0"?>
<!DOCTYPE lolz [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
<lolz>&b;</lolz>"""
OUTSIDE = b"""<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><x>&e;</x>"""


def test_tree_keeps_order_lines_and_attributes_without_namespaces() -> None:
    root = xmltree.parse('<a xmlns="urn:x">t<b k="v">ü&amp;</b>\n<b/><c><b/></c></a>'.encode(), "f")
    assert root.tag == "a"
    assert root.content[0] == "t"
    first, second = root.children("b")
    assert (first.attributes, first.content, first.line) == ({"k": "v"}, ["ü&"], 1)
    assert second.line == 2
    assert [node.line for node in root.below("b")] == [1, 2, 2]


@pytest.mark.parametrize("data", [LAUGHS, OUTSIDE])
def test_document_types_are_refused_before_any_entity(data: bytes) -> None:
    with pytest.raises(SuiteInvalid, match=r"f:[12]: it declares a document type"):
        xmltree.parse(data, "f")


def test_unknown_entities_are_errors() -> None:
    with pytest.raises(SuiteInvalid, match="f:1: not XML in UTF-8: undefined entity"):
        xmltree.parse(b"<a>&nbsp;</a>", "f")


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(SuiteInvalid, match="f:1: elements are nested more than 100 deep"):
        xmltree.parse(b"<a>" * 100_000, "f")


@pytest.mark.parametrize(
    "data",
    [b"", b"<a>", b"<a></b>", b"<a/><b/>", b"\x00", b"<a>\xff</a>"],
)
def test_broken_documents_are_named(data: bytes) -> None:
    with pytest.raises(SuiteInvalid, match=r"^f:1: not XML in UTF-8"):
        xmltree.parse(data, "f")


def test_declared_encodings_are_not_followed() -> None:
    with pytest.raises(SuiteInvalid, match="not XML in UTF-8"):
        xmltree.parse(b'<?xml version="1.0" encoding="latin-1"?><a>\xe4</a>', "f")


@given(st.binary(max_size=60), st.integers(0, 40))
def test_any_bytes_are_a_tree_or_an_error(junk: bytes, at: int) -> None:
    document = b"<a><b k='v'>text</b><c>more</c></a>"
    problem = "f"
    try:
        xmltree.parse(document[:at] + junk + document[at:], "f")
    except SuiteInvalid as exc:
        problem = str(exc)
    assert problem.startswith("f")


def test_utf_16_is_refused() -> None:
    with pytest.raises(SuiteInvalid, match="f:1: not XML in UTF-8: it is UTF-16"):
        xmltree.parse("<a>b</a>".encode("utf-16"), "f")
