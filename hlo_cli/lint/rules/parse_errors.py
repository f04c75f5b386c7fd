"""HLO00x: text that cannot be parsed or checked."""

from __future__ import annotations

from collections.abc import Iterator

from hlo_cli.ir.opcodes import OPAQUE
from hlo_cli.ir.operations import is_known
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.registry import rule
from hlo_cli.report.finding import Finding


@rule("HLO001", "syntax error or unresolved name", needs="text")
def syntax_error(context: LintContext) -> Iterator[Finding]:
    """Part of the text is not valid HLO, or refers to a name that does not exist.

    Why: Text that cannot be parsed cannot be checked. Rules that need the whole module are skipped until it is fixed.

    Example:
        x = f32[2] negate(y)

    Fix: Correct the text at the reported position. A text that ends early was truncated when it was written.

    Reference: xla/hlo/parser/hlo_parser.cc
    """
    for error in context.module.errors:
        yield context.finding(error.message, span=error.span, hint=error.hint, about=error.message)


@rule("HLO002", "rejected by XLA's parser", is_default=False, needs="text", reads_again=True)
def rejected_by_xla(context: LintContext) -> Iterator[Finding]:
    """XLA's own parser would reject this text, although hlo can read it.

    Why: A text that is edited by hand is often read back by XLA. Off by default, because dumps from older versions and
    from forks contain attributes that the current parser rejects; --strict or --select HLO002 enables it.

    Example:
        x = f32[2] parameter(0), unheard_of=1

    Fix: Remove or rewrite the reported part.

    Reference: xla/hlo/parser/hlo_parser.cc
    """
    for error in context.rejections:
        yield context.finding(error.message, span=error.span, hint=error.hint, about=error.message)


@rule("HLO003", "text too abbreviated to check", severity="warning", needs="text")
def abbreviated_text(context: LintContext) -> Iterator[Finding]:
    """The text omits operands, attributes, or computation names.

    Why: Rules that check whether a module is valid cannot distinguish an omitted part from a missing one, so they
    are skipped for such a text.

    Example:
        y = f32[4] add(...)

    Fix: Dump with XLA's default print options, which omit only large constants.

    Reference: HloPrintOptions in xla/hlo/ir/hlo_print_options.h
    """
    for note in context.omissions:
        yield context.finding(note.message, span=note.span, hint=note.hint, about=note.message)


@rule("HLO004", "unknown opcode", severity="warning")
def unknown_opcode(context: LintContext) -> Iterator[Finding]:
    """The opcode is unknown to hlo.

    Why: The operands and the shape of the instruction cannot be checked. The opcode may come from a newer version of
    XLA or from a fork; other versions reject it.

    Example:
        y = f32[4] frobnicate(x)

    Fix: Correct the opcode if it is misspelled.

    Reference: xla/hlo/ir/hlo_opcode.h
    """
    for opcode, instructions in context.by_opcode.items():
        for instruction in () if is_known(opcode.removesuffix(OPAQUE)) else instructions:
            yield context.finding(f"unknown opcode '{opcode}' in {instruction.name}", instruction)
