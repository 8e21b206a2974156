"""Versions only go up: what contradicts that is not taken, and asked for anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from serving.discovery import errors
from serving.discovery.kubernetes import objects, wire
from serving.discovery.kubernetes.mirror import Mirror
from tests.serving.discovery.kubernetes.build import bookmark, event, line


def read(body: Mapping[str, Any]) -> str:
    """The mirrored value is the object's text; "bad" cannot be used."""
    if body["text"] == "bad":
        raise ValueError("it is bad")
    return str(body["text"])


def thing(name: str, text: str, at: Any) -> dict[str, Any]:
    version = {} if at is None else {"resourceVersion": str(at)}
    return {"metadata": {"name": name, "namespace": "ns", **version}, "text": text}


def key(name: str) -> objects.Key:
    return objects.Key(namespace="ns", name=name)


def mirror(*items: Any, at: str = "10") -> Mirror[str]:
    made = Mirror(read)
    made.replace(wire.Page(items=items, version=at))
    return made


def take(known: Mirror[str], said: dict[str, Any]) -> None:
    known.take(wire.event(line(said)))


def texts(known: Mirror[str]) -> dict[str, str]:
    return {key.name: text for key, text in known.objects.items()}


def test_events_add_change_and_delete() -> None:
    known = mirror(thing("a", "one", 1))
    take(known, event("ADDED", thing("b", "two", 11)))
    take(known, event("MODIFIED", thing("a", "three", 12)))
    assert texts(known) == {"a": "three", "b": "two"}
    take(known, event("DELETED", thing("b", "two", 13)))
    assert texts(known) == {"a": "three"}
    assert known.version == "13"


def test_a_bookmark_moves_the_version_alone() -> None:
    known = mirror(thing("a", "one", 1))
    take(known, bookmark(50))
    assert (known.version, texts(known)) == ("50", {"a": "one"})


@pytest.mark.parametrize(
    "said",
    [
        event("MODIFIED", thing("a", "old", 9)),
        event("MODIFIED", thing("a", "again", 10)),
        event("ADDED", thing("new", "old", 3)),
        event("DELETED", thing("a", "old", 4)),
        event("DELETED", {"metadata": {"resourceVersion": "11"}}),
        event("ADDED", {"metadata": {"name": "a", "resourceVersion": "11"}}),
        bookmark(9),
        event("BOOKMARK", {"metadata": {}}),
    ],
)
def test_an_event_that_contradicts_what_came_before_changes_nothing(said: dict[str, Any]) -> None:
    known = mirror(thing("a", "one", 1))
    with pytest.raises(errors.SourceFailed, match="listing anew"):
        take(known, said)
    assert (known.version, texts(known)) == ("10", {"a": "one"})


def test_an_object_that_was_listed_from_the_future_is_not_set_back() -> None:
    known = mirror(thing("a", "new", 20), at="10")
    with pytest.raises(errors.SourceFailed, match="listing anew"):
        take(known, event("MODIFIED", thing("a", "old", 15)))
    assert texts(known) == {"a": "new"}


def test_versions_that_are_no_numbers_are_taken_as_they_come() -> None:
    known = mirror(thing("a", "one", "x"), at="...")
    take(known, event("MODIFIED", thing("a", "two", "w")))
    take(known, event("MODIFIED", thing("a", "three", None)))
    assert (known.version, texts(known)) == ("w", {"a": "three"})


def test_a_list_takes_the_place_of_all_that_was_known() -> None:
    known = mirror(thing("a", "one", 1), thing("b", "bad", 2))
    assert known.refused == {key("b"): "it is bad"}
    known.replace(wire.Page(items=(thing("c", "two", 11),), version="12"))
    assert (texts(known), known.refused) == ({"c": "two"}, {})


def test_of_two_objects_with_one_name_the_newer_counts() -> None:
    assert texts(mirror(thing("a", "new", 9), thing("a", "old", 8))) == {"a": "new"}
    assert texts(mirror(thing("a", "old", 8), thing("a", "new", 9))) == {"a": "new"}


def test_items_that_cannot_be_used_are_named_and_the_others_stay() -> None:
    known = mirror("text", {"metadata": 3}, thing("a", "bad", 1), thing("b", "two", 2))
    assert texts(known) == {"b": "two"}
    assert sorted(map(str, known.refused)) == [
        "/item 0 of the list",
        "/item 1 of the list",
        "ns/a",
    ]


def test_an_object_that_became_unusable_is_gone_and_comes_back() -> None:
    known = mirror(thing("a", "one", 1))
    take(known, event("MODIFIED", thing("a", "bad", 11)))
    assert (texts(known), known.refused) == ({}, {key("a"): "it is bad"})
    take(known, event("MODIFIED", thing("a", "two", 12)))
    assert (texts(known), known.refused) == ({"a": "two"}, {})
    take(known, event("MODIFIED", thing("a", "bad", 13)))
    take(known, event("DELETED", thing("a", "bad", 14)))
    assert known.refused == {}


def test_an_older_list_is_refused_three_times_and_then_believed() -> None:
    known = mirror(thing("a", "one", 1), at="100")
    restored = wire.Page(items=(thing("a", "before", 1),), version="7")
    for _ in range(3):
        with pytest.raises(errors.SourceFailed, match="lags"):
            known.replace(restored)
        assert texts(known) == {"a": "one"}
    known.replace(restored)
    assert (known.version, texts(known)) == ("7", {"a": "before"})


def test_a_good_list_in_between_starts_the_count_anew() -> None:
    known = mirror(at="100")
    for at in ("50", "60", "101", "50", "60", "70"):
        page = wire.Page(items=(), version=at)
        if at == "101":
            known.replace(page)
        else:
            with pytest.raises(errors.SourceFailed):
                known.replace(page)
