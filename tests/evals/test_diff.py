"""Word-level differences."""

from hypothesis import given
from hypothesis import strategies as st

from evals import diff
from evals.diff import Mark, Run

sentences = st.lists(st.sampled_from(["a", "the", "cat", "cats", "sat"]), max_size=8).map(" ".join)


def test_a_replaced_word_is_deleted_then_inserted() -> None:
    assert diff.words("She go home.", "She goes home.") == (
        Run(mark=Mark.SAME, text="She"),
        Run(mark=Mark.DELETED, text="go"),
        Run(mark=Mark.INSERTED, text="goes"),
        Run(mark=Mark.SAME, text="home."),
    )


@given(sentences, sentences)
def test_the_runs_rebuild_both_texts(before: str, after: str) -> None:
    runs = diff.words(before, after)
    assert " ".join(run.text for run in runs if run.mark is not Mark.INSERTED) == before
    assert " ".join(run.text for run in runs if run.mark is not Mark.DELETED) == after
