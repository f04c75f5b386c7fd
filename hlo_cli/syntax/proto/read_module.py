"""Which module is in a proto: any of XLA's messages that contain one.

Mirrors `HloModule::CreateFromProto` of xla/hlo/ir/hlo_module.cc.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from functools import partial
from textwrap import indent
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.displayed import Items
from hlo_cli.ir.attributes.metadata import Recovery, RecoveryTable
from hlo_cli.ir.attributes.value_types import AttributeValue, ComputationLayout, value_text
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Attribute, Computation, Instruction
from hlo_cli.ir.module import Findings, Module
from hlo_cli.ir.notation import quoted
from hlo_cli.ir.operations import takes
from hlo_cli.source import Diagnostic, HloError, Source
from hlo_cli.syntax.attribute_table import HEADER_ATTRIBUTES, Kind
from hlo_cli.syntax.opaque import Opaque, set_aside, suspects_among
from hlo_cli.syntax.proto.corruption import NO_MODULE, with_place
from hlo_cli.syntax.proto.messages import KIND, Message, fields_of, scan_instruction
from hlo_cli.syntax.proto.read_attributes import Memo, ProtoReader, Texts, reader_of
from hlo_cli.syntax.proto.read_buffers import buffer_assignment_of
from hlo_cli.syntax.proto.read_values import ShapeReader, original_array_of, sharding_of
from hlo_cli.syntax.scanning.shape_reader import MAX_NESTING
from hlo_cli.syntax.values.attribute_values import Header, parse_stack_tables, read_header_value
from hlo_cli.wire import WireError, all_bytes, bytes_in, number_in, packed_field, read_fields, read_numbers

# --- computations ---
# The computations of a proto: instructions with their operands and callees, in the order of XLA's text.
#
# Mirrors `HloComputation::CreateFromProto` and `HloModule::MakeComputationPostOrder` of xla/hlo/ir.


Schedule = Mapping[int, Sequence[int]]
"""The order of the instructions of each scheduled computation, all by number."""

_NAME, _INSTRUCTIONS, _ID, _ROOT, _THREAD, _CONFIG = (
    fields_of("HloComputationProto")[name].number
    for name in ("name", "instructions", "id", "root_id", "execution_thread", "backend_config")
)
# what `NameUniquer::GetSanitizedName` of xla/service/name_uniquer.cc replaces by an underscore
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_.\-]")
_IS_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*+")
_IS_OPCODE: Final = re.compile(r"[a-z][a-z0-9\-]*+")


@dataclass(slots=True)
class _Caller:
    """An instruction that calls computations, by number until all computations are read."""

    id: int
    instruction: Instruction
    callees: list[int]


@dataclass(slots=True)
class Built:
    """A computation that was read, with its number and the callers in it."""

    id: int
    computation: Computation
    callers: list[_Caller]

    @property
    def callees(self) -> list[int]:
        """The called computations, in the order of the callers' age, as in XLA."""
        return [number for caller in sorted(self.callers, key=lambda c: c.id) for number in caller.callees]


