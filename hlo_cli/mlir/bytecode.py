"""Which operations the bytes of an MLIR program hold: MLIR's bytecode, of every version up to 6.

Sections are found first; the operations are read whole, types and attributes (`bytecode_table.py`) on use.

Mirrors mlir/lib/Bytecode/Reader/BytecodeReader.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.mlir.bytecode_table import (
    ATTRIBUTES,
    DIALECTS,
    IR,
    MAX_DEPTH,
    OFFSETS,
    PROPERTIES,
    STRINGS,
    WITH_LAZY_REGIONS,
    WITH_USES,
    WITHOUT_LOCATIONS,
    BytecodeError,
    ForeignCodes,
    Reader,
    Table,
    location_of,
)
from hlo_cli.mlir.mlir_operations import Block, Operation, Region, Value
from hlo_cli.mlir.mlir_values import ListAttribute
from hlo_cli.source import counted

MAGIC: Final = b"ML\xefR"
"""The bytes that bytecode begins with."""
NEWEST: Final = 6
"""The newest version that is known (`bytecode::kVersion`)."""
# what an operation has, by the bits of its mask (`bytecode::OpEncodingMask`)
_HAS_ATTRIBUTES, _HAS_RESULTS, _HAS_OPERANDS, _HAS_SUCCESSORS = 1, 2, 4, 8
_HAS_REGIONS, _HAS_USES, _HAS_PROPERTIES = 16, 32, 64


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A program in bytecode: its version, what wrote it, and its outermost operation, a `builtin.module`."""

    version: int
    producer: str
    root: Operation
    table: Table


def read_bytecode(data: bytes, foreign: Mapping[str, ForeignCodes] | None = None) -> Program:
    r"""The program in the bytes of MLIR bytecode; BytecodeError with the offset if they cannot be read.

    `foreign` are the codes of dialects besides `builtin`.

    >>> read_bytecode(b"ML\xefR\x01MLIR23\x00")
    Traceback (most recent call last):
        ...
    hlo_cli.mlir.bytecode_table.BytecodeError: error: section 0 is missing (MLIR bytecode, version 0 by MLIR23, byte 12)
    """
    reader = Reader(data)
    if not data.startswith(MAGIC):
        raise BytecodeError(f"expected {MAGIC!r}, found {data[:4]!r}", 0)
    reader.at = len(MAGIC)
    version = reader.varint()
    table = Table(data, version, foreign)
    reader.table = table
    table.producer = reader.text()
    if version > NEWEST:
        raise reader.error(f"unknown version {version}; the newest known version is {NEWEST}", len(MAGIC))
    sections = reader.sections()
    for number in (STRINGS, DIALECTS, ATTRIBUTES, OFFSETS, IR):
        if number not in sections:
            raise reader.error(f"section {number} is missing", len(data))
    table.read_strings(reader.within(sections[STRINGS]))
    table.read_dialects(reader.within(sections[DIALECTS]))
    table.read_offsets(reader.within(sections[OFFSETS]), sections[ATTRIBUTES])
    if PROPERTIES in sections:
        table.read_properties(reader.within(sections[PROPERTIES]))
    program = _ProgramReader(reader.within(sections[IR]), table)
    return Program(version, table.producer, program.module(), table)


def read_locations(program: Program, data: bytes) -> None:
    """Gives a program the locations that jax 0.12 and later keep in bytecode of their own (`debug_locations`).

    They are a list, in the order of `Operation.places`. BytecodeError if the bytes cannot be read or the list is not
    that of this program, whose locations then stay as they are.
    """
    other = read_bytecode(data)
    locations = other.root.attributes.get("tpu.locs")
    if not isinstance(locations, ListAttribute):
        raise BytecodeError("expected a list of locations in 'tpu.locs'", 0, other.version, other.producer)
    places = list(program.root.places())
    if len(places) != len(locations.items):
        message = f"expected {counted(len(places), 'locations')}, found {len(locations.items):,}"
        raise BytecodeError(message, 0, other.version, other.producer)
    for place, location in zip(places, locations.items, strict=True):
        place.set_location(location_of(location))


# --- operations ---


