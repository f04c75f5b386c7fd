"""What does a custom call do? Its target, buffers, and configuration, and C for the called function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.custom_calls.call import (
    CustomCallBuffer,
    DecodedCall,
    Identifiers,
    attribute_type,
    buffer_type,
    c_signature,
    cpu_place,
    custom_calls_of,
    escape_comment,
    gpu_place,
    source_of,
)
from hlo_cli.analysis.custom_calls.config import ConfigField, describe_library_call
from hlo_cli.analysis.custom_calls.targets import Category
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.origin.origins import origins_of
from hlo_cli.commands.modules.instruction_tables import rows_where
from hlo_cli.commands.modules.loading import Loaded, input_facts, notes_of, what_was_read
from hlo_cli.commands.options.io_options import OutputOptions
from hlo_cli.commands.options.writing import print_diagnostics, write
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.enumerations import CustomCallApiVersion, CustomCallSchedule
from hlo_cli.ir.attributes.value_types import OutputOperandAlias
from hlo_cli.ir.instruction import Computation
from hlo_cli.ir.notation import index_suffix, index_text
from hlo_cli.ir.shape import TupleShape
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Cell, Column, Fact, Facts, Table, row_from, rows_from
from hlo_cli.report.text import Passage
from hlo_cli.source import HloError, did_you_mean, nearest

# --- one custom call ---
# `hlo fuse DUMP NAME --custom-calls`: a custom call with its buffers and configuration.


# CustomCallApiVersion of xla/service/hlo.proto; signatures as in xla/service/custom_call_status.h, xla/ffi/api/c_api.h
_CONVENTIONS: Final = {
    CustomCallApiVersion.ORIGINAL: "untyped pointers, no error status",
    CustomCallApiVersion.STATUS_RETURNING: "untyped pointers with a status",
    CustomCallApiVersion.STATUS_RETURNING_UNIFIED: "untyped pointers, opaque config, and status, also on CPU",
    CustomCallApiVersion.TYPED_FFI: "typed FFI, checks types and ranks",
}
# CustomCallSchedule of xla/service/hlo.proto; SCHEDULE_NONE, the default, is not worth a line
_SCHEDULES: Final = {
    CustomCallSchedule.LATEST: "scheduled as late as possible",
    CustomCallSchedule.EARLIEST: "scheduled as early as possible",
}
_DIGEST_DIGITS: Final = 12  # of a sha256: enough to tell the payloads of a module apart


def _report_of_call(loaded: Loaded, call: DecodedCall, argument: str) -> Report:
    """The report of one decoded custom call."""
    spec, layouts = call.spec, call.spec.operand_layout_constraints
    name = Identifiers().unique_name(spec.target)
    platforms = ("cpu", "gpu") if _passes_pointers(loaded, call) else ()
    return Report(
        "fuse",
        f"{spec.target}: {_call_answer(loaded, call)}{_describe_unused(call)}",
        numbers={
            "custom_call": call.instruction.name,
            "target": spec.target,
            "category": call.target.category,
            "api_version": str(spec.api_version),
            "config": call.config.kind,
            "config_bytes": call.config.bytes,
            "config_sha256": call.config.digest or None,
            "operand_buffers": len(call.arguments),
            "result_buffers": len(call.results),
            "read_bytes": sum(buffer.bytes for buffer in call.arguments),
            "result_bytes": sum(buffer.bytes for buffer in call.results),
            "temporary_bytes": sum(buffer.bytes for buffer in call.temps),
            "has_side_effect": spec.has_side_effect,
            "schedule": str(spec.schedule),
            "opaque": call.config.opaque or None,
            "operand_layout_constraints": tuple(map(str, layouts)) if layouts is not None else None,
            "output_to_operand_aliasing": tuple(map(_alias_record, spec.output_to_operand_aliasing)),
            "called_computations": tuple(computation.name for computation in call.instruction.called_computations),
            **{f"{platform}_signature": c_signature(call, name, platform) for platform in platforms},
        },
        parts=tuple(_call_parts(loaded, call)),
        next=_next_of_call(call, argument),
        notes=notes_of(loaded),
        input=input_facts(loaded),
    )


def _alias_text(call: DecodedCall) -> str:
    """The outputs that alias operands, and the operands."""
    pairs = call.spec.output_to_operand_aliasing
    return ", ".join(
        f"output {index_text(alias.output_index)} aliases operand {alias.operand_number}"
        + index_suffix(alias.operand_index)
        for alias in pairs
    )


def _alias_record(alias: OutputOperandAlias) -> Mapping[str, Cell]:
    return {"output": alias.output_index, "operand": alias.operand_number, "operand_index": alias.operand_index}


def _call_parts(loaded: Loaded, call: DecodedCall) -> Iterator[Part]:
    yield _buffers_table(loaded, call)
    if _passes_pointers(loaded, call) and call.has_nested_tuples:
        yield Passage("tuples", (_NESTED_TUPLES,))
    yield Facts("call", tuple(_call_facts(loaded, call)))
    yield _fields_table(call)


_NESTED_TUPLES: Final = (
    "CPU: the documented calling convention (one pointer table per tuple). CPU thunks: releases that use the thunk "
    "runtime, such as jaxlib 0.10.2, pass all leaves in one flat table."
)


def _passes_pointers(loaded: Loaded, call: DecodedCall) -> bool:
    """Whether the call's function finds its buffers by position in tables of pointers."""
    if call.is_typed or call.target.category not in ("handler", "kernel", "unknown"):
        return False
    # a Mosaic kernel of a TPU gets its buffers from the compiler, not from a table of pointers
    return call.target.category != "kernel" or target_of(loaded.module) != "tpu"


