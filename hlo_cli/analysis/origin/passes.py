"""The pass that made an instruction: the first of a module's dumps, one after each pass, that has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module


def first_dumps(
    module: Module, earlier: Iterable[Module], instructions: Iterable[Instruction] | None = None
) -> dict[Instruction, int]:
    """Returns how many dumps back instructions of a module are found, without a gap; 0 if the latest has it not.

    All instructions unless some are given. `earlier` are the dumps before the module, the latest first; they are read
    only as long as any instruction is found. An instruction is found by its name, its opcode, and its array sizes; if
    it was renamed, by its op_name in place of its name, where only one instruction of each dump has it.

    >>> from hlo_cli import parse_module
    >>> texts = ["ROOT b = f32[2] negate(p)", "ROOT b = f32[2] negate(p)", "ROOT b = f32[2] copy(p)"]
    >>> last, *older = [parse_module("HloModule m ENTRY e { p = f32[2] parameter(0) " + t + " }") for t in texts]
    >>> {each.name: back for each, back in first_dumps(last, older).items()}
    {'p': 2, 'b': 1}
    """
    found = dict.fromkeys(module.instructions if instructions is None else instructions, 0)
    sought = {each: each for each in found}  # each instruction as it is in the dump before
    latest = module
    for back, dump in enumerate(earlier if found else (), 1):
        named = {(each.name, each.opcode): each for each in dump.instructions}
        still: dict[Instruction, Instruction] = {}
        lost: dict[Instruction, Instruction] = {}
        for each, now in sought.items():
            before = named.get((now.name, now.opcode))
            if before is not None and _sizes(before) == _sizes(now):
                still[each] = before
            elif now.metadata.op_name:
                lost[each] = now
        if lost:
            there, here = _unique(dump.instructions), _unique(latest.instructions)
            renamed = {each: there.get(_likeness(now)) for each, now in lost.items() if here.get(_likeness(now)) is now}
            still |= {each: before for each, before in renamed.items() if before is not None}
        found |= dict.fromkeys(still, back)
        sought, latest = still, dump
        if not sought:
            break
    return found


def _unique(instructions: Iterable[Instruction]) -> dict[Hashable, Instruction]:
    """The instructions that no other is like."""
    listed = [(_likeness(each), each) for each in instructions if each.metadata.op_name]
    count = Counter(key for key, _ in listed)
    return {key: each for key, each in listed if count[key] == 1}


def _likeness(instruction: Instruction) -> Hashable:
    return instruction.opcode, _sizes(instruction), instruction.metadata.op_name


def _sizes(instruction: Instruction) -> str:
    return instruction.shape.to_string(layout=False)
