"""The contents of a proto's instructions, as HLO text and as values: each distinct sequence of bytes is read once.

Mirrors `HloInstruction::PrintWithCanonicalNameMap` of xla/hlo/ir/hlo_instruction.cc. Most contents are the same bytes
in many instructions: shapes, metadata, windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Final, Generic, NamedTuple, TypeVar

from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.metadata import BackendConfig, Metadata
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.syntax.attributes.row import Kind
from hlo_cli.syntax.attributes.table import own_attributes
from hlo_cli.syntax.proto.attributes import attribute_texts, common_texts, last_texts
from hlo_cli.syntax.proto.field_scan import KIND, NUMBERS
from hlo_cli.syntax.proto.literals import literal_of
from hlo_cli.syntax.proto.message import Message
from hlo_cli.syntax.proto.values import metadata_of
from hlo_cli.syntax.proto.wire import Field, bytes_in, packed_field, read_fields, read_numbers

ELIDED: Final = "{...}"
"""The text for omitted values of a constant."""

_T = TypeVar("_T")
_OWN: Final = frozenset(
    NUMBERS[name]
    for name in (
        *("name", "opcode", "shape", "id", "operand_ids", "control_predecessor_ids", "called_computation_ids"),
        *("metadata", "backend_config", "parameter_number"),
    )
)
"""Fields that are unique to an instruction; texts of the others are cached by their bytes."""
_EMPTY: Final = frozenset(NUMBERS[name] for name in ("frontend_attributes", "statistics_viz"))
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
    """The cached texts of one module, by bytes; `file` is its complete input."""

    file: bytes
    metadata: Memo[Metadata] = field(
        default_factory=lambda: Memo(lambda data: metadata_of(Message("OpMetadata", data)))
    )
    metadata_texts: Memo[str] = field(init=False)
    configs: Memo[str] = field(default_factory=lambda: Memo(_config_text))
    tails: dict[tuple[object, ...], _Tail] = field(default_factory=dict)

    def __post_init__(self) -> None:
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
        found = dict(fields)
        own, common, last = self._tail(instruction, fields, data)
        called = _called_text(instruction) if instruction.called_computations else ""
        if NUMBERS["control_predecessor_ids"] in found:
            predecessors = read_numbers(packed_field(fields, NUMBERS["control_predecessor_ids"]))
            common += f", control-predecessors={{{', '.join(map(names, predecessors))}}}" if predecessors else ""
        metadata = self.metadata_texts[bytes_in(found, NUMBERS["metadata"])]
        config = self.configs[bytes_in(found, NUMBERS["backend_config"])]
        return f"{own}{called}{common}{last}{metadata}{config}"

    def _tail(self, instruction: Instruction, fields: list[Field], data: bytes) -> _Tail:
        opcode = instruction.written_opcode
        rest = [f for f in fields if f[0] not in _OWN and (f[1] or f[0] not in _EMPTY)]
        operand = instruction.operands[0].shape if opcode in _BY_OPERAND and instruction.operands else None
        key = (opcode, operand, *rest)
        if (tail := self.tails.get(key)) is None:
            message = Message(KIND, data)
            own = "" if opcode == opcodes.CONSTANT else _listed(attribute_texts(opcode, message, operand))
            tail = _Tail(own, _listed(common_texts(message)), _listed(last_texts(message)))
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
