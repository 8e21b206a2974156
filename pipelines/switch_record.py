"""What the record keeps of a switch: how it ended, and what each step was decided by."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from pipelines.stage import Result, Stages
from pipelines.switch import Step, SwitchResult
from serving.slo.trial import Trial

STEPS_FILE = "steps.json"
"""On the run of the stage; the step that took a version back is its last."""


def recorded(
    stages: Stages,
    switch: Callable[[Callable[[str], None], Callable[[Step], None]], SwitchResult],
) -> SwitchResult:
    """The stage `rollout`; its run keeps every step, also where the last took the version back.

    Args:
        switch: acts; gets what to say what it does to, and what to tell how each step ended.
    """
    steps: list[Step] = []
    return stages.live(
        "rollout",
        lambda note: switch(note, steps.append),
        describe_switch,
        kept=lambda: {STEPS_FILE: steps_json(steps)},
    )


def describe_switch(result: SwitchResult) -> Result:
    """A switch as plain data for the record."""
    replaced = f", version {result.replaced} drained" if result.replaced else ""
    return {
        "version": result.version,
        "replaced": result.replaced,
        "metrics": {
            "start_seconds": result.start_s,
            "answer_seconds": result.answer.seconds,
            **_burns(result.steps),
        },
        "steps": [str(step) for step in result.steps],
        "answer": {"version": result.answer.version, "corrected": result.answer.corrected},
        "summary": f"version {result.version} answers through the edge{replaced}",
    }


def steps_json(steps: Iterable[Step]) -> str:
    """Every step: its counts against the promise, the decision and why."""
    return json.dumps([_step(step) for step in steps], indent=2)


def _burns(steps: Iterable[Step]) -> dict[str, float]:
    """Burn rates by step; what was not counted is left out."""
    return {
        f"step_{step.share_percent}_{found.sli}_burn": found.rate
        for step in steps
        for found in step.decision.trials
        if found.rate is not None
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "version": step.version,
        "share_percent": step.share_percent,
        "seconds": round(step.seconds, 3),
        "move": step.decision.move,
        "reason": step.decision.reason,
        "slis": [_trial(found) for found in step.decision.trials],
    }


def _trial(found: Trial) -> dict[str, Any]:
    return {
        "sli": found.sli,
        "requests": found.requests,
        "bad": found.bad,
        "budget": found.budget,
        "burn": found.rate,
        "finding": found.finding,
        "log_likelihood_ratio": found.log_ratio,
        "to_show": found.to_show,
    }
