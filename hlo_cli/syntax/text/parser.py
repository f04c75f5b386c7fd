"""Text to a module: a whole one, a part of one, or a single instruction.

Mirrors `HloParserImpl::Run` of xla/hlo/parser/hlo_parser.cc.
"""

from __future__ import annotations

from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.module import Module
from hlo_cli.source import Diagnostic, HloError, Source
from hlo_cli.syntax.text.build import Infer
from hlo_cli.syntax.text.module_reader import ModuleReader, begins_as_part, is_elided, is_several_lines, whole_lines


def parse_module(text: str | Source, *, strict: bool = False, infer: Infer | None = None) -> Module:
    """The module in an HLO text, or a single instruction as a module of its own.

    A part of a module is read too (`Module.is_part`): the end of a computation, one computation, or some of its lines.
    Operands that are not in the text become parameters, and calls of computations that are not in it stay unresolved.

    Lenient by default: unreadable parts are skipped and listed in `module.errors`, unknown parts are kept as text and
    listed in `module.notes`. With `strict`, input that XLA's own parser rejects raises HloError; text without an
    instruction always does. `infer` returns shapes that the text omits; without it they are unknown.

    >>> module = parse_module("HloModule m  ENTRY e { x = f32[2] parameter(0)  ROOT y = f32[2] negate(x) }")
    >>> [instruction.name for instruction in module.entry.instructions], module.errors
    (['x', 'y'], ())
    """
    source = text if isinstance(text, Source) else Source("text", text)
    with no_garbage_collection():
        if strict and (errors := _rejections(source)):
            raise HloError.of(errors)
        module = _parse(source, infer)
    if strict and module.errors:
        raise HloError.of(module.errors)
    return module


def _parse(source: Source, infer: Infer | None) -> Module:
    """The module in a text; a text with errors is read as a part of a module if it cannot be a whole one."""
    text = source.text
    if begins_as_part(text) and (part := _read_part(source, infer)) is not None:
        return part
    try:
        module = ModuleReader(source, infer).read()
    except HloError:
        if (is_several_lines(text) or is_elided(text)) and (part := _read_part(source, infer)) is not None:
            return part
        raise
    return (_read_part(source, infer) or module) if module.read_errors and is_elided(text) else module


def _read_part(source: Source, infer: Infer | None) -> Module | None:
    """The module in a part; None for a text without an instruction."""
    from hlo_cli.syntax.text.part_reader import PartReader

    try:
        return PartReader(whole_lines(source), infer).read()
    except HloError:
        return None


def _rejections(source: Source) -> tuple[Diagnostic, ...]:
    from hlo_cli.syntax.strict_reader import check_strictly

    return check_strictly(source)
