"""Differences of two paired instructions, by kind: layout, tiling, memory space, attributes, and others.

The kinds are finer than those of xla/hlo/tools/hlo_diff/hlo_diff_summary.h, and a change has both values as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Final, Literal, get_args

from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.metadata import Json, Metadata
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import index_suffix, index_text
from hlo_cli.ir.operations import NAMING_ATTRIBUTES
from hlo_cli.ir.shape import ArrayShape, BufferShape, Leaf, Shape

Kind = Literal[
    "opcode",
    "shape",
    "layout",
    "tiling",
    "memory_space",
    "operands",
    "attributes",
    "sharding",
    "constants",
    "backend_config",
    "fusion",  # fused or not, or with what
    "computation",  # in another one, neither of them fused
    "metadata",
    "header",
]
KINDS: Final[tuple[str, ...]] = get_args(Kind)
"""Kinds of changes, in the order of the reports."""
FUSED: Final[Kind] = "fusion"
PLACE_KINDS: Final[tuple[Kind, ...]] = (FUSED, "computation")
"""Kinds of changes of what an instruction is in: a fusion, or another computation."""


@dataclass(frozen=True, slots=True)
class Change:
    """One changed property with its text in both modules.

    `name` is the attribute, configuration key, operand, or tuple element; it is empty where `kind` identifies the
    property.

    >>> str(Change("attributes", "direction", "LT", "GT"))
    'direction LT → GT'
    """

    kind: Kind
    name: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.label} {self.before or 'none'} → {self.after or 'none'}"

    @property
    def label(self) -> str:
        """Changed property in words.

        >>> Change("memory_space", "{1}", "S(0)", "S(1)").label, Change("metadata", "op_name", "a", "b").label
        ('memory space {1}', 'op_name')
        """
        if self.name and not self.name.startswith("{"):
            return self.name
        return f"{self.kind.replace('_', ' ')} {self.name}".rstrip()


def shape_changes(before: Shape, after: Shape) -> Iterator[Change]:
    """Yields the differences of two shapes: type and dimensions, or else layout, tiling, and memory space of each leaf.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> [str(c) for c in shape_changes(parse_shape("f32[8,16]{0,1}"), parse_shape("f32[8,16]{1,0:T(8,128)}"))]
    ['layout {0,1} → {1,0}', 'tiling none → T(8,128)']
    """
    if before == after:
        return
    if before.to_string(layout=False) != after.to_string(layout=False):
        yield Change("shape", "", before.to_string(layout=False), after.to_string(layout=False))
        return
    for (index, one), (_, two) in zip(before.leaves, after.leaves, strict=True):
        name = index_suffix(index)
        yield from _layout_changes(one, two, name)


def _layout_changes(one: Leaf, two: Leaf, name: str) -> Iterator[Change]:
    x, y = _array(one), _array(two)
    if x is None or y is None or str(x) == str(y):
        return
    order, tiles = (_order(x), _order(y)), (_tiles(x), _tiles(y))
    if order[0] != order[1]:
        yield Change("layout", name, *order)
    if tiles[0] != tiles[1]:
        yield Change("tiling", name, *tiles)
    if x.memory_space != y.memory_space:
        yield Change("memory_space", name, f"S({x.memory_space})", f"S({y.memory_space})")
    elif order[0] == order[1] and tiles[0] == tiles[1]:
        yield Change("layout", name, str(x.layout), str(y.layout))


def _array(leaf: Leaf) -> ArrayShape | None:
    if isinstance(leaf, BufferShape):
        return leaf.array
    return leaf if isinstance(leaf, ArrayShape) else None


def _order(shape: ArrayShape) -> str:
    return index_text(shape.layout.minor_to_major)


def _tiles(shape: ArrayShape) -> str:
    tiles = "".join(map(str, shape.layout.tiles))
    return f"T{tiles}" if tiles else ""


def content_changes(before: Instruction, after: Instruction) -> Iterator[Change]:
    """Yields the differences of two instructions themselves, without their operands, names, and metadata."""
    if before.written_opcode != after.written_opcode:
        yield Change("opcode", "", before.written_opcode, after.written_opcode)
    yield from shape_changes(before.shape, after.shape)
    yield from _argument_changes(before, after)
    yield from _element_changes(before, after)
    old, new = _compared_attributes(before), _compared_attributes(after)
    for name in dict.fromkeys((*old, *new)):
        one, two = old.get(name, ""), new.get(name, "")
        if one == two:
            continue
        if name == "backend_config":
            yield from _config_changes(before, after, one, two)
        else:
            yield Change("sharding" if name == "sharding" else "attributes", name, one, two)


def _compared_attributes(instruction: Instruction) -> dict[str, str]:
    """Attributes without names of other objects, metadata, and the index of a tuple element, which can shift."""
    is_element = instruction.opcode == opcodes.GET_TUPLE_ELEMENT
    return {
        name: value
        for name, value in instruction.pairs
        if name not in NAMING_ATTRIBUTES and name != "metadata" and not (is_element and name == "index")
    }


def _argument_changes(before: Instruction, after: Instruction) -> Iterator[Change]:
    """Yields other values of constants, and other texts in place of operands that could not be read."""
    one, two = before.raw[0].strip(), after.raw[0].strip()
    if one == two or opcodes.PARAMETER in (before.opcode, after.opcode):
        return
    if opcodes.CONSTANT in (before.opcode, after.opcode):
        yield Change("constants", "value", one, two)
    elif not (before.operands or after.operands):
        yield Change("operands", "", one, two)


def _element_changes(before: Instruction, after: Instruction) -> Iterator[Change]:
    """Yields differences of tuple elements that operands select with `#`, such as `%a#1`."""
    for position in range(min(len(before.operands), len(after.operands))):
        one, two = before.operand_index(position), after.operand_index(position)
        if one != two:
            yield Change("operands", f"operand {position}", _index(one), _index(two))


def _index(index: tuple[int, ...]) -> str:
    return "".join(f"#{i}" for i in index)


def _config_changes(before: Instruction, after: Instruction, one: str, two: str) -> Iterator[Change]:
    """Yields differences of two backend configurations, by key if both are JSON objects."""
    old, new = before.backend_config, after.backend_config
    if old is None or new is None or not isinstance(old.json, Mapping) or not isinstance(new.json, Mapping):
        if old is None or new is None or old != new:
            yield Change("backend_config", "backend_config", one, two)
        return
    ones, twos = dict(_keys(old.json)), dict(_keys(new.json))
    for key in dict.fromkeys((*ones, *twos)):
        if ones.get(key) != twos.get(key):
            yield Change("backend_config", key, ones.get(key, ""), twos.get(key, ""))


def _keys(value: Json, path: str = "") -> Iterator[tuple[str, str]]:
    """Yields every value that is not an object, with its dotted path of keys."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _keys(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, _json_text(value)


