"""What one operation says: its operands, attributes, and span, its computation, and how both are printed.

Attributes, metadata, and literals are read on first use. Mirrors xla/hlo/ir/hlo_instruction.h and hlo_computation.h.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Final, Generic, Protocol, SupportsIndex, TypeAlias, TypeVar, overload

from hlo_cli.dataclass import brief_count, brief_name, dataclass
from hlo_cli.displayed import ByInstruction, Displayed, no_attribute
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.enumerations import CustomCallApiVersion, CustomCallSchedule
from hlo_cli.ir.attributes.metadata import (
    NO_METADATA,
    NO_STACK_TABLES,
    BackendConfig,
    FrontendAttributes,
    Metadata,
    SourceLocation,
    StackTables,
    program_frame,
)
from hlo_cli.ir.attributes.value_types import AttributeValue, Literal, Name, OutputOperandAlias, Window
from hlo_cli.ir.notation import UnparsedText, dictionary_or_quoted
from hlo_cli.ir.operations import CONTROL_PREDECESSORS, OUTPUT_TO_OPERAND_ALIASING
from hlo_cli.ir.shape import Shape, ShapeIndex, UnknownShape, annotate_indices, subshape
from hlo_cli.source import HloError, Span, missing

if TYPE_CHECKING:
    from hlo_cli.ir.attributes.sharding import AnySharding, ReplicaGroups


# --- text that is read on demand ---
# The text of instructions beyond their operands, with its spans, and the readers that provide it on demand.


class Named(Protocol):
    """Objects with a name, such as instructions."""

    @property
    def name(self) -> str:
        """The name."""


_I = TypeVar("_I", bound=Named, contravariant=True)
Pairs: TypeAlias = Sequence[tuple[str, str]]
"""Names and values of attributes, in the order of the text."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """A named attribute with its value as text, and the span of the value in the source (if it was read).

    >>> str(Attribute("dimensions", "{0,1}"))
    'dimensions={0,1}'
    """

    name: str
    value: str
    span: Span | None = None

    def __str__(self) -> str:
        return f"{self.name}={self.value}"


@dataclass(frozen=True, slots=True)
class InstructionText:
    """The text of an instruction beyond its operands: attributes, and the argument between the parentheses.

    `argument` is the literal of a constant or the number of a parameter, empty for all others; `argument_span` is its
    span in the source, including the comments that `argument` omits.
    """

    attributes: tuple[Attribute, ...]
    argument: str = ""
    span: Span | None = None
    argument_span: Span | None = None


class TextReader(Protocol[_I]):
    """Reads the text of a computation's instructions on demand."""

    def whole(self) -> str:
        """All instructions as written, if this text alone defines them; else empty."""

    def read(self, index: int) -> InstructionText:
        """The text of the instruction at this index in the computation."""

    def raw(self, index: int) -> tuple[str, str]:
        """The argument, and the attributes as written, each preceded by a comma."""

    def pairs(self, index: int) -> Pairs:
        """The attributes without their spans."""

    def value(self, opcode: str, attribute: str, text: str) -> AttributeValue:
        """The value of an attribute, read from its text."""

    def span(self, index: int) -> Span | None:
        """The span of the instruction in the source."""

    def metadata(self, instruction: _I) -> Metadata:
        """The value of an instruction's metadata attribute."""

    def literal(self, instruction: _I) -> Literal:
        """The values of a constant."""


class NoText(Generic[_I]):
    """A reader without text: for computations whose instructions were created, not read."""

    def whole(self) -> str:
        """Empty."""
        return ""

    def read(self, index: int) -> InstructionText:
        """Empty."""
        return InstructionText(())

    def raw(self, index: int) -> tuple[str, str]:
        """Empty."""
        return "", ""

    def pairs(self, index: int) -> Pairs:
        """Empty."""
        return ()

    def value(self, opcode: str, attribute: str, text: str) -> AttributeValue:
        """The text itself."""
        return UnparsedText(text)

    def span(self, index: int) -> Span | None:
        """None."""
        return None

    def metadata(self, instruction: _I) -> Metadata:
        """Empty."""
        return NO_METADATA

    def literal(self, instruction: _I) -> Literal:
        """A literal without readable values."""
        raise HloError(f"the value of {instruction.name} is unknown")


NO_TEXT: Final = NoText[Named]()


