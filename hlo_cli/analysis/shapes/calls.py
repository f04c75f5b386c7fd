"""Shape inference for calls, control flow, and tuples.

Mirrors `InferCallShape`, `InferWhileShape`, `InferConditionalShape`, and `InferGetTupleElementShape` of
xla/service/shape_inference.cc, and `HandleFusion` of xla/service/hlo_verifier.cc.
"""

from __future__ import annotations

from hlo_cli.analysis.shapes.operands import (
    PRED,
    S32,
    array_of,
    callee,
    declared,
    described,
    fail,
    need_at_least,
    need_scalar,
    operand_shapes,
    parameters_of,
    sizes_of,
)
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.shape import Shape, TupleShape, compatible
from hlo_cli.source import counted


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
    if len(computation.parameters) > len(instruction.operands):
        found = f"{len(computation.parameters)} of {computation.name}, {counted(len(instruction.operands), 'operands')}"
        fail(instruction, f"expected at most as many parameters as operands, found {found}")
    check_arguments(instruction, computation)
    return result


def call(instruction: Instruction) -> Shape:
    """Returns the result of the called computation; its parameters must match the operands."""
    computation, result = callee(instruction)
    parameters_of(instruction, computation, len(instruction.operands))
    check_arguments(instruction, computation)
    return result


def while_loop(instruction: Instruction) -> Shape:
    """Returns the shape of the operand; it must match the parameters and the body's result."""
    body, result = callee(instruction, 0)
    condition, decision = callee(instruction, 1)
    for computation in (body, condition):
        parameters_of(instruction, computation, 1)
        check_arguments(instruction, computation)
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
        check_arguments(instruction, branch, position + 1)
        if not compatible(results[position], results[0]):
            found = f"{sizes_of(results[position])} of {branch.name}"
            fail(
                instruction, f"expected all branches to return the same shape, found {sizes_of(results[0])} and {found}"
            )
    return results[0]


def check_arguments(instruction: Instruction, computation: Computation, first: int = 0) -> None:
    """Checks that the operands from `first` on match the parameters of a computation."""
    for position, parameter in enumerate(computation.parameters, first):
        if not compatible(parameter.shape, instruction.operand_shape(position)):
            found = f"parameter %{parameter.name} of {computation.name} is {sizes_of(parameter.shape)}"
            fail(instruction, f"expected the operand's shape; {found}, {described(instruction, position)}")