def _call_answer(loaded: Loaded, call: DecodedCall) -> str:
    category, words = call.target.category, call.target.description
    if category in ("library", "compiler", "annotation"):
        return words
    if call.is_typed:
        typed = call.config.attributes.entries if call.config.attributes is not None else ()
        counts = (len(call.arguments), "arguments"), (len(call.results), "results"), (len(typed), "attributes")
        return f"typed FFI with {', '.join(format_count(*each) for each in counts if each[0]) or 'no arguments'}"
    if not _passes_pointers(loaded, call):
        bodies = [field.program for field in call.config.programs if field.program is not None]
        size = "".join(f", {format_bytes(body.bytes)} of {body.kind}" for body in bodies[:1])
        return words.partition(",")[0] + size
    places = [buffer.gpu for buffer in call.buffers if buffer.gpu is not None]
    # GPU calls get one flat table of pointers: the operands' leaves, then the results'
    listed = f"buffers[0..{places[-1]}]" if len(places) > 1 else "buffers[0]" if places else "no buffers"
    return f"on GPU {listed}, on CPU (out, ins)"


def _describe_unused(call: DecodedCall) -> str:
    indices = [index_text(buffer.index) for buffer in call.temps]
    if not indices:
        return ""
    # nothing of the result is read, as of a call for its side effects
    if len(indices) == len(call.results):
        return "; result unused"
    listed = ", ".join(indices[:3]) + (f", and {len(indices) - 3:,} more" if len(indices) > 3 else "")
    return f"; result {listed} is temporary" if len(indices) == 1 else f"; results {listed} are temporary"


