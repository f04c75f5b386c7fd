"""Which shape has what crosses a boundary: calls, loops, async operations, transfers, and collectives?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hlo_cli.analysis.shapes.operands import (
    PRED,
    S32,
    TOKEN,
    U32_SCALAR,
    array,
    array_of,
    arrays,
    callee,
    declared,
    declared_tuple,
    described,
    fail,
    need_at_least,
    need_scalar,
    one_or_tuple,
    only_dimension,
    operand_shapes,
    parameters_of,
    sizes_of,
)
from hlo_cli.analysis.shapes.replica_groups import lists_groups
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.shape import (
    UNBOUNDED,
    ArrayShape,
    BufferShape,
    OpaqueShape,
    Shape,
    TokenShape,
    TupleShape,
    UnknownShape,
    compatible,
)
from hlo_cli.source import counted

# --- calls, control flow, and tuples ---
# Shape inference for calls, control flow, and tuples.
#
# Mirrors `InferCallShape`, `InferWhileShape`, `InferConditionalShape`, and `InferGetTupleElementShape` of
# xla/service/shape_inference.cc, and `HandleFusion` of xla/service/hlo_verifier.cc.


def tuple_of(instruction: Instruction) -> TupleShape:
    """Returns the tuple of the operands."""
    return TupleShape(operand_shapes(instruction))


def get_tuple_element(instruction: Instruction) -> Shape:
    """Returns the element `index` of the operand tuple.

    >>> from hlo_cli import parse_module
    >>> text = "r = s32[] get-tuple-element((f32[2], s32[]) t), index=1"
    >>> print(get_tuple_element(parse_module(text).entry.root))
    s32[]
    """
    shape, index = instruction.operand_shape(0), instruction.integer("index")
    if not isinstance(shape, TupleShape):
        fail(instruction, f"expected a tuple; {described(instruction, 0)}")
    if index is None or not 0 <= index < len(shape.elements):
        fail(instruction, f"expected an index below {len(shape.elements)}, found {index}; {described(instruction, 0)}")
    return shape.elements[index]


def same_as_operand(instruction: Instruction) -> Shape:
    """Returns the shape of operand 0, of any kind: copy, domain, opt-barrier, all-reduce-done."""
    return instruction.operand_shape(0)


def as_declared(instruction: Instruction) -> Shape:
    """Returns the declared shape, which cannot be inferred: parameter, constant, custom-call."""
    return declared(instruction)


def fusion(instruction: Instruction) -> Shape:
    """Returns the result of the fused computation; its parameters must match the operands."""
    computation, result = callee(instruction)
    # `HandleFusion` compares parameter by parameter, so that operands without one pass; a call must match exactly.
    if len(computation.parameters) > len(instruction.operands):
        found = f"{len(computation.parameters)} of {computation.name}, {counted(len(instruction.operands), 'operands')}"
        fail(instruction, f"expected at most as many parameters as operands, found {found}")
    _check_arguments(instruction, computation)
    return result


def call(instruction: Instruction) -> Shape:
    """Returns the result of the called computation; its parameters must match the operands."""
    computation, result = callee(instruction)
    parameters_of(instruction, computation, len(instruction.operands))
    _check_arguments(instruction, computation)
    return result


def while_loop(instruction: Instruction) -> Shape:
    """Returns the shape of the operand; it must match the parameters and the body's result."""
    body, result = callee(instruction, 0)
    condition, decision = callee(instruction, 1)
    for computation in (body, condition):
        parameters_of(instruction, computation, 1)
        _check_arguments(instruction, computation)
    if not compatible(decision, array_of(PRED, ())):
        fail(instruction, f"expected pred[] as the result of {condition.name}, found {sizes_of(decision)}")
    if not compatible(result, instruction.operand_shape(0)):
        found = sizes_of(result)
        fail(instruction, f"expected the result of {body.name} to have the operand's shape, found {found}")
    return instruction.operand_shape(0)


