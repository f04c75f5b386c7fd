"""Content of an instruction as text: the argument, and the attributes without names of other objects and metadata.

Compilers rename instructions and computations in every run, so the content contains no name: not its own, nor those of
operands, called computations, and control predecessors. Metadata is separate, as it does not affect the computed value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import NAMING_ATTRIBUTES, attributes_with

_CONTROL: Final = "control-predecessors"

_NAMES = re.compile(
    rf", (?:{'|'.join(map(re.escape, sorted(NAMING_ATTRIBUTES)))})="
    r"(?:%?[A-Za-z_][A-Za-z0-9_.\-]*+(?![^,])|\{[^{}=\"]*+\})"
)
_ANNOTATION = re.compile(rf", (?:{'|'.join(map(re.escape, attributes_with('annotates')))})=")
_METADATA_REST = re.compile(r'[^{}"\\]*+(?:"[^"\\]*+"[^{}"\\]*+)*+\}')
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*+")
_OP_NAME = re.compile(r'(?<![a-z_])op_name="([^"\\]*+(?:\\.[^"\\]*+)*+)"')


class InstructionContent(NamedTuple):
    """Argument of an instruction, attributes without names and metadata, metadata, and whether it has control
    predecessors.
    """

    argument: str
    attributes: str
    metadata: str
    is_controlled: bool = False


def content_of(instruction: Instruction) -> InstructionContent:
    """Content of an instruction.

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
            return _content_from_attributes(instruction)
        metadata, attributes = f"{{{match[0]}", before + rest[match.end() :]
    is_controlled = _CONTROL in attributes
    if is_controlled or instruction.called_computations:
        names = [match.start() for match in _NAMES.finditer(attributes)]
        if names and _may_be_quoted(attributes[: names[-1]]):
            return _content_from_attributes(instruction)
        attributes = _NAMES.sub("", attributes)
    return InstructionContent(argument, attributes, metadata, is_controlled)


def essential_attributes(attributes: str) -> str:
    """Attributes up to the first annotation, such as sharding: XLA prints those of the operation itself first.

    >>> essential_attributes(", dimensions={0}, sharding={replicated}")
    ', dimensions={0}'
    """
    # PrintExtraAttributes of xla/hlo/ir/hlo_instruction.cc writes an opcode's own attributes before the common ones.
    match = _ANNOTATION.search(attributes)
    return attributes if match is None else attributes[: match.start()]


def renamed_value(value: str, names: Mapping[str, str]) -> str:
    """Value of an attribute that names other objects, with its names replaced.

    >>> renamed_value("{%f, %g}", {"f": "h"})
    '{%h, %g}'
    """
    return _NAME.sub(lambda match: names.get(match[0], match[0]), value)


def op_name_in(metadata: str) -> str:
    """The op_name in a metadata text, with its escapes; empty if there is none.

    >>> op_name_in('{op_type="add" op_name="jit(f)/add" source_line=3}')
    'jit(f)/add'
    """
    match = _OP_NAME.search(metadata)
    return match[1] if match is not None else ""


def _may_be_quoted(before: str) -> bool:
    """Whether the text after `before` can be inside a string."""
    return "\\" in before or before.count('"') % 2 == 1


def _content_from_attributes(instruction: Instruction) -> InstructionContent:
    """Content of an instruction from its parsed attributes, for texts that a regular expression cannot split safely."""
    kept = [f", {a}" for a in instruction.attributes if a.name not in NAMING_ATTRIBUTES and a.name != "metadata"]
    is_controlled = any(a.name == _CONTROL for a in instruction.attributes)
    return InstructionContent(instruction.raw[0], "".join(kept), instruction.attribute("metadata") or "", is_controlled)
