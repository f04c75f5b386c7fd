"""What a Pallas kernel returns: the steps of its grid one after another, with a window of each operand and result.

A window is copied in when its block index changes, and one of a result is copied out before it changes and at the end;
blocks at a ragged edge are cut. What lies behind the edge, and in results that were not written, is unknown on a chip;
here it is zero.

Mirrors jax/_src/pallas/mosaic/interpret/interpret_pallas_call.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from typing import Final

import numpy as np

from hlo_cli.analysis.kernel_values.body import CONTROL, RULES, Body, Settings, memory_of
from hlo_cli.analysis.kernel_values.references import Reference, element_kind, sizes_of
from hlo_cli.analysis.kernel_values.vectors import word_of
from hlo_cli.analysis.kernels.kernel_body import KernelBody, WindowAttributes, body_of, kind_of
from hlo_cli.analysis.semantics.typed_values import MISFITS, Array, Floats, Kernel, Value, array_of, carrier
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.mlir.mlir_values import ArrayType, Type
from hlo_cli.source import HloError

# --- what the text of a call has ---


def _aliases(instruction: Instruction) -> dict[int, int]:
    """The operand in whose memory each result is, by the number of the result."""
    text = instruction.attribute("output_to_operand_aliasing") or ""
    found = re.findall(r"\{([\d, ]*)\}: \((\d+), \{[\d, ]*\}\)", text)
    return {int(index.split(",")[0] or 0): int(operand) for index, operand in found}


# --- what cannot be evaluated ---


def problem_of_call(instruction: Instruction) -> str:
    """Why the kernel of a call cannot be evaluated; empty if nothing is known that is in the way.

    >>> from hlo_cli import parse_module
    >>> module = parse_module('r = f32[8] custom-call(f32[8] a), custom_call_target="tpu_custom_call"')
    >>> problem_of_call(module.entry.root)
    'r has no kernel body in its backend_config'
    """
    try:
        return _problem(body_of(instruction), instruction)
    except HloError as error:
        return error.diagnostic.message
    except MISFITS as error:  # of types and attributes that no compiler writes
        return f"its types or attributes contradict each other ({error})"


def _problem(body: KernelBody, instruction: Instruction) -> str:
    unknown = {kind_of(each) for each in body.function.walk()} - _KNOWN
    if unknown:
        return f"{min(unknown)} in the body of the kernel is not evaluated"
    shapes = [leaf for _, leaf in instruction.shape.leaves if isinstance(leaf, ArrayShape)]
    given = len(instruction.operands) - body.bounds
    wanted = len(body.arguments) - body.scratch
    if given + len(shapes) != wanted:
        return f"the kernel has {wanted} operands and results, and the call {given + len(shapes)}"
    grid = tuple([1 if size is None else size for size in body.grid or ()])
    if min(grid, default=1) < 0:
        return "the size of the grid is negative"
    _compiled(body, Settings("exact", 1, lambda: None), grid)  # reads the types and attributes of all operations
    return ""


_KNOWN: Final = frozenset(RULES) | CONTROL | {
    "arith.constant", "func.func", "func.return", "scf.condition", "scf.reduce", "scf.yield", "tpu.iteration_bound",
    "tpu.yield",
}  # fmt: skip


# --- the grid ---


class _Buffer:
    """A window of one operand or result: its memory in the kernel, and the array that it is a part of."""

    def __init__(self, window: WindowAttributes, whole: Array, memory: Reference, transform: Body) -> None:
        self.window = window
        self.whole = whole
        self.memory = memory
        self.transform = transform
        self.index: tuple[int, ...] | None = None

    def move(self, index: tuple[int, ...], *, is_result: bool) -> None:
        """Puts the window at a block; what a result has there at first is what the window had before."""
        if index == self.index:
            return
        if is_result:
            self.copy_out()
        else:
            self._copy_in(index)
        self.index = index

    def _parts(self, index: tuple[int, ...]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """The slices of the array and of the block that are inside of both."""
        outer, inner = [], []
        paddings = self.window.padding or (0,) * len(index)
        for at, size, whole, before in zip(index, self.window.block, self.whole.shape, paddings, strict=True):
            start = at - before if self.window.is_element else at * size
            low, high = max(start, 0), min(start + size, whole)
            if low >= high:
                raise HloError(f"block {list(index)} of the kernel is outside of an array of {list(self.whole.shape)}")
            outer.append(slice(low, high))
            inner.append(slice(low - start, high - start))
        return tuple(outer), tuple(inner)

    def _copy_in(self, index: tuple[int, ...]) -> None:
        """Copies a block from the array."""
        outer, inner = self._parts(index)
        block = np.zeros(self.window.block, self.whole.dtype)
        block[inner] = self.whole[outer]
        self.memory.array[...] = block.reshape(self.memory.shape)

    def copy_out(self) -> None:
        """Copies the block back to the array."""
        if self.index is not None:
            outer, inner = self._parts(self.index)
            self.whole[outer] = self.memory.array.reshape(self.window.block)[inner]


def kernel_of_call(instruction: Instruction, floats: Floats, max_iterations: int, check: Callable[[], None]) -> Kernel:
    """The function that computes what a call of a kernel returns; HloError for what is not evaluated.

    A loop that runs more than `max_iterations` times ends with an error; `check` is called with every step and
    iteration, and may end the run.
    """
    body = body_of(instruction)
    aliases = _aliases(instruction)
    shapes = [leaf for _, leaf in instruction.shape.leaves if isinstance(leaf, ArrayShape)]
    is_tuple = not isinstance(instruction.shape, ArrayShape)
    settings = Settings(floats, max_iterations, check)

    def run(*operands: Value) -> Value:
        arrays = [array_of(each) for each in operands]
        bounds, arrays = arrays[: body.bounds], arrays[body.bounds :]
        sizes = iter(bounds)
        grid = tuple(int(next(sizes)) if size is None else size for size in body.grid or ())
        first = body.bounds
        results = []
        for number, shape in enumerate(shapes):
            alias = aliases.get(number)
            if alias is None:
                results.append(np.zeros(shape.dimensions, carrier(shape.element_type, floats)))
            else:
                arrays[alias - first] = arrays[alias - first].copy()
                results.append(arrays[alias - first])
        try:
            _run_grid(body, settings, grid, arrays, results)
        except HloError as error:
            raise HloError(
                f"cannot evaluate {instruction.name}: {error.diagnostic.message}",
                instruction.span,
                hint=error.diagnostic.hint,
            ) from error
        found = [_as_given(each, shape, floats) for each, shape in zip(results, shapes, strict=True)]
        return tuple(found) if is_tuple else found[0]

    return run


def _as_given(array: Array, shape: ArrayShape, floats: Floats) -> Array:
    """An array of the type and the sizes of the HLO; the kernel has unsigned integers and booleans as signed ones."""
    kept = carrier(shape.element_type, floats)
    return array.reshape(shape.dimensions) if array.dtype == kept else array.astype(kept).reshape(shape.dimensions)


def _compiled(body: KernelBody, settings: Settings, grid: tuple[int, ...]) -> tuple[Body, list[Body | None]]:
    main = Body(body.function, settings, grid)
    return main, [None if each.transform is None else Body(each.transform, settings, grid) for each in body.windows]


def _run_grid(
    body: KernelBody, settings: Settings, grid: tuple[int, ...], operands: list[Array], results: list[Array]
) -> None:
    """Runs all steps on prefetched scalars and operands, and writes the results."""
    main, transforms = _compiled(body, settings, grid)
    kinds = [each.type for each in body.arguments]
    arrays = [*operands, *results]
    held = [_of_type(array, kind, settings.floats) for array, kind in zip(arrays, kinds, strict=False)]
    # Prefetched scalars are state too: kernels write into them what the next step has to know.
    prefetched = [
        _whole(array, kind, is_result=False) for array, kind in zip(held[: body.prefetched], kinds, strict=False)
    ]
    buffers: list[tuple[_Buffer, bool]] = []
    arguments = list(prefetched)
    for number in range(body.prefetched, len(held)):
        at = number - body.prefetched
        array, kind, is_result = held[number], kinds[number], number >= len(operands)
        transform = transforms[at] if grid and at < len(transforms) else None
        if transform is None:
            arguments.append(_whole(array, kind, is_result=is_result))
        else:
            arguments.append(memory_of(kind, settings.floats))
            buffers.append((_Buffer(body.windows[at], array, arguments[-1], transform), is_result))
    arguments += [memory_of(kind, settings.floats) for kind in kinds[len(held) :]]
    for step in product(*map(range, grid)):
        settings.check()
        for buffer, is_result in buffers:
            buffer.move(tuple(buffer.transform.run((*step, *prefetched))), is_result=is_result)
        main.run((*step, *arguments))
    for buffer, is_result in buffers:
        if is_result:
            buffer.copy_out()
    for array, own in zip(results, held[len(operands) :], strict=True):
        if not np.shares_memory(array, own):
            array[...] = own.astype(array.dtype)


def _whole(array: Array, kind: Type, *, is_result: bool) -> Reference:
    """A whole operand or result. A kernel may write into its operands in VMEM, but not into those of its caller."""
    space = kind.space if isinstance(kind, ArrayType) else None
    own = array if is_result or word_of(space) == "any" else array.copy()
    return Reference(own.reshape(sizes_of(kind)), element_kind(kind))


def _of_type(array: Array, kind: Type, floats: Floats) -> Array:
    """An operand as the kernel has it, of signed integers; the same memory if its elements have the same width."""
    element = element_kind(kind)
    kept = array.dtype if element is None else carrier(element, floats)
    if array.dtype == kept:
        return array
    is_view = array.dtype.kind in "iu" and kept.kind in "iu" and array.dtype.itemsize == kept.itemsize
    return array.view(kept) if is_view else array.astype(kept)
