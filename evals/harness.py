"""Runs suites through lm-eval over one in-process engine; also a worker process.

    python -m evals.harness --request request.json --out DIR

lm-eval keeps the loop, the task definition and the per-sample log; the engine answers all prompts
at once; prompt template, parsing and generation settings come from the checkpoint's manifest.
lm-eval's own statistics are switched off: they are unpaired, and gates are paired.

Outcomes are written suite by suite, so a run that was stopped goes on where it was. What is there
is kept only if suite, checkpoint and runtime have the digests it was made with.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from evals import engine, errors, metrics, runtime, suite
from evals.engine import Completion, OnProgress
from evals.outcome import Outcome, Outcomes
from evals.request import Request
from evals.results import Evaluated, ResultsDir
from evals.suite import Example, Suite
from registry.manifest import Manifest, Prompt

NO_ANSWER = ("abort", "error")
"""Finish reasons after which there is no answer to score."""
_PROGRESS_STEPS = 20


class Completes(Protocol):
    """What the harness needs of an engine."""

    def complete(
        self, prompts: Sequence[str], on_progress: OnProgress | None = None
    ) -> tuple[Completion, ...]:
        """Completions in the order of the prompts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluator:
    """One checkpoint on one engine, ready for any number of suites."""

    engine: Completes
    prompt: Prompt
    checkpoint_digest: str
    runtime_digest: str

    def evaluate(self, chosen: Suite, on_progress: OnProgress | None = None) -> Evaluated:
        """Outcomes of every example, in suite order.

        Raises:
            EvaluationFailed: the engine could not answer.
        """
        start = time.monotonic()
        answers: dict[str, Completion] = {}
        samples = _run_lm_eval(self, chosen, answers, on_progress)
        return Evaluated(
            outcomes=Outcomes(
                suite=chosen.name,
                suite_digest=chosen.digest,
                checkpoint_digest=self.checkpoint_digest,
                runtime_digest=self.runtime_digest,
                outcomes=tuple(_outcome(sample, answers) for sample in samples),
            ),
            was_kept=False,
            wall_s=time.monotonic() - start,
            prompt_tokens=sum(answer.prompt_tokens for answer in answers.values()),
            output_tokens=sum(answer.output_tokens for answer in answers.values()),
        )


def _outcome(sample: dict[str, Any], answers: dict[str, Completion]) -> Outcome:
    example_id = sample["doc"]["id"]
    return Outcome(
        example_id=example_id,
        output=sample["filtered_resps"][0],
        score=sample["score"],
        finish_reason=answers[example_id].finish_reason,
    )


def _run_lm_eval(
    evaluator: Evaluator,
    chosen: Suite,
    answers: dict[str, Completion],
    on_progress: OnProgress | None,
) -> list[dict[str, Any]]:
    """lm-eval's logged samples in suite order; fills `answers` by example id.

    `evaluate`, not `simple_evaluate`: that one is the same loop after options not used here, and
    then lists every installed package in child processes, 1.6 s for each suite.
    """
    import lm_eval
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.tasks import TaskManager

    task = ConfigurableTask(config=task_config(chosen, evaluator.prompt, answers))
    results = lm_eval.evaluate(
        lm=_language_model(evaluator.engine, answers, on_progress),
        task_dict=TaskManager(include_defaults=False).load([task]),
        bootstrap_iters=0,
        log_samples=True,
    )
    return sorted(results["samples"][chosen.name], key=lambda sample: int(sample["doc_id"]))


def task_config(chosen: Suite, prompt: Prompt, answers: dict[str, Completion]) -> dict[str, Any]:
    """The suite as an lm-eval task, in memory.

    `answers` holds the completions by example id once they are made; a sample without an answer
    has the score None, and lm-eval's mean leaves it out.
    """
    examples = {example.id: example for example in chosen.examples}

    def process_results(doc: dict[str, Any], results: list[str]) -> dict[str, float | None]:
        if answers[doc["id"]].finish_reason in NO_ANSWER:
            return {"score": None}
        return {"score": metrics.score(chosen.kind, examples[doc["id"]], results[0])}

    def parse(responses: list[list[str]], docs: object) -> list[list[str]]:
        return [[prompt.parse(text) for text in row] for row in responses]

    return {
        "task": chosen.name,
        "custom_dataset": lambda **_: {"test": _dataset(chosen.examples)},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": lambda doc: prompt.render(doc["source"]),
        "doc_to_target": lambda doc: doc["target"],
        "process_results": process_results,
        # The engine takes these from the manifest; lm-eval insists on having some.
        "generation_kwargs": {"until": [], "do_sample": False},
        "num_fewshot": 0,
        "filter_list": [
            {
                "name": "parsed",
                "filter": [{"function": "custom", "filter_fn": parse}, {"function": "take_first"}],
            }
        ],
        "metric_list": [{"metric": "score", "aggregation": mean, "higher_is_better": True}],
    }


