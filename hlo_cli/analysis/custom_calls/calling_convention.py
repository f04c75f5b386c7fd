"""The buffers of a custom call in the order in which CPUs and GPUs hand them over.

Mirrors the rules of docs/custom_call.md, `CustomCallThunk` of xla/backends/cpu/runtime and of xla/backends/gpu/runtime,
and the emitters before them. A GPU passes all leaves of operands and result in one array, tokens as null pointers.
A CPU passes a table of operands and the result, in which tuples were tables of pointers; since XLA:CPU runs thunks, and
so in jaxlib 0.10.2, its tables hold the leaves of all tuples one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.aliasing import OutputOperandAlias
from hlo_cli.ir.shape import Leaf, OpaqueShape, Shape, ShapeIndex, TokenShape, TupleShape

Use = Literal["in", "in, out", "out", "temp"]


@dataclass(frozen=True, slots=True)
class CustomCallBuffer:
    """One leaf of an operand or, where `operand` is None, of the result.

    `gpu` is its place in `buffers`, None for what has no buffer there; `cpu_path` are the places by which it is reached
    from `ins` or from `out`, `cpu` its place among the operands' or the result's leaves. `ffi` is its place among the
    arguments or the results of a typed call. `shares` is the number of the operand's buffer that it overwrites.
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
    shares: int | None = None

    @property
    def is_array(self) -> bool:
        """Whether there is data behind the pointer."""
        return not isinstance(self.shape, TokenShape | OpaqueShape)


def call_buffers(
    operands: tuple[Shape, ...],
    result: Shape,
    aliasing: Collection[OutputOperandAlias] = (),
    unread: Collection[ShapeIndex] = (),
    bytes_of: Callable[[Shape], int] = lambda shape: shape.padded_bytes,
) -> tuple[CustomCallBuffer, ...]:
    """The buffers of a call: of each operand, then of the result, every leaf in pre-order.

    >>> from hlo_cli import parse_shape
    >>> found = call_buffers((parse_shape("(f32[2], (s8[4], token[]))"),), parse_shape("(f32[], u8[9])"), (), {(1,)})
    >>> [(b.gpu, b.cpu_path, b.use) for b in found]
    [(0, (0, 0), 'in'), (1, (0, 1, 0), 'in'), (2, (0, 1, 1), 'in'), (3, (0,), 'out'), (4, (1,), 'temp')]
    """
    overwritten = {(alias.operand_number, alias.operand_index) for alias in aliasing}
    found: list[CustomCallBuffer] = []
    at: dict[tuple[int, ShapeIndex], int] = {}
    passed = 0
    for number, shape in enumerate(operands):
        for index, leaf in shape.leaves:
            at[number, index] = len(found)
            use: Use = "in, out" if (number, index) in overwritten else "in"
            gpu = passed if _is_passed(leaf) else None
            passed += gpu is not None
            path = (number, *index)
            found.append(CustomCallBuffer(number, index, leaf, bytes_of(leaf), gpu, path, len(found), gpu, use))
    sources = {alias.output_index: at.get((alias.operand_number, alias.operand_index)) for alias in aliasing}
    arguments, leaves = passed, len(found)
    for index, leaf in result.leaves:
        shares = sources.get(index)
        use = "temp" if index in unread and shares is None and not isinstance(leaf, TokenShape) else "out"
        gpu = passed if _is_passed(leaf) else None
        passed += gpu is not None
        ffi = None if gpu is None else gpu - arguments
        place = len(found) - leaves
        found.append(CustomCallBuffer(None, index, leaf, bytes_of(leaf), gpu, index, place, ffi, use, shares))
    return tuple(found)


def gpu_place(buffer: CustomCallBuffer) -> str | None:
    """Where a GPU's function finds a buffer.

    >>> gpu_place(call_buffers((), TokenShape())[0])
    'buffers[0] = NULL'
    """
    if buffer.gpu is None:
        return None
    return f"buffers[{buffer.gpu}]" + ("" if buffer.is_array else " = NULL")


def cpu_place(buffer: CustomCallBuffer, *, nested: bool, is_tuple: bool) -> str:
    """Where a CPU's function finds a buffer: with tuples as tables of pointers, or with all leaves in one table.

    `is_tuple` says whether the result is a tuple; if not, `out` itself is its buffer.

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
    """Whether it makes a difference if tuples are tables of pointers or their leaves."""
    inner = result.elements if isinstance(result, TupleShape) else ()
    return any(isinstance(shape, TupleShape) for shape in (*operands, *inner))


def _is_passed(leaf: Leaf) -> bool:
    return not isinstance(leaf, OpaqueShape)
