from examples.tiny_gec import evaluate, heldout
from examples.tiny_gec.evaluate import Rate


class _Copier:
    """Answers every sentence with itself."""

    def correct(self, sources: list[str]) -> list[str]:
        return list(sources)


def test_a_copier_leaves_clean_sentences_alone_and_corrects_nothing() -> None:
    rates = evaluate.evaluate(_Copier(), failures_shown=0)
    assert rates["clean"] == Rate(heldout.CLEAN, heldout.CLEAN)
    assert rates["erroneous"].right == 0
    assert rates["spelling"].total == heldout.SINGLE_PER_LABEL


def test_batches_hold_prompts_of_one_length_and_miss_none() -> None:
    prompts = [[0] * (index % 3 + 1) for index in range(300)]
    found = list(evaluate.batches_of_equal_length(prompts))
    assert sorted(index for indices in found for index in indices) == list(range(300))
    for indices in found:
        assert len(indices) <= evaluate.BATCH_SENTENCES
        assert len({len(prompts[index]) for index in indices}) == 1
