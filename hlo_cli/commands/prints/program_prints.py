"""What does a print of a program, a mesh, or parameters say, before HLO exists?

The forms are those of jax/_src (core.py `pp_jaxpr`, mesh.py, debugging.py `visualize_sharding`), of pytrees of shapes,
and of torch_xla's IR graphs (torch_xla/csrc/ir_dump_util.cpp).
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections import Counter
from collections.abc import Iterator
from functools import cache
from math import prod
from shlex import quote
from typing import Final, NamedTuple

from hlo_cli.commands.prints.shape_text import bytes_of_shape, shape_text, shard_of, without_shardings
from hlo_cli.commands.prints.text_report import text_report
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Table, rows_from, rows_from_tuples
from hlo_cli.syntax.compiler_messages.compiler_errors import user_line

_MOST_NAMED: Final = 4  # the answer is one or two lines
_LARGEST_SIZE: Final = 1 << 63  # sizes are int64 in XLA


class _Value(NamedTuple):
    """A value of a program: its name, its type, the operation that makes it, and its size if the type has one."""

    name: str
    shape: str
    operation: str
    size_bytes: int | None


_VALUES: Final = (
    Column("bytes", "size", "bytes", of=lambda value: value.size_bytes),
    Column("shape", "shape", "shape", of=lambda value: value.shape),
    Column("operation", "operation", of=lambda value: value.operation),
    Column("value", "value", "name", role="name", of=lambda value: value.name),
)


_AXES: Final = lazy_regex(r"@(?:\w++|\([^()\n]{0,200}\))")
"""The axes of a mesh which divide a dimension of a jaxpr's type; its sizes are those of the whole array."""


@cache  # a program of 60,000 values has some hundred types; they are forgotten with the process
def _bytes_of(shape: str) -> int | None:
    return bytes_of_shape(_AXES.sub("", shape))


# --- jaxprs ---

_EQUATION: Final = lazy_regex(r"(?P<results>(?:[a-z_]\w{0,5}:[^\s=]{1,200} )++)(?:= (?P<primitive>[a-z_][\w\-]*+))?")
"""Values with the operation that makes them; without one too, so that none is tried again from its middle."""
_BOUND: Final = lazy_regex(r"\{ *+lambda *+[^;{\n]{0,2000}; *+(?P<arguments>[^{}]{0,20000}?)\. *+let\b")
_VARIABLE: Final = lazy_regex(r"(?P<name>[a-z_]\w{0,5}):(?P<shape>[a-z]\w*\[[^\]\n]{0,200}\])")


def jaxpr_report(pasted: PastedText) -> Report | None:
    """The report on a jaxpr: its operations and its largest values; None if it has no types."""
    equations = [each for each in _EQUATION.finditer(pasted.text) if each["primitive"]]
    bound = _BOUND.search(pasted.text)
    arguments = [_value(match, "argument") for match in _VARIABLE.finditer(bound["arguments"])] if bound else []
    results = [_value(match, each["primitive"]) for each in equations for match in _VARIABLE.finditer(each["results"])]
    if not equations and not arguments:
        return None
    counts = Counter(each["primitive"] for each in equations)
    size, size_words = _total(arguments)
    taken = format_count(len(arguments), "arguments") + (f" ({size_words})" if arguments else "")
    return text_report(
        pasted,
        f"jaxpr of {format_count(len(equations), 'equations')}, {taken}: {_counted(counts)}{_largest(results)}",
        means=("A jaxpr is what JAX traced: before lowering, fusion, and layouts. Its arrays are logical.",),
        tables=_value_table((*arguments, *results)),
        advice=(
            (
                "To create HLO text, use jax.jit(f).lower(x).compile().as_text() or XLA_FLAGS=--xla_dump_to=DIR; then "
                "`hlo DIR` shows memory, fusion, and cost."
            ),
        ),
        numbers={"equations": len(equations), "arguments": len(arguments), "argument_bytes": size},
        next=("hlo help dump",),
    )


def _value(match: re.Match[str], operation: str) -> _Value:
    return _Value(match["name"], match["shape"], operation, _bytes_of(match["shape"]))


