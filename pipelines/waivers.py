"""Waivers: a named person lets a candidate pass a gate that did not pass, until a date.

The verdict stays what it was. A waiver names the gates it excuses; one that it does not name still
refuses. It is entered in the ledger as an override and shown on top of the report.
"""

from __future__ import annotations

import datetime
import html
from collections.abc import Sequence
from dataclasses import dataclass

from evals.verdict import GateStatus, Verdict
from pipelines.errors import ConfigInvalid
from registry.ledger import Waiver
from registry.wording import check_line

MAX_CHARS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class WaiverPolicy:
    """What waivers the settings allow."""

    allowed: bool = True
    """False: no gate can be waived."""
    max_days: int = 30
    """The longest time a waiver may hold, in days."""

    def __post_init__(self) -> None:
        if self.max_days < 1:
            raise ValueError(f"waivers max_days must be at least 1, got {self.max_days}")


def check(waiver: Waiver, policy: WaiverPolicy, now: str) -> None:
    """Refuses a waiver that is not one, before anything is done.

    Args:
        now: UTC, ISO 8601.

    Raises:
        ConfigInvalid: the settings forbid it, it names nobody or no reason, or its date is past,
            too far away or no date.
    """
    if not policy.allowed:
        raise ConfigInvalid(
            "the settings forbid waivers (waivers: allowed: false); a candidate that does not pass "
            "its gates cannot be promoted"
        )
    for what, text in (("--waived-by", waiver.by), ("--reason", waiver.reason)):
        if not text.strip():
            raise ConfigInvalid(f"a waiver needs {what}: a named person answers for it")
        try:
            check_line(what, text, MAX_CHARS)
        except ValueError as exc:
            raise ConfigInvalid(str(exc)) from exc
    if not waiver.gates:
        raise ConfigInvalid("a waiver must name the gates that it excuses (--waive GATE)")
    today, last = datetime.date.fromisoformat(now[:10]), _date(waiver.expires)
    if last < today:
        raise ConfigInvalid(f"the waiver expired on {waiver.expires}; today is {today}")
    if (last - today).days > policy.max_days:
        raise ConfigInvalid(
            f"the waiver would hold until {waiver.expires}, {(last - today).days} days; at most "
            f"{policy.max_days} are allowed (waivers: max_days)"
        )


def _date(text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError as exc:
        raise ConfigInvalid(
            f"--waiver-expires must be a date such as 2030-12-31, got {text!r}"
        ) from exc


def excuses(waiver: Waiver, verdict: Verdict) -> bool:
    """Whether every gate that did not pass is named by the waiver.

    Raises:
        ConfigInvalid: the waiver names a gate that does not exist.
    """
    known = {result.name for result in verdict.results}
    unknown = sorted(set(waiver.gates) - known)
    if unknown:
        raise ConfigInvalid(
            f"the waiver names {', '.join(unknown)}, which is no gate of this promotion; there are "
            f"{', '.join(sorted(known))}"
        )
    missed = {r.name for r in verdict.results if r.status is not GateStatus.PASS}
    return missed <= set(waiver.gates)


def missed(verdict: Verdict) -> Sequence[str]:
    """Names of the gates that did not pass."""
    return [r.name for r in verdict.results if r.status is not GateStatus.PASS]


def has_expired(waiver: Waiver, now: str) -> bool:
    """Whether its last day is over. `now` is UTC, ISO 8601."""
    return now[:10] > waiver.expires


def sentence(waiver: Waiver) -> str:
    """The waiver for people, in one line."""
    return (
        f"waived by {waiver.by} until {waiver.expires} for {', '.join(waiver.gates)}: "
        f"{waiver.reason}"
    )


def on_report(page: str, waiver: Waiver) -> str:
    """A gate's HTML report with the waiver on top of it; the verdict below stays what it was."""
    banner = (
        '<p class="waiver" role="note" style="border:3px double;padding:.6em">'
        f"<strong>Promoted although a gate did not pass.</strong> {html.escape(sentence(waiver))}"
        "</p>"
    )
    head, tag, rest = page.partition("</h1>")
    return f"{head}{tag}{banner}{rest}" if tag else banner + page
