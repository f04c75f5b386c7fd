"""Instructions that only store an array in another order, and the order of their operand that makes them needless."""

from __future__ import annotations

from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape

Order = tuple[int, ...]
"""Dimension numbers, the most minor first."""


@dataclass(frozen=True, slots=True)
class Relayout:
    """An instruction whose result has the elements of `source` in another order in memory.

    `permutation[d]` is the dimension of the source that dimension d of the stored array is. `stored` is the shape of
    that array; the instruction may combine its dimensions afterwards, if `is_reshaped`.
    """

    source: Instruction
    permutation: tuple[int, ...]
    stored: ArrayShape
    is_reshaped: bool

    @property
    def source_order(self) -> Order:
        """The dimension order of the source in which the stored array would have the same order in memory."""
        return tuple(self.permutation[d] for d in self.stored.layout.minor_to_major)

    def result_order(self, source: ArrayShape) -> Order:
        """The dimension order of the stored array that is the order of the source in memory."""
        inverse = {of: d for d, of in enumerate(self.permutation)}
        return tuple(inverse[d] for d in source.layout.minor_to_major)


def relayout_of(instruction: Instruction) -> Relayout | None:
    """Returns what an instruction reorders, None if it does something else.

    >>> from hlo_cli import parse_module
    >>> text = '''ENTRY e { p = f32[2,3]{1,0} parameter(0)  b = f32[3,2]{0,1} bitcast(p)
    ...   ROOT c = f32[3,2]{1,0} copy(b) }'''
    >>> found = relayout_of(parse_module(text).entry.root)
    >>> found.source.name, found.permutation, found.source_order, found.result_order(found.source.shape)
    ('p', (1, 0), (0, 1), (0, 1))
    """
    body = None
    if instruction.opcode == opcodes.FUSION:
        if len(instruction.operands) != 1 or len(instruction.called_computations) != 1:
            return None
        body = instruction.called_computations[0].root
    elif instruction.opcode not in (opcodes.COPY, opcodes.TRANSPOSE):
        return None
    found = _traced(instruction if body is None else body, is_fused=body is not None)
    if found is None:
        return None
    inner, permutation, stored, is_reshaped = found
    source = inner
    if body is not None:
        if inner.opcode != opcodes.PARAMETER:
            return None
        source = instruction.operands[0]
    outside = _before(source)
    if outside is None:
        return None
    source, earlier = outside
    if not isinstance(source.shape, ArrayShape) or source.shape.element_type != stored.element_type:
        return None
    return Relayout(source, tuple(earlier[d] for d in permutation), stored, is_reshaped)


def _traced(root: Instruction, *, is_fused: bool) -> tuple[Instruction, tuple[int, ...], ArrayShape, bool] | None:
    """Returns the operand that a copy or transpose reads, its permutation, the array stored, and whether it changes."""
    is_reshaped = False
    while is_fused and root.opcode == opcodes.BITCAST and root.operands:
        root, is_reshaped = root.operands[0], True
    stored = root.shape
    if not isinstance(stored, ArrayShape) or root.opcode not in (opcodes.COPY, opcodes.TRANSPOSE):
        return None
    permutation: tuple[int, ...] = tuple(range(stored.rank))
    while root.opcode in (opcodes.COPY, opcodes.TRANSPOSE, opcodes.BITCAST) and root.operands:
        step = _step(root)
        if step is None:
            return None
        permutation = tuple(step[d] for d in permutation)
        root = root.operands[0]
        if not is_fused:
            break
    return root, permutation, stored, is_reshaped


def _before(source: Instruction) -> tuple[Instruction, tuple[int, ...]] | None:
    """Returns the array that a chain of bitcasts shows with its dimensions in another order, and that order."""
    if not isinstance(source.shape, ArrayShape):
        return None
    permutation = tuple(range(source.shape.rank))
    while source.opcode == opcodes.BITCAST and source.operands:
        step = _step(source)
        if step is None:
            return None
        permutation = tuple(step[d] for d in permutation)
        source = source.operands[0]
    return source, permutation


def _step(instruction: Instruction) -> tuple[int, ...] | None:
    """Returns for each dimension of a result the dimension of the operand that it is; None if there is no such."""
    shape, operand = instruction.shape, instruction.operand_shape(0)
    if not isinstance(shape, ArrayShape) or not isinstance(operand, ArrayShape) or shape.rank != operand.rank:
        return None
    if instruction.opcode == opcodes.COPY:
        return tuple(range(shape.rank))
    if instruction.opcode == opcodes.TRANSPOSE:
        dimensions = instruction.integers("dimensions")
        return dimensions if sorted(dimensions) == list(range(shape.rank)) else None
    ours, theirs = shape.layout.minor_to_major, operand.layout.minor_to_major
    pairs = list(zip(ours, theirs, strict=True))
    if (
        any(shape.dimensions[d] != operand.dimensions[of] for d, of in pairs)
        or shape.layout.tiles != operand.layout.tiles
    ):
        return None
    step = dict(pairs)
    return tuple(step[d] for d in range(shape.rank))
