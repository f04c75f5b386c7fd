"""Descriptions of opcodes: the first sentence of an explanation, and details."""

from __future__ import annotations

from typing import NamedTuple

from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import OPERATIONS, wrapped_opcode


class OpcodeDescription(NamedTuple):
    """The description of an opcode: `does` begins a sentence about an instruction, `about` describes how it works."""

    does: str
    about: str


def describe_opcode(opcode: str) -> OpcodeDescription:
    """Describes an opcode of XLA, an asynchronous form of one, or an unknown opcode.

    >>> describe_opcode("tanh").does, describe_opcode("slice-start").does, describe_opcode("frob").does
    ('Computes hyperbolic tangents', 'Starts an async slice', 'Unknown opcode')
    """
    if (known := OPERATIONS.get(opcode)) is not None:
        return OpcodeDescription(known.does, known.about)
    wrapped = wrapped_opcode(opcode)
    if wrapped is None:
        return OpcodeDescription("Unknown opcode", "kept as text")
    if opcode.endswith("-done"):
        return OpcodeDescription(f"Waits for an async {wrapped}", OPERATIONS["async-done"].about)
    if opcode.endswith("-update"):
        return OpcodeDescription(f"Updates an async {wrapped}", OPERATIONS["async-update"].about)
    return OpcodeDescription(f"Starts an async {wrapped}", OPERATIONS[wrapped].about)


def describe_operation(instruction: Instruction) -> OpcodeDescription:
    """Describes what an instruction does: its opcode, or the annotation that a custom call is.

    >>> from hlo_cli import parse_module
    >>> text = 'r = f32[4] custom-call(f32[4] p), custom_call_target="{}"'
    >>> [describe_operation(parse_module(text.format(name)).entry.root).does for name in ("Sharding", "my_op")]
    ['Sharding annotation', 'Calls external code']
    """
    if instruction.opcode == opcodes.CUSTOM_CALL:
        from hlo_cli.analysis.custom_calls.targets import known_target

        known = known_target(instruction.string("custom_call_target") or "")
        if known.category == "annotation":
            words = known.description
            return OpcodeDescription(words[:1].upper() + words[1:], "for the compiler; no code runs")
    return describe_opcode(instruction.opcode)
