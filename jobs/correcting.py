"""`liftlock correct`: many texts, through the edge or by handle on the cluster."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import click

from jobs import batch_lines, placing, progress
from jobs.batch_lines import Item
from jobs.cli_options import VERSION, checked_model, json_option
from jobs.errors import UsageError
from jobs.exits import Exit
from jobs.guard import guarded
from jobs.settings import Settings
from jobs.web_address import WEB_ADDRESS
from serving.client import AsyncClient, BadRequest, ClientError, Correction

_BLOCK = 4_096
"""Texts that are read ahead; between two blocks the endpoint runs dry for the length of a call."""
_ATTEMPT_S = 60.0
"""Longest time for one attempt; what a replica allows at most."""
_NOTE_S = 2.0

Results = AsyncGenerator[Correction | ClientError, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The command line."""

    source: str
    model: str
    via: str
    endpoint: tuple[str, ...]
    version: int | None
    input_kind: str
    language: str | None
    out: Path | None
    concurrency: int
    texts_per_request: int
    deadline_s: float
    as_json: bool

    @property
    def is_json_input(self) -> bool:
        """Whether a line of the input is a JSON object."""
        if self.input_kind == "auto":
            return self.source.endswith(batch_lines.JSONL_SUFFIXES)
        return self.input_kind == "jsonl"


@dataclass(slots=True, kw_only=True)
class Done:
    """How far a batch is."""

    corrected: int = 0
    refused: int = 0
    picks: Mapping[str, int] = field(default_factory=dict)
    """Requests by where the router sent them: addresses of edges, or ids of replicas."""

    @property
    def texts(self) -> int:
        """All that have an answer."""
        return self.corrected + self.refused


@click.command()
@click.argument(
    "source", metavar="FILE|-", type=click.Path(exists=True, dir_okay=False, allow_dash=True)
)
@click.option("--model", default="grammar", show_default=True, help="Registered model name.")
@click.option(
    "--via",
    type=click.Choice(("edge", "handle")),
    default="edge",
    show_default=True,
    help="Over HTTP as every caller, or by Serve handle on the cluster, past the edge.",
)
@click.option(
    "--endpoint",
    type=WEB_ADDRESS,
    metavar="URL",
    multiple=True,
    help="An edge; may be repeated. [default: the local stack's]",
)
@click.option("--version", type=VERSION, help="The version that must answer. [default: any]")
@click.option(
    "--input",
    "input_kind",
    type=click.Choice(("auto", "text", "jsonl")),
    default="auto",
    show_default=True,
    help='A text a line, or a JSON object a line with "text" and perhaps "id".',
)
@click.option("--language", help="What the texts are written in, as a hint, such as en.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="JSON lines go here; the same command again goes on in it. [default: stdout]",
)
@click.option("--concurrency", type=click.IntRange(1, 1_024), default=8, show_default=True)
@click.option("--texts-per-request", type=click.IntRange(1, 128), default=16, show_default=True)
@click.option(
    "--deadline-s",
    type=click.FloatRange(0.1, 3_600.0),
    default=120.0,
    show_default=True,
    help="Longest time for one request with its retries.",
)
@json_option
@click.pass_obj
def correct(settings: Settings, /, **options: Any) -> None:
    """Correct every text of FILE, or of stdin.

    Corrections come in the order of the texts: as plain lines, with --json as JSON lines. Into
    --out they are JSON lines always, and --json prints the summary. A text that the endpoint
    refuses is told in its place. An endpoint that does not answer ends the command; with --out the
    same one goes on where it stopped. A key is read from LIFTLOCK_API_KEY; for
    the edge of this home it signs its own.

    \b
    Examples:
      liftlock correct texts.txt
      liftlock correct texts.jsonl --out corrected.jsonl
      liftlock correct texts.jsonl --out corrected.jsonl --via handle --concurrency 32
      echo 'She go to school.' | liftlock correct - --json

    Exits 1 where a text was refused.
    """
    guarded(lambda: _correct(settings, Options(**options)))


def _correct(settings: Settings, options: Options) -> None:
    checked_model(options.model)
    if options.endpoint and options.via == "handle":
        raise UsageError("--endpoint names edges; --via handle goes past them, leave one out")
    began_s = time.monotonic()
    with contextlib.ExitStack() as stack:
        terminal = stack.enter_context(contextlib.closing(progress.Terminal()))
        file, name = _source(stack, options.source)
        items = batch_lines.read(file, name, is_json=options.is_json_input)
        done, write = _target(stack, options, items)
        kept = done.texts
        terminal.stage(f"correct {name} via {options.via}")
        open_route = _by_handle if options.via == "handle" else _by_edge
        asyncio.run(_run(items, open_route(settings, options, done), write, _Pace(terminal, done)))
    _tell(options, done, kept, time.monotonic() - began_s)
    if done.refused:
        sys.exit(Exit.FAULT)


def _source(stack: contextlib.ExitStack, source: str) -> tuple[IO[bytes], str]:
    if source == "-":
        return sys.stdin.buffer, "stdin"
    return stack.enter_context(Path(source).open("rb")), source


