"""XLA's checks of an operation during parsing: operand counts, and consistency of attributes and shapes.

Mirrors `CreateInstruction` of xla/hlo/parser/hlo_parser.cc, and constructors of instructions that abort the process
for invalid text. It is not the verifier: XLA parses many modules that it would not compile.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Final

from hlo_cli.ir import opcodes
from hlo_cli.ir.comparison import compatible
from hlo_cli.ir.operations import CHANNEL_OPCODES, FIRST_DIMENSION, OPCODE_ARITY, having
from hlo_cli.ir.shape import ArrayShape, TupleShape
from hlo_cli.ir.shape_text import UNBOUNDED
from hlo_cli.syntax.scanning.suggestions import are, counted_operands
from hlo_cli.syntax.strict.op_context import OperationChecker, is_scalar, rank_of

NEEDS_SHAPE: Final = having("needs shape")
"""Opcodes whose result shape XLA does not infer."""
ARITY: Final = OPCODE_ARITY | {
    opcodes.CONVOLUTION: 2,
    opcodes.DOT: None,
    opcodes.RAGGED_ALL_TO_ALL: None,
    opcodes.ASYNC_DONE: 1,
}
"""The number of operands that XLA's parser requires; None if it is not fixed."""
_AT_LEAST: Final = {
    **dict.fromkeys(
        (
            opcodes.DYNAMIC_RESHAPE,
            opcodes.DYNAMIC_SLICE,
            opcodes.CONDITIONAL,
            opcodes.RNG_BIT_GENERATOR,
            opcodes.ASYNC_UPDATE,
        ),
        1,
    ),
    opcodes.DOT: 2,
    opcodes.DYNAMIC_UPDATE_SLICE: 2,
}
_ONE_DIMENSION: Final = "all-to-all ragged-all-to-all sort concatenate scan".split()


def check_operation(operation: OperationChecker, *, is_wrapped: bool = False) -> None:
    """Fails where XLA does; an operation wrapped by a sugared asynchronous one may have extra operands."""
    _check_counts(operation, is_wrapped=is_wrapped)
    _check_dimensions(operation)
    rule = _RULES.get(operation.opcode)
    if rule is not None and not (is_wrapped and rule is _tuple):
        rule(operation)


def _check_counts(operation: OperationChecker, *, is_wrapped: bool) -> None:
    opcode, count = operation.opcode, len(operation.operands)
    wanted = ARITY.get(opcode)
    if wanted is not None and (count < wanted or (count > wanted and not is_wrapped)):
        operation.fail(f"{opcode} takes {counted_operands(wanted)}, here {are(count)}")
    if count < (least := _AT_LEAST.get(opcode, 0)):
        operation.fail(f"{opcode} takes at least {counted_operands(least)}, here {are(count)}")


def _check_dimensions(operation: OperationChecker) -> None:
    dimensions = operation.ints("dimensions")
    if dimensions is None:
        return
    if operation.opcode in _ONE_DIMENSION and len(dimensions) != 1:
        operation.fail(f"{operation.opcode} takes exactly one dimension", "dimensions")
    if operation.opcode in FIRST_DIMENSION and not dimensions:
        operation.fail(f"{operation.opcode} needs a dimension", "dimensions")


def _tuple(operation: OperationChecker) -> None:
    if operation.shape is None:
        return
    if not isinstance(operation.shape, TupleShape):
        operation.fail(f"the shape of a tuple cannot be {operation.shape}")
    elif len(operation.shape.elements) != len(operation.operands):
        count = len(operation.shape.elements)
        operation.fail(f"the shape has {count} elements, there are {len(operation.operands)} operands")


def _non_empty_tuple(operation: OperationChecker) -> None:
    if not isinstance(operation.shape, TupleShape) or not operation.shape.elements:
        operation.fail(f"the shape of {operation.opcode} is a tuple with its data first")


def _recv_done(operation: OperationChecker) -> None:
    shape = operation.operand_shape(0)
    if shape is not None and not (isinstance(shape, TupleShape) and shape.elements):
        operation.fail("the operand is no tuple")
    _same_channel(operation)


def _same_channel(operation: OperationChecker) -> None:
    start = operation.operands[0] if operation.operands else None
    if start is None or start.opcode not in CHANNEL_OPCODES:
        return
    if start.channel_id != operation.integer("channel_id"):
        operation.fail(f"channel_id differs from that of the {start.opcode}", "channel_id")


def _scalar_u32(operation: OperationChecker) -> None:
    if operation.shape is not None and not is_scalar(operation.shape, "u32"):
        operation.fail(f"{operation.opcode} gives u32[]")


def _same_elements(operation: OperationChecker) -> None:
    shape, operand = operation.shape, operation.operand_shape(0)
    if shape is None or operand is None:
        return
    if not isinstance(shape, ArrayShape) or not isinstance(operand, ArrayShape):
        operation.fail(f"{operation.opcode} goes from array to array")
    elif UNBOUNDED not in operand.dimensions and prod(shape.dimensions) != prod(operand.dimensions):
        operation.fail(
            f"{shape.to_string(layout=False)} has another number of elements than {operand.to_string(layout=False)}"
        )


def _global_device_ids(operation: OperationChecker) -> None:
    if operation.attributes.get("use_global_device_ids") is True and not {"channel_id", "mode"} & set(
        operation.attributes
    ):
        operation.fail("use_global_device_ids goes with a channel_id", "use_global_device_ids")


def _permute(operation: OperationChecker) -> None:
    if any(len(pair) != 2 for pair in operation.lists("source_target_pairs") or ()):
        operation.fail("expected pairs of source and target", "source_target_pairs")
    if "slice_sizes" in operation.attributes and len(operation.operands) != 4:
        operation.fail(f"with slice_sizes there are four operands, here are {len(operation.operands)}", "slice_sizes")


