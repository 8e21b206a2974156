"""Sentences of the kind "some suite regressed", which need a correction that the gate does not.

Whoever looks at twenty gates and names the ones that differ has tried twenty times. Holm's
procedure keeps the chance of even one wrong name among them at alpha. A gate's own answer needs no
correction and may differ: a suite can be shown to be worse and yet be within its margin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evals import stats
from evals.verdict import GateResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """Gates whose candidate differs from the champion beyond chance, by Holm over all tested."""

    regressed: tuple[GateResult, ...]
    improved: tuple[GateResult, ...]
    tested: int
    alpha: float

    @property
    def sentences(self) -> tuple[str, ...]:
        """What may be said; nothing where nothing was tested."""
        if not self.tested:
            return ()
        how = f"Holm over {self.tested:,} gates at {100.0 * self.alpha:g} %"
        said = [
            f"{word} beyond chance ({how}): {', '.join(item.name for item in found)}."
            for word, found in (("Regressed", self.regressed), ("Improved", self.improved))
            if found
        ]
        return tuple(said) or (f"No gate differs from the champion beyond chance ({how}).",)


def differences(results: Sequence[GateResult], alpha: float) -> Differences:
    """Every gate that has a p-value is tested, whichever way it went."""
    tested = [r for r in results if r.p_value is not None and r.estimate_points is not None]
    adjusted = stats.holm([r.p_value or 0.0 for r in tested])
    shown = [r for r, p in zip(tested, adjusted, strict=True) if p <= alpha]
    return Differences(
        regressed=tuple(r for r in shown if (r.estimate_points or 0.0) < 0.0),
        improved=tuple(r for r in shown if (r.estimate_points or 0.0) > 0.0),
        tested=len(tested),
        alpha=alpha,
    )