# --- instructions and computations ---
# Instructions: one operation with its operands, attributes, and span; and the computation that contains it.
#
# Mirrors xla/hlo/ir/hlo_instruction.h and hlo_computation.h, which refer to each other, as the two classes here do.
#
# A dump has hundreds of thousands of them, so they are small slotted objects whose attributes are read from the text
# on demand. The many types of values are imported then.


_T = TypeVar("_T")


_COST: Final = "hlo_cli.cost_analysis(module)[instruction]"
_TIMES: Final = 'hlo_cli.estimate_time(module, "v5e").predicted[instruction].seconds'
# Analyses are functions of a module, so an instruction alone has no costs; people ask it for them first.
_ANSWERS: Final = {
    **{name: f"{_COST}.{name}" for name in ("flops", "transcendentals", "bytes_accessed")},
    **dict.fromkeys(("cost", "costs"), _COST),
    **dict.fromkeys(("bytes", "size", "nbytes", "padded_bytes"), "instruction.shape.padded_bytes"),
    **dict.fromkeys(("time", "seconds", "duration"), _TIMES),
    "dtype": "instruction.shape.element_type",
    "dimensions": "instruction.shape.dimensions",
    "layout": "instruction.shape.layout",
    "op_name": "instruction.metadata.op_name",
}


