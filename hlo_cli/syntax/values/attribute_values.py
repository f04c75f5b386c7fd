"""What value the text of an attribute means: the grammar of its kind, each distinct text read once, on demand.

Also for the headers of modules. pyparsing is imported when a value in prose is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes import sharding as ir_sharding
from hlo_cli.ir.attributes.metadata import (
    NO_METADATA,
    FileLocation,
    Metadata,
    StackFrame,
    StackFrames,
)
from hlo_cli.ir.attributes.value_types import AttributeValue, Literal, Name
from hlo_cli.ir.instruction import Attribute, Instruction, NoText
from hlo_cli.ir.notation import UnparsedText, read_index, unquote
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError, Source, Span
from hlo_cli.syntax.attribute_table import HEADER_ATTRIBUTES, Kind, attributes_of
from hlo_cli.syntax.literal_reading import literal_at, read_shaped_literal
from hlo_cli.syntax.scanning import tokens as tk
from hlo_cli.syntax.scanning.attributes import expect_no_attribute, read_attributes
from hlo_cli.syntax.scanning.scanner import STRING, Scanner
from hlo_cli.syntax.scanning.tokens import Tokens, read_list, read_name
from hlo_cli.syntax.values import operation_values

# --- a grammar for each kind ---
# The reader of each kind of attribute whose value can be read on its own.


ValueReader = Callable[[Tokens], AttributeValue]


def _prose_reader(kind: Kind) -> ValueReader:
    """The reader of a kind whose grammar is in `prose_grammars`: pyparsing is imported with the first such value."""

    def read(tokens: Tokens) -> AttributeValue:
        from hlo_cli.syntax.values import prose_grammars

        return prose_grammars.GRAMMARS[kind](tokens)

    return read


_read_sharding: Final = _prose_reader(Kind.SHARDING)
_read_computed_groups: Final = _prose_reader(Kind.REPLICA_GROUPS)


def _read_replica_groups(tokens: Tokens) -> AttributeValue:
    """`{{0,1},{2,3}}`, `[2,2]<=[4]` or `mesh['x'=2] {'x'}`."""
    return operation_values.read_device_list(tokens) if tokens.kind == "{" else _read_computed_groups(tokens)


def _read_domain(tokens: Tokens) -> ir_sharding.Domain:
    """`{kind="sharding", entry={…}, exit={…}}`."""
    fields = _DOMAIN(tokens)
    return ir_sharding.Domain(fields["entry"], fields["exit"])  # type: ignore[arg-type]


def _read_domain_kind(tokens: Tokens) -> str:
    start, end = tokens.start, tokens.end
    kind = tk.read_string(tokens)
    if kind != "sharding":
        tokens.fail("domain kind must be sharding", start, end)
    return kind


_DOMAIN: Final = tk.fields(
    {"kind": _read_domain_kind, "entry": _read_sharding, "exit": _read_sharding}, required=("kind", "entry", "exit")
)
GRAMMARS: Final = MappingProxyType[Kind, ValueReader](
    {
        Kind.BOOL: tk.read_bool,
        Kind.BOOL_IF_GIVEN: tk.read_bool,
        Kind.BOOLS: tk.read_bools,
        Kind.BOOLS_OR_BOOL: tk.read_bools_or_bool,
        Kind.INT: tk.read_int,
        Kind.INT32: tk.read_int32,
        Kind.INTS: tk.read_ints,
        Kind.INT_LISTS: tk.read_int_lists,
        Kind.FLOAT: tk.read_float,
        Kind.STRING: tk.read_string,
        Kind.STRING_OR_JSON: operation_values.read_backend_config,
        Kind.SHAPE: tk.take_shape,
        Kind.SHAPES: tk.read_shapes,
        Kind.LITERAL: read_shaped_literal,
        Kind.ALGORITHM: operation_values.ALGORITHM,
        Kind.ALIASING: operation_values.read_aliasing,
        Kind.API_VERSION: operation_values.API_VERSION,
        Kind.BLOCK_SCALING: operation_values.read_block_scaling,
        Kind.BUFFER_DONORS: operation_values.read_buffer_donors,
        Kind.COMPUTATION_LAYOUT: operation_values.read_computation_layout,
        Kind.CONVOLUTION_KIND: operation_values.CONVOLUTION_KIND,
        Kind.DEBUG_ATTRIBUTES: _prose_reader(Kind.DEBUG_ATTRIBUTES),
        Kind.DIM_LABELS: operation_values.read_dim_labels,
        Kind.DIRECTION: operation_values.DIRECTION,
        Kind.DISTRIBUTION: operation_values.DISTRIBUTION,
        Kind.DOMAIN: _read_domain,
        Kind.FFT_TYPE: operation_values.FFT_TYPE,
        Kind.FRONTEND_ATTRIBUTES: operation_values.read_frontend_attributes,
        Kind.FUSION_KIND: operation_values.FUSION_KIND,
        Kind.GROUP_MODE: operation_values.GROUP_MODE,
        Kind.METADATA: operation_values.read_metadata,
        Kind.OPERAND_ALIASING: operation_values.read_operand_aliasing,
        Kind.ORDER: operation_values.ORDER,
        Kind.ORIGIN: _prose_reader(Kind.ORIGIN),
        Kind.PADDING: operation_values.read_padding,
        Kind.PADDING_TYPE: operation_values.PADDING_TYPE,
        Kind.PRECISIONS: operation_values.read_precisions,
        Kind.RANDOM_ALGORITHM: operation_values.RANDOM_ALGORITHM,
        Kind.RECOVERY_TABLE: _prose_reader(Kind.RECOVERY_TABLE),
        Kind.REPLICA_GROUPS: _read_replica_groups,
        Kind.RESULT_ACCURACY: _prose_reader(Kind.RESULT_ACCURACY),
        Kind.SCHEDULE: operation_values.SCHEDULE,
        Kind.SHARDING: _read_sharding,
        Kind.SHUFFLE_MODE: operation_values.SHUFFLE_MODE,
        Kind.SLICE: operation_values.read_slice,
        Kind.SPARSITY: operation_values.read_sparsity,
        Kind.STATISTICS: _prose_reader(Kind.STATISTICS),
        Kind.TRANSPOSE: operation_values.TRANSPOSE,
        Kind.TYPE: operation_values.TYPE,
        Kind.WINDOW: operation_values.read_window,
    }
)
"""Names of computations and instructions are read where the defined ones are known."""


# --- common forms without a grammar ---
# Shardings and device groups in their most common forms, read without the full grammars.
#
# The full grammars use pyparsing, which takes longer to import than most modules take to read. Other forms are left
# to the grammars, which return equal values for the common ones.
#
# Mirrors `ParseSingleSharding` and `ParseCollectiveDeviceList` of xla/hlo/parser/hlo_parser.cc.


_SIZE: Final = "[1-9][0-9]{0,8}+"
_SIZES: Final = rf"{_SIZE}(?:,{_SIZE})*+"
_IDS: Final = rf"(?:0|{_SIZE})(?:,(?:0|{_SIZE}))*+"
_IOTA: Final = rf"<=\[({_SIZES})\](?:T\(({_IDS})\))?+"
_NAME: Final = "'[A-Za-z_][A-Za-z0-9_]*+'"
_IOTA_GROUPS: Final = lazy_regex(rf"\[({_SIZE}),({_SIZE})\]{_IOTA}")
_MESH_GROUPS: Final = lazy_regex(rf"mesh\[({_NAME}={_SIZE}(?:,{_NAME}={_SIZE})*+)\] \{{({_NAME}(?:,{_NAME})*+)\}}")
_TILED: Final = lazy_regex(rf"\{{devices=\[({_SIZES})\](?:{_IOTA}|({_IDS}))( last_tile_dim_replicate)?+\}}")
_WHOLE: Final = re.compile(rf"\{{(?:(replicated|manual)|maximal device=(0|{_SIZE}))\}}")


def plain_groups(text: str) -> ir_sharding.IotaReplicaGroupList | ir_sharding.MeshAxesReplicaGroupList | None:
    """Groups made by an iota or by the axes of a mesh, or None for all other text.

    >>> str(plain_groups("[2,4]<=[4,2]T(1,0)")), str(plain_groups("mesh['x'=2,'y'=4] {'y'}")), plain_groups("{{0,1}}")
    ('[2,4]<=[4,2]T(1,0)', "mesh['x'=2,'y'=4] {'y'}", None)
    """
    if (match := _IOTA_GROUPS.fullmatch(text)) is not None:
        transform = _transform(match[3], match[4])
        return None if transform is None else ir_sharding.IotaReplicaGroupList(int(match[1]), int(match[2]), transform)
    if (match := _MESH_GROUPS.fullmatch(text)) is None:
        return None
    sizes = [axis.split("=") for axis in match[1].split(",")]
    mesh = ir_sharding.Mesh(tuple(ir_sharding.MeshAxis(name.strip("'"), int(size)) for name, size in sizes))
    axes = tuple(ir_sharding.AxisRef(name.strip("'")) for name in match[2].split(","))
    names = {axis.name for axis in mesh.axes}
    are_there = len(names) == len(mesh.axes) and all(axis.name in names for axis in axes)
    return ir_sharding.MeshAxesReplicaGroupList(mesh, axes) if are_there and mesh.problem_with([axes]) is None else None


def plain_sharding(text: str) -> ir_sharding.Sharding | None:
    """One sharding without metadata or group, or None for all other text.

    >>> str(plain_sharding("{devices=[2,1,2]<=[4] last_tile_dim_replicate}")), str(plain_sharding("{maximal device=3}"))
    ('{devices=[2,1,2]<=[4] last_tile_dim_replicate}', '{maximal device=3}')
    >>> plain_sharding("{{replicated}, {manual}}") is plain_sharding("{devices=[1]0}") is None
    True
    """
    if (match := _WHOLE.fullmatch(text)) is not None:
        if match[1] is None:
            return ir_sharding.Sharding(ir_sharding.ShardingType.MAXIMAL, device=int(match[2]))
        return ir_sharding.Sharding(ir_sharding.ShardingType(match[1]))
    if (match := _TILED.fullmatch(text)) is None:
        return None
    devices = _transform(match[2], match[3]) if match[4] is None else read_index(match[4])
    if devices is None:
        return None
    tiles = ir_sharding.TileAssignment(read_index(match[1]), devices)
    sharding = ir_sharding.Sharding(
        ir_sharding.ShardingType.TILED, tiles, replicate_on_last_tile_dim=match[5] is not None
    )
    return sharding if sharding.problem is None else None


def _transform(dims: str, order: str | None) -> ir_sharding.IotaTransform | None:
    """An iota; the order of its dimensions is required if there are several."""
    if order is None:
        return None if "," in dims else ir_sharding.IotaTransform((int(dims),))
    transform = ir_sharding.IotaTransform(read_index(dims), read_index(order))
    return transform if "," in dims and transform.is_permutation else None


# --- metadata ---
# Metadata read from the text of its attribute. Mirrors `ParseMetadata` of xla/hlo/parser/hlo_parser.cc.


_FIELD = lazy_regex(rf"(?<![A-Za-z_])([A-Za-z_]++)=({STRING}|-?[0-9]++|\{{[0-9, \t]*+\}}|(?=\{{))", re.DOTALL)
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_KINDS: Final = {
    "op_type": str,
    "op_name": str,
    "source_file": str,
    "source_line": int,
    "source_end_line": int,
    "source_column": int,
    "source_end_column": int,
    "profile_type": tuple,
    "deduplicated_name": str,
    "scheduling_name": str,
    "stack_frame_id": int,
    "metadata_payload": str,
}


@lru_cache(maxsize=1 << 14)
def parse_metadata(value: str) -> Metadata:
    """The value of a metadata attribute; keys without a field in `Metadata` are skipped.

    Read once for all instructions with the same text, as clones have it by the hundred.

    >>> parse_metadata('{op_name="jit(f)/add" source_file="a.py" source_line=3}').source_line
    3
    """
    fields: dict[str, str | int | tuple[int, ...]] = {}
    for key, text in _FIELD.findall(value):
        kind, first = _KINDS.get(key), text[:1]
        if kind is str and (first == '"' or first == "'"):
            fields[key] = unquote(text)
        elif kind is int and (first == "-" or first.isdigit()):
            fields[key] = int(text[:18])  # fits int64; lines of source files have fewer digits
        elif kind is tuple and first == "{":
            fields[key] = tuple(map(int, _NUMBER.findall(text)))
    return Metadata(**fields)  # type: ignore[arg-type]


# --- values of attributes ---
# Attribute values read from their texts: each distinct text once, by the grammar of its kind.
#
# Mirrors `ParseAttributes` of xla/hlo/parser/hlo_parser.cc; a text outside its grammar stays text.


_PLAIN_NAME: Final = lazy_regex(r"%([A-Za-z_][A-Za-z0-9_.\-]*+)")


def read_attribute_value(opcode: str, attribute: str, text: str) -> AttributeValue:
    """The value of an instruction's attribute; its text if the attribute is unknown or the text unreadable.

    >>> read_attribute_value("reduce", "dimensions", "{0,1}"), read_attribute_value("reduce", "dimensions", "{0,x}")
    ((0, 1), '{0,x}')
    """
    rule = attributes_of(opcode).get(attribute)
    return UnparsedText(text) if rule is None else read_value_text(rule.kind, text)


def read_header_value(attribute: str, text: str) -> AttributeValue:
    """The value of a header attribute.

    >>> read_header_value("num_partitions", "4")
    4
    """
    rule = HEADER_ATTRIBUTES.get(attribute)
    return UnparsedText(text) if rule is None else read_value_text(rule.kind, text)


@lru_cache(maxsize=1 << 16)
def read_value_text(kind: Kind, text: str) -> AttributeValue:
    """The value in a text, by the grammar of a kind.

    >>> str(read_value_text(Kind.WINDOW, "{size=3 stride=1 pad=0_1}"))
    '{size=3 pad=0_1}'
    """
    if kind is Kind.METADATA:
        return parse_metadata(text)
    if kind is Kind.COMPUTATION and (match := _PLAIN_NAME.fullmatch(text)) is not None:
        return Name(match[1])
    if kind is Kind.REPLICA_GROUPS and (groups := plain_groups(text)) is not None:
        return groups
    if kind is Kind.SHARDING and (sharding := plain_sharding(text)) is not None:
        return sharding
    try:
        tokens = Tokens(Source("", text))
        value = _readers()[kind](tokens)
        return value if tokens.kind == tk.END else UnparsedText(text)
    except HloError:
        return UnparsedText(text)


def parse_failure(kind: Kind, text: str) -> str | None:
    """The error in a text that is not a value of this kind, and a hint; None if it is one.

    >>> parse_failure(Kind.INTS, "[0]"), parse_failure(Kind.DIRECTION, "lt")
    ("expected '{' before a list, found '['", "did you mean 'LT'?")
    """
    tokens = Tokens(Source("", text))
    try:
        _readers()[kind](tokens)
    except HloError as error:
        return error.diagnostic.hint or error.diagnostic.message
    return None if tokens.kind == tk.END else f"expected end of value, found '{tokens.text}'"


@cache
def _readers() -> Mapping[Kind, ValueReader]:
    return MappingProxyType({**GRAMMARS, **_NAMES})


def _read_computation(tokens: Tokens) -> Name:
    return Name(read_name(tokens, "a computation"))


def _read_computations(tokens: Tokens) -> tuple[Name, ...]:
    return read_list(tokens, _read_computation)


def _read_instructions(tokens: Tokens) -> tuple[Name, ...]:
    return read_list(tokens, lambda tokens: Name(read_name(tokens, "an instruction")))


_NAMES: Final[Mapping[Kind, ValueReader]] = MappingProxyType(
    {
        Kind.COMPUTATION: _read_computation,
        Kind.COMPUTATIONS: _read_computations,
        Kind.INSTRUCTIONS: _read_instructions,
    }
)


# --- values of instructions ---
# Reads attribute values in general, and those of instructions that carry their own text.
#
# Mirrors `ParseAttributes` of xla/hlo/parser/hlo_parser.cc.


class WrittenReader(NoText[Instruction]):
    """Reads the values and the metadata of instructions that carry their own text."""

    __slots__ = ("_source",)

    def __init__(self, source: Source) -> None:
        self._source = source

    def value(self, opcode: str, attribute: str, text: str) -> AttributeValue:
        """The value of an attribute, read from its text."""
        return read_attribute_value(opcode, attribute, text)

    def metadata(self, instruction: Instruction) -> Metadata:
        """The value of the metadata attribute."""
        value = instruction.attribute("metadata")
        return NO_METADATA if value is None else parse_metadata(value)

    def literal(self, instruction: Instruction) -> Literal:
        """The values of a constant."""
        text = instruction.text
        if text.argument_span is None:
            return literal_at(Source("", text.argument), Span(0, len(text.argument)), instruction.shape)
        return literal_at(self._source, text.argument_span, instruction.shape)


# --- headers of modules ---
# The header of a module: its name, header attributes, and stack tables.
#
# Mirrors `ParseHloModule` and `ParseStackFrameIndex` of xla/hlo/parser/hlo_parser.cc.


SECTIONS: Final = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
_TABLES = re.compile(
    rf"(?:(?:{'|'.join(SECTIONS)})\b[ \t\n\r]*+(?:[0-9]++[ \t]++(?:{STRING}|\{{[^{{}}]*+\}})[ \t\n\r]*+)*+)++",
    re.DOTALL,
)
_SECTION = lazy_regex(rf"({'|'.join(SECTIONS)})|[0-9]++[ \t]++({STRING}|\{{[^{{}}]*+\}})", re.DOTALL)
_NUMBER_FIELD = re.compile(r"([a-z_]++)=([0-9]++)")


@dataclass(frozen=True, slots=True)
class Header:
    """The text before the first computation."""

    name: str
    attributes: tuple[Attribute, ...]
    stack_tables: str = ""

    def get(self, name: str) -> str | None:
        """The text of one header attribute."""
        return next((a.value for a in self.attributes if a.name == name), None)

    @property
    def is_scheduled(self) -> bool:
        """Whether the order of instructions is the schedule."""
        return self.get("is_scheduled") == "true"


def read_header(scanner: Scanner) -> Header:
    """Reads `HloModule name, attribute=value, …` and the stack tables after it."""
    if not scanner.accept_word("HloModule"):
        raise scanner.error("expected HloModule", hint="did you mean 'HloModule'?")
    name = "" if scanner.at(",") else scanner.name("the name of the module")
    attributes = read_attributes(scanner)
    expect_no_attribute(scanner)
    return Header(name, attributes, read_stack_tables(scanner))


def read_stack_tables(scanner: Scanner) -> str:
    """The text of the four tables, if they come next."""
    match = _TABLES.match(scanner.text, scanner.skip(), scanner.end)
    if match is None:
        return ""
    scanner.pos = match.end()
    return match[0].strip()


def parse_stack_tables(text: str) -> StackFrames:
    """Parses the four tables.

    >>> parse_stack_tables('FileNames 1 "a.py"').file_names
    ('a.py',)
    """
    rows: dict[str, list[str]] = {section: [] for section in SECTIONS}
    current: list[str] = []
    for section, row in _SECTION.findall(text):
        if section:
            current = rows[section]
        else:
            current.append(row)
    return StackFrames(
        tuple(map(unquote, rows["FileNames"])),
        tuple(map(unquote, rows["FunctionNames"])),
        tuple(map(_file_location, rows["FileLocations"])),
        tuple(map(_stack_frame, rows["StackFrames"])),
    )


def _file_location(row: str) -> FileLocation:
    numbers = _numbers(row)
    return FileLocation(
        numbers.get("file_name_id", 0),
        numbers.get("function_name_id", 0),
        numbers.get("line", 0),
        numbers.get("end_line", 0),
        numbers.get("column", 0),
        numbers.get("end_column", 0),
    )


def _stack_frame(row: str) -> StackFrame:
    numbers = _numbers(row)
    return StackFrame(numbers.get("file_location_id", 0), numbers.get("parent_frame_id", 0))


def _numbers(row: str) -> dict[str, int]:
    return {key: int(value[:18]) for key, value in _NUMBER_FIELD.findall(row)}
