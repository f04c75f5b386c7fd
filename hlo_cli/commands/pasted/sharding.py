"""A sharding in place of a module: its parts, its devices, and which device holds what."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.sharding.placement import (
    WHOLE,
    Placement,
    array_of,
    describe_parts,
    describe_sharding,
    devices_of,
    placement_of,
    sharded_array,
    sharding_of_placement,
    tiles_of,
)
from hlo_cli.commands.shard.grid import grid_figure
from hlo_cli.commands.shard.sizes import quoted_argument
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.ir.attributes.sharding import NamedSharding, Sharding, TupleSharding
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.figure import Anatomy, Break, Explanation, Segment
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Cell, Column, Row, Table
from hlo_cli.source import Diagnostic, HloError
from hlo_cli.syntax.scanning.shape_reader import parse_shape
from hlo_cli.syntax.values.sharding_forms import GivenSharding, read_given_sharding

_MOST_DEVICES = 1 << 16
_LONGEST_COMMAND = 100
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
    if given.sharding is None:
        return _of_axes(given, pasted.name)
    report = _of_tuple(given.sharding) if isinstance(given.sharding, TupleSharding) else _of_one(given.sharding)
    notes = (*(Diagnostic("note", remark) for remark in given.remarks), *report.notes)
    return replace(report, notes=notes, input={"path": pasted.name})


def _of_one(sharding: Sharding | NamedSharding) -> Report:
    """The report on the sharding of one array."""
    try:
        placement = placement_of(sharding)
    except HloError as error:
        answer = f"Invalid sharding: {error.diagnostic.message}"
        numbers: dict[str, Cell] = {"sharding": str(sharding), "devices": devices_of(sharding)}
        return Report("parse", answer, numbers=numbers, parts=(sharding_anatomy(sharding, None),))
    notes = list[Diagnostic]()
    if isinstance(sharding, NamedSharding):
        tiled = sharding_of_placement(placement)
        notes.append(Diagnostic("note", f"the same without names of axes: {tiled}"))
    return Report(
        "parse",
        _sentence(describe_sharding(sharding)),
        numbers={"sharding": str(sharding), **_numbers(sharding, placement)},
        parts=(sharding_anatomy(sharding, placement), *_who_holds_what(sharding, placement)),
        next=_next(sharding, placement),
        notes=tuple(notes),
    )


def _of_tuple(sharding: TupleSharding) -> Report:
    rows = tuple(_leaf(at, each) for at, each in enumerate(sharding.elements))
    return Report(
        "parse",
        _sentence(describe_sharding(sharding)),
        numbers={"sharding": str(sharding), "elements": len(sharding.elements)},
        parts=(Table("shardings", _LEAVES, rows, noun="elements"),),
    )


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:]


def _numbers(sharding: Sharding | NamedSharding, placement: Placement) -> dict[str, Cell]:
    return {"devices": devices_of(sharding), "parts": placement.parts or None, "copies": placement.sharers}


def _who_holds_what(sharding: Sharding | NamedSharding, placement: Placement) -> list[Part]:
    """The tiles as a drawing, and the devices as a table for machines, or for people without a drawing."""
    if not placement.is_tiled or len(placement.devices) > _MOST_DEVICES:
        return []
    shape = parse_shape(f"pred[{','.join(map(str, placement.parts))}]")
    tiles = tiles_of(placement)
    figure = grid_figure(sharded_array(array_of(shape), sharding), tiles)
    rows = tuple((str(each.device), each.tile, each.copy) for each in tiles)
    table = Table("devices", _DEVICES, rows, noun="devices", limit=16, person=figure is None)
    return [table] if figure is None else [figure, table]


def _next(sharding: Sharding | NamedSharding, placement: Placement) -> tuple[str, ...]:
    """The command that shows the sharding for a shape, which the user has yet to replace."""
    if placement.is_tiled and len(text := quoted_argument(str(sharding))) < _LONGEST_COMMAND:
        sizes = ",".join(str(4 * part) for part in placement.parts)
        return (f"hlo shard 'f32[{sizes}]' {text}", "hlo help sharding")
    return ("hlo help sharding",)


def _leaf(at: int, sharding: Sharding | NamedSharding) -> Row:
    try:
        numbers = _numbers(sharding, placement_of(sharding))
    except HloError as error:
        return str(at), devices_of(sharding), None, None, f"invalid: {error.diagnostic.message}"
    return str(at), *numbers.values(), describe_sharding(sharding)


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


# --- the parts of a sharding ---

_TOKENS: Final = lazy_regex(
    r"devices=(?P<tiles>\[[0-9,]++\])|(?P<iota><=\[[0-9,]++\](?:T\([0-9,]++\))?+)|(?P<list>[0-9]++(?:,[0-9]++)++)"
    r"|(?P<copies>last_tile_dim_replicate)|last_tile_dims=(?P<kinds>\{[^}]*+\})|(?P<mesh>mesh\[[^\]]*+\])"
    r"|(?P<axes>\[\{[^\]]*+\])|replicated=(?P<over>\{[^}]*+\})|device=(?P<device>[0-9]++)"
    r"|(?P<whole>replicated|maximal|manual|unknown|unreduced)|(?P<group>shard_(?:as|like) [0-9]++)"
)


def sharding_anatomy(sharding: Sharding | NamedSharding, placement: Placement | None) -> Anatomy:
    """The text of a sharding, each part underlined and explained; without a placement if it is invalid."""
    text = str(sharding)
    segments, rows, at = list[Segment](), list[Explanation](), 0
    for match in _TOKENS.finditer(text):
        role = match.lastgroup or ""
        label, meaning = _meaning(role, match[role], placement, devices_of(sharding))
        segments += [Segment(text[at : match.start(role)]), Segment(match[role], len(rows), Break.MAY)]
        rows.append(Explanation(len(rows), label, _short(match[role]), meaning))
        at = match.end(role)
    segments.append(Segment(text[at:]))
    return Anatomy("sharding", tuple(each for each in segments if each.text), tuple(rows))


def _meaning(role: str, text: str, placement: Placement | None, devices: int | None) -> tuple[str, str]:
    shared = f": {placement.sharers:,}" if placement is not None and placement.is_tiled else ""
    match role:
        case "tiles":
            return "tiles", _tiles_meaning(text, placement)
        case "iota":
            return "devices", _iota_meaning(text)
        case "list":
            return "devices", "the device of each tile, row-major over the tiles"
        case "copies":
            return "copies", f"the last tile dimension counts the devices with the same part{shared}"
        case "kinds":
            return "subgroups", f"the last tile dimensions count the devices with the same part{shared}"
        case "mesh":
            return "mesh", f"{format_count(devices or 0, 'devices')} in a grid with named axes"
        case "axes":
            return "axes", describe_parts(placement.parts) if placement is not None else ""
        case "over":
            return "replicated", "axes along which devices hold the same part"
        case "device":
            return "device", "the only device that holds the array"
        case "group":
            return "group", "all values of this group get the same or a similar sharding"
        case _:
            return "kind", WHOLE.get(text, "one device holds the whole array")


def _tiles_meaning(text: str, placement: Placement | None) -> str:
    if placement is None or not placement.is_tiled:
        return f"tiles of each dimension: {text.strip('[]').replace(',', ', ')}"
    words = describe_parts(placement.parts)
    return f"{words}; {placement.sharers:,} devices per part" if placement.sharers > 1 else words


def _iota_meaning(text: str) -> str:
    sizes, _, order = text.removeprefix("<=").partition("T")
    count = 1
    for size in re.findall(r"\d+", sizes):
        count *= int(size)
    if not order:
        return f"devices 0 to {count - 1:,} in ascending order, row-major over the tiles"
    shown = sizes.strip("[]").replace(",", " × ")
    return f"devices 0 to {count - 1:,} as an array of {shown}, transposed by {order}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"


_LONGEST = 24
