"""Fields of collectives: the mesh axes that they are along, and their bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.partly_known import AtLeast
from hlo_cli.analysis.query.fields import FieldValue, Kind
from hlo_cli.analysis.query.instruction_facts import ReadFact
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module

if TYPE_CHECKING:
    from hlo_cli.analysis.sharding.collectives import Collective

NO_AXES: Final = "(no axes)"
"""The axis of groups that no axes of the mesh make, or of unknown groups."""


FindCollective = Callable[[Instruction], "Collective | None"]
ReadCollective = Callable[["Collective"], FieldValue]


class CollectiveFacts:
    """The collectives of a module by instruction."""

    def __init__(self, module: Module) -> None:
        """Prepares the facts; nothing is computed yet."""
        self._module = module

    def readers(self) -> dict[str, tuple[Kind, ReadFact]]:
        """Fields of a collective, and of the async-start or fusion around it."""
        return self._readers(lambda instruction: self._around.get(instruction))

    def own_readers(self) -> dict[str, tuple[Kind, ReadFact]]:
        """Fields of a collective itself, so that sums count it once."""
        return self._readers(lambda instruction: self._collectives.get(instruction))

    def _readers(self, find: FindCollective) -> dict[str, tuple[Kind, ReadFact]]:
        def lifted(read: ReadCollective) -> ReadFact:
            def of_instruction(instruction: Instruction) -> FieldValue:
                found = find(instruction)
                return None if found is None else read(found)

            return of_instruction

        return {
            "axis": ("text", lifted(axis_of)),
            "wire_bytes": ("bytes", lifted(wire_bytes_of)),
            "payload_bytes": ("bytes", lifted(payload_bytes_of)),
        }

    @cached_property
    def _collectives(self) -> Mapping[Instruction, Collective]:
        from hlo_cli.analysis.sharding.collectives import collectives_of

        return {each.instruction: each for each in collectives_of(self._module)}

    @cached_property
    def _around(self) -> Mapping[Instruction, Collective]:
        return {**{each.caller: each for each in self._collectives.values()}, **self._collectives}


def axis_of(collective: Collective) -> str:
    """The axes of a collective as text."""
    return collective.axis or NO_AXES


def wire_bytes_of(collective: Collective) -> FieldValue:
    """The bytes that a device sends in one run, rounded; a bound if they are unknown."""
    return AtLeast(0) if collective.wire_bytes is None else rounded(collective.wire_bytes)


def payload_bytes_of(collective: Collective) -> FieldValue:
    """The bytes of one run; a bound if they are unknown."""
    return AtLeast(0) if collective.payload_bytes is None else collective.payload_bytes


def rounded(number: Fraction) -> int:
    """The nearest whole number; bytes of a mean over devices may have a fraction.

    >>> rounded(Fraction(7, 2)), rounded(Fraction(3))
    (4, 3)
    """
    return int(number + Fraction(1, 2))
