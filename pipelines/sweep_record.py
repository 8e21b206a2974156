"""A sweep in MLflow: what was asked, a run for each variant, and the plot, the table, the pick."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from evals import forest
from evals.pace import Measured
from evals.verdict import Verdict
from pipelines import sweep_plot, sweep_table
from pipelines.config import SETTINGS_FILE, PromotionConfig
from pipelines.pick import Pick
from pipelines.place import Place
from pipelines.quantizing import VARIANT_STAGE
from pipelines.records import MAX_DESCRIPTION_CHARS
from pipelines.sensitivity import Sensitivity
from pipelines.stage import evidence_closed
from pipelines.sweep_row import Row
from registry.checkpoint import Checkpoint
from registry.model import ModelVersion, Tag


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """All that the run of a sweep shows."""

    rows: tuple[Row, ...]
    pick: Pick
    sensitivity: Sensitivity
    on_cpu: bool

    @property
    def unit(self) -> str:
        """What milliseconds are of."""
        return "CPU" if self.on_cpu else "GPU"

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know of the numbers."""
        return tuple(sweep_table.notes(self.rows, on_cpu=self.on_cpu))


def log_request(config: PromotionConfig, checkpoint: Checkpoint, place: Place, run_id: str) -> None:
    """What is swept, by which settings, for whom."""
    place.record.evidence.log(
        run_id,
        params={
            "model": config.model,
            "source_digest": checkpoint.digest,
            "policy_digest": config.digest,
            "aim": str(config.recipe.aim),
            "actor": place.actor,
        },
    )
    place.record.evidence.text(run_id, SETTINGS_FILE, config.to_yaml())


def log_variant(
    row: Row, verdict: Verdict | None, version: ModelVersion, place: Place, parent: str
) -> None:
    """A run of its own under the sweep's, so that MLflow can compare variants."""
    evidence = place.record.evidence
    tags = {str(Tag.STAGE): VARIANT_STAGE}
    run_id = evidence.open(version.model, f"variant {row.name}", tags, parent)
    with evidence_closed(evidence, run_id):
        params = {
            "variant": row.name,
            "version": row.version,
            "recipe": row.recipe,
            "excluded": ", ".join(row.excluded) or "none",
            "candidate_digest": version.digest,
            "verdict": "not run" if verdict is None else str(verdict.status),
            "verdict_reason": row.reason or "every gate passed",
        }
        evidence.log(run_id, params=params, metrics=dict(_numbers(row)), model_id=version.model_id)
        if verdict is not None:
            evidence.text(run_id, "verdict.json", verdict.to_json())
            evidence.text(run_id, "gates.svg", forest.forest_svg(verdict.results))
    if version.parent is not None and Tag.GATE_STATUS not in version.tags:
        place.record.versions.describe(version.model, version.version, _told(row, version))


def _told(row: Row, version: ModelVersion) -> str:
    """For the version's page, until a promotion has more to say of it."""
    status = "not run" if row.status is None else str(row.status)
    left = f", with {', '.join(row.excluded)} left in BF16" if row.excluded else ""
    return (
        f"`{row.name}`{left}: a sweep's variant of version {version.parent}. Against it the gate "
        f"said: {status}. {row.reason}".strip()[:MAX_DESCRIPTION_CHARS]
    )


def _numbers(row: Row) -> Iterator[tuple[str, float]]:
    """Numbers that exist; one that is missing is left out, never logged as zero."""
    yield "size_bytes", float(row.size_bytes)
    if row.weight_error is not None:
        yield "weight_error", row.weight_error
    if row.worst is not None:
        yield "worst_suite_points", row.worst.points
        yield "worst_suite_lower", row.worst.lower
        yield "worst_suite_upper", row.worst.upper
    if row.pace is not None:
        yield from _three("requests_per_s", row.pace.requests_per_s)
        yield from _three("busy_ms_per_request", row.pace.busy_ms_per_request)
        yield from _three("speedup", row.pace.speedup)


def _three(name: str, found: Measured) -> Iterator[tuple[str, float]]:
    yield name, found.value
    yield f"{name}_lower", found.lower
    yield f"{name}_upper", found.upper


def log_sweep(page: Page, place: Place, run_id: str) -> None:
    """The plot, the tables and the pick on the sweep's own run."""
    evidence, picked = place.record.evidence, page.pick
    evidence.log(run_id, params={"picked": picked.name or "none", "picked_reason": picked.reason})
    evidence.text(run_id, "pareto.svg", sweep_plot.pareto_svg(page.rows))
    evidence.table(run_id, "sweep.json", sweep_table.columns(page.rows))
    evidence.table(run_id, "layer_error.json", sweep_table.layer_columns(page.sensitivity))
    told = sweep_table.markdown(page.rows, picked, page.notes, unit=page.unit)
    evidence.text(run_id, "sweep.md", told)
    plain = {
        "picked": picked.name,
        "reason": picked.reason,
        "variants": [row.to_dict() for row in page.rows],
        "notes": list(page.notes),
    }
    evidence.text(run_id, "result.json", json.dumps(plain, indent=2))
    evidence.label(run_id, {"mlflow.note.content": told})
