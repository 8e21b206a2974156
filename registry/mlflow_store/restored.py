"""Runs that a restore made again, found by the id that the ledger knows them by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.backup.facts import RestoredTag

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

PROMOTIONS = "-promotions"
AT_ONCE = 100
"""Experiments that one search looks into."""


def restored_run(client: MlflowClient, run_id: str) -> Run | None:
    """The run that stands for one that is not on this server; None where there is none."""
    experiments = [
        str(e.experiment_id)
        for e in client.search_experiments(filter_string=f"name LIKE '%{PROMOTIONS}'")
    ]
    for begin in range(0, len(experiments), AT_ONCE):
        found = client.search_runs(
            experiments[begin : begin + AT_ONCE],
            f"tags.`{RestoredTag.RUN}` = '{_plain(run_id)}'",
            max_results=1,
        )
        if found:
            return found[0]
    return None


def known_as(run: Run) -> str:
    """The id that ledger entries know a run by."""
    return str(run.data.tags.get(RestoredTag.RUN, run.info.run_id))


def _plain(text: str) -> str:
    """A run id is letters and digits; what is anything else must not change the query."""
    return "".join(c for c in text if c.isalnum() or c in "-_")
