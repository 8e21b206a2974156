"""Scores that others published, and where the data lies that they are of.

`published` is what a paper or README prints, rounded to one or two decimals; `released` what the
authors' own script prints for exactly these files, run by us. All in percent.
"""

from __future__ import annotations

from dataclasses import dataclass

PILLARS = "pillars-of-gec/data"
CONLL = f"{PILLARS}/evaluation_sets/nucle14-2a.m2"
BEA = f"{PILLARS}/evaluation_sets/bea-dev.m2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Golden:
    """One known score; `output` is a file of the data directory, `gold` the M2 file or folder."""

    label: str
    gold: str
    output: str
    published: float | None
    released: float | None


def _jfleg(part: str, output: str, label: str, published: float | None, released: float) -> Golden:
    return Golden(
        label=f"JFLEG {part}, {label}",
        gold=f"jfleg/{part}/{part}",
        output=f"jfleg/{part}/{part}.{output}",
        published=published,
        released=released,
    )


GLEU = (
    _jfleg("dev", "src", "source copied", 38.21, 38.197),
    _jfleg("test", "src", "source copied", 40.54, 40.474),
    _jfleg("dev", "spellchecked.src", "spell-checked", None, 43.425),
    _jfleg("test", "spellchecked.src", "spell-checked", None, 43.404),
)
"""jfleg/README.md, and jfleg/eval/gleu.py under Python 3."""

GLEU_REFERENCES = tuple(
    Golden(
        label=f"JFLEG {part}, each reference against the others",
        gold=f"jfleg/{part}/{part}",
        output=f"jfleg/{part}/{part}.ref3",
        published=published,
        released=None,
    )
    for part, published in (("dev", 55.26), ("test", 62.37))
)
"""jfleg/README.md; the mean of four."""


def _pillars(
    name: str, gold: str, published: float | None, released: float | None = None
) -> Golden:
    folder = "ensemble_systems" if name.startswith("ens_") else "single_systems"
    suffix = "nucle14_2a" if gold == CONLL else "bea-dev"
    return Golden(
        label=name,
        gold=gold,
        output=f"{PILLARS}/system_preds/{folder}/{name}___{suffix}.txt",
        published=published,
        released=released,
    )


MAXMATCH = (
    _pillars("GECToR-2024", CONLL, 66.0, 66.01),
    _pillars("CTC-Copy", CONLL, 65.5, 65.51),
    _pillars("EditScorer", CONLL, 65.5, 65.53),
    _pillars("T5-11B", CONLL, 67.5, 67.48),
    _pillars("ens_m3", CONLL, None, 70.43),
    _pillars("ens_m7", CONLL, 71.8, 71.76),
    _pillars("ens_m8_with_greco", CONLL, None, 72.45),
    _pillars("ens_m9_with_greco_and_gpt", CONLL, 72.8, 72.76),
    _pillars("UL2-20B", CONLL, None, 66.72),
)
"""README of pillars-of-gec, and the released m2scorer brought to Python 3. The number published for
UL2-20B (67.5) is of other outputs than the file: m2scorer does not print it either."""

ERRANT = (
    _pillars("CTC-Copy", BEA, 52.7, 52.72),
    _pillars("GECToR-2024", BEA, 56.3, 56.20),
    _pillars("Chat-LLaMa-2-7B-FT", BEA, 55.3, 55.20),
    _pillars("Chat-LLaMa-2-13B-FT", BEA, 56.4, 56.35),
    _pillars("ens_m7", BEA, 62.9, 62.96),
)
"""README of pillars-of-gec, and errant_parallel with errant_compare of ERRANT 3.0.2 on the spaCy
model that the extra pins."""

SELF = tuple(
    Golden(label=label, gold=name, output=name, published=None, released=None)
    for label, name in (
        ("Ukrainian, UA-GEC test", "ua-gec/gec-only.test.m2"),
        ("German, Falko-MERLIN dev", "multiged-2023-de/german/fm-dev.m2"),
        ("German, Falko-MERLIN test", "multiged-2023-de/german/fm-test.m2"),
        ("Estonian, EstGEC-L2 dev", "estgec-l2/dev.m2"),
        ("Estonian, EstGEC-L2 test", "estgec-l2/test.m2"),
    )
)
"""Corpora whose references are scored against their own edits; right is close to 100."""
