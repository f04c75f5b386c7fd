"""Opcodes that call computations, and those of tuples and tokens.

Mirrors xla/hlo/evaluator/hlo_evaluator.cc.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from hlo_cli.analysis.semantics.number_types import Array, carrier
from hlo_cli.analysis.semantics.values import Computed, Kernel, Rule, Taken, Taking, Value, array_of, settled
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import Name
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.shape import ArrayShape, TupleShape
from hlo_cli.source import HloError


def called(instruction: Instruction, attribute: str) -> Computation:
    """The computation that an attribute names."""
    name = instruction.value_of(attribute, Name)
    for computation in instruction.called_computations:
        if name is not None and computation.name == name.name:
            return computation
    raise HloError(f"{instruction.opcode} {instruction.name} has no {attribute}", instruction.span)


def tuple_(instruction: Instruction, computed: Computed) -> Kernel:
    """The operands as one value."""
    return lambda *parts: parts


def get_tuple_element(instruction: Instruction, computed: Computed) -> Kernel:
    """One element of a tuple."""
    at = instruction.integer("index") or 0
    return lambda parts: parts[at]


def elements_first(computation: Computation) -> list[Instruction]:
    """The instructions with parameters first, and then their elements, so that a tuple does not hold them for long."""

    def place(instruction: Instruction) -> int:
        if instruction.parameter_number is not None:
            return 0
        is_element = instruction.opcode == opcodes.GET_TUPLE_ELEMENT
        return 1 if is_element and instruction.operands[0].parameter_number is not None else 2

    return sorted(computation.instructions, key=place)


def call(instruction: Instruction, computed: Computed) -> Kernel:
    """Runs the called computation: of a call, a fusion, or an asynchronous start."""
    function = computed.function(instruction.called_computations[0])
    return Taking(function)


def map_(instruction: Instruction, computed: Computed) -> Kernel:
    """Runs a computation of scalars on all elements at once."""
    function = computed.vectorized(instruction.called_computations[0])
    return lambda *operands: function(operands)[0]


def while_(instruction: Instruction, computed: Computed) -> Kernel:
    """Runs the body while the condition holds."""
    condition = computed.function(called(instruction, "condition"))
    body = computed.function(called(instruction, "body"))
    most = computed.max_iterations

    def take(state: list[Value]) -> Value:
        rounds = 0
        while bool(condition([state[0]])):
            if rounds == most:
                raise iterations_error(instruction, most)
            state = Taken((body(state),))
            rounds += 1
        return state[0]

    return Taking(take)


def iterations_error(instruction: Instruction, most: int) -> HloError:
    """The error for a loop that goes on after its last permitted iteration."""
    return HloError(
        f"{instruction.name} runs more than {most:,} iterations",
        instruction.span,
        hint="use --max-iterations N to raise the limit",
    )


def scan(instruction: Instruction, computed: Computed) -> Kernel:
    """Applies a computation to slices one after another, with carried values; backwards, results keep their places."""
    function = computed.function(called(instruction, "to_apply"))
    carries = instruction.integer("num_carries") or 0
    [along] = instruction.integers("dimensions")
    is_reverse = instruction.flag("is_reverse")
    is_tuple = isinstance(instruction.shape, TupleShape)
    leaves = [leaf for _, leaf in instruction.shape.leaves if isinstance(leaf, ArrayShape)]

    def kernel(*operands: Value) -> Value:
        inputs = [array_of(each) for each in operands[: len(operands) - carries]]
        held = list(operands[len(inputs) :])
        rows: list[tuple[Value, ...]] = []
        length = inputs[0].shape[along] if inputs else leaves[0].dimensions[along]
        for at in reversed(range(length)) if is_reverse else range(length):
            found = function([*(np.take(each, at, along) for each in inputs), *held])
            parts = found if isinstance(found, tuple) else (found,)
            held = list(parts[len(parts) - carries :])
            rows.append(parts[: len(parts) - carries])
        if is_reverse:
            rows.reverse()
        made: list[Value] = [
            np.stack([array_of(each) for each in column], axis=along) for column in zip(*rows, strict=True)
        ]
        if not rows:
            kinds = leaves[: len(leaves) - carries]
            made = [np.zeros(each.dimensions, carrier(each.element_type, computed.floats)) for each in kinds]
        result = (*made, *held)
        return result if is_tuple else result[0]

    return kernel


def conditional(instruction: Instruction, computed: Computed) -> Kernel:
    """Runs one branch: true the first of two; an index outside of all branches the last."""
    branches = [computed.function(each) for each in instruction.called_computations]

    def kernel(chosen: Array, *operands: Value) -> Value:
        index = int(chosen)
        if chosen.dtype == np.bool_:
            index = 1 - index
        if not 0 <= index < len(branches):
            index = len(branches) - 1
        return branches[index]([operands[index]])

    return kernel


def identity(instruction: Instruction, computed: Computed) -> Kernel:
    """The first operand."""
    return lambda value, *others: value


def copy(instruction: Instruction, computed: Computed) -> Kernel:
    """The operand, as the type of the result: mixed precision allows another float."""
    given, shape = instruction.operand_shape(0), instruction.shape
    if isinstance(given, ArrayShape) and isinstance(shape, ArrayShape) and given.element_type != shape.element_type:
        return settled(instruction, computed.floats)
    return identity(instruction, computed)


def token(instruction: Instruction, computed: Computed) -> Kernel:
    """No value."""
    return lambda *operands: None


def copy_start(instruction: Instruction, computed: Computed) -> Kernel:
    """The copy, the source, and a context."""
    return lambda value, *others: (value, value, None)


def copy_done(instruction: Instruction, computed: Computed) -> Kernel:
    """The copy."""
    return lambda started: started[0]


def scalar(value: Value) -> int:
    """The number in a scalar."""
    return int(array_of(value))


HANDLERS: Final[dict[str, Rule]] = {
    "add-dependency": identity,
    "after-all": token,
    "call": call,
    "conditional": conditional,
    "copy": copy,
    "copy-done": copy_done,
    "copy-start": copy_start,
    "domain": identity,
    opcodes.FUSION: call,
    "get-tuple-element": get_tuple_element,
    "map": map_,
    "scan": scan,
    "opt-barrier": lambda instruction, computed: lambda *values: values[0] if len(values) == 1 else values,
    opcodes.TUPLE: tuple_,
    "while": while_,
}
"""The rule of each opcode that calls or passes on."""
