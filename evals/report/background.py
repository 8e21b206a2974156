"""What was compared, what changed between the sides, and how to do it all again."""

from __future__ import annotations

from evals.report import markup
from evals.report.given import Change, Quantization, ReportInput, changes
from evals.stats import bootstrap


def compared_section(given: ReportInput) -> str:
    """Both sides, the suites, the policy."""
    sides = [("Candidate", given.candidate)]
    if given.champion is not None:
        sides.append(("Champion", given.champion))
    versions = markup.table(
        ("", "Version", "Checkpoint digest", "Recipe"),
        (
            (
                markup.text(what),
                markup.text(side.version),
                markup.code(side.digest),
                markup.text(side.recipe),
            )
            for what, side in sides
        ),
    )
    suites = markup.table(
        ("Suite", "Language", "Kind", "Examples", "Digest", "Evaluated on"),
        (
            (
                markup.text(item.suite.name),
                markup.text(item.suite.language),
                markup.text(item.suite.kind),
                f"{len(item.suite.examples):,}",
                markup.code(item.suite.digest),
                markup.code(item.candidate.runtime_digest),
            )
            for item in given.suites
        ),
    )
    made = f"<p>Made {markup.text(given.made_at)}.</p>" if given.made_at else ""
    return f"<h2>What was compared</h2>{versions}{suites}<p>{_policy(given)}</p>{made}"


def _policy(given: ReportInput) -> str:
    policy, floors = given.policy, given.policy.floors
    digest = markup.code(given.verdict.policy_digest)
    if given.champion is None:
        return (
            f"Policy {digest}: a first version is held against floors, {100 * floors.correction:g}"
            f" % fixed, {100 * floors.clean:g} % of clean sentences left alone, "
            f"{100 * floors.tag:g} % for each tag; error level {policy.alpha:g} for each gate."
        )
    tag = policy.margin_points if policy.tag_margin_points is None else policy.tag_margin_points
    return (
        f"Policy {digest}: margin {policy.margin_points:g} points for a suite, {tag:g} for a tag, "
        f"{len(policy.overrides)} suites with their own; error level {policy.alpha:g} for each "
        "gate. A pass needs every gate, so more gates do not make a wrong pass likelier."
    )


def changed_section(given: ReportInput) -> str:
    """Each thing that shapes answers, against the champion."""
    rows = [_change(item) for item in changes(given)]
    if not rows:
        return ""
    head = ("", "Changed", "Candidate", "Champion")
    return f"<h2>What changed</h2>{markup.table(head, rows)}"


def _change(item: Change) -> tuple[str, ...]:
    cells = [_shown(item.candidate), _shown(item.champion)]
    if item.what == "prompt" and item.is_change and item.is_known:
        cells[0] = markup.marked(item.champion, item.candidate)
    told = "not known"
    if item.is_known:
        told = "yes" if item.is_change else "no"
    return markup.text(item.what), told, *cells


def _shown(value: str) -> str:
    if value.startswith("sha256:"):
        return markup.code(value)
    return markup.text(value or "not known")


def reproduce_section(given: ReportInput) -> str:
    """Commands, and the identity of everything that went in."""
    verdict = given.verdict
    rows = [
        ("candidate", verdict.candidate_digest),
        ("champion", verdict.champion_digest or "none"),
        ("settings", verdict.policy_digest),
        ("gate policy", given.policy.digest),
        *((f"suite {item.suite.name}", item.suite.digest) for item in given.suites),
        *((f"data of {item.suite.name}", item.suite.data_sha256) for item in given.suites),
        *given.identities,
    ]
    table = markup.table(
        ("What", "Digest or id"),
        ((markup.text(what), f"<code>{markup.text(value)}</code>") for what, value in rows),
    )
    commands = "\n".join(given.reproduce)
    shown = f"<pre>{markup.text(commands)}</pre>" if commands else ""
    return (
        f"<h2>How to reproduce</h2>{shown}{table}<p>Resampled bounds use "
        f"{bootstrap.RESAMPLES:,} resamples; their seeds are made from these digests and are in "
        "verdict.json, so the same evidence gives the same bounds.</p>"
    )


def quantization_section(given: Quantization | None) -> str:
    """What quantization changed."""
    if given is None:
        return ""
    rows = ((markup.text(group), f"{100.0 * error:.2f} %") for group, error in given.weight_errors)
    note = f"<p>{markup.text(given.note)}</p>" if given.note else ""
    return (
        f"<h2>Quantization</h2><p>Size: {100.0 * given.size_ratio:.0f} % of the original.</p>{note}"
        f"{markup.table(('Layer group', 'Relative weight error'), rows)}"
    )


def stages_section(given: ReportInput) -> str:
    """How long each stage took."""
    if not given.stages:
        return ""
    rows = [(markup.text(name), f"{wall_s:.1f} s") for name, wall_s in given.stages]
    total_s = sum(wall_s for _, wall_s in given.stages)
    rows.append(("<strong>total</strong>", f"{total_s:.1f} s"))
    return f"<h2>Stages</h2>{markup.table(('Stage', 'Time'), rows)}"
