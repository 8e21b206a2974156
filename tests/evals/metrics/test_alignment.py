"""The graph of shortest paths, against distances computed without a band."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.metrics import alignment

TOKENS = st.lists(st.sampled_from("abc"), max_size=9).map(tuple)

Arc = tuple[alignment.Node, alignment.Node, bool]


def slow_arcs(source: tuple[str, ...], output: tuple[str, ...], cost: int) -> set[Arc]:
    """Every arc of which distance before + cost + distance after is the least distance."""

    def moves(i: int, j: int) -> list[tuple[alignment.Node, int, bool]]:
        found = []
        if i < len(source):
            found.append(((i + 1, j), 1, False))
        if j < len(output):
            found.append(((i, j + 1), 1, False))
        if i < len(source) and j < len(output):
            same = source[i] == output[j]
            found.append(((i + 1, j + 1), 0 if same else cost, same))
        return found

    @cache
    def rest(i: int, j: int) -> int:
        return min((price + rest(*to) for to, price, _ in moves(i, j)), default=0)

    arcs: set[Arc] = set()
    frontier = {(0, 0)}
    while frontier:
        at = frontier.pop()
        for to, price, same in moves(*at):
            if price + rest(*to) == rest(*at):
                arcs.add((at, to, same))
                frontier.add(to)
    return arcs


@given(TOKENS, TOKENS)
def test_holds_the_shortest_paths_for_both_costs(
    source: tuple[str, ...], output: tuple[str, ...]
) -> None:
    graph = alignment.shortest_paths(source, output)
    found = {(at, to, same) for at, steps in graph.steps.items() for to, same in steps}
    assert found == slow_arcs(source, output, 1) | slow_arcs(source, output, 2)
    assert list(graph.steps) == sorted(graph.steps)
    assert graph.end == (len(source), len(output)) == list(graph.steps)[-1]


@pytest.mark.parametrize(
    ("source", "output"),
    [("", ""), ("", "a b"), ("a b", ""), ("a " * 40, "b"), ("a b c d e f g h", "e f g h a b c d")],
)
def test_extremes(source: str, output: str) -> None:
    before, after = tuple(source.split()), tuple(output.split())
    graph = alignment.shortest_paths(before, after)
    found = {(at, to, same) for at, steps in graph.steps.items() for to, same in steps}
    assert found == slow_arcs(before, after, 1) | slow_arcs(before, after, 2)


def test_equal_texts_have_one_path() -> None:
    graph = alignment.shortest_paths(("a", "a", "a"), ("a", "a", "a"))
    assert [tuple(steps) for steps in graph.steps.values()] == [
        (((1, 1), True),),
        (((2, 2), True),),
        (((3, 3), True),),
        (),
    ]


def test_fewest_kept_tokens_between_nodes() -> None:
    graph = alignment.shortest_paths(("a", "b", "c"), ("x", "b", "z"))
    assert alignment.fewest_kept(graph, (0, 0), (3, 3)) == 1
    assert alignment.fewest_kept(graph, (0, 0), (0, 0)) == 0
    assert alignment.fewest_kept(graph, (0, 0), (2, 1)) > 3
