"""What is not the JSON that was asked for is a failure, and never an empty list."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.discovery import errors
from serving.discovery.kubernetes import versions, wire
from tests.serving.discovery.kubernetes.build import event, gone, line, services

HTML = b"<html><body>Please log in</body></html>"


def test_a_list_is_its_items_and_version() -> None:
    page = wire.page(line(services({"a": 1}, at=7, more="next")), "ServiceList")
    assert (page.items, page.version, page.more) == (({"a": 1},), "7", "next")


def test_an_empty_list_may_have_null_for_its_items() -> None:
    said = {"kind": "ServiceList", "metadata": {"resourceVersion": "7"}, "items": None}
    assert wire.page(line(said), "ServiceList").items == ()


@pytest.mark.parametrize(
    "data",
    [
        HTML,
        b"",
        b"{",
        b"[]",
        b"null",
        b"[" * 100_000,
        b"\xff\xfe",
        line({}),
        line({"items": []}),
        line({"kind": "ServiceList", "metadata": {"resourceVersion": "7"}}),
        line({"kind": "ServiceList", "metadata": {"resourceVersion": ""}, "items": []}),
        line({"kind": "ServiceList", "metadata": {"resourceVersion": 7}, "items": []}),
        line({"kind": "ServiceList", "metadata": {"resourceVersion": "7"}, "items": {}}),
        line({"kind": "PodList", "metadata": {"resourceVersion": "7"}, "items": []}),
        line({"kind": "Status", "code": 200, "metadata": {"resourceVersion": "7"}}),
    ],
)
def test_what_is_no_list_is_a_failure(data: bytes) -> None:
    with pytest.raises(errors.SourceFailed, match="the API server did not"):
        wire.page(data, "ServiceList")


@pytest.mark.parametrize(
    "data",
    [
        HTML,
        b'{"type": "ADDED", "obj',
        line({"type": "ADDED"}),
        line({"type": "ADDED", "object": 3}),
        line({"type": "RENAMED", "object": {}}),
        line({"type": ["ADDED"], "object": {}}),
        line({"object": {}}),
        line([1]),
    ],
)
def test_what_is_no_event_is_a_failure(data: bytes) -> None:
    with pytest.raises(errors.SourceFailed):
        wire.event(data)


@pytest.mark.parametrize(
    ("code", "is_interrupted"),
    [(410, False), (429, True), (500, True), (504, True), (403, False), (None, False)],
)
def test_an_error_event_says_whether_to_ask_again_or_to_list_anew(
    code: Any, is_interrupted: bool
) -> None:
    with pytest.raises(errors.SourceFailed) as caught:
        wire.event(line(event("ERROR", {"code": code, "message": "no"})))
    assert isinstance(caught.value, errors.Interrupted) is is_interrupted


def test_a_version_that_is_too_old_says_that_it_lists_anew() -> None:
    with pytest.raises(errors.SourceFailed, match="listing anew"):
        wire.event(line(gone()))


def test_a_refused_account_is_told_what_it_needs() -> None:
    assert "list and watch on services and on endpointslices" in str(wire.refusal(403, "list", ""))


@given(st.lists(st.binary(max_size=20)), st.integers(1, 7))
def test_lines_are_the_same_however_the_bytes_come(parts: list[bytes], step: int) -> None:
    data = b"\n".join(parts)
    lines = wire.Lines(1000)
    found = [one for at in range(0, len(data), step) for one in lines.feed(data[at : at + step])]
    assert found == [one for one in data.split(b"\n")[:-1] if one.strip()]


def test_a_line_that_never_ends_is_a_failure() -> None:
    lines = wire.Lines(10)
    assert list(lines.feed(b"0123456789\n01234")) == [b"0123456789"]
    with pytest.raises(errors.SourceFailed, match="above 10 bytes"):
        list(lines.feed(b"567890"))


@given(st.integers(1, 10**40), st.integers(1, 10**40))
def test_versions_compare_as_whole_numbers(one: int, other: int) -> None:
    assert versions.is_older(str(one), str(other)) is (one < other)
    assert versions.is_newer(str(one), str(other)) is (one > other)


@pytest.mark.parametrize("odd", [None, "", "0", "01", "-1", "1.5", "x", "\u0661", "..."])
def test_other_versions_tell_nothing(odd: str | None) -> None:
    assert not versions.is_older(odd, "5")
    assert not versions.is_older("5", odd)
    assert versions.is_newer(odd, "5")
    assert versions.is_newer("5", odd)


def test_a_version_of_a_million_digits_costs_nothing() -> None:
    assert versions.is_newer("9" * 1_000_000, "5")
