"""How values are read that have a language of their own: meshes, shardings, original values; with pyparsing.

Imported when such a value is read, as pyparsing takes longer to import than most dumps to read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

import pyparsing as pp

from hlo_cli.ir.attributes import sharding as ir
from hlo_cli.ir.attributes.enumerations import DebugLogMode, ReductionKind, ResultAccuracyMode
from hlo_cli.ir.attributes.metadata import (
    DebugAttributes,
    DebuggedArray,
    Metadata,
    OriginalArray,
    OriginalTuple,
    OriginalValue,
    Recovery,
    RecoveryTable,
    Statistic,
    StatisticsViz,
)
from hlo_cli.ir.attributes.sharding import (
    AxisRef,
    DimensionSharding,
    IotaReplicaGroupList,
    IotaTransform,
    MaximalMesh,
    Mesh,
    MeshAxesReplicaGroupList,
    MeshAxis,
    NamedSharding,
)
from hlo_cli.ir.attributes.value_types import AttributeValue, ResultAccuracy, Tolerance
from hlo_cli.ir.notation import unquote
from hlo_cli.source import HloError, Source
from hlo_cli.syntax.attribute_table import Kind
from hlo_cli.syntax.scanning.attributes import read_value
from hlo_cli.syntax.scanning.scanner import STRING as STRING_PATTERN
from hlo_cli.syntax.scanning.tokens import Tokens
from hlo_cli.syntax.values.operation_values import read_metadata_or_list

# --- tools ---
# Tools for grammars in pyparsing for prose values, and the adapter that a strict reader uses.
#
# The signs and words are those of xla/hlo/parser/hlo_lexer.h. Lists of numbers are one token each, as they may be
# long.


_S: Final = r"[ \t\n\r]*+"
_INT: Final = r"-?+[0-9]{1,20}+(?![0-9.xeE_])"
_INTS: Final = rf"{_INT}(?:{_S},{_S}{_INT})*+"
_BRACED_TEXT: Final = r"\{{(?:[^{{}}\"']++|{string}|{inner})*+\}}"
_QUOTED: Final = STRING_PATTERN.replace(r"\\.", r"\\[\s\S]")
_COMMENT: Final = re.compile(rf"({_QUOTED})|/\*(?:[^*]++|\*(?!/))*+\*/|//[^\n\r]*+")


def symbol(pattern: str, name: str, *, ignore_case: bool = False) -> pp.ParserElement:
    """Matches a regular expression; `name` is the expected thing in errors."""
    return pp.Regex(pattern, re.IGNORECASE if ignore_case else 0).set_name(name)


def word(text: str) -> pp.ParserElement:
    """A whole word."""
    return symbol(rf"{text}(?![A-Za-z0-9_.\-:=])", text)


def named(name: str) -> pp.ParserElement:
    """`name=`, omitted from the results."""
    return pp.Literal(f"{name}=").set_name(f"'{name}='").suppress()


def _suppress_literal(text: str, name: str = "") -> pp.ParserElement:
    """A sign that is omitted from the results."""
    return pp.Literal(text).set_name(name or f"'{text}'").suppress()


def listed(item: pp.ParserElement) -> pp.ParserElement:
    """Items separated by commas; the list may be empty."""
    return pp.Opt(item + pp.ZeroOrMore(_suppress_literal(",") - item))


def one_of(kind: type[StrEnum]) -> pp.ParserElement:
    """A word of an enumeration, in upper or lower case."""
    words = [member.value for member in kind]
    element = symbol(rf"(?:{'|'.join(words)})(?![A-Za-z0-9_.\-:=])", " or ".join(words), ignore_case=True)
    return element.set_parse_action(lambda results: kind(results[0].lower()))


class _FailedCheck(pp.ParseSyntaxException):
    """An error of a parse action, which says what is wrong; that of a rule says what it expected."""


def fail(text: str, location: int, message: str) -> pp.ParseFatalException:
    """An error at an offset of the text, for parse actions to raise."""
    return _FailedCheck(text, location, message)


def number(text: str, location: int, digits: str) -> int:
    """An integer of 64 bits."""
    value = int(digits)
    if not -(2**63) <= value < 2**64:
        raise fail(text, location, f"{digits} does not fit in 64 bits")
    return value - 2**64 if value >= 2**63 else value  # as XLA's lexer: uint64 is read, and wraps to int64


def _numbers(text: str, location: int, results: pp.ParseResults) -> list[tuple[int, ...]]:
    return [tuple(number(text, location, digits) for digits in re.findall(r"-?[0-9]+", results[0]))]


def _metadata(text: str, location: int, results: pp.ParseResults) -> object:
    """Runs the separate reader of metadata on the same text."""
    try:
        return [read_metadata_or_list(Tokens(Source("", text), location, location + len(results[0])))]
    except HloError as error:
        span = error.diagnostic.span
        raise fail(text, span.start if span else location, error.diagnostic.message) from None


INT: Final = symbol(_INT, "an integer").set_parse_action(
    lambda text, location, results: number(text, location, results[0])
)
INTS: Final = symbol(_INTS, "integers").set_parse_action(_numbers)
SIZES: Final = symbol(rf"\[{_S}{_INTS}{_S}\]", "at least one number in brackets").set_parse_action(_numbers)
INDEX: Final = symbol(rf"\{{{_S}(?:{_INTS}{_S},?+{_S})?+\}}", "an index in braces").set_parse_action(_numbers)
STRING: Final = symbol(_QUOTED, "a string").set_parse_action(lambda results: unquote(results[0]))
ATTRIBUTE: Final = symbol(r"[A-Za-z_][A-Za-z0-9_.\-]*+=", "a name and '='").set_parse_action(
    lambda results: results[0][:-1]
)
METADATA: Final = symbol(
    _BRACED_TEXT.format(string=_QUOTED, inner=_BRACED_TEXT.format(string=_QUOTED, inner=r"\{[^{}\"']*+\}")),
    "metadata in braces",
).set_parse_action(_metadata)


def _reader(grammar: pp.ParserElement, name: str) -> Callable[[Tokens], AttributeValue]:
    """The grammar as a reader of tokens: it reads the next value completely, and fails at its token."""
    grammar = grammar.parse_with_tabs()

    def read(tokens: Tokens) -> AttributeValue:
        scanner = tokens.scanner()
        start, end = read_value(scanner, name)
        text = _COMMENT.sub(_blank, tokens.source.text[start:end])
        try:
            value: AttributeValue = grammar.parse_string(text, parse_all=True)[0]
        except pp.ParseBaseException as error:
            tokens.move(start + error.loc)
            if isinstance(error, _FailedCheck):
                tokens.fail(error.msg, tokens.start, tokens.end)
            tokens.fail(error.msg[:1].lower() + error.msg[1:])
        except RecursionError:  # pyparsing recurses some calls for each nested value
            tokens.fail("the value is nested too deeply", start, start + 1)
        tokens.move(end)
        return value

    return read


def _blank(match: re.Match[str]) -> str:
    """White space as long as a comment, so that offsets stay the same."""
    return match[0] if match[1] else " " * len(match[0])


# --- meshes and device lists ---
# Grammar of meshes with named axes and of the device lists and shardings written over them.
#
# Mirrors `ParseMesh` and `ParseAxisRef` of xla/hlo/parser/hlo_parser.cc and the checks of
# xla/hlo/ir/named_sharding.cc.


class _Axis(NamedTuple):
    """An axis as written, and its span; it may be missing in the mesh."""

    location: int
    name: str
    part: tuple[int, ...]


class _Axes(NamedTuple):
    """A list of axes after a keyword."""

    word: str
    reduction: ReductionKind | None
    axes: tuple[_Axis, ...]


_OPEN: Final = "?"


def _transform(text: str, location: int, results: pp.ParseResults) -> IotaTransform:
    dims, order = results[0], (results[1] if len(results) > 1 else (0,))
    if not all(0 <= d < len(dims) for d in order):
        raise fail(text, location, f"expected a permutation of the {len(dims)} dimensions")
    return IotaTransform(dims, order)


_ORDER: Final = (
    symbol(r"T[ \t\n\r]*+(?=\()", "T(permutation)").suppress() - _suppress_literal("(") - INTS - _suppress_literal(")")
)
_ONE: Final = symbol(r"(?=\[[ \t\n\r]*+[0-9\-]++[ \t\n\r]*+\])", "one number in brackets").suppress()
IOTA: Final = (_ONE + SIZES | SIZES - _ORDER).set_parse_action(_transform)
"""`[8]` or `[2,4]T(1,0)`."""


def _mesh(text: str, location: int, results: pp.ParseResults) -> Mesh:
    axes = tuple(item for item in results if isinstance(item, MeshAxis))
    names = [axis.name for axis in axes]
    if len(set(names)) < len(names):
        raise fail(text, location, f"duplicate mesh axis '{next(name for name in names if names.count(name) > 1)}'")
    ids = results[-1] if results and not isinstance(results[-1], MeshAxis) else None
    mesh = Mesh(axes, ids)
    if isinstance(ids, tuple):
        if len(ids) != mesh.device_count or sorted(ids) != list(range(len(ids))):
            raise fail(text, location, f"expected a permutation of the {mesh.device_count} devices of the mesh")
        if list(ids) == sorted(ids):
            raise fail(text, location, "omit the device list if it is in order")
    return mesh


_MESH_AXIS: Final = ((STRING - _suppress_literal("=") | ATTRIBUTE) - INT).set_parse_action(
    lambda results: MeshAxis(results[0], results[1])
)
_DEVICE_IDS: Final = (
    symbol(r",[ \t\n\r]*+device_ids=", ", device_ids=").suppress()
    - _suppress_literal("(")
    - (IOTA | INTS)
    - _suppress_literal(")")
)
MESH: Final = (
    (
        word("mesh").suppress()
        - _suppress_literal("[")
        - listed(_MESH_AXIS)
        - _suppress_literal("]")
        + pp.Opt(_DEVICE_IDS)
    )
    .set_parse_action(_mesh)
    .set_name("a mesh")
)
_MAXIMAL_MESH: Final = (
    (word("maximal_mesh") | word("single_device"))
    - _suppress_literal("[")
    - named("device_id")
    - INT
    - _suppress_literal("]")
).set_parse_action(lambda results: MaximalMesh(results[1], results[0]))

_AXIS_NAME: Final = symbol(r"%?+[A-Za-z_][A-Za-z0-9_.\-]*+", "an axis name")
_AXIS: Final = (
    (STRING | _AXIS_NAME)
    + pp.Opt(_suppress_literal(":"))
    + pp.Opt(_suppress_literal("(") - INT - _suppress_literal(")") - INT)
).set_parse_action(lambda text, location, results: _Axis(location, results[0].removeprefix("%"), tuple(results[1:])))
_AXES: Final = (_suppress_literal("{") - listed(_AXIS) - _suppress_literal("}", "'}' or an axis")).set_parse_action(
    lambda results: [tuple(results)]
)
_DIMENSION: Final = (
    _suppress_literal("{") - listed(_AXIS | pp.Literal(_OPEN)) - _suppress_literal("}", "'}' or an axis")
).set_parse_action(lambda results: [tuple(results)])


def _resolved(text: str, axis: _Axis, mesh: Mesh) -> AxisRef:
    """The axis of the mesh, by name or by number."""
    names = [whole.name for whole in mesh.axes]
    name = axis.name
    if name not in names and name.isdecimal() and len(name) < 10 and int(name) < len(names):
        name = names[int(name)]
    if name not in names:
        raise fail(text, axis.location, f"unknown mesh axis '{name}'")
    if not axis.part:
        return AxisRef(name)
    (pre, size), whole = axis.part, mesh.axes[names.index(name)].size
    if pre < 1 or size < 2 or size >= whole or whole % (pre * size):
        raise fail(text, axis.location, f"({pre}){size} is not a valid sub-axis of size {whole}")
    return AxisRef(name, pre, size)


def _dimension_sharding(text: str, items: tuple[_Axis | str, ...], mesh: Mesh, location: int) -> DimensionSharding:
    axes = tuple(_resolved(text, item, mesh) for item in items if isinstance(item, _Axis))
    if _OPEN in items[:-1]:
        raise fail(text, location, "? must come last")
    return DimensionSharding(axes, is_closed=_OPEN not in items)


def _named_axes(results: pp.ParseResults) -> _Axes:
    return _Axes(results[0], results[1] if len(results) > 2 else None, results[-1])


_REDUCTION: Final = one_of(ReductionKind)
_WITH_METADATA: Final = (named("metadata") - METADATA).set_parse_action(lambda results: [("metadata", results[0])])
_WITH_AXES: Final = (
    (symbol("(?:replicated|manual)=", "replicated= or manual=") - _AXES)
    | (symbol("unreduced=", "unreduced=") - pp.Opt(_REDUCTION) - _AXES)
).set_parse_action(lambda results: _named_axes(results))
_REST: Final = pp.ZeroOrMore(
    _suppress_literal(",") - (_WITH_METADATA | _WITH_AXES).set_name("replicated=, unreduced=, manual=, or metadata=")
)
_WHOLE_AXES: Final = symbol(r"unreduced=", "unreduced=") - _REDUCTION | word("(?:replicated|unreduced|manual)")
_DIMENSIONS: Final = (
    _suppress_literal("[", "'[' or one of replicated, unreduced, or manual")
    - listed(_DIMENSION)
    - _suppress_literal("]")
).set_parse_action(lambda results: [list(results)])


def _sharding(text: str, location: int, results: pp.ParseResults) -> NamedSharding:
    mesh, *rest = results
    metadata = next((item[1] for item in rest if isinstance(item, tuple) and item[0] == "metadata"), ())
    if isinstance(mesh, MaximalMesh):
        return NamedSharding(mesh, metadata=metadata)
    if isinstance(rest[0], str):
        reduction = rest[1] if len(rest) > 1 and isinstance(rest[1], ReductionKind) else None
        return NamedSharding(mesh, whole=rest[0].removesuffix("="), reduction=reduction, metadata=metadata)
    axes: dict[str, tuple[AxisRef, ...]] = {}
    reduction = None
    for item in rest:
        if isinstance(item, _Axes):
            axes[item.word[:-1]] = tuple(_resolved(text, axis, mesh) for axis in item.axes)
            reduction = item.reduction or reduction
    sharding = NamedSharding(
        mesh,
        tuple(_dimension_sharding(text, items, mesh, location) for items in rest[0]),
        axes.get("replicated", ()),
        axes.get("unreduced", ()),
        axes.get("manual", ()),
        reduction,
        metadata=metadata,
    )
    if (problem := sharding.problem) is not None:
        raise fail(text, max(text.find("{", location), location), problem)  # the first list of axes
    return sharding


NAMED_SHARDING: Final = (
    MESH
    + pp.Opt(_suppress_literal(","))
    - ((_WHOLE_AXES + pp.Opt(_suppress_literal(",") - _WITH_METADATA)) | (_DIMENSIONS + _REST))
    | _MAXIMAL_MESH + pp.Opt(_suppress_literal(",") - _WITH_METADATA)
).set_parse_action(_sharding)
"""The contents of the braces of a sharding with a mesh."""


def _mesh_groups(text: str, location: int, results: pp.ParseResults) -> MeshAxesReplicaGroupList:
    mesh, axes = results
    if not axes:
        raise fail(text, location, "expected at least one axis")
    groups = MeshAxesReplicaGroupList(mesh, tuple(_resolved(text, axis, mesh) for axis in axes))
    if (problem := mesh.problem_with([groups.axes])) is not None:
        raise fail(text, location, problem)
    return groups


def _iota_groups(text: str, location: int, results: pp.ParseResults) -> IotaReplicaGroupList:
    (count, size), transform = results
    return IotaReplicaGroupList(count, size, transform)


_PAIR: Final = symbol(r"(?=\[[^\[\],]*+,[^\[\],]*+\])", "the number of groups and their size").suppress() + SIZES
_GROUPS: Final = (MESH + pp.Opt(_suppress_literal(",")) - _AXES).set_parse_action(_mesh_groups) | (
    _PAIR - _suppress_literal("<=") - IOTA
).set_parse_action(_iota_groups)


# --- shardings ---
# Grammar of shardings, and XLA's checks while it reads them.
#
# Mirrors `ParseSharding` and `ParseSingleSharding` of xla/hlo/parser/hlo_parser.cc.


class _Device(NamedTuple):
    """The device of a maximal sharding."""

    id: int


class _LastTileDims(NamedTuple):
    """The meanings of the last dimensions of the tiles."""

    types: tuple[ir.ShardingType, ...]


class _Listed(NamedTuple):
    """A complete list of metadata."""

    metadata: tuple[Metadata, ...]


_WHOLE_KINDS: Final = tuple(kind for kind in ir.ShardingType if kind is not ir.ShardingType.TILED)
"""Keywords for a sharding without tiles, in the order in which XLA checks for them."""
_REPLICATE: Final = "last_tile_dim_replicate"


def _tiles(text: str, location: int, results: pp.ParseResults) -> ir.TileAssignment:
    dimensions, devices = results
    if isinstance(devices, IotaTransform) and not devices.is_permutation:
        raise fail(text, location, f"expected a permutation of the {len(devices.reshape_dims)} dimensions")
    return ir.TileAssignment(dimensions, devices)


def _type(kinds: tuple[ir.ShardingType, ...]) -> pp.ParserElement:
    element = symbol(rf"(?:{'|'.join(kinds)})(?![A-Za-z0-9_.\-:=])", " or ".join(kinds))
    return element.set_parse_action(lambda results: ir.ShardingType(results[0]))


_TYPE: Final = _type(_WHOLE_KINDS)
_LAST_TILE: Final = _type(tuple(kind for kind in _WHOLE_KINDS if kind is not ir.ShardingType.UNKNOWN))
_TILES: Final = (named("devices") - SIZES - (_suppress_literal("<=") - IOTA | INTS)).set_parse_action(_tiles)
_SHARD_GROUP: Final = (
    symbol("shard_(?:as|like)(?![A-Za-z0-9_.:=-])", "shard_as or shard_like") - INT
).set_parse_action(lambda results: ir.ShardGroup(results[1], is_like=results[0] == "shard_like"))
_LAST_TILE_DIMS: Final = (
    named("last_tile_dims") - _suppress_literal("{") - listed(_LAST_TILE) - _suppress_literal("}")
).set_parse_action(lambda results: _LastTileDims(tuple(results)))
_ITEM: Final = (
    _TYPE
    | word(_REPLICATE)
    | _TILES
    | _SHARD_GROUP
    | _LAST_TILE_DIMS
    | (named("device") - INT).set_parse_action(lambda results: _Device(results[0]))
    | (named("unreduced") - one_of(ReductionKind))
    | (named("metadata") - METADATA).set_parse_action(lambda results: _Listed(results[0]))
)


def _single(text: str, location: int, results: pp.ParseResults) -> ir.Sharding:
    types = [item for item in results if isinstance(item, ir.ShardingType)]
    reduction = next((item for item in results if isinstance(item, ReductionKind)), None)
    if reduction is not None:
        types.append(ir.ShardingType.UNREDUCED)
    groups = [item for item in results if isinstance(item, ir.ShardGroup)]
    sharding = ir.Sharding(
        next((kind for kind in _WHOLE_KINDS if kind in types), ir.ShardingType.TILED),
        next((item for item in results if isinstance(item, ir.TileAssignment)), None),
        next((item.id for item in results if isinstance(item, _Device)), None),
        _REPLICATE in list(results),
        tuple(kind for item in results if isinstance(item, _LastTileDims) for kind in item.types),
        reduction,
        ir.ShardGroup(groups[-1].id, is_like=all(group.is_like for group in groups)) if groups else None,
        tuple(entry for item in results if isinstance(item, _Listed) for entry in item.metadata),
    )
    if (problem := sharding.problem) is not None:
        raise fail(text, location, problem)
    return sharding


_SINGLE: Final = pp.OneOrMore(_ITEM).set_parse_action(_single)
_CLOSE: Final = _suppress_literal("}", "a sharding item or '}'")
_BRACED_ITEM: Final = _suppress_literal("{") - (NAMED_SHARDING | _SINGLE).set_name("a sharding item") - _CLOSE
_TUPLE: Final = listed(_BRACED_ITEM).set_parse_action(lambda results: ir.TupleSharding(tuple(results)))
_SHARDING: Final = _suppress_literal("{") - (NAMED_SHARDING | _SINGLE | _TUPLE) - _CLOSE


# --- original values and accuracies ---
# Grammars of original values, of a module's tables about them, and of statistics and accuracies.
#
# Mirrors `ParseOriginalValueImpl`, `ParseStatisticsViz` and `ParseResultAccuracyType` of xla/hlo/parser/hlo_parser.cc.


_ARRAY: Final = (
    _suppress_literal("{") + pp.Opt(STRING - pp.Opt(INDEX)) - _suppress_literal("}", "an original instruction or '}'")
).set_parse_action(lambda results: OriginalArray(*results))
_TREE = pp.Forward()
_TREE.set_name("a tree of original instructions")
_TREES: Final = pp.ZeroOrMore(_TREE + pp.Opt(_suppress_literal(",")))
_TREE <<= _ARRAY | (_suppress_literal("(") - _TREES - _suppress_literal(")")).set_parse_action(
    lambda results: OriginalTuple(tuple(results))
)
_SYNTHETIC: Final = _suppress_literal("[") - word("synthetic_call").suppress() - _suppress_literal("]")
_HIERARCHY: Final = _suppress_literal(",") - _suppress_literal("[") - STRING - _suppress_literal("]")


def _original_value(results: pp.ParseResults) -> OriginalValue:
    tree, *hierarchy = results
    return OriginalValue(None if hierarchy == [""] else tree, *hierarchy)


_ORIGIN: Final = (
    _suppress_literal("{")
    - (_SYNTHETIC.set_parse_action(lambda: [None]) | pp.Opt(_TREE, OriginalArray()) + pp.Opt(_HIERARCHY))
    - _suppress_literal("}", "a tree of original instructions")
).set_parse_action(_original_value)

_RECOVERY: Final = (
    _ARRAY - _suppress_literal(":") - _ARRAY + pp.Opt(_suppress_literal(",") - STRING)
).set_parse_action(lambda results: Recovery(*results))
_RECOVERIES: Final = (_suppress_literal("{") - pp.ZeroOrMore(_RECOVERY) - _suppress_literal("}")).set_parse_action(
    lambda results: RecoveryTable(tuple(results))
)

_BOOL: Final = symbol("(?:true|false)(?![A-Za-z0-9_.:=-])", "true or false").set_parse_action(
    lambda results: results[0] == "true"
)


def _field(name: str, value: pp.ParserElement) -> pp.ParserElement:
    return (named(name) - value).set_parse_action(lambda results: [(name, results[0])])


_DEBUG_FIELD: Final = (
    _field("log_mode", one_of(DebugLogMode))
    | _field("callback_id", INT)
    | _field("partitioned", _BOOL)
    | _field("op_id", INT)
)
_DEBUG: Final = (
    _suppress_literal("{")
    - pp.ZeroOrMore(pp.Opt(_suppress_literal(",")) + _DEBUG_FIELD)
    - _suppress_literal("}", "a debug attribute or '}'")
).set_parse_action(lambda results: DebugAttributes(**dict(list(results))))
_DEBUGGED: Final = (
    _ARRAY - _suppress_literal(":") - (_suppress_literal("(") - listed(_DEBUG) - _suppress_literal(")") | _DEBUG)
).set_parse_action(lambda results: DebuggedArray(results[0], tuple(results[1:])))
_DEBUG_TABLE: Final = (_suppress_literal("{") - listed(_DEBUGGED) - _suppress_literal("}")).set_parse_action(
    lambda results: [tuple(results)]
)

_DECIMAL: Final = symbol(
    r"-?+(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+\-]?+[0-9]++)?+|-?+inf(?![A-Za-z0-9_.\-])", "a number"
).set_parse_action(lambda results: float(results[0]))
_STATISTIC: Final = (ATTRIBUTE - _DECIMAL).set_parse_action(lambda results: Statistic(results[0], results[1]))
_STATISTICS: Final = (
    _suppress_literal("{")
    - pp.Opt(ATTRIBUTE.copy().suppress() - INT + pp.ZeroOrMore(_suppress_literal(",") - _STATISTIC))
    - _suppress_literal("}")
).set_parse_action(lambda results: StatisticsViz(results[0], tuple(results[1:])) if results else StatisticsViz(0, ()))


def _not_negative(text: str, location: int, results: pp.ParseResults) -> None:
    if not results[0] >= 0:
        raise fail(text, location, "tolerance cannot be negative")


_AMOUNT: Final = _DECIMAL.copy().add_parse_action(_not_negative)
_TOLERANCE: Final = (
    _suppress_literal("{")
    - listed(_field("atol", _AMOUNT) | _field("rtol", _AMOUNT) | _field("ulps", _AMOUNT))
    - _suppress_literal("}")
).set_parse_action(lambda results: Tolerance(**{name: int(n) if name == "ulps" else n for name, n in results}))
_ACCURACY: Final = (
    _suppress_literal("{")
    - (named("mode") - one_of(ResultAccuracyMode) | named("tolerance") - _TOLERANCE)
    - _suppress_literal("}")
).set_parse_action(lambda results: ResultAccuracy(results[0]))


# --- the reader of each kind ---


GRAMMARS: Final = MappingProxyType[Kind, Callable[[Tokens], AttributeValue]](
    {
        # `{ {"a" {0}}:({log_mode=default}, {op_id=3}) }`
        Kind.DEBUG_ATTRIBUTES: _reader(_DEBUG_TABLE, "debug_attributes"),
        # `{{"a" {0}}}`, `{({"a"}, {"b"}),["call"]}` or `{[synthetic_call]}`
        Kind.ORIGIN: _reader(_ORIGIN, "origin"),
        # `{ {"old"} : {"new"}, "HloModule …" … }`
        Kind.RECOVERY_TABLE: _reader(_RECOVERIES, "origin_recovery_table"),
        # `[2,2]<=[4]` or `mesh['x'=2] {'x'}`; listed groups need no grammar
        Kind.REPLICA_GROUPS: _reader(_GROUPS, "replica_groups"),
        # `{mode=highest}` or `{tolerance={atol=0.1,rtol=0.2,ulps=3}}`
        Kind.RESULT_ACCURACY: _reader(_ACCURACY, "result_accuracy"),
        # one sharding, or one for each leaf of a tuple between further braces
        Kind.SHARDING: _reader(_SHARDING, "sharding"),
        # `{visualizing_index=0,name=1.5}`; the first number is the index, under any name
        Kind.STATISTICS: _reader(_STATISTICS, "statistics"),
    }
)
"""The readers of the kinds whose values have a language of their own."""