Write = Callable[[Item, Correction | ClientError | None], None]


def _target(
    stack: contextlib.ExitStack, options: Options, items: Iterator[Item]
) -> tuple[Done, Write]:
    """What is done already, and how results are written."""
    done = Done()
    if options.out is not None:
        kept = batch_lines.skip_kept(options.out, items)
        done = Done(corrected=kept.lines - kept.refused, refused=kept.refused)
        file = stack.enter_context(batch_lines.append_to(options.out, kept))
        put: Callable[[str], object] = file.write
    else:
        put = sys.stdout.write

    def write(item: Item, result: Correction | ClientError | None) -> None:
        if options.out is not None or options.as_json:
            put(batch_lines.encoded(batch_lines.written(item, result)))
        elif isinstance(result, Correction):
            put(f"{result.corrected}\n")
        else:  # line by line as it came in, so that lines stay side by side
            put(f"{item.text}\n")
        if isinstance(result, ClientError):
            done.refused += 1
            click.echo(f"line {item.line} was refused: {result}", err=True)
        else:
            done.corrected += 1

    return done, write


Correct = Callable[[list[str]], Results]
Route = contextlib.AbstractAsyncContextManager[Correct]


@contextlib.asynccontextmanager
async def _by_edge(settings: Settings, options: Options, done: Done) -> AsyncGenerator[Correct]:
    """Through the edge, with the SDK."""
    own = placing.endpoint_url(settings)
    urls = options.endpoint or (own,)
    # What this home signs is for its own edge alone, and its certificate proves no other.
    is_own = {url.rstrip("/") for url in urls} == {own}
    try:
        client = AsyncClient(
            urls,
            api_key=placing.own_keys(settings)
            if is_own
            else os.environ.get(placing.API_KEY_ENV) or None,
            model=options.model,
            version=options.version,
            timeout_s=min(_ATTEMPT_S, options.deadline_s),
            deadline_s=options.deadline_s,
            tls=placing.own_trust(settings) if is_own else None,
        )
    except ValueError as exc:
        raise UsageError(f"the endpoint cannot be asked like that: {exc}") from exc
    async with client:
        yield lambda texts: client.correct_many(
            texts,
            concurrency=options.concurrency,
            texts_per_request=options.texts_per_request,
            language=options.language,
        )
        done.picks = {each.address: each.picks for each in client.stats().edges}


@contextlib.asynccontextmanager
async def _by_handle(settings: Settings, options: Options, done: Done) -> AsyncGenerator[Correct]:
    """By handle to the replicas of one version."""
    from serving import by_handle, handle_leases
    from serving.cluster import RayCluster, application_name

    version = options.version or placing.most_served(settings, options.model)
    cluster = RayCluster.connect(placing.running_cluster(settings))
    handle = cluster.handle(options.model, version)
    yield lambda texts: by_handle.correct_many(
        handle,
        texts,
        concurrency=options.concurrency,
        texts_per_request=options.texts_per_request,
        language=options.language,
        timeout_s=min(_ATTEMPT_S, options.deadline_s),
        deadline_s=options.deadline_s,
    )
    done.picks = handle_leases.stats(application_name(options.model, version)).by_replica


async def _run(items: Iterator[Item], route: Route, write: Write, pace: _Pace) -> None:
    """All items, a block at a time.

    Raises:
        ClientError: the endpoint does not answer; everything before that is written.
    """
    async with route as corrections:
        while block := list(itertools.islice(items, _BLOCK)):
            texts = [item.text for item in block if not item.is_blank]
            async with contextlib.aclosing(corrections(texts)) as results:
                for item in block:
                    result = None if item.is_blank else await anext(results)
                    if isinstance(result, ClientError) and not isinstance(result, BadRequest):
                        raise result  # the next ones would fare no better; run it again
                    write(item, result)
                    pace.note()


class _Pace:
    """Tells how far a batch is, now and then."""

    def __init__(self, terminal: progress.Terminal, done: Done) -> None:
        self._terminal = terminal
        self._done = done
        self._told_s = time.monotonic()

    def note(self) -> None:
        """A text is done."""
        if time.monotonic() - self._told_s >= _NOTE_S:
            self._told_s = time.monotonic()
            self._terminal.note(f"{self._done.texts} texts, {self._done.refused} refused")


def _tell(options: Options, done: Done, kept: int, seconds: float) -> None:
    summary = {
        "texts": done.texts,
        "corrected": done.corrected,
        "refused": done.refused,
        "kept": kept,
        "via": options.via,
        "picks": dict(done.picks),
        "out": None if options.out is None else str(options.out),
        "seconds": round(seconds, 3),
    }
    if options.out is not None and options.as_json:
        click.echo(json.dumps(summary, indent=2))
        return
    sys.stdout.flush()
    sent = ", ".join(f"{where} {number}" for where, number in done.picks.items()) or "none"
    click.echo(
        f"{done.corrected} corrected, {done.refused} refused, {kept} of them by an earlier run, in "
        f"{seconds:.1f} s; requests: {sent}",
        err=True,
    )
