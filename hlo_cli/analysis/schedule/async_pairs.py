"""Asynchronous operations, in every spelling: each start with its updates and with what waits for it.

Generic (`async-start` with calls), sugared (`slice-start`), native (`copy-start`, `all-reduce-start`, `send` …), and
what TPU compilers write: collectives inside fusions, whose roots are `AsyncCollectiveStart` and `AsyncCollectiveDone`.
Mirrors `VerifyAsyncOps` of xla/service/hlo_verifier.cc.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from hlo_cli.analysis.cache import cached_per_module
from hlo_cli.analysis.dataflow.async_chains import is_async_end, is_async_start
from hlo_cli.analysis.dataflow.computation_contexts import contexts_of
from hlo_cli.analysis.schedule.async_tracing import origin_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import CHANNEL_STARTS, COLLECTIVES, NATIVE_DONES, NATIVE_ENDS, wrapped_opcode

Spelling = Literal["generic", "sugared", "native", "fusion"]

_FUSED_START: Final = "AsyncCollectiveStart"
_FUSED_DONE: Final = "AsyncCollectiveDone"

Callers = Mapping[Computation, tuple[Instruction, ...]]


@dataclass(frozen=True, slots=True)
class AsyncPair:
    """A start, what goes on with it, and what waits for it.

    `operation` is the opcode of what is done, `wrapped` the instruction that says so where the text has it. There is
    one done unless the module is broken, or the start is carried by a loop, which waits for it inside and behind.
    """

    start: Instruction
    updates: tuple[Instruction, ...]
    dones: tuple[Instruction, ...]
    spelling: Spelling
    operation: str
    wrapped: Instruction | None

    @property
    def members(self) -> tuple[Instruction, ...]:
        """The start, the updates and the dones."""
        return (self.start, *self.updates, *self.dones)

    @property
    def computation(self) -> Computation | None:
        """The computation of a generic start, which the start or, where operands come late, an update names."""
        return next((called for m in (self.start, *self.updates) for called in m.called_computations), None)

    @property
    def is_fused(self) -> bool:
        """Whether a TPU compiler wrote it: its start and its done are in fusions."""
        return self.spelling == "fusion"

    @property
    def thread(self) -> str:
        """Where it runs: `main`, `host`, `sparsecore` …."""
        return self.start.string("async_execution_thread") or "main"

    @property
    def is_host_transfer(self) -> bool:
        """Whether it sends to the program on the host or receives from it."""
        return self.operation in CHANNEL_STARTS and self.start.flag("is_host_transfer")


@dataclass(frozen=True, slots=True)
class AsyncPairs:
    """All pairs of a module in the order of its text, and the members that belong to none of them.

    `orphans` are updates and dones that lead to no start, as from an argument of the program; what comes from a
    parameter of a computation that nothing calls is none. `continues` leads from each update and done to what stands
    before it.
    """

    pairs: tuple[AsyncPair, ...]
    orphans: tuple[Instruction, ...]
    continues: Mapping[Instruction, tuple[Instruction, ...]]


def async_pairs(module: Module) -> AsyncPairs:
    """The asynchronous operations of a module.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m
    ... ENTRY e { p = f32[4] parameter(0)
    ...   s = ((f32[4]), f32[2], u32[]) slice-start(p), slice={[0:2]}
    ...   u = ((f32[4]), f32[2], u32[]) slice-update(s)
    ...   ROOT d = f32[2] slice-done(u) }'''
    >>> pair, = async_pairs(parse_module(text)).pairs
    >>> pair.operation, pair.spelling, [member.name for member in pair.members]
    ('slice', 'sugared', ['s', 'u', 'd'])
    """
    return cached_per_module(_pairs_in, module)


def _pairs_in(module: Module) -> AsyncPairs:
    contexts = contexts_of(module)
    fused = {computation for computation, context in contexts.of.items() if context == "fused"}
    starts: list[Instruction] = []
    ends: list[Instruction] = []
    for computation in module.computations:
        if computation in fused:
            continue
        for instruction in computation.instructions:
            if is_start(instruction):
                starts.append(instruction)
            elif is_end(instruction):
                ends.append(instruction)
    traced = {end: _traced(end, contexts.callers) for end in ends}
    orphans = tuple(end for end, trace in traced.items() if trace.is_foreign)
    return AsyncPairs(tuple(_paired(starts, traced)), orphans, {end: trace.before for end, trace in traced.items()})


def is_start(instruction: Instruction) -> bool:
    """Whether an instruction begins something asynchronous, in any spelling.

    >>> from hlo_cli import parse_module
    >>> is_start(parse_module("s = ((f32[4]), f32[4], u32[]) negate-start(f32[4] p)").entry.root)
    True
    """
    opcode = instruction.opcode
    return opcode in NATIVE_DONES or is_async_start(opcode) or _fused_target(instruction) == _FUSED_START


def is_end(instruction: Instruction) -> bool:
    """Whether an instruction goes on with something asynchronous or waits for it, in any spelling.

    >>> from hlo_cli import parse_module
    >>> is_end(parse_module("d = f32[4] copy-done((f32[4], f32[4], u32[]) s)").entry.root)
    True
    """
    opcode = instruction.opcode
    return opcode in NATIVE_ENDS or is_async_end(opcode) or _fused_target(instruction) == _FUSED_DONE


def _fused_target(instruction: Instruction) -> str | None:
    """What the custom call is called that is the root of a fusion."""
    if instruction.opcode != opcodes.FUSION or not instruction.called_computations:
        return None
    root = instruction.called_computations[0].root
    return root.string("custom_call_target") if root is not None and root.opcode == opcodes.CUSTOM_CALL else None


@dataclass(frozen=True, slots=True)
class _Trace:
    """What stands before an update or a done, the fusions that share in a fused collective, and whether another
    value than an asynchronous one comes in."""

    before: tuple[Instruction, ...]
    fusions: tuple[Instruction, ...]
    is_foreign: bool


def _traced(end: Instruction, callers: Callers) -> _Trace:
    if end.opcode != opcodes.FUSION:
        made = origin_of(end, 0, callers).made if end.operands else ()
        before = tuple(each for each in made if is_start(each) or is_end(each))
        return _Trace(before, (), not made or any(map(_is_foreign, (each for each in made if each not in before))))
    found: dict[Instruction, None] = {}
    through: dict[Instruction, None] = {}
    for position in range(len(end.operands)):
        origin = origin_of(end, position, callers)
        starts = [each for each in origin.made if is_start(each)]
        found |= dict.fromkeys(starts)
        through |= dict.fromkeys(origin.through if starts else ())
    return _Trace(tuple(found), tuple(reversed(through)), not found)


def _is_foreign(made: Instruction) -> bool:
    """Whether something asynchronous cannot come from here; what a computation is given that nothing calls may be."""
    return made.opcode != opcodes.PARAMETER or made.computation.is_entry


def _paired(starts: Iterable[Instruction], traced: Mapping[Instruction, _Trace]) -> Iterable[AsyncPair]:
    following: dict[Instruction, list[Instruction]] = {}
    for end, trace in traced.items():
        for each in trace.before:
            following.setdefault(each, []).append(end)
    for start in starts:
        updates: dict[Instruction, None] = {}
        dones: dict[Instruction, None] = {}
        waiting = [start]
        while waiting:
            for end in following.get(waiting.pop(), ()):
                updates |= dict.fromkeys(traced[end].fusions)
                if not _is_update(end):
                    dones[end] = None
                elif end not in updates:
                    updates[end] = None
                    waiting.append(end)
        wrapped = _wrapped(start, updates)
        operation = wrapped.opcode if wrapped is not None else _operation(start.opcode)
        yield AsyncPair(start, tuple(updates), tuple(dones), _spelling(start.opcode), operation, wrapped)


def _is_update(end: Instruction) -> bool:
    """Whether an instruction goes on with a chain without ending it."""
    return end.opcode.endswith("-update")


def _wrapped(start: Instruction, updates: Iterable[Instruction]) -> Instruction | None:
    if start.opcode == opcodes.FUSION:
        inside = start.called_computations[0].instructions
        return next((each for each in inside if each.opcode in COLLECTIVES), None)
    if start.opcode != opcodes.ASYNC_START:
        return None
    called = (c for member in (start, *updates) for c in member.called_computations)
    return next((computation.root for computation in called if computation.root is not None), None)


def _operation(opcode: str) -> str:
    return wrapped_opcode(opcode) or opcode.removesuffix("-start")


def _spelling(opcode: str) -> Spelling:
    if opcode in (opcodes.FUSION, opcodes.ASYNC_START):
        return "fusion" if opcode == opcodes.FUSION else "generic"
    return "native" if opcode in NATIVE_DONES else "sugared"
