"""Fields of shardings: the bytes of a device, and how many devices hold the same data."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.partly_known import AtLeast
from hlo_cli.analysis.query.fields import FieldValue, Kind
from hlo_cli.analysis.query.instruction_facts import ReadFact
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module

if TYPE_CHECKING:
    from hlo_cli.analysis.sharding.parameters import EntryArray


_MARK: Final = "sharding="


class ShardingFacts:
    """Shardings of the parameters of a module, also those from before optimizations, and of its instructions."""

    def __init__(self, module: Module) -> None:
        """Prepares the facts; nothing is computed yet."""
        self._module = module
        self._entry = frozenset(module.entry.parameters)
        self._known: dict[Instruction, tuple[EntryArray, ...]] = {}

    def readers(self) -> dict[str, tuple[Kind, ReadFact]]:
        """Fields of instructions by name."""
        return {
            opcodes.PARAMETER: ("flag", lambda i: i in self._entry),
            "replication": ("count", self.replication),
            "shard_bytes": ("bytes", self.shard_bytes),
        }

    def replication(self, instruction: Instruction) -> FieldValue:
        """The number of devices with the same data, the largest of the arrays in a tuple; a bound if unknown."""
        found = [each.replication for each in self._arrays(instruction)]
        if not found:
            return None
        largest = max((each for each in found if each is not None), default=1)
        return AtLeast(largest) if None in found else largest

    def shard_bytes(self, instruction: Instruction) -> FieldValue:
        """The bytes that each device holds, a bound if unknown; None before partitioning without a sharding."""
        found = [each.shard_bytes for each in self._arrays(instruction)]
        if not found:
            return instruction.shape.padded_bytes if self._is_partitioned else None
        known = sum(each for each in found if each is not None)
        return AtLeast(known) if None in found else known

    def _arrays(self, instruction: Instruction) -> tuple[EntryArray, ...]:
        if instruction in self._entry:
            return self._parameters[instruction]
        if _MARK not in instruction.raw[1]:  # most instructions; finding an attribute takes longer
            return ()
        if instruction not in self._known:
            from hlo_cli.analysis.sharding.parameters import arrays_of_instruction

            self._known[instruction] = arrays_of_instruction(self._module, instruction)
        return self._known[instruction]

    @cached_property
    def _parameters(self) -> Mapping[Instruction, tuple[EntryArray, ...]]:
        from hlo_cli.analysis.sharding.parameters import entry_arrays

        found: dict[Instruction, tuple[EntryArray, ...]] = dict.fromkeys(self._module.entry.parameters, ())
        for each in entry_arrays(self._module).parameters:
            found[each.instruction] = (*found[each.instruction], each)
        return found

    @cached_property
    def _is_partitioned(self) -> bool:
        from hlo_cli.analysis.sharding.stages import is_partitioned

        return is_partitioned(self._module)
