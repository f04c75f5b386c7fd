"""Which shape an MLIR type is, which literal a `dense` is, and which sharding Shardy states.

Mirrors xla/hlo/translate/mhlo_to_hlo (types, literals) and xla/service/spmd/shardy (shardings).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from math import prod
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.layout import PRIMITIVE_TYPES
from hlo_cli.ir.shape import ArrayShape, Shape, TokenShape, TupleShape
from hlo_cli.source import HloError, Source
from hlo_cli.syntax.literal_dense import NUMBERS, stored_values
from hlo_cli.syntax.scanning.shape_reader import parse_shape
from hlo_cli.syntax.stablehlo.scanning import (
    MAX_DEPTH,
    AttributeOf,
    Dense,
    Entries,
    ListOf,
    Number,
    Other,
    Word,
    integer_of,
)

# --- types ---

_TENSOR: Final = re.compile(r"(?:tensor|vector|memref)<((?:[0-9]{1,18}x|\?x)*+)(?:\*x)?(.+)>", re.DOTALL)
_BOUNDS: Final = re.compile(
    r"\s*+#(?:stablehlo|mhlo)\.(?:bounds|type_extensions)<(?:bounds\s*+=\s*+\[)?([^<>\[\]]*+)\]?>"
)
_QUANTIZED: Final = re.compile(r"!quant\.\w++<([ui]+[0-9]+)")
_INTEGER: Final = re.compile(r"(u?)s?i([0-9]{1,3})")
_ENDS: Final = re.compile(r"[<>,()]|->")


@lru_cache(maxsize=4096)
def shape_of(type_: str) -> Shape:
    """The shape of a value of an MLIR type; HloError for a type that HLO lacks.

    >>> str(shape_of("tensor<2x?xcomplex<f32>>")), str(shape_of("tuple<tensor<i1>, !stablehlo.token>"))
    ('c64[2,?]{1,0}', '(pred[], token[])')
    >>> str(shape_of("tensor<?x4xui8, #stablehlo.bounds<8, ?>>"))
    'u8[<=8,4]{1,0}'
    """
    return _shape_of(type_, 0)


def _shape_of(type_: str, depth: int) -> Shape:
    if depth > MAX_DEPTH:
        raise HloError(f"types are nested too deeply (limit {MAX_DEPTH})")
    if type_.startswith("!") and type_.endswith(".token"):
        return TokenShape()
    if type_.startswith("tuple<"):
        return TupleShape(tuple([_shape_of(part, depth + 1) for part in split_commas(type_[6:-1])]))
    match = _TENSOR.fullmatch(type_)
    sizes = match[1].split("x")[:-1] if match else []
    element, _, encoding = (match[2] if match else type_).partition(",")
    name = element_type_name(element.strip())
    if name is None:
        raise HloError(f"unknown type {type_[:100]}")
    bounds = _BOUNDS.match(encoding)
    if bounds is not None:
        limits = [bound.strip() for bound in bounds[1].split(",")]
        pairs = zip(sizes, limits, strict=False)
        sizes = [f"<={limit}" if size == "?" and limit.isdecimal() else size for size, limit in pairs]
    return parse_shape(f"{name}[{','.join(sizes)}]")


@lru_cache(maxsize=256)
def element_type_name(name: str) -> str | None:
    """XLA's name of an element type of MLIR; None for others. A quantized type is that of its stored values.

    >>> [element_type_name(each) for each in ("i1", "ui8", "i32", "f8E4M3FN", "complex<f64>", "index")]
    ['pred', 'u8', 's32', 'f8e4m3fn', 'c128', 's64']
    """
    if name in ("i1", "index"):
        return "pred" if name == "i1" else "s64"
    if name.startswith("complex<"):
        return {"complex<f32>": "c64", "complex<f64>": "c128"}.get(name)
    if (match := _QUANTIZED.match(name)) is not None:
        name = match[1]
    if (match := _INTEGER.fullmatch(name)) is not None:
        name = f"{match[1] or 's'}{match[2]}"
    return name.lower() if name.lower() in PRIMITIVE_TYPES else None


def split_commas(text: str) -> list[str]:
    """The parts of a text between commas outside of brackets.

    >>> split_commas('<@m, [{"x", "y"}, {}]>, tensor<2xf32>')
    ['<@m, [{"x", "y"}, {}]>', 'tensor<2xf32>']
    """
    depth, start, parts = 0, 0, list[str]()
    is_string = False
    for index, character in enumerate(text):
        if character == '"':
            is_string = not is_string
        elif is_string:
            continue
        elif character in "<([{":
            depth += 1
        elif character in ")]}" or (character == ">" and text[index - 1 : index] != "-"):
            depth -= 1
        elif character == "," and not depth:
            parts.append(text[start:index].strip())
            start = index + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


# --- attributes ---


def enumerated(value: AttributeOf | None) -> str:
    """The word of an enumeration: `LT` of `LT` and of `#stablehlo<comparison_direction LT>`; empty without one."""
    if isinstance(value, Entries) and len(value.fields) == 1:
        return enumerated(next(iter(value.fields.values())))
    return value.text if isinstance(value, Word) else ""


def integers(value: AttributeOf | None, source: Source) -> tuple[int, ...]:
    """The integers of an attribute: a number, a list, an array, or a dense tensor; nested lists are flat.

    >>> integers(ListOf((Number("1"), ListOf((Number("2"),)))), Source("", ""))
    (1, 2)
    """
    match value:
        case Number():
            number = value.value
            return () if number is None else (number,)
        case ListOf():
            return tuple(chain.from_iterable(integers(item, source) for item in value.items))
        case Dense():
            return _dense_integers(value, source)
        case Word(text="true" | "false"):
            return (int(value.text == "true"),)
    return ()


def _dense_integers(value: Dense, source: Source) -> tuple[int, ...]:
    text = source.slice(value.body)
    count = shape_of(value.type)
    size = count.elements if isinstance(count, ArrayShape) else 0
    if '"' in text:
        return tuple([int(number) for number in stored_values(text, count).ravel().tolist()])
    values = [integer_of(token) if token[0] not in "tf" else int(token == "true") for token in NUMBERS.findall(text)]
    numbers = tuple([0 if value is None else value for value in values])
    return numbers * size if len(numbers) == 1 and size <= _MAX_SPLAT and "[" not in text else numbers


_MAX_SPLAT: Final = 1 << 16
"""Numbers in an attribute that is written as one: no list of dimensions, pairs, or groups is longer."""


# --- shardings ---

_AXIS: Final = re.compile(r'"([^"]*+)"(?::\(([0-9]{1,9})\)([0-9]{1,9}))?+')
_MESH_AXIS: Final = re.compile(r'"([^"]*+)"=([0-9]{1,9})')
_DEVICE_IDS: Final = re.compile(r"device_ids\s*+=\s*+\[([0-9,\s]*+)\]")
_SHARDING: Final = re.compile(r"\s*+(?:#sdy\.sharding)?<\s*+(@[\w$.\-\"]++|mesh<.*?>)\s*+,\s*+(.*)>\s*+", re.DOTALL)
_PER_VALUE: Final = re.compile(r"\s*+(?:#sdy\.sharding_per_value<)?\[(.*)\]>?\s*+", re.DOTALL)
_MOST_DEVICES: Final = 1 << 20
"""Devices of a mesh that are listed one by one."""


@dataclass(frozen=True, slots=True)
class Mesh:
    """A mesh of Shardy: its text, its axes, and the devices if they are not in order."""

    text: str
    axes: tuple[tuple[str, int], ...]
    devices: tuple[int, ...] = ()


def mesh_of(text: str) -> Mesh:
    """The mesh in `<["x"=2, "y"=4]>`.

    >>> mesh_of('<["x"=2, "y"=4]>').axes
    (('x', 2), ('y', 4))
    """
    match = _DEVICE_IDS.search(text)
    devices = tuple(map(int, re.findall(r"[0-9]{1,9}", match[1]))) if match else ()
    return Mesh(text, tuple([(name, int(size)) for name, size in _MESH_AXIS.findall(text)]), devices)


def shardings_in(text: str) -> list[str]:
    """The shardings in a list of them, one for each value.

    >>> shardings_in('#sdy.sharding_per_value<[<@m, [{}]>, <@m, []>]>')
    ['<@m, [{}]>', '<@m, []>']
    """
    match = _PER_VALUE.fullmatch(text)
    return split_commas(match[1]) if match else []


def hlo_sharding(text: str, meshes: Mapping[str, Mesh]) -> str | None:
    """The sharding of HLO for one of Shardy; None if the mesh is not in the text, or for a form that HLO lacks.

    >>> hlo_sharding('<@m, [{"y"}, {}]>', {"m": mesh_of('<["x"=2, "y"=2]>')})
    '{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}'
    """
    match = _SHARDING.fullmatch(text)
    if match is None:
        return None
    name = match[1]
    mesh = meshes.get(name[1:].strip('"')) if name.startswith("@") else mesh_of(name)
    if mesh is None:
        return None
    if not mesh.axes:
        return f"{{maximal device={mesh.devices[0]}}}" if mesh.devices else "{replicated}"
    parts = split_commas(match[2])
    listed = parts[0].strip() if parts else ""
    dimensions = [_axes(part) for part in split_commas(listed[1:-1])] if listed.startswith("[") else []
    return _tiled(mesh, dimensions, unreduced="unreduced" in match[2])


_Axis = tuple[str, int, int]
"""A name, and the product of the sizes before a part of it, and the part's size; 0 of a whole axis."""


