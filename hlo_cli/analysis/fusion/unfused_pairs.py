"""Why are two kernels not one: the rule against it and the traffic that it costs, or what XLA:GPU wrote of it?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from hlo_cli.analysis.cost.cost_analysis import NO_KERNELS, cost_analysis
from hlo_cli.analysis.cost.counting import Cost
from hlo_cli.analysis.dataflow.flat_schedule import is_end, is_start
from hlo_cli.analysis.fusion import cpu_rules as by
from hlo_cli.analysis.fusion.cpu_rules import SHIPPED, FusionDecider, FusionRules, Rule
from hlo_cli.analysis.fusion.mutable_graph import MutableGraph, Node, fusible_computations, is_fusible, mutable_graph_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.compiler_messages import FusedStep, FusionProcess, IneligibleStep, PriorityStep
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module

# --- pairs of kernels ---
# Producer–consumer pairs of separate kernels, and the memory traffic that one kernel for both would avoid.


# No kernels: their operand is the value that the consumer reads.
_PASSED_ON: Final = (opcodes.BITCAST, opcodes.GET_TUPLE_ELEMENT)


@dataclass(frozen=True, slots=True)
class KernelPair:
    """A kernel that reads the result of another one; `saved_bytes` is the traffic that one kernel would avoid."""

    producer: Instruction
    consumer: Instruction
    saved_bytes: int


def kernel_pairs(module: Module) -> tuple[KernelPair, ...]:
    """Pairs of kernels in the order of the text; values are followed through bitcasts and elements of tuples.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { p = s8[9] parameter(0) t = s8[9] abs(p) b = s8[3,3] bitcast(t) ROOT n = s8[3,3] negate(b) }"
    >>> [(pair.producer.name, pair.consumer.name, pair.saved_bytes) for pair in kernel_pairs(parse_module(text))]
    [('t', 'n', 18)]
    """
    with no_garbage_collection():
        costs = cost_analysis(module)
        text = module.source.text
        return tuple(
            pair
            for each in fusible_computations(module)
            for pair in _pairs_of_kernels(mutable_graph_of(each, text), costs)
        )


def saved_bytes(
    producer: Node, consumer: Node, operands: Sequence[Node], costs: Mapping[Instruction, Cost], *, users: int
) -> int:
    """Returns the bytes that the consumer no longer reads and the producer no longer writes, minus those read anew.

    `operands` are those of the consumer; a producer with one of its `users` is not computed on its own any more.
    """
    producer_cost, consumer_cost = costs[producer.instruction], costs[consumer.instruction]
    # By places: a consumer that uses the producer twice reads it twice by XLA's count.
    saved = sum(consumer_cost.operand_bytes(n) for n, node in enumerate(operands) if node is producer)
    if users == 1:
        saved += producer_cost.bytes_accessed
    # Reversed, so that of equal operands the first place is kept, at which XLA has the bytes.
    first = {node: n for n, node in reversed(list(enumerate(producer.operands)))}
    instead = sum(producer_cost.operand_bytes(n) for node, n in first.items() if node not in operands)
    return round(saved - instead)


def _pairs_of_kernels(graph: MutableGraph, costs: Mapping[Instruction, Cost]) -> Iterator[KernelPair]:
    origin = _origins(graph)
    read = {node: [origin[operand] for operand in node.operands] for node in graph.nodes if _is_kernel(node)}
    users: dict[Node, set[Node]] = {}
    for node in graph.nodes:
        if node.opcode not in _PASSED_ON:
            for operand in node.operands:
                users.setdefault(origin[operand], set()).add(node)
    for consumer, operands in read.items():
        for producer in dict.fromkeys(operands):
            if _is_kernel(producer):
                saved = saved_bytes(producer, consumer, operands, costs, users=len(users[producer]))
                yield KernelPair(producer.instruction, consumer.instruction, saved)


def _is_kernel(node: Node) -> bool:
    return node.opcode not in NO_KERNELS


def _origins(graph: MutableGraph) -> dict[Node, Node]:
    """The node that computes the value of each node, behind bitcasts and elements of tuples."""
    origin: dict[Node, Node] = {}
    for node in graph.nodes:
        path = [node]
        while path[-1] not in origin and path[-1].opcode in _PASSED_ON and path[-1].operands:
            path.append(path[-1].operands[0])
        found = origin.get(path[-1], path[-1])
        origin.update(dict.fromkeys(path, found))
    return origin


# --- pairs that a rule keeps apart ---
# Producer–consumer pairs that are not fused, the rule that forbids it, and the memory traffic that fusion would avoid.
#
# Mirrors the decisions of `ShouldFuse` of xla/service/cpu/cpu_instruction_fusion.cc.


@dataclass(frozen=True, slots=True)
class UnfusedPair:
    """Producer and consumer that are separate kernels; `saved_bytes` is the memory traffic that one kernel would avoid.

    If `rule.fuses`, no rule forbids the fusion.
    """

    producer: Instruction
    consumer: Instruction
    rule: Rule
    saved_bytes: int

    @property
    def words(self) -> str:
        """Message of the rule for this pair."""
        return self.rule.explain(self.producer.name, self.consumer.name)


def unfused_pairs(module: Module, rules: FusionRules = SHIPPED) -> tuple[UnfusedPair, ...]:
    """Producer–consumer pairs of separate kernels in the order of the text.

    A producer that is a fusion is represented by its root, which the pass met before it was fused. The start and the
    done of an async operation are no kernels that could be fused, so they are in no pair.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { p = f32[9] parameter(0)  t = f32[9] tanh(p)  ROOT b = f32[2,9] broadcast(t), dimensions={1} }"
    >>> pair, = unfused_pairs(parse_module(text))
    >>> pair.words, pair.saved_bytes
    ('t is expensive and b reads its elements more than once', 72)
    """
    with no_garbage_collection():
        costs = cost_analysis(module)
        return tuple(
            pair
            for each in fusible_computations(module)
            for pair in _pairs_kept_apart(mutable_graph_of(each, module.source.text), rules, costs)
        )


def _pairs_kept_apart(
    graph: MutableGraph, rules: FusionRules, costs: Mapping[Instruction, Cost]
) -> Iterator[UnfusedPair]:
    taken = {node: list(node.operands) for node in graph.nodes}
    seen_as = _unfused_roots(graph)
    decider = FusionDecider(rules, None if graph.root is None else seen_as[graph.root])
    for consumer, operands in taken.items():
        if not _may_be_fused(consumer):
            continue
        for producer in dict.fromkeys(operands):
            if _may_be_fused(producer):
                rule = _rule_of_nodes(decider, producer, consumer, seen_as)
                saved = saved_bytes(producer, consumer, operands, costs, users=len(producer.users))
                yield UnfusedPair(producer.instruction, consumer.instruction, rule, saved)


def rules_of_pairs(
    computation: Computation, rules: FusionRules = SHIPPED
) -> Callable[[Instruction, Instruction], Rule]:
    """Returns the function of a producer and its consumer that gives the rule for them, the same as in `unfused_pairs`.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { p = f32[9] parameter(0)  t = f32[9] tanh(p)  ROOT b = f32[2,9] broadcast(t), dimensions={1} }"
    >>> module = parse_module(text)
    >>> rules_of_pairs(module.entry)(module.instruction("t"), module.instruction("b")).name
    'expensive-reuse'
    """
    graph = mutable_graph_of(computation)
    nodes = {node.instruction: node for node in graph.nodes}
    seen_as = _unfused_roots(graph)
    decider = FusionDecider(rules, None if graph.root is None else seen_as[graph.root])
    return lambda producer, consumer: _rule_of_nodes(decider, nodes[producer], nodes[consumer], seen_as)


def _rule_of_nodes(decider: FusionDecider, producer: Node, consumer: Node, seen_as: Mapping[Node, Node]) -> Rule:
    # The pass saw operations, not the fusions it made of them, so the rules are asked about the roots.
    return _rule(decider, seen_as[producer], _unwrapped(consumer, seen_as))


def _may_be_fused(node: Node) -> bool:
    return _is_kernel(node) and not (is_start(node.instruction) or is_end(node.instruction))


def _unfused_roots(graph: MutableGraph) -> dict[Node, Node]:
    """Maps fusions to their roots as if these were not fused, and redirects the users to them."""
    # Only kLoop: output fusions are made in one step, and custom ones exist before the pass.
    seen_as = {node: _root_outside(node) if node.kind == "kLoop" else node for node in graph.nodes}
    for node in (*seen_as, *(alone for alone in seen_as.values() if alone not in seen_as)):
        node.operands = [seen_as.get(operand, operand) for operand in node.operands]
    return seen_as


def _unwrapped(fusion: Node, seen_as: Mapping[Node, Node]) -> Node:
    """Operation of a fusion that contains only one, as it was wrapped after the fusion pass; else the fusion."""
    # FusionWrapper runs after the fusion pass, so such a fusion was a bare operation there.
    is_one = fusion.body is not None and sum(1 for _ in fusion.body.operations) == 1
    return seen_as[fusion] if is_one else fusion


def _rule(decider: FusionDecider, producer: Node, consumer: Node) -> Rule:
    if not is_fusible(consumer):
        return by.CONSUMER_NOT_FUSIBLE
    if not is_fusible(producer):
        return by.PRODUCER_NOT_FUSIBLE
    rule = decider.rule(producer, consumer)
    # The pair is apart though no rule forbids it: with other users, XLA kept the producer for all of them.
    return by.NOT_ON_ALL_PATHS if rule.fuses and len(producer.users) > 1 else rule


def _root_outside(fusion: Node) -> Node:
    """Root of a fusion as a node of the outer computation, with the fusion's users."""
    if fusion.body is None:
        return fusion
    root = fusion.body.root
    outside = [fusion.operands[node.number] if node.opcode == opcodes.PARAMETER else node for node in root.operands]
    alone = Node(root.instruction, (), opcode=root.opcode)
    alone.operands, alone.users = outside, fusion.users
    return alone


