"""Which report answers a text that was recognized, whichever command was given it?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from shlex import quote
from typing import Final

import click

from hlo_cli.commands.options.io_options import OutputOptions, io_of
from hlo_cli.commands.options.writing import write_report
from hlo_cli.commands.pasted.mentions import NOT_RECOGNIZED, mentions_report
from hlo_cli.inputs.input import read_inputs
from hlo_cli.inputs.pasted.envelopes import ENVELOPE_OF, ENVELOPES, PastedText, PastedTextError
from hlo_cli.inputs.pasted.languages import language_error, no_hlo_error
from hlo_cli.report.numbers import format_bytes
from hlo_cli.report.report import Report
from hlo_cli.source import Diagnostic, HloError

_WITH_CHIP: Final = frozenset(("cost-analysis",))
"""Kinds whose answer has times on a chip."""
_MESSAGES: Final = frozenset(each.kind for each in ENVELOPES if each.marks and not each.is_document) - {
    *("out-of-memory", "framework-error", "compiler-error", "exception", "traceback"),
}
"""Kinds of messages that a note names next to another one; words of those left out are in many messages."""
_UNRECOGNIZED: Final = "mentions"
"""The kind of a text of which only parts are understood: an error, although an answer shows these."""
_JUDGES: Final = frozenset(("lint", "diff"))
"""Commands whose exit code judges a module: a text that is not one never passes."""
_DEFECTS: Final = "defects"
"""The number of statements of an answer that a compiler rejects: findings of `hlo lint`, although no rule ran."""
_LIMITS: Final = ("limit", "chip", "expect")
"""Options that make the exit code of any command judge a module."""
_PARTIAL: Final = Diagnostic(
    "warning", "the text is longer than 16 MiB: only parts of it were read, so counts are too low"
)
_OF_MODULES: Final = ("hlo", "pb", "dot")
"""Formats of modules, which an answer cannot have."""
_WITHOUT_FORMAT: Final = "to explain it, omit the format, or select table, json, or html"


def answer_error(error: HloError, context: click.Context) -> int:
    """Writes the answer to a text that a command was given in place of a module, and returns the exit code.

    `context` is that of the command, whose options select the output. Other errors are raised again.
    """
    name, first = context.info_name or "", error
    if name == "profile":
        error = _in_place_of_a_trace(error, context.params.get("arguments") or ())
        if isinstance(error, PastedTextError) and not ENVELOPE_OF[error.pasted.kind].has_times:
            raise _no_trace_error(error.pasted)
    if not isinstance(error, PastedTextError) or "columns" not in context.params:
        raise error
    output, _ = io_of(dict(context.params), writes=_OF_MODULES)
    if output.format in _OF_MODULES:
        raise HloError(f"{error.diagnostic.message}, so it cannot be written as {output.format}", hint=_WITHOUT_FORMAT)
    chip = context.params.get("chip") if error.pasted.kind in _WITH_CHIP else None
    if error.pasted.kind == "memory-profile" and name == "diff":
        return write_report(_growth(context.params.get("inputs") or ()), output)
    try:
        report = _report_of(replace(error.pasted, chip=chip or ""))
        if error.pasted.is_partial and ENVELOPE_OF[error.pasted.kind].is_document:
            report = replace(report, notes=(*report.notes, _PARTIAL))
    except HloError:
        if name == "profile" or error.pasted.kind == _UNRECOGNIZED:
            raise first from None
        raise
    limit = context.params.get("limit")
    if limit and report.numbers.get("total_bytes") is not None:
        return _write_limited(report, str(limit), output)
    if error.pasted.kind == _UNRECOGNIZED and report.answer.startswith(NOT_RECOGNIZED):
        return write_report(report, output, (error.diagnostic,))
    errors: tuple[Diagnostic, ...] = ()
    given = [option for option in _LIMITS if context.params.get(option) and not (option == "chip" and chip)]
    if name == "lint" and not context.params.get("expect") and report.numbers.get(_DEFECTS):
        return write_report(report, output) or int(not context.params.get("exit_zero"))
    if name in _JUDGES or given:
        errors = (Diagnostic("error", f"{error.diagnostic.message}, so it cannot be checked", hint="pass a dump"),)
    return write_report(report, output, errors)


def _growth(paths: Sequence[str]) -> Report:
    """The report on two memory profiles; HloError if one of the inputs is something else."""
    found = list[PastedText]()
    for path in paths:
        try:
            read_inputs([path])
        except PastedTextError as error:
            found.append(error.pasted)
    if len(paths) != 2 or [each.kind for each in found] != ["memory-profile"] * 2:
        raise HloError("a memory profile can only be compared with another one", hint="pass two memory profiles")
    from hlo_cli.commands.pasted.memory import growth_report  # most texts are no profiles

    return growth_report(*found)


def _function(name: str) -> Callable[[PastedText], Report | None]:
    """The function that answers a kind of text; its module is imported now."""
    module, _, function = name.rpartition(".")
    found: Callable[[PastedText], Report | None] = getattr(import_module(f"hlo_cli.commands.{module}"), function)
    return found


def _write_limited(report: Report, limit: str, output: OutputOptions) -> int:
    """Writes a report on memory with the verdict on a limit first; the exit code is 1 if the limit is exceeded."""
    from hlo_cli.syntax.byte_sizes import parse_size

    most, total = parse_size(limit), report.numbers["total_bytes"]
    if not isinstance(total, int) or total <= most:
        return write_report(replace(report, answer=f"{report.answer} (within the limit of {limit})"), output)
    answer = f"Exceeds the limit of {limit} by {format_bytes(total - most)}. {report.answer}"
    return write_report(replace(report, answer=answer), output) or 1


def _in_place_of_a_trace(error: HloError, arguments: Sequence[str]) -> HloError:
    """The error for a text that `hlo profile` was given as a trace, if it can be explained; else the given error."""
    if not arguments or arguments[0] == "-" or isinstance(error, PastedTextError):
        return error
    try:
        read_inputs([arguments[0]])
    except PastedTextError as pasted:
        return error if pasted.pasted.kind == _UNRECOGNIZED or _is_trace(arguments[0]) else pasted
    except HloError:
        return error
    return error


def _no_trace_error(pasted: PastedText) -> HloError:
    """The error for a text of a known kind without measured times, with the command that explains it."""
    hint = f"to explain it, run `hlo {quote(pasted.name)}`; to record a trace, see `hlo help profiles`"
    return HloError(f"{pasted.name} is {ENVELOPE_OF[pasted.kind].noun}, not a profiler's trace", hint=hint)


def _is_trace(path: str) -> bool:
    """Whether a file can be read as a trace, so that the error of `hlo profile` is about something else."""
    from hlo_cli.read_traces import read_trace

    try:
        read_trace(path)
    except HloError:
        return False
    return True


def _report_of(pasted: PastedText) -> Report:
    """The report of the kind of a text, or of the next one that it may have if it holds no message of that kind.

    HloError if it has no message of any kind: the reader's own for a value, what the text is for others.
    """
    kinds = (pasted.kind, *pasted.others) if pasted.kind != _UNRECOGNIZED else ()
    for at, kind in enumerate(kinds):
        try:
            report = _function(ENVELOPE_OF[kind].answer)(replace(pasted, kind=kind))
        except HloError:
            if not ENVELOPE_OF[kind].marks:
                raise
            continue
        if report is None:
            continue
        more = [ENVELOPE_OF[each].noun for each in kinds[at + 1 :] if each in _MESSAGES]
        note = Diagnostic("note", f"the text also has {' and '.join(more)}; paste it alone to explain it")
        return replace(report, notes=(*report.notes, note)) if more else report
    from hlo_cli.commands.pasted.compiler_messages import message_report  # most texts are of a kind
    from hlo_cli.commands.pasted.figures import figures_report

    if (found := message_report(pasted) or figures_report(pasted)) is not None:
        return found
    if pasted.kind == _UNRECOGNIZED and (mentioned := mentions_report(pasted)).numbers["mentions"]:
        return mentioned
    raise language_error(pasted.text, pasted.name) or no_hlo_error(pasted.text, pasted.name)
