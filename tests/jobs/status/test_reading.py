"""Sources are read at once, and none is waited for longer than its limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from jobs.status.reading import Reader, Unread, had
from registry.errors import RecordUnavailable


@pytest.fixture
def stuck() -> Iterator[threading.Event]:
    """What a hung source waits for; set at the end, so that its thread ends too."""
    event = threading.Event()
    yield event
    event.set()


def test_a_hung_source_is_named_and_the_others_are_read(stuck: threading.Event) -> None:
    reader = Reader(limit_s=0.05)
    began_s = time.monotonic()
    hung, quick = reader.begin("hung", stuck.wait), reader.begin("quick", lambda: 7)
    found = hung.get(reader.limit_s)
    assert isinstance(found, Unread)
    assert found.reason.startswith("no answer for 0.")
    assert quick.get(reader.limit_s) == 7
    assert time.monotonic() - began_s < 1.0


def test_a_hung_source_is_not_asked_again_while_it_hangs(stuck: threading.Event) -> None:
    asked = []

    def hang() -> None:
        asked.append(1)
        stuck.wait()

    reader = Reader(limit_s=0.02)
    for _ in range(3):
        assert isinstance(reader.read("hung", hang), Unread)
    assert asked == [1]
    stuck.set()
    assert reader.begin("hung", hang).get(1.0) is None
    reader.read("hung", hang)
    assert len(asked) == 2


def test_what_may_fail_is_a_reason_and_what_nobody_foresaw_is_raised() -> None:
    def away() -> int:
        raise RecordUnavailable("MLflow failed while reading")

    def broken() -> int:
        raise KeyError("a mistake in the program")

    reader = Reader()
    found = reader.read("away", away)
    assert found == Unread(reason="MLflow failed while reading")
    assert had(found) is None
    with pytest.raises(KeyError):
        reader.read("broken", broken)
