"""Statistics of paired outcomes, as pure functions.

| module | holds |
|---|---|
| `exact` | bounds and tests of right-or-wrong outcomes, computed, not approximated |
| `score` | Tango's score interval, for comparison |
| `sample`, `bootstrap` | corpus scores from additive statistics, and their bounds |
| `randomization` | p-values of corpus scores |
| `sizing` | power, and how many examples a margin needs |
| `multiplicity` | several claims at once |
"""

from evals.stats.exact import (
    NUISANCE_GAMMA,
    clopper_pearson_lower,
    clopper_pearson_upper,
    mcnemar_pvalue,
    noninferiority_pvalue,
    paired_difference_interval,
)
from evals.stats.interval import Interval
from evals.stats.multiplicity import holm
from evals.stats.sample import Scores
from evals.stats.score import tango_interval
from evals.stats.sizing import Noise, examples_needed, power, required_n

__all__ = [
    "NUISANCE_GAMMA",
    "Interval",
    "Noise",
    "Scores",
    "clopper_pearson_lower",
    "clopper_pearson_upper",
    "examples_needed",
    "holm",
    "mcnemar_pvalue",
    "noninferiority_pvalue",
    "paired_difference_interval",
    "power",
    "required_n",
    "tango_interval",
]
