"""What an instruction says of itself: its argument, its attributes without names of other things, its metadata.

Names are what a compiler gives anew in every run, so nothing here holds one: neither its own, nor those of operands,
of called computations or of control predecessors. Metadata stands apart, for it says nothing of what is computed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from hlo_cli.ir.attribute_traits import NAMING_ATTRIBUTES, attributes_with
from hlo_cli.ir.instruction import Instruction

_CONTROL: Final = "control-predecessors"

_NAMES = re.compile(
    rf", (?:{'|'.join(map(re.escape, sorted(NAMING_ATTRIBUTES)))})="
    r"(?:%?[A-Za-z_][A-Za-z0-9_.\-]*+(?![^,])|\{[^{}=\"]*+\})"
)
_ANNOTATION = re.compile(rf", (?:{'|'.join(map(re.escape, attributes_with('annotates')))})=")
_METADATA_REST = re.compile(r'[^{}"\\]*+(?:"[^"\\]*+"[^{}"\\]*+)*+\}')
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*+")
_OP_NAME = re.compile(r'(?<![a-z_])op_name="((?:[^"\\]|\\.)*+)"')


class InstructionContent(NamedTuple):
    """The argument of an instruction, its attributes without names and metadata, the metadata, and whether there are
    control predecessors.
    """

    argument: str
    attributes: str
    metadata: str
    is_controlled: bool = False


def content_of(instruction: Instruction) -> InstructionContent:
    """What an instruction says, as text.

    >>> from hlo_cli import parse_module
    >>> text = 'r = s8[2] slice(s8[9] a), slice={[1:9:4]}, control-predecessors={a}, metadata={op_name="f"}'
    >>> content_of(parse_module(text).entry.root)
    InstructionContent(argument='', attributes=', slice={[1:9:4]}', metadata='{op_name="f"}', is_controlled=True)
    """
    argument, attributes = instruction.raw
    if not attributes:
        return InstructionContent(argument, "", "")
    before, found, rest = attributes.partition(", metadata={")
    metadata = ""
    if found:
        match = None if _may_be_quoted(before) else _METADATA_REST.match(rest)
        if match is None:
            return _with_care(instruction)
        metadata, attributes = f"{{{match[0]}", before + rest[match.end() :]
    is_controlled = _CONTROL in attributes
    if is_controlled or instruction.called_computations:
        names = [match.start() for match in _NAMES.finditer(attributes)]
        if names and _may_be_quoted(attributes[: names[-1]]):
            return _with_care(instruction)
        attributes = _NAMES.sub("", attributes)
    return InstructionContent(argument, attributes, metadata, is_controlled)


def essential(attributes: str) -> str:
    """What attributes say of the operation itself, as far as it stands where XLA prints it: in front.

    >>> essential(", dimensions={0}, sharding={replicated}")
    ', dimensions={0}'
    """
    match = _ANNOTATION.search(attributes)
    return attributes if match is None else attributes[: match.start()]


def renamed_value(value: str, names: Mapping[str, str]) -> str:
    """The value of an attribute that names things, with other names.

    >>> renamed_value("{%f, %g}", {"f": "h"})
    '{%h, %g}'
    """
    return _NAME.sub(lambda match: names.get(match[0], match[0]), value)


def op_name_in(metadata: str) -> str:
    """The op_name in the text of metadata, escapes as they are written; empty if there is none.

    >>> op_name_in('{op_type="add" op_name="jit(f)/add" source_line=3}')
    'jit(f)/add'
    """
    match = _OP_NAME.search(metadata)
    return match[1] if match is not None else ""


def _may_be_quoted(before: str) -> bool:
    """Whether what follows may stand inside a string."""
    return "\\" in before or before.count('"') % 2 == 1


def _with_care(instruction: Instruction) -> InstructionContent:
    """The same from attributes that were cut apart exactly."""
    kept = [f", {a}" for a in instruction.attributes if a.name not in NAMING_ATTRIBUTES and a.name != "metadata"]
    is_controlled = any(a.name == _CONTROL for a in instruction.attributes)
    return InstructionContent(instruction.raw[0], "".join(kept), instruction.attribute("metadata") or "", is_controlled)
