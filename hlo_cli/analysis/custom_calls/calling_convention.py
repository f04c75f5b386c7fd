"""Buffers of a custom call in the order in which CPU and GPU pass them.

Mirrors docs/custom_call.md, `CustomCallThunk` of xla/backends/cpu/runtime and of xla/backends/gpu/runtime, and the
emitters before them. A GPU passes all leaves of operands and result in one array, tokens as null pointers. A CPU passes
a table of operands and the result. Tuples were tables of pointers there; with the thunks of XLA:CPU, and in jaxlib
0.10.2, the table has the leaves of all tuples one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.value_types import OutputOperandAlias
from hlo_cli.ir.shape import Leaf, OpaqueShape, Shape, ShapeIndex, TokenShape, TupleShape

Use = Literal["in", "in, out", "out", "temp"]


@dataclass(frozen=True, slots=True)
class CustomCallBuffer:
    """Leaf of an operand or, if `operand` is None, of the result.

    - `gpu` is its index in `buffers`, None if it has no buffer there.
    - `cpu_path` are the indices from `ins` or `out` if tuples are tables, `cpu` the index among the leaves of operands
      or result.
    - `ffi` is its index among the arguments or results of a typed call.
    - `alias_of` is the index of the operand buffer that it aliases.
    """

    operand: int | None
    index: ShapeIndex
    shape: Leaf
    bytes: int
    gpu: int | None
    cpu_path: tuple[int, ...]
    cpu: int
    ffi: int | None
    use: Use
    alias_of: int | None = None

    @property
    def is_array(self) -> bool:
        """Whether the buffer has data: not a token or opaque value."""
        return not isinstance(self.shape, TokenShape | OpaqueShape)


def call_buffers(
    operands: tuple[Shape, ...],
    result: Shape,
    aliasing: Collection[OutputOperandAlias] = (),
    unread: Collection[ShapeIndex] = (),
    bytes_of: Callable[[Shape], int] = lambda shape: shape.padded_bytes,
) -> tuple[CustomCallBuffer, ...]:
    """Buffers of a call: the leaves of each operand, then of the result, in pre-order.

    >>> from hlo_cli import parse_shape
    >>> found = call_buffers((parse_shape("(f32[2], (s8[4], token[]))"),), parse_shape("(f32[], u8[9])"), (), {(1,)})
    >>> [(b.gpu, b.cpu_path, b.use) for b in found[1:]]
    [(1, (0, 1, 0), 'in'), (2, (0, 1, 1), 'in'), (3, (0,), 'out'), (4, (1,), 'temp')]
    """
    overwritten = {(alias.operand_number, alias.operand_index) for alias in aliasing}
    found: list[CustomCallBuffer] = []
    leaf_numbers: dict[tuple[int, ShapeIndex], int] = {}
    passed = 0
    for number, shape in enumerate(operands):
        for index, leaf in shape.leaves:
            leaf_numbers[number, index] = len(found)
            use: Use = "in, out" if (number, index) in overwritten else "in"
            gpu = passed if _is_passed(leaf) else None
            passed += gpu is not None
            path = (number, *index)
            found.append(CustomCallBuffer(number, index, leaf, bytes_of(leaf), gpu, path, len(found), gpu, use))
    sources = {alias.output_index: leaf_numbers.get((alias.operand_number, alias.operand_index)) for alias in aliasing}
    arguments, leaves = passed, len(found)
    for index, leaf in result.leaves:
        alias_of = sources.get(index)
        use = "temp" if index in unread and alias_of is None and not isinstance(leaf, TokenShape) else "out"
        gpu = passed if _is_passed(leaf) else None
        passed += gpu is not None
        ffi = None if gpu is None else gpu - arguments
        place = len(found) - leaves
        found.append(CustomCallBuffer(None, index, leaf, bytes_of(leaf), gpu, index, place, ffi, use, alias_of))
    return tuple(found)


def gpu_place(buffer: CustomCallBuffer) -> str | None:
    """Expression for a buffer in a GPU function.

    >>> gpu_place(call_buffers((), TokenShape())[0])
    'buffers[0] = NULL'
    """
    if buffer.gpu is None:
        return None
    return f"buffers[{buffer.gpu}]" + ("" if buffer.is_array else " = NULL")


def cpu_place(buffer: CustomCallBuffer, *, nested: bool, is_tuple: bool) -> str:
    """Expression for a buffer in a CPU function, with tuples as tables of pointers if `nested`, else flattened.

    If the result is not a tuple (`is_tuple`), `out` itself is its buffer.

    >>> from hlo_cli import parse_shape
    >>> buffer = call_buffers((parse_shape("(f32[2], (s8[4]))"),), parse_shape("f32[]"))[1]
    >>> cpu_place(buffer, nested=True, is_tuple=False), cpu_place(buffer, nested=False, is_tuple=False)
    ('ins[0][1][0]', 'ins[1]')
    """
    path = buffer.cpu_path if nested else (buffer.cpu,)
    if buffer.operand is not None:
        return "ins" + "".join(f"[{place}]" for place in path)
    return "out" + ("".join(f"[{place}]" for place in path) if is_tuple else "")


def has_nested_tuples(operands: tuple[Shape, ...], result: Shape) -> bool:
    """Whether tables of pointers and flattened leaves differ for these shapes."""
    inner = result.elements if isinstance(result, TupleShape) else ()
    return any(isinstance(shape, TupleShape) for shape in (*operands, *inner))


def _is_passed(leaf: Leaf) -> bool:
    # CustomCallThunk passes a token as a null pointer, but nothing for an opaque value.
    return not isinstance(leaf, OpaqueShape)
