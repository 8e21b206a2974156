"""An owner that is stopped between deciding and acting, woken up late, and tells how that went.

Puts version 1 in charge, decides on three changes at once (start version 2, send it all traffic,
retire version 1) and stops itself when each has only its last step left: the message to the
deployer on its way out, the lock of the traffic plan about to be taken.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from serving import deployer
from serving.edge import home as edge_home
from serving.errors import ServingError
from tests.serving.real import RealServing, stop_myself

READY_TIMEOUT_S = 120.0


class Brink:
    """Where every change waits with only its last step left."""

    def __init__(self, changes: int) -> None:
        self.reached = threading.Barrier(changes + 1)
        self.woken = threading.Event()

    def wait(self) -> None:
        self.reached.wait(READY_TIMEOUT_S)
        self.woken.wait()


def hold(brink: Brink) -> None:
    """From now on the last steps wait on the brink."""
    ensure, exclusive = deployer.ensure, edge_home.exclusive

    def held_ensure() -> Any:
        actor = ensure()
        brink.wait()
        return actor

    @contextlib.contextmanager
    def held_exclusive(path: Path) -> Iterator[None]:
        brink.wait()
        with exclusive(path):
            yield

    deployer.ensure = held_ensure
    edge_home.exclusive = held_exclusive  # type: ignore[assignment]


def outcome(change: Callable[[], None]) -> str:
    try:
        change()
    except ServingError as exc:
        return f"{type(exc).__name__}: {exc}"
    return "done"


def main() -> None:
    address, home, url, model = sys.argv[1:]
    serving = RealServing(address=address, home=Path(home), url=url, model=model)
    plane = serving.open(1, "stopped")
    plane.start(serving.version(1), 1)
    plane.wait_ready(1, 1, READY_TIMEOUT_S)
    plane.set_weights({1: 100}, 60.0)
    changes: dict[str, Callable[[], None]] = {
        "start": lambda: plane.start(serving.version(2), 1),
        "set_weights": lambda: plane.set_weights({2: 100}, 1.0),
        "retire": lambda: plane.retire(1, 1.0),
    }
    brink, outcomes = Brink(len(changes)), dict[str, str]()
    hold(brink)
    threads = [
        threading.Thread(target=lambda n=n, c=c: outcomes.update({n: outcome(c)}), daemon=True)
        for n, c in changes.items()
    ]
    for thread in threads:
        thread.start()
    brink.reached.wait(READY_TIMEOUT_S)
    stop_myself()
    brink.woken.set()
    for thread in threads:
        thread.join(READY_TIMEOUT_S)
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main()
