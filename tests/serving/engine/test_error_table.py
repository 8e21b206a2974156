"""The table of errors is what the code says, and the page people read is the table."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from serving.engine import admission, error_table

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "serving" / "engine"
MAKERS = {
    "invalid": (2, "BAD_REQUEST"),
    "unavailable": (0, "SERVICE_UNAVAILABLE"),
    "ApiError": (1, ""),
}
"""Which argument is the code, and the status where it is fixed."""


def raised() -> Iterator[tuple[str, str, bool]]:
    """Status name, code and whether `Retry-After` is sent, of every refusal in the source."""
    for path in sorted(SOURCE.glob("*.py")):
        tree = ast.parse(path.read_text())
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        for call in calls if path.name != "errors_http.py" else []:
            if isinstance(call.func, ast.Name) and call.func.id in MAKERS:
                later = call.func.id == "unavailable" or "retry-after" in ast.unparse(call)
                yield from ((status(call), code, later) for code in codes(call, tree))


def codes(call: ast.Call, tree: ast.Module) -> Iterator[str]:
    """The codes a call may give: a text, a choice of texts, or a variable that holds one; those of
    admission are an enumeration."""
    assert isinstance(call.func, ast.Name)
    place = MAKERS[call.func.id][0]
    keywords = {each.arg: each.value for each in call.keywords}
    given = call.args[place] if len(call.args) > place else keywords.get("code")
    if given is None:
        yield "invalid_value"
        return
    if ast.unparse(given) == "why":
        yield from (str(refusal) for refusal in admission.Refusal)
        return
    if isinstance(given, ast.Name):
        assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
        found = [each.value for each in assigned if given.id in map(ast.unparse, each.targets)]
    else:
        found = [given]
    texts = [t for each in found for t in outcomes(each)]
    assert texts, f"no code found in {ast.unparse(call)}"
    yield from texts


def outcomes(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.IfExp):
        yield from outcomes(node.body)
        yield from outcomes(node.orelse)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def status(call: ast.Call) -> str:
    assert isinstance(call.func, ast.Name)
    fixed = MAKERS[call.func.id][1]
    return fixed or ast.unparse(call.args[0]).rpartition(".")[2]


def test_every_error_in_the_source_is_in_the_table_and_no_other() -> None:
    in_table = {(row.status.name, row.code, row.retry_after) for row in error_table.ROWS}
    assert set(raised()) == in_table


def test_codes_are_unique() -> None:
    assert len({row.code for row in error_table.ROWS}) == len(error_table.ROWS)


@pytest.mark.parametrize("row", error_table.ROWS, ids=lambda row: row.code)
def test_what_says_when_to_come_back_can_be_sent_again(row: error_table.Row) -> None:
    assert not row.retry_after or row.retry is error_table.Retry.YES


def test_the_page_holds_the_table() -> None:
    assert error_table.markdown() in (ROOT / "docs" / "endpoint.md").read_text()
