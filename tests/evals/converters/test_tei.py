"""TEI documents with revisions."""

import pytest

from evals.converters import Tei
from evals.errors import SuiteInvalid
from tests.evals.converters.build import files

DOCUMENT = """<?xml version="1.0" encoding="utf-8"?>
<TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader><title>no sentence</title></teiHeader>
<text><body><p n="1">
<s n="1"><w>Hann</w> <w>f<hi>ó</hi>r</w>
  <revision id="0">
    <original><w>a</w></original>
    <corrected><w>á</w> <w>fund</w></corrected>
    <errors><error xtype="nonword" eid="0"/><error xtype="missing-word" eid="1"/></errors>
  </revision><c>.</c></s>
<s n="2"><w>Gott</w><revision><original/><corrected>,</corrected><errors/></revision></s>
<s n="3"> </s>
<s n="4"><revision><original><w>x</w></original><corrected/><errors/></revision></s>
</p></body></text></TEI>
"""
CODES = (
    "Main category\tSubcategory\tError code\n"
    "orthography\tspelling\tnonword\n"
    "grammar\tsyntax\tmissing-word\n"
)
OPTIONS = Tei(name="tei", files="*.xml", categories="codes.tsv")


def test_revisions_give_what_was_written_and_what_it_should_be() -> None:
    first, second = OPTIONS.examples(files(d__xml=DOCUMENT, codes__tsv=CODES))
    assert first.id == "d:1"
    assert first.source == "Hann fór a ."
    assert first.references == ("Hann fór á fund .",)
    assert first.tags == ("grammar", "orthography")
    assert first.cluster == "d.xml"
    assert (second.source, second.references, second.tags) == ("Gott", ("Gott ,",), ())


def test_without_a_table_there_are_no_tags() -> None:
    first, _ = Tei(name="tei", files="*.xml").examples(files(d__xml=DOCUMENT))
    assert first.tags == ()


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("<TEI><s><w>x</w>\n<revision><original/></revision></s></TEI>", "d.xml:2: a revision must "
         "hold one <corrected>, found 0"),
        ("<TEI>\n<p>x</p></TEI>", "d.xml:1: no <s> element"),
        ("garbage", "d.xml:1: not XML in UTF-8: syntax error"),
        ("", "d.xml:1: not XML in UTF-8: no element found"),
        (DOCUMENT[:400], "d.xml:9: not XML in UTF-8: unclosed token"),
        (DOCUMENT.replace("nonword", "odd"), "d.xml:4: error code 'odd' is not in the table"),
    ],
)  # fmt: skip
def test_broken_documents_are_named_by_file_and_line(document: str, message: str) -> None:
    with pytest.raises(SuiteInvalid, match=message):
        list(OPTIONS.examples(files(d__xml=document, codes__tsv=CODES)))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("", "codes.tsv:1: expected columns"),
        ("a\tb\n", "codes.tsv:1: expected columns"),
        (CODES + "short\n", "codes.tsv:4: expected 3 columns, found 1"),
    ],
)
def test_broken_tables_are_named_by_file_and_line(table: str, message: str) -> None:
    with pytest.raises(SuiteInvalid, match=message):
        list(OPTIONS.examples(files(d__xml=DOCUMENT, codes__tsv=table)))


def test_pattern_without_files_is_refused() -> None:
    with pytest.raises(SuiteInvalid, match=r"no file of the source is like '\*\.xml'"):
        list(OPTIONS.examples(files(codes__tsv=CODES)))


def test_a_code_of_two_categories_is_refused() -> None:
    twice = CODES + "style\tspelling\tnonword\n"
    with pytest.raises(SuiteInvalid, match=r"codes\.tsv:4: .*'nonword' is in category 'orthogr"):
        list(OPTIONS.examples(files(d__xml=DOCUMENT, codes__tsv=twice)))
