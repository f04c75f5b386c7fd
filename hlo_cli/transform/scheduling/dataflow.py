"""Computation in the form of XLA's memory schedulers: users of each instruction, and the values it defines and uses.

Mirrors what `ListScheduler` and `DFSMemoryScheduler` of xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc take
from dataflow analysis, which ignores aliases; `Graph` respects them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from hlo_cli.analysis.dataflow.dependencies import control_predecessors
from hlo_cli.analysis.dataflow.value_sets import Dataflow
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import ARGUMENT_OPCODES
from hlo_cli.ir.shape import Shape

Size = Callable[[Shape], int]

_MAX_TUPLE_PARTS: Final = 256
"""Number of leaves of a tuple beyond which a get-tuple-element uses its own leaf only, to avoid quadratic time."""


@dataclass(frozen=True, slots=True)
class Flow:
    """Dependencies and values of the instructions of a computation, by index.

    - `post_order` is depth first. `operands` and `users` are unique; `controls` and `successors` are control
      dependencies.
    - `used` are the values that an instruction reads, `live_out` those of the result.
    - `defined_bytes` are the bytes of the values that an instruction defines, `size` those of each value; 0 for
      parameters and constants.
    """

    computation: Computation
    post_order: tuple[int, ...]
    operands: tuple[tuple[int, ...], ...]
    users: tuple[tuple[int, ...], ...]
    controls: Mapping[int, Sequence[int]]
    successors: Mapping[int, Sequence[int]]
    used: tuple[tuple[int, ...], ...]
    live_out: tuple[int, ...]
    defined_bytes: tuple[int, ...]
    size: Mapping[int, int]

    def __len__(self) -> int:
        return len(self.operands)


def flow_of(computation: Computation, dataflow: Dataflow, bytes_of: Size) -> Flow:
    """Dependencies and values of a computation.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.transform.scheduling.buffer_uses import buffer_uses
    >>> text = "HloModule m  ENTRY e { a = f32[8] parameter(0) b = f32[8] negate(a) ROOT c = f32[8] add(b, b) }"
    >>> uses = buffer_uses(parse_module(text))
    >>> flow = flow_of(uses.runs[0].computation, uses.dataflow, uses.bytes_of)
    >>> flow.operands, flow.users, flow.defined_bytes
    (((), (0,), (1,)), ((1,), (2,), ()), (0, 32, 32))
    """
    places, value = dataflow.places, dataflow.value
    instructions = computation.instructions
    operands = tuple([tuple(dict.fromkeys([each.index for each in i.operands])) for i in instructions])
    users: list[list[int]] = [[] for _ in instructions]
    for index, taken in enumerate(operands):
        for each in taken:
            users[each].append(index)
    controls = control_predecessors(computation, places.text)
    successors: dict[int, list[int]] = {}
    for index, earlier in controls.items():
        for each in earlier:
            successors.setdefault(each, []).append(index)
    defined_bytes, size = [0] * len(instructions), dict[int, int]()
    for index, number in enumerate(range(places.base[computation], places.base[computation] + len(instructions))):
        for place in range(places.first[number], places.first[number + 1]):
            if (name := value[place]) not in size:
                maker = places.owner[name]
                given = places.instructions[maker].opcode in ARGUMENT_OPCODES
                size[name] = 0 if given else bytes_of(places.shape(name))
            if name == place:
                defined_bytes[index] += size[name]
    root = computation.root
    base = places.base[computation]
    position = dataflow.position[base : base + len(instructions)]
    return Flow(
        computation,
        tuple(sorted(range(len(instructions)), key=position.__getitem__)),
        operands,
        tuple(map(tuple, users)),
        controls,
        successors,
        tuple([_used(instruction, dataflow) for instruction in instructions]),
        () if root is None else tuple(dict.fromkeys(value[n] for n in _parts(root, dataflow))),
        tuple(defined_bytes),
        size,
    )


def _used(instruction: Instruction, dataflow: Dataflow) -> tuple[int, ...]:
    value, found = dataflow.value, dict[int, None]()
    for position, operand in enumerate(instruction.operands):
        parts = _parts(operand, dataflow)
        if len(parts) > _MAX_TUPLE_PARTS and instruction.opcode == opcodes.GET_TUPLE_ELEMENT:
            own = _parts(instruction, dataflow)
            found.update(dict.fromkeys((value[parts[0]], *(value[place] for place in own))))
            continue
        place = dataflow.places.operand_place(instruction, position)
        found.update(dict.fromkeys([value[each] for each in range(place, parts[-1] + 1)]))
    return tuple(found)


def _parts(instruction: Instruction, dataflow: Dataflow) -> range:
    places = dataflow.places
    number = places.number(instruction)
    return range(places.first[number], places.first[number + 1])
