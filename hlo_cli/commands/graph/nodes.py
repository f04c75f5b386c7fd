"""The nodes of a graph: a row for each instruction, with what it costs and how it is drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.cost.cost_analysis import main_costs_among
from hlo_cli.analysis.cost.counting import BYTES, FLOPS, RUN, Properties
from hlo_cli.analysis.cost.counting import UNKNOWN as UNKNOWN_COST
from hlo_cli.analysis.dataflow.executions import trip_count
from hlo_cli.analysis.graphs.views import DataflowGraph, Kind, kinds_of
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.origin.origins import Origins, origins_of
from hlo_cli.commands.graph.options import Heat
from hlo_cli.commands.modules.loading import Loaded, check_running
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.memory_space import space_name
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.report.table import UNKNOWN, Column, Row
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.hardware.chip_specs import ChipSpec

COLUMNS: Final = (
    Column("name", "name", "name", role="name"),
    Column("opcode", "opcode", "opcode", person=False),
    Column("kind", "kind", rank=6),
    Column("shape", "shape", "shape", rank=5),
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
    Column("step", "step", "step", person=False),
    Column("literal", "literal", person=False),
    Column("trips", "trips", "count", person=False),
    Column("source", "source", "source", rank=4),
    Column("op_name", "op_name", "op_name", person=False),
    Column("change", "change", "change", person=False),
    Column("is_hidden", "hidden", "flag", person=False),
    Column("is_transfer", "transfer", "flag", person=False),
    Column("expandable", "expandable", "flag", person=False),
)
_MOST_LITERAL: Final = 24
"""The longest constant that is a label."""


class NodeFacts:
    """What is known of the nodes of a graph; costs, times, and live bytes are computed when a row needs them."""

    def __init__(
        self, loaded: Loaded, graph: DataflowGraph, throughput: ChipSpec | None, old: Module | None = None
    ) -> None:
        """`old` is the module of removed nodes, if the graph compares two."""
        self._loaded, self._graph, self.throughput, self._old = loaded, graph, throughput, old
        self._target = target_of(loaded.module)
        self._labels: dict[int, tuple[str, str, int, int]] = {}

    def kind(self, node: int) -> Kind:
        """The kind of a node, by which it is colored."""
        return self._kinds[self._graph.instructions[node]]

    def sizes(self, node: int) -> tuple[str, str, int, int]:
        """The shape of a node in full and in short, and its bytes with and without padding."""
        shape = self._graph.instructions[node].shape
        if (sized := self._labels.get(id(shape))) is None:
            sized = (str(shape), short_shape(shape, self._target), shape.padded_bytes, shape.logical_bytes)
            self._labels[id(shape)] = sized
        return sized

    def literal(self, node: int) -> str | None:
        """A constant as text if it is short."""
        instruction = self._graph.instructions[node]
        if instruction.opcode != opcodes.CONSTANT:
            return None
        text = instruction.raw[0].strip()
        return text if len(text) <= _MOST_LITERAL else None

    def trips(self, node: int) -> int | None:
        """The trip count of a loop."""
        instruction = self._graph.instructions[node]
        return trip_count(instruction) if instruction.opcode == opcodes.WHILE else None

    def heat(self, nodes: Sequence[int], heat: Heat) -> Sequence[float | None]:
        """The number by which each node is colored; None if unknown."""
        match heat:
            case "bytes" | "flops":
                costs = self._costs(nodes)
                name = BYTES if heat == "bytes" else FLOPS
                return [None if cost.get(UNKNOWN_COST) else round(cost[name]) for cost in costs]
            case "padding":
                return [padded - data for _, _, padded, data in map(self.sizes, nodes)]
            case "live":
                return [self._live(node) for node in nodes]
            case "time":
                return [self._seconds.get(self._graph.instructions[node]) for node in nodes]

    def rows(self, nodes: Sequence[int]) -> tuple[Row, ...]:
        """The rows of nodes for `COLUMNS`."""
        return tuple([self._row(node, cost) for node, cost in zip(nodes, self._costs(nodes), strict=True)])

    def _row(self, node: int, cost: Properties) -> Row:
        graph = self._graph
        instruction = graph.instructions[node]
        shape, label, padded, data = self.sizes(node)
        is_unknown = bool(cost.get(UNKNOWN_COST))
        change = graph.changes.get(node)
        origins = self._old_origins if change == "removed" and self._old_origins is not None else self._origins
        origin = origins.own(instruction)
        return (
            instruction.name,
            instruction.opcode,
            self._kinds[instruction],
            shape,
            label,
            graph.computation[node],
            graph.operands[node],
            graph.control.get(node, ()),
            graph.calls.get(node, ()),
            instruction.is_root and change != "removed",
            padded,
            data,
            UNKNOWN if is_unknown else round(cost[BYTES]),
            UNKNOWN if is_unknown else round(cost[FLOPS]),
            self._live(node),
            self._seconds.get(instruction),
            self._schedule.steps.get(instruction),
            self.literal(node),
            self.trips(node),
            origin.source or None,
            origin.op_name or None,
            change,
            node in graph.hidden,
            node in graph.transfers,
            graph.is_expandable(node),
        )

    def _costs(self, nodes: Sequence[int]) -> Iterator[Properties]:
        return main_costs_among([self._graph.instructions[node] for node in nodes], rules=RUN)

    def _live(self, node: int) -> int | None:
        step = self._schedule.steps.get(self._graph.instructions[node])
        return None if step is None else self._schedule.live[step]

    @cached_property
    def _kinds(self) -> Mapping[Instruction, Kind]:
        return kinds_of((*self._graph.computations, *(self._old.computations if self._old is not None else ())))

    @cached_property
    def _origins(self) -> Origins:
        return origins_of(self._loaded.module)

    @cached_property
    def _old_origins(self) -> Origins | None:
        return None if self._old is None else origins_of(self._old)

    @cached_property
    def _schedule(self) -> _Schedule:
        """The memory analysis, which a part of a module or an incomplete text may not have."""
        from hlo_cli.commands.shared.compiler_memory import compiler_memory

        try:
            check_running(self._loaded.module)
            memory = compiler_memory(self._loaded)
        except HloError:
            return _Schedule({}, ())
        main = memory.space(0)
        return _Schedule(memory.positions, main.timeline if main is not None else [0] * len(memory.sequence))

    @cached_property
    def _seconds(self) -> Mapping[Instruction, float]:
        """The estimated time of each instruction on its own; that of a loop includes all that it runs."""
        if self.throughput is None:
            return {}
        from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
        from hlo_cli.analysis.schedule.step_time import estimate_time, path_seconds

        try:
            check_running(self._loaded.module)
            overlap = analyze_overlap(self._loaded.module)
        except HloError:
            return {}
        return path_seconds(estimate_time(overlap, self.throughput), overlap)


@dataclass(frozen=True, slots=True)
class _Schedule:
    """Steps of instructions, and the live bytes of the main memory at each."""

    steps: Mapping[Instruction, int]
    live: Sequence[int]


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
