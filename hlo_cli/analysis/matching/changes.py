"""How an instruction differs from its pair, in the words that people ask in: layout, tiling, memory space, attributes.

The kinds are finer than those of xla/hlo/tools/hlo_diff/hlo_diff_summary.h, and every change says from what to what.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Final, Literal, get_args

from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attribute_traits import NAMING_ATTRIBUTES
from hlo_cli.ir.attributes.annotations import Json
from hlo_cli.ir.attributes.metadata import Metadata
from hlo_cli.ir.index_text import index_suffix, index_text
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
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
"""What can change, in the order in which it is told."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that changed; `name` says which attribute, key, operand or element, empty where the kind says all.

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
        """What changed, in words.

        >>> Change("memory_space", "{1}", "S(0)", "S(1)").label, Change("metadata", "op_name", "a", "b").label
        ('memory space {1}', 'op_name')
        """
        if self.name and not self.name.startswith("{"):
            return self.name
        return f"{self.kind.replace('_', ' ')} {self.name}".rstrip()


def shape_changes(before: Shape, after: Shape) -> Iterator[Change]:
    """How two shapes differ: in type and sizes, or in how the same elements lie.

    >>> from hlo_cli.syntax.scanning.shapes import parse_shape
    >>> [str(c) for c in shape_changes(parse_shape("f32[8,16]{0,1}"), parse_shape("f32[8,16]{1,0:T(8,128)}"))]
    ['layout {0,1} → {1,0}', 'tiling none → T(8,128)']
    """
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


def said_changes(before: Instruction, after: Instruction) -> Iterator[Change]:
    """How two instructions differ in what they say of themselves, names and metadata aside."""
    if before.written_opcode != after.written_opcode:
        yield Change("opcode", "", before.written_opcode, after.written_opcode)
    yield from shape_changes(before.shape, after.shape)
    yield from _argument_changes(before, after)
    yield from _element_changes(before, after)
    old = {a.name: a.value for a in before.attributes if a.name not in NAMING_ATTRIBUTES and a.name != "metadata"}
    new = {a.name: a.value for a in after.attributes if a.name not in NAMING_ATTRIBUTES and a.name != "metadata"}
    for name in dict.fromkeys((*old, *new)):
        one, two = old.get(name, ""), new.get(name, "")
        if one == two:
            continue
        if name == "backend_config":
            yield from _config_changes(before, after, one, two)
        else:
            yield Change("sharding" if name == "sharding" else "attributes", name, one, two)


def _argument_changes(before: Instruction, after: Instruction) -> Iterator[Change]:
    one, two = before.raw[0], after.raw[0]
    if one.strip() == two.strip() or opcodes.CONSTANT not in (before.opcode, after.opcode):
        return
    yield Change("constants", "value", one.strip(), two.strip())


def _element_changes(before: Instruction, after: Instruction) -> Iterator[Change]:
    """Which elements of its operands an instruction takes, where the text says it there."""
    for slot in range(min(len(before.operands), len(after.operands))):
        one, two = before.operand_index(slot), after.operand_index(slot)
        if one != two:
            yield Change("operands", f"operand {slot}", _index(one), _index(two))


def _index(index: tuple[int, ...]) -> str:
    return "".join(f"#{i}" for i in index)


def _config_changes(before: Instruction, after: Instruction, one: str, two: str) -> Iterator[Change]:
    """Differences of two configurations, key by key where both are JSON."""
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
    """Every value that is no object, with the keys that lead to it."""
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


class Origins:
    """Compares where instructions come from; the numbers of stack frames mean something in one module alone."""

    __slots__ = ("_known", "_one", "_same_tables", "_two")

    def __init__(self, one: Module, two: Module) -> None:
        self._one = one
        self._two = two
        self._same_tables = one.stack_tables == two.stack_tables
        self._known: dict[tuple[str, str], tuple[Change, ...]] = {}

    def changes(self, before: Instruction, after: Instruction, one: str, two: str) -> tuple[Change, ...]:
        """How the metadata differs, given as text too."""
        if one == two and (self._same_tables or "stack_frame_id" not in one):
            return ()
        if (found := self._known.get((one, two))) is None:
            found = self._known[one, two] = tuple(self._differences(before, after, one, two))
        return found

    def _differences(self, before: Instruction, after: Instruction, one: str, two: str) -> Iterator[Change]:
        old, new = before.metadata, after.metadata
        said = False
        for field in fields(Metadata):
            if field.name not in _PLACES:
                x, y = getattr(old, field.name), getattr(new, field.name)
                if x != y:
                    said = True
                    yield Change("metadata", field.name, str(x or ""), str(y or ""))
        x, y = self._place(self._one, before), self._place(self._two, after)
        if x != y:
            yield Change("metadata", "source", x, y)
        elif not said and one != two and not (old.stack_frame_id or new.stack_frame_id):
            yield Change("metadata", "metadata", one, two)

    @staticmethod
    def _place(module: Module, instruction: Instruction) -> str:
        frames = module.stack_frames.stack(instruction.metadata.stack_frame_id)
        if frames:
            return " < ".join(map(str, frames))
        return str(module.location(instruction) or "")


_PLACES: Final = (
    "source_file",
    "source_line",
    "source_end_line",
    "source_column",
    "source_end_column",
    "stack_frame_id",
)
