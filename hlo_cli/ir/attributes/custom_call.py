"""The function that a custom call calls. Mirrors `HloCustomCallInstruction` of xla/hlo/ir."""

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
        instruction.items_of("output_to_operand_aliasing", OutputOperandAlias),
    )