# --- verdicts in the log of priority fusion ---
# What XLA:GPU's priority fusion decided last about each instruction, from the steps that it wrote.
#
# Mirrors `PriorityFusionQueue` of xla/backends/gpu/transforms/priority_fusion.cc: an update of a producer that waits in
# the queue states differences, any other update states times.


# Numbers that XLA appends to make names unique; more digits are part of a name.
_NUMBER: Final = re.compile(r"(?:\.clone|\.\d{1,18})\Z")
_MICRO: Final = 1e-6  # the log has microseconds, this house seconds
_LAUNCH_US: Final = 1.0
"""Differences count the launches of all new consumers, but not those of the consumers that are gone."""
_NAMELESS: Final = (opcodes.PARAMETER, opcodes.CONSTANT)
"""Instructions that later passes rename."""
_MAX_MEMBERS: Final = 1_000_000
"""Instructions of all fusions together that are kept; a dump that was made up could have many more."""
_MAX_CANDIDATES: Final = 64
"""Kernels that may have an instruction; a name that more of them share says nothing, and would take long."""


@dataclass(frozen=True, slots=True)
class FusionVerdict:
    """The last decision on a producer: the reason why it cannot be fused, or the times of both choices.

    The times, in seconds, are those of the producer and all its consumers: in one kernel for each consumer, or as
    separate kernels. They are None if there is a reason.
    """

    producer: str
    reason: str = ""
    fused_seconds: float | None = None
    unfused_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class FusionOutcome:
    """The state after the pass.

    `verdicts` are the last decisions on the producers that were not fused, by name. `members` are the instructions of
    each fusion that the pass made and kept, and `fused_into` the fusions of which an instruction became a part; it may
    also remain by itself, if bitcasts read it.
    """

    verdicts: Mapping[str, FusionVerdict]
    members: Mapping[str, tuple[str, ...]]
    fused_into: Mapping[str, tuple[str, ...]]


