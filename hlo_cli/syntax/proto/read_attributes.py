"""What attributes an instruction of a proto has, as text and as values: read on demand, equal bytes once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cache
from typing import Final, Generic, NamedTuple, TypeVar

from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.enumerations import Precision, ShuffleMode
from hlo_cli.ir.attributes.metadata import BackendConfig, Metadata
from hlo_cli.ir.attributes.sharding import Domain
from hlo_cli.ir.attributes.value_types import AttributeValue, Literal, value_text
from hlo_cli.ir.instruction import Attribute, Computation, Instruction, InstructionText, Pairs
from hlo_cli.ir.notation import UnparsedText
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.source import HloError, Source, Span
from hlo_cli.syntax.attribute_table import AttributeRow, Kind, Place, attributes_at, own_attributes
from hlo_cli.syntax.literal_reading import literal_at
from hlo_cli.syntax.proto.corruption import with_place
from hlo_cli.syntax.proto.messages import INSTRUCTION_FIELDS, KIND, FieldType, Message, fields_of
from hlo_cli.syntax.proto.read_values import (
    alias_of,
    block_scaling_config_of,
    buffer_donor_of,
    convolution_dimension_numbers_of,
    debugged_array_of,
    frontend_attributes_of,
    literal_of,
    metadata_of,
    original_value_of,
    output_operand_alias_of,
    padding_config_of,
    replica_groups_of,
    result_accuracy_of,
    shape_of,
    sharding_of,
    slice_of,
    sparsity_config_of,
    statistics_of,
    window_of,
)
from hlo_cli.syntax.scanning.attributes import readable_attributes, split_attributes
from hlo_cli.syntax.scanning.scanner import Scanner
from hlo_cli.syntax.values.attribute_values import read_attribute_value
from hlo_cli.wire import Field, bytes_in, packed_field, read_fields, read_numbers

# --- attributes as XLA prints them ---
# The attributes of instructions in protos, as XLA prints them: the rows of an opcode, each from its field.
#
# Mirrors `CreateFromProto` and `PrintExtraAttributes` of xla/hlo/ir/hlo_instruction.cc, and what
# the omissions of `PrintExtraAttributesImpl` of the classes in xla/hlo/ir/hlo_instructions.cc.


RowReader = Callable[[Message, "Shape | None"], "AttributeValue | None"]
"""Finds the value of an attribute in the message of an instruction."""
_Readers = tuple[tuple[str, RowReader], ...]
Reader = Callable[[Message, str, "Shape | None"], "AttributeValue | None"]
"""Reads a field of a message, given the shape of the instruction's first operand; None if there is no value."""


def _attribute_texts(opcode: str, message: Message, operand: Shape | None) -> Iterator[str]:
    """The opcode-specific attributes as text, in XLA's order; some depend on the shape of the first operand.

    >>> message = Message("HloInstructionProto", bytes.fromhex("680372020001"))
    >>> list(_attribute_texts("get-tuple-element", message, None)), list(_attribute_texts("broadcast", message, None))
    (['index=3'], ['dimensions={0,1}'])
    """
    return _texts(_printed(opcode), message, operand)


def _common_texts(message: Message) -> Iterator[str]:
    """The attributes of any opcode between the called computations and the control predecessors."""
    return _texts(_printed_at(Place.BEFORE_CONTROL), message)


def _last_texts(message: Message) -> Iterator[str]:
    """The attributes of any opcode between the control predecessors and the metadata."""
    return _texts(_printed_at(Place.BEHIND_CONTROL), message)


def _texts(readers: _Readers, message: Message, operand: Shape | None = None) -> Iterator[str]:
    for name, read in readers:
        if (value := read(message, operand)) is not None:
            yield f"{name}={value_text(value)}"


@cache
def _printed(opcode: str) -> _Readers:
    rows = own_attributes(opcode)
    printed = (row for row in rows if row.place is Place.OWN and not row.is_old and not row.is_forgotten)
    return tuple([(row.name, reader_of(row)) for row in printed])


@cache
def _printed_at(place: Place) -> _Readers:
    return tuple([(row.name, reader_of(row)) for row in attributes_at(place)])


def reader_of(row: AttributeRow, message_type: str = KIND) -> RowReader:
    """The function that finds an attribute's value in a proto message, by default that of an instruction.

    It returns None if XLA does not print the value.

    >>> message = Message("HloInstructionProto", bytes.fromhex("680372020001"))
    >>> reader_of(AttributeRow("index", Kind.INT, proto_field="tuple_index"))(message, None)
    3
    """
    *holders, field = row.path
    for holder in holders:
        message_type = fields_of(message_type)[holder].type
    read = _READERS.get(row.kind) or _plain_reader(row, fields_of(message_type)[field])
    if not holders:
        return lambda message, operand: read(message, field, operand)

    def read_inside(message: Message, operand: Shape | None) -> AttributeValue | None:
        for holder in holders:
            message = message.message(holder)
        return read(message, field, operand)

    return read_inside