class Instruction(Displayed):
    """One instruction of a computation; read-only from outside, compared by identity.

    `operands` are the instructions whose values it uses. If the text selects an element of an operand directly
    (`%t#0`), `operand_index` returns its index. `called_computations` are in XLA's order. `opcode` ends in `?` if the
    instruction is malformed (`syntax/opaque.py`).
    """

    __slots__ = ("_text", "called_computations", "computation", "index", "name", "opcode", "operands", "shape")

    name: str
    shape: Shape
    opcode: str
    operands: tuple[Instruction, ...]
    called_computations: tuple[Computation, ...]
    computation: Computation
    index: int

    def __init__(
        self,
        name: str,
        shape: Shape,
        opcode: str,
        operands: tuple[Instruction, ...],
        computation: Computation,
        index: int,
        text: InstructionText | None = None,
    ) -> None:
        self.name = name
        self.shape = shape
        self.opcode = opcode
        self.operands = operands
        self.called_computations = ()
        self.computation = computation
        self.index = index
        self._text = text

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            raise no_attribute(self, name, _ANSWERS)

    @property
    def written_opcode(self) -> str:
        """The opcode in the text."""
        return self.opcode.removesuffix(opcodes.OPAQUE)

    @property
    def text(self) -> InstructionText:
        """Attributes and argument; read from the source on demand, and kept until another instruction's are read."""
        return self._text if self._text is not None else self.computation.reader.read(self.index)

    @property
    def raw(self) -> tuple[str, str]:
        """The argument, and the attributes as written, each preceded by a comma: the input of printing."""
        if self._text is None:
            return self.computation.reader.raw(self.index)
        return self._text.argument, "".join(f", {attribute}" for attribute in self._text.attributes)

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """The attributes in the order of the text, metadata and backend_config among them."""
        return self.text.attributes

    @property
    def pairs(self) -> Pairs:
        """Names and values of the attributes, without their spans, which is faster."""
        if self._text is None:
            return self.computation.reader.pairs(self.index)
        return [(attribute.name, attribute.value) for attribute in self._text.attributes]

    def attribute(self, name: str) -> str | None:
        """The text of one attribute's value, or None if the instruction does not have it."""
        # Most instructions do not, and splitting the attributes takes five times as long as looking for the name.
        if self._text is None and name not in self.computation.reader.raw(self.index)[1]:
            return None
        for key, value in self.pairs:
            if key == name:
                return value
        return None

    def value(self, name: str) -> AttributeValue | None:
        """The value of an attribute, or None if the instruction does not have it.

        Unreadable values are `UnparsedText`; `hlo_cli.ir.attributes.value_types` lists the other types and prints them.

        >>> from hlo_cli import parse_module
        >>> root = parse_module("r = f32[2] slice(f32[9] a), slice={[1:9:4]}, more=1").entry.root
        >>> root.value("slice").dimensions, root.value("more"), root.value("less")
        ((SliceDimension(start=1, limit=9, stride=4),), '1', None)
        """
        text = self.attribute(name)
        return None if text is None else self.computation.reader.value(self.written_opcode, name, text)

    def value_of(self, name: str, kind: type[_T]) -> _T | None:
        """The value of an attribute if it is of this type, else None."""
        value = self.value(name)
        return value if isinstance(value, kind) and not isinstance(value, UnparsedText) else None

    def items_of(self, name: str, kind: type[_T]) -> tuple[_T, ...]:
        """The items of this type in an attribute's list; empty if it is absent."""
        value = self.value(name)
        return tuple([item for item in value if isinstance(item, kind)]) if isinstance(value, tuple) else ()

    def integer(self, name: str) -> int | None:
        """The number of an attribute, or None."""
        return self.value_of(name, int)

    def integers(self, name: str) -> tuple[int, ...]:
        """The numbers in an attribute's list; empty if it is absent, which is equivalent for most attributes."""
        return self.items_of(name, int)

    def integer_lists(self, name: str) -> tuple[tuple[int, ...], ...]:
        """The lists of numbers in an attribute's list, such as `source_target_pairs`."""
        return tuple(tuple(n for n in listed if isinstance(n, int)) for listed in self.items_of(name, tuple))

    def flag(self, name: str) -> bool:
        """Whether an attribute is present and true."""
        return self.value(name) is True

    def string(self, name: str) -> str | None:
        """The unescaped text of a quoted attribute, or None."""
        return self.value_of(name, str)

    @property
    def window(self) -> Window | None:
        """The window of a convolution, reduce-window, or select-and-scatter."""

        return self.value_of("window", Window)

    @property
    def sharding(self) -> AnySharding | None:
        """The part of the value on each device."""
        from hlo_cli.ir.attributes.sharding import NamedSharding, Sharding, TupleSharding

        value = self.value("sharding")
        return value if isinstance(value, Sharding | NamedSharding | TupleSharding) else None

    @property
    def replica_groups(self) -> ReplicaGroups | None:
        """The groups of devices in a collective operation.

        >>> from hlo_cli import parse_module
        >>> text = "r = f32[2] collective-broadcast(f32[2] a), replica_groups=[2,2]<=[2,2]T(1,0)"
        >>> parse_module(text).entry.root.replica_groups.groups(4)
        ((0, 2), (1, 3))
        """
        from hlo_cli.ir.attributes.sharding import CollectiveDeviceList, IotaReplicaGroupList, MeshAxesReplicaGroupList

        value = self.value("replica_groups")
        kinds = CollectiveDeviceList | IotaReplicaGroupList | MeshAxesReplicaGroupList
        return value if isinstance(value, kinds) else None

    @property
    def backend_config(self) -> BackendConfig | None:
        """The configuration that the backend gave the instruction."""

        return self.value_of("backend_config", BackendConfig)

    @property
    def frontend_attributes(self) -> FrontendAttributes:
        """Texts that XLA passes on for frontends; empty if the text has none."""

        return self.value_of("frontend_attributes", FrontendAttributes) or FrontendAttributes()

    @property
    def control_predecessors(self) -> tuple[str, ...]:
        """The names of instructions that must run before."""

        return tuple(name.name for name in self.items_of(CONTROL_PREDECESSORS, Name))

    @property
    def metadata(self) -> Metadata:
        """The source location and op_name; empty if the text has none."""
        return self.computation.reader.metadata(self)

    @property
    def source(self) -> SourceLocation | None:
        """The line of the user's program that it was made from, outside of libraries; None if the text has none.

        >>> from hlo_cli import parse_module
        >>> text = 'r = f32[2] negate(f32[2] a), metadata={source_file="model.py" source_line=7}'
        >>> print(parse_module(text).entry.root.source)
        model.py:7
        """
        return program_frame(self.computation.stack_tables.stack(self.metadata))

    @property
    def users(self) -> tuple[Instruction, ...]:
        """The instructions of its computation that use its value, each once, in the order of the text.

        >>> from hlo_cli import parse_module
        >>> module = parse_module("r = f32[2] add(f32[2] a, f32[2] b)")
        >>> module["a"].users, module["r"].users
        ((<add r>,), ())
        """
        return self.computation.users[self]

    @property
    def literal(self) -> Literal | None:
        """The values of a constant, read from the text on demand; None for other instructions.

        >>> from hlo_cli import parse_module
        >>> parse_module("ROOT c = s4[2]{0} constant({-8, 7})").entry.root.literal.array()
        array([-8,  7], dtype=int8)
        """
        return self.computation.reader.literal(self) if self.opcode == opcodes.CONSTANT else None

    @property
    def span(self) -> Span | None:
        """The span of the instruction in its module's source; None if it was created, not read."""
        return self.computation.reader.span(self.index) if self._text is None else self._text.span

    @property
    def is_root(self) -> bool:
        """Whether the computation returns this instruction's value."""
        return self.computation.root is self

    @property
    def parameter_number(self) -> int | None:
        """The number of a parameter; None for all other opcodes, and for text that is too long for a number."""
        argument = self.raw[0].strip() if self.opcode == opcodes.PARAMETER else ""
        # below 20 digits fit int64, as `parameter_number` in hlo.proto
        return int(argument) if argument.isdecimal() and len(argument) < 20 else None

    def operand_index(self, position: int) -> ShapeIndex:
        """The index of the selected element in the operand at `position`; () for the operand itself."""
        taken = self.computation.operand_indices.get(self.index)
        return taken[position] if taken else ()

    def operand_shape(self, position: int) -> Shape:
        """The shape of the value used at `position`; unknown if the operand's shape has no such element."""
        return subshape(self.operands[position].shape, self.operand_index(position)) or UnknownShape()

    def to_string(self) -> str:
        """The instruction as in a dump, without ROOT."""
        return print_instruction(self)

    def __repr__(self) -> str:
        return f"<{brief_name(self.opcode)} {brief_name(self.name)}>"


