"""What a custom call says of the function that it calls. Mirrors `HloCustomCallInstruction` of xla/hlo/ir."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.aliasing import OutputOperandAlias
from hlo_cli.ir.shape import Shape
from hlo_cli.ir.words import CustomCallApiVersion, CustomCallSchedule

if TYPE_CHECKING:
    from hlo_cli.ir.instruction import Instruction

_OPCODES: Final = (opcodes.CUSTOM_CALL, "custom-call-start")


@dataclass(frozen=True, slots=True)
class CustomCall:
    """The function that is called, and how; `operand_layout_constraints` is None where layouts are not fixed."""

    target: str
    api_version: CustomCallApiVersion = CustomCallApiVersion.ORIGINAL
    schedule: CustomCallSchedule = CustomCallSchedule.NONE
    has_side_effect: bool = False
    operand_layout_constraints: tuple[Shape, ...] | None = None
    output_to_operand_aliasing: tuple[OutputOperandAlias, ...] = ()


def custom_call(instruction: Instruction) -> CustomCall | None:
    """What a custom call says, or the start of one that runs meanwhile; None for every other opcode.

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
        instruction.items_of("output_to_operand_aliasing", OutputOperandAlias),
    )
