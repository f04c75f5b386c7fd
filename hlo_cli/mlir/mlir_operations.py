"""What an MLIR program is made of: operations with operands, results, attributes, and regions of blocks; and its text.

Types, attributes, and locations are decoded when they are asked for. The text is MLIR's generic form, which every MLIR
parser reads without knowing the dialects.

Mirrors mlir/include/mlir/IR/Operation.h and `OperationPrinter` of mlir/lib/IR/AsmPrinter.cpp.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hlo_cli.mlir.bytecode_table import Table
from hlo_cli.mlir.mlir_values import (
    Attribute,
    FunctionType,
    Location,
    StringAttribute,
    SymbolAttribute,
    Type,
    entry_text,
    location_text,
)
from hlo_cli.source import HloError


class Value:
    """A result of an operation or an argument of a block; `owner` is None until it is defined.

    Two values are equal if they are the same object.
    """

    __slots__ = ("_location", "index", "kind", "owner", "table")

    def __init__(self, table: Table) -> None:
        self.table = table
        self.kind = -1
        self.index = 0
        self.owner: Operation | Block | None = None
        self._location: int | Location | None = None

    @property
    def type(self) -> Type:
        """The type, decoded on first use; HloError if its bytes are malformed."""
        return self.table.type(self.kind)

    @property
    def location(self) -> Location | None:
        """Where an argument is from, or the result's operation, decoded on first use; None if unknown."""
        if isinstance(self.owner, Operation):
            return self.owner.location
        if isinstance(self._location, int):
            self._location = self.table.location(self._location)
        return self._location

    def set_location(self, location: int | Location | None) -> None:
        """Sets the location of an argument, or its number."""
        self._location = location

    @property
    def operation(self) -> Operation | None:
        """The operation that has this result; None for an argument."""
        return self.owner if isinstance(self.owner, Operation) else None

    @property
    def argument_of(self) -> Block | None:
        """The block that has this argument; None for a result."""
        return self.owner if isinstance(self.owner, Block) else None


class Block:
    """Operations in a row, with arguments."""

    __slots__ = ("arguments", "operations", "parent")

    def __init__(self, parent: Region) -> None:
        self.parent = parent
        self.arguments: list[Value] = []
        self.operations: list[Operation] = []


class Region:
    """Blocks, of which the first is where it is entered."""

    __slots__ = ("blocks", "parent")

    def __init__(self, parent: Operation | None) -> None:
        self.parent = parent
        self.blocks: list[Block] = []

    @property
    def operations(self) -> Sequence[Operation]:
        """The operations of the first block, which is the only one in structured programs."""
        return self.blocks[0].operations if self.blocks else ()

    @property
    def arguments(self) -> Sequence[Value]:
        """The arguments of the first block."""
        return self.blocks[0].arguments if self.blocks else ()


class Operation:
    """One operation; `name` has its dialect before the point.

    `properties` are bytes that the dialect alone knows, in bytecode of version 5 and later; `at` is the offset of the
    operation in the bytecode.
    """

    __slots__ = (
        "_attributes",
        "_location",
        "at",
        "block",
        "name",
        "operands",
        "properties",
        "regions",
        "results",
        "successors",
        "table",
    )

    def __init__(self, name: str, table: Table, block: Block | None, at: int) -> None:
        self.name = name
        self.table = table
        self.block = block
        self.at = at
        self.operands: Sequence[Value] = ()
        self.results: Sequence[Value] = ()
        self.regions: list[Region] = []
        self.successors: list[Block] = []
        self.properties: bytes | None = None
        self._attributes: int | Mapping[str, Attribute] = -1
        self._location: int | Location | None = None

    def __repr__(self) -> str:
        return f"<{self.name}>"

    @property
    def attributes(self) -> Mapping[str, Attribute]:
        """The attributes by name, decoded on first use; HloError if their bytes are malformed."""
        if isinstance(self._attributes, int):
            self._attributes = self.table.dictionary(self._attributes)
        return self._attributes

    @property
    def location(self) -> Location | None:
        """Where the operation is from, decoded on first use; None if unknown."""
        if isinstance(self._location, int):
            self._location = self.table.location(self._location)
        return self._location

    def set_places(self, attributes: int, location: int) -> None:
        """Sets the numbers of the dictionary of attributes, -1 without one, and of the location."""
        self._attributes, self._location = attributes, location

    def set_attributes(self, attributes: Mapping[str, Attribute]) -> None:
        """Sets the attributes, such as those in another dialect's form."""
        self._attributes = attributes

    def set_location(self, location: Location | None) -> None:
        """Sets the location."""
        self._location = location

    @property
    def symbol(self) -> str:
        """The name of a function; empty without one."""
        value = self.attributes.get("sym_name")
        return value.value if isinstance(value, StringAttribute) else ""

    def referred(self, name: str) -> str:
        """The name of the function that an attribute refers to; empty without one."""
        value = self.attributes.get(name)
        return value.names[0] if isinstance(value, SymbolAttribute) and value.names else ""

    def walk(self) -> Iterator[Operation]:
        """This operation and all in its regions, in the order of the text."""
        yield self
        for region in self.regions:
            for block in region.blocks:
                for operation in block.operations:
                    yield from operation.walk()

    def places(self) -> Iterator[Operation | Value]:
        """Everything that has a location, in MLIR's order: of a block its arguments, then its operations."""
        yield self
        for region in self.regions:
            for block in region.blocks:
                yield from block.arguments
                for operation in block.operations:
                    yield from operation.places()

    def __str__(self) -> str:
        return generic_text(self)


