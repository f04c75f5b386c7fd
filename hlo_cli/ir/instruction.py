"""Instructions: one operation with its operands, attributes, and span; and the computation that contains it.

Mirrors xla/hlo/ir/hlo_instruction.h and hlo_computation.h, which refer to each other, as the two classes here do.

A dump has hundreds of thousands of them, so they are small slotted objects whose attributes are read from the text
on demand. The many types of values are imported then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, TypeVar

from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.metadata import Metadata
from hlo_cli.ir.instruction_text import NO_TEXT, Attribute, InstructionText, Pairs, TextReader
from hlo_cli.ir.shape import Shape, ShapeIndex, UnknownShape, subshape
from hlo_cli.ir.strings import UnparsedText
from hlo_cli.source import Span

if TYPE_CHECKING:
    from hlo_cli.ir.attributes.annotations import BackendConfig, FrontendAttributes
    from hlo_cli.ir.attributes.devices import ReplicaGroups
    from hlo_cli.ir.attributes.sharding import AnySharding
    from hlo_cli.ir.attributes.values import AttributeValue
    from hlo_cli.ir.attributes.window import Window
    from hlo_cli.ir.literal import Literal

_T = TypeVar("_T")


class Instruction:
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
        for given, value in self.pairs:
            if given == name:
                return value
        return None

    def value(self, name: str) -> AttributeValue | None:
        """The value of an attribute, or None if the instruction does not have it.

        Unreadable values are `UnparsedText`; `hlo_cli.ir.attributes.values` lists the other types and prints them.

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
        from hlo_cli.ir.attributes.window import Window

        return self.value_of("window", Window)

    @property
    def sharding(self) -> AnySharding | None:
        """The part of the value on each device."""
        from hlo_cli.ir.attributes.named_sharding import NamedSharding
        from hlo_cli.ir.attributes.sharding import Sharding, TupleSharding

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
        from hlo_cli.ir.attributes.devices import CollectiveDeviceList, IotaReplicaGroupList, MeshAxesReplicaGroupList

        value = self.value("replica_groups")
        kinds = CollectiveDeviceList | IotaReplicaGroupList | MeshAxesReplicaGroupList
        return value if isinstance(value, kinds) else None

    @property
    def backend_config(self) -> BackendConfig | None:
        """The configuration that the backend gave the instruction."""
        from hlo_cli.ir.attributes.annotations import BackendConfig

        return self.value_of("backend_config", BackendConfig)

    @property
    def frontend_attributes(self) -> FrontendAttributes:
        """Texts that XLA passes on for frontends; empty if the text has none."""
        from hlo_cli.ir.attributes.annotations import FrontendAttributes

        return self.value_of("frontend_attributes", FrontendAttributes) or FrontendAttributes()

    @property
    def control_predecessors(self) -> tuple[str, ...]:
        """The names of instructions that must run before."""
        from hlo_cli.ir.attributes.values import Name

        return tuple(name.name for name in self.items_of("control-predecessors", Name))

    @property
    def metadata(self) -> Metadata:
        """The source location and op_name; empty if the text has none."""
        return self.computation.reader.metadata(self)

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
        return int(argument) if argument.isdecimal() and len(argument) < 20 else None

    def operand_index(self, position: int) -> ShapeIndex:
        """The index of the selected element in the operand at `position`; () for the operand itself."""
        taken = self.computation.operand_indices.get(self.index)
        return taken[position] if taken else ()

    def operand_shape(self, position: int) -> Shape:
        """The shape of the value used at `position`; unknown if the operand's shape has no such element."""
        return subshape(self.operands[position].shape, self.operand_index(position)) or UnknownShape()

    def __repr__(self) -> str:
        return f"<{self.opcode} {self.name}>"


@dataclass(slots=True, eq=False, repr=False)
class Computation:
    """A named list of instructions, in the order of the text, which is the schedule if the module is scheduled.

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

    def instruction(self, name: str) -> Instruction | None:
        """The instruction of this name, with or without a leading %, or None."""
        name = name.removeprefix("%")
        return next((i for i in self.instructions if i.name == name), None)

    def __repr__(self) -> str:
        return f"<computation {self.name}: {len(self.instructions)} instructions>"
