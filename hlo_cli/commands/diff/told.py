"""The first screen of `hlo diff`: statements with the rows that they fold, the numbers, and what is left over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from textwrap import wrap
from typing import Final

from hlo_cli.analysis.statements.statement import Fold
from hlo_cli.analysis.statements.statements import Statements
from hlo_cli.commands.diff.sentences import kind_of, sentence_of
from hlo_cli.ir.instruction import Instruction
from hlo_cli.report.numbers import format_count
from hlo_cli.report.table import Cell, Column, Row, Table
from hlo_cli.report.text import Passage, line_of, plain_text

_PROSE: Final = 80
_SCREEN: Final = 12
_FRAME: Final = 3
"""Lines between the parts, and the next command."""
_MIN_LINES: Final = 2
_BEGIN_WITH_CODE: Final = frozenset(
    ("type", "collectives", "operations", "attribute", "opcode", "backend_config", "product")
)
"""Kinds whose sentences begin with a name that is written as it is."""
_COLUMNS: Final = (
    Column("statement", "#", "line"),
    Column("kind", "kind"),
    Column("rows", "rows", "count"),
    Column("before_bytes", "before", "bytes"),
    Column("after_bytes", "after", "bytes"),
    Column("sentence", "statement"),
    Column("example", "example", "name"),
)
_NUMBER: Final = Column("statement", "#", "line")

RowKey = tuple[str, str, str]
"""The sign, the name, and the computation of a row of changes."""


def headline(told: Statements) -> str:
    """The most important statement, as the answer; empty if there is none."""
    if not told.told:
        return ""
    text = sentence_of(told.told[0])
    is_code = kind_of(told.told[0]) in _BEGIN_WITH_CODE or text.startswith("op_name")
    return text if is_code else text[:1].upper() + text[1:]


def passage_of(told: Statements, moved: int, numbers: Passage, *, with_first: bool = False) -> Passage | None:
    """The further statements, one a line, and the number of rows that none explains.

    There are as many as a screen of a dozen lines has room for, with the answer and the `numbers`.

    With `with_first`, all statements, as the answer says something else.
    """
    lines: list[str] = []
    further = told.told if with_first else told.told[1:]
    texts = [sentence_of(each) for each in further]
    rest = _rest(told.rest.rows, moved) if told.told else ""
    others = sum(len(wrap(plain_text(line_of(text)), _PROSE)) for text in (headline(told), *numbers.paragraphs))
    room = max(_SCREEN - _FRAME - others, _MIN_LINES)
    for at, text in enumerate(texts):
        needed = len(wrap(text, _PROSE))
        is_last = at == len(texts) - 1
        if needed + (not is_last or bool(rest)) > room:
            rows = sum(each.fold.rows for each in further[at:])
            more = f"{format_count(len(texts) - at, 'more statements')} ({format_count(rows, 'rows')})"
            rest = "; ".join(filter(None, (more, rest)))
            break
        room -= needed
        lines.append(text)
    lines += [rest] if rest else []
    return Passage("statements_text", tuple(lines)) if lines else None


def _rest(rows: int, moved: int) -> str:
    parts = [format_count(rows, "other rows")] if rows else []
    parts += [f"{moved:,} moved"] if moved else []
    return "; ".join(parts)


def statement_table(told: Statements, changes: Table) -> Table:
    """A row for each statement, then one for each change that none explains."""
    rows = [
        (
            number,
            kind_of(each),
            each.fold.rows,
            _bytes(each.fold.before),
            _bytes(each.fold.after),
            sentence_of(each),
            _example(each.fold),
        )
        for number, each in enumerate(told.told, 1)
    ]
    return Table("statements", _COLUMNS, (*rows, *_left(told, changes)), noun="statements", person=False)


def _bytes(instructions: Iterator[Instruction]) -> int | None:
    sizes = [each.shape.padded_bytes for each in instructions]
    return sum(sizes) if sizes else None


def _example(fold: Fold) -> str | None:
    first: Sequence[Instruction] = [*(each.after for each in fold.changed[:1]), *fold.added[:1], *fold.removed[:1]]
    return first[0].name if first else None


def _left(told: Statements, changes: Table) -> Iterator[Row]:
    """Yields the rows of changes that no statement explains, in the order of the table of changes."""
    words = {"~": "changed", "+": "added", "-": "removed", ">": "moved"}
    at = {column.name: position for position, column in enumerate(changes.columns)}
    for row in left_over(told, changes).rows:
        text = row[at["details"]] or f"{row[at['opcode']]} {row[at['shape']]}"
        sign, name = str(row[at["change"]]), row[at["name"]]
        yield (
            None,
            words[sign],
            1,
            row[at["before_bytes"]],
            row[at["after_bytes"]],
            f"{name} {words[sign]}: {text}",
            name,
        )


def numbers_of_rows(told: Statements) -> Mapping[RowKey, int]:
    """The number of the statement that explains each row of changes, from 1."""
    found: dict[RowKey, int] = {}
    for number, each in enumerate(told.told, 1):
        found |= dict.fromkeys((_key("~", pair.after) for pair in each.fold.changed), number)
        found |= dict.fromkeys((_key("+", one) for one in each.fold.added), number)
        found |= dict.fromkeys((_key("-", one) for one in each.fold.removed), number)
    return found


def _key(sign: str, instruction: Instruction) -> RowKey:
    return sign, instruction.name, instruction.computation.name


def _keys(changes: Table) -> list[RowKey]:
    at = [changes.column_index(name) for name in ("change", "name", "computation")]
    return [(str(row[at[0]]), str(row[at[1]]), str(row[at[2]])) for row in changes.rows]


def with_statements(told: Statements, changes: Table) -> Table:
    """The table of changes with a column for the number of the statement that explains each."""
    numbers = numbers_of_rows(told)
    rows = tuple((numbers.get(key), *row) for key, row in zip(_keys(changes), changes.rows, strict=True))
    number = replace(_NUMBER, person=bool(told.told))
    return replace(changes, columns=(number, *changes.columns), rows=rows)


def left_over(told: Statements, changes: Table) -> Table:
    """The table of changes with only those that no statement explains."""
    numbers = numbers_of_rows(told)
    rows = tuple(row for key, row in zip(_keys(changes), changes.rows, strict=True) if key not in numbers)
    return replace(changes, rows=rows)


def records_of(told: Statements) -> tuple[Mapping[str, Cell], ...]:
    """The statements with the names of their instructions, for programs."""
    return tuple(
        {
            "statement": number,
            "kind": kind_of(each),
            "sentence": sentence_of(each),
            "rows": each.fold.rows,
            "changed": tuple(pair.after.name for pair in each.fold.changed),
            "added": tuple(one.name for one in each.fold.added),
            "removed": tuple(one.name for one in each.fold.removed),
        }
        for number, each in enumerate(told.told, 1)
    )