class _ProgramReader:
    """Reads the operations of the section of the program."""

    def __init__(self, reader: Reader, table: Table) -> None:
        self.reader = reader
        self.table = table
        self.values: list[Value] = []
        self.next = 0
        self.depth = 0

    def module(self) -> Operation:
        """The one operation that contains all others."""
        top = Block(Region(None))
        self._block(top, [top])
        if len(top.operations) != 1:
            raise self.reader.error(f"expected one module, found {counted(len(top.operations), 'operations')}")
        return top.operations[0]

    def _region(self, region: Region) -> None:
        reader = self.reader
        blocks = reader.count("blocks")
        if not blocks:
            return
        count = reader.count("values", 0)
        if count > reader.end - reader.at:  # an argument or a result has a type, a byte at least
            raise reader.error(f"{count:,} values do not fit in {reader.end - reader.at:,} bytes")
        outer, first = self.next, len(self.values)
        self.next = first
        self.values += [Value(self.table) for _ in range(count)]
        region.blocks = [Block(region) for _ in range(blocks)]
        for block in region.blocks:
            self._block(block, region.blocks)
        if self.next != first + count:
            raise reader.error(f"expected {counted(count, 'values')} in a region, found {self.next - first:,}")
        del self.values[first:]
        self.next = outer

    def _block(self, block: Block, blocks: Sequence[Block]) -> None:
        reader = self.reader
        start = reader.at
        count, has_arguments = reader.flagged()
        if count * 3 > reader.end - reader.at:  # each has a name, a mask, and a location
            raise reader.error(f"{count:,} operations do not fit in {reader.end - reader.at:,} bytes", start)
        if has_arguments:
            self._arguments(block)
        for _ in range(count):
            block.operations.append(self._operation(block, blocks))

    def _arguments(self, block: Block) -> None:
        reader, version = self.reader, self.table.version
        for index in range(reader.count("arguments")):
            kind, has_location = reader.flagged() if version >= WITHOUT_LOCATIONS else (reader.varint(), True)
            location = self._attribute_number() if has_location else None
            value = self._define(block, kind, index)
            value.set_location(location)
            block.arguments.append(value)
        if version >= WITH_USES and reader.byte():
            self._skip_uses(len(block.arguments))

    def _define(self, owner: Operation | Block, kind: int, index: int) -> Value:
        if self.next >= len(self.values):
            raise self.reader.error("more values than the region has")
        if kind >= self.table.type_count:
            raise self.reader.error(f"type {kind:,} not found")
        value = self.values[self.next]
        self.next += 1
        value.owner, value.kind, value.index = owner, kind, index
        return value

    def _attribute_number(self) -> int:
        return self.reader.number_below(self.table.attribute_count, "attribute")

    def _operation(self, block: Block, blocks: Sequence[Block]) -> Operation:
        reader, table = self.reader, self.table
        start = reader.at
        name = table.operation_names[reader.number_below(len(table.operation_names), "operation name")]
        operation = Operation(name, table, block, start)
        mask = reader.byte()
        location = self._attribute_number()
        operation.set_places(self._attribute_number() if mask & _HAS_ATTRIBUTES else -1, location)
        if mask & _HAS_PROPERTIES:
            operation.properties = table.properties(reader)
        if mask & _HAS_RESULTS:
            kinds = [reader.varint() for _ in range(reader.count("results"))]
            operation.results = [self._define(operation, kind, index) for index, kind in enumerate(kinds)]
        if mask & _HAS_OPERANDS:
            operation.operands = [self._value() for _ in range(reader.count("operands"))]
        if mask & _HAS_SUCCESSORS:
            operation.successors = [self._successor(blocks) for _ in range(reader.count("successors"))]
        if mask & _HAS_USES:
            self._skip_uses(len(operation.results))
        if mask & _HAS_REGIONS:
            self._regions(operation)
        return operation

    def _value(self) -> Value:
        return self.values[self.reader.number_below(len(self.values), "value")]

    def _successor(self, blocks: Sequence[Block]) -> Block:
        return blocks[self.reader.number_below(len(blocks), "block")]

    def _skip_uses(self, values: int) -> None:
        """The order in which uses of a value were listed in memory, which the program does not depend on."""
        reader = self.reader
        for _ in range(reader.count("values") if values > 1 else 1):
            if values > 1:
                reader.varint()
            count, _ = reader.flagged()
            if count > reader.end - reader.at:
                raise reader.error(f"{count:,} uses do not fit in {reader.end - reader.at:,} bytes")
            for _ in range(count):
                reader.varint()

    def _regions(self, operation: Operation) -> None:
        reader, outer = self.reader, (self.values, self.next)
        count, is_isolated = reader.flagged()
        if count > reader.end - reader.at:
            raise reader.error(f"{count:,} regions do not fit in {reader.end - reader.at:,} bytes")
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise reader.error(f"regions are nested too deeply (limit {MAX_DEPTH})")
        if is_isolated:
            self.values, self.next = [], 0
            if self.table.version >= WITH_LAZY_REGIONS:
                number, bounds = reader.section()
                if number != IR:
                    raise reader.error(f"expected section {IR}, found {number}", bounds[0])
                self.reader = reader.within(bounds)
        for _ in range(count):
            region = Region(operation)
            operation.regions.append(region)
            self._region(region)
        self.reader = reader
        self.values, self.next = outer
        self.depth -= 1
