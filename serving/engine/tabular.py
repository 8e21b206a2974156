"""The texts in a body of the MLflow scoring protocol.

The one idea: a correction model is a function from one column of texts to another, so all four
shapes of the protocol (`dataframe_split`, `dataframe_records`, `instances`, `inputs`) come down to
one list. The column is called `text`, or has no name. Pure; pandas is not needed for one column.
"""

from __future__ import annotations

from typing import Any

from serving.engine.errors_http import ApiError, invalid
from serving.engine.exchange import json_type

COLUMN = "text"
FORMATS = ("dataframe_split", "dataframe_records", "instances", "inputs")


def rows(body: dict[str, Any]) -> list[str]:
    """The texts in order.

    Raises:
        ApiError: 400, not exactly one of the formats, or what is in it is no column of texts.
    """
    given = [name for name in FORMATS if name in body]
    if len(given) != 1:
        raise invalid(
            given[1] if given else "inputs",
            f"give exactly one of {', '.join(FORMATS)}, or messages or prompt; found {given}",
            "missing_field",
        )
    name = given[0]
    value = body[name]
    if name == "dataframe_split":
        cells = _split(value)
    elif isinstance(value, dict) and name == "inputs":
        cells = _columns(value, name)
    elif isinstance(value, str) and name == "inputs":
        cells = [value]
    elif isinstance(value, list):
        cells = [_cell(each, f"{name}[{at}]") for at, each in enumerate(value)]
    else:
        raise _no_rows(name, value)
    for at, cell in enumerate(cells):
        if not isinstance(cell, str):
            raise invalid(
                name, f"{name}: row {at} must be a text, found {json_type(cell)}", "invalid_type"
            )
    return cells


def _split(value: object) -> list[Any]:
    """`{"columns": ["text"], "data": [["…"], …]}`, `index` accepted as pandas writes it."""
    name = "dataframe_split"
    if not isinstance(value, dict) or not isinstance(value.get("data"), list):
        raise invalid(name, f"{name} must be an object with data, a list of rows", "invalid_type")
    unknown = sorted(set(value) - {"columns", "data", "index"})
    if unknown:
        raise invalid(
            f"{name}.{unknown[0]}", f"{name} takes columns, data and index", "unknown_field"
        )
    columns = value.get("columns")
    if columns is not None and columns not in ([COLUMN], [0]):
        raise _wrong_column(f"{name}.columns")
    where = f"{name}.data"
    return [_cell(row, f"{where}[{at}]", named=False) for at, row in enumerate(value["data"])]


def _columns(value: dict[str, Any], name: str) -> list[Any]:
    """`{"text": ["…", …]}` or `{"text": "…"}`."""
    if set(value) != {COLUMN}:
        raise _wrong_column(name)
    column = value[COLUMN]
    return column if isinstance(column, list) else [column]


def _cell(row: object, where: str, *, named: bool = True) -> object:
    """The one cell of a row: a text, a record with the column, or a list of one."""
    if isinstance(row, dict) and named:
        if set(row) != {COLUMN}:
            raise _wrong_column(where)
        return row[COLUMN]
    if isinstance(row, list):
        if len(row) != 1:
            raise _wrong_column(where)
        return row[0]
    return row


def _wrong_column(where: str) -> ApiError:
    return invalid(where, f"{where} must have one column, {COLUMN!r}", "unknown_column")


def _no_rows(name: str, value: object) -> ApiError:
    return invalid(name, f"{name} must be a list of rows, found {json_type(value)}", "invalid_type")
