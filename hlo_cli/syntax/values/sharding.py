"""Grammar of shardings, and XLA's checks while it reads them.

Mirrors `ParseSharding` and `ParseSingleSharding` of xla/hlo/parser/hlo_parser.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import pyparsing as pp

from hlo_cli.ir.attributes import sharding as ir
from hlo_cli.ir.attributes.enumerations import ReductionKind
from hlo_cli.ir.attributes.metadata import Metadata
from hlo_cli.ir.attributes.sharding import IotaTransform
from hlo_cli.syntax.scanning.tokens import Tokens
from hlo_cli.syntax.values import grammar_tools as gt
from hlo_cli.syntax.values.mesh import IOTA, NAMED_SHARDING


class _Device(NamedTuple):
    """The device of a maximal sharding."""

    id: int


class _LastTileDims(NamedTuple):
    """The meanings of the last dimensions of the tiles."""

    types: tuple[ir.ShardingType, ...]


class _Listed(NamedTuple):
    """A complete list of metadata."""

    metadata: tuple[Metadata, ...]


_WHOLE: Final = tuple(kind for kind in ir.ShardingType if kind is not ir.ShardingType.TILED)
"""Keywords for a sharding without tiles, in the order in which XLA checks for them."""
_REPLICATE: Final = "last_tile_dim_replicate"


def _tiles(text: str, at: int, found: pp.ParseResults) -> ir.TileAssignment:
    dimensions, devices = found
    if isinstance(devices, IotaTransform) and not devices.is_permutation:
        raise gt.fail(text, at, f"expected a permutation of the {len(devices.reshape_dims)} dimensions")
    return ir.TileAssignment(dimensions, devices)


def _type(kinds: tuple[ir.ShardingType, ...]) -> pp.ParserElement:
    element = gt.symbol(rf"(?:{'|'.join(kinds)})(?![A-Za-z0-9_.\-:=])", " or ".join(kinds))
    return element.set_parse_action(lambda found: ir.ShardingType(found[0]))


_TYPE: Final = _type(_WHOLE)
_LAST_TILE: Final = _type(tuple(kind for kind in _WHOLE if kind is not ir.ShardingType.UNKNOWN))
_TILES: Final = (gt.named("devices") - gt.SIZES - (gt.suppress_literal("<=") - IOTA | gt.INTS)).set_parse_action(_tiles)
_SHARD_GROUP: Final = (
    gt.symbol("shard_(?:as|like)(?![A-Za-z0-9_.:=-])", "shard_as or shard_like") - gt.INT
).set_parse_action(lambda found: ir.ShardGroup(found[1], is_like=found[0] == "shard_like"))
_LAST_TILE_DIMS: Final = (
    gt.named("last_tile_dims") - gt.suppress_literal("{") - gt.listed(_LAST_TILE) - gt.suppress_literal("}")
).set_parse_action(lambda found: _LastTileDims(tuple(found)))
_ITEM: Final = (
    _TYPE
    | gt.word(_REPLICATE)
    | _TILES
    | _SHARD_GROUP
    | _LAST_TILE_DIMS
    | (gt.named("device") - gt.INT).set_parse_action(lambda found: _Device(found[0]))
    | (gt.named("unreduced") - gt.one_of(ReductionKind))
    | (gt.named("metadata") - gt.METADATA).set_parse_action(lambda found: _Listed(found[0]))
)


def _single(text: str, at: int, found: pp.ParseResults) -> ir.Sharding:
    types = [item for item in found if isinstance(item, ir.ShardingType)]
    reduction = next((item for item in found if isinstance(item, ReductionKind)), None)
    if reduction is not None:
        types.append(ir.ShardingType.UNREDUCED)
    groups = [item for item in found if isinstance(item, ir.ShardGroup)]
    sharding = ir.Sharding(
        next((kind for kind in _WHOLE if kind in types), ir.ShardingType.TILED),
        next((item for item in found if isinstance(item, ir.TileAssignment)), None),
        next((item.id for item in found if isinstance(item, _Device)), None),
        _REPLICATE in list(found),
        tuple(kind for item in found if isinstance(item, _LastTileDims) for kind in item.types),
        reduction,
        ir.ShardGroup(groups[-1].id, is_like=all(group.is_like for group in groups)) if groups else None,
        tuple(entry for item in found if isinstance(item, _Listed) for entry in item.metadata),
    )
    if (problem := sharding.problem) is not None:
        raise gt.fail(text, at, problem)
    return sharding


_SINGLE: Final = pp.OneOrMore(_ITEM).set_parse_action(_single)
_CLOSE: Final = gt.suppress_literal("}", "a sharding item or '}'")
_BRACED: Final = gt.suppress_literal("{") - (NAMED_SHARDING | _SINGLE).set_name("a sharding item") - _CLOSE
_TUPLE: Final = gt.listed(_BRACED).set_parse_action(lambda found: ir.TupleSharding(tuple(found)))
_SHARDING: Final = gt.suppress_literal("{") - (NAMED_SHARDING | _SINGLE | _TUPLE) - _CLOSE
read_sharding: Final[Callable[[Tokens], ir.AnySharding]] = gt.reader(_SHARDING, "sharding")
"""One sharding, or one for each leaf of a tuple between further braces."""