def fusion_outcome(process: FusionProcess) -> FusionOutcome:
    """Replays the steps of the pass.

    >>> steps = (
    ...     PriorityStep("a", ("b",), 2.0, 3.0),
    ...     PriorityStep("b", ("c",), 5.0, 3.0),
    ...     FusedStep("fusion", "a", "b"),
    ...     PriorityStep("fusion", ("c",), 6.0, 4.0),
    ... )
    >>> outcome = fusion_outcome(FusionProcess(steps))
    >>> outcome.fused_into["a"], outcome.members["fusion"], round(outcome.verdicts["fusion"].fused_seconds * 1e6)
    (('fusion',), ('a', 'b'), 6)
    """
    replay = _Replay()
    for step in process.steps:
        match step:
            case FusedStep():
                replay.fuse(step)
            case PriorityStep():
                replay.update(step)
            case IneligibleStep():
                replay.refuse(step)
    return replay.outcome()


def names_in_the_pass(
    outcome: FusionOutcome, kernels: Iterable[Instruction], after: Module | None = None
) -> dict[Instruction, str]:
    """Returns the name that each kernel of a later stage had after the pass, as far as it is known.

    Later passes rename fusions, but not the instructions in them: `after`, the module right after the pass, has both
    names. Without it, a fusion is that with whose instructions its own agree best, but for the numbers in their names,
    which copies in a fusion have of their own.

    >>> from hlo_cli import parse_module
    >>> text = '''f { p = f32[8] parameter(0) add.1.3 = f32[8] add(p, p) ROOT exp.0.1 = f32[8] exponential(add.1.3) }
    ... ENTRY e { p = f32[8] parameter(0) ROOT loop_fusion = f32[8] fusion(p), kind=kLoop, calls=f }'''
    >>> outcome = FusionOutcome({}, {"fusion.7": ("add.1.0", "exp.0.0"), "fusion.8": ("add.1.0",)}, {})
    >>> names_in_the_pass(outcome, parse_module(text).entry.instructions[1:])
    {<fusion loop_fusion>: 'fusion.7'}
    """
    alone = {name: (name,) for name in (*outcome.fused_into, *outcome.verdicts)}
    bases_of = {name: frozenset(map(_base, parts)) for name, parts in {**alone, **outcome.members}.items()}
    homes: dict[str, list[str]] = {}
    for home, bases in bases_of.items():
        for base in bases:
            homes.setdefault(base, []).append(home)
    gone = outcome.fused_into.keys() - outcome.verdicts.keys()
    inside = {} if after is None else _fusion_of_each(after)
    names: dict[Instruction, str] = {}
    for kernel in kernels:
        if kernel.opcode != opcodes.FUSION:
            best = next((name for name in (kernel.name, f"{kernel.name}.0") if name in bases_of), None)
        else:
            best = _same_fusion(kernel, inside, bases_of) or _most_alike(kernel, homes, bases_of, gone)
        if best is not None:
            names[kernel] = best
    return names


