"""Evaluation proper: suites through lm-eval over one model, and the worker process that does it."""

from evals.harness.lm_task import Evaluator
from evals.harness.worker import main, run

__all__ = ["Evaluator", "main", "run"]
