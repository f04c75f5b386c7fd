"""A sharding in place of a module: its parts, its devices, and which device holds what."""

from __future__ import annotations

from hlo_cli.analysis.sharding_tiles import device_tiles, sharding_tiles, tiled_form
from hlo_cli.commands.pasted.sharding_words import describe_sharding, sharding_anatomy
from hlo_cli.inputs.pasted.text import PastedText
from hlo_cli.ir.attributes.named_sharding import NamedSharding
from hlo_cli.ir.attributes.sharding import AnySharding, Sharding, TupleSharding
from hlo_cli.report.cell import Cell
from hlo_cli.report.column import Column
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Table
from hlo_cli.source import Diagnostic, HloError
from hlo_cli.syntax.values.sharding_forms import GivenSharding, read_given_sharding

_MOST_DEVICES = 1 << 16
_DEVICES = (Column("device", "device", "name"), Column("tile", "part", "index"), Column("copy", "copy", "count"))
_LEAVES = (
    Column("element", "element", "name"),
    Column("devices", "devices", "count"),
    Column("parts", "parts", "index"),
    Column("copies", "copies", "count"),
    Column("sharding", "sharding"),
)
_DIMENSIONS = (Column("dimension", "dimension", "name"), Column("axes", "mesh axes"))


def report_of(pasted: PastedText) -> Report:
    """The report on a sharding in any form; HloError if it cannot be read."""
    given = read_given_sharding(pasted.text)
    notes = [Diagnostic("note", remark) for remark in given.remarks]
    if given.sharding is None:
        return _of_axes(given, pasted.name)
    if isinstance(given.sharding, TupleSharding):
        parts: tuple[Part, ...] = (_leaves(given.sharding),)
        return Report("parse", _answer(given.sharding), numbers=_numbers(given.sharding), parts=parts)
    parts = (sharding_anatomy(given.sharding),)
    answer = _answer(given.sharding)
    try:
        table = _devices(given.sharding)
    except HloError as error:
        answer = f"Invalid sharding: {error.diagnostic.message}"
    else:
        parts = (*parts, table) if table.rows else parts
    if isinstance(given.sharding, NamedSharding) and (tiled := tiled_form(given.sharding)) is not None:
        notes.append(Diagnostic("note", f"the same without names of axes: {tiled}"))
    return Report(
        "parse",
        answer,
        numbers=_numbers(given.sharding),
        parts=parts,
        next=("hlo help sharding",),
        notes=tuple(notes),
        input={"path": pasted.name},
    )


def _answer(sharding: AnySharding) -> str:
    words = describe_sharding(sharding)
    return words[0].upper() + words[1:]


def _numbers(sharding: AnySharding) -> dict[str, Cell]:
    if isinstance(sharding, TupleSharding):
        return {"sharding": str(sharding), "elements": len(sharding.elements)}
    tiles = sharding_tiles(sharding)
    return {"sharding": str(sharding), "devices": tiles.devices, "parts": tiles.parts or None, "copies": tiles.copies}


def _devices(sharding: Sharding | NamedSharding) -> Table:
    count = sharding_tiles(sharding).devices or 0
    rows = device_tiles(sharding) if count <= _MOST_DEVICES else ()
    return Table("devices", _DEVICES, tuple((str(d), tile, copy) for d, tile, copy in rows), noun="devices", limit=16)


def _leaves(sharding: TupleSharding) -> Table:
    rows = tuple(
        (str(at), tiles.devices, tiles.parts or None, tiles.copies, describe_sharding(each))
        for at, each in enumerate(sharding.elements)
        for tiles in (sharding_tiles(each),)
    )
    return Table("shardings", _LEAVES, rows, noun="elements")


def _of_axes(given: GivenSharding, name: str) -> Report:
    """The report on a sharding whose mesh is not in the text."""
    rows = tuple((str(at), ", ".join(axes) or None) for at, axes in enumerate(given.axes))
    divided = [f"dimension {at} along {' and '.join(axes)}" for at, axes in enumerate(given.axes) if axes]
    answer = f"Divides {', '.join(divided)}" if divided else "Divides no dimension: every device holds the whole array"
    return Report(
        "parse",
        answer,
        numbers={"axes": given.axes},
        parts=(Table("dimensions", _DIMENSIONS, rows, noun="dimensions"),),
        next=("hlo help sharding",),
        notes=(Diagnostic("note", "the mesh is not in the text, so the numbers of parts are unknown"),),
        input={"path": name},
    )