def _total(values: list[_Value]) -> tuple[int | None, str]:
    """The bytes of all values, None if some have no size, and the same in words."""
    known = [each.size_bytes for each in values if each.size_bytes is not None]
    unknown = len(values) - len(known)
    if not unknown:
        return sum(known), format_bytes(sum(known))
    return None, f"{format_bytes(sum(known))} and {unknown:,} of unknown size" if known else "of unknown size"


def _counted(counts: Counter[str]) -> str:
    """The operations by how often they occur."""
    listed = [f"{count:,} {name}" for name, count in counts.most_common(_MOST_NAMED)]
    more = len(counts) - len(listed)
    return ", ".join(listed) + (f", and {format_count(more, 'other kinds')}" if more > 0 else "")


def _largest(values: list[_Value]) -> str:
    """The largest value that the program computes, as a clause."""
    known = [(value.size_bytes, value) for value in values if value.size_bytes]
    if not known:
        return ""
    size, value = max(known, key=lambda each: each[0])
    return f"; the largest value is {value.name} {value.shape} ({format_bytes(size)}, {value.operation})"


def _value_table(values: tuple[_Value, ...]) -> tuple[Table, ...]:
    ordered = sorted(values, key=lambda value: -(value.size_bytes or 0))
    return (Table("printed_values", _VALUES, rows_from(_VALUES, ordered), noun="values", limit=8),)


# --- IR graphs of PyTorch/XLA ---

_NODE: Final = lazy_regex(
    r"^ *%(?P<number>\d+) = (?P<shape>\(?[a-z]\w*\[[^\n]{0,2000}?) (?P<operation>(?:xla|aten|prim)::\w+)\(",
    re.MULTILINE,
)
_HASH: Final = lazy_regex(r"Graph Hash: (?P<hash>\w+)")
_TORCH_FRAME: Final = lazy_regex(r"^ +(?P<function>[\w<>.]+) \((?P<place>/?[^()\n:]{1,300}:\d+)\)$", re.MULTILINE)
_DATA: Final = "xla::device_data"


def torch_graph_report(pasted: PastedText) -> Report | None:
    """The report on an IR graph of PyTorch/XLA; None if it has no operations."""
    values = [
        _Value(f"%{match['number']}", match["shape"], match["operation"], _bytes_of(match["shape"]))
        for match in _NODE.finditer(pasted.text)
    ]
    if not values:
        return None
    counts = Counter(value.operation for value in values)
    inputs = [value for value in values if value.operation == _DATA]
    size, size_words = _total(inputs)
    places = [match["place"] for match in _TORCH_FRAME.finditer(pasted.text) if "-packages/" not in match["place"]]
    place = f", ended at {places[0]}" if places else ""
    found = _HASH.search(pasted.text)
    return text_report(
        pasted,
        f"PyTorch/XLA graph of {format_count(len(values), 'operations')}{place}: {_counted(counts)}; "
        f"{format_count(len(inputs), 'inputs')}{f' ({size_words})' if inputs else ''}{_largest(_computed(values))}",
        means=("It is what PyTorch/XLA recorded, before it is lowered to HLO; each new graph is compiled.",),
        tables=_value_table(tuple(values)),
        advice=(
            (
                "For its HLO, set XLA_FLAGS=--xla_dump_to=DIR, or print "
                "torch_xla._XLAC._get_xla_tensors_hlo([tensor]). "
                "Several graphs in one step come from values that Python reads (item, print, if)."
            ),
        ),
        numbers={
            "operations": len(values),
            "inputs": len(inputs),
            "input_bytes": size,
            "hash": found["hash"] if found else None,
            "source": places[0] if places else user_line(pasted.text) or None,
        },
        next=("hlo help dump",),
    )


def _computed(values: list[_Value]) -> list[_Value]:
    return [value for value in values if value.operation != _DATA]


# --- meshes and shardings as drawings ---

_AXIS: Final = lazy_regex(r"'(?P<name>[^'\n]{1,80})': ?(?P<size>\d{1,9})")
_NAMES: Final = lazy_regex(r"axis_names=\((?P<names>[^()\n]{1,400})\)")
_SIZES: Final = lazy_regex(r"axis_sizes=\((?P<sizes>[\d, ]{1,200})\)")
_ROW: Final = lazy_regex(r"\[(?P<ids>[\d,\s]{1,20000})\]")
_CELL: Final = lazy_regex(r"(?P<platform>CPU|GPU|TPU|CUDA|ROCM|METAL) (?P<ids>\d{1,6}(?:,\d{1,6}){0,4095})")


