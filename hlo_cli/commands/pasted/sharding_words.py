"""Shardings in words and as the underlined text of their parts."""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.analysis.sharding_tiles import ShardingTiles, sharding_tiles
from hlo_cli.ir.attributes.named_sharding import NamedSharding
from hlo_cli.ir.attributes.sharding import AnySharding, Sharding, ShardingType, TupleSharding
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.anatomy import Anatomy, Break, Explanation, Segment
from hlo_cli.report.numbers import format_count

_WHOLE: Final = {
    "replicated": "every device holds the whole array",
    "manual": "the program decides; the shape is already that of one device",
    "unknown": "not decided",
    "unreduced": "every device holds a partial result of the whole array, still to be reduced",
}
_COPIES: Final = {
    "replicated": "hold the same part",
    "manual": "hold parts that the program decides",
    "unreduced": "hold partial results of the same part",
}
_TOKENS: Final = lazy_regex(
    r"devices=(?P<tiles>\[[0-9,]++\])|(?P<iota><=\[[0-9,]++\](?:T\([0-9,]++\))?+)|(?P<list>[0-9]++(?:,[0-9]++)++)"
    r"|(?P<copies>last_tile_dim_replicate)|last_tile_dims=(?P<kinds>\{[^}]*+\})|(?P<mesh>mesh\[[^\]]*+\])"
    r"|(?P<axes>\[\{[^\]]*+\])|replicated=(?P<over>\{[^}]*+\})|device=(?P<device>[0-9]++)"
    r"|(?P<whole>replicated|maximal|manual|unknown|unreduced)|(?P<group>shard_(?:as|like) [0-9]++)"
)


def describe_sharding(sharding: AnySharding) -> str:
    """The sharding in one sentence without a period.

    >>> from hlo_cli.syntax.values.sharding_forms import read_given_sharding
    >>> describe_sharding(read_given_sharding("{devices=[2,1,4]<=[8] last_tile_dim_replicate}").sharding)
    'dimension 0 in 2 parts; each of the 2 parts is on 4 of 8 devices'
    """
    if isinstance(sharding, TupleSharding):
        return f"one sharding for each of {format_count(len(sharding.elements), 'values')}"
    if isinstance(sharding, Sharding) and sharding.type is ShardingType.MAXIMAL:
        return f"device {sharding.device} holds the whole array, the others hold nothing"
    tiles = sharding_tiles(sharding)
    if tiles.tiles == 1:
        kind = str(tiles.copies_as[0]) if tiles.copies_as else ""
        devices = f" ({format_count(tiles.devices, 'devices')})" if tiles.devices else ""
        return _WHOLE.get(kind, "one device holds the whole array") + devices
    return f"{parts_of_dimensions(tiles)}; {_holders(tiles)}"


def parts_of_dimensions(tiles: ShardingTiles) -> str:
    """The dimensions that are divided, with the number of parts.

    >>> parts_of_dimensions(ShardingTiles((2, 1, 4), 1, 8))
    'dimension 0 in 2 parts, dimension 2 in 4 parts'
    """
    listed = [f"dimension {d} in {parts} parts" for d, parts in enumerate(tiles.parts) if parts != 1]
    return ", ".join(listed) or "no dimension is divided"


def _holders(tiles: ShardingTiles) -> str:
    if tiles.copies == 1:
        return f"each of {format_count(tiles.tiles, 'devices')} holds its own part"
    kinds = {str(kind) for kind in tiles.copies_as}
    if kinds - {"replicated"}:
        words = " or ".join(_COPIES[kind] for kind in sorted(kinds) if kind in _COPIES)
        return f"{tiles.copies:,} of {tiles.devices:,} devices {words or 'share a part'}"
    return f"each of the {tiles.tiles:,} parts is on {tiles.copies:,} of {tiles.devices:,} devices"


def sharding_anatomy(sharding: Sharding | NamedSharding) -> Anatomy:
    """The text of a sharding, each part underlined and explained."""
    text, tiles = str(sharding), sharding_tiles(sharding)
    segments, rows, at = list[Segment](), list[Explanation](), 0
    for match in _TOKENS.finditer(text):
        role = match.lastgroup or ""
        label, meaning = _meaning(role, match[role], tiles)
        segments += [Segment(text[at : match.start(role)]), Segment(match[role], len(rows), Break.MAY)]
        rows.append(Explanation(len(rows), label, _short(match[role]), meaning))
        at = match.end(role)
    segments.append(Segment(text[at:]))
    return Anatomy("sharding", tuple(each for each in segments if each.text), tuple(rows))


def _meaning(role: str, text: str, tiles: ShardingTiles) -> tuple[str, str]:
    match role:
        case "tiles":
            return "tiles", _tiles_meaning(tiles)
        case "iota":
            return "devices", _iota_meaning(text)
        case "list":
            return "devices", "the device of each tile, row-major over the tiles"
        case "copies":
            return "copies", f"the last tile dimension counts the devices with the same part: {tiles.copies:,}"
        case "kinds":
            return "subgroups", f"the last tile dimensions count the devices with the same part: {tiles.copies:,}"
        case "mesh":
            return "mesh", f"{format_count(tiles.devices or 0, 'devices')} in a grid with named axes"
        case "axes":
            return "axes", parts_of_dimensions(tiles)
        case "over":
            return "replicated", "axes along which devices hold the same part"
        case "device":
            return "device", "the only device that holds the array"
        case "group":
            return "group", "all values of this group get the same or a similar sharding"
        case _:
            return "kind", _WHOLE.get(text, "one device holds the whole array")


def _tiles_meaning(tiles: ShardingTiles) -> str:
    words = parts_of_dimensions(tiles)
    return f"{words}; {tiles.copies:,} devices per part" if tiles.copies > 1 else words


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
