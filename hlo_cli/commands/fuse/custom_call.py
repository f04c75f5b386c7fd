"""`hlo fuse DUMP NAME --custom-calls`: a custom call with its buffers and configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hlo_cli.analysis.custom_calls.call import (
    CustomCallBuffer,
    DecodedCall,
    Identifiers,
    attribute_type,
    buffer_type,
    c_signature,
    cpu_place,
    gpu_place,
)
from hlo_cli.analysis.custom_calls.config import ConfigField, describe_library_call
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.origin.origins import origins_of
from hlo_cli.commands.modules.loading import Loaded, input_facts, notes_of
from hlo_cli.ir.attributes.enumerations import CustomCallApiVersion, CustomCallSchedule
from hlo_cli.ir.attributes.value_types import OutputOperandAlias
from hlo_cli.ir.notation import index_suffix, index_text
from hlo_cli.ir.shape import TupleShape
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Cell, Column, Fact, Facts, Row, Table
from hlo_cli.report.text import Passage

_CALLED_BY: Final = {
    CustomCallApiVersion.ORIGINAL: "untyped pointers, no error status",
    CustomCallApiVersion.STATUS_RETURNING: "untyped pointers with a status",
    CustomCallApiVersion.STATUS_RETURNING_UNIFIED: "untyped pointers, opaque config, and status, also on CPU",
    CustomCallApiVersion.TYPED_FFI: "typed FFI, checks types and ranks",
}
_SCHEDULES: Final = {
    CustomCallSchedule.LATEST: "scheduled as late as possible",
    CustomCallSchedule.EARLIEST: "scheduled as early as possible",
}
_DIGITS: Final = 12


def report_of_call(loaded: Loaded, call: DecodedCall, argument: str) -> Report:
    """The report of one decoded custom call."""
    spec, layouts = call.spec, call.spec.operand_layout_constraints
    name = Identifiers().unique_name(spec.target)
    platforms = ("cpu", "gpu") if _passes_pointers(loaded, call) else ()
    return Report(
        "fuse",
        f"{spec.target}: {_answer(loaded, call)}{_describe_unused(call)}",
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
            "output_to_operand_aliasing": tuple(map(_alias, spec.output_to_operand_aliasing)),
            "called_computations": tuple(computation.name for computation in call.instruction.called_computations),
            **{f"{platform}_signature": c_signature(call, name, platform) for platform in platforms},
        },
        parts=tuple(_parts(loaded, call)),
        next=_next(call, argument),
        notes=notes_of(loaded),
        input=input_facts(loaded),
    )


def alias_text(call: DecodedCall) -> str:
    """The outputs that alias operands, and the operands."""
    pairs = call.spec.output_to_operand_aliasing
    return ", ".join(
        f"output {index_text(alias.output_index)} aliases operand {alias.operand_number}"
        + index_suffix(alias.operand_index)
        for alias in pairs
    )


def _alias(alias: OutputOperandAlias) -> Mapping[str, Cell]:
    return {"output": alias.output_index, "operand": alias.operand_number, "operand_index": alias.operand_index}


def _parts(loaded: Loaded, call: DecodedCall) -> Iterator[Part]:
    yield _buffers_table(loaded, call)
    if _passes_pointers(loaded, call) and call.has_nested_tuples:
        yield Passage("tuples", (_TUPLES,))
    yield Facts("call", tuple(_facts(loaded, call)))
    yield _fields_table(call)


_TUPLES: Final = (
    "CPU: the documented calling convention (one pointer table per tuple). CPU thunks: releases that use the thunk "
    "runtime, such as jaxlib 0.10.2, pass all leaves in one flat table."
)


def _passes_pointers(loaded: Loaded, call: DecodedCall) -> bool:
    """Whether the call's function finds its buffers by position in tables of pointers."""
    if call.is_typed or call.target.category not in ("handler", "kernel", "unknown"):
        return False
    return call.target.category != "kernel" or target_of(loaded.module) != "tpu"


def _answer(loaded: Loaded, call: DecodedCall) -> str:
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
    listed = f"buffers[0..{places[-1]}]" if len(places) > 1 else "buffers[0]" if places else "no buffers"
    return f"on GPU {listed}, on CPU (out, ins)"


def _describe_unused(call: DecodedCall) -> str:
    indices = [index_text(buffer.index) for buffer in call.temps]
    if not indices:
        return ""
    if len(indices) == len(call.results):
        return "; result unused"
    listed = ", ".join(indices[:3]) + (f", and {len(indices) - 3:,} more" if len(indices) > 3 else "")
    return f"; result {listed} is temporary" if len(indices) == 1 else f"; results {listed} are temporary"


def _buffers_table(loaded: Loaded, call: DecodedCall) -> Table:
    pointers = _passes_pointers(loaded, call)
    columns = (
        Column("gpu", "GPU", person=pointers),
        Column("ffi", "FFI", person=call.is_typed),
        Column("value", "value", "name"),
        Column("index", "index"),
        Column("shape", "shape", "shape"),
        Column("bytes", "bytes", "bytes", exact=True),
        Column("use", "use"),
        Column("aliases", "aliases", person=any(buffer.alias_of is not None for buffer in call.buffers)),
        Column("cpu", "CPU", person=pointers),
        Column("cpu_thunks", "CPU thunks", person=pointers and call.has_nested_tuples),
        Column("ffi_type", "FFI type", person=call.is_typed, rank=4),
    )
    rows = tuple(_buffer_row(call, buffer) for buffer in call.buffers)
    return Table("buffers", columns, rows, noun="buffers", limit=24)