def mesh_report(pasted: PastedText) -> Report | None:
    """The report on the print of a mesh; None if it has no axes, or more devices than a number of XLA."""
    axes = [(match["name"], int(match["size"])) for match in _AXIS.finditer(pasted.text)]
    names = _NAMES.search(pasted.text)
    sizes = _SIZES.search(pasted.text)
    if not axes and names is not None:
        named = [name.strip(" '\"") for name in names["names"].split(",") if name.strip()]
        numbers = [int(each) for each in sizes["sizes"].split(",") if each.strip()] if sizes else _array_sizes(pasted)
        axes = list(zip(named, numbers, strict=False))
    if not axes:
        return None
    devices = prod(size for _, size in axes)
    if devices > _LARGEST_SIZE:
        return None
    columns = (
        Column("axis", "axis", "name", of=lambda name, size, stride: name),
        Column("size", "size", "count", of=lambda name, size, stride: size),
        Column("stride", "ids apart", "count", of=lambda name, size, stride: stride),
    )
    strides = (prod(size for _, size in axes[at + 1 :]) for at in range(len(axes)))
    rows = rows_from_tuples(columns, ((name, size, stride) for (name, size), stride in zip(axes, strides, strict=True)))
    words = " × ".join(f"{name} {size:,}" for name, size in axes)
    return text_report(
        pasted,
        f"Mesh of {format_count(devices, 'devices')}: {words}",
        means=("Devices along the last axis have neighboring numbers, unless the mesh was made with another order.",),
        tables=(Table("mesh_axes", columns, rows, noun="axes"),),
        advice=(
            (
                "A dimension that a spec divides by an axis has to be a multiple of its size. `hlo shard DUMP` "
                "shows what "
                "travels along each axis."
            ),
        ),
        numbers={"devices": devices, "axes": len(axes)},
        next=("hlo help sharding",),
    )


def _array_sizes(pasted: PastedText) -> list[int]:
    """The sizes of a mesh whose devices are printed as a nested list."""
    rows = [row["ids"].count(",") + 1 for row in _ROW.finditer(pasted.text)]
    depth = len(pasted.text) - len(pasted.text.replace("[", ""))
    return [len(rows), rows[0]] if len(rows) > 1 or depth > 1 else rows


def sharding_drawing_report(pasted: PastedText) -> Report | None:
    """The report on what `jax.debug.visualize_array_sharding` draws; None if it has no devices."""
    rows = [cells for line in pasted.text.split("\n") if (cells := list(_CELL.finditer(line)))]
    if not rows:
        return None
    parts = [[tuple(map(int, cell["ids"].split(","))) for cell in row] for row in rows]
    columns = max(map(len, parts))
    devices = {device for row in parts for cell in row for device in cell}
    copies = max(len(cell) for row in parts for cell in row)
    platform = rows[0][0]["platform"]
    kept = f", {copies} copies of each part" if copies > 1 else ""
    one = "the whole array" if len(parts) * columns == 1 else f"{len(parts)} × {columns} parts of an array"
    listed = (
        Column("row", "part", of=lambda at, row: f"row {at}"),
        Column("devices", "devices", of=lambda at, row: "; ".join(", ".join(map(str, cell)) for cell in row)),
    )
    return text_report(
        pasted,
        f"{format_count(len(devices), f'{platform} devices')} hold {one}{kept}",
        means=(
            (
                "Rows are parts along dimension 0, columns along dimension 1; a part has the size of the dimension "
                "divided by their number."
            ),
        ),
        tables=(Table("drawn_parts", listed, rows_from_tuples(listed, enumerate(parts)), noun="rows"),),
        numbers={"devices": len(devices), "rows": len(parts), "columns": columns, "copies": copies},
        next=("hlo help sharding",),
    )


# --- trees of shapes ---