def _axes(text: str) -> list[_Axis]:
    return [(name, int(before or 0), int(size or 0)) for name, before, size in _AXIS.findall(text)]


def _tiled(mesh: Mesh, dimensions: Sequence[Sequence[_Axis]], *, unreduced: bool) -> str | None:
    """The sharding for the axes of each dimension; the axes that no dimension has replicate."""
    if unreduced:
        return None
    factors = _factors(mesh, chain.from_iterable(dimensions))
    order: list[int] = []
    tiles = []
    for dimension in dimensions:
        own = [i for axis in dimension for i in _factors_of(axis, mesh, factors)]
        order += own
        tiles.append(prod(factors[i][2] for i in own))
    rest = [i for i in range(len(factors)) if i not in set(order)]
    replicas = prod(factors[i][2] for i in rest)
    if all(tile == 1 for tile in tiles):
        return "{replicated}"
    end = " last_tile_dim_replicate" if replicas > 1 else ""
    tiles += [replicas] if replicas > 1 else []
    sizes = [size for _, _, size in factors]
    return f"{{devices=[{_joined(tiles)}]{_devices(mesh, sizes, [*order, *rest])}{end}}}"


def _factors(mesh: Mesh, axes: Iterable[_Axis]) -> list[_Axis]:
    """The mesh as axes of which each is used as a whole: parts of axes are axes of their own."""
    cuts: dict[str, set[int]] = {name: {1, size} for name, size in mesh.axes}
    for name, before, size in axes:
        if size and name in cuts:
            cuts[name] |= {before, before * size}
    found = []
    for name, total in mesh.axes:
        points = sorted(cut for cut in cuts[name] if cut and total % cut == 0)
        found += [(name, one, other // one) for one, other in pairwise(points)]
        if total == 1:
            found.append((name, 1, 1))
    return found


def _factors_of(axis: _Axis, mesh: Mesh, factors: Sequence[_Axis]) -> list[int]:
    name, before, size = axis
    least, most = (before, before * size) if size else (1, dict(mesh.axes).get(name, 0))
    return [i for i, (n, at, part) in enumerate(factors) if n == name and least <= at and at * part <= most]


def _joined(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


def _devices(mesh: Mesh, sizes: Sequence[int], order: Sequence[int]) -> str:
    """The devices in the order of the tiles: `<=[8]`, `<=[2,4]T(1,0)`, or a list of them."""
    if mesh.devices:
        count = prod(sizes)
        if count != len(mesh.devices) or count > _MOST_DEVICES:
            return f"<=[{count}]"
        return _joined(mesh.devices[i] for i in _transposed(sizes, order))
    # XLA's `IotaTileAssignment` drops axes of size 1 and joins those that stay next to each other
    kept = [i for i in order if sizes[i] != 1]
    runs: list[list[int]] = []
    for i in kept:
        if runs and not any(sizes[j] != 1 for j in range(runs[-1][-1] + 1, i)) and i > runs[-1][-1]:
            runs[-1].append(i)
        else:
            runs.append([i])
    ordered = sorted(runs)
    joined = _joined(prod(sizes[i] for i in run) for run in ordered) or "1"
    turned = [ordered.index(run) for run in runs]
    return f"<=[{joined}]" + (f"T({_joined(turned)})" if turned != sorted(turned) else "")


def _transposed(sizes: Sequence[int], order: Sequence[int]) -> Iterator[int]:
    """The positions of an array of these sizes after its dimensions were put into another order."""
    strides = [prod(sizes[i + 1 :]) for i in range(len(sizes))]
    for position in range(prod(sizes)):
        rest, found = position, 0
        for i in reversed(order):
            rest, index = divmod(rest, sizes[i])
            found += index * strides[i]
        yield found


def text_of(value: AttributeOf, source: Source) -> str:
    """An attribute as text, such as that of a dictionary."""
    match value:
        case Other() | Word():
            return value.text
        case Number():
            return f"{value.text} : {value.type}" if value.type else value.text
        case ListOf():
            return f"[{', '.join(text_of(item, source) for item in value.items)}]"
        case Entries():
            return "{" + ", ".join(f"{key} = {text_of(field, source)}" for key, field in value.fields.items()) + "}"
        case Dense():
            return f"dense<{source.slice(value.body)}> : {value.type}"
    return '"' + value.value.replace("\\", "\\\\").replace('"', '\\"') + '"'
