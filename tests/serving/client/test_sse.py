"""Events come out the same however the bytes come in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from serving.client import sse

LINES = st.text(st.characters(exclude_characters="\r\n", exclude_categories=("Cs",)))


def test_data_is_read_and_all_else_dropped() -> None:
    parser = sse.Parser()
    stream = b': hello\n\nevent: x\nid: 1\ndata: one\n\ndata:two\ndata: three\r\n\r\ndata: "rest'
    assert parser.feed(stream) == ["one", "two\nthree"]
    assert parser.feed(b'"\n\n') == ['"rest"']


@given(
    st.lists(st.lists(LINES, min_size=1, max_size=3), max_size=6),
    st.sampled_from(["\n", "\r\n"]),
    st.data(),
)
def test_pieces_may_be_cut_anywhere(events: list[list[str]], end: str, data: st.DataObject) -> None:
    whole = "".join(
        "".join(f"data: {line}{end}" for line in event) + end for event in events
    ).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    parser, found = sse.Parser(), []
    for begin, stop in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        found += parser.feed(whole[begin:stop])
    assert found == ["\n".join(event) for event in events]