def _fusion_of_each(module: Module) -> dict[str, str]:
    """The name of the fusion that has an instruction, by the name of that."""
    return {name: fusion.name for fusion in module.instructions for name in _names_inside(fusion)}


def _names_inside(fusion: Instruction) -> list[str]:
    """The names in a fused computation, but for those of parameters and constants; empty for other instructions."""
    if fusion.opcode != opcodes.FUSION:
        return []
    inside = (each for called in fusion.called_computations for each in called.instructions)
    return [each.name for each in inside if each.opcode not in _NAMELESS]


def _same_fusion(fusion: Instruction, inside: Mapping[str, str], bases_of: Collection[str]) -> str | None:
    """The fusion of which most instructions are, if the pass wrote about it."""
    votes = Counter(inside[name] for name in _names_inside(fusion) if name in inside)
    best = max(votes, key=votes.__getitem__, default=None)
    return best if best in bases_of else None


def _most_alike(
    fusion: Instruction,
    homes: Mapping[str, Sequence[str]],
    bases_of: Mapping[str, frozenset[str]],
    gone: Collection[str],
) -> str | None:
    """The home that shares the largest part of the instructions in it or in a fusion.

    An instruction that was fused is the home of a single instruction only, which was wrapped in a fusion later.
    """
    bases = {_base(name) for name in _names_inside(fusion)}
    if fusion.name in bases_of and _base(fusion.name) in bases_of[fusion.name]:
        return fusion.name
    shared: Counter[str] = Counter()
    for base in bases:
        candidates = homes.get(base, ())
        if len(candidates) <= _MAX_CANDIDATES:
            shared.update(home for home in candidates if home not in gone or len(bases) == 1)

    def likeness(home: str) -> tuple[float, bool]:
        return shared[home] / (len(bases) + len(bases_of[home]) - shared[home]), home not in gone

    return max(shared, key=likeness, default=None)