def conditional(instruction: Instruction) -> Shape:
    """Returns the common result of all branches; operand 0 selects one, operand n + 1 is the argument of branch n."""
    need_at_least(instruction, 1)
    chooser, branches = need_scalar(instruction, 0), instruction.called_computations
    # pred has exactly two branches, true first; s32 counts from 0, and out of range means the last.
    if chooser.element_type not in (PRED, S32):
        fail(instruction, f"expected a pred[] or s32[] branch index; {described(instruction, 0)}")
    if not branches or (chooser.element_type is PRED and len(branches) != 2):
        fail(
            instruction,
            f"expected {'2' if chooser.element_type is PRED else '1 or more'} branches, found {len(branches)}",
        )
    if len(instruction.operands) != len(branches) + 1:
        count = len(instruction.operands) - 1
        fail(instruction, f"expected {counted(len(branches), 'operands')}, one per branch, found {count}")
    results = [callee(instruction, position)[1] for position in range(len(branches))]
    for position, branch in enumerate(branches):
        parameters_of(instruction, branch, 1)
        _check_arguments(instruction, branch, position + 1)
        if not compatible(results[position], results[0]):
            found = f"{sizes_of(results[position])} of {branch.name}"
            fail(
                instruction, f"expected all branches to return the same shape, found {sizes_of(results[0])} and {found}"
            )
    return results[0]


def _check_arguments(instruction: Instruction, computation: Computation, first: int = 0) -> None:
    """Checks that the operands from `first` on match the parameters of a computation."""
    for position, parameter in enumerate(computation.parameters, first):
        if not compatible(parameter.shape, instruction.operand_shape(position)):
            found = f"parameter %{parameter.name} of {computation.name} is {sizes_of(parameter.shape)}"
            fail(instruction, f"expected the operand's shape; {found}, {described(instruction, position)}")


# --- async operations ---
# Shape inference for async operations, generic and sugared (such as slice-start).
#
# Mirrors `HloAsyncInstruction` of xla/hlo/ir/hlo_instructions.cc and `CheckAsyncOpComputationShapes` of
# xla/service/hlo_verifier.cc.


STARTED_LATE: Final = frozenset((opcodes.CALL, opcodes.CUSTOM_CALL, opcodes.FUSION))
"""Opcodes that may start before all their operands are known; the called computation defines their number."""


def is_prefix(shape: Shape, whole: Shape) -> bool:
    """Returns whether a shape equals `whole` as far as it is bound; `()` is unbound.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> is_prefix(parse_shape("(f32[2], ())"), parse_shape("(f32[2], f32[3], s32[])"))
    True
    """
    if isinstance(shape, TupleShape) and isinstance(whole, TupleShape):
        return len(shape.elements) <= len(whole.elements) and all(map(is_prefix, shape.elements, whole.elements))
    # `()` stands for what a later update binds, as a tuple without elements has no array.
    return shape == TupleShape(()) or compatible(shape, whole)


def async_start(instruction: Instruction) -> Shape:
    """Returns the operands, the bound part of the computation's result, and the declared contexts."""
    elements = _elements(instruction)
    computation, result = callee(instruction)
    arguments = TupleShape(operand_shapes(instruction))
    if not compatible(arguments, elements[0]):
        found = f"expected the operands as element 0 of the result, found {sizes_of(elements[0])}"
        fail(instruction, f"{found}; {described(instruction, *range(len(instruction.operands)))}")
    parameters = TupleShape(tuple([parameter.shape for parameter in computation.parameters]))
    if not is_prefix(arguments, parameters):
        fail(
            instruction,
            f"expected operands matching the parameters of {computation.name}, found {sizes_of(arguments)}",
        )
    _check_result(instruction, elements[1], result)
    return TupleShape((arguments, elements[1], *elements[2:]))


def async_update(instruction: Instruction) -> Shape:
    """Returns the declared shape, which must extend what operand 0 has bound."""
    elements, before = _elements(instruction), _before(instruction)
    for position in range(2):
        if not is_prefix(before[position], elements[position]):
            found = sizes_of(elements[position])
            fail(
                instruction,
                f"expected element {position} to extend that of operand 0, found {found}; {described(instruction, 0)}",
            )
    bound = before[0].elements if isinstance(before[0], TupleShape) else ()
    added = elements[0].elements[len(bound) :] if isinstance(elements[0], TupleShape) else ()
    further = tuple(map(sizes_of, operand_shapes(instruction)[1:]))
    # The update that binds the output may bring the memory for it along.
    buffers = output_buffers(before[1], elements[1])
    if further not in (tuple(map(sizes_of, added)), tuple(map(sizes_of, (*added, *buffers)))):
        found = sizes_of(elements[0])
        fail(instruction, f"expected additional operands after {described(instruction, 0)}, found {found}")
    return instruction.shape