def _buffer_row(call: DecodedCall, buffer: CustomCallBuffer) -> Row:
    is_tuple = isinstance(call.result, TupleShape)
    typed = call.is_typed
    return (
        None if typed else gpu_place(buffer),
        _ffi_place(buffer) if typed else None,
        call.value(buffer),
        index_text(buffer.index),
        str(buffer.shape),
        buffer.bytes,
        buffer.use,
        None if buffer.alias_of is None else _place_of(call, call.buffers[buffer.alias_of]),
        None if typed else cpu_place(buffer, nested=True, is_tuple=is_tuple),
        None if typed else cpu_place(buffer, nested=False, is_tuple=is_tuple),
        buffer_type(buffer.shape).replace("ffi::", "") if typed and buffer.ffi is not None else None,
    )


def _ffi_place(buffer: CustomCallBuffer) -> str | None:
    if buffer.ffi is None:
        return None
    return f"{'rets' if buffer.operand is None else 'args'}[{buffer.ffi}]"


def _place_of(call: DecodedCall, buffer: CustomCallBuffer) -> str | None:
    """The operand of a buffer, in the form that the table uses."""
    return _ffi_place(buffer) if call.is_typed else call.value(buffer) + index_suffix(buffer.index)


def _facts(loaded: Loaded, call: DecodedCall) -> Iterator[Fact]:
    spec, instruction = call.spec, call.instruction
    yield Fact("call", remark=f"{instruction.name} in {instruction.computation.name}")
    yield Fact("target", remark=call.target.description)
    if call.is_typed or _passes_pointers(loaded, call):
        yield Fact("api", remark=f"{spec.api_version}: {_CALLED_BY[spec.api_version]}")
    yield from (Fact(label, remark=words) for label, words in describe_library_call(instruction))
    yield Fact("config", remark=_describe_config(call))
    for field in call.config.programs:
        yield from _program_facts(field)
    yield Fact("layouts", remark=_describe_layouts(call))
    if spec.output_to_operand_aliasing:
        yield Fact("aliasing", remark=alias_text(call))
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
    held = f", {format_count(len(payload.fields), 'values')}" if payload.fields else ""
    opaque = f": {payload.opaque}" if payload.kind == "text" else ""
    return f"{what}, {format_bytes(payload.bytes)}{held}, sha256 {payload.digest[:_DIGITS]}{opaque}"


def _program_facts(field: ConfigField) -> Iterator[Fact]:
    body = field.program
    if body is None:
        return
    version = "" if body.version is None else f" version {body.version}"
    packed = f", encoded as {body.packing}" if body.packing else ""
    label = field.path.rpartition(".")[2] or "program"
    yield Fact(label, remark=f"{body.kind}{version}, {body.bytes:,} bytes{packed}, sha256 {body.digest[:_DIGITS]}")
    if body.producer:
        yield Fact("producer", remark=body.producer)
    if body.operations:
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
    columns = (
        Column("path", "attribute" if call.is_typed else "config"),
        Column("value", "value"),
        Column("type", "type", person=call.config.attributes is not None),
        Column("ffi_type", "FFI type", person=call.is_typed),
        Column("format", "format", person=False),
        Column("bytes", "bytes", "bytes", person=False),
        Column("sha256", "sha256", person=False),
        Column("version", "version", "count", person=False),
        Column("producer", "producer", person=False),
        Column("operations", "operations", person=False),
    )
    typed = dict(call.config.attributes.entries) if call.config.attributes is not None else {}
    passed = {name: attribute_type(value) or "rejected by XLA" for name, value in typed.items()}
    fields = [field for field in call.config.fields if not field.is_empty]
    rows = tuple(_field_row(field, passed.get(field.path)) for field in fields)
    empty = len(call.config.fields) - len(fields)
    footnote = f"{format_count(empty, 'empty values')} not shown" if empty else ""
    return Table(
        "config_fields", columns, rows, noun="values", main=False, limit=12, person=bool(rows), footnote=footnote
    )


def _next(call: DecodedCall, argument: str) -> tuple[str, ...]:
    if not argument or argument == "-":
        return ()
    name = call.instruction.name
    code = (f"hlo fuse {argument} {name} --c-signature",) if call.target.is_user_defined else ()
    return (*code, f"hlo parse {argument} --explain {name}")


def _field_row(field: ConfigField, passed: str | None) -> Row:
    body = field.program
    value = field.value if body is None else f"{body.bytes:,} bytes"
    row: Row = (field.path, value, field.type or None, passed)
    if body is None:
        return (*row, None, None, None, None, None, None)
    operations = ", ".join(body.operations) or None
    return *row, body.kind, body.bytes, body.digest, body.version, body.producer or None, operations
