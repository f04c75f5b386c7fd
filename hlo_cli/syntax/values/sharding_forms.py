"""Which sharding a person means: in the form of HLO, JAX, or Shardy, complete or over a mesh that is given."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.sharding import (
    AnySharding,
    AxisRef,
    DimensionSharding,
    IotaTransform,
    Mesh,
    MeshAxis,
    NamedSharding,
    Sharding,
    ShardingType,
    TupleSharding,
)
from hlo_cli.ir.attributes.sharding import TileAssignment as Tiles
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError, Source, Span, did_you_mean
from hlo_cli.syntax.attribute_table import Kind
from hlo_cli.syntax.scanning import tokens as tk
from hlo_cli.syntax.scanning.tokens import Tokens
from hlo_cli.syntax.values.attribute_values import GRAMMARS, read_value_text

# --- forms that people paste ---
# Shardings in the forms that people paste: as in HLO, as the Python objects of JAX print them, and as in Shardy.


_PREFIX: Final = lazy_regex(r"(?:\w{0,20}+[.:])?+(?:xla_)?+sharding\w{0,20}+[ \t]*+[=:][ \t]*+[\"']?+|[\"']?+")
_ELIDED: Final = lazy_regex(
    r"(\{devices=\[([0-9]{1,9}(?:,[0-9]{1,9})*+)\])[0-9,]*+(?:\.\.\.|\N{HORIZONTAL ELLIPSIS})[0-9,]*+"
)
_MESH_SIZES: Final = lazy_regex(r"\(?['\"](\w++)['\"](?:: |, |=)([0-9]{1,9})\)?")
_MESH_ARRAY: Final = lazy_regex(
    r"device_ids=(?:array\()?+(\[[\[\]0-9,\s]*+)(?:, dtype=\w++)?+\)?+,\s*+axis_names=\(([^)]*+)\)"
)
_SPEC: Final = lazy_regex(r"\b(?:PartitionSpec|P)\(((?:\([^()\n]*+\)|[^()=\n])*+)(=?+)")
_SDY: Final = lazy_regex(r"<(?:@\w++|mesh<\[([^\]]*+)\][^>]*+>), (\[[^\]]*+\])")
_SDY_AXIS: Final = lazy_regex(r"\"(\w++)\"(?:=([0-9]{1,9})|:\(([0-9]{1,9})\)([0-9]{1,9}))?+")
_SDY_AXES: Final = lazy_regex(r"(replicated|unreduced)=\{([^}]*+)\}")
_SDY_DIMENSION: Final = lazy_regex(r"\{([^}]*+)\}")


@dataclass(frozen=True, slots=True)
class GivenSharding:
    """A sharding as given. Without the sizes of the axes there is no `sharding`, only the axes of each dimension."""

    sharding: AnySharding | None
    axes: tuple[tuple[str, ...], ...] = ()
    remarks: tuple[str, ...] = ()


def read_given_sharding(text: str, *, mesh: Mesh | None = None) -> GivenSharding:
    """The sharding in a text, over its own mesh or else over the given `mesh`; HloError if there is none.

    >>> given = read_given_sharding("NamedSharding(mesh=Mesh('x': 2, 'y': 4), spec=PartitionSpec(None, ('y', 'x')))")
    >>> print(given.sharding)
    {mesh['x'=2,'y'=4], [{}, {'y', 'x'}]}
    >>> read_given_sharding("P('x', None)").axes
    (('x',), ())
    """
    plain = text.strip().rstrip(",;.")
    prefix = _PREFIX.match(plain)
    plain = (plain[prefix.end() :] if prefix else plain).rstrip("\"'")
    if "sdy.sharding" in text or plain.startswith("<"):
        return _shardy(plain, mesh)
    if not plain.startswith("{"):
        if "{" in plain and "GSPMDSharding" in plain:
            return read_given_sharding(plain[plain.index("{") : plain.rindex("}") + 1])
        return _python(plain, mesh)
    plain, remarks = _with_all_devices(plain)
    value = read_value_text(Kind.SHARDING, plain)
    if not isinstance(value, Sharding | NamedSharding | TupleSharding):
        value, more = _of_tiles(plain)
        remarks += more
    return GivenSharding(value, remarks=remarks)


def _of_tiles(text: str) -> tuple[Sharding, tuple[str, ...]]:
    """A sharding that XLA does not read, by its tiles alone; HloError if it has none."""
    tiles = re.search(r"devices=\[([0-9]{1,9}(?:,[0-9]{1,9})*+)\]", text)
    if tiles is None:
        raise HloError(f"cannot read the sharding {text}", hint="a sharding is such as {devices=[2,4]<=[8]}")
    sizes = tuple(map(int, tiles[1].split(",")))
    sharding = Sharding(
        ShardingType.TILED,
        Tiles(sizes, IotaTransform((_product(sizes),))),
        replicate_on_last_tile_dim="last_tile_dim_replicate" in text,
    )
    return sharding, ("XLA does not read the list of devices; using 0, 1, 2, and so on",)


def _with_all_devices(text: str) -> tuple[str, tuple[str, ...]]:
    """The text with an elided list of devices replaced by the devices in ascending order."""
    if (match := _ELIDED.match(text)) is None:
        return text, ()
    count = _product(map(int, match[2].split(",")))
    whole = f"{match[1]}<=[{count}]{text[match.end() :]}"
    return whole, ("the list of devices is elided; using 0, 1, 2, and so on",)


def _python(text: str, given_mesh: Mesh | None) -> GivenSharding:
    if text.startswith("SingleDeviceSharding"):
        device = re.search(r"id=([0-9]{1,9})", text)
        return GivenSharding(Sharding(ShardingType.MAXIMAL, device=int(device[1]) if device else 0))
    spec = _SPEC.search(text)
    if spec is None:
        raise HloError("expected a sharding such as {devices=[2,4]<=[8]} or a PartitionSpec")
    arguments = spec[1].rpartition(",")[0] if spec[2] else spec[1]
    axes = _spec_axes(arguments.rstrip(", "))
    dimensions = tuple(DimensionSharding(tuple(map(AxisRef, names))) for names in axes)
    return _over(_python_mesh(text[: spec.start()]) or given_mesh, NamedSharding(Mesh(()), dimensions))


def _spec_axes(arguments: str) -> tuple[tuple[str, ...], ...]:
    """The axes of each dimension in the arguments of a PartitionSpec."""
    try:
        entries = ast.literal_eval(f"({arguments.replace('UNCONSTRAINED', 'None')},)") if arguments.strip() else ()
    # all that `ast.literal_eval` raises for damaged literals
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise HloError(f"cannot read PartitionSpec({arguments})") from error
    return tuple(
        (entry,) if isinstance(entry, str) else tuple(map(str, entry)) if isinstance(entry, tuple) else ()
        for entry in entries
    )


def _python_mesh(text: str) -> Mesh | None:
    if (listed := _MESH_ARRAY.search(text)) is not None:
        names = re.findall(r"['\"](\w+)['\"]", listed[2])
        try:
            sizes, devices = _array(json.loads(listed[1].rstrip(", \n")))
        except (ValueError, RecursionError):  # json recurses once for each nested list
            return None
        if len(sizes) != len(names):
            return None
        is_plain = devices == tuple(range(len(devices)))
        axes = tuple(map(MeshAxis, names, sizes))
        return Mesh(axes, None if is_plain else devices)
    axis_sizes = _MESH_SIZES.findall(text)
    return Mesh(tuple(MeshAxis(name, int(size)) for name, size in axis_sizes)) if axis_sizes else None


def _array(value: object) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The sizes and the numbers of nested lists."""
    if not isinstance(value, list):
        return (), (int(str(value)),)
    inner = [_array(item) for item in value]
    return (len(value), *inner[0][0]), tuple(number for _, numbers in inner for number in numbers)


