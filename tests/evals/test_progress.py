"""Progress lines: how far, how fast, how long still."""

from __future__ import annotations

from evals.progress import Place, Progress, _duration


class Told:
    """A progress on a clock that a test sets."""

    def __init__(self, place: Place) -> None:
        self.lines: list[str] = []
        self.now_s = 100.0
        self.progress = Progress(place, self.lines.append, clock_s=lambda: self.now_s)


ALONE = Place(name="jfleg", number=1, of=1)


def test_tells_speed_and_what_is_left() -> None:
    told = Told(ALONE)
    told.progress.begin(total=100, done=0, parts=1)
    for _ in range(10):
        told.now_s += 0.5
        told.progress.step()
    assert told.lines == [
        "jfleg 5/100, 2 examples/s, 48 s left",
        "jfleg 10/100, 2 examples/s, 45 s left",
    ]


def test_pairs_are_counted_as_examples_and_the_suite_is_numbered() -> None:
    told = Told(Place(name="blimp", number=2, of=3))
    told.progress.begin(total=8, done=0, parts=2)
    for _ in range(8):
        told.now_s += 1
        told.progress.step()
    assert told.lines[0] == "blimp 1/4 (suite 2 of 3), 0.5 examples/s, 6 s left"
    assert told.lines[-1] == "blimp 4/4 (suite 2 of 3), 0.5 examples/s"


def test_what_was_answered_before_does_not_count_as_speed() -> None:
    told = Told(ALONE)
    told.progress.begin(total=100, done=90, parts=1)
    told.now_s += 10
    for _ in range(10):
        told.progress.step()
    assert told.lines[0] == "jfleg 90/100 were answered before"
    assert told.lines[-1] == "jfleg 100/100, 1 examples/s"


def test_a_fast_suite_is_told_of_once_and_a_clock_that_stands_divides_nothing() -> None:
    told = Told(ALONE)
    told.progress.begin(total=1000, done=0, parts=1)
    for _ in range(1000):
        told.progress.step()
    assert told.lines == ["jfleg 1000/1000"]


def test_durations_read_well() -> None:
    assert [_duration(s) for s in (0.4, 99, 600, 7200)] == ["0 s", "99 s", "10 min", "2.0 h"]
