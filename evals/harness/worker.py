"""The worker: one request from its suites to its results.

    python -m evals.harness --request request.json --out DIR

Answers are written as they come and outcomes suite by suite, so a run that was stopped goes on
where it was. What is there is kept only if suite, checkpoint and runtime have the digests it was
made with.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from evals import engine, errors, routes, scoring, suite, suite_definition
from evals.harness import lm_task
from evals.harness.lm_task import Evaluator
from evals.journal import Journal, Owner
from evals.progress import Place, Progress
from evals.request import Request
from evals.results import Evaluated, ResultsDir
from evals.routes import Route
from evals.suite import Suite


def run(request: Request, out: Path, report: Callable[[str], None]) -> None:
    """Evaluates every suite whose data is there; see `ResultsDir` for what it writes under `out`.

    Raises:
        EvalError: a suite, the checkpoint or the model is at fault; what was done so far is kept.
    """
    start = time.monotonic()
    route = routes.of(request)
    suites, unavailable = _suites(request.suites, request.data_dir)
    results = ResultsDir(path=out)
    done = _kept(results, suites, route)
    for name in done:
        report(f"kept {name}")
    todo = [item for item in suites if item.name not in done]
    if todo:
        lm_task.load()
        with route.open() as model:
            report(f"ready after {time.monotonic() - start:.1f} s")
            evaluator = Evaluator(
                model=model,
                prompt=route.prompt,
                checkpoint_digest=route.checkpoint_digest,
                runtime_digest=route.runtime["digest"],
            )
            able, unable = _able(evaluator, todo)
            unavailable |= unable
            for number, item in enumerate(able, start=1):
                place = Place(name=item.name, number=number, of=len(able))
                done[item.name] = _evaluated(evaluator, item, results, place, report)
    in_order = [done[item.name] for item in suites if item.name in done]
    results.write_summary(route.runtime, in_order, unavailable, time.monotonic() - start)


def _suites(paths: Sequence[Path], data_dir: Path | None) -> tuple[list[Suite], dict[str, str]]:
    """The suites, and by name why others cannot be had."""
    suites, unavailable = [], {}
    names = [suite_definition.read(path).name for path in paths]
    if len(set(names)) != len(names):
        raise errors.SuiteInvalid(
            f"suites {', '.join(names)} do not have a name each; outcomes are filed by name"
        )
    for name, path in zip(names, paths, strict=True):
        try:
            suites.append(suite.load(path, data_dir=data_dir))
        except errors.SuiteUnavailable as exc:
            unavailable[name] = str(exc)
    return suites, unavailable


def _kept(results: ResultsDir, suites: Sequence[Suite], route: Route) -> dict[str, Evaluated]:
    owner = (route.checkpoint_digest, route.runtime["digest"])
    found = {item.name: results.kept(item, *owner) for item in suites}
    return {name: kept for name, kept in found.items() if kept is not None}


def _able(evaluator: Evaluator, suites: Sequence[Suite]) -> tuple[list[Suite], dict[str, str]]:
    """The suites that the model can answer, all checked before the first is begun."""
    able, unable = [], {}
    for item in suites:
        reason = evaluator.model.cannot(scoring.ask_of(item.kind))
        if reason is not None:
            unable[item.name] = reason
            continue
        evaluator.check(item)
        able.append(item)
    return able, unable


def _evaluated(
    evaluator: Evaluator,
    item: Suite,
    results: ResultsDir,
    place: Place,
    report: Callable[[str], None],
) -> Evaluated:
    owner = Owner(
        suite_digest=item.digest,
        checkpoint_digest=evaluator.checkpoint_digest,
        runtime_digest=evaluator.runtime_digest,
    )
    progress = Progress(place, lambda line: report(f"progress {line}"))
    with Journal(results.answers_path(item.name), owner) as journal:
        evaluated = evaluator.evaluate(item, journal, progress)
    results.write(evaluated)
    return evaluated


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
        told = " ".join(str(exc).split())  # the parent takes one line
        print(f"error: {told}", file=sys.stderr, flush=True)
        return 1
    except KeyboardInterrupt:
        print("error: interrupted; the same command goes on with what is left", file=sys.stderr)
        return 1
    return 0
