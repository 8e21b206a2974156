"""What a replica needs from the engine core that its front ends share, as a protocol.

The one idea: a core has numbered seats, each good for one front end once, because an engine greets
each seat a single time. Seats beyond the number of front ends are spare: a front end that died is
replaced on one of them, and when none is left the replica is replaced.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from registry.engine_settings import EngineSettings
from serving.engine import protocol
from serving.errors import DeploymentFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """How one process becomes a client of the core."""

    attach: str
    """Import path of an `Attach`, called in that process."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Plain values for it."""
    fds: tuple[int, ...] = ()
    """File descriptors it inherits, under the same numbers; closed here by `given`."""


class Attach(Protocol):
    """Makes the engine of a front end. Called with its event loop running; may block."""

    def __call__(self, arguments: dict[str, Any], fds: Sequence[int]) -> protocol.Engine:
        """The engine, once the core has greeted this seat."""
        ...


class EngineCore(Protocol):
    """A model being loaded or loaded, in processes of its own."""

    @property
    def pid(self) -> int:
        """The process whose end is the end of the core."""
        ...

    def seat(self) -> Seat | None:
        """An unused seat; None when all have been used."""
        ...

    def given(self, seat: Seat) -> None:
        """Says that the process for a seat has been started."""
        ...

    def wait_until_loaded(self) -> None:
        """Blocks until the model answers.

        Raises:
            DeploymentFailed: it could not be loaded.
        """
        ...

    def shutdown(self) -> None:
        """Stops the core and all its processes, whatever state they are in."""
        ...


class CoreFactory(Protocol):
    """Begins to load a checkpoint. Named by import path in a `ReplicaSpec`."""

    def __call__(
        self, checkpoint_dir: str, settings: EngineSettings, front_ends: int
    ) -> EngineCore:
        """The core, its process started; the model may still be loading.

        Raises:
            DeploymentFailed: it could not be started.
        """
        ...


def imported(path: str, what: str) -> Any:
    """The object at `module:attribute`.

    Raises:
        DeploymentFailed: there is none; `what` names the setting.
    """
    module, _, attribute = path.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as exc:
        raise DeploymentFailed(
            f"{what} {path!r} cannot be imported: {exc}; it must be module:attribute and its "
            "library installed"
        ) from exc
