"""All shortest ways to turn one list of tokens into another, as a graph.

A node `(i, j)` says that `i` source tokens became `j` output tokens. A step keeps a token, replaces
one, deletes one or inserts one. The one idea of MaxMatch: there are many equally short ways, and a
system must not be blamed for the one that a diff happens to choose, so all are kept.

Two notions of "short" are united, a replacement that costs as much as one deletion and one that
costs as much as a deletion and an insertion: the first alone never proposes a deletion beside an
insertion, the second alone never a replacement of two neighbors by two others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Node = tuple[int, int]
START: Node = (0, 0)

_FAR = 1 << 30
_REPLACEMENT_COSTS = (1, 2)
_FIRST_SLACK = 2  # diagonals to each side at first; most sentences need no more


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Where each node leads: pairs of the next node and whether the step keeps its token.

    Nodes are in the order of the text, so every step leads to a later one; the last is `end`.
    """

    end: Node
    steps: Mapping[Node, Sequence[tuple[Node, bool]]]


def shortest_paths(source: Sequence[str], output: Sequence[str]) -> Graph:
    """The union of the shortest paths for both replacement costs."""
    end = (len(source), len(output))
    found: dict[Node, dict[Node, bool]] = {end: {}}
    for cost in _REPLACEMENT_COSTS:
        _add_shortest_paths(_table(source, output, cost), found)
    return Graph(end=end, steps={node: tuple(found[node].items()) for node in sorted(found)})


def fewest_kept(graph: Graph, start: Node, end: Node) -> int:
    """How many tokens a path from `start` to `end` keeps at least; a huge number without a path."""
    fewest = {start: 0}
    waiting = [start]
    while waiting:
        node = waiting.pop()
        for target, keeps in graph.steps[node]:
            kept = fewest[node] + keeps
            inside = target[0] <= end[0] and target[1] <= end[1]
            if inside and kept < fewest.get(target, _FAR):
                fewest[target] = kept
                waiting.append(target)
    return fewest.get(end, _FAR)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """Edit distances in a band of diagonals: `rows[i][j - i - lowest]`, _FAR outside."""

    source: Sequence[str]
    output: Sequence[str]
    replacement_cost: int
    lowest: int
    rows: list[list[int]]

    def distance(self, i: int, j: int) -> int:
        row, place = self.rows[i], j - i - self.lowest
        return row[place] if 0 <= place < len(row) else _FAR


def _table(source: Sequence[str], output: Sequence[str], replacement_cost: int) -> _Table:
    """Widens the band until no shortest path can leave it.

    A path that leaves a band of `slack` diagonals beside the necessary ones inserts and deletes
    at least 2 * (slack + 1) tokens more than necessary (Ukkonen 1985).
    """
    surplus = len(output) - len(source)
    slack = _FIRST_SLACK
    while True:
        lowest, highest = min(0, surplus) - slack, max(0, surplus) + slack
        rows = _rows(source, output, replacement_cost, (lowest, highest))
        if rows[-1][surplus - lowest] < abs(surplus) + 2 * (slack + 1):
            return _Table(
                source=source,
                output=output,
                replacement_cost=replacement_cost,
                lowest=lowest,
                rows=rows,
            )
        slack *= 2


def _rows(
    source: Sequence[str], output: Sequence[str], replacement_cost: int, band: tuple[int, int]
) -> list[list[int]]:
    lowest, highest = band
    n_output = len(output)
    above = [k if 0 <= k <= n_output else _FAR for k in range(lowest, highest + 1)]
    rows = [above]
    for i, token in enumerate(source, start=1):
        above = [*above, _FAR]  # so that above[place + 1] exists
        row = []
        left = _FAR
        for place, j in enumerate(range(i + lowest, i + highest + 1)):
            best = _FAR
            if 0 <= j <= n_output:  # comparisons, not min(): this is the innermost loop
                up = above[place + 1]
                best = (up if up < left else left) + 1
                if j:
                    slant = above[place] + (0 if output[j - 1] == token else replacement_cost)
                    if slant < best:  # noqa: PLR1730
                        best = slant
            row.append(best)
            left = best
        rows.append(row)
        above = row
    return rows


def _add_shortest_paths(table: _Table, found: dict[Node, dict[Node, bool]]) -> None:
    """Adds every step on a shortest path, walking back from the end."""
    end = (len(table.source), len(table.output))
    waiting, seen = [end], {end}
    while waiting:
        node = waiting.pop()
        for before, keeps in _steps_before(table, node):
            found.setdefault(before, {})[node] = keeps
            if before not in seen:
                seen.add(before)
                waiting.append(before)


def _steps_before(table: _Table, node: Node) -> list[tuple[Node, bool]]:
    i, j = node
    here = table.distance(i, j)
    steps: list[tuple[Node, bool]] = []
    if i and table.distance(i - 1, j) + 1 == here:
        steps.append(((i - 1, j), False))
    if j and table.distance(i, j - 1) + 1 == here:
        steps.append(((i, j - 1), False))
    if i and j:
        keeps = table.source[i - 1] == table.output[j - 1]
        cost = 0 if keeps else table.replacement_cost
        if table.distance(i - 1, j - 1) + cost == here:
            steps.append(((i - 1, j - 1), keeps))
    return steps
