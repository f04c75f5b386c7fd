"""The report that answers a recognized text, whichever command was given it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Final

import click

from hlo_cli.commands.shared.io_options import io_of
from hlo_cli.commands.shared.writing import write_report
from hlo_cli.inputs.pasted.foreign import language_error, no_hlo_error
from hlo_cli.inputs.pasted.envelopes import MARKS
from hlo_cli.inputs.pasted.text import PastedKind, PastedText, PastedTextError
from hlo_cli.report.report import Report
from hlo_cli.source import Diagnostic, HloError

_ANSWERS: Final[dict[PastedKind, str]] = {
    "out-of-memory": "hlo_cli.commands.pasted.out_of_memory",
    "slow-operation": "hlo_cli.commands.pasted.slow_operation",
    "compiler-error": "hlo_cli.commands.pasted.compiler_error",
    "resharding": "hlo_cli.commands.pasted.resharding",
    "diff": "hlo_cli.commands.pasted.diff",
    "shape": "hlo_cli.commands.pasted.shape",
    "layout": "hlo_cli.commands.pasted.layout",
    "shapes": "hlo_cli.commands.pasted.shape",
    "allocator-stats": "hlo_cli.commands.pasted.memory",
    "memory-stats": "hlo_cli.commands.pasted.memory",
    "buffer-values": "hlo_cli.commands.pasted.memory",
    "live-range": "hlo_cli.commands.pasted.memory",
    "buffer-assignment": "hlo_cli.commands.pasted.memory",
    "memory-report": "hlo_cli.commands.pasted.memory",
    "sharding": "hlo_cli.commands.pasted.sharding",
    "replica-groups": "hlo_cli.commands.pasted.replica_groups",
}
"""The module whose function `report_of` answers each kind; it is imported on use."""

_JUDGES: Final = frozenset(("lint", "diff"))
"""Commands whose exit code judges a module: a text that is not one never passes."""
_LIMITS: Final = ("limit", "chip", "expect")
"""Options that make the exit code of any command judge a module."""
_OF_MODULES: Final = ("hlo", "pb", "dot")
"""Formats of modules, which an answer cannot have."""
_WITHOUT_FORMAT: Final = "to explain it, omit the format, or select table, json, or html"


def answer_error(error: HloError, context: click.Context) -> int:
    """Writes the answer to a text that a command was given in place of a module, and returns the exit code.

    `context` is that of the command, whose options select the output. Other errors are raised again.
    """
    if not isinstance(error, PastedTextError) or error.pasted.kind not in _ANSWERS or "columns" not in context.params:
        raise error
    output, _ = io_of(dict(context.params), writes=_OF_MODULES)
    if output.format in _OF_MODULES:
        raise HloError(f"{error.diagnostic.message}, so it cannot be written as {output.format}", hint=_WITHOUT_FORMAT)
    name = context.info_name or ""
    errors: tuple[Diagnostic, ...] = ()
    if name in _JUDGES or any(context.params.get(option) for option in _LIMITS):
        errors = (Diagnostic("error", f"{error.diagnostic.message}, so it cannot be checked", hint="pass a dump"),)
    return write_report(_report_of(error.pasted), output, errors)


def _report_of(pasted: PastedText) -> Report:
    """The report of the kind of a text, or of the next one that it may have if it holds no message of that kind.

    HloError if it has no message of any kind: the reader's own for a value, what the text is for others.
    """
    for kind in (pasted.kind, *pasted.others):
        report_of: Callable[[PastedText], Report] = import_module(_ANSWERS[kind]).report_of
        try:
            return report_of(replace(pasted, kind=kind))
        except HloError:
            if kind not in MARKS:
                raise
    raise language_error(pasted.text, pasted.name) or no_hlo_error(pasted.text, pasted.name)