def _json_text(value: Json) -> str:
    from json import dumps

    return dumps(_plain(value), separators=(",", ":"))


def _plain(value: Json) -> object:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, tuple) else value


class MetadataDiff:
    """Compares the metadata of instructions; stack frame ids are resolved, as they are valid in one module only."""

    __slots__ = ("_known", "_one", "_same_tables", "_two")

    def __init__(self, one: Module, two: Module) -> None:
        self._one = one
        self._two = two
        self._same_tables = one.stack_tables == two.stack_tables
        self._known: dict[tuple[str, str], tuple[Change, ...]] = {}

    def changes(self, before: Instruction, after: Instruction, one: str, two: str) -> tuple[Change, ...]:
        """Differences of metadata; `one` and `two` are the text of the metadata."""
        if one == two and (self._same_tables or "stack_frame_id" not in one):
            return ()
        if (found := self._known.get((one, two))) is None:
            found = self._known[one, two] = tuple(self._differences(before, after, one, two))
        return found

    def _differences(self, before: Instruction, after: Instruction, one: str, two: str) -> Iterator[Change]:
        old, new = before.metadata, after.metadata
        found_any = False
        for entry in fields(Metadata):
            if entry.name not in _LOCATION_FIELDS:
                x, y = getattr(old, entry.name), getattr(new, entry.name)
                if x != y:
                    found_any = True
                    yield Change("metadata", entry.name, str(x or ""), str(y or ""))
        x, y = self._location(self._one, before), self._location(self._two, after)
        if x != y:
            yield Change("metadata", "source", x, y)
        elif not found_any and one != two and not (old.stack_frame_id or new.stack_frame_id):
            yield Change("metadata", "metadata", one, two)

    @staticmethod
    def _location(module: Module, instruction: Instruction) -> str:
        frames = module.stack_frames.stack(instruction.metadata.stack_frame_id)
        if frames:
            return " < ".join(map(str, frames))
        return str(module.location(instruction) or "")


_LOCATION_FIELDS: Final = (
    "source_file",
    "source_line",
    "source_end_line",
    "source_column",
    "source_end_column",
    "stack_frame_id",
)