@dataclass(slots=True)
class Builder:
    """State shared by the computations of a module during reading."""

    schedule: Schedule
    entry: int
    texts: Texts
    shapes: ShapeReader = field(default_factory=ShapeReader)
    opcodes: Memo[str] = field(default_factory=lambda: Memo(_opcode))
    suspects: list[Instruction] = field(default_factory=list)

    def build(self, encoded: bytes) -> Built:
        """Reads one computation, without its callees."""
        fields = read_fields(encoded)
        singular = dict(fields)
        number = number_in(singular, _ID)
        computation = Computation(name_of(bytes_in(singular, _NAME)), is_entry=number == self.entry)
        # XLA's main thread has this name in text and none in protos
        computation.execution_thread = bytes_in(singular, _THREAD).decode("utf-8", "replace") or "main"
        computation.backend_config = bytes_in(singular, _CONFIG).decode("utf-8", "surrogateescape")
        data = all_bytes(fields, _INSTRUCTIONS)
        instructions: dict[int, Instruction] = {}
        packed: list[tuple[Instruction, bytes]] = []
        parameters: list[tuple[int, Instruction]] = []
        elements: list[tuple[int, Instruction]] = []
        callers: list[_Caller] = []
        # local names, and no call of __init__: the loop runs for each instruction
        shapes, opcodes, new = self.shapes, self.opcodes, Instruction.__new__
        for each in data:
            name, opcode, shape, id_, of, operands, called = scan_instruction(each)
            instruction = instructions[id_] = new(Instruction)
            instruction.name = name_of(name)
            instruction.shape = shapes[shape]
            instruction.opcode = opcodes[opcode]
            # linked when all are known
            instruction.operands = instruction.called_computations = ()
            instruction.computation = computation
            instruction._text = None
            if operands:
                packed.append((instruction, operands))
            if called:
                callers.append(_Caller(id_, instruction, read_numbers(called)))
            if opcode == b"parameter":
                parameters.append((of, instruction))
            elif opcode == b"get-tuple-element":
                elements.append((of, instruction))
        _link_operands(packed, instructions)
        if len(instructions) != len(data):  # ids are how all else refers to instructions
            raise HloError(f"duplicate instruction id in {computation.name}")
        self._arrange(computation, number, data, instructions)
        self.suspects += suspects_among(computation.instructions, elements)
        parameters.sort(key=lambda pair: pair[0])
        computation.parameters = tuple([instruction for _, instruction in parameters])
        computation.root = instructions.get(number_in(singular, _ROOT))
        return Built(number, computation, callers)

    def _arrange(
        self, computation: Computation, number: int, data: Sequence[bytes], instructions: dict[int, Instruction]
    ) -> None:
        """Sorts the instructions by the schedule, else as in the proto, which is XLA's post-order."""
        if (order := self.schedule.get(number)) is not None:
            if len(order) != len(data) or instructions.keys() != set(order):
                raise HloError(f"the schedule of {computation.name} does not match its instructions")
            by_number = dict(zip(instructions, data, strict=True))
            data = [by_number[number] for number in order]
            computation.instructions = Items([instructions[number] for number in order])
        else:
            computation.instructions = Items(instructions.values())
        for index, instruction in enumerate(computation.instructions):
            instruction.index = index
        computation.by_id = instructions
        computation.reader = ProtoReader(computation, data, instructions, self.texts)


def _link_operands(packed: list[tuple[Instruction, bytes]], instructions: dict[int, Instruction]) -> None:
    instruction_of = instructions.__getitem__
    for instruction, operands in packed:
        try:
            instruction.operands = tuple(map(instruction_of, read_numbers(operands)))
        except KeyError as error:
            name = f"{instruction.computation.name}.{instruction.name}"
            raise HloError(f"{name} refers to unknown instruction id {error}") from None


def link_calls(built: Mapping[int, Built], *, is_partial: bool = False) -> frozenset[Instruction]:
    """Sets the called computations of every instruction; returns those with unknown ones, an error unless `is_partial`.

    Such an instruction calls nothing.
    """
    incomplete = []
    for computation in built.values():
        for caller in computation.callers:
            if missing := [number for number in caller.callees if number not in built]:
                name = caller.instruction.name
                if not is_partial:
                    raise HloError(f"{name} refers to unknown computation id {missing[0]}")
                incomplete.append(caller.instruction)
                caller.callees = []
            caller.instruction.called_computations = tuple([built[number].computation for number in caller.callees])
    return frozenset(incomplete)


def _print_order(built: Mapping[int, Built]) -> tuple[Computation, ...]:
    """Callees before callers, depth first from each computation without callers; HloError for cycles of calls."""
    ordered = tuple(_post_order(built))
    if len(ordered) < len(built):
        raise HloError("cyclic computation calls")
    return ordered


def _post_order(built: Mapping[int, Built]) -> Iterator[Computation]:
    called = {number for computation in built.values() for number in computation.callees}
    done: set[int] = set()
    inside: set[int] = set()
    pending = [
        (computation, iter(computation.callees))
        for computation in reversed(list(built.values()))
        if computation.id not in called
    ]
    while pending:
        computation, callees = pending[-1]
        inside.add(computation.id)
        following = next((number for number in callees if number not in done), None)
        if following is None:
            pending.pop()
            done.add(computation.id)
            yield computation.computation
            continue
        if following in inside:
            raise HloError(f"{built[following].computation.name} calls itself")
        pending.append((built[following], iter(built[following].callees)))


