"""What a rule of asynchronous operations is told, and what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from hlo_cli.analysis.dataflow.users import Users
from hlo_cli.analysis.problem import Problem
from hlo_cli.analysis.schedule.async_pairs import AsyncPair, AsyncPairs
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import NATIVE_DONES


@dataclass(frozen=True, slots=True)
class Asynchronous:
    """A module, its asynchronous operations, who takes the values where there are any, and who calls what."""

    module: Module
    found: AsyncPairs
    users: Users
    callers: Mapping[Computation, tuple[Instruction, ...]]


Rule: TypeAlias = Callable[[AsyncPair, Asynchronous], Iterator[Problem]]
"""What is wrong with one pair; the docstring says what the rule is."""


def done_of(start: Instruction) -> str:
    """The opcode of what waits for a start.

    >>> from hlo_cli import parse_module
    >>> done_of(parse_module("s = ((f32[4]), f32[4], u32[]) negate-start(f32[4] p)").entry.root)
    'negate-done'
    """
    return NATIVE_DONES.get(start.opcode) or f"{start.opcode.removesuffix('-start')}-done"
