"""The instruction of a timed operation: its name in the module of its program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from hlo_cli.analysis.profile.occurrences import OperationKey
from hlo_cli.analysis.profile.profile import MeasuredProgram
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.traces.trace import TracedProgram

_DUPLICATES: Final = " and its duplicate(s)"


@dataclass(frozen=True, slots=True)
class GivenModule:
    """A module of a dump, with the id of its program if its file name has it."""

    id: int | None
    module: Module


def programs_of(
    keys: Iterable[OperationKey],
    traced: Sequence[TracedProgram],
    read_module: Callable[[TracedProgram], Module],
    given: Sequence[GivenModule] = (),
) -> Mapping[tuple[int | None, str], MeasuredProgram]:
    """The program of each pair of id and name that keys have: in the trace, else in a dump.

    Of a program that several keys name in different ways, there is one. Those that no key names are not read.
    """
    found: dict[tuple[int | None, str], MeasuredProgram] = {}
    read: dict[int, MeasuredProgram] = {}
    for key in keys:
        pair = key.program, key.module
        if pair in found or pair == (None, ""):
            continue
        program = _traced(key, traced)
        if program is None:
            found[pair] = MeasuredProgram(key.program, key.module, _given(key, given))
            continue
        if program.id not in read:
            module = read_module(program)
            read[program.id] = MeasuredProgram(program.id, key.module or module.name, module)
        found[pair] = read[program.id]
    return found


def _traced(key: OperationKey, traced: Sequence[TracedProgram]) -> TracedProgram | None:
    """The program in the trace with the id of a key, or the only one of its name if it has no id."""
    if key.program is not None:
        return next((each for each in traced if each.id == key.program), None)
    named = [each for each in traced if each.name.partition("(")[0] == key.module]
    return named[0] if len(named) == 1 else None


def _given(key: OperationKey, given: Sequence[GivenModule]) -> Module | None:
    """The module of a dump for a key: that with its id, else the only one of its name."""
    named = [each for each in given if not key.module or each.module.name == key.module]
    same = [each for each in named if each.id is not None and each.id == key.program]
    chosen = same or [each for each in named if each.id is None or key.program is None]
    return chosen[0].module if len(chosen) == 1 else None


class InstructionNames:
    """The instructions of programs by the names that traces use."""

    def __init__(self) -> None:
        self._by_name: dict[Module, Mapping[str, Instruction]] = {}

    def find(self, module: Module, name: str) -> Instruction | None:
        """The instruction that a trace means by a name; None if the module has none of it.

        >>> from hlo_cli import parse_module
        >>> module = parse_module("HloModule m  ENTRY e { ROOT p = f32[2] parameter(0) }")
        >>> InstructionNames().find(module, "%p and its duplicate(s)"), InstructionNames().find(module, "q")
        (<parameter p>, None)
        """
        if module not in self._by_name:
            self._by_name[module] = {instruction.name: instruction for instruction in module.instructions}
        return self._by_name[module].get(name.removesuffix(_DUPLICATES).removeprefix("%"))