def _base(name: str) -> str:
    """A name without the number that makes it unique."""
    return _NUMBER.sub("", name)


@dataclass(slots=True)
class _Replay:
    """`queued` are the producers whose next update states differences, `round` the fusions of the current producer.

    `times` are those of each producer, fused and apart in microseconds, and the number of its consumers.
    """

    verdicts: dict[str, FusionVerdict] = field(default_factory=dict)
    times: dict[str, tuple[float, float, int]] = field(default_factory=dict)
    queued: set[str] = field(default_factory=set)
    parts: dict[str, list[str]] = field(default_factory=dict)
    own_parts: set[str] = field(default_factory=set)
    fused_into: dict[str, dict[str, None]] = field(default_factory=dict)
    round: set[str] = field(default_factory=set)
    is_fusing: bool = False

    def fuse(self, step: FusedStep) -> None:
        """Fuses the producer into a consumer, which the fusion replaces."""
        if not self.is_fusing:
            self.round = set()
        self.is_fusing = True
        self.round.add(step.fusion)
        parts = self.parts.setdefault(step.fusion, [])
        if step.fusion != step.consumer:
            parts.append(step.consumer)
            self._end(step.consumer, step.fusion)
        # A consumer that was a fusion already keeps its name and its instructions, which the log does not list.
        elif not parts:
            self.own_parts.add(step.fusion)
        parts.append(step.producer)
        self._end(step.producer, step.fusion)

    def update(self, step: PriorityStep) -> None:
        """Records the times of a producer, or adds the differences to them."""
        self.is_fusing = False
        fused, unfused = step.fused_us, step.unfused_us
        if step.producer in self.queued and step.producer not in self.round:
            before = self.times[step.producer]
            # priority_fusion.cc prints differences after the first update; the launches are what its sums leave out.
            launches = len(step.consumers) - before[2] - len(self.round.intersection(step.consumers))
            fused, unfused = fused + before[0] + launches * _LAUNCH_US, unfused + before[1] + launches * _LAUNCH_US
        self.times[step.producer] = fused, unfused, len(step.consumers)
        # Negative priorities are not queued, so that their next update starts from nothing.
        (self.queued.add if unfused >= fused else self.queued.discard)(step.producer)
        self.verdicts[step.producer] = FusionVerdict(step.producer, "", fused * _MICRO, unfused * _MICRO)

    def refuse(self, step: IneligibleStep) -> None:
        """Records the reason why a producer cannot be fused."""
        self.is_fusing = False
        self.queued.discard(step.producer)
        self.verdicts[step.producer] = FusionVerdict(step.producer, step.reason)

    def outcome(self) -> FusionOutcome:
        """What is left at the end: producers that were fused have no verdict."""
        left = _MAX_MEMBERS
        members: dict[str, tuple[str, ...]] = {}
        for name in self.parts:
            if (name not in self.fused_into or name in self.verdicts) and left > 0:
                members[name] = self._members(name, left)
                left -= len(members[name])
        return FusionOutcome(self.verdicts, members, {name: tuple(into) for name, into in self.fused_into.items()})

    def _members(self, name: str, most: int) -> tuple[str, ...]:
        """The instructions that a fusion is made of, at most so many."""
        visited, waiting, members = {name}, [name], list[str]()
        while waiting and len(members) < most:
            part = waiting.pop()
            if part in self.own_parts or part not in self.parts:
                members.append(part)
            for other in self.parts.get(part, ()):
                if other not in visited:
                    visited.add(other)
                    waiting.append(other)
        return tuple(members)

    def _end(self, name: str, fusion: str) -> None:
        self.queued.discard(name)
        self.verdicts.pop(name, None)
        if name != fusion:
            self.fused_into.setdefault(name, {})[fusion] = None