Users: TypeAlias = dict[Instruction, tuple[Instruction, ...]]
"""The users of each instruction."""


@dataclass(slots=True, eq=False, repr=False)
class Computation(Displayed):
    """A named list of instructions, in the order of the text, which is the schedule if the module is scheduled.

    Its items are its instructions, by number or by name: `computation["add.3"]`, and `computation[-1]` for the last.

    `parameters` are sorted by number. `root` is None if the text is truncated before it. `operand_indices` holds, for
    instructions that select elements of tuples directly (`%t#0`), the element of each operand. `backend_config` is the
    text of a compiler about the computation. `span` is from the name to the closing brace. `by_id` has the
    instructions by their id in the proto; it is empty for text.
    """

    name: str
    instructions: tuple[Instruction, ...] = ()
    parameters: tuple[Instruction, ...] = ()
    root: Instruction | None = None
    is_entry: bool = False
    execution_thread: str = "main"
    backend_config: str = ""
    span: Span | None = None
    reader: TextReader[Instruction] = NO_TEXT
    operand_indices: Mapping[int, tuple[ShapeIndex, ...]] = field(default_factory=dict)
    by_id: Mapping[int, Instruction] = field(default_factory=dict)
    stack_tables: StackTables = NO_STACK_TABLES
    _users: ByInstruction[Instruction, tuple[Instruction, ...]] | None = None

    def instruction(self, name: str) -> Instruction | None:
        """The instruction of this name, with or without a leading %, or None."""
        name = name.removeprefix("%")
        return next((i for i in self.instructions if i.name == name), None)

    @property
    def users(self) -> ByInstruction[Instruction, tuple[Instruction, ...]]:
        """The users of each instruction; computed on first use, after which the instructions must not change."""
        if self._users is None:
            self._users = ByInstruction(users_among(self.instructions))
        return self._users

    @overload
    def __getitem__(self, index: SupportsIndex | str) -> Instruction: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Instruction, ...]: ...

    def __getitem__(self, index: SupportsIndex | slice | str) -> Instruction | tuple[Instruction, ...]:
        """The instruction of this number or name; KeyError, with the nearest name, if there is none."""
        if not isinstance(index, str):
            return self.instructions[index]
        if (found := self.instruction(index)) is None:
            raise missing(
                f"instruction of {self.name} called", index, [instruction.name for instruction in self.instructions]
            )
        return found

    def __contains__(self, instruction: object) -> bool:
        """Whether an instruction is in it, or one of this name."""
        if isinstance(instruction, str):
            return self.instruction(instruction) is not None
        return isinstance(instruction, Instruction) and instruction.computation is self

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions)

    def __len__(self) -> int:
        return len(self.instructions)

    def __bool__(self) -> bool:
        return True  # an empty one is not missing

    def to_string(self) -> str:
        """The computation as in a dump."""
        return print_computation(self)

    def __repr__(self) -> str:
        return f"<Computation {brief_name(self.name)}: {brief_count(len(self.instructions), 'instructions')}>"


def users_among(instructions: Sequence[Instruction]) -> Users:
    """Returns the users of each instruction among `instructions`, which may belong to several computations."""
    users: dict[Instruction, dict[Instruction, None]] = {instruction: {} for instruction in instructions}
    for user in instructions:
        for operand in user.operands:
            users.setdefault(operand, {})[user] = None
    return {instruction: tuple(using) for instruction, using in users.items()}


