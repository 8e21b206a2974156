"""What is looked at: one model, or every model that is known."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from jobs.errors import StackError
from jobs.status.facts import Status
from jobs.status.gather import Observer, Opener
from jobs.status.ports import Ports, RecordPort
from jobs.status.reading import Reader, Unread
from jobs.status.watch import Look

AT_ONCE = 8


def one(model: str, ports: Ports) -> Look:
    """A look at one model."""
    observer = Observer(model, ports, Opener(ports.records))
    return lambda: (observer.look(),)


def every(ports: Ports) -> Look:
    """A look at every known model; models that appear later are looked at from then on.

    The look raises StackError where no model is known because the record cannot be read.
    """
    opener, reader = Opener(ports.records), Reader()
    observers: dict[str, Observer] = {}

    def look() -> Sequence[Status]:
        record = opener.open()
        names = sorted({*observers, *_known(record, ports, reader)})  # what is known stays shown
        if not names and isinstance(record, Unread):
            raise StackError(record.reason)
        for name in names:
            observers.setdefault(name, Observer(name, ports, opener))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return tuple(pool.map(lambda name: observers[name].look(), names))

    return look


def _known(record: RecordPort | Unread, ports: Ports, reader: Reader) -> set[str]:
    seen = reader.begin("edge", ports.edge.models)
    kept = reader.begin("journal", ports.journal.models)
    listed = reader.begin("models", record.models) if not isinstance(record, Unread) else None
    found: set[str] = set()
    for pending in (seen, kept, listed):
        names = pending.get(reader.limit_s) if pending is not None else ()
        found |= set(names) if not isinstance(names, Unread) else set()
    return found
