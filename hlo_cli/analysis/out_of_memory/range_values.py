"""The values of a dump that are in a range of memory of an out-of-memory message."""

from __future__ import annotations

from hlo_cli.analysis.memory.memory_model import LiveValue, MemorySpaceUsage
from hlo_cli.analysis.out_of_memory.range_shapes import is_shown_as
from hlo_cli.ir.out_of_memory import OomAllocation
from hlo_cli.ir.shape import ArrayShape, Shape

Key = tuple[str, tuple[int, ...]] | str
"""The type and the dimensions of an array, or the text of another shape without layout."""


class RangeValues:
    """Finds the values of a memory space of a dump by shape and size; those at the offset of the range first."""

    def __init__(self, space: MemorySpaceUsage | None) -> None:
        self._values: dict[Key, list[LiveValue]] = {}
        for value in space.values if space is not None else ():
            self._values.setdefault(_key(value.shape), []).append(value)

    def largest_in(self, allocation: OomAllocation) -> tuple[tuple[LiveValue, ...], bool]:
        """The values that may determine the size of a range, and whether they are at its offset in the dump.

        Those of the shape that the range is shown with come first.
        """
        place, size = allocation.range, allocation.size_bytes
        if place is None or size is None:
            return (), False
        keys = dict.fromkeys(_key(shape) for _, shape in place.shapes)
        found = [value for key in keys for value in self._values.get(key, ()) if is_shown_as(value.padded_bytes, size)]
        here = [value for value in found if value.offset == place.offset_bytes]
        shown = _key(allocation.shape) if allocation.shape is not None else ""
        return tuple(sorted(here or found, key=lambda value: (_key(value.shape) != shown, value.start))), bool(here)


def _key(shape: Shape) -> Key:
    if isinstance(shape, ArrayShape):
        return shape.element_type.name, shape.dimensions
    return shape.to_string(layout=False)
