"""A module in a proto. Mirrors `HloModule::CreateFromProto` and `HloModule::Print` of xla/hlo/ir/hlo_module.cc.

The compiler's configuration is not part of a `HloModuleProto`: whether shardings may propagate, and which parameters
pass through.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from textwrap import indent
from typing import Final

from hlo_cli.ir.attributes.metadata import Recovery, RecoveryTable
from hlo_cli.ir.attributes.value_types import AttributeValue, ComputationLayout, value_text
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Attribute
from hlo_cli.ir.module import Findings, Module
from hlo_cli.ir.notation import quoted
from hlo_cli.ir.operations import takes
from hlo_cli.source import Diagnostic, HloError, Source
from hlo_cli.syntax.attributes.row import Kind
from hlo_cli.syntax.attributes.table import HEADER_ATTRIBUTES
from hlo_cli.syntax.opaque import Opaque, set_aside
from hlo_cli.syntax.proto.attributes import reader_of
from hlo_cli.syntax.proto.computations import Builder, Schedule, link_calls, name_of, print_order
from hlo_cli.syntax.proto.fields import fields_of
from hlo_cli.syntax.proto.message import Message
from hlo_cli.syntax.proto.shapes import ShapeReader
from hlo_cli.syntax.proto.shardings import sharding_of
from hlo_cli.syntax.proto.text_cache import Texts
from hlo_cli.syntax.proto.values import original_array_of
from hlo_cli.syntax.proto.wire import bytes_in, number_in, packed_field, read_fields, read_numbers
from hlo_cli.syntax.scanning.shapes import MAX_NESTING
from hlo_cli.syntax.values.header import Header, parse_stack_tables, typed_header_value

_KEY, _SEQUENCE = (fields_of("SequencesEntry")[name].number for name in ("key", "value"))
_OUTPUT: Final = "spmd_output_sharding"
_IDS: Final = fields_of("InstructionSequence")["instruction_ids"].number


def module_of(
    message: Message, source: Source, file: bytes = b"", depth: int = 0, *, is_partial: bool = False
) -> Module:
    """The module in a `HloModuleProto`; HloError if there is none, or if it is inconsistent.

    `file` is the complete input, for locating errors. If the message `is_partial`, instructions may call computations
    that are not in it.
    """
    if depth > MAX_NESTING:
        raise HloError(f"modules are nested too deeply (limit {MAX_NESTING})")
    builder = Builder(_schedule(message), _entry(message), texts=Texts(file))
    with no_garbage_collection():
        built = {each.id: each for each in map(builder.build, message.all_data("computations"))}
        incomplete = link_calls(built, is_partial=is_partial)
        computations = print_order(built)
    callers = [c.instruction for each in built.values() for c in each.callers if c.instruction not in incomplete]
    suspects = (i for i in builder.suspects if i not in incomplete or not takes(i.opcode, len(i.operands)))
    opaque = set_aside(suspects, callers, computations)
    if not any(computation.instructions for computation in computations):
        raise HloError("no instructions found in the proto")
    entry = next((each for each in computations if each.is_entry), computations[-1])
    entry.is_entry = True
    name = name_of(message.data("name"))
    header = Header(
        name, tuple(_header(message, builder.shapes, depth)), _stack_tables(message.message("stack_frame_index"))
    )
    return Module(
        name,
        computations,
        entry,
        source,
        header.attributes,
        header.is_scheduled,
        header.stack_tables,
        parse_stack_tables,
        check=partial(_findings, opaque),
        read_header_value=typed_header_value,
        spmd_output_sharding=sharding_of(message.message(_OUTPUT)) if message.has(_OUTPUT) else None,
        value_order=tuple([each.computation for each in built.values()]),
    )


def _findings(opaque: Sequence[Opaque], module: Module) -> Findings:
    """A note for each opaque instruction; nothing in a proto has a span."""
    notes = (Diagnostic("note", each.message, module.source, code=each.problem.code) for each in opaque)
    return Findings(notes=tuple(notes))


def _entry(module: Message) -> int:
    if module.has("entry_computation_id"):
        return module.integer("entry_computation_id")
    name = module.text("entry_computation_name")
    named = (c for c in module.messages("computations") if c.text("name") == name)
    return next((c.integer("id") for c in named), 0)


def _schedule(module: Message) -> Schedule:
    schedule = {}
    for sequence in module.message("schedule").all_data("sequences"):
        found = dict(read_fields(sequence))
        listed = read_fields(bytes_in(found, _SEQUENCE))
        schedule[number_in(found, _KEY)] = read_numbers(packed_field(listed, _IDS))
    return schedule


def _header(module: Message, shapes: ShapeReader, depth: int) -> Iterator[Attribute]:
    """The header attributes, in the order of their rows; layouts share the shapes of the instructions."""
    for row in HEADER_ATTRIBUTES.values():
        match row.kind:
            case _ if row.path[0] not in fields_of(module.kind):
                continue
            case Kind.COMPUTATION_LAYOUT:
                value: AttributeValue | None = _entry_layout(module, row.path[0], shapes)
            case Kind.RECOVERY_TABLE:
                entries = module.message(row.path[0]).messages(row.path[1])
                value = RecoveryTable(tuple([_recovery(entry, depth + 1) for entry in entries])) if entries else None
            case _:
                value = reader_of(row, module.kind)(module, None)
        if value is not None:
            yield Attribute(row.name, value_text(value))


def _entry_layout(module: Message, field: str, shapes: ShapeReader) -> ComputationLayout | None:
    if not module.has(field):
        return None
    program = module.message(field)
    return ComputationLayout(
        tuple([shapes[data] for data in program.all_data("parameters")]), shapes[program.data("result")]
    )


def _recovery(entry: Message, depth: int) -> Recovery:
    inner = entry.message("recovery_module")
    return Recovery(
        original_array_of(entry.message("old_original_array")),
        original_array_of(entry.message("new_original_array")),
        _indented(str(module_of(inner, Source("", ""), depth=depth))) if inner.numbers else "",
    )


def _indented(text: str) -> str:
    """A module indented for the recovery table of another."""
    return "\n" + indent(text, "    ") + "  "


def _stack_tables(index: Message) -> str:
    """The four tables as XLA prints them, where a frame's parent counts from 1, and 1 means none."""
    if not index.numbers:
        return ""
    rows = {
        "FileNames": map(quoted, index.texts("file_names")),
        "FunctionNames": map(quoted, index.texts("function_names")),
        "FileLocations": map(_file_location, index.messages("file_locations")),
        "StackFrames": map(_stack_frame, index.messages("stack_frames")),
    }
    return "\n".join(
        f"{section}\n" + "".join(f"{number} {row}\n" for number, row in enumerate(listed, 1))
        for section, listed in rows.items()
    ).strip()


def _file_location(location: Message) -> str:
    fields = ("file_name_id", "function_name_id", "line", "end_line", "column", "end_column")
    return "{" + " ".join(f"{name}={location.integer(name)}" for name in fields) + "}"


def _stack_frame(frame: Message) -> str:
    parent = frame.integer("parent_frame_id") + 1
    return f"{{file_location_id={frame.integer('file_location_id')} parent_frame_id={parent}}}"
