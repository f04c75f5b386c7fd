"""The kind of an instruction, by which graphs are colored.

Mirrors `HloDotDumper::GetInstructionColor` of xla/service/hlo_graph_dumper.cc: each of its colors is one kind or more.
A fusion, which is gray in XLA, has the kind of the most costly operation in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final, Literal, TypeAlias

from hlo_cli.analysis.cost.traversal import callees_first
from hlo_cli.analysis.fusion.kernels import NO_KERNEL_TARGETS
from hlo_cli.ir import opcodes, operations
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape

Kind: TypeAlias = Literal[
    "matmul",
    "reduction",
    "elementwise",
    "slicing or sorting",
    "data movement",
    "precision",
    "fusion",
    "control flow",
    "custom call",
    "collective",
    "parameter",
    "small parameter",
    "constant",
    "scalar",
    "free",
    "other",
]
"""`collective` includes transfers to other devices and to the host; `free` needs no kernel, such as a tuple."""

SMALL_ELEMENTS: Final = 4096
"""A parameter with fewer elements is small (`IsSmall` of hlo_graph_dumper.cc)."""

_FREE: Final = frozenset(
    (
        *(opcodes.BITCAST, opcodes.GET_TUPLE_ELEMENT, opcodes.TUPLE, opcodes.AFTER_ALL, opcodes.ADD_DEPENDENCY),
        opcodes.OPT_BARRIER,
    )
)
_REDUCTIONS: Final = frozenset(
    (
        *(opcodes.REDUCE, opcodes.REDUCE_WINDOW, opcodes.SCATTER, opcodes.SELECT_AND_SCATTER, opcodes.TOPK),
        *("batch-norm-grad", "batch-norm-inference", "batch-norm-training", "scan"),
    )
)
_CREATED: Final = operations.RANDOM_STATE | {opcodes.IOTA, opcodes.RNG_BIT_GENERATOR}
_MOVED: Final = frozenset(
    (
        *(opcodes.CONCATENATE, opcodes.PAD, opcodes.DYNAMIC_RESHAPE, opcodes.GATHER, opcodes.DYNAMIC_SLICE),
        *(opcodes.DYNAMIC_UPDATE_SLICE, opcodes.COPY_START, opcodes.COPY_DONE),
    )
)
_TARGET: Final = "custom_call_target"
_COLLECTIVE_TARGETS: Final = ("AsyncCollectiveStart", "AsyncCollectiveDone")
_IN_FUSIONS: Final[tuple[Kind, ...]] = ("matmul", "collective", "custom call", "reduction")
"""The kinds of instructions that give a fusion theirs, the most important first."""
_IGNORED: Final[frozenset[Kind]] = frozenset((opcodes.PARAMETER, "small parameter", opcodes.CONSTANT, "scalar", "free"))


@cache
def kind_of_opcode(opcode: str) -> Kind:
    """The kind of an opcode, whatever its shape; that of the wrapped operation for `slice-start` and others.

    >>> kind_of_opcode("dot"), kind_of_opcode("all-gather-start"), kind_of_opcode("slice-start")
    ('matmul', 'collective', 'slicing or sorting')
    """
    if (wrapped := operations.wrapped_opcode(opcode)) is not None:
        opcode = wrapped
    base = opcode.removesuffix("-start").removesuffix("-done")
    if base in operations.COLLECTIVES | operations.CHANNEL_OPCODES | operations.HOST_FEEDS:
        return "collective"
    if opcode in operations.DEVICE_IDS:
        return "collective"
    for kind, named in _NAMED.items():
        if opcode in named:
            return kind
    return "other"


def kinds_of(computations: Iterable[Computation]) -> Mapping[Instruction, Kind]:
    """The kind of every instruction of the computations, and of those that they call.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m  f { p = f32[8,8] parameter(0) d = f32[8,8] dot(p, p)  ROOT e = f32[8,8] negate(d) }
    ... ENTRY e { a = f32[8,8] parameter(0)  ROOT r = f32[8,8] fusion(a), kind=kOutput, calls=f }'''
    >>> module = parse_module(text)
    >>> [kind for instruction, kind in kinds_of(module.computations).items() if instruction.computation is module.entry]
    ['small parameter', 'matmul']
    """
    found: dict[Instruction, Kind] = {}
    dominant: dict[Computation, Kind] = {}
    listed = tuple(callees_first(computations))
    fused = {
        called
        for computation in listed
        for instruction in computation.instructions
        if instruction.opcode == opcodes.FUSION
        for called in instruction.called_computations
    }
    for computation in listed:
        for instruction in computation.instructions:
            found[instruction] = _kind(instruction, found, dominant, is_fused=computation in fused)
        dominant[computation] = _dominant(found[each] for each in computation.instructions)
    return found


def is_free_call(instruction: Instruction) -> bool:
    """Whether an instruction is a custom call that launches nothing, such as the joining of adjacent buffers.

    >>> from hlo_cli import parse_module
    >>> is_free_call(parse_module('r = f32[8] custom-call(a, b), custom_call_target="ConcatBitcast"').entry.root)
    True
    """
    return instruction.opcode == opcodes.CUSTOM_CALL and instruction.string(_TARGET) in NO_KERNEL_TARGETS


def is_scalar(shape: Shape) -> bool:
    """Whether a shape is an array of one element (`ShapeUtil::IsEffectiveScalar`).

    >>> from hlo_cli import parse_module
    >>> [is_scalar(parse_module(f"r = {shape} negate(p)").entry.root.shape) for shape in ("s32[1,1]", "s32[2]")]
    [True, False]
    """
    return isinstance(shape, ArrayShape) and all(size == 1 for size in shape.dimensions)


def _kind(
    instruction: Instruction, found: Mapping[Instruction, Kind], dominant: Mapping[Computation, Kind], *, is_fused: bool
) -> Kind:
    """The kind of an instruction, after those of the instructions before it, and of what its computation calls."""
    opcode, shape = instruction.opcode, instruction.shape
    if opcode == opcodes.PARAMETER:
        return "small parameter" if _elements(shape) < SMALL_ELEMENTS else opcodes.PARAMETER
    if opcode in operations.ASYNCHRONOUS:
        # The done and the updates name the computation of their start, or continue it.
        if not instruction.called_computations and opcode in operations.ASYNC_CONTINUATIONS and instruction.operands:
            before = instruction.operands[0]
            return found.get(before, "other") if before.opcode in operations.ASYNCHRONOUS else "other"
        kinds = [dominant[called] for called in instruction.called_computations if called in dominant]
        return kinds[0] if kinds else "other"
    kind = kind_of_opcode(opcode)
    if kind == "custom call":
        target = instruction.string(_TARGET)
        return "free" if target in NO_KERNEL_TARGETS else "collective" if target in _COLLECTIVE_TARGETS else kind
    if kind == opcodes.FUSION:
        kinds = [dominant[called] for called in instruction.called_computations if called in dominant]
        return kinds[0] if kinds and kinds[0] in (*_IN_FUSIONS, "data movement") else opcodes.FUSION
    if kind in ("elementwise", "slicing or sorting", "data movement") and is_scalar(shape):
        return "scalar"
    if kind == "data movement" and is_fused and opcode not in (opcodes.COPY, opcodes.DYNAMIC_UPDATE_SLICE):
        return "free"
    return kind


def _elements(shape: Shape) -> int:
    match shape:
        case ArrayShape():
            return shape.elements
        case TupleShape():
            return sum(_elements(leaf) for _, leaf in shape.leaves)
        case _:
            return 0


def _dominant(kinds: Iterable[Kind]) -> Kind:
    """The kind of a computation: its most important one, or the one that all of its work has."""
    present = set(kinds)
    for kind in _IN_FUSIONS:
        if kind in present:
            return kind
    work = present - _IGNORED
    if len(work) == 1:
        return work.pop()
    return opcodes.FUSION if work else "data movement"


_NAMED: Final[Mapping[Kind, frozenset[str]]] = {
    "matmul": operations.MATMULS | (operations.OWN_KERNELS - {opcodes.SORT}),
    "reduction": _REDUCTIONS,
    "precision": frozenset((opcodes.REDUCE_PRECISION,)),
    "slicing or sorting": frozenset((opcodes.SLICE, opcodes.SORT)),
    "free": _FREE,
    "elementwise": (operations.ELEMENTWISE - {opcodes.COPY}) | _CREATED,
    "data movement": operations.MOVES | _MOVED,
    opcodes.FUSION: frozenset((opcodes.FUSION,)),
    "control flow": operations.CONTROL_FLOW - operations.ASYNCHRONOUS,
    "custom call": frozenset((opcodes.CUSTOM_CALL,)),
    opcodes.PARAMETER: frozenset((opcodes.PARAMETER,)),
    opcodes.CONSTANT: frozenset((opcodes.CONSTANT,)),
}
