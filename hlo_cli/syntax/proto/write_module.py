"""How a module becomes the bytes of a `HloModuleProto`, which XLA reads as the same module."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import field, replace
from itertools import count
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.metadata import NO_METADATA, Metadata, Recovery, RecoveryTable, StackFrames
from hlo_cli.ir.attributes.value_types import ComputationLayout
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Attribute, Computation, Instruction, InstructionText
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import (
    ASYNC_CONTINUATIONS,
    ASYNCHRONOUS,
    CONTROL_PREDECESSORS,
    attributes_with,
    wrapped_opcode,
)
from hlo_cli.source import HloError, Source
from hlo_cli.syntax.attribute_table import HEADER_ATTRIBUTES
from hlo_cli.syntax.proto.messages import KIND, MessageBuilder, fields_of
from hlo_cli.syntax.proto.read_attributes import ProtoReader
from hlo_cli.syntax.proto.read_values import literal_draft, shape_draft
from hlo_cli.syntax.proto.write_attributes import (
    add_attributes,
    add_header,
    fieldwise_draft,
    original_array_draft,
    sharding_draft,
)
from hlo_cli.syntax.scanning.attributes import without_metadata
from hlo_cli.syntax.text.parser import parse_module
from hlo_cli.syntax.values.attribute_values import parse_metadata

# --- ids and unique names ---
# Ids and names of computations and instructions in protos. Names are unique, unlike in text.
#
# Mirrors xla/service/name_uniquer.cc, and the numbering of xla/hlo/ir/hlo_module.cc.


_LOCAL_BITS: Final = 32
"""XLA numbers instructions from 0 in each computation; the computation's number is in the high bits."""
_MOST_DIGITS: Final = 18  # 18 digits fit int64, as a counter of XLA's `NameUniquer`; more is part of the name


@dataclass(frozen=True, slots=True)
class Numbers:
    """The ids and names of a module's computations and instructions."""

    computations: Mapping[Computation, int]
    instructions: Mapping[Instruction, int]
    names: Mapping[Computation | Instruction, str]


def numbers_of(module: Module) -> Numbers:
    """Assigns ids to all computations and instructions, as XLA prints callees and unscheduled instructions by id."""
    computations = {computation: number for number, computation in enumerate(module.computations, 1)}
    fused = _fusion_computations(module) if module.is_scheduled else computations
    instructions = {
        instruction: number << _LOCAL_BITS | local
        for computation, number in computations.items()
        for local, instruction in enumerate(_by_age(computation, computations, fused))
    }
    listed = list(module.instructions)
    names: dict[Computation | Instruction, str] = {}
    names.update(zip(module.computations, _unique_names(c.name for c in module.computations), strict=True))
    names.update(zip(listed, _unique_names(i.name for i in listed), strict=True))
    return Numbers(computations, instructions, names)


def _fusion_computations(module: Module) -> frozenset[Computation]:
    """The bodies of fusions, which have no schedule."""
    return frozenset(c for i in module.instructions if i.opcode == opcodes.FUSION for c in i.called_computations)


def _unique_names(names: Iterable[str]) -> list[str]:
    """The names in order; repeated ones get a free number after a dot.

    >>> _unique_names(["p", "p", "p.1", "p", "q.3", "q.3"])
    ['p', 'p.1', 'p.2', 'p.3', 'q.3', 'q.0']
    """
    used: defaultdict[str, set[int]] = defaultdict(set)
    numbers: defaultdict[str, Iterable[int]] = defaultdict(count)
    found = []
    for name in names:
        root, number = _split(name)
        if number in used[root]:
            number = next(free for free in numbers[root] if free not in used[root])
            name = f"{root}.{number}"
        used[root].add(number)
        found.append(name)
    return found


def _split(name: str) -> tuple[str, int]:
    """The name without its number, and the number; 0 without one."""
    root, dot, digits = name.rpartition(".")
    if dot and root and digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS:
        return root, int(digits)
    return name, 0


def _by_age(
    computation: Computation, computations: Mapping[Computation, int], fused: Container[Computation]
) -> Iterable[Instruction]:
    """The instructions in an order from which XLA's traversal of callees restores the order of the computations."""
    if computation in fused:
        return computation.instructions
    last_callee = {
        i: max((computations[c] for c in i.called_computations), default=0) for i in computation.instructions
    }
    return sorted(computation.instructions, key=last_callee.__getitem__)


