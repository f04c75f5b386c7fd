"""The buffer assignment next to a module in a `HloProto`.

Mirrors `BufferAssignment::ToProto` of xla/service/buffer_assignment.cc.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from hlo_cli.ir.compiler_files.buffers import (
    AssignedBuffer,
    BufferAllocation,
    BufferAssignment,
    BufferPlace,
    EventKind,
    HeapEvent,
    HeapSimulatorTrace,
    LogicalBuffer,
)
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.syntax.proto.message import Message
from hlo_cli.syntax.proto.reader import ProtoReader


def buffer_assignment_of(data: bytes, module: Module) -> BufferAssignment:
    """The assignment in a `BufferAssignmentProto`, for the module read from the same proto."""
    message = Message("BufferAssignmentProto", data)
    places = _Places(module)
    return BufferAssignment(
        tuple(
            LogicalBuffer(b.integer("id"), b.integer("size"), b.integer("color"), places.of(b.message("defined_at")))
            for b in message.messages("logical_buffers")
        ),
        tuple(map(_allocation, message.messages("buffer_allocations"))),
        tuple(
            (alias.integer("source_buffer_id"), places.of(alias.message("location")))
            for alias in message.messages("buffer_aliases")
        ),
        tuple(map(_trace, message.messages("heap_simulator_traces"))),
    )


class _Places:
    """Finds instructions by the number in the proto, or by name, as in older protos."""

    def __init__(self, module: Module) -> None:
        self._by_number = _numbered(module)
        self._by_name = {instruction.name: instruction for instruction in module.instructions}

    def of(self, location: Message) -> BufferPlace:
        """The place that a `LogicalBufferProto.Location` names."""
        name, number = location.text("instruction_name"), location.integer("instruction_id")
        found = self._by_name.get(name) if name else self._by_number.get(number)
        return BufferPlace(found, location.integers("shape_index"))


def _numbered(module: Module) -> Mapping[int, Instruction]:
    """The instructions of all computations by number, which is unique in a module."""
    found: dict[int, Instruction] = {}
    for computation in module.computations:
        if isinstance(computation.reader, ProtoReader):
            found.update(computation.reader.by_number)
    return found


def _allocation(message: Message) -> BufferAllocation:
    is_parameter = message.flag("is_entry_computation_parameter")
    return BufferAllocation(
        message.integer("index"),
        message.integer("size"),
        message.integer("color"),
        tuple(
            AssignedBuffer(a.integer("logical_buffer_id"), a.integer("offset"), a.integer("size"))
            for a in message.messages("assigned")
        ),
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
        tuple(map(_event, message.messages("events"))),
        message.flag("whole_module_simulation"),
        message.integer("buffer_allocation_index"),
    )


def _event(message: Message) -> HeapEvent:
    kind = message.word("kind")
    return HeapEvent(
        cast(EventKind, kind),
        message.integer("buffer_id"),
        message.text("computation_name"),
        message.text("instruction_name"),
        message.integer("share_with_canonical_id") if kind == "SHARE_WITH" else None,
    )
