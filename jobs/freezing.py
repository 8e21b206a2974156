"""`liftlock freeze` and `liftlock thaw`: nothing changes on its own until a person says so."""

from __future__ import annotations

from collections.abc import Callable

import click

from jobs import placing, progress
from jobs.cli_options import checked_model
from jobs.errors import UsageError
from jobs.guard import guarded
from jobs.settings import Settings
from pipelines import records
from pipelines.records import Said
from registry.errors import RegistryError
from registry.ledger import Mark
from registry.store import Record


@click.command()
@click.argument("model", default="grammar")
@click.option("--reason", required=True, help="Why; shown in status and in refused commands.")
@click.pass_obj
def freeze(settings: Settings, model: str, reason: str) -> None:
    """Stop every promotion and automatic action of MODEL until it is thawed.

    A promotion that is under way is refused at its last step and gives the traffic back. Going
    back by hand (`liftlock rollback`) stays possible.

    \b
    Examples:
      liftlock freeze grammar --reason "holiday season"

    Exits 2 for a model that was never tried here.
    """

    def body() -> None:
        mark = _say(
            settings, model, lambda record, said: records.freeze(record, model, said), reason
        )
        assert mark is not None, "freezing leaves a model frozen"
        click.echo(f"{model} is frozen by {mark.actor} since {mark.at}: {mark.reason}")
        if mark.reason != reason:
            click.echo("it was frozen already; thaw it first to give another reason")

    guarded(body)


@click.command()
@click.argument("model", default="grammar")
@click.option("--reason", default="thawed by hand", help="Why; written into the ledger.")
@click.pass_obj
def thaw(settings: Settings, model: str, reason: str) -> None:
    """Let promotions and automatic actions of MODEL go on.

    \b
    Examples:
      liftlock thaw grammar --reason "season is over"
    """

    def body() -> None:
        mark = _say(settings, model, lambda record, said: records.thaw(record, model, said), reason)
        click.echo(f"{model} is thawed" if mark is not None else f"{model} was not frozen")

    guarded(body)


def _say(
    settings: Settings, model: str, call: Callable[[Record, Said], Mark | None], reason: str
) -> Mark | None:
    checked_model(model)
    terminal = progress.Terminal()
    record = placing.open_record(settings, terminal.note)
    known = record.ledger.models()
    if model not in known:  # a misspelled name would leave the real one unfrozen
        raise UsageError(
            f"{record.address} knows no model {model!r}; known are: {', '.join(known) or 'none'}"
        )
    said = Said(actor=placing.actor(), reason=reason, now=placing.now)
    mark = call(record, said)
    try:
        records.redescribe(record, model)
    except RegistryError:  # nothing was registered yet; there is no page to say it on
        return mark
    return mark
