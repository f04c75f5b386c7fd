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
    ('Takes hyperbolic tangents', 'Starts a slice in the background', 'An operation that XLA did not have')
    """
    if (known := OPERATIONS.get(opcode)) is not None:
        return Words(known.does, known.about)
    wrapped = wrapped_opcode(opcode)
    if wrapped is None:
        return Words("An operation that XLA did not have", "when this was written; its text is kept as it is")
    if opcode.endswith("-done"):
        return Words(f"Waits for a {wrapped}", OPERATIONS["async-done"].about)
    if opcode.endswith("-update"):
        return Words(f"Goes on with a {wrapped} in the background", OPERATIONS["async-update"].about)
    return Words(f"Starts a {wrapped} in the background", OPERATIONS[wrapped].about)
