"""Arrays that are divided further, and the layouts that shards have of their own."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Final

from hlo_cli.analysis.hardware.chips import USUAL_TPU, tpu_generations
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.layout.default_layout import default_layout, default_order
from hlo_cli.analysis.layout.padding import generation_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.layout import Layout
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape

_LAYOUT_MODES: Final = {"argument": "arg_layout_modes", "result": "out_layout_modes"}
_MOST_TRIED: Final = 1 << 16
_DEFAULT: Final = ("default", "auto", "")


@dataclass(frozen=True, slots=True)
class OwnLayouts:
    """The layouts that shards get, before a compiler has chosen them: by default, or in the order that the user gave.

    `generation` is that of the TPU, None for other targets. `modes` are the layouts that JAX asks for, by role.
    """

    generation: str | None
    modes: dict[str, tuple[str, ...]]
    given: dict[str, tuple[ArrayShape | None, ...]]

    def of(self, shard: ArrayShape, role: str, number: int) -> ArrayShape:
        """A shard of argument or result `number` in its own layout.

        >>> from hlo_cli import parse_shape
        >>> print(OwnLayouts("v5e", {}, {}).of(parse_shape("f32[500,128]"), "argument", 0))
        f32[500,128]{1,0:T(8,128)}
        """
        given = self.given.get(role, ())
        entry = given[number] if number < len(given) else None
        modes = self.modes.get(role, ())
        is_default = number >= len(modes) or modes[number] in _DEFAULT
        order = None if entry is None or entry.rank != shard.rank else entry.layout.minor_to_major
        if self.generation is None:
            row_major = tuple(range(shard.rank))[::-1]
            return replace(shard, layout=Layout(row_major if order is None else order))
        if is_default or order is None:
            order = default_order(_bare(shard), generation=self.generation) or tuple(range(shard.rank))[::-1]
        layout = default_layout(_bare(shard), generation=self.generation, minor_to_major=order)
        return replace(shard, layout=layout)


def own_layouts(module: Module) -> OwnLayouts:
    """The layouts of shards of a module that is not partitioned; on TPU, its header has layouts with tiles.

    >>> from hlo_cli import parse_module
    >>> own_layouts(parse_module("HloModule m  ENTRY e { ROOT p = f32[8] parameter(0) }")).generation is None
    True
    """
    layout = module.entry_computation_layout
    given = dict[str, tuple[ArrayShape | None, ...]]()
    if layout is not None:
        results = [leaf for _, leaf in layout.result.leaves]
        for role, shapes in (("argument", list(layout.parameters)), ("result", results)):
            given[role] = tuple(each if isinstance(each, ArrayShape) else None for each in shapes)
    has_tiles = any(each is not None and each.layout.tiles for shapes in given.values() for each in shapes)
    is_tpu = has_tiles or target_of(module) == "tpu"
    texts = {role: module.frontend_attributes.get(name) or "" for role, name in _LAYOUT_MODES.items()}
    modes = {role: tuple(text.split(";")) if text else () for role, text in texts.items()}
    return OwnLayouts(generation_of(module) if is_tpu else None, modes, given)


@lru_cache(maxsize=4096)
def divided(shape: ArrayShape, count: int) -> ArrayShape:
    """The array on each of `count` devices that share it evenly, in the way that needs the fewest bytes.

    What is left of `count` after its primes that divide no dimension remains replicated.

    >>> from hlo_cli import parse_shape
    >>> print(divided(parse_shape("f32[500,128]{1,0:T(8,128)}"), 8), divided(parse_shape("f32[3]"), 2))
    f32[125,64]{1,0:T(8,128)} f32[3]{0}
    """
    for prime in reversed(prime_factors(count)):
        made = [_with_size(shape, d, size // prime) for d, size in enumerate(shape.sizes) if size and size % prime == 0]
        if made:
            shape = min(made, key=lambda each: each.padded_bytes)
    return shape


def prime_factors(number: int) -> list[int]:
    """The prime factors of a number, ascending; what has no factor below 65,536 counts as prime.

    >>> prime_factors(12), prime_factors(2 * (2**61 - 1)) == [2, 2**61 - 1]
    ([2, 2, 3], True)
    """
    found, prime = list[int](), 2
    while prime * prime <= number and prime < _MOST_TRIED:
        while number % prime == 0:
            found.append(prime)
            number //= prime
        prime += 1
    return [*found, number] if number > 1 else found


def _with_size(shape: ArrayShape, dimension: int, size: int) -> ArrayShape:
    sizes = (*shape.dimensions[:dimension], size, *shape.dimensions[dimension + 1 :])
    smaller = replace(shape, dimensions=sizes, layout=replace(shape.layout, split_configs=()))
    generation = _generation_of_tiles(shape)
    return smaller if generation is None else replace(smaller, layout=default_layout(smaller, generation=generation))


@lru_cache(maxsize=4096)
def _generation_of_tiles(shape: ArrayShape) -> str | None:
    """A TPU generation whose default tiles the layout has, so that smaller arrays have smaller tiles; None without."""
    if not shape.layout.tiles:
        return None
    with_large_tiles = next(each.name for each in tpu_generations() if each.has_large_tiles)
    generations = (USUAL_TPU, with_large_tiles)
    return next((each for each in generations if default_layout(shape, generation=each) == shape.layout), None)


def _bare(shape: ArrayShape) -> ArrayShape:
    """The shape in row-major order without tiles."""
    return replace(shape, layout=Layout(tuple(range(shape.rank))[::-1], memory_space=shape.memory_space))
