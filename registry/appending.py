"""Adding to a ledger that others write to: look, decide what follows, claim its number.

What is decided from one reading of the ledger is only ever appended to that very ledger; a rival's
item in between makes it look again, so no decision is taken on something that is no longer so.
"""

from __future__ import annotations

from collections.abc import Callable

from registry.errors import RecordConflict, RecordUnavailable
from registry.ledger import Item, Log
from registry.store import Ledger

MAX_RACES = 100


def append_following(
    ledger: Ledger, model: str, following: Callable[[Log], Item | None]
) -> Item | None:
    """Appends what follows from the ledger as it is.

    Args:
        following: the item to append, from the ledger read just now; None appends nothing. What it
            raises ends the attempt.

    Raises:
        RecordConflict: others wrote MAX_RACES times in between.
        RecordUnavailable: MLflow did not answer, and the item is not there.
    """
    for _ in range(MAX_RACES):
        item = following(ledger.read(model))
        if item is None:
            return None
        try:
            ledger.append(model, item)
        except RecordConflict:
            continue
        except RecordUnavailable:
            # The answer may have been lost after the item was written; only the ledger can tell.
            if item not in ledger.read(model).items:
                raise
        return item
    raise RecordConflict(
        f"the ledger of {model} was written to {MAX_RACES} times by others while one entry was to "
        "be added; try again when fewer commands run"
    )