def _plain_reader(row: AttributeRow, place: FieldType) -> Reader:
    """A reader of a field by its type, without values that are usual, zero, or empty."""
    read, usual, is_always = _plain(row.kind, place), row.usual, row.always or row.required
    most = int(usual[0]) if row.kind is Kind.INT and usual else None

    def reader(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
        value = read(message, field)
        if value in usual or (most is not None and isinstance(value, int) and value <= most):
            return None
        return value if value or is_always else None

    return reader


def _plain(kind: Kind, place: FieldType) -> Callable[[Message, str], AttributeValue | None]:
    if place.is_message:
        return Message.has
    if place.repeated:
        return _first if kind is Kind.INT else Message.integers
    match place.type:
        case "int":
            return Message.integer
        case "bool":
            return Message.flag
        case "float":
            return Message.decimal
        case "string" | "bytes":
            return Message.text
    return lambda message, field: UnparsedText(message.word(field))


def _first(message: Message, field: str) -> AttributeValue | None:
    """The number of `dimensions`, if there is only one."""
    return numbers[0] if (numbers := message.integers(field)) else None


def _word(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
    """A word that is a string in the proto."""
    return UnparsedText(message.text(field))


def _window(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
    window = window_of(message.message(field))
    return window if window.dimensions else None


def _dim_labels(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
    return convolution_dimension_numbers_of(message.message(field)) if message.has(field) else None


def _comparison_type(message: Message, field: str, operand: Shape | None) -> AttributeValue | None:
    kind = operand.element_type.kind if isinstance(operand, ArrayShape) else ""
    # `Comparison::DefaultComparisonType` of xla/comparison_util.cc: only another one is printed
    usual = {"signed": "SIGNED", "unsigned": "UNSIGNED", "pred": "UNSIGNED"}.get(kind, "FLOAT")
    word = message.text(field)
    return None if word in ("", usual) else UnparsedText(word)


def _comparison_order(message: Message, field: str, operand: Shape | None) -> AttributeValue | None:
    is_float = isinstance(operand, ArrayShape) and operand.element_type.kind in ("float", "complex")
    word = message.text(field)
    # NaN makes the order of floats partial; only another one is printed
    return None if word in ("", "PARTIAL" if is_float else "TOTAL") else UnparsedText(word)


def _precisions(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
    words = message.words(field)
    return tuple(map(Precision, words)) if any(word != Precision.DEFAULT for word in words) else None


def _layouts(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
    if not message.flag("constrain_layout"):  # operand_layout_constraints are printed only if layouts are fixed
        return None
    return UnparsedText("{" + ", ".join(str(shape_of(s)) for s in message.messages(field)) + "}")


def _aliasing(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
    return tuple(map(output_operand_alias_of, message.messages(field))) or None


def _literal(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
    return literal_of(message.message(field)) if message.has(field) else None


def _lists(message: Message, field: str, operand: Shape | None) -> AttributeValue | None:
    """Pairs are messages; the slice sizes are numbers, one for each dimension of the operand."""
    if fields_of(message.kind)[field].is_message:
        return tuple((p.integer("source"), p.integer("target")) for p in message.messages(field))
    sizes = message.integers(field)
    first = operand.elements[0] if isinstance(operand, TupleShape) and operand.elements else operand
    rank = first.rank if isinstance(first, ArrayShape) else 0
    return tuple(sizes[index : index + rank] for index in range(0, len(sizes), rank)) if rank and sizes else None


def _domain(message: Message, _: str, __: Shape | None) -> AttributeValue | None:
    """Both sides of a domain; the text's entry is the proto's exit."""
    entry, leave = (sharding_of(message.message(f"domain_{side}_sharding")) for side in ("exit", "entry"))
    return Domain(entry, leave)


def _where_given(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
    """A number that may be 0, if present."""
    return message.integer(field) if message.has(field) else None


def _sparsity(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
    config = sparsity_config_of(message.message(field))
    return config if config.lhs is not None or config.rhs is not None else None


def _block_scaling(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
    config = block_scaling_config_of(message.message(field))
    return config if config.lhs is not None or config.rhs is not None else None


def _shuffle_mode(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
    """The mode whose message is present; XLA has a message for each."""
    if message.encoded and not message.has(field):  # a mode that a newer XLA has: its field is unknown
        raise HloError("unknown mode of a shuffle")
    return ShuffleMode.ROTATE if message.has(field) else None


def _flag_if_given(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
    """A boolean that may be false, if present."""
    return message.flag(field) if message.has(field) else None


def _frontend_attributes(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
    attributes = frontend_attributes_of(message.message(field))
    return attributes if attributes.entries else None


def _statistics(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
    statistics = statistics_of(message.message(field))
    return statistics if statistics.statistics else None


def _propagations(message: Message, field: str, _: Shape | None) -> AttributeValue | None:
    """Whether the sharding of each argument or result may change; `HloModule::Print` leaves a single `false` out."""
    flags = message.flags(field)
    return flags if len(flags) > 1 or any(flags) else None


_READERS: Final[dict[Kind, Reader]] = {
    Kind.ALIASING: lambda message, field, _: tuple(map(alias_of, message.messages(field))) or None,
    Kind.BLOCK_SCALING: _block_scaling,
    Kind.BOOL_IF_GIVEN: _flag_if_given,
    Kind.BUFFER_DONORS: lambda message, field, _: tuple(map(buffer_donor_of, message.messages(field))) or None,
    Kind.DEBUG_ATTRIBUTES: lambda message, field, _: tuple(map(debugged_array_of, message.messages(field))) or None,
    Kind.BOOLS: lambda message, field, _: message.flags(field) or None,
    Kind.BOOLS_OR_BOOL: _propagations,
    Kind.DIM_LABELS: _dim_labels,
    Kind.DIRECTION: _word,
    Kind.DOMAIN: _domain,
    Kind.FRONTEND_ATTRIBUTES: _frontend_attributes,
    Kind.FUSION_KIND: _word,
    Kind.INT32: _where_given,
    Kind.INT_LISTS: _lists,
    Kind.LITERAL: _literal,
    Kind.OPERAND_ALIASING: _aliasing,
    Kind.ORDER: _comparison_order,
    Kind.ORIGIN: lambda message, field, _: original_value_of(message.message(field)) if message.has(field) else None,
    Kind.PADDING: lambda message, field, _: padding_config_of(message.message(field)),
    Kind.PRECISIONS: _precisions,
    Kind.REPLICA_GROUPS: lambda message, _, __: replica_groups_of(message),
    Kind.RESULT_ACCURACY: lambda message, field, _: (
        result_accuracy_of(message.message(field)) if message.data(field) else None
    ),
    Kind.SHAPE: lambda message, field, _: shape_of(message.message(field)),
    Kind.SHAPES: _layouts,
    Kind.SHARDING: lambda message, field, _: sharding_of(message.message(field)) if message.has(field) else None,
    Kind.SHUFFLE_MODE: _shuffle_mode,
    Kind.SLICE: lambda message, field, _: slice_of(message.messages(field)),
    Kind.SPARSITY: _sparsity,
    Kind.STRING_OR_JSON: lambda message, field, _: BackendConfig(text) if (text := message.text(field)) else None,
    Kind.STATISTICS: _statistics,
    Kind.TYPE: _comparison_type,
    Kind.WINDOW: _window,
}
"""The kinds that do not fit a field of one number, word, or text."""


# --- equal bytes once ---
# The contents of a proto's instructions, as HLO text and as values: each distinct sequence of bytes is read once.
#
# Mirrors `HloInstruction::PrintWithCanonicalNameMap` of xla/hlo/ir/hlo_instruction.cc. Most contents are the same bytes
# in many instructions: shapes, metadata, windows.


ELIDED: Final = "{...}"
"""The text for omitted values of a constant."""

_T = TypeVar("_T")
_OWN: Final = frozenset(
    INSTRUCTION_FIELDS[name]
    for name in (
        *("name", "opcode", "shape", "id", "operand_ids", "control_predecessor_ids", "called_computation_ids"),
        *("metadata", "backend_config", "backend_config_payload", "parameter_number"),
    )
)
"""Fields that are unique to an instruction; texts of the others are cached by their bytes."""
_EMPTY: Final = frozenset(INSTRUCTION_FIELDS[name] for name in ("frontend_attributes", "statistics_viz"))
"""Fields that XLA always writes, and that are meaningless when empty."""
_BY_OPERAND: Final = frozenset((opcodes.COMPARE, opcodes.COLLECTIVE_PERMUTE, opcodes.COLLECTIVE_PERMUTE_START))
"""Opcodes whose attributes depend on the shape of the first operand."""
_TELLING: Final = ("op_type", "op_name", "source_file", "scheduling_name", "stack_frame_id", "metadata_payload")
"""XLA prints metadata that has at least one of these."""


class Memo(dict[bytes, _T], Generic[_T]):
    """Values by bytes, computed on first use."""

    def __init__(self, make: Callable[[bytes], _T]) -> None:
        self._make = make

    def __missing__(self, data: bytes) -> _T:
        made = self[data] = self._make(data)
        return made


class _Tail(NamedTuple):
    """The attributes of an instruction, each with its comma, without those that are unique to it."""

    own: str
    common: str
    last: str


@dataclass(slots=True)
class Texts:
    """The cached texts of one module, by bytes; `file` is its complete input.

    `payloads` are texts that instructions refer to by their place, as the same ones recur (since XLA of 2026).
    """

    file: bytes
    payloads: Sequence[bytes] = ()
    metadata: Memo[Metadata] = field(init=False)
    metadata_texts: Memo[str] = field(init=False)
    configs: Memo[str] = field(default_factory=lambda: Memo(_config_text))
    tails: dict[tuple[object, ...], _Tail] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.metadata = Memo(self._metadata)
        self.metadata_texts = Memo(lambda data: _metadata_text(self.metadata[data]))

    def argument(self, instruction: Instruction, data: bytes) -> str:
        """The text between the parentheses of a parameter or a constant."""
        if instruction.written_opcode == opcodes.PARAMETER:
            return str(Message(KIND, data).integer("parameter_number"))
        if instruction.written_opcode != opcodes.CONSTANT:
            return ""
        message = Message(KIND, data)
        return literal_of(message.message("literal")).to_string() if message.has("literal") else ELIDED

    def attributes(self, instruction: Instruction, data: bytes, names: Callable[[int], str]) -> str:
        """The attributes, each preceded by a comma; `names` returns the names of other instructions by number."""
        fields = read_fields(data)
        singular = dict(fields)
        own, common, last = self._tail(instruction, fields, data)
        called = _called_text(instruction) if instruction.called_computations else ""
        if INSTRUCTION_FIELDS["control_predecessor_ids"] in singular:
            predecessors = read_numbers(packed_field(fields, INSTRUCTION_FIELDS["control_predecessor_ids"]))
            common += f", control-predecessors={{{', '.join(map(names, predecessors))}}}" if predecessors else ""
        metadata = self.metadata_texts[bytes_in(singular, INSTRUCTION_FIELDS["metadata"])]
        config = self.configs[self._config(singular)]
        return f"{own}{called}{common}{last}{metadata}{config}"

    def _metadata(self, data: bytes) -> Metadata:
        message = Message("OpMetadata", data)
        return metadata_of(message, self._payload(message.message("metadata_payload")))

    def _config(self, fields: dict[int, int | bytes]) -> bytes:
        """The backend's configuration: the instruction's own, or a payload."""
        if own := bytes_in(fields, INSTRUCTION_FIELDS["backend_config"]):
            return own
        return self._payload(Message("Payload", bytes_in(fields, INSTRUCTION_FIELDS["backend_config_payload"])))

    def _payload(self, payload: Message) -> bytes:
        """What a payload holds or refers to."""
        if not payload.has("id"):
            return payload.data("value")
        if (place := payload.integer("id")) not in range(len(self.payloads)):
            raise HloError(f"unknown payload id {place}")
        return self.payloads[place]

    def _tail(self, instruction: Instruction, fields: list[Field], data: bytes) -> _Tail:
        opcode = instruction.written_opcode
        rest = [f for f in fields if f[0] not in _OWN and (f[1] or f[0] not in _EMPTY)]
        operand = instruction.operands[0].shape if opcode in _BY_OPERAND and instruction.operands else None
        key = (opcode, operand, *rest)
        if (tail := self.tails.get(key)) is None:
            message = Message(KIND, data)
            own = "" if opcode == opcodes.CONSTANT else _listed(_attribute_texts(opcode, message, operand))
            tail = _Tail(own, _listed(_common_texts(message)), _listed(_last_texts(message)))
            self.tails[key] = tail
        return tail


def _called_text(instruction: Instruction) -> str:
    """The called computations under the attribute names of the opcode."""
    names = [f"%{computation.name}" for computation in instruction.called_computations]
    match instruction.written_opcode, names:
        case opcodes.WHILE, [body, condition]:
            return f", condition={condition}, body={body}"
        case "select-and-scatter", [select, scatter]:
            return f", select={select}, scatter={scatter}"
        case opcodes.CONDITIONAL, [true, false] if instruction.operands and _is_pred(instruction.operands[0]):
            return f", true_computation={true}, false_computation={false}"
    rows = [row for row in own_attributes(instruction.written_opcode) if row.calls]
    if (several := next((row.name for row in rows if row.kind is Kind.COMPUTATIONS), "")) or len(names) != 1:
        return f", {several or 'called_computations'}={{{', '.join(names)}}}"
    return f", {rows[0].name if rows else 'to_apply'}={names[0]}"


def _is_pred(operand: Instruction) -> bool:
    return isinstance(operand.shape, ArrayShape) and operand.shape.element_type.name == "pred"


def _metadata_text(metadata: Metadata) -> str:
    return f", metadata={metadata}" if any(getattr(metadata, name) for name in _TELLING) else ""


def _config_text(data: bytes) -> str:
    return f", backend_config={BackendConfig(data.decode('utf-8', 'surrogateescape'))}" if data else ""


def _listed(texts: Iterable[str]) -> str:
    return "".join(f", {text}" for text in texts)


# --- on demand ---
# Reads the attributes and literals of a computation's instructions on demand.


_MAX_KEPT: Final = 2_000  # chosen: texts of larger computations would take more memory than their instructions
"""The largest computation whose texts are kept, in instructions."""
_LONGEST_KEPT: Final = 2_000
"""Characters of the longest text that is kept, such as that of a constant."""


class ProtoReader:
    """The instructions of one computation in a proto. A proto has no lines, so nothing has a span."""

    __slots__ = ("_computation", "_data", "_raws", "_texts", "by_number")

    def __init__(
        self, computation: Computation, data: Sequence[bytes], by_number: Mapping[int, Instruction], texts: Texts
    ) -> None:
        self._computation = computation
        self._data = data
        self.by_number = by_number
        self._texts = texts
        # Making a text takes as long as reading its instruction; analyses and printing ask for it again.
        self._raws: dict[int, tuple[str, str]] | None = {} if len(data) <= _MAX_KEPT else None

    def whole(self) -> str:
        """Empty, as a proto is not text."""
        return ""

    def read(self, index: int) -> InstructionText:
        """The attributes and the argument."""
        argument, text = self.raw(index)
        return InstructionText(tuple(Attribute(name, value) for name, value in _pairs_in(text)), argument)

    def raw(self, index: int) -> tuple[str, str]:
        """The argument, and the attributes as XLA prints them."""
        if self._raws is not None and (kept := self._raws.get(index)) is not None:
            return kept
        instruction = self._computation.instructions[index]
        data = self._data[index]
        try:
            made = self._texts.argument(instruction, data), self._texts.attributes(instruction, data, self._name)
        except HloError as error:
            raise self._blamed(instruction, error) from None
        if self._raws is not None and len(made[0]) + len(made[1]) <= _LONGEST_KEPT:
            self._raws[index] = made
        return made

    def pairs(self, index: int) -> Pairs:
        """Names and values of the attributes."""
        return _pairs_in(self.raw(index)[1])

    def value(self, opcode: str, attribute: str, text: str) -> AttributeValue:
        """The value of an attribute, read from its text."""
        return read_attribute_value(opcode, attribute, text)

    def span(self, index: int) -> None:
        """None, as a proto has no spans."""
        return

    def metadata(self, instruction: Instruction) -> Metadata:
        """The source location and op_name of the instruction."""
        try:
            fields = dict(read_fields(self._data[instruction.index]))
            return self._texts.metadata[bytes_in(fields, INSTRUCTION_FIELDS["metadata"])]
        except HloError as error:
            raise self._blamed(instruction, error) from None

    def literal(self, instruction: Instruction) -> Literal:
        """The values of a constant; XLA may omit them, as in text."""
        try:
            message = Message(KIND, self._data[instruction.index])
            if not message.has("literal"):
                return literal_at(Source("", ELIDED), Span(0, len(ELIDED)), instruction.shape)
            return literal_of(message.message("literal"))
        except HloError as error:
            raise self._blamed(instruction, error) from None

    def _name(self, number: int) -> str:
        if (predecessor := self.by_number.get(number)) is None:
            raise HloError(f"an instruction of {self._computation.name} has unknown control predecessor id {number}")
        return f"%{predecessor.name}"

    def _blamed(self, instruction: Instruction, error: HloError) -> HloError:
        """The error with the name of its instruction or, if the file is corrupt, with the place."""
        named = HloError(f"{instruction.name}: {error.diagnostic.message}", hint=error.diagnostic.hint)
        return with_place(named, self._texts.file)


def _pairs_in(text: str) -> Pairs:
    pairs = split_attributes(text)
    if pairs is not None:
        return pairs
    return [(attribute.name, attribute.value) for attribute in readable_attributes(Scanner(Source("", text)))]
