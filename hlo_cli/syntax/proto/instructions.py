"""One computation of a proto as lines of HLO text.

Mirrors `HloInstruction::PrintWithCanonicalNameMap` of xla/hlo/ir/hlo_instruction.cc. Most of what instructions say,
they say in the same bytes as others: shapes, metadata, windows. Each is read once and its text kept by its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from hlo_cli.ir.annotations import BackendConfig
from hlo_cli.ir.shape import ArrayShape, Shape, with_index_marks
from hlo_cli.source import HloError
from hlo_cli.syntax.proto.attributes import attribute_texts, common_texts, last_texts
from hlo_cli.syntax.proto.fields import fields_of
from hlo_cli.syntax.proto.literals import literal_of
from hlo_cli.syntax.proto.message import Message
from hlo_cli.syntax.proto.shapes import shape_of
from hlo_cli.syntax.proto.values import metadata_of
from hlo_cli.syntax.proto.wire import Field, read_fields, read_numbers, signed

_T = TypeVar("_T")
_KIND: Final = "HloInstructionProto"
_NAME, _OPCODE, _SHAPE, _ID = (fields_of(_KIND)[name].number for name in ("name", "opcode", "shape", "id"))
_OPERANDS, _PREDECESSORS, _CALLED = (
    fields_of(_KIND)[f"{name}_ids"].number for name in ("operand", "control_predecessor", "called_computation")
)
_METADATA, _CONFIG, _LITERAL, _PARAMETER = (
    fields_of(_KIND)[name].number for name in ("metadata", "backend_config", "literal", "parameter_number")
)
_OWN: Final = frozenset(
    (_NAME, _OPCODE, _SHAPE, _ID, _OPERANDS, _PREDECESSORS, _CALLED, _METADATA, _CONFIG, _LITERAL, _PARAMETER)
)
