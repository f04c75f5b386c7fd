"""Which operations XLA's parser rejects: operand counts, and attributes and shapes that contradict each other.

The strict reader stops at them; the lenient one notes them on demand. Mirrors xla/hlo/parser/hlo_parser.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import field
from math import prod
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.layout import PRIMITIVE_TYPES
from hlo_cli.ir.operations import CHANNEL_OPCODES, FIRST_DIMENSION, OPCODE_ARITY, having
from hlo_cli.ir.shape import UNBOUNDED, ArrayShape, Shape, TupleShape, compatible
from hlo_cli.source import Span, counted
from hlo_cli.syntax.attribute_table import Kind, own_attributes
from hlo_cli.syntax.scanning.tokens import Tokens

# --- what a check sees of an operation ---
# Instructions and computations during strict reading: enough to check their uses.
#
# Mirrors the state of `HloParserImpl` in xla/hlo/parser/hlo_parser.cc.


@dataclass(slots=True)
class KnownInstruction:
    """A defined instruction; its shape is None if the text omits it and it requires inference.

    `wrapped` is the opcode inside an asynchronous operation. An unreadable instruction has no opcode.
    """

    opcode: str = ""
    shape: Shape | None = None
    wrapped: str = ""
    thread: str = "main"
    calls: str = ""
    channel_id: int | None = None


@dataclass(slots=True)
class ParsedBody:
    """A defined computation: its instructions by name, its parameters by number, and its root.

    `failed` is true if some instruction was unreadable.
    """

    name: str = ""
    named: dict[str, KnownInstruction] = field(default_factory=dict)
    parameters: dict[int, Span] = field(default_factory=dict)
    root: KnownInstruction | None = None
    last: KnownInstruction | None = None
    failed: bool = False

    @property
    def result(self) -> KnownInstruction:
        """The instruction whose value the computation returns."""
        return self.root or self.last or KnownInstruction()


@dataclass(slots=True)
class OperationChecker:
    """One instruction as read, before its rules are checked."""

    tokens: Tokens
    opcode: str
    span: Span
    shape: Shape | None
    operands: list[KnownInstruction] = field(default_factory=list)
    attributes: dict[str, object] = field(default_factory=dict)
    spans: Mapping[str, Span] = field(default_factory=dict)

    def fail(self, message: str, attribute: str = "") -> None:
        """Raises an error at the opcode, or at an attribute."""
        span = self.spans.get(attribute, self.span)
        self.tokens.fail(message, span.start, span.end)

    def ints(self, attribute: str) -> tuple[int, ...] | None:
        """The numbers of an attribute that lists numbers, or None if it is absent."""
        value = self.attributes.get(attribute)
        return tuple(n for n in value if isinstance(n, int)) if isinstance(value, tuple) else None

    def lists(self, attribute: str) -> tuple[tuple[object, ...], ...] | None:
        """The lists of an attribute that lists lists, or None if it is absent."""
        value = self.attributes.get(attribute)
        return tuple(part for part in value if isinstance(part, tuple)) if isinstance(value, tuple) else None

    def integer(self, attribute: str) -> int | None:
        """The number of an attribute, or None if it is absent."""
        value = self.attributes.get(attribute)
        return value if isinstance(value, int) else None

    def body(self, attribute: str) -> ParsedBody | None:
        """The computation of an attribute, or None if it is absent."""
        value = self.attributes.get(attribute)
        return value if isinstance(value, ParsedBody) else None

    def operand_shape(self, position: int) -> Shape | None:
        """The shape of an operand, or None if there is no such operand or its shape is unknown."""
        return self.operands[position].shape if position < len(self.operands) else None


def _rank_of(shape: Shape | None) -> int | None:
    """The number of dimensions, 0 if not an array, None if unknown."""
    if shape is None:
        return None
    return shape.rank if isinstance(shape, ArrayShape) else 0


def _is_scalar(shape: Shape, *types: str) -> bool:
    """Whether the shape is a scalar, of one of these types if any are given."""
    if not isinstance(shape, ArrayShape) or shape.rank:
        return False
    return not types or shape.element_type in [PRIMITIVE_TYPES[name] for name in types]


# --- the checks ---
# XLA's checks of an operation during parsing: operand counts, and consistency of attributes and shapes.
#
# Mirrors `CreateInstruction` of xla/hlo/parser/hlo_parser.cc, and constructors of instructions that abort the process
# for invalid text. It is not the verifier: XLA parses many modules that it would not compile.


NEEDS_SHAPE: Final = having("needs shape")
"""Opcodes whose result shape XLA does not infer."""
_ARITY: Final = OPCODE_ARITY | {  # where the parser's count is not the usual one of the operation
    opcodes.CONVOLUTION: 2,
    opcodes.DOT: None,
    opcodes.RAGGED_ALL_TO_ALL: None,
    opcodes.ASYNC_DONE: 1,
}
_NAMING_OPERANDS: Final = frozenset((Kind.BLOCK_SCALING, Kind.SPARSITY))
"""Attributes with the positions of operands after the usual ones, which the parser of jaxlib 0.12 does not count."""
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
    opcodes.CONVOLUTION: 2,
    opcodes.DOT: 2,
    opcodes.DYNAMIC_UPDATE_SLICE: 2,
}
# `dimensions={…}` of these has the grammar of a list, and the constructor takes the first
_ONE_DIMENSION: Final = "all-to-all ragged-all-to-all sort concatenate scan".split()


def check_operation(operation: OperationChecker, *, is_wrapped: bool = False) -> None:
    """Fails where XLA does; an operation wrapped by a sugared asynchronous one may have extra operands."""
    _check_counts(operation, is_wrapped=is_wrapped)
    _check_dimensions(operation)
    rule = _RULES.get(operation.opcode)
    if rule is not None and not (is_wrapped and rule is _tuple):
        rule(operation)


def operand_count(opcode: str, attributes: Container[str] = ()) -> int | None:
    """The number of operands that XLA's parser requires; None if it is not fixed.

    >>> operand_count("convolution"), operand_count("convolution", ("block_scaling_config",))
    (2, None)
    """
    if opcode == opcodes.CONVOLUTION:
        rows = own_attributes(opcode)
        if any(row.kind in _NAMING_OPERANDS and row.name in attributes for row in rows):
            return None
    return _ARITY.get(opcode)


def _check_counts(operation: OperationChecker, *, is_wrapped: bool) -> None:
    opcode, count = operation.opcode, len(operation.operands)
    expected = operand_count(opcode, operation.attributes)
    if expected is not None and (count < expected or (count > expected and not is_wrapped)):
        operation.fail(f"{opcode} needs {counted(expected, 'operands')}, found {count}")
    if count < (least := _AT_LEAST.get(opcode, 0)):
        operation.fail(f"{opcode} needs at least {counted(least, 'operands')}, found {count}")


def _check_dimensions(operation: OperationChecker) -> None:
    dimensions = operation.ints("dimensions")
    if dimensions is None:
        return
    if operation.opcode in _ONE_DIMENSION and len(dimensions) != 1:
        operation.fail(f"{operation.opcode} needs exactly one dimension", "dimensions")
    if operation.opcode in FIRST_DIMENSION and not dimensions:
        operation.fail(f"{operation.opcode} needs a dimension", "dimensions")


def _tuple(operation: OperationChecker) -> None:
    if operation.shape is None:
        return
    if not isinstance(operation.shape, TupleShape):
        operation.fail(f"expected a tuple shape, found {operation.shape}")
    elif len(operation.shape.elements) != len(operation.operands):
        count = len(operation.shape.elements)
        operation.fail(f"expected {counted(count, 'operands')}, one per tuple element, found {len(operation.operands)}")


def _non_empty_tuple(operation: OperationChecker) -> None:
    if not isinstance(operation.shape, TupleShape) or not operation.shape.elements:
        operation.fail(f"{operation.opcode} must return a tuple that starts with the data")


def _recv_done(operation: OperationChecker) -> None:
    shape = operation.operand_shape(0)
    if shape is not None and not (isinstance(shape, TupleShape) and shape.elements):
        operation.fail("the operand must be a tuple")
    _same_channel(operation)


def _same_channel(operation: OperationChecker) -> None:
    start = operation.operands[0] if operation.operands else None
    if start is None or start.opcode not in CHANNEL_OPCODES:
        return
    if start.channel_id != operation.integer("channel_id"):
        operation.fail(f"channel_id differs from that of the {start.opcode}", "channel_id")


def _scalar_u32(operation: OperationChecker) -> None:
    if operation.shape is not None and not _is_scalar(operation.shape, "u32"):
        operation.fail(f"{operation.opcode} returns u32[]")


def _same_elements(operation: OperationChecker) -> None:
    shape, operand = operation.shape, operation.operand_shape(0)
    if shape is None or operand is None:
        return
    if not isinstance(shape, ArrayShape) or not isinstance(operand, ArrayShape):
        operation.fail(f"{operation.opcode} needs array operand and result")
    # an unbounded dimension may have any size
    elif UNBOUNDED not in operand.dimensions and prod(shape.dimensions) != prod(operand.dimensions):
        shapes = f"{shape.to_string(layout=False)} and {operand.to_string(layout=False)}"
        operation.fail(f"{shapes} have different numbers of elements")


def _global_device_ids(operation: OperationChecker) -> None:
    if operation.attributes.get("use_global_device_ids") is True and not {"channel_id", "mode"} & set(
        operation.attributes
    ):
        operation.fail("use_global_device_ids requires a channel_id", "use_global_device_ids")


def _permute(operation: OperationChecker) -> None:
    if any(len(pair) != 2 for pair in operation.lists("source_target_pairs") or ()):
        operation.fail("expected (source, target) pairs", "source_target_pairs")
    if "slice_sizes" in operation.attributes and len(operation.operands) != 4:
        operation.fail(f"slice_sizes requires 4 operands, found {len(operation.operands)}", "slice_sizes")


def _even(operation: OperationChecker) -> None:
    if len(operation.operands) % 2:
        operation.fail(
            f"{operation.opcode} needs one initial value per array, found {len(operation.operands)} operands"
        )


def _odd(operation: OperationChecker) -> None:
    if len(operation.operands) % 2 == 0:
        count = len(operation.operands)
        operation.fail(f"scatter needs arrays, indices, and one update per array, found {counted(count, 'operands')}")


def _dynamic_indices(operation: OperationChecker) -> None:
    """Checks for one scalar for each dimension, or all of them in one array of rank 1."""
    before = 1 if operation.opcode == opcodes.DYNAMIC_SLICE else 2
    count = len(operation.operands) - before
    rank, first = _rank_of(operation.operand_shape(0)), _rank_of(operation.operand_shape(before))
    if rank is None or (count == 1 and first in (1, None)) or count == rank:
        return
    operation.fail(f"{operation.opcode} needs one start index per dimension ({rank}), found {count}")


def _conditional(operation: OperationChecker) -> None:
    shape, branches = operation.operand_shape(0), operation.attributes.get("branch_computations")
    if shape is None:
        return
    if not _is_scalar(shape, "pred", "s32"):
        operation.fail(f"expected a pred[] or s32[] first operand, found {shape}")
    chosen_by_pred = _is_scalar(shape, "pred")
    expected = ("true_computation", "false_computation") if chosen_by_pred else ("branch_computations",)
    for name in ("true_computation", "false_computation", "branch_computations"):
        if (name in expected) != (name in operation.attributes):
            rule = "is required" if name in expected else "is not allowed"
            operation.fail(f"{name} {rule} for a first operand of shape {shape}", name)
    count = 2 if chosen_by_pred else len(branches) if isinstance(branches, tuple) else 0
    if count == 0 or len(operation.operands) != count + 1:
        operation.fail(f"{count} branches need {counted(count + 1, 'operands')}, found {len(operation.operands)}")


def _broadcast(operation: OperationChecker) -> None:
    shape = operation.operand_shape(0)
    if "dimensions" not in operation.attributes and shape is not None and not _is_scalar(shape):
        operation.fail("missing dimensions (optional only for scalars)")


def _scan(operation: OperationChecker) -> None:
    body, carries, count = operation.body("to_apply"), operation.integer("num_carries"), len(operation.operands)
    if body is not None and body.name and len(body.parameters) != count:
        operation.fail(
            f"expected {counted(len(body.parameters), 'operands')}, one per parameter of to_apply, found {count}",
            "to_apply",
        )
    if carries is not None and count < carries:
        operation.fail(
            f"{operation.opcode} needs at least one operand per carry ({carries}), found {count}", "num_carries"
        )


def _custom_call(operation: OperationChecker) -> None:
    listed = operation.attributes.get("operand_layout_constraints")
    if not isinstance(listed, tuple):
        return
    name, count = "operand_layout_constraints", len(operation.operands)
    if len(listed) != count:
        operation.fail(f"expected one layout per operand ({count}), found {len(listed)}", name)
    for position, shape in enumerate(listed):
        operand_shape = operation.operand_shape(position)
        if (
            operand_shape is not None
            and isinstance(shape, ArrayShape | TupleShape)
            and not compatible(shape, operand_shape)
        ):
            operation.fail(f"{shape} does not match operand {position} ({operand_shape})", name)


def _async_start(operation: OperationChecker) -> None:
    shape = operation.shape
    if not isinstance(shape, TupleShape) or len(shape.elements) < 2 or not isinstance(shape.elements[0], TupleShape):
        operation.fail("expected a shape of the form ((operands…), result, …)")


def _async_rest(operation: OperationChecker) -> None:
    producer = operation.operands[0]
    if not producer.opcode:
        return
    if producer.opcode not in (opcodes.ASYNC_START, opcodes.ASYNC_UPDATE):
        operation.fail(f"expected an async-start or async-update operand, found {producer.opcode}")
    alone = operation.opcode == opcodes.ASYNC_UPDATE and len(operation.operands) == 1
    if alone and producer.shape is not None and operation.shape != producer.shape:
        operation.fail(f"expected the shape of the operand, {producer.shape}")
    thread = operation.attributes.get("async_execution_thread")
    if isinstance(thread, str) and thread != producer.thread:
        operation.fail(f"expected the thread of the async-start, {producer.thread}", "async_execution_thread")
    called = operation.body("calls")
    if called is not None and producer.calls and called.name != producer.calls:
        operation.fail(f"expected the computation of the async-start, {producer.calls}", "calls")


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
