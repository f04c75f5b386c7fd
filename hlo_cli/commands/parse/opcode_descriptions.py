"""Descriptions of opcodes: the first sentence of an explanation, and details."""

from __future__ import annotations

from typing import NamedTuple

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