def _buffers_table(loaded: Loaded, call: DecodedCall) -> Table:
    pointers = _passes_pointers(loaded, call)
    columns: tuple[Column[CustomCallBuffer], ...] = (
        Column("gpu", "GPU", person=pointers, of=lambda buffer: None if call.is_typed else gpu_place(buffer)),
        # the typed FFI numbers arguments and results separately
        Column("ffi", "FFI", person=call.is_typed, of=lambda buffer: _ffi_place(buffer) if call.is_typed else None),
        Column("value", "value", "name", of=lambda buffer: call.value(buffer)),
        Column("index", "index", of=lambda buffer: index_text(buffer.index)),
        Column("shape", "shape", "shape", of=lambda buffer: str(buffer.shape)),
        Column("bytes", "bytes", "bytes", exact=True, of=lambda buffer: buffer.bytes),
        Column("use", "use", of=lambda buffer: buffer.use),
        Column(
            "aliases",
            "aliases",
            person=any(buffer.alias_of is not None for buffer in call.buffers),
            of=lambda buffer: None if buffer.alias_of is None else _place_of(call, call.buffers[buffer.alias_of]),
        ),
        Column(
            "cpu",
            "CPU",
            person=pointers,
            of=lambda buffer: (
                None if call.is_typed else cpu_place(buffer, nested=True, is_tuple=isinstance(call.result, TupleShape))
            ),
        ),
        Column(
            "cpu_thunks",
            "CPU thunks",
            person=pointers and call.has_nested_tuples,
            of=lambda buffer: (
                None if call.is_typed else cpu_place(buffer, nested=False, is_tuple=isinstance(call.result, TupleShape))
            ),
        ),
        Column(
            "ffi_type",
            "FFI type",
            person=call.is_typed,
            rank=4,
            of=lambda buffer: (
                buffer_type(buffer.shape).replace("ffi::", "") if call.is_typed and buffer.ffi is not None else None
            ),
        ),
    )
    rows = rows_from(columns, call.buffers)
    return Table("buffers", columns, rows, noun="buffers", limit=24)


def _ffi_place(buffer: CustomCallBuffer) -> str | None:
    if buffer.ffi is None:
        return None
    return f"{'rets' if buffer.operand is None else 'args'}[{buffer.ffi}]"


def _place_of(call: DecodedCall, buffer: CustomCallBuffer) -> str | None:
    """The operand of a buffer, in the form that the table uses."""
    return _ffi_place(buffer) if call.is_typed else call.value(buffer) + index_suffix(buffer.index)


def _call_facts(loaded: Loaded, call: DecodedCall) -> Iterator[Fact]:
    spec, instruction = call.spec, call.instruction
    yield Fact("call", remark=f"{instruction.name} in {instruction.computation.name}")
    yield Fact("target", remark=call.target.description)
    if call.is_typed or _passes_pointers(loaded, call):
        yield Fact("api", remark=f"{spec.api_version}: {_CONVENTIONS[spec.api_version]}")
    yield from (Fact(label, remark=words) for label, words in describe_library_call(instruction))
    yield Fact("config", remark=_describe_config(call))
    for field in call.config.programs:
        yield from _program_facts(field)
    yield Fact("layouts", remark=_describe_layouts(call))
    if spec.output_to_operand_aliasing:
        yield Fact("aliasing", remark=_alias_text(call))
    if spec.has_side_effect:
        yield Fact("side effects", remark="has side effects: kept even if unused")
    if (when := _SCHEDULES.get(spec.schedule)) is not None:
        yield Fact("schedule", remark=when)
    if instruction.called_computations:
        yield Fact("calls", remark=", ".join(computation.name for computation in instruction.called_computations))
    origin = origins_of(loaded.module).own(instruction)
    yield from (
        Fact(label, remark=words) for label, words in (("from", origin.op_name), ("source", origin.source)) if words
    )


def _describe_config(call: DecodedCall) -> str:
    payload = call.config
    if payload.kind == "none":
        return "empty" if payload.bytes else "none"
    what = "opaque" if payload.kind in ("text", "bytes") else payload.kind
    values = f", {format_count(len(payload.fields), 'values')}" if payload.fields else ""
    opaque = f": {payload.opaque}" if payload.kind == "text" else ""
    return f"{what}, {format_bytes(payload.bytes)}{values}, sha256 {payload.digest[:_DIGEST_DIGITS]}{opaque}"


