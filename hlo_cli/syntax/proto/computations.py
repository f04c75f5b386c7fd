"""The computations of a proto: instructions with their operands and callees, in the order of XLA's text.

Mirrors `HloComputation::CreateFromProto` and `HloModule::MakeComputationPostOrder` of xla/hlo/ir.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.source import HloError
from hlo_cli.syntax.opaque import suspects_among
from hlo_cli.syntax.proto.field_scan import scan_instruction
from hlo_cli.syntax.proto.fields import fields_of
from hlo_cli.syntax.proto.reader import ProtoReader
from hlo_cli.syntax.proto.shapes import ShapeReader
from hlo_cli.syntax.proto.text_cache import Memo, Texts
from hlo_cli.syntax.proto.wire import all_bytes, bytes_in, number_in, read_fields, read_numbers

Schedule = Mapping[int, Sequence[int]]
"""The order of the instructions of each scheduled computation, all by number."""

_NAME, _INSTRUCTIONS, _ID, _ROOT, _THREAD, _CONFIG = (
    fields_of("HloComputationProto")[name].number
    for name in ("name", "instructions", "id", "root_id", "execution_thread", "backend_config")
)
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
        found = dict(fields)
        number = number_in(found, _ID)
        computation = Computation(name_of(bytes_in(found, _NAME)), is_entry=number == self.entry)
        computation.execution_thread = bytes_in(found, _THREAD).decode("utf-8", "replace") or "main"
        computation.backend_config = bytes_in(found, _CONFIG).decode("utf-8", "surrogateescape")
        data = all_bytes(fields, _INSTRUCTIONS)
        instructions: dict[int, Instruction] = {}
        packed: list[tuple[Instruction, bytes]] = []
        parameters: list[tuple[int, Instruction]] = []
        elements: list[tuple[int, Instruction]] = []
        callers: list[_Caller] = []
        shapes, opcodes, new = self.shapes, self.opcodes, Instruction.__new__
        for each in data:
            name, opcode, shape, id_, of, operands, called = scan_instruction(each)
            instruction = instructions[id_] = new(Instruction)
            instruction.name = name_of(name)
            instruction.shape = shapes[shape]
            instruction.opcode = opcodes[opcode]
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
        if len(instructions) != len(data):
            raise HloError(f"duplicate instruction id in {computation.name}")
        self._arrange(computation, number, data, instructions)
        self.suspects += suspects_among(computation.instructions, elements)
        parameters.sort(key=lambda pair: pair[0])
        computation.parameters = tuple([instruction for _, instruction in parameters])
        computation.root = instructions.get(number_in(found, _ROOT))
        return Built(number, computation, callers)

    def _arrange(
        self, computation: Computation, number: int, data: Sequence[bytes], instructions: dict[int, Instruction]
    ) -> None:
        """Sorts the instructions by the schedule, else as in the proto, which is XLA's post-order."""
        if (order := self.schedule.get(number)) is not None:
            if len(order) != len(data) or instructions.keys() != set(order):
                raise HloError(f"the schedule of {computation.name} does not match its instructions")
            by_number = dict(zip(instructions, data, strict=True))
            data = [by_number[each] for each in order]
            computation.instructions = tuple([instructions[each] for each in order])
        else:
            computation.instructions = tuple(instructions.values())
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
    for each in built.values():
        for caller in each.callers:
            if missing := [number for number in caller.callees if number not in built]:
                name = caller.instruction.name
                if not is_partial:
                    raise HloError(f"{name} refers to unknown computation id {missing[0]}")
                incomplete.append(caller.instruction)
                caller.callees = []
            caller.instruction.called_computations = tuple([built[number].computation for number in caller.callees])
    return frozenset(incomplete)


def print_order(built: Mapping[int, Built]) -> tuple[Computation, ...]:
    """Callees before callers, depth first from each computation without callers; HloError for cycles of calls."""
    ordered = tuple(_post_order(built))
    if len(ordered) < len(built):
        raise HloError("cyclic computation calls")
    return ordered


def _post_order(built: Mapping[int, Built]) -> Iterator[Computation]:
    called = {number for each in built.values() for number in each.callees}
    done: set[int] = set()
    inside: set[int] = set()
    pending = [(each, iter(each.callees)) for each in reversed(list(built.values())) if each.id not in called]
    while pending:
        each, callees = pending[-1]
        inside.add(each.id)
        following = next((number for number in callees if number not in done), None)
        if following is None:
            pending.pop()
            done.add(each.id)
            yield each.computation
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
