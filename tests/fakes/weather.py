"""A record that goes away, loses answers or takes the whole process with it, call by call."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from registry.errors import RecordUnavailable
from registry.store import Record


class Killed(BaseException):
    """Stands for SIGKILL: nothing after it runs, only what is on the disk is left."""


@dataclasses.dataclass
class Weather:
    """What happens to each call. `plan` gets the call's number and name and says one of:

    fine, away (not done), lost (done, but no answer), half (a part of it is done, no answer),
    killed (not done, and nothing after it), killed after (done, and nothing after it).
    """

    plan: Callable[[int, str], str] = lambda number, name: "fine"
    calls: list[str] = dataclasses.field(default_factory=list)

    def through(self, name: str, do: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        kind = self.plan(len(self.calls), name)
        self.calls.append(name)
        if kind == "away":
            raise RecordUnavailable("no answer: connection refused")
        if kind == "killed":
            raise Killed
        if kind == "half" and name == "log":
            kwargs = {**kwargs, "metrics": {}}
        if kind == "half" and name == "close":
            return self._half_close(do, args, kwargs)
        result = do(*args, **kwargs)
        if kind == "killed after":
            raise Killed
        if kind in ("lost", "half"):
            raise RecordUnavailable("no answer: connection reset")
        assert kind in ("fine",), kind
        return result

    @staticmethod
    def _half_close(do: Any, args: Any, kwargs: Any) -> None:
        do.__self__.label(*args, kwargs["tags"])
        raise RecordUnavailable("no answer: connection reset")


class Outdoors:
    """Any object, with weather on each of its methods."""

    def __init__(self, inner: Any, weather: Weather) -> None:
        self._inner = inner
        self._weather = weather

    def __getattr__(self, name: str) -> Any:
        do = getattr(self._inner, name)
        return lambda *args, **kwargs: self._weather.through(name, do, args, kwargs)


def outdoors(record: Record, weather: Weather) -> Record:
    """The record with weather on every call."""
    return dataclasses.replace(
        record,
        versions=Outdoors(record.versions, weather),
        evidence=Outdoors(record.evidence, weather),
        ledger=Outdoors(record.ledger, weather),
    )