def _program_facts(field: ConfigField) -> Iterator[Fact]:
    body = field.program
    if body is None:
        return
    version = "" if body.version is None else f" version {body.version}"
    packed = f", encoded as {body.packing}" if body.packing else ""
    label = field.path.rpartition(".")[2] or "program"
    yield Fact(
        label, remark=f"{body.kind}{version}, {body.bytes:,} bytes{packed}, sha256 {body.digest[:_DIGEST_DIGITS]}"
    )
    if body.producer:
        yield Fact("producer", remark=body.producer)
    if body.operations:
        # the dialect and the operation; what precedes them is the module of the file
        short = dict.fromkeys(".".join(operation.split(".")[-2:]) for operation in body.operations)
        yield Fact("operations", remark=", ".join(short))


def _describe_layouts(call: DecodedCall) -> str:
    if call.spec.operand_layout_constraints is None:
        return "unconstrained"
    if not call.layout_changes:
        return "constrained; operands match"
    changes = [f"operand {n} must be {want}, but is {there}" for n, want, there in call.layout_changes]
    return f"constrained: {'; '.join(changes)}"


def _fields_table(call: DecodedCall) -> Table:
    typed = dict(call.config.attributes.entries) if call.config.attributes is not None else {}
    passed = {name: attribute_type(value) or "rejected by XLA" for name, value in typed.items()}
    columns: tuple[Column[ConfigField], ...] = (
        Column("path", "attribute" if call.is_typed else "config", of=lambda field: field.path),
        Column("value", "value",
               of=lambda field: field.value if field.program is None else f"{field.program.bytes:,} bytes"),
        Column("type", "type", person=call.config.attributes is not None, of=lambda field: field.type or None),
        Column("ffi_type", "FFI type", person=call.is_typed, of=lambda field: passed.get(field.path)),
        Column("format", "format", person=False, of=lambda field: field.program.kind if field.program else None),
        Column("bytes", "bytes", "bytes", person=False,
               of=lambda field: field.program.bytes if field.program else None),
        Column("sha256", "sha256", person=False, of=lambda field: field.program.digest if field.program else None),
        Column("version", "version", "count", person=False,
               of=lambda field: field.program.version if field.program else None),
        Column("producer", "producer", person=False,
               of=lambda field: field.program.producer or None if field.program else None),
        Column("operations", "operations", person=False,
               of=lambda field: ", ".join(field.program.operations) or None if field.program else None),
    )  # fmt: skip
    fields = [field for field in call.config.fields if not field.is_empty]
    rows = rows_from(columns, fields)
    empty = len(call.config.fields) - len(fields)
    footnote = f"{format_count(empty, 'empty values')} not shown" if empty else ""
    return Table(
        "config_fields", columns, rows, noun="values", main=False, limit=12, person=bool(rows), footnote=footnote
    )


def _next_of_call(call: DecodedCall, argument: str) -> tuple[str, ...]:
    if not argument or argument == "-":
        return ()
    name = call.instruction.name
    code = (f"hlo fuse {argument} {name} --c-signature",) if call.target.is_user_defined else ()
    return (*code, f"hlo parse {argument} --explain {name}")


