"""Word-level differences."""

from hypothesis import given, settings
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
@settings(deadline=None)
def test_the_runs_rebuild_both_texts(before: str, after: str) -> None:
    runs = diff.words(before, after)
    assert " ".join(run.text for run in runs if run.mark is not Mark.INSERTED) == before
    assert " ".join(run.text for run in runs if run.mark is not Mark.DELETED) == after


def test_scripts_without_spaces_are_compared_character_by_character() -> None:
    runs = diff.words("我去学校了。", "我去了学校。")
    assert {run.mark for run in runs} == {Mark.SAME, Mark.DELETED, Mark.INSERTED}
    assert all(run.is_glued for run in runs[1:])
    after = "".join(run.text for run in runs if run.mark is not Mark.DELETED)
    assert after == "我去了学校。"


def test_a_sign_stays_with_its_character() -> None:
    assert diff.words("กิน", "กิน")[0].text == "กิน"
    runs = diff.words("กิน", "กีน")
    assert runs[0] == Run(mark=Mark.DELETED, text="กิ")


def test_mixed_text_keeps_its_spaces() -> None:
    (run,) = diff.words("用 Python 3 写", "用 Python 3 写")
    assert run.text == "用 Python 3 写"


def test_marks_read_as_plain_text() -> None:
    assert diff.marked("She go home.", "She goes home.") == "She [-go-] {+goes+} home."
    assert diff.marked("我去学", "我学") == "我[-去-]学"
    assert diff.marked("", "") == ""


@given(st.text(max_size=40))
@settings(deadline=None)
def test_equal_texts_have_no_marks(text: str) -> None:
    assert all(run.mark is Mark.SAME for run in diff.words(text, text))
    assert "".join(diff.marked(text, text).split()) == "".join(text.split())
