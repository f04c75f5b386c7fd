"""Which buffer assignment is next to a module in a `HloProto`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from hlo_cli.ir.buffer_assignment import (
    AssignedBuffer,
    BufferAllocation,
    BufferAssignment,
    BufferPlace,
    EventKind,
    HeapEvent,
    HeapSimulatorTrace,
    LogicalBuffer,
)
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.syntax.proto.messages import Message, fields_of, word_of
from hlo_cli.wire import bytes_in, number_in, read_fields, signed


def _numbers_of(message: str, *names: str) -> tuple[int, ...]:
    return tuple(fields_of(message)[name].number for name in names)


# Numbers of the fields of messages that are read by the thousand.
_BUFFER: Final = _numbers_of("LogicalBufferProto", "id", "size", "color")
_ASSIGNED: Final = _numbers_of("Assigned", "logical_buffer_id", "offset", "size")
_EVENT: Final = _numbers_of("Event", "kind", "buffer_id", "share_with_canonical_id")
_EVENT_NAMES: Final = _numbers_of("Event", "computation_name", "instruction_name")
(_DEFINED_AT,) = _numbers_of("LogicalBufferProto", "defined_at")
(_ASSIGNMENT,) = _numbers_of("HloProto", "buffer_assignment")
_NOWHERE: Final = BufferPlace(None)


@no_garbage_collection()
def buffer_assignment_of(data: bytes, module: Module | None) -> BufferAssignment:
    """The assignment in a `BufferAssignmentProto`, for the module read from the same proto; else without places."""
    message = Message("BufferAssignmentProto", data)
    places = _Places(module)
    return BufferAssignment(
        tuple(_logical_buffer(dict(read_fields(data)), places) for data in message.all_data("logical_buffers")),
        tuple(map(_allocation, message.messages("buffer_allocations"))),
        ()
        if module is None
        else tuple(
            (alias.integer("source_buffer_id"), places.of(alias.data("location")))
            for alias in message.messages("buffer_aliases")
        ),
        tuple(map(_trace, message.messages("heap_simulator_traces"))),
    )


def assignment_in(data: bytes) -> BufferAssignment | None:
    """The assignment in a `HloProto`, without the places of its values, which need the module; None without one.

    >>> assignment_in(b"") is None, assignment_in(bytes((0x1A, 2, 0x1A, 0))).allocations[0].size_bytes
    (True, 0)
    """
    assignment = bytes_in(dict(read_fields(data)), _ASSIGNMENT)
    return buffer_assignment_of(assignment, None) if assignment else None


class _Places:
    """Finds instructions by the number in the proto, or by name, as in older protos."""

    def __init__(self, module: Module | None) -> None:
        self._is_empty = module is None
        self._by_number = _numbered(module) if module is not None else {}
        self._by_name = (
            {instruction.name: instruction for instruction in module.instructions} if module is not None else {}
        )

    def of(self, location: bytes) -> BufferPlace:
        """The place that a `LogicalBufferProto.Location` names."""
        if self._is_empty:
            return _NOWHERE
        message = Message("Location", location)
        name, number = message.text("instruction_name"), message.integer("instruction_id")
        instruction = self._by_name.get(name) if name else self._by_number.get(number)
        return BufferPlace(instruction, message.integers("shape_index"))


def _numbered(module: Module) -> Mapping[int, Instruction]:
    """The instructions of all computations by number, which is unique in a module."""
    from hlo_cli.syntax.proto.read_attributes import ProtoReader  # imports many modules that traces alone do not need

    by_number: dict[int, Instruction] = {}
    for computation in module.computations:
        if isinstance(computation.reader, ProtoReader):
            by_number.update(computation.reader.by_number)
    return by_number


def _logical_buffer(fields: dict[int, int | bytes], places: _Places) -> LogicalBuffer:
    id_, size, color = (signed(number_in(fields, number)) for number in _BUFFER)
    return LogicalBuffer(id_, size, color, places.of(bytes_in(fields, _DEFINED_AT)))


def _assigned(fields: dict[int, int | bytes]) -> AssignedBuffer:
    id_, offset, size = (signed(number_in(fields, number)) for number in _ASSIGNED)
    return AssignedBuffer(id_, offset, size)


def _allocation(message: Message) -> BufferAllocation:
    is_parameter = message.flag("is_entry_computation_parameter")
    return BufferAllocation(
        message.integer("index"),
        message.integer("size"),
        message.integer("color"),
        tuple(_assigned(dict(read_fields(data))) for data in message.all_data("assigned")),
        message.integer("parameter_number") if is_parameter else None,
        message.integers("parameter_shape_index"),
        is_parameter_aliased_with_output=message.flag("is_parameter_aliased_with_output"),
        is_thread_local=message.flag("is_thread_local"),
        is_tuple=message.flag("is_tuple"),
        is_constant=message.flag("is_constant"),
        maybe_live_out=message.flag("maybe_live_out"),
    )


def _trace(message: Message) -> HeapSimulatorTrace:
    return HeapSimulatorTrace(
        tuple(_event(dict(read_fields(data))) for data in message.all_data("events")),
        message.flag("whole_module_simulation"),
        message.integer("buffer_allocation_index"),
    )


def _event(fields: dict[int, int | bytes]) -> HeapEvent:
    kind, buffer_id, canonical_id = (number_in(fields, number) for number in _EVENT)
    word = word_of("EventKind", signed(kind))
    computation, instruction = (bytes_in(fields, at).decode("utf-8", "surrogateescape") for at in _EVENT_NAMES)
    shared = signed(canonical_id) if word == "SHARE_WITH" else None
    return HeapEvent(cast(EventKind, word), signed(buffer_id), computation, instruction, shared)
