"""Ids and names of computations and instructions in protos. Names are unique, unlike in text.

Mirrors xla/service/name_uniquer.cc, and the numbering of xla/hlo/ir/hlo_module.cc.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from itertools import count
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module

_LOCAL_BITS: Final = 32
"""XLA numbers instructions from 0 in each computation; the computation's number is in the high bits."""
_MOST_DIGITS: Final = 18


@dataclass(frozen=True, slots=True)
class Numbers:
    """The ids and names of a module's computations and instructions."""

    computations: Mapping[Computation, int]
    instructions: Mapping[Instruction, int]
    names: Mapping[Computation | Instruction, str]


def numbers_of(module: Module) -> Numbers:
    """Assigns ids to all computations and instructions, as XLA prints callees and unscheduled instructions by id."""
    computations = {computation: number for number, computation in enumerate(module.computations, 1)}
    fused = fusion_computations(module) if module.is_scheduled else computations
    instructions = {
        instruction: number << _LOCAL_BITS | local
        for computation, number in computations.items()
        for local, instruction in enumerate(_by_age(computation, computations, fused))
    }
    listed = list(module.instructions)
    names: dict[Computation | Instruction, str] = {}
    names.update(zip(module.computations, unique_names(c.name for c in module.computations), strict=True))
    names.update(zip(listed, unique_names(i.name for i in listed), strict=True))
    return Numbers(computations, instructions, names)


def fusion_computations(module: Module) -> frozenset[Computation]:
    """The bodies of fusions, which have no schedule."""
    return frozenset(c for i in module.instructions if i.opcode == opcodes.FUSION for c in i.called_computations)


def unique_names(names: Iterable[str]) -> list[str]:
    """The names in order; repeated ones get a free number after a dot.

    >>> unique_names(["p", "p", "p.1", "p", "q.3", "q.3"])
    ['p', 'p.1', 'p.2', 'p.3', 'q.3', 'q.0']
    """
    used: defaultdict[str, set[int]] = defaultdict(set)
    numbers: defaultdict[str, Iterable[int]] = defaultdict(count)
    found = []
    for name in names:
        root, number = _split(name)
        if number in used[root]:
            number = next(free for free in numbers[root] if free not in used[root])
            name = f"{root}.{number}"
        used[root].add(number)
        found.append(name)
    return found


def _split(name: str) -> tuple[str, int]:
    """The name without its number, and the number; 0 without one."""
    root, dot, digits = name.rpartition(".")
    if dot and root and digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS:
        return root, int(digits)
    return name, 0


def _by_age(
    computation: Computation, computations: Mapping[Computation, int], fused: Container[Computation]
) -> Iterable[Instruction]:
    """The instructions in an order from which XLA's traversal of callees restores the order of the computations."""
    if computation in fused:
        return computation.instructions
    last_callee = {
        i: max((computations[c] for c in i.called_computations), default=0) for i in computation.instructions
    }
    return sorted(computation.instructions, key=last_callee.__getitem__)
