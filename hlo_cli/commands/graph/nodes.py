"""The nodes of a graph: a row for each instruction, with what it costs and how it is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.cost.cost import BYTES, FLOPS, RUN
from hlo_cli.analysis.cost.cost import UNKNOWN as UNKNOWN_COST
from hlo_cli.analysis.cost.cost_analysis import main_costs_among
from hlo_cli.analysis.dataflow.trip_count import trip_count
from hlo_cli.analysis.graphs.hidden import hidden_instructions
from hlo_cli.analysis.graphs.kinds import kinds_of
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.origin.origins import origins_of
from hlo_cli.commands.shared.load import Loaded, check_running
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes, operations
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.memory_space import space_name
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.report.cell import UNKNOWN, Cell, Row
from hlo_cli.report.column import Column
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.hardware.chip_specs import ChipSpec

COLUMNS: Final = (
    Column("name", "name", "name", role="name"),
    Column("opcode", "opcode", "opcode"),
    Column("kind", "kind"),
    Column("shape", "shape", "shape"),
    Column("label", "label", person=False),
    Column("computation", "computation", "count", person=False),
    Column("operands", "operands", "index", person=False),
    Column("control", "control", "index", person=False),
    Column("calls", "calls", "index", person=False),
    Column("is_root", "root", "flag", person=False),
    Column("bytes", "result", "bytes"),
    Column("logical_bytes", "data", "bytes", person=False),
    Column("bytes_accessed", "accessed", "bytes"),
    Column("flops", "flops", "count"),
    Column("live_bytes", "live", "bytes", person=False),
    Column("seconds", "est.", "seconds"),
    Column("step", "step", "step"),
    Column("literal", "literal", person=False),
    Column("trips", "trips", "count", person=False),
    Column("source", "source", "source"),
    Column("op_name", "op_name", "op_name", person=False),
    Column("change", "change", "change", person=False),
    Column("is_hidden", "hidden", "flag", person=False),
    Column("is_transfer", "transfer", "flag", person=False),
    Column("expandable", "expandable", "flag", person=False),
)
_MOST_LITERAL: Final = 24
"""The longest constant that is a label."""
_EXPANDED: Final = operations.RUNNERS | {opcodes.FUSION, opcodes.CUSTOM_CALL}


@dataclass(frozen=True, slots=True)
class _Schedule:
    """Steps of instructions, and the live bytes of the main memory at each."""

    steps: Mapping[Instruction, int]
    live: Sequence[int]


def node_rows(loaded: Loaded, throughput: ChipSpec | None) -> tuple[tuple[Instruction, ...], tuple[Row, ...]]:
    """The instructions of a module in the order of its text, and the row of each."""
    module = loaded.module
    computations = {computation: at for at, computation in enumerate(module.computations)}
    listed = tuple(module.instructions)
    numbers = {instruction: at for at, instruction in enumerate(listed)}
    kinds = kinds_of(module.computations)
    hidden = hidden_instructions(module.computations)
    schedule = _schedule(loaded)
    seconds = _seconds(module, throughput)
    origins = origins_of(module)
    target = target_of(module)
    control = _control(module, numbers)
    shapes: dict[int, Row] = {}
    rows: list[Row] = []
    for instruction, costs in zip(listed, main_costs_among(listed, rules=RUN), strict=True):
        shape = instruction.shape
        if (sized := shapes.get(id(shape))) is None:
            sized = (str(shape), short_shape(shape, target), shape.padded_bytes, shape.logical_bytes)
            shapes[id(shape)] = sized
        origin = origins.own(instruction)
        step = schedule.steps.get(instruction)
        is_unknown = bool(costs.get(UNKNOWN_COST))
        called = tuple([computations[each] for each in instruction.called_computations if each in computations])
        rows.append(
            (
                instruction.name,
                instruction.opcode,
                kinds[instruction],
                *sized[:2],
                computations[instruction.computation],
                tuple([numbers[operand] for operand in instruction.operands if operand in numbers]),
                control.get(instruction, ()),
                called,
                instruction.is_root,
                *sized[2:],
                UNKNOWN if is_unknown else round(costs[BYTES]),
                UNKNOWN if is_unknown else round(costs[FLOPS]),
                None if step is None else schedule.live[step],
                seconds.get(instruction),
                step,
                _literal(instruction),
                trip_count(instruction) if instruction.opcode == opcodes.WHILE else None,
                origin.source or None,
                origin.op_name or None,
                None,
                instruction in hidden.always,
                instruction in hidden.transfers,
                is_expandable(instruction),
            )
        )
    return listed, tuple(rows)


def short_shape(shape: Shape, target: str | None) -> str:
    """A shape without its layout but for the memory space, if it is not the main one.

    >>> from hlo_cli import parse_module
    >>> texts = ("f32[8,128]{1,0:T(8,128)S(1)}", "(f32[2], f32[3], f32[4])")
    >>> [short_shape(parse_module(f"r = {text} negate(p)").entry.root.shape, "tpu") for text in texts]
    ['f32[8,128] VMEM', '(f32[2], … 2 more)']
    """
    if isinstance(shape, ArrayShape):
        space = shape.layout.memory_space
        text = shape.to_string(layout=False)
        return f"{text} {space_name(space, target)}" if space else text
    leaves = [leaf for _, leaf in shape.leaves]
    if not leaves:
        return "()"
    first = short_shape(leaves[0], target) if isinstance(leaves[0], ArrayShape) else str(leaves[0])
    return f"({first}, … {len(leaves) - 1:,} more)" if len(leaves) > 1 else first


def is_expandable(instruction: Instruction) -> bool:
    """Whether a cluster in place of an instruction shows more than it: a fusion, loop, call, or async wrapper."""
    return instruction.opcode in _EXPANDED and any(
        len(called.instructions) > 1 for called in instruction.called_computations
    )


def _schedule(loaded: Loaded) -> _Schedule:
    """The memory analysis, which a part of a module or an incomplete text may not have."""
    from hlo_cli.commands.shared.compiler_memory import compiler_memory

    try:
        check_running(loaded.module)
        memory = compiler_memory(loaded)
    except HloError:
        return _Schedule({}, ())
    main = memory.space(0)
    return _Schedule(memory.positions, main.timeline if main is not None else [0] * len(memory.sequence))


def _seconds(module: Module, throughput: ChipSpec | None) -> Mapping[Instruction, float]:
    """The estimated time of each instruction on its own; that of a loop includes all that it runs."""
    if throughput is None:
        return {}
    from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
    from hlo_cli.analysis.schedule.step_time import estimate_time, path_seconds

    overlap = analyze_overlap(module)
    return path_seconds(estimate_time(overlap, throughput), overlap)


def _control(module: Module, numbers: Mapping[Instruction, int]) -> Mapping[Instruction, tuple[int, ...]]:
    """The control predecessors of the instructions that have any."""
    from hlo_cli.analysis.dataflow.post_order import control_predecessors

    found: dict[Instruction, tuple[int, ...]] = {}
    for computation in module.computations:
        listed = computation.instructions
        for at, before in control_predecessors(computation).items():
            found[listed[at]] = tuple(numbers[listed[n]] for n in before)
    return found


def _literal(instruction: Instruction) -> Cell:
    """A constant as text if it is short."""
    if instruction.opcode != opcodes.CONSTANT:
        return None
    text = instruction.raw[0].strip()
    return text if len(text) <= _MOST_LITERAL else None


def callers(computations: Sequence[Computation]) -> Mapping[Computation, Instruction]:
    """The first instruction that calls each computation."""
    found: dict[Computation, Instruction] = {}
    for computation in computations:
        for instruction in computation.instructions:
            for called in instruction.called_computations:
                found.setdefault(called, instruction)
    return found
