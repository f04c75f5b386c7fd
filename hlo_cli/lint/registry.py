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

_PARTS: Final = ("Why", "Example", "Fix", "Reference")


@dataclass(frozen=True, slots=True)
class Page:
    """The page of a rule: summary, reason, HLO that breaks the rule, fix, and a reference to XLA."""

    summary: str
    why: str
    example: str
    fix: str
    reference: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule with its code, its short name, and its severity.

    With `is_default`, it runs unless it is ignored. `needs` is the input that it requires: `text` any text,
    `instructions` a text in which at most some instructions are unreadable, `module` a complete module. A rule that
    `reads_again` parses the text again like XLA's parser, which takes longer than all other rules together.
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
        """The severity of the rule under the user's settings."""
        return settings.severity.get(self.code, self.severity)

    def findings(self, context: LintContext) -> Iterator[Finding]:
        """The findings of the rule in a module, with its code and severity."""
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
    """Makes a function a rule.

    >>> @rule("HLO999", "parameter as root", severity="note")
    ... def parameter_root(context: LintContext) -> Iterator[Finding]:
    ...     '''The entry computation returns a parameter.'''
    ...     root = context.module.entry.root
    ...     if root is not None and root.opcode == "parameter":
    ...         yield context.finding(f"{root.name} is a parameter", root)
    >>> parameter_root.code, parameter_root.page.summary
    ('HLO999', 'The entry computation returns a parameter.')
    """
    return lambda check: Rule(code, name, severity, check, is_default, needs, reads_again)


def read_page(docstring: str) -> Page:
    '''Parses a page from its paragraphs: the summary, and those that begin with Why, Example, Fix, or Reference.

    >>> page = read_page("""A call returns fewer values than expected.
    ...
    ...     Why: It cannot run.
    ...
    ...     Example:
    ...         y = f32[] call(x), to_apply=add
    ...     """)
    >>> page.why, page.example
    ('It cannot run.', 'y = f32[] call(x), to_apply=add')
    '''
    parts = dict.fromkeys(("Summary", *_PARTS), "")
    for paragraph in inspect.cleandoc(docstring).split("\n\n"):
        name, colon, text = paragraph.partition(":")
        is_part = colon and name in _PARTS
        parts[name if is_part else "Summary"] += text if is_part else ("\n\n" if parts["Summary"] else "") + paragraph
    prose = {name: " ".join(text.split()) for name, text in parts.items()}
    example = inspect.cleandoc(parts["Example"].removeprefix("\n"))
    return Page(prose["Summary"], prose["Why"], example, prose["Fix"], prose["Reference"])
