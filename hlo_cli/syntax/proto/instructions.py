"""One computation of a proto as lines of HLO text.

Mirrors `HloInstruction::PrintWithCanonicalNameMap` of xla/hlo/ir/hlo_instruction.cc. Most of what instructions say
they say in the same bytes as others: shapes, metadata, windows. So each is read once, and its text kept by its bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

from hlo_cli.ir.annotations import BackendConfig
from hlo_cli.ir.shape import ArrayShape, Shape, with_index_marks
from hlo_cli.source import HloError
from hlo_cli.syntax.proto.attributes import attribute_texts, common_texts, last_texts
from hlo_cli.syntax.proto.fields import fields_of
from hlo_cli.syntax.proto.literals import literal_of
from hlo_cli.syntax.proto.message import Message
from hlo_cli.syntax.proto.shapes import shape_of
from hlo_cli.syntax.proto.values import metadata_of
from hlo_cli.syntax.proto.wire import Field, WireError, read_fields, read_numbers

_T = TypeVar("_T")
_KIND: Final = "HloInstructionProto"
_NUMBERS: Final = {name: field.number for name, field in fields_of(_KIND).items()}
_NAME, _OPCODE, _SHAPE, _ID = (_NUMBERS[name] for name in ("name", "opcode", "shape", "id"))
_OPERANDS, _PREDECESSORS, CALLED = (
    _NUMBERS[name] for name in ("operand_ids", "control_predecessor_ids", "called_computation_ids")
)
_METADATA, _CONFIG, _LITERAL = (_NUMBERS[name] for name in ("metadata", "backend_config", "literal"))
_OWN: Final = frozenset(
    (_NAME, _OPCODE, _SHAPE, _ID, _OPERANDS, _PREDECESSORS, CALLED, _METADATA, _CONFIG, _NUMBERS["parameter_number"])
)
"""Fields that tell instructions apart; what the others say is kept by their bytes."""
_EMPTY: Final = frozenset(_NUMBERS[name] for name in ("frontend_attributes", "statistics_viz"))
"""Fields that XLA always writes and that say nothing when they are empty."""
_BY_OPERAND: Final = frozenset(("compare", "collective-permute", "collective-permute-start"))
"""Opcodes whose attributes are printed by the shape of the first operand."""

_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_.\-]")
_IS_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*+")
_IS_OPCODE: Final = re.compile(r"[a-z][a-z0-9\-]*+")


class Memo(dict[bytes, _T], Generic[_T]):
    """What bytes mean, made when it is first asked for."""

    def __init__(self, make: Callable[[bytes], _T]) -> None:
        self._make = make

    def __missing__(self, data: bytes) -> _T:
        made = self[data] = self._make(data)
        return made


class _Tail(NamedTuple):
    """The attributes of an instruction, each with its comma, but for those that tell it from others."""

    own: str
    common: str
    last: str


@dataclass(slots=True)
class Texts:
    """The texts of what has been read, by its bytes; one for each module."""

    shapes: Memo[Shape] = field(default_factory=lambda: Memo(lambda data: shape_of(Message("ShapeProto", data))))
    shape_texts: Memo[str] = field(init=False)
    plain_shapes: Memo[str] = field(init=False)
    opcodes: Memo[str] = field(default_factory=lambda: Memo(_opcode))
    metadata: Memo[str] = field(default_factory=lambda: Memo(_metadata_text))
    configs: Memo[str] = field(default_factory=lambda: Memo(_config_text))
    tails: dict[tuple[object, ...], _Tail] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.shape_texts = Memo(lambda data: str(self.shapes[data]))
        self.plain_shapes = Memo(lambda data: self.shapes[data].to_string(layout=False))

    def plain_shape(self, instruction: RawInstruction) -> str:
        """The shape of an instruction without its layout."""
        return self.plain_shapes[_bytes(instruction.by_number.get(_SHAPE))]


@dataclass(frozen=True, slots=True)
class RawInstruction:
    """The fields of an instruction, in a list and by number."""

    data: bytes
    fields: list[Field]
    by_number: dict[int, int | bytes]
    name: str
    id: int

    @property
    def is_parameter(self) -> bool:
        """Whether this is a parameter of its computation."""
        return self.by_number.get(_OPCODE) == b"parameter"

    @property
    def parameter_number(self) -> int:
        """The place among the parameters."""
        return Message(_KIND, self.data).integer("parameter_number")


def numbers_of(instruction: RawInstruction, field: str) -> Sequence[int]:
    """The numbers in a repeated field, signed as they are not: they are only compared."""
    values = [value for number, value in instruction.fields if number == _NUMBERS[field]]
    return [n for value in values for n in ([value] if isinstance(value, int) else read_numbers(value))]


def read_instruction(data: bytes) -> RawInstruction:
    """An instruction whose values are not read yet."""
    fields = read_fields(data)
    by_number = dict(fields)
    number, name = by_number.get(_ID, 0), by_number.get(_NAME, b"")
    if not isinstance(number, int) or not isinstance(name, bytes):
        raise HloError("an instruction has no name, or no number")
    text = name.decode("utf-8", "surrogateescape")
    return RawInstruction(data, fields, by_number, text if _IS_NAME.fullmatch(text) else sanitized(text), number)


def sanitized(name: str) -> str:
    """A name that HLO text can hold, made as XLA makes it (`NameUniquer::GetSanitizedName`).

    >>> sanitized("a b"), sanitized("1"), sanitized("add.1")
    ('a_b', '_1', 'add.1')
    """
    name = _NO_NAME.sub("_", name)
    return name if _IS_NAME.fullmatch(name) else f"_{name}"


class LinePrinter:
    """Prints the instructions of one computation. `computations` are all names by number."""

    __slots__ = ("_computations", "_instructions", "_texts")

    def __init__(
        self, texts: Texts, computations: Mapping[int, str], instructions: Mapping[int, RawInstruction]
    ) -> None:
        self._texts = texts
        self._computations = computations
        self._instructions = instructions

    def line(self, instruction: RawInstruction) -> str:
        """One instruction, as `%name = shape opcode(operands), attributes`."""
        texts, get = self._texts, instruction.by_number.get
        opcode = texts.opcodes[_bytes(get(_OPCODE))]
        operands = self._operands(instruction) if _OPERANDS in instruction.by_number else ()
        if opcode == "parameter" or opcode == "constant":
            argument = self._argument(opcode, instruction)
        elif len(operands) < 2:
            argument = f"%{operands[0].name}" if operands else ""
        else:
            argument = with_index_marks([f"%{operand.name}" for operand in operands])
        own, common, last = self._tail(opcode, instruction, operands)
        called = self._called(opcode, instruction, operands) if CALLED in instruction.by_number else ""
        before = self._predecessors(instruction) if _PREDECESSORS in instruction.by_number else ""
        metadata = texts.metadata[_bytes(get(_METADATA))]
        config = texts.configs[_bytes(get(_CONFIG))]
        shape = texts.shape_texts[_bytes(get(_SHAPE))]
        head = f"%{instruction.name} = {shape} {opcode}({argument})"
        return f"{head}{own}{called}{common}{before}{last}{metadata}{config}"

    def _operands(self, instruction: RawInstruction) -> Sequence[RawInstruction]:
        try:
            return [self._instructions[number] for number in numbers_of(instruction, "operand_ids")]
        except KeyError as error:
            raise HloError(f"{instruction.name} takes instruction {error}, which is not in its computation") from None

    def _argument(self, opcode: str, instruction: RawInstruction) -> str:
        message = Message(_KIND, instruction.data)
        if opcode == "parameter":
            return str(message.integer("parameter_number"))
        if not message.has("literal"):
            return "{...}"
        return literal_of(message.message("literal")).to_string()

    def _tail(self, opcode: str, instruction: RawInstruction, operands: Sequence[RawInstruction]) -> _Tail:
        rest = [f for f in instruction.fields if f[0] not in _OWN and (f[1] or f[0] not in _EMPTY)]
        shape = b""
        if opcode in _BY_OPERAND and operands:
            shape = _bytes(operands[0].by_number.get(_SHAPE))
        key = (opcode, shape, *rest)
        tails = self._texts.tails
        if (tail := tails.get(key)) is None:
            message = Message(_KIND, instruction.data)
            operand = self._texts.shapes[shape] if shape else None
            own = "" if opcode == "constant" else _listed(attribute_texts(opcode, message, operand))
            tail = tails[key] = _Tail(own, _listed(common_texts(message)), _listed(last_texts(message)))
        return tail

    def _called(self, opcode: str, instruction: RawInstruction, operands: Sequence[RawInstruction]) -> str:
        numbers = numbers_of(instruction, "called_computation_ids")
        try:
            names = [self._computations[number] for number in numbers]
        except KeyError as error:
            raise HloError(f"{instruction.name} calls computation {error}, which the module has not") from None
        match opcode, names:
            case "while", [body, condition]:
                return f", condition=%{condition}, body=%{body}"
            case "select-and-scatter", [select, scatter]:
                return f", select=%{select}, scatter=%{scatter}"
            case "conditional", [true, false] if operands and self._is_pred(operands[0]):
                return f", true_computation=%{true}, false_computation=%{false}"
        listed = ", ".join(f"%{name}" for name in names)
        if opcode in _LISTS:
            return f", {_LISTS[opcode]}={{{listed}}}"
        return f", {'calls' if opcode in _CALLS else 'to_apply'}={listed if len(names) == 1 else f'{{{listed}}}'}"

    def _is_pred(self, operand: RawInstruction) -> bool:
        shape = self._texts.shapes[_bytes(operand.by_number.get(_SHAPE))]
        return isinstance(shape, ArrayShape) and shape.element_type.name == "pred"

    def _predecessors(self, instruction: RawInstruction) -> str:
        numbers = numbers_of(instruction, "control_predecessor_ids")
        try:
            names = [f"%{self._instructions[number].name}" for number in numbers]
        except KeyError as error:
            raise HloError(f"{instruction.name} waits for instruction {error}, which is not there") from None
        return f", control-predecessors={{{', '.join(names)}}}" if names else ""


_LISTS: Final = {"conditional": "branch_computations", "custom-call": "called_computations"}
_CALLS: Final = frozenset(("async-done", "async-start", "async-update", "fusion"))


def _opcode(data: bytes) -> str:
    opcode = data.decode("utf-8", "replace")
    if not _IS_OPCODE.fullmatch(opcode):
        raise HloError(f"{opcode!r} is no opcode")
    return opcode


def _metadata_text(data: bytes) -> str:
    metadata = metadata_of(Message("OpMetadata", data))
    return f", metadata={metadata}" if any(getattr(metadata, name) for name in _TELLING) else ""


_TELLING: Final = ("op_type", "op_name", "source_file", "scheduling_name", "stack_frame_id")
"""XLA prints metadata that say at least one of these."""


def _config_text(data: bytes) -> str:
    return f", backend_config={BackendConfig(data.decode('utf-8', 'surrogateescape'))}" if data else ""


def _listed(texts: Iterable[str]) -> str:
    return "".join(f", {text}" for text in texts)


def _bytes(value: int | bytes | None) -> bytes:
    if isinstance(value, int):
        raise WireError("a number stands where bytes were expected")
    return value or b""
