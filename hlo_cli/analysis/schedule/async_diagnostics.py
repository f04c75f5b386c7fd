"""Input and output types of the verifier rules for async operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from hlo_cli.analysis.dataflow.users import Users
from hlo_cli.analysis.problem import Problem
from hlo_cli.analysis.schedule.async_pairs import AsyncPair, AsyncPairs
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import NATIVE_DONES


@dataclass(frozen=True, slots=True)
class AsyncContext:
    """A module with its async operations, their users, and the callers of each computation."""

    module: Module
    found: AsyncPairs
    users: Users
    callers: Mapping[Computation, tuple[Instruction, ...]]


Rule: TypeAlias = Callable[[AsyncPair, AsyncContext], Iterator[Problem]]
"""A verifier rule: yields the violations of one pair."""


def done_of(start: Instruction) -> str:
    """Returns the opcode of the done that matches a start.

    >>> from hlo_cli import parse_module
    >>> done_of(parse_module("s = ((f32[4]), f32[4], u32[]) negate-start(f32[4] p)").entry.root)
    'negate-done'
    """
    return NATIVE_DONES.get(start.opcode) or f"{start.opcode.removesuffix('-start')}-done"