def _even(operation: OperationChecker) -> None:
    if len(operation.operands) % 2:
        operation.fail(
            f"{operation.opcode} takes as many arrays as initial values, here are {len(operation.operands)} operands"
        )


def _odd(operation: OperationChecker) -> None:
    if len(operation.operands) % 2 == 0:
        count = len(operation.operands)
        operation.fail(f"scatter takes arrays, indices and as many updates as arrays, here are {count} operands")


def _dynamic_indices(operation: OperationChecker) -> None:
    """Checks for one scalar for each dimension, or all of them in one array of rank 1."""
    before = 1 if operation.opcode == opcodes.DYNAMIC_SLICE else 2
    count = len(operation.operands) - before
    rank, first = rank_of(operation.operand_shape(0)), rank_of(operation.operand_shape(before))
    if rank is None or (count == 1 and first in (1, None)) or count == rank:
        return
    operation.fail(f"the operand has {rank} dimensions, here are {count} start indices")


def _conditional(operation: OperationChecker) -> None:
    shape, branches = operation.operand_shape(0), operation.attributes.get("branch_computations")
    if shape is None:
        return
    if not is_scalar(shape, "pred", "s32"):
        operation.fail(f"the first operand is a scalar of pred or s32, not {shape}")
    chosen_by_pred = is_scalar(shape, "pred")
    wanted = ("true_computation", "false_computation") if chosen_by_pred else ("branch_computations",)
    for name in ("true_computation", "false_computation", "branch_computations"):
        if (name in wanted) != (name in operation.attributes):
            missing = "is missing" if name in wanted else "does not go"
            operation.fail(f"{name} {missing} with a first operand of {shape}", name)
    count = 2 if chosen_by_pred else len(branches) if isinstance(branches, tuple) else 0
    if count == 0 or len(operation.operands) != count + 1:
        operation.fail(f"{count} branches take {count + 1} operands, here are {len(operation.operands)}")


def _broadcast(operation: OperationChecker) -> None:
    shape = operation.operand_shape(0)
    if "dimensions" not in operation.attributes and shape is not None and not is_scalar(shape):
        operation.fail("dimensions is missing; only a scalar is broadcast without it")


def _scan(operation: OperationChecker) -> None:
    body, carries, count = operation.body("to_apply"), operation.integer("num_carries"), len(operation.operands)
    if body is not None and body.name and len(body.parameters) != count:
        operation.fail(f"to_apply takes {len(body.parameters)} parameters, here are {count} operands", "to_apply")
    if carries is not None and count < carries:
        operation.fail(f"{carries} carries take as many operands, here are {count}", "num_carries")


def _custom_call(operation: OperationChecker) -> None:
    listed = operation.attributes.get("operand_layout_constraints")
    if not isinstance(listed, tuple):
        return
    name, count = "operand_layout_constraints", len(operation.operands)
    if len(listed) != count:
        operation.fail(f"there are {count} operands, here are {len(listed)} layouts", name)
    for position, shape in enumerate(listed):
        given = operation.operand_shape(position)
        if given is not None and isinstance(shape, ArrayShape | TupleShape) and not compatible(shape, given):
            operation.fail(f"{shape} does not fit operand {position}, {given}", name)


def _async_start(operation: OperationChecker) -> None:
    shape = operation.shape
    if not isinstance(shape, TupleShape) or len(shape.elements) < 2 or not isinstance(shape.elements[0], TupleShape):
        operation.fail("the shape is ((operands…), result, …)")


def _async_rest(operation: OperationChecker) -> None:
    producer = operation.operands[0]
    if not producer.opcode:
        return
    if producer.opcode not in (opcodes.ASYNC_START, opcodes.ASYNC_UPDATE):
        operation.fail(f"the operand is an async-start or async-update, not {producer.opcode}")
    alone = operation.opcode == opcodes.ASYNC_UPDATE and len(operation.operands) == 1
    if alone and producer.shape is not None and operation.shape != producer.shape:
        operation.fail(f"the shape is that of the operand, {producer.shape}")
    thread = operation.attributes.get("async_execution_thread")
    if isinstance(thread, str) and thread != producer.thread:
        operation.fail(f"the thread is that of the async-start, {producer.thread}", "async_execution_thread")
    called = operation.body("calls")
    if called is not None and producer.calls and called.name != producer.calls:
        operation.fail(f"the computation is that of the async-start, {producer.calls}", "calls")


_RULES: Final[dict[str, Callable[[OperationChecker], None]]] = {
    "all-reduce": _global_device_ids,
    "all-reduce-start": _global_device_ids,
    "async-done": _async_rest,
    "async-start": _async_start,
    "async-update": _async_rest,
    "broadcast": _broadcast,
    "collective-permute": _permute,
    "collective-permute-start": _permute,
    "conditional": _conditional,
    "custom-call": _custom_call,
    "dynamic-reshape": _same_elements,
    "dynamic-slice": _dynamic_indices,
    "dynamic-update-slice": _dynamic_indices,
    "infeed": _non_empty_tuple,
    "partition-id": _scalar_u32,
    "recv": _non_empty_tuple,
    "recv-done": _recv_done,
    "reduce": _even,
    "reduce-scatter": _global_device_ids,
    "reduce-window": _even,
    "replica-id": _scalar_u32,
    "reshape": _same_elements,
    "scan": _scan,
    "scatter": _odd,
    "send-done": _same_channel,
    "tuple": _tuple,
}
