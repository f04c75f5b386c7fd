"""Shape inference for transfers between memories and devices, and for tokens.

Mirrors the constructors of copies, infeed, outfeed, send, and recv in xla/hlo/ir/hlo_instructions.cc and their checks
in xla/service/hlo_verifier.cc.
"""

from __future__ import annotations

from hlo_cli.analysis.shapes.operands import TOKEN, U32_SCALAR, declared_tuple, described, fail, need_at_least
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape, BufferShape, OpaqueShape, Shape, TokenShape, TupleShape, compatible


def copy_start(instruction: Instruction) -> TupleShape:
    """Returns destination, source, and context.

    >>> from hlo_cli import parse_module
    >>> text = "r = (f32[2]{0:S(1)}, f32[2]{0}, u32[]) copy-start(f32[2]{0} a)"
    >>> print(copy_start(parse_module(text).entry.root))
    (f32[2]{0}, f32[2]{0}, u32[])
    """
    shape = instruction.operand_shape(0)
    return TupleShape((shape, shape, U32_SCALAR))


def copy_done(instruction: Instruction) -> Shape:
    """Returns the destination: element 0 of copy-start. It differs from element 1 only in layout."""
    shape = instruction.operand_shape(0)
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
    need_token(instruction, 1)
    return instruction.operand_shape(0)


def infeed(instruction: Instruction) -> TupleShape:
    """Returns the declared data and a token."""
    need_token(instruction, 0)
    return TupleShape((declared_tuple(instruction, 1)[0], TOKEN))


def outfeed(instruction: Instruction) -> TokenShape:
    """Returns a token; `outfeed_shape` must match the operand."""
    need_token(instruction, 1)
    sent = instruction.value("outfeed_shape")
    shape = instruction.operand_shape(0)
    kinds = (ArrayShape, BufferShape, OpaqueShape, TokenShape, TupleShape)
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


def need_token(instruction: Instruction, position: int) -> None:
    """Checks that an operand is a token."""
    need_at_least(instruction, position + 1)
    if instruction.operand_shape(position) != TOKEN:
        fail(instruction, f"expected a token as operand {position}; {described(instruction, position)}")
