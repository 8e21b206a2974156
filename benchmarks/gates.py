"""Is a gate wrong as seldom as it says, and does it pass good models as often as it predicts?

    python -m benchmarks.gates [--samples 1000]

Four questions, by counting over samples whose truth is known:

* Rates: how often does a candidate exactly at the margin pass, by the exact test (every possible
  result is enumerated, nothing is drawn) and by Tango's score interval, and with what power? How
  many examples do equal models need?
* Corpus scores: how often does a candidate exactly at the margin pass, with and without the unit
  that is supposed unseen, by percentiles, accelerated percentiles and a studentized bootstrap?
* How often do both bounds together cover the truth?
* How often do equal models pass, and what did `evals.stats.sizing` predict?
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import special
from scipy import stats as scipy_stats

from benchmarks import machine
from evals import stats
from evals.stats import bootstrap, exact, sizing
from evals.stats.sample import Floats, Scores, gradient
from tests.evals.stats.populations import Population

ALPHA = 0.05
RESAMPLES = 500
RATES = (
    (100, 0.04, 0.03),
    (300, 0.02, 0.02),
    (300, 0.1, 0.05),
    (747, 0.2, 0.05),
    (2000, 0.02, 0.01),
)
"""Examples, discordance, margin."""
SIZES = ((0.0, 0.02), (0.01, 0.02), (0.02, 0.02), (0.05, 0.02), (0.02, 0.05))
"""Discordance, margin."""
POPULATIONS = {
    "sparse": Population(n=100, changed=0.02, lost=1.0),
    "sparse, more": Population(n=300, changed=0.01, lost=1.0),
    "usual": Population(n=300, changed=0.1, lost=0.3),
    "dense": Population(n=300, changed=0.4, lost=0.1),
    "30 documents": Population(n=300, changed=0.2, lost=0.2, per_document=10),
    "50 documents": Population(n=500, changed=0.05, lost=1.0, per_document=10),
    "67 documents": Population(n=670, changed=0.05, lost=0.3, per_document=10),
    "20 documents": Population(n=200, changed=0.1, lost=0.5, per_document=10),
    "8 documents": Population(n=800, changed=0.1, lost=0.3, per_document=100),
}
EQUAL = (
    (Population(n=200, changed=0.3, lost=0.0), 0.05),
    (Population(n=600, changed=0.1, lost=0.0), 0.015),
    (Population(n=600, changed=0.2, lost=0.0, per_document=10), 0.03),
)


def rates() -> dict[str, Any]:
    """Chance to pass at the margin, and of equal models, exactly, by both intervals."""
    figures = {}
    for n, psi, delta in RATES:
        tests: dict[str, Callable[[int, int], bool]] = {
            "exact": lambda w, lost, n=n, d=delta: exact.shows_noninferiority(w, lost, n, d, ALPHA),  # type: ignore[misc]
            "tango": lambda w, lost, n=n, d=delta: (
                stats.tango_interval(w, lost, n, ALPHA).lower > -d
            ),  # type: ignore[misc]
        }
        for name, passes in tests.items():
            wrong = _chance(n, psi, -min(delta, psi), passes)
            power = _chance(n, psi, 0.0, passes)
            figures[f"{name} n={n} psi={psi} margin={delta}"] = [round(wrong, 4), round(power, 3)]
            print(f"rate    {name:<6} n {n:>5}  discordance {psi:<5} margin {delta:<5} "
                  f"false pass {wrong:.4f}  power {power:.3f}", flush=True)  # fmt: skip
    return figures


def sizes() -> dict[str, int]:
    """Examples that equal models need for a power of 80 %."""
    figures = {}
    for psi, delta in SIZES:
        needed = stats.examples_needed(psi, delta, ALPHA)
        figures[f"discordance={psi} margin={delta}"] = needed
        print(f"size    discordance {psi:<5} margin {delta:<5} examples {needed:,}", flush=True)
    return figures


def _chance(n: int, psi: float, difference: float, passes: Callable[[int, int], bool]) -> float:
    """Chance of all results that pass, of n examples with this discordance and difference."""
    loss, win = (psi - difference) / 2, (psi + difference) / 2
    total = 0.0
    for losses in exact.likely_counts(n, loss, loss).astype(int).tolist():
        of_losses = float(scipy_stats.binom.pmf(losses, n, loss))
        if of_losses < 1e-7:
            continue
        rest = n - losses
        most = int(scipy_stats.binom.isf(1e-7, rest, win / (1 - loss)))
        # More wins never hurt: find the least that passes by halving.
        low, high = -1, most + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if passes(middle, losses) else (middle, high)
        if high <= most:
            total += of_losses * float(scipy_stats.binom.sf(high - 1, rest, win / (1 - loss)))
    return total


def scores(samples: int) -> dict[str, Any]:
    """Share of samples in which a candidate at the margin passes, and in which truth is covered."""
    figures = {}
    for name, population in POPULATIONS.items():
        rng = np.random.default_rng(17)
        seen: dict[str, list[bool]] = {}
        # Few documents are quick to resample, and their figures are the ones in question.
        for seed in range(samples * (4 if population.per_document > 1 else 1)):
            sample, truth = population.draw(rng), population.difference
            for method, interval in _intervals(sample, seed, in_full=seed < samples):
                seen.setdefault(method, []).append(interval.lower > truth)
                if method == "gate":
                    covered = interval.lower <= truth <= interval.upper
                    seen.setdefault("covered", []).append(covered)
        figures[name] = {method: round(float(np.mean(found)), 4) for method, found in seen.items()}
        shown = "  ".join(f"{method} {share:.3f}" for method, share in figures[name].items())
        print(f"score   {name:<13} margin {-population.difference:.4f}  {shown}", flush=True)
    return figures


def _intervals(sample: Scores, seed: int, *, in_full: bool) -> Iterator[tuple[str, stats.Interval]]:
    """The gate's interval, and in full what it would be by other methods."""
    found = bootstrap.estimate(sample, alpha=ALPHA, seed=seed, resamples=RESAMPLES)
    yield "gate", found.interval
    if not in_full:
        return
    bare = bootstrap.estimate(
        sample, alpha=ALPHA, seed=seed, resamples=RESAMPLES, suppose_unseen=False
    )
    yield "gate, nothing unseen", bare.interval
    yield "percentile", _percentile(sample, seed)
    yield "studentized", _studentized(sample, seed)
    if sample.clusters is not None:
        apart = dataclasses.replace(sample, clusters=None)
        found = bootstrap.estimate(apart, alpha=ALPHA, seed=seed, resamples=RESAMPLES)
        yield "clusters ignored", found.interval