def output_buffers(before: Shape, output: Shape) -> tuple[Shape, ...]:
    """Returns the buffers that an update may take as further operands, if it binds the output.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> print(*output_buffers(parse_shape("()"), parse_shape("(f32[2])")))
    f32[2]{0}
    """
    if before != TupleShape(()):
        return ()
    return output.elements if isinstance(output, TupleShape) else (output,)


def async_done(instruction: Instruction) -> Shape:
    """Returns the root shape of the wrapped computation if the start has one, else the output of operand 0."""
    before = _before(instruction)
    started = _start_of(instruction)
    if started is not None and started.called_computations:
        root = started.called_computations[0].root
        if root is not None:
            return root.shape
    return before[1]


def start_of(instruction: Instruction, wrapped: str, infer: Callable[[Instruction], Shape]) -> Shape:
    """Returns the operands, the inferred result of the wrapped operation, and the declared contexts.

    `instruction` is a sugared start such as slice-start, `wrapped` the opcode of its operation, `infer` the rule for
    it.
    """
    elements = _elements(instruction)
    arguments = TupleShape(operand_shapes(instruction))
    if not is_prefix(arguments, elements[0]):
        found = f"expected the operands as element 0 of the result, found {sizes_of(elements[0])}"
        fail(instruction, f"{found}; {described(instruction, *range(len(instruction.operands)))}")
    if elements[1] == TupleShape(()) or (wrapped in STARTED_LATE and not _is_bound(instruction)):
        return TupleShape((arguments, *elements[1:]))
    inner = Instruction(
        instruction.name,
        elements[1],
        wrapped,
        instruction.operands,
        instruction.computation,
        instruction.index,
        instruction.text,
    )
    inner.called_computations = instruction.called_computations
    return TupleShape((arguments, infer(inner), *elements[2:]))


def _elements(instruction: Instruction) -> tuple[Shape, ...]:
    """Returns the elements of the declared shape of a start or update."""
    elements = declared_tuple(instruction, 2)
    if not isinstance(elements[0], TupleShape):
        found = sizes_of(elements[0])
        fail(instruction, f"expected a tuple of the operands as element 0 of the result, found {found}")
    return elements


def _before(instruction: Instruction) -> tuple[Shape, ...]:
    """Returns the elements of operand 0, which must be a start or an update."""
    need_at_least(instruction, 1)
    shape = instruction.operand_shape(0)
    if not isinstance(shape, TupleShape) or len(shape.elements) < 2 or not isinstance(shape.elements[0], TupleShape):
        fail(instruction, f"expected the result of an async start; {described(instruction, 0)}")
    return shape.elements


def _check_result(instruction: Instruction, shape: Shape, result: Shape) -> None:
    """Checks that the declared output is a prefix of the computation's result."""
    if not is_prefix(shape, result):
        found = f"{sizes_of(shape)}, the computation returns {sizes_of(result)}"
        fail(instruction, f"expected the computation's result as element 1, found {found}")


def _start_of(instruction: Instruction) -> Instruction | None:
    """Returns the async-start of an update or done, None if other instructions are in between."""
    at = instruction
    # Through operand 0 alone; the text may pass a start through a loop, where its computation is not needed.
    while at.operands and at.opcode.endswith(("-update", "-done")):
        at = at.operands[0]
    return at if at.opcode == opcodes.ASYNC_START else None


def _is_bound(instruction: Instruction) -> bool:
    """Returns whether the start of a computation has all of its operands."""
    called = instruction.called_computations
    return bool(called) and len(called[0].parameters) == len(instruction.operands)


# --- transfers and tokens ---
# Shape inference for transfers between memories and devices, and for tokens.
#
# Mirrors the constructors of copies, infeed, outfeed, send, and recv in xla/hlo/ir/hlo_instructions.cc and their checks
# in xla/service/hlo_verifier.cc.


def copy_start(instruction: Instruction) -> TupleShape:
    """Returns destination, source, and context.

    >>> from hlo_cli import parse_module
    >>> text = "r = (f32[2]{0:S(1)}, f32[2]{0}, u32[]) copy-start(f32[2]{0} a)"
    >>> print(copy_start(parse_module(text).entry.root))
    (f32[2]{0}, f32[2]{0}, u32[])
    """
    shape = instruction.operand_shape(0)
    # Destination and source differ in layout, of which the copy's own text tells.
    return TupleShape((shape, shape, U32_SCALAR))


