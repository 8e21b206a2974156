"""`liftlock status` and `liftlock history`: looking, never changing or starting anything."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any

import click

from jobs import placing
from jobs.cli_options import checked_model, json_option
from jobs.errors import StackError
from jobs.exits import Exit
from jobs.guard import guarded
from jobs.settings import Settings
from registry import ledger
from registry.errors import RegistryError
from registry.model import short
from registry.store import Record


@click.command()
@click.argument("model", default="grammar")
@json_option
@click.pass_obj
def status(settings: Settings, model: str, as_json: bool) -> None:
    """Show what serves MODEL, since when and why, and where its traffic goes.

    \b
    Examples:
      liftlock status grammar
      liftlock status grammar --json
    """

    def show() -> None:
        found = look(settings, checked_model(model))
        click.echo(json.dumps(found, indent=2) if as_json else as_text(found))
        if "record_error" in found:
            sys.exit(Exit.FAULT)

    guarded(show)


@click.command()
@click.argument("model", default="grammar")
@json_option
@click.pass_obj
def history(settings: Settings, model: str, as_json: bool) -> None:
    """Print MODEL's ledger, oldest first; `--json` prints one entry a line, as it is stored.

    \b
    Examples:
      liftlock history grammar
      liftlock history grammar --json > ledger.jsonl
    """

    def show() -> None:
        for entry in _record(settings).ledger.entries(checked_model(model)):
            if as_json:
                click.echo(entry.to_json())
            else:
                click.echo(
                    f"{entry.seq:>4}  {entry.at}  {entry.kind:<9} version {entry.version:<4} "
                    f"{short(entry.digest)}  {entry.actor}  {entry.reason}"
                )

    guarded(show)


def look(settings: Settings, model: str) -> dict[str, Any]:
    """Everything that status shows, as plain data; what cannot be read says why."""
    found: dict[str, Any] = {"model": model, "endpoint": placing.endpoint_url(settings)}
    try:
        record = _record(settings)
        entries = record.ledger.entries(model)
        now, before = ledger.champion(entries), ledger.previous(entries)
        found["champion"] = _entry(now)
        found["previous"] = _entry(before)
        found["record"] = record.address
        found["ledger_entries"] = len(entries)
        if now is not None:
            found["evidence"] = record.evidence.url(now.evidence_run)
    except (RegistryError, StackError) as exc:
        found["record_error"] = str(exc)
    found.update(_edge(settings, model))
    return found


def _edge(settings: Settings, model: str) -> dict[str, Any]:
    from serving.edge import control

    status_now = control.current_status(settings.home)
    if status_now is None:
        return {"edge": None}
    mine = [v for v in status_now.versions if v.model == model]
    return {
        "edge": {
            "url": status_now.url,
            "last_error": status_now.last_error,
            "source_age_s": status_now.source_age_s,
            "versions": [
                {"version": v.version, "weight": v.weight, "endpoints": list(v.endpoints)}
                for v in mine
            ],
        }
    }


def as_text(found: dict[str, Any]) -> str:
    """Status for people."""
    lines = [f"model     {found['model']}"]
    now = found.get("champion")
    if "record_error" in found:
        lines.append(f"record    cannot be read: {found['record_error']}")
    elif now is None:
        lines.append("champion  none yet; nothing was promoted")
    else:
        lines += [
            f"champion  version {now['version']} ({short(now['digest'])}) since {now['at']}",
            f"why       {now['kind']} by {now['actor']}: {now['reason']}",
            f"evidence  {found['evidence']}",
        ]
        before = found["previous"]
        lines.append(f"previous  version {before['version']}" if before else "previous  none")
    return "\n".join([*lines, *_edge_lines(found["edge"]), *_disagreement(found)])


def _disagreement(found: dict[str, Any]) -> list[str]:
    """What an interrupted rollout can leave: traffic that the ledger knows nothing of."""
    now, edge = found.get("champion"), found["edge"]
    if now is None or edge is None:
        return []
    others = [
        v["version"] for v in edge["versions"] if v["weight"] and v["version"] != now["version"]
    ]
    if not others:
        return []
    return [
        f"problem   version {others[0]} has traffic, the ledger says version {now['version']}; "
        f"`liftlock serve {found['model']}` puts it right"
    ]


def _edge_lines(edge: dict[str, Any] | None) -> list[str]:
    if edge is None:
        return ["edge      not running; `liftlock serve` brings the champion up"]
    lines = [f"edge      {edge['url']}"]
    for version in edge["versions"]:
        if not version["weight"] and not version["endpoints"]:
            continue  # its cluster lingers in the edge until running requests have ended
        count = len(version["endpoints"])
        lines.append(
            f"traffic   {version['weight']} % on version {version['version']}, "
            f"{count} ready replica{'' if count == 1 else 's'}"
        )
    if edge["last_error"]:
        lines.append(f"problem   {edge['last_error']}")
    return lines


def _entry(entry: ledger.LedgerEntry | None) -> dict[str, Any] | None:
    return dataclasses.asdict(entry) if entry is not None else None


def _record(settings: Settings) -> Record:
    uri = placing.existing_tracking_uri(settings)
    if uri is None:
        raise StackError(
            f"no MLflow server runs for {settings.home}; `liftlock serve` or a promotion starts "
            "one, or give --tracking-uri"
        )
    return placing.connect_to(uri)
