"""A module as the bytes of a `HloModuleProto`, which XLA reads as the same module.

Mirrors `HloModule::ToProto` and `HloComputation::ToProto` of xla/hlo/ir. The compiler's configuration has no field
there: whether shardings may propagate, and which parameters pass through.
"""

from __future__ import annotations

from collections.abc import Iterator

from hlo_cli.ir.attributes.metadata import Recovery, RecoveryTable, StackFrames
from hlo_cli.ir.attributes.value_types import ComputationLayout
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Computation
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError, Source
from hlo_cli.syntax.attributes.table import HEADER_ATTRIBUTES
from hlo_cli.syntax.proto.fields import fields_of
from hlo_cli.syntax.proto.message_builder import MessageBuilder
from hlo_cli.syntax.proto.numbers import Numbers, fusion_computations, numbers_of
from hlo_cli.syntax.proto.shapes import shape_draft
from hlo_cli.syntax.proto.wrapped import wrapped_operations
from hlo_cli.syntax.proto.write_attributes import add_header
from hlo_cli.syntax.proto.write_instructions import Writing, instruction_draft
from hlo_cli.syntax.proto.write_shardings import sharding_draft
from hlo_cli.syntax.proto.write_values import original_array_draft
from hlo_cli.syntax.text.parser import parse_module


def module_to_bytes(module: Module) -> bytes:
    """The `HloModuleProto` of a module; HloError for contents that no proto can hold.

    >>> from hlo_cli.syntax.proto.read import read_proto
    >>> text = "HloModule m  ENTRY e { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }"
    >>> print(read_proto(module_to_bytes(parse_module(text)), Source("", "")).entry.root)
    <negate n>
    """
    with no_garbage_collection():
        return _module(module).to_bytes()


def unrepresentable_attributes(module: Module) -> tuple[str, ...]:
    """The header attributes that are not written, as a `HloModuleProto` has no field for them.

    >>> text = "HloModule m, alias_passthrough_params=true  ENTRY e { ROOT p = f32[] parameter(0) }"
    >>> unrepresentable_attributes(parse_module(text))
    ('alias_passthrough_params',)
    """
    rows, fields = HEADER_ATTRIBUTES, fields_of("HloModuleProto")
    return tuple(a.name for a in module.header if a.name not in rows or rows[a.name].path[0] not in fields)


def _module(module: Module) -> MessageBuilder:
    if module.errors:
        raise HloError(f"cannot write a proto: {module.errors[0].message}")
    numbers = numbers_of(module)
    writing = Writing(numbers, wrapped_operations(module))
    entry = numbers.computations[module.entry]
    draft = MessageBuilder("HloModuleProto").add("name", module.name)
    draft.add("entry_computation_name", numbers.names[module.entry]).add("entry_computation_id", entry)
    draft.add("computations", [_computation(computation, writing) for computation in module.computations])
    draft.add("host_program_shape", _host_program_shape(module, numbers))
    if module.is_scheduled:
        draft.add("schedule", MessageBuilder("HloScheduleProto").add("sequences", _sequences(module, numbers)))
    draft.add("device_assignment", _device_assignment(module))
    draft.add("stack_frame_index", _stack_frame_index(module.stack_frames))
    table = module.header_value("origin_recovery_table")
    if isinstance(table, RecoveryTable):
        entries = [_recovery(entry) for entry in table.entries]
        draft.add(
            "original_value_recovery_table", MessageBuilder("OriginalValueRecoveryTableProto").add("entries", entries)
        )
    if module.spmd_output_sharding is not None:
        draft.add("spmd_output_sharding", sharding_draft(module.spmd_output_sharding))
    add_header(draft, module)
    return draft


def _computation(computation: Computation, writing: Writing) -> MessageBuilder:
    if computation.root is None:
        raise HloError(f"{computation.name} has no instructions")
    numbers = writing.numbers
    program = MessageBuilder("ProgramShapeProto").add("parameters", [writing.shape(p) for p in computation.parameters])
    program.add("result", writing.shape(computation.root), always=True)
    program.add("parameter_names", [numbers.names[parameter] for parameter in computation.parameters])
    draft = MessageBuilder("HloComputationProto").add("name", numbers.names[computation])
    draft.add("instructions", [instruction_draft(each, writing) for each in computation.instructions])
    draft.add("program_shape", program)
    draft.add("id", numbers.computations[computation])
    draft.add("root_id", numbers.instructions[computation.root])
    thread = computation.execution_thread
    draft.add("execution_thread", thread if thread != "main" else None)
    return draft.add("backend_config", computation.backend_config)


def _host_program_shape(module: Module, numbers: Numbers) -> MessageBuilder:
    layout = module.header_value("entry_computation_layout")
    if isinstance(layout, ComputationLayout):
        parameters, result = layout.parameters, layout.result
    else:
        assert module.entry.root is not None
        parameters, result = tuple(p.shape for p in module.entry.parameters), module.entry.root.shape
    known = dict(enumerate(numbers.names[parameter] for parameter in module.entry.parameters))
    names = [known.get(index, "") for index in range(len(parameters))]
    draft = MessageBuilder("ProgramShapeProto").add("parameters", map(shape_draft, parameters))
    return draft.add("result", shape_draft(result)).add("parameter_names", names)


def _sequences(module: Module, numbers: Numbers) -> Iterator[MessageBuilder]:
    """The order of every computation except the bodies of fusions, which have none."""
    fused = fusion_computations(module)
    for computation in module.computations:
        if computation not in fused:
            ids = [numbers.instructions[instruction] for instruction in computation.instructions]
            sequence = MessageBuilder("InstructionSequence").add("instruction_ids", ids)
            yield MessageBuilder("SequencesEntry").add("key", numbers.computations[computation]).add("value", sequence)


def _device_assignment(module: Module) -> MessageBuilder | None:
    """The numbers of replicas and partitions, on as many devices in order."""
    replicas, parts = module.replica_count, module.num_partitions
    if replicas * parts < 2:
        return None
    devices = [
        MessageBuilder("ComputationDevice").add(
            "replica_device_ids", [replica * parts + part for replica in range(replicas)]
        )
        for part in range(parts)
    ]
    draft = MessageBuilder("DeviceAssignmentProto").add("replica_count", replicas).add("computation_count", parts)
    return draft.add("computation_devices", devices)


def _stack_frame_index(tables: StackFrames) -> MessageBuilder | None:
    """The four tables; in text, the parents of frames count from 1, where 1 means none."""
    if tables == StackFrames():
        return None
    draft = MessageBuilder("StackFrameIndexProto").add("file_names", tables.file_names)
    draft.add("function_names", tables.function_names)
    locations = []
    for location in tables.file_locations:
        row = MessageBuilder("FileLocation")
        for name in ("file_name_id", "function_name_id", "line", "end_line", "column", "end_column"):
            row.add(name, getattr(location, name))
        locations.append(row)
    draft.add("file_locations", locations)
    frames = [
        MessageBuilder("StackFrame")
        .add("file_location_id", frame.file_location_id)
        .add("parent_frame_id", max(frame.parent_frame_id - 1, 0))
        for frame in tables.frames
    ]
    return draft.add("stack_frames", frames)


def _recovery(entry: Recovery) -> MessageBuilder:
    draft = MessageBuilder("Entry").add("old_original_array", original_array_draft(entry.old))
    draft.add("new_original_array", original_array_draft(entry.new))
    return draft.add("recovery_module", _module(parse_module(Source("", entry.module))) if entry.module else None)
