"""Memory delta: bytes that each instruction allocates minus those whose last use it is.

Follows the event order of `HeapSimulator::RunComputation` in xla/service/heap_simulator/heap_simulator.cc.
"""

from __future__ import annotations

from collections.abc import Mapping

from hlo_cli.analysis.dataflow.flat_schedule import flat_schedule
from hlo_cli.analysis.layout.padding import buffer_bytes
from hlo_cli.analysis.memory.live_ranges import live_ranges
from hlo_cli.analysis.memory.order_independent import OrderIndependentFacts
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import ARGUMENT_OPCODES


@dataclass(frozen=True, slots=True)
class MemoryDelta:
    """The position of each instruction in the flattened schedule, and its change of live bytes.

    Arguments and constants are not counted.
    """

    positions: Mapping[Instruction, int]
    bytes: Mapping[Instruction, int]


@no_garbage_collection()
def memory_delta(facts: OrderIndependentFacts) -> MemoryDelta:
    """Returns the memory deltas of a module in the order of its text.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.order_independent import order_independent_facts
    >>> text = '''HloModule m  ENTRY e { p = f32[8] parameter(0)  a = f32[64] broadcast(p), dimensions={}
    ...   ROOT b = f32[8] slice(a) }'''
    >>> memory_delta(order_independent_facts(parse_module(text))).bytes
    {<parameter p>: 0, <broadcast a>: 256, <slice b>: -224}
    """
    schedule = flat_schedule(facts.places, facts.module.entry, facts.chains)
    ranges = live_ranges(facts.module, facts.dataflow, schedule, facts.aliases, facts.target)
    change = [0] * (schedule.end + 1)
    known: dict[int, int] = {}
    for value, start in ranges.start.items():
        if facts.places.instructions[facts.places.owner[value]].opcode in ARGUMENT_OPCODES:
            continue
        shape = facts.places.shape(value)
        size = known.get(id(shape))
        if size is None:
            size = known[id(shape)] = buffer_bytes(shape, facts.target, facts.generation)
        change[start] += size
        change[ranges.end[value]] -= size
    positions = {instruction: position for position, instruction in enumerate(schedule.sequence)}
    return MemoryDelta(positions, {instruction: change[position] for instruction, position in positions.items()})
