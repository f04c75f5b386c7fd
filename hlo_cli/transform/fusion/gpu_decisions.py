"""Why does XLA:GPU's priority fusion fuse two instructions or leave them apart, computed or as a dump has it?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final, NamedTuple

from hlo_cli.analysis.fusion import gpu_rules
from hlo_cli.analysis.fusion.gpu_model import LAUNCH, KernelBreakdown, KernelModel, KernelParts, KernelTime
from hlo_cli.analysis.fusion.gpu_rules import GpuFusionRules, can_be_fused, is_fusible_bitcast, is_triton
from hlo_cli.analysis.fusion.mutable_graph import MutableGraph, Node, mutable_graph_of
from hlo_cli.analysis.hardware.gpu_devices import gpu_device
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.compiler_messages import FusedStep, FusionProcess, PriorityStep
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.module import Module
from hlo_cli.transform.fusion.gpu_fusion import gpu_computations
from hlo_cli.transform.fusion.gpu_priority_fusion import UNDECIDED, PriorityFusion, Replay, identities_of
from hlo_cli.transform.rewriting import ModuleNames
from hlo_cli.transform.sugar import desugar

# --- decisions on a pair ---
# One decision of XLA:GPU's priority fusion in full: a producer, a consumer, and the times of their kernels.
#
# Mirrors `PriorityFusionQueue` of xla/backends/gpu/transforms/priority_fusion.cc and the estimates that its log has.


# Tuples and their elements are no kernels.
_NEVER_CONSUMERS: Final = frozenset((opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT))
# A bitcast costs nothing and a constant goes last, so no time decides on them.
_ALWAYS_FUSED: Final = frozenset((opcodes.BITCAST, opcodes.CONSTANT))
_NEVER_PRODUCERS: Final = _NEVER_CONSUMERS | {opcodes.PARAMETER, opcodes.CONSTANT, opcodes.BITCAST}


class UserTimes(NamedTuple):
    """A consumer of a producer: its time alone and with the producer fused into it, in ticks, or the reason against it.

    Times are None for what the model does not know.
    """

    name: str
    reason: str | None
    alone_ticks: int | None
    fused_ticks: int | None


@dataclass(frozen=True, slots=True)
class GpuPair:
    """A producer and a consumer at the time of the decision on them.

    `reason` is XLA's, against this consumer or against `blocker`, another one. Without a reason, `fused_ticks` and
    `unfused_ticks` are the times of the producer with all its users, in quarter nanoseconds. `kernels` are the parts
    of the producer, the consumer, and both in one kernel, None for those that the model does not know. Bitcasts and
    constants have no times: XLA fuses them wherever it may. `is_fused` if
    the pass fused the two; `emitted_in` is, instead of all that, the kernel that both are in.
    """

    producer: str
    consumer: str
    is_fused: bool = False
    reason: str | None = None
    blocker: str | None = None
    fused_ticks: int | None = None
    unfused_ticks: int | None = None
    kernels: tuple[KernelParts | None, KernelParts | None, KernelParts | None] = (None, None, None)
    uses: float = 1.0
    users: tuple[UserTimes, ...] = ()
    emitted_in: str | None = None


def pairs_of(module: Module, chip: str, names: Sequence[str], *, as_is: bool = False) -> list[GpuPair]:
    """Decisions on an instruction, or on a producer and a consumer in any order; empty if none reads the other.

    The pass is run first, unless the module is scheduled or taken `as_is`: `names` are of instructions before it, or of
    fusions that it makes. A decision is stated at the time at which the pass fused the two, else as it is at its end.
    HloError for a chip without figures.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { p = f32[9] parameter(0)  n = f32[9] negate(p)  ROOT s = f32[9] add(n, p) }"
    >>> pair, = pairs_of(parse_module(text), "h100", ("s", "n"))
    >>> pair.producer, pair.consumer, pair.is_fused, pair.fused_ticks, pair.unfused_ticks
    ('n', 's', True, 4010, 8010)
    """
    model = KernelBreakdown(gpu_device(chip))
    with no_garbage_collection():
        # A scheduled module is after the pass: its kernels are what was decided.
        is_fused = as_is or module.is_scheduled
        module = desugar(module)
        passing = ModuleNames(module)
        for home in gpu_computations(module):
            graph = mutable_graph_of(home, module.source.text)
            if is_fused:
                nodes = {node.name: {node} for node in graph.nodes if node.name in names}
                found = list(_pairs(graph, model, [nodes.get(name, set()) for name in names]))
            else:
                found = list(_pairs_in_pass(graph, model, passing, names))
            # The search ends where all names are, even if no decision is on them.
            if found or all(home.instruction(name) for name in names):
                return found
    return []


def may_be_made(name: str, module: Module) -> bool:
    """Whether a name that a module does not have can be that of a fusion that the pass makes in it.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("fusion = f32[9] negate(f32[9] a)")
    >>> [may_be_made(name, module) for name in ("fusion", "fusion.2", "fusion.x", "add")]
    [False, True, False, False]
    """
    # Priority fusion names each new fusion `fusion`, before RenameFusions.
    kind, _, number = name.partition(".")
    is_named_so = kind == opcodes.FUSION and (name == kind or number.isdecimal())
    return is_named_so and not module.is_scheduled and all(name != each.name for each in module.instructions)


def pairs_of_dump(module: Module, process: FusionProcess, chip: str, names: Sequence[str]) -> list[GpuPair]:
    """Decisions of the pass that wrote `process`, of the module before it; `names` are of instructions or fusions then.

    A decision is stated at the time at which the pass fused the two, else as it is at its end.
    """
    model = KernelBreakdown(gpu_device(chip))
    with no_garbage_collection():
        module = desugar(module)
        graphs = [mutable_graph_of(each, module.source.text) for each in gpu_computations(module)]
        return list(_pairs_in_dump(Replay(graphs, model, ModuleNames(module)), process, model, names))


def _pairs_in_dump(
    done: Replay, process: FusionProcess, model: KernelBreakdown, names: Sequence[str]
) -> Iterator[GpuPair]:
    holders = [{done.nodes[name]} if name in done.nodes else set[Node]() for name in names]
    steps = (step for step in process.steps if isinstance(step, FusedStep))
    for name, together in groupby(steps, key=lambda step: step.producer):
        fused = list(together)
        producer = done.nodes.get(name)
        consumers = [done.nodes[step.consumer] for step in fused if step.consumer in done.nodes]
        if producer is not None and (consumers_now := list(_fused_now(producer, consumers, holders))):
            rules = GpuFusionRules(model, done.graph_with(producer).root)
            yield from (_pair(model, rules, producer, consumer, is_fused=True) for consumer in consumers_now)
            # Of two names, the first decision on both is the answer.
            if len(holders) > 1:
                return
        for step in fused:
            first, second = producer, done.nodes.get(step.consumer)
            node = done.fuse(step)
            for each, wanted in zip(holders, names, strict=True):
                if node is not None and (first in each or second in each or step.fusion == wanted):
                    each.add(node)
    home = next((done.graph_with(node) for each in holders for node in each), None)
    if home is not None:
        yield from _pairs(home, model, holders)


def _fused_now(producer: Node, consumers: Sequence[Node], holders: Sequence[set[Node]]) -> Iterator[Node]:
    """The consumers into which a producer is fused now, if that is the decision on the held instructions."""
    # Bitcast users are passed over in fusing; they only count in times.
    users = [each for each in consumers if not is_fusible_bitcast(each)]
    if len(holders) == 1:
        yield from users if producer in holders[0] else ()
        return
    for one, other in ((0, 1), (1, 0)):
        if producer in holders[one] and (found := [each for each in users if each in holders[other]]):
            yield found[0]
            return


def _pairs_in_pass(
    graph: MutableGraph, model: KernelBreakdown, names: ModuleNames, wanted: Sequence[str]
) -> Iterator[GpuPair]:
    """Runs the pass up to the fusion of two instructions, or to its end."""
    fusion = PriorityFusion(graph, model, names, identities_of(graph)[0])
    holders = [{node for node in graph.nodes if node.name == name} for name in wanted]
    fusion.start()
    while (producer := fusion.next_producer()) is not None:
        consumers = fusion.consumers_of(producer)
        if consumers_now := list(_fused_now(producer, consumers, holders)):
            yield from (_pair(model, fusion.rules, producer, each, is_fused=True) for each in consumers_now)
            if len(holders) > 1:
                return
        made = len(fusion.fused)
        fusion.fuse_into(producer, consumers)
        for node, first, second in fusion.fused[made:]:
            for each, name in zip(holders, wanted, strict=True):
                if first in each or second in each or node.name == name:
                    each.add(node)
    # Constants are fused last, after the queue is empty.
    if not all(holders):
        fusion.fuse_constants()  # names of fusions that only constants make
        holders = [
            each or {node for node in graph.nodes if node.name == name}
            for each, name in zip(holders, wanted, strict=True)
        ]
    for pair in _pairs(graph, model, holders):
        is_open = not fusion.is_decided and pair.reason is None and pair.emitted_in is None
        yield replace(pair, reason=UNDECIDED) if is_open else pair


def _pairs(graph: MutableGraph, model: KernelBreakdown, holders: Sequence[set[Node]]) -> Iterator[GpuPair]:
    """Decisions on the nodes of a graph that hold the instructions of each name."""
    rules = GpuFusionRules(model, graph.root)
    left = [[node for node in each if node in graph.position] for each in holders]
    if len(left) > 1:
        if both := [node for node in left[0] if node in left[1]]:
            # Both are in one kernel already, so no decision is left on them.
            yield GpuPair(both[0].name, both[0].name, emitted_in=both[0].name)
            return
        edges = [(one, other) for one in left[0] for other in left[1]]
        edges += [(other, one) for one, other in edges]
    else:
        edges = [edge for node in left[0] for edge in _edges_of(node)]
    order = {node: place for place, node in enumerate(graph.nodes)}
    is_producer = _is_producer if len(left) == 1 else _has_a_decision
    edges = [edge for edge in edges if is_producer(edge[0]) and _is_read_by(*edge)]
    for producer, consumer in sorted(edges, key=lambda edge: (order[edge[0]], order[edge[1]])):
        yield _pair(model, rules, producer, consumer)


def _edges_of(node: Node) -> Iterator[tuple[Node, Node]]:
    """The pairs of a node with the kernels that it reads, and with those that read it."""
    yield from dict.fromkeys((_source(operand), node) for operand in node.operands)
    waiting = [node]
    while waiting:
        for user in waiting.pop().users:
            # Bitcasts are no kernels: the readers of one are the readers of its operand.
            if user.opcode == opcodes.BITCAST:
                waiting.append(user)
            elif user.opcode not in _NEVER_CONSUMERS:
                yield node, user


def _is_read_by(producer: Node, consumer: Node) -> bool:
    """Whether a node reads another, perhaps through bitcasts."""
    sources = (source for operand in consumer.operands for source in (operand, _source(operand)))
    return producer is not consumer and any(source is producer for source in sources)


def _source(node: Node) -> Node:
    """The node of whose result a node is a bitcast."""
    while node.opcode == opcodes.BITCAST:
        node = node.operands[0]
    return node


def _is_producer(node: Node) -> bool:
    return node.opcode not in _NEVER_PRODUCERS


def _has_a_decision(node: Node) -> bool:
    return node.opcode not in _NEVER_CONSUMERS and node.opcode != opcodes.PARAMETER


def _pair(
    model: KernelBreakdown, rules: GpuFusionRules, producer: Node, consumer: Node, *, is_fused: bool = False
) -> GpuPair:
    users = list(producer.users)
    reasons: dict[Node, str | None] = {
        user: rules.reason(producer, user) for user in users if not is_fusible_bitcast(user)
    }
    reason, blocker = reasons.get(consumer), None
    # XLA's reason if all users are bitcasts.
    if not reasons:
        reason = gpu_rules.ONLY_BITCASTS
    elif reason is None and not is_fused:
        other = next((user for user, why in reasons.items() if why is not None), None)
        if other is not None:
            reason, blocker = reasons[other], other.name
    # A consumer of a bitcast of the producer has no pair of its own.
    is_direct = consumer in users
    is_known = not any(map(is_triton, (producer, consumer)))
    parts = [model.parts_of(node) if is_known and can_be_fused(node) else None for node in (producer, consumer)]
    fused = unfused = together = None
    if is_direct and reasons.get(consumer) is None and is_known and None not in parts:
        together = model.fused_parts(producer, consumer)
    if reason is None and is_known and None not in parts and producer.opcode not in _ALWAYS_FUSED:
        # One launch for each kernel: users when fused, one more when apart (PriorityFusionQueue).
        fused = sum(LAUNCH + model.fused_time(producer, user).ticks for user in users)
        unfused = LAUNCH * (len(users) + 1) + model.time(producer).ticks + sum(model.time(u).ticks for u in users)
    utilization = model.work(consumer).utilization if together is not None else ()
    # A repeated operand is read by each of its uses.
    uses = sum(u for operand, u in zip(consumer.operands, utilization, strict=False) if operand is producer)
    return GpuPair(
        producer.name,
        consumer.name,
        is_fused,
        reason,
        blocker,
        fused,
        unfused,
        (parts[0], parts[1], together),
        uses,
        tuple(_user(model, producer, user, reasons.get(user)) for user in users),
    )


def _user(model: KernelBreakdown, producer: Node, user: Node, reason: str | None) -> UserTimes:
    is_known = can_be_fused(producer) and can_be_fused(user) and not is_triton(producer) and not is_triton(user)
    alone = model.time(user).ticks if is_known else None
    fused = model.fused_time(producer, user).ticks if is_known and reason is None else None
    return UserTimes(user.name, reason, alone, fused)


# --- kernels left apart in a dump ---
# Times of the kernels that priority fusion left apart, from its dump: the fusions are replayed, the times computed.


KernelTimes = tuple[KernelTime, KernelTime, KernelTime]


def kernels_of_dump(
    module: Module, process: FusionProcess, chip: str, producers: Collection[str]
) -> dict[str, tuple[int, dict[str, KernelTimes]]]:
    """For producers at the end of the pass that wrote `process`, of the module before it: the ticks that fusing saves,
    and for each consumer the times of the producer, of the consumer, and of both in one kernel.

    Producers of which the model does not know a consumer are missing.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { p = s8[2] parameter(0)  a = s8[2] not(p)  ROOT b = s8[2] not(a) }")
    >>> saved, times = kernels_of_dump(module, FusionProcess(()), "h100", ("a",))["a"]
    >>> saved, times["b"][2].emitter
    (3999, 'loop')
    """
    model = KernelModel(gpu_device(chip))
    kernels: dict[str, tuple[int, dict[str, KernelTimes]]] = {}
    with no_garbage_collection():
        module = desugar(module)
        graphs = [mutable_graph_of(each, module.source.text) for each in gpu_computations(module)]
        done = Replay(graphs, model, ModuleNames(module))
        for step in _steps_of(process, producers):
            done.fuse(step)
        for name in producers:
            producer = done.nodes.get(name)
            if producer is None or not _is_known(producer) or not all(map(_is_known, producer.users)):
                continue
            alone = model.time(producer)
            times = {user.name: (alone, model.time(user), model.fused_time(producer, user)) for user in producer.users}
            # Times of users with the producer replace times of users and of the producer, and one launch is saved.
            saved = LAUNCH + alone.ticks + sum(other.ticks - both.ticks for _, other, both in times.values())
            kernels[name] = saved, times
    return kernels


def _steps_of(process: FusionProcess, producers: Collection[str]) -> list[FusedStep]:
    """The fusions that made the producers and their consumers what they are at the end."""
    wanted = set(producers)
    for step in process.steps:
        if isinstance(step, PriorityStep) and step.producer in wanted:
            wanted.update(step.consumers)
    needed: list[FusedStep] = []
    # Backward: a fusion needs only the steps that made its parts.
    for each in reversed(process.steps):
        if isinstance(each, FusedStep) and each.fusion in wanted:
            wanted.update((each.producer, each.consumer))
            needed.append(each)
    return needed[::-1]


def _is_known(node: Node) -> bool:
    return can_be_fused(node) and not is_triton(node)
