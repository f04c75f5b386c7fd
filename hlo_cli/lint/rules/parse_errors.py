"""HLO00x: what cannot be read."""

from __future__ import annotations

from collections.abc import Iterator

from hlo_cli.ir.opcodes import OPAQUE
from hlo_cli.ir.operations import is_known
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.registry import rule
from hlo_cli.report.finding import Finding


@rule("HLO001", "cannot be read", needs="text")
def unreadable(context: LintContext) -> Iterator[Finding]:
    """A part of the text is not HLO, or names something that is not there.

    Why: what cannot be read cannot be checked; rules that need the whole module say nothing until it is mended.

    Example:
        x = f32[2] negate(y)

    Mend: correct the text where it points to; a text that ends early was cut off when it was written.

    Reference: xla/hlo/parser/hlo_parser.cc
    """
    for error in context.module.errors:
        yield context.finding(error.message, span=error.span, hint=error.hint, about=error.message)


@rule("HLO002", "rejected by XLA's parser", is_default=False, needs="text", reads_again=True)
def rejected(context: LintContext) -> Iterator[Finding]:
    """XLA's own parser would not take the text, though it can be read here.

    Why: a text that is edited by hand is often read back by XLA. Dumps of older versions and of forks hold attributes
    that the parser of today rejects, so this rule is off unless it is asked for, by --strict or in full.

    Example:
        x = f32[2] parameter(0), unheard_of=1

    Mend: leave out what is named, or write it as the parser wants it.

    Reference: xla/hlo/parser/hlo_parser.cc
    """
    for error in context.rejections:
        yield context.finding(error.message, span=error.span, hint=error.hint, about=error.message)


@rule("HLO003", "too much left out to judge", severity="warning", needs="text")
def left_out(context: LintContext) -> Iterator[Finding]:
    """The text leaves out operands, attributes or the names of computations.

    Why: rules that ask whether a module is well formed cannot tell what is wrong from what is not printed, so they say
    nothing of such a text.

    Example:
        y = f32[4] add(...)

    Mend: dump with the options that XLA has by default, which leave out nothing but large constants.

    Reference: HloPrintOptions in xla/hlo/ir/hlo_print_options.h
    """
    for note in context.left_out:
        yield context.finding(note.message, span=note.span, hint=note.hint, about=note.message)


@rule("HLO004", "opcode that is not known", severity="warning")
def unknown_opcode(context: LintContext) -> Iterator[Finding]:
    """An instruction has an opcode of which no rule is known.

    Why: nobody can tell here what it takes and gives, so its shape is taken as it is written. It may come from a newer
    version of XLA or from a fork, and any other version rejects it.

    Example:
        y = f32[4] frobnicate(x)

    Mend: correct the opcode if it is misspelled.

    Reference: xla/hlo/ir/hlo_opcode.h
    """
    for opcode, instructions in context.by_opcode.items():
        for instruction in () if is_known(opcode.removesuffix(OPAQUE)) else instructions:
            yield context.finding(f"{instruction.name}: {opcode} is no opcode that is known here", instruction)
