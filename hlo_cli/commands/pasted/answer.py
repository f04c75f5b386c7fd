"""Which report answers a text that was recognized, whichever command was given it, and what do answers consist of?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from shlex import quote
from types import MappingProxyType
from typing import Final

import click

from hlo_cli.analysis.sharding.placement import describe_sharding
from hlo_cli.commands.modules.quoted import FoundInstruction
from hlo_cli.commands.options.io_options import OutputOptions, io_of
from hlo_cli.commands.options.writing import write_report
from hlo_cli.commands.parse.explain import explain_text
from hlo_cli.inputs.input import read_inputs
from hlo_cli.inputs.pasted.envelopes import (
    ENVELOPES,
    MARKS,
    NOUNS,
    PastedKind,
    PastedText,
    PastedTextError,
    language_error,
    no_hlo_error,
)
from hlo_cli.report.figure import Anatomy
from hlo_cli.report.numbers import format_bytes
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Cell
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic, HloError
from hlo_cli.syntax.values.sharding_forms import read_given_sharding

_ANSWERED: Final[dict[str, tuple[PastedKind, ...]]] = {
    "memory.memory_report": (
        *("out-of-memory", "allocator-stats", "memory-stats", "buffer-values", "live-range"),
        *("buffer-assignment", "memory-report", "memory-profile", "memory-top"),
    ),
    "compiler_messages.slow_operation_report": ("slow-operation",),
    "compiler_messages.compiler_error_report": ("compiler-error",),
    "compiler_messages.resharding_report": ("resharding",),
    "unified_diff.diff_report": ("diff",),
    "shape_text.shape_report": ("shape", "shapes"),
    "shape_text.layout_report": ("layout",),
    "warnings.warning_report": (*("captured-constants", "host-compute", "stuck-collective", "spills", "donation"),),
    "recompilations.report_of": ("compile-log",),
    "printed_tables.table_report": (
        *("cut-header", "stablehlo", "pallas-kernel", "residuals", "operation-times", "kernel-times"),
        *("execution-profile", "thunks", "autotune-results", "cost-analysis"),
    ),
    "dump_files.dump_file_report": (
        *("pass-times", "compile-options", "thunk-names", "target", "transfer-stats", "program-facts", "exported"),
    ),
    "code_files.code_report": ("ptx", "llvm-ir", "emitter-mlir", "object-file"),
    "code_files.drawing_report": ("drawing",),
    "torch_xla.torch_report": ("torch-graphs", "torch-metrics", "torch-times"),
    "failures.flag_report": ("unknown-flag",),
    "failures.failure_report": (
        *("compile-time-constant", "nan", "donated-argument", "argument-size"),
        *("library-launch", "kernel-launch", "missing-symbol"),
    ),
    "sharding_errors.sharding_error_report": (
        *("indivisible", "sharding-rank", "mesh-axis", "other-devices", "other-sharding"),
    ),
    "sharding_text.sharding_report": ("sharding",),
    "sharding_text.replica_groups_report": ("replica-groups",),
}
"""The functions that answer, each with its kinds of texts; their modules are imported on use."""
_ANSWERS: Final = {kind: function for function, kinds in _ANSWERED.items() for kind in kinds}
_WITH_CHIP: Final = frozenset(("cost-analysis",))
"""Kinds whose answer has times on a chip."""
_MEASURED: Final = frozenset(("kernel-times", "torch-times", "operation-times", "execution-profile", "pass-times"))
"""Kinds with measured times, which `hlo profile` answers although they are not traces."""
_MESSAGES: Final = frozenset(each.kind for each in ENVELOPES if not each.is_document) - {
    "out-of-memory",
    "compiler-error",
}
"""Kinds of messages that a note names next to another one; words of the two left out are in many messages."""
_JUDGES: Final = frozenset(("lint", "diff"))
"""Commands whose exit code judges a module: a text that is not one never passes."""
_DEFECTS: Final = "defects"
"""The number of statements of an answer that a compiler rejects: findings of `hlo lint`, although no rule ran."""
_LIMITS: Final = ("limit", "chip", "expect")
"""Options that make the exit code of any command judge a module."""
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
        if isinstance(error, PastedTextError) and error.pasted.kind not in _MEASURED:
            raise _no_trace_error(error.pasted)
    if not isinstance(error, PastedTextError) or error.pasted.kind not in _ANSWERS or "columns" not in context.params:
        raise error
    output, _ = io_of(dict(context.params), writes=_OF_MODULES)
    if output.format in _OF_MODULES:
        raise HloError(f"{error.diagnostic.message}, so it cannot be written as {output.format}", hint=_WITHOUT_FORMAT)
    chip = context.params.get("chip") if error.pasted.kind in _WITH_CHIP else None
    if error.pasted.kind == "memory-profile" and name == "diff":
        return write_report(_growth(context.params.get("inputs") or ()), output)
    try:
        report = _report_of(replace(error.pasted, chip=chip or ""))
    except HloError:
        if name == "profile":
            raise first from None
        raise
    limit = context.params.get("limit")
    if limit and report.numbers.get("total_bytes") is not None:
        return _write_limited(report, str(limit), output)
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
    growth_report: Callable[[PastedText, PastedText], Report] = _function("memory.growth_report")
    return growth_report(*found)


def _function(name: str) -> Callable[..., Report]:
    """The function of a module here, which is imported now."""
    module, _, function = name.partition(".")
    found: Callable[..., Report] = getattr(import_module(f"hlo_cli.commands.pasted.{module}"), function)
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
        return error if _is_trace(arguments[0]) else pasted
    except HloError:
        return error
    return error


def _no_trace_error(pasted: PastedText) -> HloError:
    """The error for a text of a known kind without measured times, with the command that explains it."""
    hint = f"to explain it, run `hlo {quote(pasted.name)}`; to record a trace, see `hlo help profiles`"
    return HloError(f"{pasted.name} is {NOUNS[pasted.kind]}, not a profiler's trace", hint=hint)


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
    kinds = (pasted.kind, *pasted.others)
    for at, kind in enumerate(kinds):
        report_of: Callable[[PastedText], Report] = _function(_ANSWERS[kind])
        try:
            report = report_of(replace(pasted, kind=kind))
        except HloError:
            if kind not in MARKS:
                raise
            continue
        more = [NOUNS[each] for each in kinds[at + 1 :] if each in _MESSAGES]
        note = Diagnostic("note", f"the text also has {' and '.join(more)}; paste it alone to explain it")
        return replace(report, notes=(*report.notes, note)) if more else report
    raise language_error(pasted.text, pasted.name) or no_hlo_error(pasted.text, pasted.name)


# --- what answers consist of ---
# Sentences, tables, advice, and explained instructions.


_NAMES: Final = ("instruction", "second_instruction", "third_instruction")
_MOST_OPERANDS = 12  # a pasted instruction may be a tuple of hundreds; a dozen fit the screen


_BEFORE: Final = 1 << 12  # a message may begin with what failed, a few lines above its mark
_AFTER: Final = 1 << 15
"""Characters around the first message that are read: a message with its traceback is shorter."""


def around_message(pasted: PastedText) -> str:
    """The text around the first message of its kind, on one line."""
    pattern = next((each.pattern for each in ENVELOPES if each.kind == pasted.kind), None)
    match = pattern.search(pasted.text) if pattern is not None else None
    at = match.start() if match is not None else 0
    return " ".join(pasted.text[max(0, at - _BEFORE) : at + _AFTER].split())


def text_report(
    pasted: PastedText,
    answer: str,
    *,
    means: Sequence[str] = (),
    tables: Sequence[Part] = (),
    advice: Sequence[str] = (),
    numbers: Mapping[str, Cell] = MappingProxyType({}),
    notes: Sequence[str] = (),
    next: Sequence[str] = (),
) -> Report:
    """The report on a text: one sentence, what it means, its tables, and what to do."""
    parts: list[Part] = [Passage("text", tuple(means))] if means else []
    parts += tables
    parts += [Passage("advice", tuple(advice))] if advice else []
    return Report(
        "parse",
        answer,
        numbers={"text": NOUNS[pasted.kind], **numbers},
        parts=tuple(parts),
        next=tuple(next),
        notes=tuple(Diagnostic("note", note) for note in notes),
        input={"path": pasted.name},
    )


def explained_parts(found: Sequence[FoundInstruction]) -> tuple[Part, ...]:
    """The underlined texts of the first instructions with the meaning of their parts."""
    parts = list[Part]()
    for name, each in zip(_NAMES, (each for each in found if each.is_whole), strict=False):
        try:
            report = explain_text(each.text, most_operands=_MOST_OPERANDS)
        except (HloError, RecursionError):
            continue
        parts += (_with_sharding(replace(part, name=name), each) for part in report.parts if isinstance(part, Anatomy))
    return tuple(parts)


def _with_sharding(part: Anatomy, found: FoundInstruction) -> Anatomy:
    """The explanation with the sharding in words."""
    text = found.instruction.attribute("sharding")
    if text is None:
        return part
    try:
        sharding = read_given_sharding(text).sharding
    except HloError:
        return part
    if sharding is None:
        return part
    words = describe_sharding(sharding)
    rows = tuple(replace(row, meaning=words) if row.label == "sharding" else row for row in part.explanations)
    return replace(part, explanations=rows)
