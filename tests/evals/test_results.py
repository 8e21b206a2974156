"""What a worker leaves behind, and what of it is used again."""

import dataclasses
import json
from pathlib import Path

import pytest

from evals.results import Evaluated, ResultsDir
from tests.evals import build

SUITE = build.suite([()] * 3)
EVALUATED = Evaluated(
    suite=SUITE,
    outcomes=build.outcomes(SUITE, [1.0, 0.0, 1.0]),
    was_kept=False,
    wall_s=1.5,
    prompt_tokens=30,
    output_tokens=12,
)


@pytest.fixture
def results(tmp_path: Path) -> ResultsDir:
    directory = ResultsDir(path=tmp_path / "new")
    directory.write(EVALUATED)
    return directory


def test_outcomes_come_back_as_they_were_written(results: ResultsDir) -> None:
    assert results.read("errors") == EVALUATED.outcomes


def test_equal_digests_are_kept(results: ResultsDir) -> None:
    kept = results.kept(SUITE, build.CANDIDATE, build.RUNTIME)
    assert kept is not None
    assert kept.was_kept
    assert kept.outcomes == EVALUATED.outcomes


def test_any_other_digest_is_evaluated_again(results: ResultsDir) -> None:
    assert results.kept(SUITE, build.CHAMPION, build.RUNTIME) is None
    assert results.kept(SUITE, build.CANDIDATE, "sha256:other") is None
    changed = dataclasses.replace(SUITE, data_sha256="1" * 64)
    assert results.kept(changed, build.CANDIDATE, build.RUNTIME) is None


def test_a_damaged_file_is_evaluated_again(results: ResultsDir) -> None:
    results.outcomes_path("errors").write_text('{"format"')
    assert results.kept(SUITE, build.CANDIDATE, build.RUNTIME) is None


def test_nothing_partial_is_left(results: ResultsDir) -> None:
    assert [path.name for path in results.path.iterdir()] == ["outcomes-errors.json"]


def test_the_summary_says_what_it_cost(results: ResultsDir) -> None:
    results.write_summary({"digest": build.RUNTIME}, [EVALUATED], {"blimp": "no data"}, 2.0)
    summary = json.loads((results.path / "harness.json").read_text())
    assert results.summary() == summary
    assert summary["unavailable"] == {"blimp": "no data"}
    assert summary["runtime"] == {"digest": build.RUNTIME}
    assert summary["suites"]["errors"]["rate"] == pytest.approx(2 / 3)
    assert summary["suites"]["errors"]["prompt_tokens"] == 30
