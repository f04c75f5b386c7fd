"""Which array does a command line give? A shape with one or two shardings, or an instruction of a dump."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.sharding import AnySharding, Mesh, NamedSharding, TupleSharding
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import Diagnostic, HloError, Source, Span, counted

if TYPE_CHECKING:
    from hlo_cli.analysis.sharding.meshes import KnownMesh
    from hlo_cli.commands.options.io_options import InputOptions
    from hlo_cli.commands.shape.argument import NamedShape
    from hlo_cli.commands.shard.options import ShardOptions


_SHARDING_STARTS = lazy_regex(
    r"(?<=[\]})\s])\s*+(?:\{(?=\s*+(?:devices=|(?:maximal_)?mesh\[|replicated|maximal|manual|unreduced|unknown|\{))"
    r"|(?=(?:PartitionSpec|P|NamedSharding)\())"
)
_INSTRUCTION = lazy_regex(r"\s*+(?:ROOT\s++)?+%?+[A-Za-z_][\w.\-]*+\s*+=")
_TILES = lazy_regex(
    r"devices=(\[[0-9, ]*+\])|,\s*+(\[(?:[^\]\"']|'[^']*+'|\"[^\"]*+\")*+\])|\b(?:PartitionSpec|P)(\(.*\))"
)


@dataclass(frozen=True, slots=True)
class GivenArray:
    """A whole shape, its sharding, and the sharding to take it to, if there is one.

    `mesh` is given by --mesh, or named in the sharding or the dump, which `mesh_origin` says; `named` is the
    instruction of DUMP:NAME. `has_layout` if the layout is in the text or in the dump; `is_estimated` if the layout of
    a shard is not known.
    """

    shape: Shape
    sharding: AnySharding
    target: AnySharding | None
    mesh: Mesh | None
    named: NamedShape | None = None
    mesh_origin: str = ""
    has_layout: bool = False
    is_estimated: bool = False
    notes: tuple[Diagnostic, ...] = ()
    text: tuple[str, ...] = ()
    """The arguments that give the array, without a target."""
    device_count: int | None = None
    """The number of devices, also of a sharding that does not list them; None if unknown."""


class _NamedValue(NamedTuple):
    """What a dump says of an instruction: shape and sharding on all devices, the mesh, and notes."""

    shape: Shape
    sharding: AnySharding
    mesh: KnownMesh | None
    is_estimated: bool
    notes: tuple[Diagnostic, ...]


def given_array(inputs: tuple[str, ...], options: ShardOptions, reading: InputOptions) -> GivenArray:
    """The array of SHAPE SHARDING [SHARDING] or DUMP:NAME; HloError, with its place, if a part cannot be read."""
    from hlo_cli.commands.shape.argument import is_hlo_text, resolve_name

    texts = _separated(inputs)
    named = None if is_hlo_text(texts[0]) else resolve_name(texts[0], reading)
    array = _of_text(texts, options) if named is None else _of_dump(named, texts, options)
    _check_mesh(array, options)
    return replace(array, text=texts[: 1 if array.named is not None else 2])


def _separated(inputs: tuple[str, ...]) -> tuple[str, ...]:
    """The inputs, with a shape and its sharding in one argument as two."""
    first, *rest = inputs
    # An instruction has its sharding as an attribute, which the parser reads.
    if _INSTRUCTION.match(first) or (match := _SHARDING_STARTS.search(first)) is None or not match.start():
        return inputs
    return (first[: match.start()].rstrip(), first[match.start() :].strip(), *rest)


def _of_text(texts: tuple[str, ...], options: ShardOptions) -> GivenArray:
    from hlo_cli.commands.shape.explained import has_layout, typed_shape

    typed = typed_shape(texts[0])
    shardings = list(texts[1:])
    if not shardings and _INSTRUCTION.match(texts[0]):
        shardings += [text for text in (_sharding_of_instruction(texts[0]),) if text]
    if not shardings:
        # The hint divides the first dimension alone, which most arrays have.
        tiles = "2" + ",1" * (typed.shape.rank - 1 if isinstance(typed.shape, ArrayShape) else 0)
        shape = typed.shape.to_string(layout=False)
        raise HloError(
            "expected a sharding after the shape",
            hint=f"for example `hlo shard '{shape}' '{{devices=[{tiles}]<=[2]}}'`",
        )
    is_given = has_layout(typed.shape, typed.text)
    return _of_shape(typed.shape, shardings, options, has_layout=is_given, notes=typed.notes)


def _of_shape(
    shape: Shape, texts: Sequence[str], options: ShardOptions, *, has_layout: bool, notes: Sequence[Diagnostic]
) -> GivenArray:
    """A shape with one or two shardings, or with one and that of --to."""
    shardings = [*texts, *([options.to] if options.to is not None else [])]
    if len(shardings) > 2:
        raise HloError(f"expected one or two shardings, found {len(shardings)}")
    (sharding, remarks), *others = [_read_sharding(text, shape, options.given_mesh) for text in shardings]
    mesh, origin = _mesh_in(sharding, options)
    return GivenArray(
        shape,
        sharding,
        others[0][0] if others else None,
        mesh,
        mesh_origin=origin,
        has_layout=has_layout,
        device_count=_device_count(sharding) if mesh is None else mesh.device_count,
        notes=(*notes, *remarks, *(note for _, more in others for note in more)),
    )


def _of_dump(named: NamedShape, texts: tuple[str, ...], options: ShardOptions) -> GivenArray:
    from hlo_cli.analysis.sharding.entry_arrays import partitions_of

    if len(texts) > 1 and not _has_sharding(named):
        return _of_shape(named.shape, texts[1:], options, has_layout=True, notes=_shape_notes(named))
    value = _named_value(named, options.given_mesh)
    mesh = value.mesh.mesh if value.mesh is not None else None
    targets = [*texts[1:], *([options.to] if options.to is not None else [])]
    if len(targets) > 1:
        raise HloError(f"expected one sharding after {texts[0]}, found {len(targets)}")
    read = [_read_sharding(text, value.shape, options.given_mesh or mesh) for text in targets]
    return GivenArray(
        value.shape,
        value.sharding,
        read[0][0] if read else None,
        mesh,
        named,
        value.mesh.origin if value.mesh is not None else "",
        has_layout=True,
        is_estimated=value.is_estimated,
        device_count=partitions_of(named.loaded.module),
        notes=(*value.notes, *(note for _, more in read for note in more)),
    )


def _has_sharding(named: NamedShape) -> bool:
    """Whether the dump, or its sibling before optimizations, says how the value is divided."""
    from hlo_cli.analysis.sharding.entry_arrays import array_of_value

    for index, _ in named.shape.leaves:
        array = array_of_value(named.loaded.module, named.instruction, (*named.index, *index))
        if array is not None and array.sharding is not None:
            return True
    return False


def _shape_notes(named: NamedShape) -> tuple[Diagnostic, ...]:
    """A note on the shape of an instruction that has no sharding of its own."""
    from hlo_cli.analysis.sharding.entry_arrays import is_partitioned, partitions_of

    module = named.loaded.module
    if partitions_of(module) == 1 or not is_partitioned(module):
        return ()
    return (Diagnostic("note", f"the shape of {named.instruction.name} in the dump is that of one device"),)


def _named_value(named: NamedShape, mesh: Mesh | None) -> _NamedValue:
    """The value of an instruction: an array, or a tuple with a sharding for each leaf."""
    from hlo_cli.commands.shard.dump import named_array

    if not isinstance(named.shape, TupleShape) or not any(True for _ in named.shape.leaves):
        array = named_array(named, mesh)
        return _NamedValue(array.shape, array.sharding, array.mesh, array.is_estimated, array.notes)
    leaves = [
        named_array(replace(named, shape=leaf, index=(*named.index, *index)), mesh)
        for index, leaf in named.shape.leaves
    ]
    shardings = TupleSharding(tuple(leaf.sharding for leaf in leaves))
    notes = tuple(dict.fromkeys(note for leaf in leaves for note in leaf.notes))
    shape = _with_leaves(named.shape, iter([leaf.shape for leaf in leaves]))
    return _NamedValue(shape, shardings, leaves[0].mesh, any(leaf.is_estimated for leaf in leaves), notes)


def _with_leaves(shape: Shape, leaves: Iterator[Shape]) -> Shape:
    """The tuple with other leaves."""
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(_with_leaves(element, leaves) for element in shape.elements))
    return next(leaves)


def _sharding_of_instruction(text: str) -> str:
    """The sharding of an instruction given as text, empty if it has none."""
    from hlo_cli.analysis.shapes.omitted_shape import omitted_shape
    from hlo_cli.syntax.text.parser import parse_module

    root = parse_module(Source("", text), infer=omitted_shape).entry.root
    sharding = root.sharding if root is not None else None
    return str(sharding) if sharding is not None else ""


def _read_sharding(text: str, shape: Shape, mesh: Mesh | None) -> tuple[AnySharding, tuple[Diagnostic, ...]]:
    """The sharding in a text, checked against the shape, and notes on what was not in it."""
    from hlo_cli.analysis.sharding.placement import leaf_shardings, placement_of
    from hlo_cli.syntax.values.sharding_forms import read_sharding_text

    rank = shape.rank if isinstance(shape, ArrayShape) else None
    given = read_sharding_text(text, mesh=mesh, rank=rank)
    try:
        for _, leaf, sharding in leaf_shardings(shape, given.sharding):
            placement = placement_of(sharding)
            if isinstance(leaf, ArrayShape):
                placement.shard_sizes(leaf.sizes)
    except HloError as error:
        span = None if isinstance(given.sharding, TupleSharding) else _span_of_tiles(text)
        raise HloError(error.diagnostic.message, span, source=Source("", text) if span else None) from error
    return given.sharding, tuple(Diagnostic("note", remark) for remark in given.remarks)


def _span_of_tiles(text: str) -> Span:
    """The place of the divided dimensions in a sharding."""
    match = _TILES.search(text)
    if match is None or match.lastindex is None:
        return Span(0, len(text))
    return Span(match.start(match.lastindex), match.end(match.lastindex))


def _mesh_in(sharding: AnySharding, options: ShardOptions) -> tuple[Mesh | None, str]:
    """The mesh of --mesh, or that of the sharding, and where it is from."""

    if (given := options.given_mesh) is not None:
        return given, "--mesh"
    leaves = sharding.elements if isinstance(sharding, TupleSharding) else (sharding,)
    meshes = {leaf.mesh for leaf in leaves if isinstance(leaf, NamedSharding) and isinstance(leaf.mesh, Mesh)}
    return (meshes.pop(), "in the sharding") if len(meshes) == 1 else (None, "")


def _device_count(sharding: AnySharding) -> int | None:
    """The number of devices of the leaves that list them."""
    from hlo_cli.analysis.sharding.placement import devices_of

    leaves = sharding.elements if isinstance(sharding, TupleSharding) else (sharding,)
    return max((count for leaf in leaves if (count := devices_of(leaf)) is not None), default=None)


def _check_mesh(array: GivenArray, options: ShardOptions) -> None:
    """Raises HloError if --mesh has another number of devices than a sharding."""
    from hlo_cli.analysis.sharding.meshes import mesh_text
    from hlo_cli.analysis.sharding.placement import devices_of

    if (mesh := options.given_mesh) is None:
        return
    for sharding in (array.sharding, array.target):
        leaves = sharding.elements if isinstance(sharding, TupleSharding) else (sharding,)
        for leaf in leaves:
            count = devices_of(leaf) if leaf is not None else None
            if count is not None and count != mesh.device_count:
                given = f"{mesh_text(mesh)} is {counted(mesh.device_count, 'devices')}"
                raise HloError(f"{given}, the sharding has {count:,}")
