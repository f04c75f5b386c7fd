"""Descriptions of opcodes: the first sentence of an explanation, and details."""

from __future__ import annotations

from typing import NamedTuple

from hlo_cli.ir.operations import OPERATIONS, wrapped_opcode


class Words(NamedTuple):
    """An opcode in words: `does` begins a sentence about an instruction, `about` describes how it works."""

    does: str
    about: str


def describe_opcode(opcode: str) -> Words:
    """Describes an opcode of XLA, an asynchronous form of one, or an unknown opcode.

    >>> describe_opcode("tanh").does, describe_opcode("slice-start").does, describe_opcode("frob").does
    ('Computes hyperbolic tangents', 'Starts an async slice', 'Unknown opcode')
    """
    if (known := OPERATIONS.get(opcode)) is not None:
        return Words(known.does, known.about)
    wrapped = wrapped_opcode(opcode)
    if wrapped is None:
        return Words("Unknown opcode", "kept as text")
    if opcode.endswith("-done"):
        return Words(f"Waits for an async {wrapped}", OPERATIONS["async-done"].about)
    if opcode.endswith("-update"):
        return Words(f"Updates an async {wrapped}", OPERATIONS["async-update"].about)
    return Words(f"Starts an async {wrapped}", OPERATIONS[wrapped].about)