def mean(scores: Sequence[float | None]) -> float:
    """Mean of the scores that are there; NaN when none is."""
    present = [score for score in scores if score is not None]
    return sum(present) / len(present) if present else float("nan")


def _dataset(examples: Sequence[Example]) -> Any:
    import datasets

    return datasets.Dataset.from_list(
        [{"id": item.id, "source": item.source, "target": item.references[0]} for item in examples]
    )


def _language_model(
    completes: Completes, answers: dict[str, Completion], on_progress: OnProgress | None
) -> Any:
    """The engine as lm-eval's LM. Made in a function because its base class is heavy to import."""
    from lm_eval.api.model import LM

    class EngineLM(LM):  # type: ignore[misc]  # lm-eval has no types
        def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
            prompts = [request.args[0] for request in requests]
            completions = completes.complete(prompts, on_progress)
            ids = (request.doc["id"] for request in requests)
            answers.update(zip(ids, completions, strict=True))
            return [completion.text for completion in completions]

        def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
            raise NotImplementedError("suites are generated and scored, not ranked")

        def loglikelihood_rolling(self, requests: list[Any]) -> list[float]:
            raise NotImplementedError("suites are generated and scored, not ranked")

    return EngineLM()


def run(request: Request, out: Path, report: Callable[[str], None]) -> None:
    """Evaluates every suite and writes `outcomes-<suite>.json` and `harness.json` under `out`.

    Raises:
        EvalError: a suite, the checkpoint or the engine is at fault; suites done so far are kept.
    """
    start = time.monotonic()
    manifest = _manifest(request.manifest)
    suites = _suites(request.suites)
    made_with = runtime.runtime(request.engine)
    results = ResultsDir(path=out)
    done = _kept(results, suites, manifest.digest, made_with["digest"])
    for name in done:
        report(f"kept {name}")
    todo = [item for item in suites if item.name not in done]
    if todo:
        with engine.Engine(request.checkpoint_dir, manifest, request.engine) as running:
            report(f"engine ready after {time.monotonic() - start:.1f} s")
            evaluator = Evaluator(
                engine=running,
                prompt=manifest.prompt,
                checkpoint_digest=manifest.digest,
                runtime_digest=made_with["digest"],
            )
            for item in todo:
                done[item.name] = evaluator.evaluate(item, _progress(item.name, report))
                results.write(done[item.name])
    in_order = [done[item.name] for item in suites]
    results.write_summary(made_with, in_order, time.monotonic() - start)


def _suites(paths: Sequence[Path]) -> list[Suite]:
    suites = [suite.load(path) for path in paths]
    names = [item.name for item in suites]
    if len(set(names)) != len(names):
        raise errors.SuiteInvalid(
            f"suites {', '.join(names)} do not have a name each; outcomes are filed by name"
        )
    return suites


def _kept(
    results: ResultsDir, suites: Sequence[Suite], checkpoint_digest: str, runtime_digest: str
) -> dict[str, Evaluated]:
    found = {item.name: results.kept(item, checkpoint_digest, runtime_digest) for item in suites}
    return {name: kept for name, kept in found.items() if kept is not None}


def _manifest(path: Path) -> Manifest:
    try:
        return Manifest.from_json(path.read_text())
    except (OSError, ValueError) as exc:
        raise errors.EvaluationFailed(
            f"cannot read the manifest {path}: {exc}; register the checkpoint again"
        ) from exc


def _progress(name: str, report: Callable[[str], None]) -> OnProgress:
    """Reports about twenty times per suite, and at its end."""
    reported = 0

    def on_progress(done: int, total: int) -> None:
        nonlocal reported
        if done == total or done - reported >= total / _PROGRESS_STEPS:
            reported = done
            report(f"progress {name} {done}/{total}")

    return on_progress


def main(arguments: Sequence[str] | None = None) -> int:
    """The worker process: 0 done, 1 a fault that the last line of standard error explains."""
    parser = argparse.ArgumentParser(prog="python -m evals.harness", description=__doc__)
    parser.add_argument("--request", type=Path, required=True, help="the request, JSON")
    parser.add_argument("--out", type=Path, required=True, help="directory for the outcomes")
    options = parser.parse_args(arguments)
    try:
        with engine.environment():
            request = Request.from_json(options.request.read_text())
            run(request, options.out, lambda line: print(line, flush=True))
    except (errors.EvalError, OSError) as exc:
        print(f"error: {exc}", file=sys.stderr, flush=True)
        return 1
    except KeyboardInterrupt:
        print("error: interrupted; the same command goes on with what is left", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
