"""What a new owner puts in order first: whatever the one before it left half done.

Only the owner may do this, since nobody else can still be at work on the model. Finished stages
are not touched: they are found again by their inputs.
"""

from __future__ import annotations

from pipelines.ownership import Owned
from pipelines.place import Place
from registry.errors import RegistryError
from serving.errors import ServingError
from serving.plane import Plane

DRAIN_TIMEOUT_S = 60.0


def tidy(place: Place, mine: Owned) -> None:
    """Ends abandoned runs and removes half uploads; after a dead owner, looks at traffic too."""
    _sweep(place, mine.model)
    if mine.took_over and place.standing():
        _straighten(place, mine)


def _sweep(place: Place, model: str) -> None:
    try:
        ended = place.record.evidence.sweep(model)
        removed = place.record.versions.sweep(model)
    except RegistryError as exc:
        place.progress.note(f"what an interrupted command left will be cleared later: {exc}")
        return
    if ended:
        place.progress.note(f"ended {len(ended)} run(s) that an interrupted command left open")
    if removed:
        place.progress.note(f"removed {len(removed)} half-uploaded checkpoint(s)")


def _straighten(place: Place, mine: Owned) -> None:
    """All traffic on what the ledger says is in charge, and nothing else deployed."""
    champion = place.record.ledger.read(mine.model).champion
    wanted = champion.version if champion is not None else None
    try:
        plane = place.plane(mine.epoch)
        strays = [v for v in plane.running() if v != wanted]
        if not strays:
            return
        place.progress.note(f"an interrupted rollout left version(s) {strays}; taking them down")
        _give_back(plane, wanted)
        for stray in strays:
            plane.retire(stray, DRAIN_TIMEOUT_S)
    except ServingError as exc:
        place.progress.note(f"an interrupted rollout could not be cleared up: {exc}")


def _give_back(plane: Plane, wanted: int | None) -> None:
    """Also to a version without a ready replica now: its sign of life may only be late."""
    shares = {wanted: 100} if wanted is not None and wanted in plane.running() else {}
    if dict(plane.weights()) != shares:
        plane.set_weights(shares, DRAIN_TIMEOUT_S)
