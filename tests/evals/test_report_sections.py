"""The sections of the report after its verdict."""

import dataclasses
import re

import pytest

from evals import noise, report
from evals.evidence import Unavailable
from evals.gate import decide_all
from evals.report import Compared, ReportInput, Side
from evals.suite import SuiteKind
from tests.evals import build
from tests.evals.test_report import POLICY, given, parsed


class TestWhatChanged:
    def both(self) -> ReportInput:
        side = Side(
            version="version 4",
            digest=build.CANDIDATE,
            recipe="FP8 dynamic",
            data="run-7",
            prompt="Correct: {text} Fixed:",
            generation="max_tokens 64",
            runtime="vllm 0.32",
        )
        champion = dataclasses.replace(
            side, version="version 3", digest=build.CHAMPION, prompt="Mend: {text} Fixed:", data=""
        )
        return dataclasses.replace(given(), candidate=side, champion=champion)

    def test_each_thing_is_held_against_the_champion(self) -> None:
        page = report.render(self.both())
        changed = page[page.index("What changed") : page.index("What was compared")]
        rows = dict(re.findall(r"<tr><td>([a-z ]+)</td><td>([a-z ]+)</td>", changed))
        assert rows == {
            "weights": "yes",
            "data link": "not known",
            "recipe": "no",
            "prompt": "yes",
            "generation settings": "no",
            "runtime": "no",
        }
        assert "<del>Mend:</del> <ins>Correct:</ins>" in changed
        parsed(page)

    def test_the_summary_tells_it_in_a_line(self) -> None:
        text = report.render_markdown(self.both())
        assert "Changed: weights, prompt. The same: recipe, generation settings, runtime." in text

    def test_a_first_version_changed_nothing(self) -> None:
        assert "What changed" not in report.render(given(first=True))


def test_the_commands_and_every_digest_are_there_in_full() -> None:
    base = dataclasses.replace(
        given(), reproduce=("liftlock promote <dir>",), identities=(("runtime", "sha256:77"),)
    )
    page = report.render(base)
    tail = page[page.index("How to reproduce") :]
    assert "liftlock promote &lt;dir&gt;" in tail
    for digest in (
        build.CANDIDATE,
        build.CHAMPION,
        POLICY.digest,
        "sha256:77",
        *(item.suite.digest for item in base.suites),
    ):
        assert digest in tail
    assert "4,000 resamples" in tail


def test_every_suite_has_a_plot_with_its_margin() -> None:
    page = report.render(given())
    gates = page[page.index("<h2>Gates") : page.index("What was compared")]
    assert gates.count("<svg") == 2
    assert gates.count("stroke-dasharray") == 4
    assert "100 %" in gates


def test_claims_about_some_gate_are_corrected_and_say_so() -> None:
    page = report.render(given())
    assert "Regressed beyond chance (Holm over 4 gates at 5 %): errors, errors/spelling." in page


def test_flips_are_told_beside_the_noise_of_the_champion() -> None:
    base = given()
    of = base.suites[1]
    assert of.champion is not None
    page = report.render(
        dataclasses.replace(base, noise=(noise.noise_floor(of.champion, of.champion),))
    )
    flips = page[page.index("<h2>Flips") : page.index("<h2>Slices")]
    assert "300 (37.5 %)" in flips
    assert "not measured" in flips
    assert "of 500 outputs of the same model, 0 differ" in flips
    assert "<h2>Flips" not in report.render(given(first=True))


def test_slices_go_by_type_length_and_language() -> None:
    page = report.render(given())
    slices = page[page.index("<h2>Slices") :]
    for head in ("By error type", "By length of the source in words", "By language"):
        assert head in slices


@pytest.mark.parametrize(
    ("language", "source", "wanted"),
    [
        (
            "he",
            "\u05d4\u05d9\u05dc\u05d3 \u05d4\u05dc\u05db\u05d5",
            "\u05d4\u05d9\u05dc\u05d3 \u05d4\u05dc\u05da",
        ),
        ("zh", "\u6211\u53bb\u5b66\u6821\u4e86", "\u6211\u53bb\u4e86\u5b66\u6821"),
    ],
)
def test_text_has_the_direction_and_fonts_of_its_language(
    language: str, source: str, wanted: str
) -> None:
    base = given()
    of = base.suites[0].suite
    examples = tuple(
        dataclasses.replace(e, source=source, references=(wanted,)) for e in of.examples
    )
    mine = dataclasses.replace(of, language=language, examples=examples)
    compared = dataclasses.replace(base.suites[0], suite=mine)
    page = report.render(dataclasses.replace(base, suites=(compared,)))
    assert f'<div lang="{language}" dir="auto">{source}</div>' in page
    assert '<meta charset="utf-8">' in page
    parsed(page)


def test_marks_read_without_color() -> None:
    page = report.render(given())
    assert 'ins::before { content: "+"' in page
    assert 'del::before { content: "\\2212"' in page
    assert "line-through" in page


def test_pairs_without_references_are_shown() -> None:
    of = build.suite([()] * 400, name="pairs", kind=SuiteKind.MINIMAL_PAIRS)
    examples = tuple(
        dataclasses.replace(e, references=(), contrast=f"She go {i} .")
        for i, e in enumerate(of.examples)
    )
    pairs = dataclasses.replace(of, examples=examples)
    champion = build.texts(pairs, [e.source for e in examples], checkpoint=build.CHAMPION)
    candidate = build.texts(pairs, [e.contrast for e in examples])
    right = dataclasses.replace(
        champion, outcomes=tuple(dataclasses.replace(o, score=1.0) for o in champion.outcomes)
    )
    compared = Compared(suite=pairs, candidate=candidate, champion=right)
    page = report.render(dataclasses.replace(given(), suites=(compared,)))
    assert "pairs: 5 of 400" in page


def test_an_absent_suite_is_a_row_without_numbers() -> None:
    base = given()
    results = decide_all(base.suites, POLICY, [Unavailable(suite="jfleg", reason="no such file")])
    verdict = dataclasses.replace(base.verdict, results=results, skipped=("x: not required",))
    page = report.render(dataclasses.replace(base, verdict=verdict))
    assert "<td>jfleg</td>" in page
    assert "no such file" in page
    assert "x: not required" in page
    parsed(page)
