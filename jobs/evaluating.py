"""`liftlock evaluate`: what a checkpoint, an endpoint or a baseline does on the suites."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from jobs import placing, progress
from jobs.cli_options import (
    config_option,
    data_dir_option,
    data_folder,
    json_option,
    load_config,
)
from jobs.errors import UsageError
from jobs.exits import Exit
from jobs.guard import guarded
from jobs.settings import Settings
from jobs.web_address import WEB_ADDRESS

BASELINES = ("source-copy",)
MANIFEST_NAME = "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The command line."""

    checkpoint: Path | None
    endpoint: str | None
    served_model: str | None
    baseline: str | None
    suites: tuple[str, ...]
    every: bool
    data_dir: Path | None
    out: Path | None
    model: str | None
    config_file: Path | None
    prompt_file: Path | None
    as_json: bool


@click.command()
@click.argument("checkpoint", required=False, type=click.Path(path_type=Path))
@click.option(
    "--endpoint",
    type=WEB_ADDRESS,
    metavar="URL",
    help="A running endpoint, asked by /v1/completions.",
)
@click.option("--served-model", help="Which of the endpoint's models, where it serves several.")
@click.option("--baseline", type=click.Choice(BASELINES), help="What needs no model.")
@click.option(
    "--suite",
    "suites",
    multiple=True,
    metavar="NAME",
    help="A shipped suite or the path of a definition; may be repeated. [default: the settings']",
)
@click.option("--all", "every", is_flag=True, help="Every shipped suite whose data is there.")
@data_dir_option
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the results; the same one again goes on in it. [default: in HOME/evaluations]",
)
@click.option("--model", help="Put the results into this registered model's record too.")
@config_option
@click.option(
    "--prompt",
    "prompt_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Prompt template and generation settings (JSON), for an endpoint or a checkpoint without.",
)
@json_option
@click.pass_obj
def evaluate(settings: Settings, /, **options: Any) -> None:
    """Evaluate CHECKPOINT, or an endpoint, or a baseline, and print each metric with its interval.

    Nothing is compared and nothing that serves is changed. An endpoint is asked with the prompt and
    the generation settings of CHECKPOINT or of --prompt; for suites that compare probabilities name
    CHECKPOINT, for its tokenizer. After an interruption run the same command again: answers that
    were had are kept.

    \b
    Examples:
      liftlock evaluate examples/checkpoints/tiny-gec-1 --all
      liftlock evaluate --baseline source-copy --suite jfleg-test
      liftlock evaluate ckpt --endpoint http://127.0.0.1:8000 --suite ua-gec-test
      liftlock evaluate ckpt --model grammar --json

    Exits 1 where a suite that was named, here or in the settings, could not be run.
    """
    guarded(lambda: _evaluate(settings, Options(**options)))


def _evaluate(settings: Settings, options: Options) -> None:
    from evals import suite_definition
    from evals.request import Request
    from pipelines import measuring, outcomes

    config, folder = load_config(options.config_file, options.model)
    subject = _subject(options)
    out = (options.out or settings.home / "evaluations" / subject.folder).resolve()
    named = _named(options, config, folder)
    data_dir = data_folder(settings, options.data_dir, config, folder)
    request = _request(options, config, named, data_dir)
    _check_suites(request["suites"])
    if subject.manifest is not None:
        request = {**request, "manifest": out / MANIFEST_NAME}
    question = measuring.Question(
        name=subject.name,
        request=Request(**request),
        manifest=subject.manifest,
        threads=outcomes.threads_of(config),
    )
    terminal = progress.Terminal()
    with contextlib.closing(terminal):
        terminal.stage(f"evaluate {subject.name}")
        measured = measuring.measure(question, out, terminal.note)
        url = _logged(settings, options.model, measured, terminal)
    summary = {"evaluated": subject.name, "out": str(out), "run_url": url, **measured.summary}
    text = json.dumps(summary, indent=2) if options.as_json else "\n".join(lines(summary))
    click.echo(text)
    if any(suite_definition.read(path).name in summary["unavailable"] for path in named):
        sys.exit(Exit.FAULT)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """What is evaluated: its name for people, a folder name, and how it is asked."""

    name: str
    folder: str
    manifest: Any