def copy_done(instruction: Instruction) -> Shape:
    """Returns the destination: element 0 of copy-start. It differs from element 1 only in layout."""
    shape = instruction.operand_shape(0)
    # hlo_verifier.cc compares the two halves in the done, not in the start, so the message is here.
    if not isinstance(shape, TupleShape) or len(shape.elements) != 3:
        fail(instruction, f"expected the result of copy-start; {described(instruction, 0)}")
    if not compatible(shape.elements[0], shape.elements[1]):
        fail(instruction, f"expected a copy of the same shape; {described(instruction, 0)}")
    return shape.elements[0]


def token(instruction: Instruction) -> TokenShape:
    """Returns a token, for any operands: after-all, send-done."""
    return TOKEN


def add_dependency(instruction: Instruction) -> Shape:
    """Returns operand 0, which depends on the token in operand 1."""
    _need_token(instruction, 1)
    return instruction.operand_shape(0)


def infeed(instruction: Instruction) -> TupleShape:
    """Returns the declared data and a token."""
    _need_token(instruction, 0)
    return TupleShape((declared_tuple(instruction, 1)[0], TOKEN))


def outfeed(instruction: Instruction) -> TokenShape:
    """Returns a token; `outfeed_shape` must match the operand."""
    _need_token(instruction, 1)
    sent = instruction.value("outfeed_shape")
    shape = instruction.operand_shape(0)
    kinds = (ArrayShape, BufferShape, OpaqueShape, TokenShape, TupleShape)
    # Layouts may differ: `outfeed_shape` is that of the host.
    if isinstance(sent, kinds) and not compatible(sent, shape):
        fail(instruction, f"expected the operand's shape as outfeed_shape, found {sent}; {described(instruction, 0)}")
    return TOKEN


def send(instruction: Instruction) -> TupleShape:
    """Returns operand, context, and token; XLA does not check that operand 1 is a token."""
    need_at_least(instruction, 2)
    return TupleShape((instruction.operand_shape(0), U32_SCALAR, TOKEN))


def recv(instruction: Instruction) -> TupleShape:
    """Returns the declared data, a context, and a token; XLA does not check that operand 0 is a token."""
    need_at_least(instruction, 1)
    return TupleShape((declared_tuple(instruction, 1)[0], U32_SCALAR, TOKEN))


def recv_done(instruction: Instruction) -> TupleShape:
    """Returns the received data and a token."""
    shape = instruction.operand_shape(0)
    if not isinstance(shape, TupleShape) or not shape.elements:
        fail(instruction, f"expected the result of recv; {described(instruction, 0)}")
    return TupleShape((shape.elements[0], TOKEN))


def _need_token(instruction: Instruction, position: int) -> None:
    """Checks that an operand is a token."""
    need_at_least(instruction, position + 1)
    if instruction.operand_shape(position) != TOKEN:
        fail(instruction, f"expected a token as operand {position}; {described(instruction, position)}")


# --- collectives ---
# Shape inference for collectives; some results depend on the group size.
#
# Mirrors `InferAllGatherShape`, `InferReduceScatterShape`, `InferAllToAllShape`, and similar functions of
# xla/service/shape_inference.cc, with the checks of xla/service/hlo_verifier.cc. `group` is the number of devices in a
# group, None if unknown.


def all_gather(instruction: Instruction, group: int | None) -> Shape:
    """Returns the operands with one dimension multiplied by the group size.

    >>> from hlo_cli import parse_module
    >>> text = "r = f32[8] all-gather(f32[2] a), dimensions={0}, replica_groups={{0,1,2,3}}"
    >>> print(all_gather(parse_module(text).entry.root, 4))
    f32[8]{0}
    """
    return _gather(instruction, instruction.shape, group)


def all_gather_start(instruction: Instruction, group: int | None) -> Shape:
    """Returns the operands and the gathered result."""
    shape = declared_tuple(instruction, 2)[1]
    return TupleShape((one_or_tuple(operand_shapes(instruction)), _gather(instruction, shape, group)))


