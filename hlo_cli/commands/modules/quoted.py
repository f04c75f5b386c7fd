"""Which HLO instructions does a message quote? Whole or cut, read one by one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.shapes.omitted_shape import omitted_shape
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.pasted.read import hlo_fragments
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError, Source
from hlo_cli.syntax.text.parser import parse_module

_BREAK: Final = lazy_regex(r"[ \t]*+\n\s*+")
_SPACES: Final = lazy_regex(r"[ \t]{2,}+")
_OPERANDS: Final = lazy_regex(r"(?<![\w\-])([a-z][\w\-]*+\()")
_ARGUMENT: Final = re.compile(r"(?:%?[A-Za-z_][\w.\-]*+[ \t]*+=[ \t]*+)?+")
_RESULT: Final = lazy_regex(r"%[A-Za-z_][\w.\-]*+[ ]=[ ][a-z][a-z0-9]*+\[[0-9,<=]*+\](?:\{[^{}]*+\})?+")
_ORIGIN: Final = lazy_regex(r"(op_name|source_file|source_line)=(\"[^\"\n]*+\"|[0-9]++)")
_LONGEST_CUT: Final = 4000  # a quotation shows one line, so the rest of a huge constant is not read


@dataclass(frozen=True, slots=True)
class FoundInstruction:
    """An instruction of a text; its module holds nothing else. `text` is in one line.

    Of one that is not `is_whole` only the name, the result, and the origin are in the text.
    """

    text: str
    instruction: Instruction
    module: Module
    is_whole: bool = True

    @property
    def name(self) -> str:
        """The name of the instruction; empty if the text has none."""
        return self.instruction.name if "=" in self.text[: len(self.instruction.name) + 8] else ""

    @property
    def array(self) -> ArrayShape | None:
        """The result, if it is an array with valid sizes."""
        shape = self.instruction.shape
        return shape if isinstance(shape, ArrayShape) and shape.problem is None else None

    @property
    def op_name(self) -> str:
        """The op_name in the metadata."""
        return self.instruction.metadata.op_name or ""

    @property
    def source(self) -> str:
        """The file and line in the metadata."""
        location = self.module.location(self.instruction)
        return str(location) if location is not None else ""


def instructions_in(text: str) -> tuple[FoundInstruction, ...]:
    """The distinct instructions in a text, in order; those that cannot be read are omitted.

    >>> [each.name for each in instructions_in("at %b = f32[2] add(%c, %d) and %b = f32[2] add(%c, %d)")]
    ['b']
    """
    texts = dict.fromkeys(
        one_line(text[each.start : each.end] + each.closing)
        for each in hlo_fragments(text)
        if "=" in text[each.start : each.end]
    )
    return tuple(found for each in texts if (found := read_instruction(each)) is not None)


def read_instruction(text: str) -> FoundInstruction | None:
    """The instruction in a text of one line, without its operands or attributes if they cannot be read.

    >>> read_instruction("%t = f32[8] get-tuple-element((f32[8], ...), index=0").instruction.shape.elements
    8
    """
    for form in _forms(text):
        try:
            module = parse_module(Source("instruction", form), infer=omitted_shape)
        except (HloError, RecursionError):
            continue
        if not module.errors and module.entry.instructions:
            instruction = module.entry.root or module.entry.instructions[-1]
            return FoundInstruction(form, instruction, module)
    return None


def read_cut_instruction(text: str) -> FoundInstruction | None:
    """The name, result, and origin of an instruction whose opcode or operands are elided in a text.

    >>> found = read_cut_instruction('for %t.1 = f32[8,4] ... op_name="jit(f)/t"')
    >>> print(found.name, found.array, found.op_name, found.is_whole)
    t.1 f32[8,4]{1,0} jit(f)/t False
    """
    line = one_line(text[:_LONGEST_CUT])
    if (match := _RESULT.search(line)) is None:
        return None
    fields = ", ".join(f"{key}={value}" for key, value in _ORIGIN.findall(line, match.end()))
    found = read_instruction(f"{match[0]} unknown(), metadata={{{fields}}}")
    return replace(found, is_whole=False) if found is not None else None


def one_line(text: str) -> str:
    """The text in one line; a break inside of a number or a list is none of its author.

    >>> one_line("%a = f32[1\\n8,8] copy(%b),\\n  metadata={op_name=\\"x\\"}")
    '%a = f32[18,8] copy(%b), metadata={op_name="x"}'
    """
    joined = _BREAK.sub(
        lambda match: _joint(text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]), text
    )
    return _SPACES.sub(" ", joined).strip()


def _joint(before: str, after: str) -> str:
    is_inside = (before.isdigit() and (after.isdigit() or after in ",]}")) or before in "[{" or after in "]}"
    return "" if is_inside else " "


def _forms(text: str) -> Iterable[str]:
    """The text, and shorter ones if it cannot be read: without operands, then without attributes."""
    yield text
    if (match := _OPERANDS.search(text, _ARGUMENT.match(text).end())) is None:  # type: ignore[union-attr]
        return
    head, rest = text[: match.end()], text[match.end() :]
    close = rest.rfind("), ")
    if close >= 0:
        yield f"{head}...{rest[close:]}"
    yield f"{head}...)"
