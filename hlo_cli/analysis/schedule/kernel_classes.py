"""Of which class is a kernel, so that its kind can have a measured time of its own?

Classes are what libraries and compilers have different kernels for. `calibration.py` of profile fits a factor for each,
and `kernel_times.py` uses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hlo_cli.analysis.cost.counting import Cost
from hlo_cli.analysis.cost.matmuls import Matmul, convolution_kind
from hlo_cli.analysis.dataflow.dependencies import callees_first
from hlo_cli.analysis.hardware.chip_table import ChipSpec
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import COLLECTIVES, TRANSCENDENTAL
from hlo_cli.ir.shape import ArrayShape

SMALL: Final = "small"
"""The class of kernels with less work than their launch takes."""
# By the arithmetic of their polynomials and reductions on a CPU: a sine takes ten times as long as a tanh.
_SLOWEST: Final = ("sine", "cosine", "tan", "power", "atan2")
_FASTEST: Final = ("exponential", opcodes.LOGISTIC, "tanh", "cbrt")
_SLOW: Final = (*_SLOWEST, *sorted(TRANSCENDENTAL - {*_SLOWEST, *_FASTEST, "sqrt", "rsqrt"}), *_FASTEST)
"""Functions that make a kernel slower than its bytes, the slowest first; a kernel is of the class of its slowest.

Square roots are instructions of processors.
"""
_ALIKE: Final = {"cosine": "sine", "tan": "sine"}  # all reduce their argument first, which takes most of the time
"""Functions whose kernels take about the same time."""
SMALL_SHARE: Final = 0.5  # of the launch, so that the time of a small kernel is mostly that; chosen
_OF_THEIR_OWN: Final = frozenset(
    (
        opcodes.SORT,
        opcodes.SCATTER,
        opcodes.FFT,
        opcodes.CHOLESKY,
        opcodes.TRIANGULAR_SOLVE,
        opcodes.REDUCE_WINDOW,
        opcodes.SELECT_AND_SCATTER,
        opcodes.RNG_BIT_GENERATOR,
    )
)
"""Operations whose kernels are unlike all others, alone or in a fusion."""
_SLICES: Final = frozenset((opcodes.DYNAMIC_SLICE, opcodes.DYNAMIC_UPDATE_SLICE, opcodes.GATHER))
# 1 MiB: below it, the latency of a collective dominates, and arrays stay in the cache of a core.
LARGE_BYTES: Final = 1 << 20
"""The bytes that divide large from small arrays and payloads."""


def kernel_class(instruction: Instruction, cost: Cost, matmuls: Sequence[Matmul]) -> str:
    """The class of a kernel with this cost and these matmuls.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> texts = ("exponential(f32[1024,1024] a)", "negate(f32[9] a)", "sort(f32[9] a), dimensions={0}, to_apply=f")
    >>> roots = [parse_module(f"r = {text.partition('(')[2].partition(' ')[0]} {text}").entry.root for text in texts]
    >>> [kernel_class(each, cost_of(each), ()) for each in roots]
    ['exponential, large', 'memory, small', 'sort']
    """
    if instruction.opcode == opcodes.CUSTOM_CALL and not matmuls:
        return f"custom call {instruction.string('custom_call_target') or ''}".strip()
    inner = {each.opcode for each in _within(instruction)}
    if own := sorted(inner & _OF_THEIR_OWN):
        return own[0]
    if matmuls:
        convolution = convolution_kind(max(matmuls, key=lambda each: each.flops))
        return "matmul" if convolution is None else f"convolution, {convolution}"
    if _transposes(instruction):
        kind = "transposition"
    elif slow := next((opcode for opcode in _SLOW if opcode in inner), None):
        kind = _ALIKE.get(slow, slow)
    elif opcodes.REDUCE in inner:
        kind = "reduction"
    elif inner & _SLICES:
        kind = "slice"
    else:
        kind = "memory"
    return f"{kind}, {'large' if cost.bytes_accessed >= LARGE_BYTES else 'small'}"


class ModeledCollective(NamedTuple):
    """The class of a collective, the bytes that a device sends, and its time by the model; None if that is unknown."""

    kind: str
    sent_bytes: float
    seconds: float | None


def synchronous_collectives(modules: Iterable[Module], chip: ChipSpec) -> Mapping[Instruction, ModeledCollective]:
    """The synchronous collectives by instruction: the time of a start or a done is not that of the transfer.

    >>> from hlo_cli import chip_spec, parse_module
    >>> text = "r = f32[64] all-gather(f32[8] a), dimensions={0}, replica_groups={{0,1,2,3,4,5,6,7}}"
    >>> [found] = synchronous_collectives([parse_module(text)], chip_spec("h100")).values()
    >>> found.kind, found.sent_bytes
    ('all-gather, small', 224.0)
    """
    from hlo_cli.analysis.sharding.collectives import (  # large imports that only programs of several devices need
        collective_class,
        collective_time,
        collectives_of,
    )

    found = {}
    for each in (collective for module in modules for collective in collectives_of(module)):
        if not each.is_async:
            time = collective_time(each, chip)
            kind = collective_class(each.kind, each.payload_bytes or 0)
            seconds = None if time is None else time.seconds
            found[each.caller] = ModeledCollective(kind, float(each.wire_bytes or 0), seconds)
    return found


def is_collective(name: str) -> bool:
    """Whether a class is one of collectives."""
    return name.partition(",")[0] in COLLECTIVES


def _within(instruction: Instruction) -> Iterator[Instruction]:
    """The operation, or those that a fusion computes."""
    if instruction.opcode != opcodes.FUSION:
        yield instruction
        return
    for computation in callees_first(instruction.called_computations):
        yield from computation.instructions


def _transposes(instruction: Instruction) -> bool:
    """Whether elements change their order in memory: a copy to another layout, or a transposition that is no view."""
    for each in _within(instruction):
        if each.opcode not in (opcodes.COPY, opcodes.TRANSPOSE) or not each.operands:
            continue
        before, after = each.operand_shape(0), each.shape
        if not isinstance(before, ArrayShape) or not isinstance(after, ArrayShape):
            continue
        order = tuple(each.integers("dimensions")) or tuple(range(after.rank))
        # In the order of memory, the dimensions of the operand that those of the result stand for.
        if any(position >= after.rank for position in after.layout.minor_to_major) or len(order) != after.rank:
            continue
        moved = tuple(order[position] for position in after.layout.minor_to_major)
        if _without_ones(moved, before) != _without_ones(before.layout.minor_to_major, before):
            return True
    return False


def _without_ones(order: Sequence[int], shape: ArrayShape) -> tuple[int, ...]:
    """The dimensions of more than one element, whose order matters."""
    return tuple(each for each in order if each < shape.rank and shape.sizes[each] > 1)
