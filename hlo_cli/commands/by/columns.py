"""Keys of `--by` as columns of tables with a row for each value, kernel, or transfer, for use in `--where`."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hlo_cli.report.table import Column, Table

if TYPE_CHECKING:
    from hlo_cli.analysis.origin.origins import By
    from hlo_cli.ir.instruction import Instruction
    from hlo_cli.ir.module import Module
    from hlo_cli.ir.shape import ShapeIndex

_COLUMNS: Final = (
    Column("origin_source", "origin", "source", rank=4, from_width=120),
    Column("origin_scope", "scope", "op_name", rank=3, from_width=120),
    Column("origin_argument", "argument", "op_name", rank=3, from_width=120),
)
_IN_DOUBLE_QUOTES: Final = frozenset('"\\$`!')
"""Characters that mean something else in a text in double quotes."""


def with_origins(
    table: Table, places: Iterable[tuple[Instruction, ShapeIndex]], module: Module, asked: Collection[str] | str
) -> Table:
    """Adds the origins of rows to a table: the columns that an expression or other texts name, as they take time.

    `places` are the instructions of the rows, with an index where a row is an element of a tuple.

    >>> from hlo_cli import parse_module
    >>> module = parse_module('r = f32[2] iota(), iota_dimension=0, metadata={source_file="a.py" source_line=3}')
    >>> table = Table("values", (Column("value", "value", "name"),), (("r",),))
    >>> with_origins(table, [(module.entry.root, ())], module, "origin_source == x").rows
    (('r', 'a.py:3'),)
    """
    texts = (asked,) if isinstance(asked, str) else asked
    added = [column for column in _COLUMNS if any(column.name in text for text in texts)]
    if not added:
        return table
    from hlo_cli.analysis.origin.origins import keys_of
    from hlo_cli.analysis.query.fields import ORIGIN_FIELDS

    found = [keys_of(module, ORIGIN_FIELDS[column.name]) for column in added]
    rows = tuple((*row, *(keys(*place) for keys in found)) for row, place in zip(table.rows, places, strict=True))
    return replace(table, columns=(*table.columns, *added), rows=rows)


def next_command(
    command: str, by: By, keys: Sequence[str], *, condition: str = "", options: str = ""
) -> tuple[str, ...]:
    """The command for the rows of the first of several keys that names a cause, else of the first one.

    `command` ends with its input; it is empty for an input that a command cannot name.

    >>> print(*next_command("hlo memspace DUMP", "source", ("(unknown)", "a.py:3")))
    hlo memspace DUMP --where 'origin_source == "a.py:3"'
    """
    from hlo_cli.analysis.origin.origins import OTHER_KEYS

    key = next((key for key in keys if key not in OTHER_KEYS), next(iter(keys), None))
    where = None if key is None or not command else where_key(by, key, condition)
    return () if where is None else (f"{command} {where}{f' {options}' if options else ''}",)


def where_key(by: By, key: str, more: str = "") -> str | None:
    """The option that selects the rows of a key, for a shell; None if the key cannot be quoted, or for a pass.

    `more` is a condition to add.

    >>> where_key("source", "a.py:3", "kernel"), where_key("argument", "params['w']")
    ('--where \\'kernel and origin_source == "a.py:3"\\'', '--where "origin_argument == \\\\"params[\\'w\\']\\\\""')
    """
    if by == "pass" or '"' in key or "\\" in key:
        return None
    condition = f'{f"{more} and " if more else ""}origin_{by} == "{key}"'
    if "'" not in key:
        return f"--where {shlex.quote(condition)}"
    if _IN_DOUBLE_QUOTES & set(key):
        return None
    escaped = condition.replace('"', '\\"')
    return f'--where "{escaped}"'
