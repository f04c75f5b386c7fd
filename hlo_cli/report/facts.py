"""Facts: labeled lines with amounts."""

from __future__ import annotations

from typing import ClassVar, Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.report.cell import Cell
from hlo_cli.report.column import Column, Unit
from hlo_cli.report.table import Table


@dataclass(frozen=True, slots=True)
class Amount:
    """A number with its name and unit: `Amount("count", 63)`, `Amount("bytes", 5872025, "bytes")`.

    >>> Amount("bytes", 64, "bytes").unit
    'bytes'
    """

    name: str
    value: Cell
    unit: Unit = "count"


@dataclass(frozen=True, slots=True)
class Fact:
    """One line: a label, amounts aligned with those of other lines, and a remark, which machines get as `note`.

    A remark that `is_whole` goes on in further lines instead of being cut.

    >>> Fact("arguments", (Amount("count", 63),), "61 are donated").label
    'arguments'
    """

    label: str
    amounts: tuple[Amount, ...] = ()
    remark: str = ""
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """A list of facts.

    >>> Facts("module", (Fact("results", (Amount("count", 62),)),)).as_table().rows
    (('results', 62, ''),)
    """

    kind: ClassVar[Literal["facts"]] = "facts"
    name: str
    facts: tuple[Fact, ...]
    title: str = ""

    def as_table(self) -> Table:
        """One row for each fact, one column for every amount that any of them has."""
        units = {amount.name: amount.unit for fact in self.facts for amount in fact.amounts}
        amounts = tuple(Column(name, name, unit) for name, unit in units.items())
        columns = (Column("fact", "fact"), *amounts, Column("note", "note"))
        return Table(self.name, columns, tuple(_row(fact, tuple(units)) for fact in self.facts), main=False)


def _row(fact: Fact, names: tuple[str, ...]) -> tuple[Cell, ...]:
    values = {amount.name: amount.value for amount in fact.amounts}
    return (fact.label, *(values.get(name) for name in names), fact.remark)
