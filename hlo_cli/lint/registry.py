"""Rules: one function each, whose docstring is the page that `hlo lint --explain` shows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from hlo_cli.dataclass import dataclass
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.settings import LintSettings
from hlo_cli.report.finding import Finding
from hlo_cli.source import Severity

Check: TypeAlias = Callable[[LintContext], Iterator[Finding]]

Needs = Literal["text", "instructions", "module"]

_PARTS: Final = ("Why", "Example", "Mend", "Reference")


@dataclass(frozen=True, slots=True)
class Page:
    """What a rule is about, why that matters, HLO that breaks it, how to mend that, and where XLA says so."""

    what: str
    why: str
    example: str
    mend: str
    reference: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule with its code, its name in a few words, and how bad it is to break it.

    `is_default` says that it runs unless it is ignored. `needs` says what it can judge: `text` anything, `instructions`
    a text from which only other instructions are missing, for they could not be read, `module` nothing but a whole one.
    One that `reads_again` goes through the text as XLA's parser would, which takes longer than all others together.
    """

    code: str
    name: str
    severity: Severity
    check: Check
    is_default: bool
    needs: Needs
    reads_again: bool = False

    @property
    def page(self) -> Page:
        """The page, read from the docstring of the rule's function."""
        return read_page(self.check.__doc__ or "")

    def severity_under(self, settings: LintSettings) -> Severity:
        """How bad it is to break the rule where a user has a say in it."""
        return settings.severity.get(self.code, self.severity)

    def findings(self, context: LintContext) -> Iterator[Finding]:
        """What the rule has to say of a module, under its code."""
        severity = self.severity_under(context.settings)
        return (replace(each, code=self.code, severity=severity) for each in self.check(context))


def rule(
    code: str,
    name: str,
    *,
    severity: Severity = "error",
    is_default: bool = True,
    needs: Needs = "module",
    reads_again: bool = False,
) -> Callable[[Check], Rule]:
    """Makes a rule of a function.

    >>> @rule("HLO999", "a root that is a parameter", severity="note")
    ... def parameter_root(context: LintContext) -> Iterator[Finding]:
    ...     '''The entry gives back a parameter.'''
    ...     root = context.module.entry.root
    ...     if root is not None and root.opcode == "parameter":
    ...         yield context.finding(f"{root.name} is a parameter", root)
    >>> parameter_root.code, parameter_root.page.what
    ('HLO999', 'The entry gives back a parameter.')
    """
    return lambda check: Rule(code, name, severity, check, is_default, needs, reads_again)


def read_page(docstring: str) -> Page:
    '''A page from its paragraphs: the first says what, the others begin with Why, Example, Mend or Reference.

    >>> page = read_page("""A call gives less than is taken.
    ...
    ...     Why: it cannot run.
    ...
    ...     Example:
    ...         y = f32[] call(x), to_apply=add
    ...     """)
    >>> page.why, page.example
    ('it cannot run.', 'y = f32[] call(x), to_apply=add')
    '''
    parts = dict.fromkeys(("What", *_PARTS), "")
    for paragraph in inspect.cleandoc(docstring).split("\n\n"):
        name, colon, text = paragraph.partition(":")
        is_part = colon and name in _PARTS
        parts[name if is_part else "What"] += text if is_part else ("\n\n" if parts["What"] else "") + paragraph
    prose = {name: " ".join(text.split()) for name, text in parts.items()}
    example = inspect.cleandoc(parts["Example"].removeprefix("\n"))
    return Page(prose["What"], prose["Why"], example, prose["Mend"], prose["Reference"])