# --- every custom call ---
# `hlo fuse DUMP --custom-calls`: every custom call, its target, and its arguments; C for the called functions.


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
    calls = _calls_within(custom_calls_of(loaded.module), within)
    if name is not None:
        return _report_of_call(loaded, _call_named(loaded, calls, name), argument)
    # a table of one row says less than the call itself
    if len(calls) == 1 and where is None:
        return _report_of_call(loaded, calls[0], argument)
    everything = _calls_table(loaded, calls)
    table = everything if where is None else rows_where(where, everything)
    categories = Counter(call.target.category for call in calls)
    return Report(
        "fuse",
        _calls_answer(loaded, calls, categories),
        numbers={
            "custom_calls": len(calls),
            "targets": len({call.spec.target for call in calls}),
            **{f"{category}_calls": categories[category] for category in _CATEGORIES},
            "temporary_bytes": sum(buffer.bytes for call in calls for buffer in call.temps),
        },
        parts=_calls_parts(loaded, calls, table, everything),
        next=_next_of_calls(calls, argument),
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

    calls = _calls_within(custom_calls_of(loaded.module), within)
    chosen = calls if name is None else (_call_named(loaded, calls, name),)
    lines = source_of(chosen) if chosen else (f"/* {escape_comment(loaded.module.name)} has no custom calls. */",)
    write((f"{line}\n" for line in lines), output.path)
    return print_diagnostics(notes_of(loaded), loaded.module.errors, output, read=what_was_read(loaded.module))


def _calls_within(calls: tuple[DecodedCall, ...], within: Computation | None) -> tuple[DecodedCall, ...]:
    return tuple(call for call in calls if within is None or call.instruction.computation is within)


def _call_named(loaded: Loaded, calls: Sequence[DecodedCall], name: str) -> DecodedCall:
    """The call of this name, or the first one with this target."""
    bare = name.removeprefix("%")
    for call in calls:
        if call.instruction.name == bare:
            return call
    for call in calls:
        if call.spec.target == name:
            return call
    names = [call.instruction.name for call in calls]
    # an instruction that is no custom call is another mistake than a name that nothing has
    is_there = any(instruction.name == bare for instruction in loaded.module.instructions)
    what = f"{bare} is not a custom call" if is_there else f"custom call '{bare}' not found in {loaded.module.name}"
    close = None if is_there else nearest(bare, names)
    listed = f"available: {', '.join(dict.fromkeys(names[:5]))}" + (", …" if len(names) > 5 else "") if names else None
    raise HloError(what, hint=did_you_mean(close) or listed)


def _calls_answer(loaded: Loaded, calls: Sequence[DecodedCall], categories: Counter[Category]) -> str:
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


def _calls_parts(loaded: Loaded, calls: Sequence[DecodedCall], table: Table, everything: Table) -> tuple[Part, ...]:
    if not everything.rows:
        compiled = "The module is scheduled, and the compiler inserted no custom calls."
        before = "Compilers insert library calls later, during optimization."
        return Passage("nothing", (compiled if loaded.module.is_scheduled else before,)), table
    if not table.rows:
        return Passage("nothing", (f"No matches among {format_count(len(everything.rows), 'custom calls')}.",)), table
    targets = _targets_table(calls)
    # the sums come first where they are fewer; ten calls then show what they are
    return (targets, replace(table, limit=10)) if targets.person else (table, targets)


def _targets_table(calls: Sequence[DecodedCall]) -> Table:
    groups: dict[tuple[str, str], list[DecodedCall]] = {}
    for call in calls:
        groups.setdefault((call.spec.target, call.spec.api_version), []).append(call)
    columns: tuple[Column[_Target], ...] = (
        Column("calls", "calls", "count", total="sum", of=lambda target: len(target.calls)),
        Column("read_bytes", "read", "bytes", total="sum", rank=2, of=lambda target: target.sizes[0]),
        Column("written_bytes", "written", "bytes", total="sum", rank=2, of=lambda target: target.sizes[1]),
        Column("temporary_bytes", "temp", "bytes", total="sum", rank=2, person=any(call.temps for call in calls),
               of=lambda target: target.sizes[2]),
        Column("target", "target", "name", role="name", of=lambda target: target.name),
        Column("api_version", "api", person=False, of=lambda target: target.api),
        Column("category", "category", person=False, of=lambda target: target.calls[0].target.category),
        Column("description", "description", of=lambda target: target.calls[0].target.description),
    )  # fmt: skip
    targets = [
        _Target(name, api, members, tuple(map(sum, zip(*map(_sizes, members), strict=True))))
        for (name, api), members in groups.items()
    ]
    # calls of one target often tie; the text of the row makes the order that of no dictionary
    targets.sort(key=lambda target: (-len(target.calls), str(row_from(columns, target))))
    several = len(targets) > 1 and len(calls) > len(targets)
    return Table("targets", columns, rows_from(columns, targets), noun="targets", main=False, person=several)


@dataclass(frozen=True, slots=True)
class _Target:
    """The calls of a target, and the sums of their sizes as `_sizes` has them."""

    name: str
    api: str
    calls: Sequence[DecodedCall]
    sizes: tuple[int, ...]


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
    origins = origins_of(loaded.module)
    columns: tuple[Column[DecodedCall], ...] = (
        Column("instruction", "custom call", "name", role="name", of=lambda call: call.instruction.name),
        Column("target", "target", of=lambda call: call.spec.target),
        Column("category", "category", person=False, of=lambda call: call.target.category),
        Column("description", "description", rank=1, of=lambda call: call.target.description),
        Column("api_version", "api", person=not plain, rank=5,
               of=lambda call: call.spec.api_version.removeprefix("API_VERSION_")),
        Column("config", "config", rank=4, of=lambda call: call.config.kind),
        Column("config_bytes", "config", "bytes", person=False, of=lambda call: call.config.bytes),
        Column("config_sha256", "sha256", person=False, of=lambda call: call.config.digest or None),
        Column("embedded_programs", "programs", "count", person=False, of=lambda call: len(call.config.programs)),
        Column("operand_buffers", "inputs", "count", of=lambda call: len(call.arguments)),
        Column("result_buffers", "outputs", "count", of=lambda call: len(call.results)),
        Column("read_bytes", "read", "bytes", total="sum", of=lambda call: _sizes(call)[0]),
        Column("written_bytes", "written", "bytes", total="sum", of=lambda call: _sizes(call)[1]),
        Column("temporary_bytes", "temp", "bytes", total="sum", person=any(call.temps for call in calls),
               of=lambda call: _sizes(call)[2]),
        Column("has_side_effect", "side effects", "flag", person=any(call.spec.has_side_effect for call in calls),
               rank=2,
               of=lambda call: call.spec.has_side_effect),
        Column("aliasing", "aliasing", person=False, of=lambda call: _alias_text(call) or None),
        Column("schedule", "schedule", person=False, of=lambda call: call.spec.schedule.removeprefix("SCHEDULE_")),
        Column("has_layout_constraints", "layout constraints", "flag", person=False,
               of=lambda call: call.spec.operand_layout_constraints is not None),
        Column("called_computations", "calls", person=False,
               of=lambda call: (
                   ", ".join(computation.name for computation in call.instruction.called_computations) or None)),
        Column("shape", "shape", "shape", from_width=200, of=lambda call: str(call.instruction.shape)),
        Column("computation", "computation", "name", person=False, of=lambda call: call.instruction.computation.name),
        Column("op_name", "op_name", "op_name", from_width=120, rank=2,
               of=lambda call: origins.own(call.instruction).op_name or None),
        Column("source", "source", "source", from_width=120, rank=4,
               of=lambda call: origins.own(call.instruction).source or None),
    )  # fmt: skip
    return Table("custom_calls", columns, rows_from(columns, calls), noun="custom calls")


def _next_of_calls(calls: Sequence[DecodedCall], argument: str) -> tuple[str, ...]:
    if not argument or argument == "-" or not calls:
        return ()
    # the code of the program's own target is what its author can look into
    first = next((call for call in calls if call.target.is_user_defined), max(calls, key=lambda call: _sizes(call)[:2]))
    code = (f"hlo fuse {argument} --c-signature",) if first.target.is_user_defined else ()
    return (f"hlo fuse {argument} {first.instruction.name} --custom-calls", *code)
