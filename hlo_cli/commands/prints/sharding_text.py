"""What does a sharding mean, or a list of replica groups, that stands in place of a module?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

from hlo_cli.analysis.sharding.meshes import axes_of_groups, axes_of_pairs, axes_text, inferred_mesh, mesh_text
from hlo_cli.analysis.sharding.placement import (
    UNDIVIDED,
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
from hlo_cli.commands.shard.array import grid_figure, quoted_argument
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.ir.attributes.sharding import (
    CollectiveDeviceList,
    IotaReplicaGroupList,
    MeshAxesReplicaGroupList,
    NamedSharding,
    Sharding,
    TupleSharding,
)
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.figure import Anatomy, Break, Explanation, Segment
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Cell, Column, Table, rows_from, rows_from_tuples
from hlo_cli.source import Diagnostic, HloError
from hlo_cli.syntax.attribute_table import Kind
from hlo_cli.syntax.scanning.shape_reader import parse_shape
from hlo_cli.syntax.values.attribute_values import read_value_text
from hlo_cli.syntax.values.sharding_forms import GivenSharding, read_given_sharding

# --- shardings ---
# A sharding in place of a module: its parts, its devices, and which device holds what.


_MOST_DEVICES = 1 << 16  # no machine has more; a text with a larger number is not drawn device by device
_LONGEST_COMMAND = 100  # a command in one line of a screen
_DEVICES = (
    Column("device", "device", "name", of=lambda device: str(device.device)),
    Column("tile", "part", "index", of=lambda device: device.tile),
    Column("copy", "copy", "count", of=lambda device: device.copy),
)
_LEAVES = (
    Column("element", "element", "name", of=lambda leaf: str(leaf.element)),
    Column("devices", "devices", "count", of=lambda leaf: leaf.devices),
    Column("parts", "parts", "index", of=lambda leaf: leaf.parts),
    Column("copies", "copies", "count", of=lambda leaf: leaf.copies),
    Column("sharding", "sharding", of=lambda leaf: leaf.words),
)
_DIMENSIONS = (
    Column("dimension", "dimension", "name", of=lambda at, axes: str(at)),
    Column("axes", "mesh axes", of=lambda at, axes: ", ".join(axes) or None),
)


def sharding_report(pasted: PastedText) -> Report:
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
        return Report("parse", answer, numbers=numbers, parts=(_sharding_anatomy(sharding, None),))
    notes = list[Diagnostic]()
    if isinstance(sharding, NamedSharding):
        tiled = sharding_of_placement(placement)
        notes.append(Diagnostic("note", f"the same without names of axes: {tiled}"))
    return Report(
        "parse",
        _sentence(describe_sharding(sharding)),
        numbers={"sharding": str(sharding), **_numbers(sharding, placement)},
        parts=(_sharding_anatomy(sharding, placement), *_who_holds_what(sharding, placement)),
        next=_next(sharding, placement),
        notes=tuple(notes),
    )


def _of_tuple(sharding: TupleSharding) -> Report:
    rows = rows_from(_LEAVES, [_leaf(at, each) for at, each in enumerate(sharding.elements)])
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
    rows = rows_from(_DEVICES, tiles)
    table = Table("devices", _DEVICES, rows, noun="devices", limit=16, person=figure is None)
    return [table] if figure is None else [figure, table]


def _next(sharding: Sharding | NamedSharding, placement: Placement) -> tuple[str, ...]:
    """The command that shows the sharding for a shape, which the user has yet to replace."""
    if placement.is_tiled and len(text := quoted_argument(str(sharding))) < _LONGEST_COMMAND:
        sizes = ",".join(str(4 * part) for part in placement.parts)
        return (f"hlo shard 'f32[{sizes}]' {text}", "hlo help sharding")
    return ("hlo help sharding",)


class _Leaf(NamedTuple):
    """The sharding of an element of a tuple: its devices, its parts and copies if it is valid, and its meaning."""

    element: int
    devices: int | None
    words: str
    parts: tuple[int, ...] | None = None
    copies: int | None = None


def _leaf(at: int, sharding: Sharding | NamedSharding) -> _Leaf:
    devices = devices_of(sharding)
    try:
        placement = placement_of(sharding)
    except HloError as error:
        return _Leaf(at, devices, f"invalid: {error.diagnostic.message}")
    return _Leaf(at, devices, describe_sharding(sharding), placement.parts or None, placement.sharers)


def _of_axes(given: GivenSharding, name: str) -> Report:
    """The report on a sharding whose mesh is not in the text."""
    rows = rows_from_tuples(_DIMENSIONS, enumerate(given.axes))
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


def _sharding_anatomy(sharding: Sharding | NamedSharding, placement: Placement | None) -> Anatomy:
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
            return "kind", UNDIVIDED.get(text, "one device holds the whole array")


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


_LONGEST = 24  # a cell in a figure of several columns


# --- replica groups and pairs ---
# Replica groups or source–target pairs in place of a module: the groups, their sizes, and their strides.


_PREFIX = lazy_regex(r"\s*+(replica_groups|source_target_pairs)\s*+=\s*+")
_NAMED = lazy_regex(r"\b(?:replica_groups|source_target_pairs)\s*+=")
_ATTRIBUTE = lazy_regex(r",\s*([a-z]\w*)=([^\s,{}]*(?:\{[^{}]*\})?)")
_GROUPS = (
    Column("group", "group", "name", of=lambda at, group: str(at)),
    Column("size", "devices", "count", of=lambda at, group: len(group)),
    Column("stride", "stride", "count", of=lambda at, group: _stride_of(group)),
    Column("ids", "ids", of=lambda at, group: _listed(group)),
)
_PAIRS = (
    Column("source", "source", "name", of=lambda source, target: str(source)),
    Column("target", "target", "name", of=lambda source, target: str(target)),
    Column("distance", "distance", of=lambda source, target: f"{target - source:+}"),
)

Groups = Sequence[Sequence[int]]
Pairs = tuple[tuple[int, int], ...]


def replica_groups_report(pasted: PastedText) -> Report:
    """The report on groups of devices; HloError if they cannot be read."""
    text = _groups_first(pasted.text.strip().rstrip(",;."))
    prefix = _PREFIX.match(text)
    text = text[prefix.end() :] if prefix else text
    attributes = dict(_ATTRIBUTE.findall(text))
    text = _ATTRIBUTE.sub("", text).strip()
    if prefix is not None and prefix[1] == "source_target_pairs":
        return _of_pairs(_read_groups(text), pasted.name)
    value = read_value_text(Kind.REPLICA_GROUPS, text)
    if not isinstance(value, CollectiveDeviceList | IotaReplicaGroupList | MeshAxesReplicaGroupList):
        raise HloError(f"cannot read the replica groups {text[:80]}", hint="groups are such as {{0,1},{2,3}}")
    if isinstance(value, CollectiveDeviceList) and not value.listed:
        return Report("parse", "One group of all devices", numbers={"groups": 1, "devices": None})
    report = _of_groups(str(value), value.groups(0), pasted.name)
    return replace(report, notes=(*_notes_on(attributes), *report.notes))


def _groups_first(text: str) -> str:
    """The attributes with the groups or pairs at the beginning.

    >>> _groups_first("channel_id=1, replica_groups={{0,1}}"), _groups_first("{{0,1}}")
    ('replica_groups={{0,1}}, channel_id=1', '{{0,1}}')
    """
    place = _NAMED.search(text)
    if place is None or not text[: place.start()].strip():
        return text
    return f"{text[place.start() :]}, {text[: place.start()].strip().rstrip(',')}"


def _notes_on(attributes: Mapping[str, str]) -> Iterator[Diagnostic]:
    """What the ids are, by the attributes next to the groups."""
    if attributes.get("use_global_device_ids") == "true":
        yield Diagnostic("note", "ids are global device ids (use_global_device_ids=true)")
    elif "channel_id" in attributes:
        yield Diagnostic("note", "ids are replica ids: a channel_id without use_global_device_ids crosses partitions")


def _read_groups(text: str) -> Groups:
    value = read_value_text(Kind.REPLICA_GROUPS, text)
    if not isinstance(value, CollectiveDeviceList) or any(len(pair) != 2 for pair in value.listed):
        raise HloError(f"cannot read the pairs {text[:80]}", hint="pairs are such as {{0,1},{1,0}}")
    return value.listed


def _of_groups(text: str, groups: Groups, name: str) -> Report:
    sizes = sorted({len(group) for group in groups})
    devices = [device for group in groups for device in group]
    strides = {_stride_of(group) for group in groups if len(group) > 1}
    size = format_count(sizes[0], "devices") if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,} devices"
    answer = f"{format_count(len(groups), 'groups')} of {size}, {_arrangement(strides)}"
    notes = []
    if len(set(devices)) < len(devices):
        twice = next(device for device, times in Counter(devices).items() if times > 1)
        notes.append(Diagnostic("warning", f"device {twice} is in more than one group, which XLA rejects"))
    rows = rows_from_tuples(_GROUPS, enumerate(groups))
    numbers: dict[str, Cell] = {"replica_groups": text, "groups": len(groups), "devices": len(set(devices))}
    if (found := _axes_of(tuple(map(tuple, groups)), ())) is not None:
        mesh, axes = found
        notes.append(Diagnostic("note", f"in a row-major mesh {mesh}, these are the groups along {axes}"))
        numbers |= {"mesh": mesh, "axis": axes}
    return Report(
        "parse",
        answer,
        numbers={**numbers, "group_sizes": sizes[-1]},
        parts=(Table("groups", _GROUPS, rows, noun="groups", limit=16),),
        next=("hlo help sharding",),
        notes=tuple(notes),
        input={"path": name},
    )


def _stride_of(group: Sequence[int]) -> int | None:
    """The constant distance of neighbors in a group; None if it is not constant.

    >>> _stride_of((0, 4, 8)), _stride_of((0, 1, 4, 5))
    (4, None)
    """
    steps = {after - before for before, after in pairwise(group)}
    return steps.pop() if len(steps) == 1 else None


def _arrangement(strides: set[int | None]) -> str:
    if not strides:
        return "so no data moves"
    if len(strides) > 1 or None in strides:
        return "not evenly spaced"
    (stride,) = strides
    return "contiguous" if stride == 1 else f"strided by {stride}"


def _axes_of(groups: tuple[tuple[int, ...], ...], pairs: Pairs) -> tuple[str, str] | None:
    """The coarsest mesh of several axes that explains groups or pairs, and their axes; None if there is none."""
    count = 1 + max((device for group in (*groups, *pairs) for device in group), default=0)
    known = inferred_mesh([groups] if groups else [], [pairs] if pairs else [], count)
    if known is None or len(known.mesh.axes) < 2:
        return None
    if groups:
        axes = axes_of_groups(groups, known.mesh)
        return None if axes is None else (mesh_text(known.mesh), axes_text(axes).replace(",", " and "))
    shifts = axes_of_pairs(pairs, known.mesh)
    return None if not shifts else (mesh_text(known.mesh), " and ".join(map(str, shifts)))


def _listed(ids: Sequence[int]) -> str:
    most = 32
    return ", ".join(map(str, ids[:most])) + (f", \N{HORIZONTAL ELLIPSIS} {ids[-1]}" if len(ids) > most else "")


def _of_pairs(pairs: Groups, name: str) -> Report:
    distances = {target - source for source, target in pairs}
    devices = {device for pair in pairs for device in pair}
    targets = [target for _, target in pairs]
    forward = next(iter(distances)) if len(distances) == 1 else None
    words = "all by the same distance" if forward is not None else "by different distances"
    cycle = len(distances) == 2 and len({distance % len(devices) for distance in distances}) == 1
    shift = next(iter(distances)) % len(devices) if cycle else 0
    words = f"a ring of {format_count(len(devices), 'devices')} shifted by {shift}" if cycle else words
    idle = sorted(devices - set(targets))
    notes = [Diagnostic("note", f"devices that receive nothing get zeros: {_listed(idle)}")] if idle else []
    if len(set(targets)) < len(targets):
        notes.append(Diagnostic("warning", "a device is the target of more than one pair, which XLA rejects"))
    if pairs and (found := _axes_of((), tuple((source, target) for source, target in pairs))) is not None:
        notes.append(Diagnostic("note", f"in a row-major mesh {found[0]}, data moves along {found[1]}"))
    rows = rows_from_tuples(_PAIRS, ((source, target) for source, target in pairs))
    return Report(
        "parse",
        f"{format_count(len(pairs), 'transfers')} between {format_count(len(devices), 'devices')}, {words}",
        numbers={"pairs": len(pairs), "devices": len(devices)},
        parts=(Table("pairs", _PAIRS, rows, noun="pairs", limit=16),),
        next=("hlo help sharding",),
        notes=tuple(notes),
        input={"path": name},
    )