def reduce_scatter(instruction: Instruction, group: int | None) -> Shape:
    """Returns the operands with one dimension divided by the group size."""
    need_at_least(instruction, 1)
    shapes = arrays(instruction)
    along = only_dimension(instruction, shapes[0].rank)
    size, result = shapes[0].dimensions[along], _first_array(instruction.shape)
    if result is not None and result.rank == shapes[0].rank and result.dimensions[along] > 0:
        # The declared shape says how many parts there are, where the module's device count may be a default.
        parts, rest = divmod(size, result.dimensions[along])
        if rest and UNBOUNDED not in (size, result.dimensions[along]):
            written = f"{size} is not divisible by {result.dimensions[along]}"
            fail(instruction, f"{written} in dimension {along}; {described(instruction, 0)}")
        _check_parts(instruction, parts, group, (size, result.dimensions[along]))
    else:
        parts = _need_group_size(instruction, group)
    return one_or_tuple([_divide(instruction, position, along, parts) for position in range(len(shapes))])


def all_to_all(instruction: Instruction, group: int | None) -> Shape:
    """Returns the operand, split and concatenated along one dimension, or a tuple of one array per device."""
    need_at_least(instruction, 1)
    shapes = arrays(instruction)
    if instruction.integers("dimensions"):
        along = only_dimension(instruction, shapes[0].rank)
        if len(shapes) > 1:
            fail(instruction, f"expected one operand with dimensions, found {len(shapes)}")
        size = shapes[0].dimensions[along]
        # An unknown group size is no reason to reject a text.
        if group and size != UNBOUNDED and size % group:
            fail(instruction, f"dimension {along} is not divisible by {group}; {described(instruction, 0)}")
        return shapes[0]
    # replica_count and num_partitions default to 1, so a group of one device may just be unknown
    if group is not None and len(shapes) != group and (group > 1 or lists_groups(instruction)):
        fail(instruction, f"expected {counted(group, 'operands')}, one per device, found {len(shapes)}")
    for position, shape in enumerate(shapes):
        # `InferAllToAllTupleShape` compares the dimension order, too.
        same_layout = shape.layout.minor_to_major == shapes[0].layout.minor_to_major
        if not compatible(shape, shapes[0]) or not same_layout:
            names = described(instruction, 0, position)
            fail(instruction, f"expected operands of the same shape and layout; {names}")
    return TupleShape(tuple(shapes))


def each_operand(instruction: Instruction) -> Shape:
    """Returns the operand, or the tuple of all operands: all-reduce and all-reduce-start."""
    need_at_least(instruction, 1)
    return one_or_tuple(arrays(instruction))


def collective_broadcast(instruction: Instruction) -> Shape:
    """Returns operand 0; with a dynamic root as the last operand, all other operands."""
    shapes = operand_shapes(instruction)
    if not instruction.flag("has_dynamic_root"):
        need_at_least(instruction, 1)
        return shapes[0]
    need_at_least(instruction, 2)
    root = array(instruction, len(shapes) - 1)
    if root.element_type is not S32 or root.rank != 1:
        fail(instruction, f"expected s32[n] as the last operand; {described(instruction, len(shapes) - 1)}")
    return one_or_tuple(shapes[:-1])


def collective_permute(instruction: Instruction) -> Shape:
    """Returns the operands; with slices, operand 1, which is written in place."""
    need_at_least(instruction, 1)
    if not instruction.integer_lists("slice_sizes"):
        return one_or_tuple(arrays(instruction))
    return _input_and_output(instruction)[1]


def collective_permute_start(instruction: Instruction) -> TupleShape:
    """Returns the operands, the results, and the declared contexts."""
    contexts = declared_tuple(instruction, 2)[2:]
    if instruction.integer_lists("slice_sizes"):
        return TupleShape((*_input_and_output(instruction), *contexts))
    need_at_least(instruction, 1)
    shape = one_or_tuple(arrays(instruction))
    return TupleShape((shape, shape, *contexts))


def second_of_operand(instruction: Instruction) -> Shape:
    """Returns the result of a start: element 1 of operand 0."""
    shape = instruction.operand_shape(0)
    if not isinstance(shape, TupleShape) or len(shape.elements) < 2:
        start = f"{instruction.written_opcode.removesuffix('done')}start"
        fail(instruction, f"expected the result of {start}; {described(instruction, 0)}")
    return shape.elements[1]


