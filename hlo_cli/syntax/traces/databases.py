"""How is a database of a profiler read that may be hostile? Known tables and columns alone, within limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sqlite3 import Connection

MAX_STEPS: Final = 20_000_000_000
"""The most operations of the database engine for one file."""
MAX_ROWS: Final = 1 << 26  # a bound for hostile files: a view in place of a table can make any number of rows
# Seldom enough to cost nothing, often enough to stop a hostile file soon after the limit.
_STEPS_AT_ONCE: Final = 10_000_000
_MAX_LENGTH: Final = 1 << 24  # names of kernels have thousands of characters; a blob of the database may have 1 GB
Cell = int | float | str | bytes | None
Row = Mapping[str, Cell]


def limit(connection: Connection) -> None:
    """Makes sure that a hostile file can neither run forever nor run anything but reads."""
    import sqlite3

    steps = 0

    def count() -> int:
        nonlocal steps
        steps += _STEPS_AT_ONCE
        return int(steps > MAX_STEPS)

    connection.set_progress_handler(count, _STEPS_AT_ONCE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_LENGTH)
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    for pragma in ("query_only = ON", "trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
        connection.execute(f"PRAGMA {pragma}")


class Database:
    """The tables of a database that are known, each with those of its columns that are; views are no tables.

    `columns` are those of each known table, and `known` gives the known table that one is, which is None for others.
    """

    def __init__(self, connection: Connection, columns: Mapping[str, str], known: Callable[[str], str | None]) -> None:
        """Reads the names of tables and columns."""
        self._connection = connection
        self.tables: dict[str, tuple[str, ...]] = {}
        # nsys writes some hundred tables
        schema = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchmany(10_000)
        for name, sql in schema:
            table = known(name) if isinstance(name, str) else None
            if (
                table is not None
                and table in columns
                and isinstance(sql, str)
                and not sql.upper().startswith("CREATE VIRTUAL")
            ):
                described = connection.execute(f'PRAGMA table_info("{name}")').fetchall()
                present = {str(row[1]) for row in described}
                self.tables[name] = tuple(column for column in columns[table].split() if column in present)

    def rows(self, table: str, *required: str, only: Sequence[str] = ()) -> Iterator[Row]:
        """The rows of a table, none if it or a required column is missing; `only` gives distinct ones of columns."""
        columns = self.tables.get(table, ())
        if not columns or not set(required) <= set(columns):
            return
        columns = tuple(column for column in columns if not only or column in only)
        names = ", ".join(f'"{column}"' for column in columns)
        select = "SELECT DISTINCT" if only else "SELECT"
        for row in self._connection.execute(f'{select} {names} FROM "{table}" LIMIT {MAX_ROWS}'):
            yield dict(zip(columns, row, strict=True))
