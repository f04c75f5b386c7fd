"""The attributes of instructions, added to drafts of `HloInstructionProto`: each row to its field.

Mirrors `ToProto` of the classes in xla/hlo/ir/hlo_instructions.cc.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from hlo_cli.ir.attributes.enumerations import ShuffleMode
from hlo_cli.ir.attributes.metadata import (
    BackendConfig,
    DebuggedArray,
    FrontendAttributes,
    OriginalValue,
    StatisticsViz,
)
from hlo_cli.ir.attributes.sharding import (
    CollectiveDeviceList,
    Domain,
    IotaReplicaGroupList,
    MeshAxesReplicaGroupList,
    NamedSharding,
    Sharding,
    TupleSharding,
)
from hlo_cli.ir.attributes.value_types import (
    Alias,
    ArrayLiteral,
    AttributeValue,
    BlockScalingConfig,
    BufferDonor,
    ConvolutionDimensionNumbers,
    OutputOperandAlias,
    PaddingConfig,
    ResultAccuracy,
    Slice,
    SparsityConfig,
    TupleLiteral,
    Window,
)
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import UnparsedText
from hlo_cli.ir.operations import NAMING_ATTRIBUTES
from hlo_cli.ir.shape import Shape
from hlo_cli.source import HloError
from hlo_cli.syntax.attributes.row import AttributeRow, Kind
from hlo_cli.syntax.attributes.table import HEADER_ATTRIBUTES, attributes_of, own_attributes
from hlo_cli.syntax.proto.field_scan import KIND
from hlo_cli.syntax.proto.fields import FieldType, fields_of
from hlo_cli.syntax.proto.literals import literal_draft
from hlo_cli.syntax.proto.message_builder import MessageBuilder
from hlo_cli.syntax.proto.shapes import shape_draft
from hlo_cli.syntax.proto.write_shardings import add_replica_groups, sharding_draft
from hlo_cli.syntax.proto.write_values import (
    alias_draft,
    block_scaling_config_draft,
    buffer_donor_draft,
    debugged_array_draft,
    fieldwise_draft,
    frontend_attributes_draft,
    original_value_draft,
    output_operand_alias_draft,
    padding_config_draft,
    result_accuracy_draft,
    slice_drafts,
    sparsity_config_draft,
    statistics_draft,
    window_draft,
)

_ELSEWHERE: Final = NAMING_ATTRIBUTES | {"metadata"}
"""Attributes that the IR holds itself, for all opcodes."""
_OF_THE_MODULE: Final = frozenset(
    ("device_assignment", "host_program_shape", "original_value_recovery_table", "schedule")
)
"""Fields that `write.py` writes from the module: its devices, the shapes of its entry, the modules in it, its order."""
_WHERE_SAID: Final = _OF_THE_MODULE | {"parameter_replication", "precision_config"}
"""Messages written only if an attribute sets a field; XLA always writes the others."""

_IF_GIVEN: Final = (Kind.BOOL_IF_GIVEN, Kind.INT32)
"""The kinds of values that are written even if they are 0."""

_Path = tuple[str, ...]


def add_attributes(draft: MessageBuilder, instruction: Instruction) -> None:
    """Adds the attributes of an instruction; HloError if no proto can hold them, or if one is unknown."""
    opcode = instruction.written_opcode
    own, rules = own_attributes(opcode), attributes_of(opcode)
    holders = _Holders(draft, own)
    names = set()
    for attribute in instruction.attributes:
        row = rules.get(attribute.name)
        names.add(attribute.name)
        if attribute.name in _ELSEWHERE or (row is not None and row.is_forgotten):
            continue
        value = instruction.value(attribute.name)
        if row is None or value is None or isinstance(value, UnparsedText) or not holders.add(row, value):
            raise HloError(f"{instruction.name}: cannot represent {attribute.name}={attribute.value} in a proto")
    for row in own:
        if row.unsaid is not None and row.name not in names:
            holders.add_unsaid(row, row.unsaid)
    holders.close()


def add_header(draft: MessageBuilder, module: Module) -> None:
    """Adds the header attributes of a module, without those that follow from the module itself."""
    holders = _Holders(draft, HEADER_ATTRIBUTES.values(), "HloModuleProto")
    for attribute in module.header:
        row, value = HEADER_ATTRIBUTES.get(attribute.name), module.header_value(attribute.name)
        if row is None or row.path[0] in _OF_THE_MODULE or value is None or isinstance(value, UnparsedText):
            continue
        holders.add(row, value)
    holders.close()


class _Holders:
    """Messages under construction, by field path."""

    def __init__(self, draft: MessageBuilder, own: Iterable[AttributeRow], kind: str = KIND) -> None:
        self._drafts: dict[_Path, tuple[MessageBuilder, str]] = {(): (draft, kind)}
        for row in own:
            if len(row.path) > 1 and row.path[0] not in _WHERE_SAID:
                self._at(row.path[:-1])

    def add(self, row: AttributeRow, value: AttributeValue) -> bool:
        """Adds the value of an attribute; returns whether that was possible."""
        *path, field = row.path
        draft, kind = self._at(tuple(path))
        place = fields_of(kind).get(field)
        match value:
            case ShuffleMode():
                self._at(row.path)
            case CollectiveDeviceList() | IotaReplicaGroupList() | MeshAxesReplicaGroupList():
                add_replica_groups(draft, value)
            case Domain():
                draft.add("domain_entry_sharding", sharding_draft(value.exit))
                draft.add("domain_exit_sharding", sharding_draft(value.entry))
            case _ if place is None:
                return False
            case _ if (message := _message(value)) is not None:
                draft.add(field, message)
            case tuple():
                draft.add("constrain_layout", row.kind is Kind.SHAPES)
                draft.add(field, _items(place, value))
            case _:
                draft.add(field, _scalar(place, value), always=row.kind in _IF_GIVEN)
        return True

    def add_unsaid(self, row: AttributeRow, value: str | bool) -> None:
        """Adds the default that XLA writes; for a message, an empty one."""
        draft, kind = self._at(row.path[:-1])
        place = fields_of(kind)[row.path[-1]]
        draft.add(row.path[-1], MessageBuilder(place.type) if place.is_message else value)

    def close(self) -> None:
        """Adds each message to the one around it, the innermost first."""
        for path in sorted(self._drafts, key=len, reverse=True):
            if path:
                self._drafts[path[:-1]][0].add(path[-1], self._drafts[path][0])

    def _at(self, path: _Path) -> tuple[MessageBuilder, str]:
        """The builder at a path, and its message type."""
        if (found := self._drafts.get(path)) is None:
            kind = fields_of(self._at(path[:-1])[1])[path[-1]].type
            found = self._drafts[path] = MessageBuilder(kind), kind
        return found


def _message(value: AttributeValue) -> MessageBuilder | list[MessageBuilder] | str | None:
    """A value that has a message of its own, or several."""
    match value:
        case BackendConfig():
            return value.text
        case BlockScalingConfig():
            return block_scaling_config_draft(value)
        case ConvolutionDimensionNumbers():
            return fieldwise_draft("ConvolutionDimensionNumbers", value)
        case FrontendAttributes():
            return frontend_attributes_draft(value)
        case OriginalValue():
            return original_value_draft(value)
        case PaddingConfig():
            return padding_config_draft(value)
        case ResultAccuracy():
            return result_accuracy_draft(value)
        case Sharding() | NamedSharding() | TupleSharding():
            return sharding_draft(value)
        case Slice():
            return slice_drafts(value)
        case ArrayLiteral() | TupleLiteral():
            return literal_draft(value)
        case SparsityConfig():
            return sparsity_config_draft(value)
        case StatisticsViz():
            return statistics_draft(value)
        case Window():
            return window_draft(value)
    return shape_draft(value) if isinstance(value, Shape) else None


def _scalar(place: FieldType, value: AttributeValue) -> int | float | str | tuple[int]:
    """A single value: a number may be in a list of one, and a boolean may be a word."""
    if isinstance(value, int) and place.repeated:
        return (value,)
    if isinstance(value, bool) and place.type != "bool":
        return "true" if value else "false"
    return value if isinstance(value, int | float) else str(value)


def _items(place: FieldType, values: tuple[AttributeValue, ...]) -> list[MessageBuilder] | list[str] | list[int]:
    """The items of a list."""
    if place.is_message:
        return [draft for value in values if (draft := _element(place, value)) is not None]
    if any(isinstance(value, StrEnum) for value in values):
        return [str(value) for value in values]
    return _flat(values)


def _element(place: FieldType, value: AttributeValue) -> MessageBuilder | None:
    """A message in a repeated field."""
    match value:
        case Alias():
            return alias_draft(value)
        case BufferDonor():
            return buffer_donor_draft(value)
        case DebuggedArray():
            return debugged_array_draft(value)
        case OutputOperandAlias():
            return output_operand_alias_draft(value)
        case (int(source), int(target)):
            return MessageBuilder(place.type).add("source", source).add("target", target)
    return shape_draft(value) if isinstance(value, Shape) else None


def _flat(values: tuple[AttributeValue, ...]) -> list[int]:
    found: list[int] = []
    for value in values:
        if isinstance(value, tuple):
            found.extend(_flat(value))
        elif isinstance(value, int):
            found.append(value)
    return found