def _shardy(text: str, mesh: Mesh | None) -> GivenSharding:
    match = _SDY.search(text)
    if match is None:
        raise HloError('expected a sharding such as #sdy.sharding<@mesh, [{"x"}, {}]>')
    dimensions = tuple(
        DimensionSharding(_shardy_axes(listed), is_closed="?" not in listed)
        for listed in _SDY_DIMENSION.findall(match[2])
    )
    others = {word: _shardy_axes(listed) for word, listed in _SDY_AXES.findall(text, match.end())}
    if match[1] is not None:
        mesh = Mesh(tuple(MeshAxis(name, int(size)) for name, size, _, _ in _SDY_AXIS.findall(match[1]) if size))
    replicated, unreduced = others.get("replicated", ()), others.get("unreduced", ())
    return _over(mesh, NamedSharding(Mesh(()), dimensions, replicated, unreduced))


def _shardy_axes(text: str) -> tuple[AxisRef, ...]:
    return tuple(
        AxisRef(name, int(pre), int(size)) if size else AxisRef(name) for name, _, pre, size in _SDY_AXIS.findall(text)
    )


def _over(mesh: Mesh | None, sharding: NamedSharding) -> GivenSharding:
    """The sharding over a mesh; the axes of its dimensions alone if the mesh is unknown or does not have them."""
    axes = tuple(tuple(axis.name for axis in dimension.axes) for dimension in sharding.dim_shardings)
    names = {axis.name for axis in mesh.axes} if mesh else set()
    used = {axis.name for axis in (*sharding.replicated_axes, *sharding.unreduced_axes)}
    if mesh is None or not used.union(*axes) <= names:
        return GivenSharding(None, axes)
    for axis in (axis for dimension in sharding.dim_shardings for axis in dimension.axes if axis.size is not None):
        whole, pre = mesh.size_of(AxisRef(axis.name)), axis.pre_size or 1
        if pre < 1 or not 2 <= mesh.size_of(axis) < whole or whole % (pre * mesh.size_of(axis)):
            raise HloError(f"({pre}){axis.size} is not a valid sub-axis of size {whole}")
    return GivenSharding(_checked(replace(sharding, mesh=mesh)), axes)


