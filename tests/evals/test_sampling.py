"""Samples: even over strata, the same everywhere."""

import hashlib
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from evals.sampling import Strata, stratified
from evals.suite import Example


def example(number: int, cluster: str, tags: tuple[str, ...] = ()) -> Example:
    return Example(id=f"e{number}", source="s", references=(), cluster=cluster, tags=tags)


def pool(**sizes: int) -> list[Example]:
    clusters = [name for name, size in sizes.items() for _ in range(size)]
    return [example(number, cluster) for number, cluster in enumerate(clusters)]


def test_strata_give_the_same_number_and_small_ones_all_they_have() -> None:
    kept, sample = stratified(pool(a=50, b=50, c=3), 23, Strata.CLUSTER)
    assert Counter(item.cluster for item in kept) == {"a": 10, "b": 10, "c": 3}
    assert (sample.kept, sample.total) == (23, 103)


def test_what_does_not_divide_evenly_differs_by_one() -> None:
    kept, _ = stratified(pool(a=50, b=50, c=50), 100, Strata.CLUSTER)
    counts = Counter(item.cluster for item in kept)
    assert sorted(counts.values()) == [33, 33, 34]


def test_order_is_kept_and_the_digest_is_over_the_ids() -> None:
    examples = pool(a=20, b=20)
    kept, sample = stratified(examples, 7, Strata.CLUSTER)
    assert list(kept) == [item for item in examples if item in kept]
    ids = "".join(f"{item.id}\n" for item in kept)
    assert sample.sha256 == hashlib.sha256(ids.encode()).hexdigest()


def test_few_examples_are_all_kept() -> None:
    examples = pool(a=3, b=2)
    kept, sample = stratified(examples, 100, Strata.CLUSTER)
    assert list(kept) == examples
    assert (sample.kept, sample.total) == (5, 5)
    assert stratified([], 5, Strata.CLUSTER)[0] == ()


def test_combinations_of_tags_are_strata_too() -> None:
    examples = [example(i, "x", ("t",) if i % 10 else ("u",)) for i in range(100)]
    kept, _ = stratified(examples, 10, Strata.TAGS)
    assert Counter(item.tags for item in kept) == {("t",): 5, ("u",): 5}


@given(st.permutations(pool(a=6, b=9, c=2)), st.integers(1, 20))
def test_choice_does_not_depend_on_order(shuffled: list[Example], size: int) -> None:
    usual, _ = stratified(pool(a=6, b=9, c=2), size, Strata.CLUSTER)
    kept, _ = stratified(shuffled, size, Strata.CLUSTER)
    assert {item.id for item in kept} == {item.id for item in usual}
    assert len(kept) == min(size, 17)


def test_choice_is_the_one_it_always_was() -> None:
    kept, _ = stratified(pool(a=10, b=10), 4, Strata.CLUSTER)
    assert [item.id for item in kept] == ["e5", "e9", "e11", "e12"]
