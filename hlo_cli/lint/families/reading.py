"""HLO00x: what cannot be read."""

from __future__ import annotations

from collections.abc import Iterator

from hlo_cli.lint.finding import Finding
from hlo_cli.lint.registry import rule
from hlo_cli.lint.subject import Subject


@rule("HLO001", "cannot be read", needs_whole=False)
def unreadable(subject: Subject) -> Iterator[Finding]:
    """A part of the text is not HLO, or names something that is not there.

    Why: what cannot be read cannot be checked; other rules that need the whole module say nothing until it is mended.

    Example:
        x = f32[2] negate(y)

    Mend: correct the text where it points to; a text that ends early was cut off when it was written.

    Reference: xla/hlo/parser/hlo_parser.cc
    """
    for error in subject.module.errors:
        yield Finding(error.message, span=error.span, hint=error.hint, subject=error.message)


@rule("HLO002", "rejected by XLA's parser", is_default=False, needs_whole=False)
def rejected(subject: Subject) -> Iterator[Finding]:
    """XLA's own parser would not take the text, though it can be read here.

    Why: a text that is edited by hand is often read back by XLA. Dumps of older versions and of forks hold attributes
    that the parser of today rejects, so this rule is off unless it is asked for, by name or by --strict.

    Example:
        x = f32[2] parameter(0), unheard_of=1

    Mend: leave out what is named, or write it as the parser wants it.

    Reference: xla/hlo/parser/hlo_parser.cc
    """
    for error in subject.rejections:
        yield Finding(error.message, span=error.span, hint=error.hint, subject=error.message)
