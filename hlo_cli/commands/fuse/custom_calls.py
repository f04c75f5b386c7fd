"""`hlo fuse DUMP --custom-calls`: every custom call, its target, and its arguments; C for the called functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.custom_calls.call import DecodedCall, custom_calls_of
from hlo_cli.analysis.custom_calls.targets import Category
from hlo_cli.analysis.origin.origins import Origins, origins_of
from hlo_cli.commands.fuse.custom_call import alias_text, report_of_call
from hlo_cli.commands.modules.loading import Loaded, input_facts, notes_of, what_was_read
from hlo_cli.commands.options.filters import rows_where
from hlo_cli.commands.options.io_options import OutputOptions
from hlo_cli.commands.options.writing import print_diagnostics, write
from hlo_cli.ir.attributes.enumerations import CustomCallApiVersion
from hlo_cli.ir.instruction import Computation
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Column, Row, Table
from hlo_cli.report.text import Passage
from hlo_cli.source import HloError, did_you_mean, nearest

_CATEGORIES: Final[dict[Category, tuple[str, str]]] = {
    "library": ("library call", "library calls"),
    "kernel": ("custom kernel", "custom kernels"),
    "handler": ("registered handler", "registered handlers"),
    "compiler": ("compiler intrinsic", "compiler intrinsics"),
    "annotation": ("annotation", "annotations"),
    "unknown": ("unknown target", "unknown targets"),
}


def report_of_custom_calls(
    loaded: Loaded, *, name: str | None, within: Computation | None, where: str | None, argument: str
) -> Report:
    """The call of this name, or the only one; otherwise every call, with totals by target."""
    calls = _within(custom_calls_of(loaded.module), within)
    if name is not None:
        return report_of_call(loaded, _named(loaded, calls, name), argument)
    if len(calls) == 1 and where is None:
        return report_of_call(loaded, calls[0], argument)
    everything = _calls_table(loaded, calls)
    table = everything if where is None else rows_where(where, everything)
    categories = Counter(call.target.category for call in calls)
    return Report(
        "fuse",
        _answer(loaded, calls, categories),
        numbers={
            "custom_calls": len(calls),
            "targets": len({call.spec.target for call in calls}),
            **{f"{category}_calls": categories[category] for category in _CATEGORIES},
            "temporary_bytes": sum(buffer.bytes for call in calls for buffer in call.temps),
        },
        parts=_parts(loaded, calls, table, everything),
        next=_next(calls, argument),
        notes=notes_of(loaded),
        input=input_facts(loaded),
    )


def write_c(loaded: Loaded, output: OutputOptions, *, name: str | None, within: Computation | None) -> int:
    """Writes C for the functions of all custom calls, or of one call."""
    tabular = {
        "--format": output.format not in ("table", "screen"),
        "--columns": bool(output.columns),
        "--sort": bool(output.sort),
        "--top": output.top is not None,
    }
    if option := next((option for option, given in tabular.items() if given), None):
        raise HloError(f"{option} cannot be used with --c-signature", hint=f"remove {option}; --c-signature prints C")
    from hlo_cli.analysis.custom_calls.call import escape_comment, source_of

    calls = _within(custom_calls_of(loaded.module), within)
    chosen = calls if name is None else (_named(loaded, calls, name),)
    lines = source_of(chosen) if chosen else (f"/* {escape_comment(loaded.module.name)} has no custom calls. */",)
    write((f"{line}\n" for line in lines), output.path)
    return print_diagnostics(notes_of(loaded), loaded.module.errors, output, read=what_was_read(loaded.module))


def _within(calls: tuple[DecodedCall, ...], within: Computation | None) -> tuple[DecodedCall, ...]:
    return tuple(call for call in calls if within is None or call.instruction.computation is within)


def _named(loaded: Loaded, calls: Sequence[DecodedCall], name: str) -> DecodedCall:
    """The call of this name, or the first one with this target."""
    bare = name.removeprefix("%")
    for call in calls:
        if call.instruction.name == bare:
            return call
    for call in calls:
        if call.spec.target == name:
            return call
    names = [call.instruction.name for call in calls]
    is_there = any(instruction.name == bare for instruction in loaded.module.instructions)
    what = f"{bare} is not a custom call" if is_there else f"custom call '{bare}' not found in {loaded.module.name}"
    close = None if is_there else nearest(bare, names)
    listed = f"available: {', '.join(dict.fromkeys(names[:5]))}" + (", …" if len(names) > 5 else "") if names else None
    raise HloError(what, hint=did_you_mean(close) or listed)


def _answer(loaded: Loaded, calls: Sequence[DecodedCall], categories: Counter[Category]) -> str:
    if not calls:
        return f"No custom calls in {format_count(loaded.module.instruction_count, 'instructions')}"
    kinds = [
        f"{categories[category]:,} {words[categories[category] > 1]}"
        for category, words in _CATEGORIES.items()
        if categories[category]
    ]
    targets = {call.spec.target for call in calls}
    if len(targets) == 1:
        return f"{format_count(len(calls), 'custom calls')} to {calls[0].spec.target} ({calls[0].target.description})"
    return f"{format_count(len(calls), 'custom calls')} to {format_count(len(targets), 'targets')}: {', '.join(kinds)}"


def _parts(loaded: Loaded, calls: Sequence[DecodedCall], table: Table, everything: Table) -> tuple[Part, ...]:
    if not everything.rows:
        compiled = "The module is scheduled, and the compiler inserted no custom calls."
        before = "Compilers insert library calls later, during optimization."
        return Passage("nothing", (compiled if loaded.module.is_scheduled else before,)), table
    if not table.rows:
        return Passage("nothing", (f"No matches among {format_count(len(everything.rows), 'custom calls')}.",)), table
    targets = _targets_table(calls)
    return (targets, replace(table, limit=10)) if targets.person else (table, targets)


def _targets_table(calls: Sequence[DecodedCall]) -> Table:
    groups: dict[tuple[str, str], list[DecodedCall]] = {}
    for call in calls:
        groups.setdefault((call.spec.target, call.spec.api_version), []).append(call)
    columns = (
        Column("calls", "calls", "count", total="sum"),
        Column("read_bytes", "read", "bytes", total="sum", rank=2),
        Column("written_bytes", "written", "bytes", total="sum", rank=2),
        Column("temporary_bytes", "temp", "bytes", total="sum", rank=2, person=any(call.temps for call in calls)),
        Column("target", "target", "name", role="name"),
        Column("api_version", "api", person=False),
        Column("category", "category", person=False),
        Column("description", "description"),
    )
    rows = sorted((_target_row(*key, each) for key, each in groups.items()), key=lambda row: (-_int(row[0]), str(row)))
    several = len(rows) > 1 and len(calls) > len(rows)
    return Table("targets", columns, tuple(rows), noun="targets", main=False, person=several)


def _target_row(target: str, api: str, calls: Sequence[DecodedCall]) -> Row:
    known = calls[0].target
    sums = [sum(each) for each in zip(*map(_sizes, calls), strict=True)]
    return len(calls), *sums, target, api, known.category, known.description


def _sizes(call: DecodedCall) -> tuple[int, int, int]:
    """Bytes of the operands, of the results that are used, and of those that are not."""
    read = written = temp = 0
    for buffer in call.buffers:
        if buffer.operand is not None:
            read += buffer.bytes
        elif buffer.use == "temp":
            temp += buffer.bytes
        else:
            written += buffer.bytes
    return read, written, temp


def _calls_table(loaded: Loaded, calls: Sequence[DecodedCall]) -> Table:
    plain = all(call.spec.api_version is CustomCallApiVersion.ORIGINAL for call in calls)
    columns = (
        Column("instruction", "custom call", "name", role="name"),
        Column("target", "target"),
        Column("category", "category", person=False),
        Column("description", "description", rank=1),
        Column("api_version", "api", person=not plain, rank=5),
        Column("config", "config", rank=4),
        Column("config_bytes", "config", "bytes", person=False),
        Column("config_sha256", "sha256", person=False),
        Column("embedded_programs", "programs", "count", person=False),
        Column("operand_buffers", "inputs", "count"),
        Column("result_buffers", "outputs", "count"),
        Column("read_bytes", "read", "bytes", total="sum"),
        Column("written_bytes", "written", "bytes", total="sum"),
        Column("temporary_bytes", "temp", "bytes", total="sum", person=any(call.temps for call in calls)),
        Column(
            "has_side_effect", "side effects", "flag", person=any(call.spec.has_side_effect for call in calls), rank=2
        ),
        Column("aliasing", "aliasing", person=False),
        Column("schedule", "schedule", person=False),
        Column("has_layout_constraints", "layout constraints", "flag", person=False),
        Column("called_computations", "calls", person=False),
        Column("shape", "shape", "shape", from_width=200),
        Column("computation", "computation", "name", person=False),
        Column("op_name", "op_name", "op_name", from_width=120, rank=2),
        Column("source", "source", "source", from_width=120, rank=4),
    )
    origins = origins_of(loaded.module)
    return Table("custom_calls", columns, tuple(_call_row(call, origins) for call in calls), noun="custom calls")


def _call_row(call: DecodedCall, origins: Origins) -> Row:
    spec, instruction = call.spec, call.instruction
    origin = origins.own(instruction)
    return (
        instruction.name,
        spec.target,
        call.target.category,
        call.target.description,
        spec.api_version.removeprefix("API_VERSION_"),
        call.config.kind,
        call.config.bytes,
        call.config.digest or None,
        len(call.config.programs),
        len(call.arguments),
        len(call.results),
        *_sizes(call),
        spec.has_side_effect,
        alias_text(call) or None,
        spec.schedule.removeprefix("SCHEDULE_"),
        spec.operand_layout_constraints is not None,
        ", ".join(computation.name for computation in instruction.called_computations) or None,
        str(instruction.shape),
        instruction.computation.name,
        origin.op_name or None,
        origin.source or None,
    )


def _next(calls: Sequence[DecodedCall], argument: str) -> tuple[str, ...]:
    if not argument or argument == "-" or not calls:
        return ()
    first = next((call for call in calls if call.target.is_user_defined), max(calls, key=lambda call: _sizes(call)[:2]))
    code = (f"hlo fuse {argument} --c-signature",) if first.target.is_user_defined else ()
    return (f"hlo fuse {argument} {first.instruction.name} --custom-calls", *code)


def _int(cell: object) -> int:
    return cell if isinstance(cell, int) else 0
