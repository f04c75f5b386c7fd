"""Which shape must an instruction have, by its opcode, and how does a written shape differ from it?

Mirrors xla/service/shape_inference.cc and `ShapeVerifier` of xla/service/hlo_verifier.cc; the rules are in the
chapters beside.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from hlo_cli.analysis.shapes import calling, computing, moving
from hlo_cli.analysis.shapes.operands import fail, operand_shapes, sizes_of
from hlo_cli.analysis.shapes.replica_groups import subgroup_size
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.memory_space import MemorySpace
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.operations import (
    BINARY,
    CHANNEL_OPCODES,
    CONTROL_FLOW,
    DEVICE_IDS,
    DONES,
    HOST_FEEDS,
    MATMULS,
    NATIVE_DONES,
    OPCODE_ARITY,
    OPERAND_COUNTS,
    OTHER_TYPE,
    PERMUTES,
    UNARY,
    is_known,
    takes,
    wrapped_opcode,
)
from hlo_cli.ir.shape import (
    ArrayShape,
    BufferShape,
    Shape,
    ShapeIndex,
    TupleShape,
    UnknownShape,
    compatible,
    same_order,
    subshape,
)
from hlo_cli.source import counted, expect, wrong_type

# --- inference by opcode ---
# Shape inference by opcode.
#
# Mirrors xla/service/shape_inference.cc and the further checks of each opcode in xla/service/hlo_verifier.cc.


Rule = Callable[[Instruction], Shape]
GroupRule = Callable[[Instruction, int | None], Shape]

_UNARY: Final = UNARY - OTHER_TYPE - {opcodes.COPY, opcodes.REDUCE_PRECISION}
_BINARY: Final = BINARY - OTHER_TYPE

RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        **dict.fromkeys(_UNARY, computing.unary),
        **dict.fromkeys(_BINARY, computing.binary),
        **dict.fromkeys(("abs", "imag", "real"), computing.component),
        "is-finite": computing.is_finite,
        "compare": computing.compare,
        "complex": computing.complex_of,
        "clamp": computing.clamp,
        "select": computing.select,
        "broadcast": moving.broadcast,
        "concatenate": moving.concatenate,
        "dynamic-reshape": moving.dynamic_reshape,
        "pad": moving.pad,
        "reshape": moving.reshape,
        "reverse": moving.reverse,
        "shuffle": moving.shuffle,
        "slice": moving.slice_of,
        "transpose": moving.transpose,
        "bitcast": computing.bitcast,
        "bitcast-convert": computing.bitcast_convert,
        "convert": computing.convert,
        "get-dimension-size": computing.get_dimension_size,
        "iota": computing.iota,
        **dict.fromkeys(DEVICE_IDS, computing.device_id),
        "reduce-precision": computing.reduce_precision,
        "rng": computing.rng,
        "rng-bit-generator": computing.rng_bit_generator,
        "rng-get-and-update-state": computing.rng_state,
        "set-dimension-size": computing.set_dimension_size,
        "stochastic-convert": computing.stochastic_convert,
        "map": moving.map_shape,
        "reduce": moving.reduce,
        "scan": moving.scan,
        "sort": moving.sort,
        "convolution": moving.convolution,
        "reduce-window": moving.reduce_window,
        "select-and-scatter": moving.select_and_scatter,
        "dot": computing.dot,
        "ragged-dot": computing.ragged_dot,
        "scaled-dot": computing.scaled_dot,
        "dynamic-slice": moving.dynamic_slice,
        "dynamic-update-slice": moving.dynamic_update_slice,
        "gather": moving.gather,
        "scatter": moving.scatter,
        "batch-norm-grad": computing.batch_norm_grad,
        "batch-norm-inference": computing.batch_norm_inference,
        "batch-norm-training": computing.batch_norm_training,
        "cholesky": computing.cholesky,
        "fft": computing.fft,
        "topk": computing.topk,
        "triangular-solve": computing.triangular_solve,
        **dict.fromkeys(("constant", "custom-call", "parameter"), calling.as_declared),
        **dict.fromkeys(("all-reduce-done", "copy", "domain", "opt-barrier"), calling.same_as_operand),
        "call": calling.call,
        "conditional": calling.conditional,
        "fusion": calling.fusion,
        "get-tuple-element": calling.get_tuple_element,
        "tuple": calling.tuple_of,
        "while": calling.while_loop,
        "add-dependency": calling.add_dependency,
        **dict.fromkeys(("after-all", "send-done"), calling.token),
        "copy-done": calling.copy_done,
        "copy-start": calling.copy_start,
        "infeed": calling.infeed,
        "outfeed": calling.outfeed,
        "recv": calling.recv,
        "recv-done": calling.recv_done,
        "send": calling.send,
        **dict.fromkeys(("all-reduce", "all-reduce-start"), calling.each_operand),
        **dict.fromkeys(("all-gather-done", "collective-permute-done"), calling.second_of_operand),
        "collective-broadcast": calling.collective_broadcast,
        "collective-permute": calling.collective_permute,
        "collective-permute-start": calling.collective_permute_start,
        "ragged-all-to-all": calling.ragged_all_to_all,
        "async-done": calling.async_done,
        "async-start": calling.async_start,
        "async-update": calling.async_update,
    }
)
"""The rule of every opcode whose result does not depend on the group size."""

GROUP_RULES: Final[Mapping[str, GroupRule]] = MappingProxyType(
    {
        opcodes.ALL_GATHER: calling.all_gather,
        opcodes.ALL_GATHER_START: calling.all_gather_start,
        opcodes.ALL_TO_ALL: calling.all_to_all,
        opcodes.REDUCE_SCATTER: calling.reduce_scatter,
    }
)
"""The rules of collectives whose result depends on the group size."""

ATTRIBUTELESS: Final = frozenset(
    (
        *_UNARY,
        *_BINARY,
        opcodes.CONSTANT,
        opcodes.CONVERT,
        opcodes.COPY,
        opcodes.PARAMETER,
        opcodes.SELECT,
        opcodes.TUPLE,
    )
)
"""Opcodes whose rules use only shapes, not attributes."""


def infer_shape(instruction: Instruction | str, module: Module | None = None) -> Shape:
    """Returns the shape that follows from operands, attributes, and called computations.

    What cannot be inferred, such as the type of a convert, is taken from the declared shape. `module` provides the
    device count; without it, group sizes that depend on it are not checked. Raises HloError if an instruction
    violates its rule, or if a required declared shape is missing. An instruction of `module` can be given by its name.

    >>> from hlo_cli import parse_module
    >>> instruction = parse_module("r = f32[9] add(f32[4] a, f32[4] b)").entry.root
    >>> print(infer_shape(instruction))
    f32[4]{0}
    """
    if not isinstance(instruction, Instruction):
        if module is None:
            raise wrong_type("an instruction", instruction, "with a name, pass its module too")
        expect(Module, "a module", module, "see hlo_cli.load")
        instruction = module.instruction(instruction)
    opcode = instruction.written_opcode
    rule = RULES.get(opcode)
    if rule is not None:
        arity, found = OPCODE_ARITY[opcode], len(instruction.operands)
        # older releases have sparsity operands after those of a dot
        if arity is not None and (found < arity or (found > arity and opcode != opcodes.DOT)):
            fail(instruction, f"expected {counted(arity, 'operands')}, found {found}")
        if not takes(opcode, found):
            fail(instruction, f"expected at least {counted(OPERAND_COUNTS[opcode][0], 'operands')}, found {found}")
        return rule(instruction)
    if (group_rule := GROUP_RULES.get(opcode)) is not None:
        return group_rule(instruction, subgroup_size(instruction, module))
    return _sugared(instruction, module)


def _check_elements(instruction: Instruction) -> None:
    """Raises HloError if an operand refers to a missing element of a tuple (`t#7`)."""
    for operand, index in zip(
        instruction.operands, instruction.computation.operand_indices.get(instruction.index, ()), strict=False
    ):
        if operand.shape != UnknownShape() and subshape(operand.shape, index) is None:
            fail(instruction, f"{operand.name} has no element {index_text(index)}")


def _sugared(instruction: Instruction, module: Module | None) -> Shape:
    """Returns the shape of a sugared async operation such as slice-start."""
    opcode = instruction.written_opcode
    if opcode in OPCODE_ARITY:  # one without a rule has the shape that is written
        return calling.as_declared(instruction)
    wrapped = wrapped_opcode(opcode)
    if wrapped is None:
        fail(instruction, "unknown opcode, so the result shape is unknown")
    if opcode.endswith("-start"):
        return calling.start_of(instruction, wrapped, lambda inner: infer_shape(inner, module))
    return calling.async_update(instruction) if opcode.endswith("-update") else calling.async_done(instruction)


# --- the declared shape against the inferred one ---
# Comparison of the declared shape of an instruction with the inferred one, as strict as XLA's verifier.
#
# Mirrors `ShapeVerifier::CheckShape` of xla/service/hlo_verifier.cc and the `Handle…` functions with rules of their
# own.


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
    _check_elements(instruction)
    if not is_known(instruction.written_opcode) or not _are_known(instruction):
        return None
    expected = infer_shape(instruction, module)
    if instruction.written_opcode == opcodes.GET_TUPLE_ELEMENT and not _is_known(expected):
        return None
    # hlo_verifier.cc: only an associative scan is lowered after layouts are assigned.
    if instruction.written_opcode == "scan" and layout_sensitive and not instruction.flag("is_associative"):
        fail(instruction, "scan must be lowered before layout assignment unless is_associative=true")
    # hlo_verifier.cc never sees the declared shape of these: the loader creates them from their operands.
    if instruction.written_opcode in REBUILT:
        return None
    if instruction.written_opcode == opcodes.COPY and layout_sensitive and isinstance(written, ArrayShape):
        return _copy_difference(expected, written, any_precision=allow_mixed_precision)
    # `CheckShape` ignores layouts for these: layout assignment is free to choose them.
    if instruction.written_opcode not in _EXACT:
        return _difference(expected, written, fits=compatible(expected, written, any_precision=allow_mixed_precision))
    # Before layout assignment, layouts in the text are defaults that nobody chose.
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
    # Hashing thousands of equal shapes would cost more than the rules that the cache spares.
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
        # Accumulators come first among the parameters, initial values last among the operands.
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
    # XLA's size function is the backend's, which a text does not name: equal by either is equal.
    if operand.logical_bytes != written.logical_bytes and operand.padded_bytes != written.padded_bytes:
        found = f"{written.padded_bytes} of {written}"
        return f"expected the size of {operand}, {operand.padded_bytes} bytes, found {found}"
    crosses = (operand.memory_space == MemorySpace.HOST) != (written.memory_space == MemorySpace.HOST)
    # A constant can be placed anywhere, so no copy is missing.
    if crosses and not _is_constant(instruction.operands[0]):
        return f"expected the memory space of {operand}, found {written}"
    return None


def _is_constant(instruction: Instruction) -> bool:
    """Returns whether an instruction is a constant, possibly copied."""
    while instruction.written_opcode in (opcodes.COPY, opcodes.COPY_START, opcodes.COPY_DONE) and instruction.operands:
        instruction = instruction.operands[0]
    return instruction.written_opcode == opcodes.CONSTANT


# --- a difference in words ---
# Two shapes compared leaf by leaf, with the difference in words.


Difference = tuple[ShapeIndex, Shape | None, Shape | None, str]
"""A leaf by its index, both shapes there, None for a missing one, and the difference in words."""


def shape_differences(expected: Shape, found: Shape, index: ShapeIndex = ()) -> Iterator[Difference]:
    """The elements in which two shapes differ; layouts count only if nothing else differs.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> one, other = parse_shape("(f32[2], s32[])"), parse_shape("(f32[3], s32[], u8[])")
    >>> [(index, words) for index, _, _, words in shape_differences(one, other)]
    [((0,), 'dimension 0 is 3, not 2'), ((2,), 'an element too many')]
    """
    if isinstance(expected, TupleShape) and isinstance(found, TupleShape):
        for position in range(max(len(expected.elements), len(found.elements))):
            wanted = expected.elements[position] if position < len(expected.elements) else None
            actual = found.elements[position] if position < len(found.elements) else None
            if wanted is None or actual is None:
                yield (
                    (*index, position),
                    wanted,
                    actual,
                    "an element too many" if wanted is None else "an element is missing",
                )
            else:
                yield from shape_differences(wanted, actual, (*index, position))
    elif words := difference_in_words(expected, found):
        yield index, expected, found, words


def difference_in_words(expected: Shape, found: Shape) -> str:
    """How the second shape differs from the first; empty if it does not.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> difference_in_words(parse_shape("f32[20,64]"), parse_shape("f32[64,20]"))
    'sizes of dimensions 0 and 1 are swapped'
    >>> difference_in_words(parse_shape("f32[2,3,5]"), parse_shape("f16[3,5,2]"))
    'type is f16, not f32; sizes are in the order of dimensions 1, 2, 0'
    """
    if isinstance(expected, TupleShape) != isinstance(found, TupleShape):
        return f"a tuple, not {_kind(expected)}" if isinstance(found, TupleShape) else f"{_kind(found)}, not a tuple"
    if not isinstance(expected, ArrayShape) or not isinstance(found, ArrayShape):
        return "" if str(expected) == str(found) else f"{_kind(found)}, not {_kind(expected)}"
    parts = [_type(expected, found), _sizes(expected, found), _dynamic(expected, found)]
    words = "; ".join(part for part in parts if part)
    if not words and expected.layout != found.layout:
        return f"layout is {found.layout}, not {expected.layout}"
    return words


def _kind(shape: Shape) -> str:
    return "an array" if isinstance(shape, ArrayShape) else "a tuple" if isinstance(shape, TupleShape) else str(shape)


def _type(expected: ArrayShape, found: ArrayShape) -> str:
    wanted, actual = expected.element_type.name, found.element_type.name
    return f"type is {actual}, not {wanted}" if wanted != actual else ""


def _sizes(expected: ArrayShape, found: ArrayShape) -> str:
    wanted, actual = expected.sizes, found.sizes
    if wanted == actual:
        return ""
    if not wanted:
        return f"an array of {found.elements:,} {'element' if found.elements == 1 else 'elements'}, not a scalar"
    if not actual:
        return "a scalar, not an array"
    if len(wanted) != len(actual):
        same = ", with as many elements" if expected.elements == found.elements else ""
        return f"{len(actual)} {'dimension' if len(actual) == 1 else 'dimensions'}, not {len(wanted)}{same}"
    different = [at for at in range(len(wanted)) if wanted[at] != actual[at]]
    # Equal sizes in another order are a transpose that was forgotten, which deserves its own words.
    if sorted(wanted) != sorted(actual):
        return ", ".join(f"dimension {at} is {actual[at]:,}, not {wanted[at]:,}" for at in different)
    if len(different) == 2:
        return f"sizes of dimensions {different[0]} and {different[1]} are swapped"
    if len(set(wanted)) == len(wanted):
        return f"sizes are in the order of dimensions {', '.join(str(wanted.index(size)) for size in actual)}"
    return f"sizes {index_text(actual, '[]')} are in another order than {index_text(wanted, '[]')}"


def _dynamic(expected: ArrayShape, found: ArrayShape) -> str:
    if len(expected.dimensions) != len(found.dimensions):
        return ""
    pairs = list(zip(expected.dynamic_dimensions, found.dynamic_dimensions, strict=True))
    added = [str(at) for at, (one, other) in enumerate(pairs) if other and not one]
    lost = [str(at) for at, (one, other) in enumerate(pairs) if one and not other]
    words = [f"dimension {', '.join(added)} is dynamic (<=)"] if added else []
    words += [f"dimension {', '.join(lost)} is not dynamic"] if lost else []
    return "; ".join(words)