def ragged_all_to_all(instruction: Instruction) -> ArrayShape:
    """Returns operand 1, which is written in place; operands 2 to 5 are offsets and sizes."""
    result, rows = array(instruction, 1), array(instruction, 2)
    # Input offsets, send sizes, output offsets, receive sizes: one number or row for each part.
    for position in range(2, 6):
        shape = array(instruction, position)
        if shape.rank not in (1, 2):
            fail(instruction, f"expected rank 1 or 2 of operand {position}; {described(instruction, position)}")
        if not compatible(shape, rows):
            fail(instruction, f"expected operands 2 to 5 of the same shape; {described(instruction, 2, position)}")
    return result


def _gather(instruction: Instruction, written: Shape, group: int | None) -> Shape:
    """Returns the gathered operands; the factor follows from the declared shape, or from the group size."""
    need_at_least(instruction, 1)
    shapes = arrays(instruction)
    along = only_dimension(instruction, shapes[0].rank)
    size, result = shapes[0].dimensions[along], _first_array(written)
    if result is not None and result.rank == shapes[0].rank and size > 0 and result.dimensions[along] > 0:
        # Rounded up, so that a result that is no multiple fails by its size, which says more.
        parts = -(-result.dimensions[along] // size)
        _check_parts(instruction, parts, group, (size, result.dimensions[along]))
    else:
        parts = 1 if UNBOUNDED in shapes[0].dimensions else _need_group_size(instruction, group)
    return one_or_tuple([_multiply(instruction, position, along, parts) for position in range(len(shapes))])


def _first_array(shape: Shape) -> ArrayShape | None:
    """Returns the array, or the first array of a tuple, None if there is none."""
    first = shape.elements[0] if isinstance(shape, TupleShape) and shape.elements else shape
    return first if isinstance(first, ArrayShape) else None


def _check_parts(instruction: Instruction, parts: int, group: int | None, sizes: tuple[int, int]) -> None:
    """Checks that the factor equals the group size; a group size of 1 may be a default and is not checked."""
    # Texts without replica_count have 1, though they were compiled for more.
    if group not in (None, 1, parts) and UNBOUNDED not in sizes:
        fail(instruction, f"expected a factor of {group}, the group size, between {sizes[0]} and {sizes[1]}")


def _need_group_size(instruction: Instruction, group: int | None) -> int:
    """Returns the group size; fails if it is unknown."""
    if group is None or (group == 1 and not isinstance(instruction.shape, UnknownShape)):
        fail(instruction, "the number of devices is unknown, so the result shape must be given")
    return group


def _multiply(instruction: Instruction, position: int, along: int, factor: int) -> ArrayShape:
    """Returns an operand with one dimension multiplied."""
    shape = array(instruction, position)
    if along >= shape.rank:
        fail(instruction, f"expected a dimension {along}; {described(instruction, position)}")
    return _resize(shape, along, shape.dimensions[along] * factor)


def _divide(instruction: Instruction, position: int, along: int, parts: int) -> ArrayShape:
    """Returns an operand with one dimension divided."""
    shape = array(instruction, position)
    if along >= shape.rank or (shape.dimensions[along] != UNBOUNDED and shape.dimensions[along] % max(parts, 1)):
        fail(instruction, f"dimension {along} is not divisible by {parts}; {described(instruction, position)}")
    return _resize(shape, along, shape.dimensions[along] // max(parts, 1))


def _resize(shape: ArrayShape, along: int, size: int) -> ArrayShape:
    """Returns an array with a new size of one dimension; an unbounded size stays."""
    if shape.dimensions[along] == UNBOUNDED:
        return shape
    dimensions = (*shape.dimensions[:along], size, *shape.dimensions[along + 1 :])
    return ArrayShape(shape.element_type, dimensions, shape.dynamic_dimensions, shape.layout)


def _input_and_output(instruction: Instruction) -> tuple[Shape, Shape]:
    """Returns input and output of a collective-permute with slices; both offsets follow as operands."""
    shapes = operand_shapes(instruction)
    if len(shapes) != 4:
        fail(instruction, f"expected input, output, and offsets for both, found {counted(len(shapes), 'operands')}")
    lengths = [len(shape.elements) if isinstance(shape, TupleShape) else 0 for shape in shapes[:2]]
    if lengths[0] != lengths[1]:
        fail(instruction, f"expected two arrays or two tuples of the same length; {described(instruction, 0, 1)}")
    return shapes[0], shapes[1]
