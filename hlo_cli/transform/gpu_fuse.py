"""Fusions that XLA:GPU would make in a module before its fusion passes.

Mirrors xla/service/gpu/fusion_pipeline.cc.
"""

from __future__ import annotations

from collections.abc import Iterator

from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import CALLERS

_STREAM_ANNOTATION = "_xla_stream_annotation"
_ENTERED = frozenset((opcodes.WHILE, opcodes.CONDITIONAL, opcodes.FUSION))


def gpu_computations(module: Module) -> Iterator[Computation]:
    """Computations in which XLA:GPU makes fusions: not those that an operation applies (`GetFusibleComputations`).

    >>> from hlo_cli import parse_module
    >>> text = '''f { ROOT p = f32[] parameter(0) }
    ... ENTRY e { a = f32[] parameter(0)  ROOT r = f32[] call(a), to_apply=f }'''
    >>> [computation.name for computation in gpu_computations(parse_module(text))]
    ['e']
    """
    skipped: set[Computation] = set()
    for instruction in module.instructions:
        if instruction.opcode not in CALLERS:
            continue
        is_stream = instruction.opcode == opcodes.CALL and _STREAM_ANNOTATION in instruction.raw[1]
        if instruction.opcode == opcodes.FUSION or (instruction.opcode not in _ENTERED and not is_stream):
            skipped.update(instruction.called_computations)
    for computation in module.computations:
        if computation.root is not None and computation not in skipped:
            yield computation
