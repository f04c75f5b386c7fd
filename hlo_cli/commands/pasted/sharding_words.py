"""Shardings as the underlined text of their parts."""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.analysis.sharding.placement import Placement
from hlo_cli.analysis.sharding.shards import devices_of
from hlo_cli.analysis.sharding.words import WHOLE, describe_parts
from hlo_cli.ir.attributes.named_sharding import NamedSharding
from hlo_cli.ir.attributes.sharding import Sharding
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.anatomy import Anatomy, Break, Explanation, Segment
from hlo_cli.report.numbers import format_count

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