def shape_tree_report(pasted: PastedText) -> Report | None:
    """The report on `jax.tree.map(jnp.shape, params)` and the like: arrays by path; None if it is no such tree."""
    text, shardings = without_shardings(pasted.text.strip())
    try:
        tree = literal_eval(_STRUCT.sub(r"((\1), '\2')", _DTYPE.sub(r"'\1'", text)))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    arrays = list(_leaves(tree, ()))
    if any(kind for _, _, kind in arrays):  # then a `()` without a type is an empty tuple, not a scalar
        arrays = [each for each in arrays if each[1] or each[2]]
    if not arrays:
        return None
    total = sum(prod(sizes) for _, sizes, _ in arrays)
    if total > _LARGEST_SIZE:
        return None
    path, sizes, kind = max(arrays, key=lambda each: prod(each[1]))
    known = [bytes_of_shape(_shape_of(sizes, kind)) for _, sizes, kind in arrays if kind]
    size = sum(each or 0 for each in known) if len(known) == len(arrays) else None
    if size is None:
        bytes_words = f"{format_bytes(4 * total)} in f32, {format_bytes(2 * total)} in bf16"
    else:
        bytes_words = format_bytes(size)
    held = _held(arrays, shardings)
    bytes_words += f", {format_bytes(held)} on each device" if held is not None else ""
    columns = (
        Column("elements", "elements", "count", total="sum", of=lambda path, sizes, kind: prod(sizes)),
        Column("shape", "shape", of=lambda path, sizes, kind: _shape_of(sizes, kind)),
        Column("path", "path", "name", role="name", of=lambda path, sizes, kind: path),
    )
    ordered = sorted(arrays, key=lambda each: -prod(each[1]))
    return text_report(
        pasted,
        f"{format_count(len(arrays), 'arrays')}, {format_count(total, 'elements')} ({bytes_words}): the largest is "
        f"{path}, {prod(sizes):,}",
        tables=(Table("tree_arrays", columns, rows_from_tuples(columns, ordered), noun="arrays", limit=20),),
        numbers={"arrays": len(arrays), "elements": total, "total_bytes": size}
        | ({} if held is None else {"device_bytes": held}),
        next=(f"hlo layout {quote(_shape_of(sizes, kind or 'f32'))}",),
    )


def _held(arrays: list[tuple[str, tuple[int, ...], str]], shardings: tuple[str, ...]) -> int | None:
    """The bytes that each device holds of all arrays; None unless each has a type and a sharding that can be read."""
    if len(arrays) != len(shardings):
        return None
    total = 0
    for (_, sizes, kind), sharding in zip(arrays, shardings, strict=True):
        part = shard_of(shape_text(_shape_of(sizes, kind)), sharding) if kind else None
        if part is None:
            return None
        total += part.logical_bytes
    return total


def _shape_of(sizes: tuple[int, ...], kind: str) -> str:
    return f"{kind}[{','.join(map(str, sizes))}]"


_DTYPE: Final = lazy_regex(r"dtype\((?:'|<class '(?:jax\.numpy\.|numpy\.)?)?(?P<type>\w{1,20})(?:'>|')?\)")
_STRUCT: Final = lazy_regex(
    r"(?:ShapeDtypeStruct\(|Array\(\[\], )shape=\(([\d, ]{0,200})\), dtype=(\w{1,20})(?:, weak_type=\w{1,5})?\)"
)
_DEEPEST: Final = 100  # levels of a tree of parameters; Python's own reader refuses deeper ones


def _leaves(tree: object, path: tuple[str, ...]) -> Iterator[tuple[str, tuple[int, ...], str]]:
    """The shapes of a tree with their paths and types; nothing for a tree that holds anything else."""
    if isinstance(tree, dict) and len(path) < _DEEPEST:
        for key, value in tree.items():
            yield from _leaves(value, (*path, str(key)))
    elif (sizes := _sizes_of(tree)) is not None and path:
        yield "/".join(path), sizes, ""
    elif isinstance(tree, tuple) and len(tree) == 2 and isinstance(tree[1], str) and path:
        if (sizes := _sizes_of(tree[0])) is not None:
            yield "/".join(path), sizes, tree[1]
    elif isinstance(tree, list | tuple) and len(path) < _DEEPEST:
        for at, value in enumerate(tree):
            yield from _leaves(value, (*path, str(at)))


_MOST_DIMENSIONS: Final = 32  # NumPy's own limit was 32


def _sizes_of(leaf: object) -> tuple[int, ...] | None:
    """The sizes of an array; None for what is no shape."""
    if isinstance(leaf, tuple) and len(leaf) <= _MOST_DIMENSIONS:
        return leaf if all(type(each) is int and 0 <= each < _LARGEST_SIZE for each in leaf) else None
    return None