# --- wrapped operations ---
# Attributes of the operations in async computations as XLA sets them when it reads a text: more than the text has.
#
# Mirrors `ParseInstructionRhs` of xla/hlo/parser/hlo_parser.cc, which copies the attributes of an asynchronous
# instruction to the wrapped operation: the last of start, updates, and done that has an attribute determines it.


_GIVEN: Final = attributes_with("of what is wrapped")


def wrapped_operations(module: Module) -> dict[Instruction, Instruction]:
    """The wrapped operations of a text with their inherited attributes; empty for a proto, which has them all itself.

    >>> from hlo_cli import parse_module
    >>> text = '''f { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }
    ... ENTRY e { p = f32[2] parameter(0)  s = ((f32[2]), f32[2]) async-start(p), calls=f, backend_config="b"
    ... ROOT d = f32[2] async-done(s) }'''
    >>> [(i.name, kept.raw[1]) for i, kept in wrapped_operations(parse_module(text)).items()]
    [('n', ', backend_config="b"')]
    """
    renamed: dict[Instruction, dict[str, str]] = {}
    for computation in module.computations:
        # XLA copied them when it read the text that the proto was made of
        if isinstance(computation.reader, ProtoReader):
            continue
        for instruction in computation.instructions:
            if instruction.opcode in ASYNCHRONOUS and (root := _wrapped(instruction)) is not None:
                kept = {name: value for name, value in instruction.pairs if name in _GIVEN}
                renamed.setdefault(root, {}).update(kept)
    return {root: _with(root, kept) for root, kept in renamed.items() if kept}


def _wrapped(instruction: Instruction) -> Instruction | None:
    """The operation at the other end of a chain, or None without a start."""
    while instruction.opcode in ASYNC_CONTINUATIONS and instruction.operands:
        instruction = instruction.operands[0]
    called = instruction.called_computations
    return called[0].root if instruction.opcode == opcodes.ASYNC_START and called else None


def _with(root: Instruction, kept: dict[str, str]) -> Instruction:
    own = dict(root.pairs) | kept
    text = InstructionText(tuple(Attribute(name, value) for name, value in own.items()), root.raw[0])
    made = Instruction(root.name, root.shape, root.written_opcode, root.operands, root.computation, root.index, text)
    made.called_computations = root.called_computations
    return made


# --- instructions ---
# Instructions as drafts of `HloInstructionProto`.
#
# Mirrors `ToProto` of the classes in xla/hlo/ir/hlo_instructions.cc.


@dataclass(frozen=True, slots=True)
class Writing:
    """State for writing instructions: all ids, and parts that many instructions share, written once.

    Shared parts are shapes, metadata, and everything independent of other instructions. `wrapped` are operations of
    async computations with their inherited attributes.
    """

    numbers: Numbers
    wrapped: Mapping[Instruction, Instruction] = field(default_factory=dict)
    _shapes: dict[int, bytes] = field(default_factory=dict)
    _metadata: dict[str, MessageBuilder] = field(default_factory=dict)
    _shared: dict[tuple[str, int, str, str], MessageBuilder] = field(default_factory=dict)
    _named: dict[Computation, Mapping[str, Instruction]] = field(default_factory=dict)

    def shape(self, instruction: Instruction) -> bytes:
        """The `ShapeProto` of an instruction's shape. Most shapes occur often, and as the same object."""
        shape = instruction.shape
        if (known := self._shapes.get(id(shape))) is None:
            known = self._shapes[id(shape)] = shape_draft(shape).to_bytes()
        return known

    def metadata(self, text: str) -> MessageBuilder:
        """A builder of an instruction with only the metadata of this text."""
        if (known := self._metadata.get(text)) is None:
            known = self._metadata[text] = _metadata_draft(parse_metadata(text))
        return known

    def shared(self, instruction: Instruction, argument: str, attributes: str) -> MessageBuilder:
        """The fields that instructions with this opcode, this shape, and these texts have in common."""
        key = instruction.written_opcode, id(instruction.shape), argument, attributes
        if (known := self._shared.get(key)) is None:
            known = self._shared[key] = _shared_draft(instruction, self.shape(instruction))
        return known

    def predecessors(self, instruction: Instruction) -> list[int]:
        """The numbers of the control predecessors."""
        computation = instruction.computation
        if computation not in self._named:
            self._named[computation] = {instruction.name: instruction for instruction in computation.instructions}
        named = self._named[computation]
        for name in instruction.control_predecessors:
            if name not in named:
                where = instruction.computation.name
                raise HloError(f"{instruction.name} comes after {name}, which {where} does not have", instruction.span)
        return [self.numbers.instructions[named[name]] for name in instruction.control_predecessors]


