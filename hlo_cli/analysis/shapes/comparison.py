"""Comparison of the declared shape of an instruction with the inferred one, as strict as XLA's verifier.

Mirrors `ShapeVerifier::CheckShape` of xla/service/hlo_verifier.cc and the `Handle…` functions with rules of their
own.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.shapes.inference import ATTRIBUTELESS, GROUP_RULES, RULES, check_elements, infer_shape
from hlo_cli.analysis.shapes.operands import fail, operand_shapes, sizes_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.memory_space import MemorySpace
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import (
    CHANNEL_OPCODES,
    CONTROL_FLOW,
    DONES,
    HOST_FEEDS,
    MATMULS,
    NATIVE_DONES,
    PERMUTES,
    is_known,
)
from hlo_cli.ir.shape import ArrayShape, BufferShape, Shape, TupleShape, UnknownShape, compatible, same_order

REBUILT: Final = frozenset("add-dependency after-all constant recv recv-done send send-done".split())
"""Opcodes whose shape XLA infers again when it loads a module; the declared shape has no effect."""

_APPLYING: Final = frozenset((opcodes.REDUCE, opcodes.REDUCE_WINDOW, opcodes.MAP))
_EXACT: Final = frozenset(
    """bitcast call conditional copy-done copy-start custom-call dynamic-update-slice get-tuple-element infeed outfeed
    opt-barrier parameter tuple while""".split()
)
"""Opcodes for which layouts are compared, and mixed precision is not allowed."""
_DEPENDS_ON_PRODUCERS: Final = frozenset((opcodes.ASYNC_DONE, opcodes.ASYNC_UPDATE, opcodes.BITCAST))
"""Opcodes whose rule depends on the producers of their operands."""
_ORDER_ONLY: Final = frozenset((opcodes.COPY_START, opcodes.INFEED))
"""Opcodes for which only the dimension order of layouts is compared."""
_MIXED_PRECISION: Final = (
    CONTROL_FLOW
    | MATMULS
    | HOST_FEEDS
    | CHANNEL_OPCODES
    | PERMUTES
    | NATIVE_DONES.keys()
    | DONES
    | {opcodes.ALL_GATHER, opcodes.ALL_REDUCE, opcodes.CONSTANT, opcodes.CUSTOM_CALL, opcodes.DOMAIN, opcodes.FUSION}
    | {opcodes.GET_TUPLE_ELEMENT, opcodes.OPT_BARRIER, opcodes.PARAMETER, opcodes.REDUCE_PRECISION}
    | {opcodes.REDUCE_WINDOW, opcodes.SORT, opcodes.TUPLE}
)
"""Opcodes that may have operands of several float types."""


def shape_difference(
    instruction: Instruction,
    module: Module | None = None,
    *,
    layout_sensitive: bool = False,
    allow_mixed_precision: bool = False,
    is_fused: bool = False,
) -> str | None:
    """Returns how the declared shape differs from the inferred one, None if XLA accepts it.

    `layout_sensitive` compares layouts of data-movement opcodes, as in scheduled modules. `allow_mixed_precision`
    treats all float types as equal. `is_fused` is True in fused computations. Raises HloError if the operands violate
    the rule of the opcode.

    >>> from hlo_cli import parse_module
    >>> shape_difference(parse_module("r = f32[9] add(f32[4] a, f32[4] b)").entry.root)
    'expected the shape f32[4], found f32[9]'
    >>> root = parse_module("r = bf16[4] add(f32[4] a, f32[4] b)").entry.root
    >>> shape_difference(root), shape_difference(root, allow_mixed_precision=True)
    ('expected the shape f32[4], found bf16[4]', None)
    """
    written = instruction.shape
    check_elements(instruction)
    if not is_known(instruction.written_opcode) or not _are_known(instruction):
        return None
    expected = infer_shape(instruction, module)
    if instruction.written_opcode == opcodes.GET_TUPLE_ELEMENT and not _is_known(expected):
        return None
    if instruction.written_opcode == "scan" and layout_sensitive and not instruction.flag("is_associative"):
        fail(instruction, "scan must be lowered before layout assignment unless is_associative=true")
    # hlo_verifier.cc never sees the declared shape of these: the loader creates them from their operands.
    if instruction.written_opcode in REBUILT:
        return None
    if instruction.written_opcode == opcodes.COPY and layout_sensitive and isinstance(written, ArrayShape):
        return _copy_difference(expected, written, any_precision=allow_mixed_precision)
    if instruction.written_opcode not in _EXACT:
        return _difference(expected, written, fits=compatible(expected, written, any_precision=allow_mixed_precision))
    if not layout_sensitive:
        return _difference(expected, written, fits=compatible(expected, written))
    if instruction.written_opcode == opcodes.BITCAST:
        return _bitcast_difference(instruction, written)
    if instruction.written_opcode in _ORDER_ONLY or (
        instruction.written_opcode == opcodes.DYNAMIC_UPDATE_SLICE and is_fused
    ):
        return _difference(expected, written, fits=same_order(expected, written), layout=True)
    return _difference(expected, written, fits=same_layout(expected, written), layout=True)


def shape_difference_key(instruction: Instruction) -> Hashable:
    """Returns a key for caching `shape_difference` within a module: equal keys have equal results.

    None if the result depends on more than shapes and attributes. Shapes are compared by identity, because equal
    shapes of a module are one object.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[2] parameter(0)  n = f32[2] negate(p)  ROOT m = f32[2] negate(n) }"
    >>> _, first, second = parse_module(text).entry.instructions
    >>> shape_difference_key(first) == shape_difference_key(second)
    True
    """
    opcode = instruction.written_opcode
    if instruction.called_computations or instruction.index in instruction.computation.operand_indices:
        return None
    shapes = tuple([id(operand.shape) for operand in instruction.operands])
    if opcode in ATTRIBUTELESS:
        return opcode, id(instruction.shape), shapes
    if opcode in _DEPENDS_ON_PRODUCERS or (opcode not in RULES and opcode not in GROUP_RULES):
        return None
    attributes = tuple([pair for pair in instruction.pairs if pair[0] != "metadata"])
    return opcode, id(instruction.shape), shapes, attributes


def same_layout(a: Shape, b: Shape) -> bool:
    """Returns whether shapes and layouts are equal, except for dynamic dimensions.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> same_layout(parse_shape("f32[<=2,3]{1,0}"), parse_shape("f32[2,3]{1,0}"))
    True
    >>> same_layout(parse_shape("f32[2,3]{1,0}"), parse_shape("f32[2,3]{1,0:S(1)}"))
    False
    """
    return a is b or (
        compatible(a, b)
        and all(leaf.layout == other.layout for (_, leaf), (_, other) in zip(a.leaves, b.leaves, strict=True))
    )


def precision_difference(instruction: Instruction) -> str | None:
    """Returns how the operands mix float types without mixed precision, None if they do not.

    >>> from hlo_cli import parse_module
    >>> precision_difference(parse_module("r = f32[4] add(f32[4] a, bf16[4] b)").entry.root)
    'expected operands of the same float type, found bf16 and f32'
    """
    if instruction.written_opcode in _APPLYING and (found := _reducer_difference(instruction)):
        return found
    if instruction.written_opcode in _MIXED_PRECISION:
        return None
    types = set()
    for position in range(len(instruction.operands)):
        for _, leaf in instruction.operand_shape(position).leaves:
            array = leaf.array if isinstance(leaf, BufferShape) else leaf
            if isinstance(array, ArrayShape) and array.element_type.kind == "float":
                types.add(array.element_type.name)
    return f"expected operands of the same float type, found {' and '.join(sorted(types))}" if len(types) > 1 else None


def _reducer_difference(instruction: Instruction) -> str | None:
    """Returns which parameter of an applied computation differs in type from its operand, or None."""
    called = instruction.called_computations
    if not called or len(called[0].parameters) != len(instruction.operands):
        return None
    count = len(instruction.operands)
    for position, parameter in enumerate(called[0].parameters):
        # parameters are accumulators, then elements; operands are inputs, then initial values
        operand_number = position if instruction.written_opcode == opcodes.MAP else (position + count // 2) % count
        operand = instruction.operand_shape(operand_number)
        if not isinstance(operand, ArrayShape) or not isinstance(parameter.shape, ArrayShape):
            continue
        if operand.element_type is not parameter.shape.element_type:
            types = f"{operand.element_type}, found {parameter.shape.element_type}"
            return f"expected parameter {position} of {called[0].name} to have operand {operand_number}'s type, {types}"
    return None


def _are_known(instruction: Instruction) -> bool:
    """Returns whether the shapes of an instruction and its operands are known.

    For get-tuple-element, only the element is checked: a large operand tuple would be checked once per element.
    """
    if instruction.opcode == opcodes.GET_TUPLE_ELEMENT:
        return _is_known(instruction.shape) and not any(
            isinstance(s, UnknownShape) for s in operand_shapes(instruction)
        )
    return all(map(_is_known, (instruction.shape, *operand_shapes(instruction))))


def _is_known(shape: Shape) -> bool:
    """Returns whether a shape has no unknown part."""
    if isinstance(shape, TupleShape):
        return all(map(_is_known, shape.elements))
    return not isinstance(shape, UnknownShape)


def _difference(expected: Shape, written: Shape, *, fits: bool, layout: bool = False) -> str | None:
    """Returns the message for unequal shapes, None if they fit."""
    if fits:
        return None
    if layout and compatible(expected, written):
        return f"expected the shape {expected}, found {written}"
    return f"expected the shape {sizes_of(expected)}, found {sizes_of(written)}"


def _copy_difference(expected: Shape, written: ArrayShape, *, any_precision: bool) -> str | None:
    """Compares a copy: layouts may differ, except between device and host."""
    if isinstance(expected, ArrayShape):
        from_host, to_host = expected.memory_space == MemorySpace.HOST, written.memory_space == MemorySpace.HOST
        # hlo_verifier.cc: a copy to the host keeps the element type, a copy from the host keeps all but
        # the memory space.
        if to_host and not from_host:
            any_precision = False
        if from_host and not to_host:
            on_host = replace(written, layout=replace(written.layout, memory_space=MemorySpace.HOST))
            return _difference(expected, written, fits=same_layout(expected, on_host), layout=True)
    return _difference(expected, written, fits=compatible(expected, written, any_precision=any_precision))


def _bitcast_difference(instruction: Instruction, written: Shape) -> str | None:
    """Compares a bitcast: sizes in bytes must be equal, and both shapes in host memory or neither."""
    operand = instruction.operand_shape(0)
    if not isinstance(operand, ArrayShape) or not isinstance(written, ArrayShape):
        return None
    if operand.logical_bytes != written.logical_bytes and operand.padded_bytes != written.padded_bytes:
        found = f"{written.padded_bytes} of {written}"
        return f"expected the size of {operand}, {operand.padded_bytes} bytes, found {found}"
    crosses = (operand.memory_space == MemorySpace.HOST) != (written.memory_space == MemorySpace.HOST)
    if crosses and not _is_constant(instruction.operands[0]):
        return f"expected the memory space of {operand}, found {written}"
    return None


def _is_constant(instruction: Instruction) -> bool:
    """Returns whether an instruction is a constant, possibly copied."""
    while instruction.written_opcode in (opcodes.COPY, opcodes.COPY_START, opcodes.COPY_DONE) and instruction.operands:
        instruction = instruction.operands[0]
    return instruction.written_opcode == opcodes.CONSTANT