# --- text ---

MAX_TEXT: Final = 1 << 27  # characters; the largest kernels of JAX have 1 MB
"""The longest text that is written: as all operations can name one attribute, it can be far longer than the bytes."""


def generic_text(operation: Operation, *, locations: bool = False) -> str:
    """An operation in MLIR's generic form; values are numbered in the order of the text.

    With `locations`, each has a `loc(…)`. Raises HloError if an attribute is malformed or the text gets too long.
    """
    return "\n".join(generic_lines(operation, locations=locations)) + "\n"


def generic_lines(operation: Operation, *, locations: bool = False) -> Iterator[str]:
    """The lines of `generic_text`."""
    room = MAX_TEXT
    for line in _Printer(locations=locations).lines(operation, ""):
        room -= len(line)
        if room < 0:
            raise HloError(f"the text of the MLIR program is longer than {MAX_TEXT:,} characters")
        yield line


class _Printer:
    """Names values and blocks in the order in which they are written."""

    def __init__(self, *, locations: bool) -> None:
        self.locations = locations
        self.names: dict[Value, str] = {}
        self.labels: dict[Block, str] = {}
        self.count = 0
        self.arguments = 0

    def lines(self, operation: Operation, indent: str) -> Iterator[str]:
        head = indent + self._results(operation) + self._call(operation)
        opening = " ("
        for region in operation.regions:
            yield f"{head}{opening}{{"
            self.labels |= {block: f"^bb{number}" for number, block in enumerate(region.blocks)}
            for number, block in enumerate(region.blocks):
                yield from self._block(block, indent, has_label=number > 0 or bool(block.arguments))
            head, opening = indent + "}", ", "
        yield head + (")" if operation.regions else "") + self._tail(operation)

    def _results(self, operation: Operation) -> str:
        if not operation.results:
            return ""
        name = f"%{self.count}"
        self.count += 1
        count = len(operation.results)
        for number, value in enumerate(operation.results):
            self.names[value] = f"{name}#{number}" if count > 1 else name
        return f"{name}:{count} = " if count > 1 else f"{name} = "

    def _call(self, operation: Operation) -> str:
        operands = ", ".join(map(self._name, operation.operands))
        successors = ", ".join(self.labels[block] for block in operation.successors)
        return f'"{operation.name}"({operands})' + (f"[{successors}]" if successors else "")

    def _name(self, value: Value) -> str:
        if value not in self.names:  # a value that is defined later
            self.names[value] = f"%later{len(self.names)}"
        return self.names[value]

    def _block(self, block: Block, indent: str, *, has_label: bool) -> Iterator[str]:
        if has_label:
            yield f"{indent}{self.labels[block]}{self._arguments(block)}:"
        for operation in block.operations:
            yield from self.lines(operation, indent + "  ")

    def _arguments(self, block: Block) -> str:
        words = []
        for value in block.arguments:
            self.names[value] = f"%arg{self.arguments}"
            self.arguments += 1
            words.append(f"{self.names[value]}: {value.type}{self._location(value)}")
        return f"({', '.join(words)})" if words else ""

    def _tail(self, operation: Operation) -> str:
        attributes = ", ".join(entry_text(name, value) for name, value in operation.attributes.items())
        inputs = tuple([value.type for value in operation.operands])
        kind = FunctionType(inputs, tuple([value.type for value in operation.results]))
        return (f" {{{attributes}}}" if attributes else "") + f" : {kind}{self._location(operation)}"

    def _location(self, item: Operation | Value) -> str:
        return f" loc({location_text(item.location)})" if self.locations else ""
