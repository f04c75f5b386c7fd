"""Grammar of shardings, and what XLA checks while it reads them.

Mirrors `ParseSharding` and `ParseSingleSharding` of xla/hlo/parser/hlo_parser.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import pyparsing as pp

from hlo_cli.ir.attributes.mesh import IotaTransform
from hlo_cli.ir.attributes.metadata import Metadata
from hlo_cli.ir.attributes.sharding import (
    AnySharding,
    ShardGroup,
    Sharding,
    ShardingType,
    TileAssignment,
    TupleSharding,
)
from hlo_cli.ir.words import ReductionKind
from hlo_cli.syntax.scanning.tokens import Tokens
from hlo_cli.syntax.values.grammar_tools import (
    INT,
    INTS,
    METADATA,
    SIZES,
    fail,
    listed,
    named,
    one_of,
    reader,
    suppress_literal,
    symbol,
    word,
)
from hlo_cli.syntax.values.mesh import IOTA, NAMED_SHARDING


class _Device(NamedTuple):
    """The device of a maximal sharding."""

    id: int


class _LastTileDims(NamedTuple):
    """What the last dimensions of the tiles stand for."""

    types: tuple[ShardingType, ...]


class _Listed(NamedTuple):
    """Metadata, all of it."""

    metadata: tuple[Metadata, ...]


_WHOLE: Final = tuple(kind for kind in ShardingType if kind is not ShardingType.TILED)
"""Words for a sharding without tiles, in the order in which XLA looks for them."""
_REPLICATE: Final = "last_tile_dim_replicate"


def _tiles(text: str, at: int, found: pp.ParseResults) -> TileAssignment:
    dimensions, devices = found
    if isinstance(devices, IotaTransform) and not devices.is_permutation:
        raise fail(text, at, f"expected the {len(devices.reshape_dims)} dimensions in some order")
    return TileAssignment(dimensions, devices)


def _type(kinds: tuple[ShardingType, ...]) -> pp.ParserElement:
    element = symbol(rf"(?:{'|'.join(kinds)})(?![A-Za-z0-9_.\-:=])", " or ".join(kinds))
    return element.set_parse_action(lambda found: ShardingType(found[0]))


_TYPE: Final = _type(_WHOLE)
_LAST_TILE: Final = _type(tuple(kind for kind in _WHOLE if kind is not ShardingType.UNKNOWN))
_TILES: Final = (named("devices") - SIZES - (suppress_literal("<=") - IOTA | INTS)).set_parse_action(_tiles)
_SHARD_GROUP: Final = (
    symbol("shard_(?:as|like)(?![A-Za-z0-9_.:=-])", "shard_as or shard_like") - INT
).set_parse_action(lambda found: ShardGroup(found[1], is_like=found[0] == "shard_like"))
_LAST_TILE_DIMS: Final = (
    named("last_tile_dims") - suppress_literal("{") - listed(_LAST_TILE) - suppress_literal("}")
).set_parse_action(lambda found: _LastTileDims(tuple(found)))
_ITEM: Final = (
    _TYPE
    | word(_REPLICATE)
    | _TILES
    | _SHARD_GROUP
    | _LAST_TILE_DIMS
    | (named("device") - INT).set_parse_action(lambda found: _Device(found[0]))
    | (named("unreduced") - one_of(ReductionKind))
    | (named("metadata") - METADATA).set_parse_action(lambda found: _Listed(found[0]))
)


def _single(text: str, at: int, found: pp.ParseResults) -> Sharding:
    types = [item for item in found if isinstance(item, ShardingType)]
    reduction = next((item for item in found if isinstance(item, ReductionKind)), None)
    if reduction is not None:
        types.append(ShardingType.UNREDUCED)
    groups = [item for item in found if isinstance(item, ShardGroup)]
    sharding = Sharding(
        next((kind for kind in _WHOLE if kind in types), ShardingType.TILED),
        next((item for item in found if isinstance(item, TileAssignment)), None),
        next((item.id for item in found if isinstance(item, _Device)), None),
        _REPLICATE in list(found),
        tuple(kind for item in found if isinstance(item, _LastTileDims) for kind in item.types),
        reduction,
        ShardGroup(groups[-1].id, is_like=all(group.is_like for group in groups)) if groups else None,
        tuple(entry for item in found if isinstance(item, _Listed) for entry in item.metadata),
    )
    if (problem := sharding.problem) is not None:
        raise fail(text, at, problem)
    return sharding


_SINGLE: Final = pp.OneOrMore(_ITEM).set_parse_action(_single)
_CLOSE: Final = suppress_literal("}", "an item of a sharding, or }")
_BRACED: Final = suppress_literal("{") - (NAMED_SHARDING | _SINGLE).set_name("an item of a sharding") - _CLOSE
_TUPLE: Final = listed(_BRACED).set_parse_action(lambda found: TupleSharding(tuple(found)))
_SHARDING: Final = suppress_literal("{") - (NAMED_SHARDING | _SINGLE | _TUPLE) - _CLOSE
read_sharding: Final[Callable[[Tokens], AnySharding]] = reader(_SHARDING, "sharding")
"""One sharding, or one for each leaf of a tuple between further braces."""
