"""The flattened schedule: all executed instructions as one sequence, callees inlined before their callers.

Mirrors `HloLiveRange::FlattenSchedule` of xla/hlo/utils/hlo_live_range.cc. Loop bodies appear once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hlo_cli.analysis.dataflow.async_chains import AsyncChain
from hlo_cli.analysis.dataflow.computation_contexts import CONTROL_FLOW
from hlo_cli.analysis.dataflow.positions import Positions
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import wrapped_opcode


@dataclass(frozen=True, slots=True)
class Run:
    """A computation in the flattened schedule, at positions `start` to `end`, exclusive.

    `caller` is None for the entry; `depth` is the number of enclosing callers.
    """

    computation: Computation
    caller: Instruction | None
    start: int
    end: int
    depth: int


@dataclass(frozen=True, slots=True)
class FlatSchedule:
    """Every executed instruction by position, and the computations in the order of their starts.

    `ticks[n]` is the position of instruction number n of `Positions`, -1 if it is not executed on its own. A sugared
    async-start occupies several positions, for the parameters and the operation that its syntax omits; its own is the
    last.
    """

    sequence: tuple[Instruction, ...]
    runs: tuple[Run, ...]
    spans: Mapping[Computation, Run]
    ticks: tuple[int, ...]

    @property
    def end(self) -> int:
        """One past the last position: the end of the program."""
        return len(self.sequence)


@dataclass(slots=True)
class _Frame:
    """A computation whose instructions are being appended."""

    computation: Computation
    caller: Instruction | None
    start: int
    run: int
    next: int = 0


def flat_schedule(
    places: Positions,
    entry: Computation,
    chains: Mapping[Instruction, AsyncChain],
    orders: Mapping[Computation, Sequence[Instruction]] | None = None,
) -> FlatSchedule:
    """Flattens the computations reachable from the entry; `orders` replace the order of the text.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.dataflow.positions import places_of
    >>> text = '''HloModule m
    ... f { ROOT a = f32[] parameter(0) }
    ... ENTRY e { p = f32[] parameter(0) ROOT c = f32[] call(p), to_apply=f }'''
    >>> module = parse_module(text)
    >>> [i.name for i in flat_schedule(places_of(module), module.entry, {}).sequence]
    ['p', 'a', 'c']
    """
    sequence: list[Instruction] = []
    ticks = [-1] * len(places.instructions)
    runs: list[Run | None] = [None]
    placed = {entry}
    frames = [_Frame(entry, None, 0, 0)]
    remaining: dict[Instruction, Iterator[Computation]] = {}
    while frames:
        frame = frames[-1]
        instructions = (orders or {}).get(frame.computation, frame.computation.instructions)
        base = places.base[frame.computation]
        called = None
        for n in range(frame.next, len(instructions)):
            instruction = instructions[n]
            if instruction.opcode in CONTROL_FLOW:
                remaining_callees = remaining.setdefault(instruction, iter(_executed_callees(instruction, chains)))
                # hlo_live_range.cc, FlattenSchedule: a computation with several callers is placed once, before the
                # first of them.
                called = next((c for c in remaining_callees if c not in placed and c in places.base), None)
                is_sugared = instruction in chains and wrapped_opcode(instruction.opcode) is not None
                if called is not None:
                    sequence.extend([instruction] * (len(chains[instruction].operands) if is_sugared else 0))
                    placed.add(called)
                    frame.next = n
                    frames.append(_Frame(called, instruction, len(sequence), len(runs)))
                    runs.append(None)
                    break
                if is_sugared and chains[instruction].binding is instruction:
                    sequence.append(instruction)
            elif instruction.opcode.endswith("-start") and wrapped_opcode(instruction.opcode) is not None:
                sequence.extend([instruction] * (len(instruction.operands) + 1))
            ticks[base + instruction.index] = len(sequence)
            sequence.append(instruction)
        if called is None:
            frames.pop()
            runs[frame.run] = Run(frame.computation, frame.caller, frame.start, len(sequence), len(frames))
    finished = tuple(run for run in runs if run is not None)
    return FlatSchedule(tuple(sequence), finished, {run.computation: run for run in finished}, tuple(ticks))


def _executed_callees(caller: Instruction, chains: Mapping[Instruction, AsyncChain]) -> tuple[Computation, ...]:
    """Returns the computations that execute right before an instruction."""
    match caller.opcode:
        case opcodes.WHILE:
            # hlo_live_range.cc, FlattenSchedule: the condition comes before the body; called_computations lists the
            # body first.
            return caller.called_computations[::-1]
        case opcodes.CALL | opcodes.CONDITIONAL:
            return caller.called_computations
    chain = chains.get(caller)
    return (chain.computation,) if chain and chain.computation and chain.binding is caller else ()
