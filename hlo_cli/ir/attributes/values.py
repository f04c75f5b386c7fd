"""Attribute values: every type of value, and its text in XLA.

Mirrors the printing in xla/hlo/ir/hlo_instruction.cc and xla/hlo/ir/hlo_instructions.cc.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.aliasing import Alias, BufferDonor
from hlo_cli.ir.strings import UnparsedText, quoted

if TYPE_CHECKING:
    from hlo_cli.ir.attributes.accuracy import BlockScalingConfig, ResultAccuracy, SparsityConfig
    from hlo_cli.ir.attributes.aliasing import ComputationLayout, OutputOperandAlias
    from hlo_cli.ir.attributes.annotations import BackendConfig, FrontendAttributes, StatisticsViz
    from hlo_cli.ir.attributes.devices import CollectiveDeviceList, IotaReplicaGroupList, MeshAxesReplicaGroupList
    from hlo_cli.ir.attributes.dimension_numbers import ConvolutionDimensionNumbers
    from hlo_cli.ir.attributes.metadata import Metadata
    from hlo_cli.ir.attributes.named_sharding import NamedSharding
    from hlo_cli.ir.attributes.origin import DebuggedArray, OriginalValue, RecoveryTable
    from hlo_cli.ir.attributes.sharding import Domain, Sharding, TupleSharding
    from hlo_cli.ir.attributes.window import PaddingConfig, Slice, Window
    from hlo_cli.ir.literal import ArrayLiteral, TupleLiteral
    from hlo_cli.ir.shape import ArrayShape, BufferShape, OpaqueShape, TokenShape, TupleShape, UnknownShape


@dataclass(frozen=True, slots=True)
class Name:
    """A computation or an instruction by its name, without its %.

    >>> str(Name("add.1"))
    '%add.1'
    """

    name: str

    def __str__(self) -> str:
        return f"%{self.name}"


Scalar: TypeAlias = """(
    bool | int | float | str | StrEnum | Name
    | ArrayLiteral | TupleLiteral
    | ArrayShape | BufferShape | OpaqueShape | TokenShape | TupleShape | UnknownShape
    | Alias | BufferDonor | ComputationLayout | DebuggedArray | OutputOperandAlias
    | CollectiveDeviceList | IotaReplicaGroupList | MeshAxesReplicaGroupList
    | Sharding | NamedSharding | TupleSharding | Domain
    | ConvolutionDimensionNumbers | PaddingConfig | Slice | Window
    | BackendConfig | FrontendAttributes | Metadata | OriginalValue | RecoveryTable
    | BlockScalingConfig | ResultAccuracy | SparsityConfig | StatisticsViz
)"""
"""A single value. A `str` that is neither an enumeration nor unparsed is the text between quotes."""

AttributeValue: TypeAlias = "Scalar | tuple[AttributeValue, ...]"
"""The value of an attribute: one value, or several between braces."""

_CLOSE: tuple[type, ...] = (bool, int, StrEnum, tuple)
"""Lists without a space after the comma."""


def value_text(value: AttributeValue) -> str:
    r"""A value as XLA prints it after `name=`.

    >>> value_text(((0, 1), (2, 3))), value_text((Name("a"), Name("b"))), value_text(True), value_text('"')
    ('{{0,1},{2,3}}', '{%a, %b}', 'true', '"\\""')
    """
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:g}"
        case tuple():
            comma = "," if not value or isinstance(value[0], _CLOSE) else ", "
            listed = comma.join(map(value_text, value))
            return f"{{ {listed} }}" if value and isinstance(value[0], Alias | BufferDonor) else f"{{{listed}}}"
        case UnparsedText() | StrEnum():
            return str(value)
        case str():
            return quoted(value)
    return str(value)