def name_of(data: bytes) -> str:
    """A valid name for HLO text, made as in XLA (`NameUniquer::GetSanitizedName`).

    >>> name_of(b"a b"), name_of(b"1"), name_of(b"add.1")
    ('a_b', '_1', 'add.1')
    """
    name = data.decode("utf-8", "replace")
    if _IS_NAME.fullmatch(name):
        return name
    name = _NO_NAME.sub("_", name)
    return name if _IS_NAME.fullmatch(name) else f"_{name}"


def _opcode(data: bytes) -> str:
    opcode = data.decode("utf-8", "replace")
    if not _IS_OPCODE.fullmatch(opcode):
        raise HloError(f"unknown opcode {opcode!r}")
    return opcode


# --- modules ---
# A module in a proto. Mirrors `HloModule::CreateFromProto` and `HloModule::Print` of xla/hlo/ir/hlo_module.cc.
#
# The compiler's configuration is not part of a `HloModuleProto`: whether shardings may propagate, and which parameters
# pass through. Executables store it beside the module, dumps do not.


_CONFIGURED: Final = {
    name: HEADER_ATTRIBUTES[name]._replace(proto_field=name) for name in fields_of("HloModuleConfigProto")
}
"""The attributes of a header that the configuration has, which prevails: a module's devices may not be assigned."""
_KEY, _SEQUENCE = (fields_of("SequencesEntry")[name].number for name in ("key", "value"))
_OUTPUT: Final = "spmd_output_sharding"
_IDS: Final = fields_of("InstructionSequence")["instruction_ids"].number


def module_of(
    message: Message,
    source: Source,
    file: bytes = b"",
    depth: int = 0,
    *,
    config: Message | None = None,
    is_partial: bool = False,
) -> Module:
    """The module in a `HloModuleProto`; HloError if there is none, or if it is inconsistent.

    `file` is the complete input, for locating errors; `config` is a `HloModuleConfigProto` stored with the module. If
    the message `is_partial`, instructions may call computations that are not in it.
    """
    if depth > MAX_NESTING:
        raise HloError(f"modules are nested too deeply (limit {MAX_NESTING})")
    builder = Builder(_schedule(message), _entry(message), texts=Texts(file, message.all_data("payloads")))
    with no_garbage_collection():
        built = {computation.id: computation for computation in map(builder.build, message.all_data("computations"))}
        incomplete = link_calls(built, is_partial=is_partial)
        computations = _print_order(built)
    callers = [
        c.instruction for computation in built.values() for c in computation.callers if c.instruction not in incomplete
    ]
    suspects = (i for i in builder.suspects if i not in incomplete or not takes(i.opcode, len(i.operands)))
    opaque = set_aside(suspects, callers, computations)
    if not any(computation.instructions for computation in computations):
        raise HloError("no instructions found in the proto")
    entry = next((computation for computation in computations if computation.is_entry), computations[-1])
    entry.is_entry = True
    name = name_of(message.data("name"))
    header = Header(
        name,
        tuple(_header(message, builder.shapes, depth, config)),
        _stack_tables(message.message("stack_frame_index")),
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
        read_header_value=read_header_value,
        spmd_output_sharding=sharding_of(message.message(_OUTPUT)) if message.has(_OUTPUT) else None,
        value_order=tuple([computation.computation for computation in built.values()]),
    )


def _findings(opaque: Sequence[Opaque], module: Module) -> Findings:
    """A note for each opaque instruction; nothing in a proto has a span."""
    notes = (
        Diagnostic("note", instruction.message, module.source, code=instruction.problem.code) for instruction in opaque
    )
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
        fields = dict(read_fields(sequence))
        listed = read_fields(bytes_in(fields, _SEQUENCE))
        schedule[number_in(fields, _KEY)] = read_numbers(packed_field(listed, _IDS))
    return schedule


def _header(module: Message, shapes: ShapeReader, depth: int, config: Message | None) -> Iterator[Attribute]:
    """The header attributes, in the order of their rows; layouts share the shapes of the instructions."""
    for row in HEADER_ATTRIBUTES.values():
        match row.kind:
            case _ if config is not None and row.name in _CONFIGURED and config.has(row.name):
                value: AttributeValue | None = reader_of(_CONFIGURED[row.name], config.kind)(config, None)
            case _ if row.path[0] not in fields_of(module.kind):
                continue
            case Kind.COMPUTATION_LAYOUT:
                value = _entry_layout(module, row.path[0], shapes)
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