def _resampled(sample: Scores, seed: int) -> tuple[Floats, Floats, Floats]:
    """Units, weights and the difference of each resample, as a textbook does it."""
    units = sample.units()
    rng = np.random.default_rng(seed)
    weights = rng.multinomial(len(units), np.full(len(units), 1 / len(units)), RESAMPLES)
    weighted = weights.astype(np.float64)
    return units, weighted, sample.number(weighted @ units)


def _percentile(sample: Scores, seed: int) -> stats.Interval:
    _, _, found = _resampled(sample, seed)
    low, high = np.quantile(found, [ALPHA, 1 - ALPHA])
    return stats.Interval(lower=float(low), upper=float(high))


def _studentized(sample: Scores, seed: int) -> stats.Interval:
    """Bootstrap-t with the standard error of each resample to first order."""
    units, weights, found = _resampled(sample, seed)
    center = float(sample.number(units.sum(axis=0)))
    error = _error(sample, units, np.ones(len(units)))
    errors = np.array([_error(sample, units, w) for w in weights[:200]])
    pivots = (found[:200] - center) / np.where(errors > 1e-9, errors, np.nan)
    pivots = np.nan_to_num(pivots, nan=0.0)
    low, high = np.quantile(pivots, [ALPHA, 1 - ALPHA])
    return stats.Interval(lower=center - high * error, upper=center - low * error)


def _error(sample: Scores, units: Floats, weights: Floats) -> float:
    influence = units @ gradient(sample.number, weights @ units)
    mean = (weights @ influence) / weights.sum()
    return math.sqrt(float(weights @ (influence - mean) ** 2))


def powers(samples: int) -> dict[str, Any]:
    """Share of samples in which equal models pass, and the prediction."""
    figures = {}
    for population, delta in EQUAL:
        rng = np.random.default_rng(23)
        passed, predicted = 0, 0.0
        for seed in range(samples):
            found = bootstrap.estimate(
                population.draw(rng), alpha=ALPHA, seed=seed, resamples=RESAMPLES
            )
            passed += found.interval.lower > -delta
            predicted += sizing.score_power(population.n, found.noise, delta, ALPHA)
        name = (
            f"n={population.n} changed={population.changed} per_document={population.per_document}"
        )
        figures[name] = [round(passed / samples, 3), round(predicted / samples, 3)]
        print(f"power   {name}  margin {delta}: passed {passed / samples:.3f}, "
              f"predicted {predicted / samples:.3f}", flush=True)  # fmt: skip
    return figures


def limits(samples: int) -> tuple[float, float]:
    """The level, and what chance may add to it in one of a thousand such counts."""
    return ALPHA, ALPHA + float(special.ndtri(0.999)) * math.sqrt(ALPHA * (1 - ALPHA) / samples)


def main() -> None:
    """Counts and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=1000)
    samples = parser.parse_args().samples
    about, started = machine.describe(), time.monotonic()
    level, allowed = limits(samples)
    print(f"level {level}; a share up to {allowed:.3f} of {samples} samples is no sign of a fault")
    figures = {
        "rates": rates(),
        "sizes": sizes(),
        "scores": scores(samples),
        "powers": powers(samples),
    }
    seconds = round(time.monotonic() - started, 1)
    print(machine.result({
        "benchmark": "gates", **about, "samples": samples, "seconds": seconds,
        "allowed": round(allowed, 4), **figures,
    }))  # fmt: skip


if __name__ == "__main__":
    main()
