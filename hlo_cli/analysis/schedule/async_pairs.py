"""Async pairs in all forms: each start with its updates and dones.

Forms are generic (`async-start` with calls), sugared (`slice-start`), native (`copy-start`, `all-reduce-start`,
`send`), and, on TPU, collectives inside fusions with the roots `AsyncCollectiveStart` and `AsyncCollectiveDone`.
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
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import CHANNEL_STARTS, COLLECTIVES, NATIVE_DONES, NATIVE_ENDS, wrapped_opcode

Form = Literal["generic", "sugared", "native", "fusion"]

_FUSED_START: Final = "AsyncCollectiveStart"
_FUSED_DONE: Final = "AsyncCollectiveDone"

Callers = Mapping[Computation, tuple[Instruction, ...]]


@dataclass(frozen=True, slots=True)
class AsyncPair:
    """A start with its updates and dones.

    `operation` is the opcode of the wrapped operation, `wrapped` its instruction if that is in the text. A valid
    module has one done per start, or two if a loop carries the start: one inside and one after it.
    """

    start: Instruction
    updates: tuple[Instruction, ...]
    dones: tuple[Instruction, ...]
    form: Form
    operation: str
    wrapped: Instruction | None

    @property
    def members(self) -> tuple[Instruction, ...]:
        """The start, the updates, and the dones."""
        return (self.start, *self.updates, *self.dones)

    @property
    def computation(self) -> Computation | None:
        """The computation of a generic start; with late binding, an update refers to it."""
        return next((called for m in (self.start, *self.updates) for called in m.called_computations), None)

    @property
    def is_fused(self) -> bool:
        """Whether a TPU compiler wrote it: its start and its done are in fusions."""
        return self.form == "fusion"

    @property
    def thread(self) -> str:
        """The execution thread, such as `main`, `host`, or `sparsecore`."""
        return self.start.string("async_execution_thread") or "main"

    @property
    def is_host_transfer(self) -> bool:
        """Whether the operation is a send to the host or a recv from it."""
        return self.operation in CHANNEL_STARTS and self.start.flag("is_host_transfer")


@dataclass(frozen=True, slots=True)
class AsyncPairs:
    """The pairs of a module in the order of its text, and updates and dones without a start.

    `orphans` have an operand that is not asynchronous. An operand from a parameter of an uncalled computation may be.
    `continues` maps each update and done to the members that it continues.
    """

    pairs: tuple[AsyncPair, ...]
    orphans: tuple[Instruction, ...]
    continues: Mapping[Instruction, tuple[Instruction, ...]]


def async_pairs(module: Module) -> AsyncPairs:
    """Returns the async pairs of a module.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m
    ... ENTRY e { p = f32[4] parameter(0)
    ...   s = ((f32[4]), f32[2], u32[]) slice-start(p), slice={[0:2]}
    ...   u = ((f32[4]), f32[2], u32[]) slice-update(s)
    ...   ROOT d = f32[2] slice-done(u) }'''
    >>> pair, = async_pairs(parse_module(text)).pairs
    >>> pair.operation, pair.form, [member.name for member in pair.members]
    ('slice', 'sugared', ['s', 'u', 'd'])
    """
    return cached_per_module(_pairs_in, module)


def _pairs_in(module: Module) -> AsyncPairs:
    """Finds the pairs of a module."""
    contexts = contexts_of(module)
    fused = {computation for computation, context in contexts.context_of.items() if context == "fused"}
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
    traced = {end: _trace(end, contexts.callers) for end in ends}
    orphans = tuple(end for end, trace in traced.items() if trace.is_foreign)
    return AsyncPairs(
        tuple(_pairs_of_starts(starts, traced)), orphans, {end: trace.before for end, trace in traced.items()}
    )


def is_start(instruction: Instruction) -> bool:
    """Returns whether an instruction starts an async operation in any form.

    >>> from hlo_cli import parse_module
    >>> is_start(parse_module("s = ((f32[4]), f32[4], u32[]) negate-start(f32[4] p)").entry.root)
    True
    """
    opcode = instruction.opcode
    return opcode in NATIVE_DONES or is_async_start(opcode) or _fused_target(instruction) == _FUSED_START


def is_end(instruction: Instruction) -> bool:
    """Returns whether an instruction continues or ends an async operation in any form.

    >>> from hlo_cli import parse_module
    >>> is_end(parse_module("d = f32[4] copy-done((f32[4], f32[4], u32[]) s)").entry.root)
    True
    """
    opcode = instruction.opcode
    return opcode in NATIVE_ENDS or is_async_end(opcode) or _fused_target(instruction) == _FUSED_DONE


def _fused_target(instruction: Instruction) -> str | None:
    """Returns the custom-call target of a fusion's root, None if it has another root."""
    if instruction.opcode != opcodes.FUSION or not instruction.called_computations:
        return None
    root = instruction.called_computations[0].root
    return root.string("custom_call_target") if root is not None and root.opcode == opcodes.CUSTOM_CALL else None


@dataclass(frozen=True, slots=True)
class _Trace:
    """The members before an update or done, fusions inside a fused collective, and whether another value reaches it."""

    before: tuple[Instruction, ...]
    fusions: tuple[Instruction, ...]
    is_foreign: bool


def _trace(end: Instruction, callers: Callers) -> _Trace:
    """Traces the operands of an update or done to their starts and updates."""
    if end.opcode != opcodes.FUSION:
        made = origin_of(end, 0, callers).producers if end.operands else ()
        before = tuple(each for each in made if is_start(each) or is_end(each))
        return _Trace(before, (), not made or any(map(_is_foreign, (each for each in made if each not in before))))
    found: dict[Instruction, None] = {}
    through: dict[Instruction, None] = {}
    for position in range(len(end.operands)):
        origin = origin_of(end, position, callers)
        starts = [each for each in origin.producers if is_start(each)]
        found |= dict.fromkeys(starts)
        through |= dict.fromkeys(origin.forwarding_fusions if starts else ())
    return _Trace(tuple(found), tuple(reversed(through)), not found)


def _is_foreign(made: Instruction) -> bool:
    """Returns whether an instruction cannot produce an async value; parameters of uncalled computations may."""
    return made.opcode != opcodes.PARAMETER or made.computation.is_entry


def _pairs_of_starts(starts: Iterable[Instruction], traced: Mapping[Instruction, _Trace]) -> Iterable[AsyncPair]:
    """Yields the pair of each start."""
    successors: dict[Instruction, list[Instruction]] = {}
    for end, trace in traced.items():
        for each in trace.before:
            successors.setdefault(each, []).append(end)
    for start in starts:
        updates: dict[Instruction, None] = {}
        dones: dict[Instruction, None] = {}
        worklist = [start]
        while worklist:
            for end in successors.get(worklist.pop(), ()):
                updates |= dict.fromkeys(traced[end].fusions)
                if not _is_update(end):
                    dones[end] = None
                elif end not in updates:
                    updates[end] = None
                    worklist.append(end)
        wrapped = _wrapped(start, updates)
        operation = wrapped.opcode if wrapped is not None else _operation(start.opcode)
        yield AsyncPair(start, tuple(updates), tuple(dones), _form(start.opcode), operation, wrapped)


def _is_update(end: Instruction) -> bool:
    """Returns whether an instruction continues a chain without ending it."""
    return end.opcode.endswith("-update")


def _wrapped(start: Instruction, updates: Iterable[Instruction]) -> Instruction | None:
    """Returns the wrapped operation, None if it is not in the text."""
    if start.opcode == opcodes.FUSION:
        inside = start.called_computations[0].instructions
        return next((each for each in inside if each.opcode in COLLECTIVES), None)
    if start.opcode != opcodes.ASYNC_START:
        return None
    called = (c for member in (start, *updates) for c in member.called_computations)
    return next((computation.root for computation in called if computation.root is not None), None)


def _operation(opcode: str) -> str:
    """Returns the opcode of the operation that a start opcode begins."""
    return wrapped_opcode(opcode) or opcode.removesuffix("-start")


def _form(opcode: str) -> Form:
    """Returns the form of a start."""
    if opcode in (opcodes.FUSION, opcodes.ASYNC_START):
        return "fusion" if opcode == opcodes.FUSION else "generic"
    return "native" if opcode in NATIVE_DONES else "sugared"
