"""Shape inference by opcode.

Mirrors xla/service/shape_inference.cc and the further checks of each opcode in xla/service/hlo_verifier.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from hlo_cli.analysis.shapes import (
    asynchronous,
    calls,
    collectives,
    data_movement,
    dots,
    elementwise,
    indexing,
    linear_algebra,
    reduction,
    transfers,
    types,
    windows,
)
from hlo_cli.analysis.shapes.operands import fail
from hlo_cli.analysis.shapes.replica_groups import subgroup_size
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.operations import (
    BINARY,
    DEVICE_IDS,
    OPCODE_ARITY,
    OPERAND_COUNTS,
    OTHER_TYPE,
    UNARY,
    takes,
    wrapped_opcode,
)
from hlo_cli.ir.shape import Shape, UnknownShape, subshape
from hlo_cli.source import counted

Rule = Callable[[Instruction], Shape]
GroupRule = Callable[[Instruction, int | None], Shape]

_UNARY: Final = UNARY - OTHER_TYPE - {opcodes.COPY, opcodes.REDUCE_PRECISION}
_BINARY: Final = BINARY - OTHER_TYPE

RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        **dict.fromkeys(_UNARY, elementwise.unary),
        **dict.fromkeys(_BINARY, elementwise.binary),
        **dict.fromkeys(("abs", "imag", "real"), elementwise.component),
        "is-finite": elementwise.is_finite,
        "compare": elementwise.compare,
        "complex": elementwise.complex_of,
        "clamp": elementwise.clamp,
        "select": elementwise.select,
        "broadcast": data_movement.broadcast,
        "concatenate": data_movement.concatenate,
        "dynamic-reshape": data_movement.dynamic_reshape,
        "pad": data_movement.pad,
        "reshape": data_movement.reshape,
        "reverse": data_movement.reverse,
        "shuffle": data_movement.shuffle,
        "slice": data_movement.slice_of,
        "transpose": data_movement.transpose,
        "bitcast": types.bitcast,
        "bitcast-convert": types.bitcast_convert,
        "convert": types.convert,
        "get-dimension-size": types.get_dimension_size,
        "iota": types.iota,
        **dict.fromkeys(DEVICE_IDS, types.device_id),
        "reduce-precision": types.reduce_precision,
        "rng": types.rng,
        "rng-bit-generator": types.rng_bit_generator,
        "rng-get-and-update-state": types.rng_state,
        "set-dimension-size": types.set_dimension_size,
        "stochastic-convert": types.stochastic_convert,
        "map": reduction.map_shape,
        "reduce": reduction.reduce,
        "scan": reduction.scan,
        "sort": reduction.sort,
        "convolution": windows.convolution,
        "reduce-window": windows.reduce_window,
        "select-and-scatter": windows.select_and_scatter,
        "dot": dots.dot,
        "ragged-dot": dots.ragged_dot,
        "scaled-dot": dots.scaled_dot,
        "dynamic-slice": indexing.dynamic_slice,
        "dynamic-update-slice": indexing.dynamic_update_slice,
        "gather": indexing.gather,
        "scatter": indexing.scatter,
        "batch-norm-grad": linear_algebra.batch_norm_grad,
        "batch-norm-inference": linear_algebra.batch_norm_inference,
        "batch-norm-training": linear_algebra.batch_norm_training,
        "cholesky": linear_algebra.cholesky,
        "fft": linear_algebra.fft,
        "topk": linear_algebra.topk,
        "triangular-solve": linear_algebra.triangular_solve,
        **dict.fromkeys(("constant", "custom-call", "parameter"), calls.as_declared),
        **dict.fromkeys(("all-reduce-done", "copy", "domain", "opt-barrier"), calls.same_as_operand),
        "call": calls.call,
        "conditional": calls.conditional,
        "fusion": calls.fusion,
        "get-tuple-element": calls.get_tuple_element,
        "tuple": calls.tuple_of,
        "while": calls.while_loop,
        "add-dependency": transfers.add_dependency,
        **dict.fromkeys(("after-all", "send-done"), transfers.token),
        "copy-done": transfers.copy_done,
        "copy-start": transfers.copy_start,
        "infeed": transfers.infeed,
        "outfeed": transfers.outfeed,
        "recv": transfers.recv,
        "recv-done": transfers.recv_done,
        "send": transfers.send,
        **dict.fromkeys(("all-reduce", "all-reduce-start"), collectives.each_operand),
        **dict.fromkeys(("all-gather-done", "collective-permute-done"), collectives.second_of_operand),
        "collective-broadcast": collectives.collective_broadcast,
        "collective-permute": collectives.collective_permute,
        "collective-permute-start": collectives.collective_permute_start,
        "ragged-all-to-all": collectives.ragged_all_to_all,
        "async-done": asynchronous.async_done,
        "async-start": asynchronous.async_start,
        "async-update": asynchronous.async_update,
    }
)
"""The rule of every opcode whose result does not depend on the group size."""

GROUP_RULES: Final[Mapping[str, GroupRule]] = MappingProxyType(
    {
        opcodes.ALL_GATHER: collectives.all_gather,
        opcodes.ALL_GATHER_START: collectives.all_gather_start,
        opcodes.ALL_TO_ALL: collectives.all_to_all,
        opcodes.REDUCE_SCATTER: collectives.reduce_scatter,
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


def infer_shape(instruction: Instruction, module: Module | None = None) -> Shape:
    """Returns the shape that follows from operands, attributes, and called computations.

    What cannot be inferred, such as the type of a convert, is taken from the declared shape. `module` provides the
    device count; without it, group sizes that depend on it are not checked. Raises HloError if an instruction
    violates its rule, or if a required declared shape is missing.

    >>> from hlo_cli import parse_module
    >>> instruction = parse_module("r = f32[9] add(f32[4] a, f32[4] b)").entry.root
    >>> print(infer_shape(instruction))
    f32[4]{0}
    """
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


def check_elements(instruction: Instruction) -> None:
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
        return calls.as_declared(instruction)
    wrapped = wrapped_opcode(opcode)
    if wrapped is None:
        fail(instruction, "unknown opcode, so the result shape is unknown")
    if opcode.endswith("-start"):
        return asynchronous.start_of(instruction, wrapped, lambda inner: infer_shape(inner, module))
    return (
        asynchronous.async_update(instruction) if opcode.endswith("-update") else asynchronous.async_done(instruction)
    )