# --- printing as in a dump ---
# The canonical printer: computations as XLA's own printer writes them in a dump.
#
# Mirrors `HloModule::ToString` with the options of dumps: `%` before names, program shapes, layouts, and
# metadata, no operand shapes. Attributes are printed as they were read.


def print_computation(computation: Computation) -> str:
    """One computation with its signature, such as `%f (p: f32[2]) -> f32[2] { … }`."""
    lines = [_signature(computation) + " {"]
    lines.extend(
        ("  ROOT " if i is computation.root else "  ") + print_instruction(i) for i in computation.instructions
    )
    thread, config = computation.execution_thread, computation.backend_config
    end = "" if thread == "main" else f', execution_thread="{thread}"'
    lines.append("}" + end + (f", backend_config={dictionary_or_quoted(config)}" if config else ""))
    return "\n".join(lines)


def print_instruction(instruction: Instruction) -> str:
    """One instruction without ROOT, such as `%name = shape opcode(%operands), attribute=value`."""
    argument, attributes = instruction.raw
    shape = (
        "" if isinstance(instruction.shape, UnknownShape) and not instruction.shape.text else f"{instruction.shape} "
    )
    taken = argument or annotate_indices([_operand(instruction, i) for i in range(len(instruction.operands))])
    return f"%{instruction.name} = {shape}{instruction.written_opcode}({taken}){attributes}"


def _operand(instruction: Instruction, position: int) -> str:
    elements = "".join(f"#{i}" for i in instruction.operand_index(position))
    return f"%{instruction.operands[position].name}{elements}"


def _signature(computation: Computation) -> str:
    head = ("ENTRY " if computation.is_entry else "") + f"%{computation.name}"
    root = computation.root
    if root is None or root.shape == UnknownShape() or any(p.shape == UnknownShape() for p in computation.parameters):
        return head
    parameters = ", ".join(f"{p.name}: {p.shape.to_string(layout=False)}" for p in computation.parameters)
    return f"{head} ({parameters}) -> {root.shape.to_string(layout=False)}"


# --- unused names ---
# Unused names for instructions and computations.


def free_name(wanted: str, taken: Container[str], copies: dict[str, int]) -> str:
    """The name itself, or with a number that makes it unique; `copies` holds the numbers given so far.

    >>> free_name("add", {"add", "add.1"}, {}), free_name("sub", {"add"}, {})
    ('add.2', 'sub')
    """
    name = wanted
    while name in taken:
        copies[wanted] = copies.get(wanted, 0) + 1
        name = f"{wanted}.{copies[wanted]}"
    return name


# --- the function of a custom call ---
# The function that a custom call calls. Mirrors `HloCustomCallInstruction` of xla/hlo/ir.


_OPCODES: Final = (opcodes.CUSTOM_CALL, "custom-call-start")


@dataclass(frozen=True, slots=True)
class CustomCall:
    """The called function, and its calling convention; `operand_layout_constraints` is None if layouts are free."""

    target: str
    api_version: CustomCallApiVersion = CustomCallApiVersion.ORIGINAL
    schedule: CustomCallSchedule = CustomCallSchedule.NONE
    has_side_effect: bool = False
    operand_layout_constraints: tuple[Shape, ...] | None = None
    output_to_operand_aliasing: tuple[OutputOperandAlias, ...] = ()


def custom_call(instruction: Instruction) -> CustomCall | None:
    """The function of a custom call, or of the start of an asynchronous one; None for every other opcode.

    >>> from hlo_cli import parse_module
    >>> text = 'r = f32[2] custom-call(f32[2] a), custom_call_target="f", custom_call_has_side_effect=true'
    >>> custom_call(parse_module(text).entry.root).target
    'f'
    """
    if instruction.opcode not in _OPCODES:
        return None
    listed = instruction.value("operand_layout_constraints")
    constraints = tuple(s for s in listed if isinstance(s, Shape)) if isinstance(listed, tuple) else None
    return CustomCall(
        instruction.string("custom_call_target") or "",
        instruction.value_of("api_version", CustomCallApiVersion) or CustomCallApiVersion.ORIGINAL,
        instruction.value_of("schedule", CustomCallSchedule) or CustomCallSchedule.NONE,
        instruction.flag("custom_call_has_side_effect"),
        constraints,
        instruction.items_of(OUTPUT_TO_OPERAND_ALIASING, OutputOperandAlias),
    )