# --- any message with a module ---
# A module from the bytes of any of XLA's messages that contain one.
#
# Compilers pass on a `HloModuleProto`; dumps contain it in a `HloProto`, with the buffer assignment if there is one,
# and snapshots contain that. Mirrors the messages of xla/service/hlo.proto.
#
# No package for protocol buffers is used: the wire format is a page of code (`wire.py`), and the fields of XLA's
# messages are a table (`messages.py`). The package would require generated code for these messages, which XLA does not
# publish, and a runtime of the same version as that code, and it would create an object for every field, while most
# fields are never read.


AS_PROTO: Final = "to dump a proto, set XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_as_proto'"

_OPCODE: Final = re.compile(rb"[a-z][a-z0-9\-]*+")
_MODULE, _ASSIGNMENT = (fields_of("HloProto")[name].number for name in ("hlo_module", "buffer_assignment"))
_CONFIG_FIELD: Final = fields_of("HloModuleProtoWithConfig")["config"].number
_INSTRUCTIONS_FIELD: Final = fields_of("HloComputationProto")["instructions"].number
_LEVELS: Final = 3
"""A module, the proto around it, and the snapshot around that."""


def read_proto(data: bytes, source: Source, *, is_partial: bool = False) -> Module:
    """The module in a `HloModuleProto`, `HloProto`, `HloSnapshot`, `HloUnoptimizedSnapshot` or with its configuration.

    Calls of computations that are not in it are an error, unless it `is_partial`.

    >>> read_proto(b"", Source("m.hlo.pb", ""))
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: m.hlo.pb: error: not an HLO module proto
      help: to dump a proto, set XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_as_proto'
    """
    try:
        message, assignment, config = _unwrapped(data)
        module = module_of(message, source, data, config=config, is_partial=is_partial)
    except HloError as error:
        placed = with_place(error, data).diagnostic
        raise HloError(placed.message, source=source, hint=placed.hint) from None
    module.source = PrintedSource(source.name, module.to_string)
    if assignment is not None:
        module.read_buffer_assignment = partial(buffer_assignment_of, assignment)
    return module


def _unwrapped(data: bytes) -> tuple[Message, bytes | None, Message | None]:
    """The module, and the buffer assignment and the configuration next to it."""
    assignment: bytes | None = None
    config: Message | None = None
    for level in range(_LEVELS):
        try:
            module = Message("HloModuleProto", data)
        except WireError:
            if level == 0:  # deeper, bytes that are no message only say that this is no module
                raise
            break
        if _holds_instructions(module):
            return module, assignment, config
        holder = dict(reversed(read_fields(data)))  # the first of each field
        inner, assignment, settings = (_bytes_or_none(holder.get(n)) for n in (_MODULE, _ASSIGNMENT, _CONFIG_FIELD))
        if not inner:
            break
        # in an unoptimized snapshot, the field has arguments, whose messages share no field with a configuration
        config = _config_of(settings)
        data = inner
    raise HloError(NO_MODULE, hint=AS_PROTO)


def _config_of(settings: bytes | None) -> Message | None:
    """The configuration in a field that may be something else."""
    with suppress(WireError):
        return Message("HloModuleConfigProto", settings) if settings is not None else None
    return None


def _bytes_or_none(value: int | bytes | None) -> bytes | None:
    return value if isinstance(value, bytes) else None


def _holds_instructions(module: Message) -> bool:
    """Whether this looks like a module: its name is followed by computations, which contain operations."""
    with suppress(HloError):
        for computation in module.all_data("computations"):
            for instruction in all_bytes(read_fields(computation), _INSTRUCTIONS_FIELD):
                return _OPCODE.fullmatch(Message(KIND, instruction).data("opcode")) is not None
    return False


class PrintedSource(Source):
    """A source whose text is printed on first use; nothing in the module has a span in it.

    >>> source = PrintedSource("m.hlo.pb", lambda: "HloModule m")
    >>> source.text
    'HloModule m'
    """

    __slots__ = ("_print", "_printed")

    def __init__(self, name: str, print_: Callable[[], str]) -> None:
        self._print = print_
        self._printed: str | None = None
        super().__init__(name, "")

    @property
    def text(self) -> str:
        """The text of the module as XLA prints it."""
        if self._printed is None:
            self._printed = self._print()
        return self._printed

    @text.setter
    def text(self, _: str) -> None:
        """Ignores assignments: the text is always that of the module."""