def _checked(sharding: NamedSharding) -> NamedSharding:
    if (problem := sharding.problem) is not None:
        raise HloError(problem)
    return sharding


def _product(sizes: Sequence[int] | map[int]) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product


# --- shardings as arguments ---
# Complete, over a mesh that is in the text or given, with the place of an error.


@dataclass(frozen=True, slots=True)
class ShardingText:
    """A sharding, and remarks on what is not in its text."""

    sharding: AnySharding
    remarks: tuple[str, ...] = ()


def read_sharding_text(text: str, *, mesh: Mesh | None = None, rank: int | None = None) -> ShardingText:
    """The sharding in a text; HloError, with its span, if it cannot be read or names an axis that no mesh has.

    A PartitionSpec is over the given mesh, and may omit dimensions if the `rank` of the array is given.

    >>> from hlo_cli.ir.attributes.sharding import MeshAxis
    >>> print(read_sharding_text("P(None, 'x')", mesh=Mesh((MeshAxis("x", 2),))).sharding)
    {mesh['x'=2], [{}, {'x'}]}
    """
    source = Source("", text)
    is_hlo = text.lstrip().startswith("{")
    try:
        given = read_given_sharding(text, mesh=mesh)
    except HloError as error:
        if is_hlo:
            _read_strictly(source)
        raise HloError(
            error.diagnostic.message, Span(0, len(text)), source=source, hint=error.diagnostic.hint
        ) from error
    if is_hlo and given.remarks and not _is_elided(text):
        _read_strictly(source)
    if given.sharding is None:
        raise _mesh_error(given, source, mesh)
    sharding = given.sharding
    if not is_hlo and rank is not None and isinstance(sharding, NamedSharding):
        missing = rank - len(sharding.dim_shardings)
        sharding = replace(sharding, dim_shardings=(*sharding.dim_shardings, *(DimensionSharding(),) * missing))
    return ShardingText(sharding, given.remarks)


def _read_strictly(source: Source) -> None:
    """Raises HloError with the place where the text stops to be a sharding."""
    tokens = Tokens(source)
    GRAMMARS[Kind.SHARDING](tokens)
    if tokens.kind != tk.END:
        tokens.fail("expected the end of the sharding", tokens.start, tokens.end)


def _is_elided(text: str) -> bool:
    return "..." in text or "\N{HORIZONTAL ELLIPSIS}" in text


def _mesh_error(given: GivenSharding, source: Source, mesh: Mesh | None) -> HloError:
    """An error about an axis that the mesh does not have, or about a missing mesh."""
    used = list(dict.fromkeys(name for names in given.axes for name in names))
    if mesh is None:
        axes = ",".join(f"{name}=2" for name in used) or "data=2"
        return HloError("the mesh is not in the text", hint=f"give the sizes of its axes, such as --mesh {axes}")
    names = [axis.name for axis in mesh.axes]
    unknown = next((name for name in used if name not in names), used[0] if used else "")
    return HloError(
        f"unknown mesh axis '{unknown}'", _place(source, unknown), source=source, hint=_hint(unknown, names)
    )


def _place(source: Source, name: str) -> Span:
    match = re.search(rf"(?<![\w.\-]){re.escape(name)}(?![\w.\-])", source.text)
    return Span(match.start(), match.end()) if match else Span(0, len(source.text))


def _hint(name: str, names: Sequence[str]) -> str | None:
    if close := get_close_matches(name, names, 1):
        return did_you_mean(close[0])
    return f"the mesh has {', '.join(names)}"