def _subject(options: Options) -> _Subject:
    """Checks that the command line names one thing, and reads how to ask it.

    Raises:
        UsageError: it names none, or several.
        CheckpointInvalid: the checkpoint or the prompt file cannot be used.
    """
    if options.baseline is not None:
        if options.checkpoint or options.endpoint or options.prompt_file:
            raise UsageError("--baseline stands alone: it needs no checkpoint, endpoint or prompt")
        return _Subject(name=options.baseline, folder=options.baseline, manifest=None)
    if options.checkpoint is not None:
        from registry import checkpoint

        found = checkpoint.inspect(options.checkpoint, prompt_file=options.prompt_file)
        label = options.checkpoint.resolve().name
        manifest = found.manifest
    elif options.endpoint is None:
        raise UsageError("name what to evaluate: a CHECKPOINT, --endpoint URL or --baseline")
    elif options.prompt_file is None:
        raise UsageError(
            "an endpoint is asked with a checkpoint's prompt and generation settings: name the "
            "CHECKPOINT that it serves, or give --prompt FILE"
        )
    else:
        label, manifest = "prompt", _manifest_of(options.prompt_file)
    where = f"-at-{_slug(options.endpoint)}" if options.endpoint is not None else ""
    return _Subject(
        name=options.endpoint or label,
        folder=f"{_slug(label)}-{manifest.digest[7:19]}{where}",
        manifest=manifest,
    )


def _manifest_of(prompt_file: Path) -> Any:
    from registry import prompt_file as prompts
    from registry.manifest import Manifest

    raw = prompts.read_json(prompt_file, "prompt template and generation settings")
    prompt, generation = prompts.parse_prompt(raw, str(prompt_file))
    return Manifest(files=(), prompt=prompt, generation=generation)


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text.partition("://")[2] or text).strip("-.") or "model"


def _named(options: Options, config: Any, folder: Path | None) -> tuple[Path, ...]:
    """Definitions of the suites that were named: on the command line, or else in the settings."""
    from pipelines import config as configs

    if options.suites:
        return tuple(configs.suite_path(name, relative_to=None) for name in options.suites)
    if options.every:
        return ()
    return tuple(configs.suite_path(name, relative_to=folder) for name in config.suites)


def _check_suites(paths: tuple[Path, ...]) -> None:
    """Reads the definitions before anything is started for them.

    Raises:
        SuiteInvalid: one is malformed.
        UsageError: two have one name, by which outcomes are filed.
    """
    from evals import suite_definition

    seen: dict[str, Path] = {}
    for path in paths:
        name = suite_definition.read(path).name
        if name in seen:
            raise UsageError(f"{seen[name]} and {path} are both named {name}; rename one")
        seen[name] = path


def _request(
    options: Options, config: Any, named: tuple[Path, ...], data_dir: Path
) -> dict[str, Any]:
    """The worker's request, but for the manifest."""
    from evals import catalog
    from evals.request import Baseline

    suites = dict.fromkeys((*(catalog.shipped() if options.every else ()), *named))
    return {
        "suites": tuple(suites),
        "data_dir": data_dir,
        "checkpoint_dir": options.checkpoint.resolve() if options.checkpoint else None,
        "engine": config.resources.engine,
        "endpoint": options.endpoint,
        "served_model": options.served_model,
        "baseline": Baseline(options.baseline) if options.baseline else None,
    }


def _logged(
    settings: Settings, model: str | None, measured: Any, terminal: progress.Terminal
) -> str | None:
    """Where the run is, if a record was asked for."""
    from pipelines import measuring

    if model is None:
        return None
    record = placing.open_record(settings, terminal.note)
    return record.evidence.url(measuring.log(measured, record, model))


HEADER = ("suite", "lang", "kind", "n", "missing", "metric", "value", "95 % interval", "seconds")
ROW = "{:<19} {:<4} {:<13} {:>5} {:>7}  {:<14} {:>6}  {:<16} {:>7}"


def lines(summary: dict[str, Any]) -> Iterator[str]:
    """The results for people: a row for each metric, values times 100."""
    yield f"{summary['evaluated']}: values times 100, over the examples that have an answer"
    yield ""
    yield ROW.format(*HEADER).rstrip()
    for name, of in summary["suites"].items():
        yield from _rows(name, of)
    if summary["unavailable"]:
        yield ""
        yield "not run:"
        for name, reason in summary["unavailable"].items():
            yield f"  {name}: {reason}"
    yield ""
    yield f"{summary['wall_s']:.0f} s in all; results in {summary['out']}"
    if summary["run_url"] is not None:
        yield f"review it in MLflow: {summary['run_url']}"


def _rows(name: str, of: dict[str, Any]) -> Iterator[str]:
    seconds = "kept" if of["was_kept"] else f"{of['wall_s']:.1f}"
    head = (name, of["language"], of["kind"], of["examples"], of["missing"] or "")
    if not of["metrics"]:
        yield ROW.format(*head, "", "", "", seconds)
    for number, one in enumerate(of["metrics"]):
        known = one["value"] is not None
        value = f"{100 * one['value']:.1f}" if known else ""
        bounds = f"[{100 * one['lower']:.1f}, {100 * one['upper']:.1f}]" if known else ""
        row = (one["metric"], value, bounds)
        if number == 0:
            yield ROW.format(*head, *row, seconds)
        else:
            yield ROW.format("", "", "", "", "", *row, "").rstrip()
