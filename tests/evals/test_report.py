"""The report shows the verdict first, escapes everything, and needs nothing outside itself."""

import dataclasses
import re
from html.parser import HTMLParser

import pytest

from evals import report
from evals.gate import decide
from evals.policy import GatePolicy
from evals.report import Compared, Quantization, ReportInput, Side
from evals.suite import Grouping, SuiteKind
from evals.verdict import Verdict
from tests.evals import build

POLICY = GatePolicy(tag_margin_points=5.0)
VOID = {"meta", "circle", "line"}


class Balanced(HTMLParser):
    """Collects the tags seen and fails on one that closes out of order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(page: str) -> Balanced:
    parser = Balanced()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


def given(lost: int = 300, *, first: bool = False) -> ReportInput:
    errors = build.suite(
        [("spelling",)] * 400 + [("verb_form",)] * 400, group_by=Grouping.TAGS, name="errors"
    )
    clean = build.suite([()] * 500, kind=SuiteKind.CLEAN, name="clean")
    scores = {"errors": [0.0] * lost + [1.0] * (800 - lost), "clean": [1.0] * 500}
    suites = tuple(
        Compared(
            suite=of,
            candidate=build.outcomes(of, scores[of.name]),
            champion=None
            if first
            else build.outcomes(of, [1.0] * len(of.examples), checkpoint=build.CHAMPION),
        )
        for of in (errors, clean)
    )
    verdict = Verdict.combine(
        [r for c in suites for r in decide(c.candidate, c.champion, c.suite, POLICY)],
        candidate_digest=build.CANDIDATE,
        champion_digest=None if first else build.CHAMPION,
        policy_digest=POLICY.digest,
    )
    return ReportInput(
        model="grammar",
        candidate=Side(version="version 4", digest=build.CANDIDATE, recipe="FP8 dynamic"),
        champion=None if first else Side(version="version 3", digest=build.CHAMPION),
        verdict=verdict,
        policy=POLICY,
        suites=suites,
    )


def test_the_verdict_and_its_reasons_come_first() -> None:
    page = report.render(given())
    assert "Failed: the candidate is shown not to meet" in page
    assert page.index("spelling: 300 of 400 sentences") < page.index("What was compared")
    assert "<title>grammar version 4: fail</title>" in page


def test_the_markup_is_well_formed_and_self_contained() -> None:
    page = report.render(given())
    found = parsed(page)
    assert not {"script", "link", "img", "iframe"} & found.seen
    assert not {"src", "href", "onclick"} & found.attributes
    assert {"svg", "table", "ins", "del"} <= found.seen
    assert not re.search(r"url\(|@import", page)


def test_everything_from_outside_is_escaped() -> None:
    hostile = "<script>alert(1)</script>"
    base = given()
    example = dataclasses.replace(base.suites[0].suite.examples[0], source=f"She {hostile}")
    examples = (example, *base.suites[0].suite.examples[1:])
    outcome = dataclasses.replace(base.suites[0].candidate.outcomes[0], output=hostile)
    candidate = dataclasses.replace(
        base.suites[0].candidate, outcomes=(outcome, *base.suites[0].candidate.outcomes[1:])
    )
    compared = dataclasses.replace(
        base.suites[0],
        suite=dataclasses.replace(base.suites[0].suite, examples=examples),
        candidate=candidate,
    )
    results = tuple(
        dataclasses.replace(r, name=hostile, reason=hostile) for r in base.verdict.results
    )
    page = report.render(
        dataclasses.replace(
            base,
            model=hostile,
            made_at=hostile,
            candidate=Side(version=hostile, digest=hostile, recipe=hostile),
            champion=Side(version=hostile, digest=hostile, recipe=hostile),
            verdict=dataclasses.replace(base.verdict, results=results, policy_digest=hostile),
            suites=(compared, base.suites[1]),
            quantization=Quantization(
                size_ratio=0.6, weight_errors=((hostile, 0.01),), note=hostile
            ),
            stages=((hostile, 1.0),),
        )
    )
    assert "<script" not in page
    parsed(page)


def test_the_worst_examples_are_those_that_got_worse_by_tag() -> None:
    page = report.render(given())
    assert "Right before, wrong now" in page
    assert "errors/spelling: 5 of 300" in page
    assert "errors/verb_form:" not in page.split("Right before, wrong now")[1]
    assert "She <del>go</del> <ins>goes</ins> 0." in page


def test_a_report_without_regressions_says_so() -> None:
    page = report.render(given(lost=0))
    assert "Passed: every gate is met" in page
    assert "<p>None.</p>" in page


def test_a_first_version_is_shown_against_floors() -> None:
    page = report.render(given(lost=0, first=True))
    assert "a first version is held against floors" in page
    assert "Right answers, per cent" in page
    parsed(page)


def test_quantization_and_stage_times_are_shown_when_given() -> None:
    plain = report.render(given())
    assert "<h2>Quantization</h2>" not in plain
    assert "<h2>Stages</h2>" not in plain
    page = report.render(
        dataclasses.replace(
            given(),
            quantization=Quantization(
                size_ratio=0.64, weight_errors=(("mlp", 0.0123),), note="slower on CPU"
            ),
            stages=(("register", 1.25), ("evaluate", 60.0)),
        )
    )
    assert "Size: 64 % of the original" in page
    assert "1.23 %" in page
    assert "slower on CPU" in page
    assert "61.2 s" in page


def test_an_empty_output_is_named() -> None:
    base = given()
    emptied = dataclasses.replace(
        base.suites[0].candidate,
        outcomes=tuple(
            dataclasses.replace(o, output="") for o in base.suites[0].candidate.outcomes
        ),
    )
    page = report.render(
        dataclasses.replace(base, suites=(dataclasses.replace(base.suites[0], candidate=emptied),))
    )
    assert "<em>(empty)</em>" in page


@pytest.mark.parametrize("first", [False, True])
def test_the_markdown_summary_says_why_and_by_how_much(first: bool) -> None:
    text = report.render_markdown(given(first=first))
    assert text.startswith("Gate: fail (")
    assert "spelling:" in text
    assert ("champion version 3" in text) != first
    assert "| errors/spelling | 400 | " in text
    assert text.index("| fail |") < text.index("| pass |")


def test_the_markdown_summary_fits_a_description_whatever_is_in_it() -> None:
    base = given()
    results = tuple(
        dataclasses.replace(r, name=f"{r.name}{i}", reason="why " * 500)
        for i in range(20)
        for r in base.verdict.results
    )
    long = dataclasses.replace(
        base,
        verdict=dataclasses.replace(base.verdict, results=results),
        reproduce=("liftlock " * 100,) * 20,
    )
    text = report.render_markdown(long)
    assert len(text) <= 5000
    assert "more; see the report" in text
    assert max(len(line) for line in text.splitlines()) <= 300