def _instruction_draft(instruction: Instruction, writing: Writing) -> MessageBuilder:
    """An instruction; HloError if it has contents that no proto can hold, or that are unknown."""
    if (
        wrapped_opcode(instruction.written_opcode) is not None
        or instruction.index in instruction.computation.operand_indices
    ):
        raise HloError(
            f"{instruction.name} uses a short form that protos do not support",
            hint="dump without xla_syntax_sugar_async_ops and xla_dump_compact_gte",
        )
    operation = writing.wrapped.get(instruction, instruction)
    argument, text = operation.raw
    attributes, metadata = without_metadata(text)
    numbers = writing.numbers
    draft = MessageBuilder(KIND).include(writing.shared(operation, argument, attributes))
    # an id of 0 is one, and must be there
    draft.add("name", numbers.names[instruction]).add("id", numbers.instructions[instruction], always=True)
    draft.add("operand_ids", [numbers.instructions[operand] for operand in instruction.operands])
    draft.add("called_computation_ids", [numbers.computations[c] for c in instruction.called_computations])
    if metadata:
        draft.include(writing.metadata(metadata))
    elif "metadata=" in attributes:
        draft.include(_metadata_draft(parse_metadata(operation.attribute("metadata") or "")))
    if instruction.opcode == opcodes.OUTFEED and "outfeed_shape=" not in attributes:
        draft.add("outfeed_shape", shape_draft(instruction.operand_shape(0)))
    if CONTROL_PREDECESSORS in attributes:
        draft.add("control_predecessor_ids", writing.predecessors(instruction))
    return draft


def _metadata_draft(metadata: Metadata) -> MessageBuilder:
    if metadata == NO_METADATA:
        return MessageBuilder(KIND)
    payload = metadata.metadata_payload
    draft = fieldwise_draft("OpMetadata", replace(metadata, metadata_payload=""))
    draft.add("metadata_payload", MessageBuilder("Payload").add("value", payload) if payload else None)
    return MessageBuilder(KIND).add("metadata", draft)


def _shared_draft(instruction: Instruction, shape: bytes) -> MessageBuilder:
    """The fields of an instruction alone: XLA reads constants without values, as dumps omit them."""
    draft = MessageBuilder(KIND).add("opcode", instruction.written_opcode).add("shape", shape, always=True)
    if (literal := instruction.literal) is not None:
        draft.add("literal", literal_draft(literal) if not literal.is_elided else None)
    elif instruction.written_opcode == opcodes.PARAMETER:
        draft.add("parameter_number", instruction.parameter_number)
    add_attributes(draft, instruction)
    return draft


# --- modules ---
# A module as the bytes of a `HloModuleProto`, which XLA reads as the same module.
#
# Mirrors `HloModule::ToProto` and `HloComputation::ToProto` of xla/hlo/ir. The compiler's configuration has no field
# there: whether shardings may propagate, and which parameters pass through.


def module_to_bytes(module: Module) -> bytes:
    """The `HloModuleProto` of a module; HloError for contents that no proto can hold.

    >>> from hlo_cli.syntax.proto.read_module import read_proto
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
    draft.add("instructions", [_instruction_draft(instruction, writing) for instruction in computation.instructions])
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
    fused = _fusion_computations(module)
    for computation in module.computations:
        if computation not in fused:
            ids = [numbers.instructions[instruction] for instruction in computation.instructions]
            sequence = MessageBuilder("InstructionSequence").add("instruction_ids", ids)
            yield MessageBuilder("SequencesEntry").add("key", numbers.computations[computation]).add("value", sequence)


_MOST_DEVICES: Final = 1 << 22
"""Devices that are listed: a hundred times those of the largest machine; a damaged header may state any number."""


def _device_assignment(module: Module) -> MessageBuilder | None:
    """The numbers of replicas and partitions, on as many devices in order."""
    replicas, parts = module.replica_count, module.num_partitions
    if replicas * parts < 2:
        return None
    if replicas * parts > _MOST_DEVICES:
        raise HloError(f"a proto lists every device, and the module is for {replicas * parts:,} of them")
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
