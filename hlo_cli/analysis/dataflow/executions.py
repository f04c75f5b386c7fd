"""How often does each computation run: in which context, in how many trips of a loop, and below which callers?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from hlo_cli.analysis.cache import cached_per_module
from hlo_cli.analysis.dataflow.dependencies import depth_first
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes, operations
from hlo_cli.ir.garbage import DeepCall, run_deep
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import ASYNC_CONTINUATIONS, wrapped_opcode
from hlo_cli.ir.shape import ShapeIndex
from hlo_cli.lazy_regex import lazy_regex

# --- contexts of computations ---
# Executed as control flow, embedded (applied per element), or fused.
#
# Mirrors xla/service/call_graph.cc and `GatherComputationsByAllocationType` of xla/service/buffer_assignment.cc.


Context = Literal["global", "embedded", "fused"]

CONTROL_FLOW: Final = operations.CONTROL_FLOW | {"call-start", "call-update", "call-done"}
"""Opcodes that execute the instructions of the computations that they call."""


@dataclass(frozen=True, slots=True)
class ComputationContexts:
    """The context of each computation reachable from the entry, and the callers of each.

    `global` computations are reached from the entry through control flow only, and execute instruction by
    instruction. `embedded` ones are applied, such as reducers, as are all computations that they reach. `fused` ones
    are bodies of fusions.
    """

    context_of: Mapping[Computation, Context]
    callers: Mapping[Computation, tuple[Instruction, ...]]


def contexts_of(module: Module) -> ComputationContexts:
    """Returns the contexts of a module's computations.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m
    ... f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
    ... ENTRY e { p = f32[2] parameter(0) z = f32[] constant(0) ROOT r = f32[] reduce(p, z), to_apply=f }'''
    >>> list(contexts_of(parse_module(text)).context_of.values())
    ['embedded', 'global']
    """
    return cached_per_module(_contexts, module)


def _contexts(module: Module) -> ComputationContexts:
    """Computes the contexts from the entry downward."""
    context_of: dict[Computation, Context] = {module.entry: "global"}
    callers: dict[Computation, dict[Instruction, None]] = {}
    waiting = [module.entry]
    while waiting:
        computation = waiting.pop()
        for caller in computation.instructions:
            for called in caller.called_computations:
                callers.setdefault(called, {})[caller] = None
                context = _context_of_callee(caller, context_of[computation])
                # buffer_assignment.cc rejects a computation that is both; here the global context wins.
                if called not in context_of or (context_of[called] == "embedded" and context == "global"):
                    context_of[called] = context
                    waiting.append(called)
    ordered = {computation: context_of[computation] for computation in module.computations if computation in context_of}
    return ComputationContexts(ordered, {computation: tuple(calling) for computation, calling in callers.items()})


def _context_of_callee(caller: Instruction, around: Context) -> Context:
    """Returns the context of a computation from its caller and the caller's own context."""
    if caller.opcode == opcodes.FUSION:
        return "fused"
    return around if caller.opcode in CONTROL_FLOW and around != "fused" else "embedded"


# --- trip counts of loops ---
# Mirrors xla/service/while_loop_analysis.h.


# XLA prints int64 as a JSON string; older dumps have a bare number. 18 digits are always within int64; more, or a
# number with an exponent, is no trip count.
_KNOWN_TRIP_COUNT: Final = lazy_regex(r'"known_trip_count":\{"n":"?([0-9]{1,18})(?![0-9.eE])')
# What XLA:GPU and TPU put between a counter and its use; a reshape or convert keeps the integer.
_FORWARDING_OPCODES: Final = frozenset(
    (opcodes.COPY, opcodes.BITCAST, opcodes.COPY_START, opcodes.COPY_DONE, opcodes.CONVERT, opcodes.RESHAPE)
)
_MIRRORED_DIRECTION: Final = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "NE": "NE", "EQ": "EQ"}
_MAX_STEPS: Final = 100  # far longer than chains of compilers; the bound is for circles in damaged texts
"""Limit on the number of forwarding instructions to follow."""

Place = tuple[Instruction, ShapeIndex]
"""An instruction and an index of its shape."""


@dataclass(frozen=True, slots=True)
class _Condition:
    """The loop condition: carried element `index` compared with a constant `limit`."""

    index: int
    direction: str
    limit: int


def trip_count(loop: Instruction) -> int | None:
    """Returns the trip count of a while loop, or None if it depends on computed values.

    Reads `known_trip_count` from backend_config, else derives it from the induction variable: initial value, step,
    and condition.

    >>> from hlo_cli import parse_module
    >>> module = parse_module('''HloModule m
    ... c { p = (s32[]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(9)
    ...     ROOT r = pred[] compare(i, n), direction=LT }
    ... b { p = (s32[]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(2)
    ...     j = s32[] add(i, n) ROOT r = (s32[]) tuple(j) }
    ... ENTRY e { z = s32[] constant(0) t = (s32[]) tuple(z) ROOT w = (s32[]) while(t), condition=c, body=b }''')
    >>> trip_count(module.entry.root)
    5
    """
    if (known := _KNOWN_TRIP_COUNT.search(loop.attribute("backend_config") or "")) is not None:
        return int(known[1])
    if len(loop.called_computations) != 2 or len(loop.operands) != 1:
        return None
    body, condition = loop.called_computations
    test = _condition_of(condition)
    if test is None:
        return None
    begin = (loop.operands[0], (*loop.operand_index(0), test.index))
    start, step = _constant_at(begin), _step_of(body, test.index)
    return _iterations(start, step, test) if start is not None and step else None


def _iterations(start: int, step: int, test: _Condition) -> int | None:
    """Returns the number of values from `start` by `step` that meet the condition, None if it is unsupported."""
    limit, direction = test.limit, test.direction
    # Counting down is counting up on the mirrored axis.
    if step < 0:
        start, step, limit, direction = -start, -step, -limit, _MIRRORED_DIRECTION[direction]
    if direction == "LE":
        limit, direction = limit + 1, "LT"
    # Only if the counter meets the limit exactly; else the loop runs until it overflows.
    if direction == "NE" and start <= limit and (limit - start) % step == 0:
        direction = "LT"
    return max(-((start - limit) // step), 0) if direction == "LT" else None


def _condition_of(condition: Computation) -> _Condition | None:
    """Returns the condition of a loop, or None if it is not a comparison with a constant."""
    root = condition.root
    outer: Instruction | None = None
    if root is not None and root.opcode == opcodes.FUSION and root.called_computations:
        outer, root = root, root.called_computations[0].root
    if root is None or root.opcode != opcodes.COMPARE or len(root.operands) != 2:
        return None
    direction = root.attribute("direction") or ""
    left, right = (_outside_fusion(_operand_place(root, position), outer) for position in (0, 1))
    # The counter may be on either side of the comparison.
    for counter, limit, comparison in ((left, right, direction), (right, left, _MIRRORED_DIRECTION.get(direction, ""))):
        index, value = _carried_index(counter), _constant_at(limit)
        if index is not None and value is not None and comparison:
            return _Condition(index, comparison, value)
    return None


def _step_of(body: Computation, index: int) -> int | None:
    """Returns the constant that a body adds to a carried element, or None."""
    if body.root is None:
        return None
    added, rest = _origin((body.root, (index,)))
    outer: Instruction | None = None
    if added.opcode == opcodes.FUSION and added.called_computations and added.called_computations[0].root is not None:
        outer, (added, rest) = added, _origin((added.called_computations[0].root, rest))
    if rest or added.opcode not in ("add", opcodes.SUBTRACT) or len(added.operands) != 2:
        return None
    left, right = (_outside_fusion(_operand_place(added, position), outer) for position in (0, 1))
    if added.opcode == "add" and _carried_index(left) != index:
        left, right = right, left
    step = _constant_at(right)
    if _carried_index(left) != index or step is None:
        return None
    return step if added.opcode == "add" else -step


def _outside_fusion(place: Place, outer: Instruction | None) -> Place:
    """Replaces a parameter of a fused computation by the operand of the fusion."""
    instruction, index = _origin(place)
    number = instruction.parameter_number
    if outer is None or number is None or number >= len(outer.operands):
        return place
    return outer.operands[number], (*outer.operand_index(number), *index)


def _carried_index(place: Place) -> int | None:
    """Returns the index of the carried element at a place, or None."""
    instruction, index = _origin(place)
    return index[0] if instruction.opcode == opcodes.PARAMETER and len(index) == 1 else None


def _constant_at(place: Place) -> int | None:
    """Returns the value of an integer constant, or None."""
    instruction, index = _origin(place)
    if instruction.opcode != opcodes.CONSTANT or index:
        return None
    argument = instruction.text.argument
    # int64 has at most 19 digits and a sign.
    return int(argument) if argument.removeprefix("-").isdecimal() and len(argument) < 20 else None


def _operand_place(instruction: Instruction, position: int) -> Place:
    """Returns the place of an operand."""
    return instruction.operands[position], instruction.operand_index(position)


def _origin(place: Place) -> Place:
    """Follows a place through copies, conversions, and tuples to its producer."""
    for _ in range(_MAX_STEPS):
        instruction, index = place
        if not instruction.operands:
            break
        if instruction.opcode == opcodes.GET_TUPLE_ELEMENT:
            number = instruction.attribute("index") or ""
            if not number.isdecimal() or len(number) > 9:
                break
            place = (instruction.operands[0], (*instruction.operand_index(0), int(number), *index))
        elif instruction.opcode == opcodes.TUPLE and index and index[0] < len(instruction.operands):
            place = (instruction.operands[index[0]], (*instruction.operand_index(index[0]), *index[1:]))
        elif instruction.opcode in _FORWARDING_OPCODES:
            place = (instruction.operands[0], (*instruction.operand_index(0), *index))
        else:
            break
    return place


# --- executions ---
# XLA has no counterpart: its cost analysis counts each computation once.


MAX_EXECUTIONS: Final = 10**18
"""Execution count from which on it is not plausible, even at a nanosecond per iteration."""


@dataclass(frozen=True, slots=True)
class Executions:
    """How often a computation runs per execution of the module.

    `count` is the product of the trip counts around it, summed over its callers. A loop of unknown trip count counts
    as one iteration; then, and for more than `MAX_EXECUTIONS`, `is_known` is False. With `in_branch`, a caller is in a
    branch of a conditional, or is the conditional: it may run less often, as `count` takes every branch as taken.
    """

    count: int = 0
    is_known: bool = True
    in_branch: bool = False

    @property
    def known(self) -> int | None:
        """The count, or None if a trip count is unknown.

        >>> Executions(7).known, Executions(7, is_known=False).known
        (7, None)
        """
        return self.count if self.is_known else None


NO_EXECUTIONS: Final = Executions()
"""Those of a computation that the entry does not reach."""


def executions_of(module: Module) -> Mapping[Computation, Executions]:
    """Executions of all computations that the entry reaches, in the order of the text.

    The body of a loop runs as often as its trip count, the condition once more, and callees of all other instructions
    once for each run of the caller: functions, branches, async computations, bodies of fusions, and reducers.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m  f { a = s8[9] parameter(0)  ROOT n = s8[9] not(a) }
    ... ENTRY e { p = s8[9] parameter(0)  c = s8[9] call(p), to_apply=f  ROOT d = s8[9] call(c), to_apply=f }'''
    >>> list(executions_of(parse_module(text)).values())
    [Executions(count=2, is_known=True, in_branch=False), Executions(count=1, is_known=True, in_branch=False)]
    """
    return cached_per_module(_executions, module)


def sequential_executions(module: Module) -> Mapping[Computation, Executions]:
    """Executions of the computations that run instruction by instruction: without bodies of fusions and reducers.

    >>> from hlo_cli import parse_module
    >>> text = '''f { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }
    ... ENTRY e { a = f32[2] parameter(0)  ROOT r = f32[2] fusion(a), kind=kLoop, calls=f }'''
    >>> [computation.name for computation in sequential_executions(parse_module(text))]
    ['e']
    """
    contexts = contexts_of(module).context_of
    return {each: runs for each, runs in executions_of(module).items() if contexts.get(each) == "global"}


def loop_runs(loop: Instruction) -> tuple[int, int] | None:
    """Runs of the body and of the condition per run of a loop; None if the trip count is unknown.

    >>> from hlo_cli import parse_module
    >>> config = 'backend_config={"known_trip_count":{"n":"7"}}'
    >>> loop_runs(parse_module(f"w = f32[] while(f32[] p), condition=c, body=b, {config}").entry.root)
    (7, 8)
    """
    trips = trip_count(loop)
    return None if trips is None else (trips, trips + 1)


def runs_per_call(caller: Instruction, called: Computation) -> int | None:
    """Runs of a computation per run of an instruction that calls it; None if a trip count is unknown.

    >>> from hlo_cli import parse_module
    >>> text = "f { ROOT a = s8[] parameter(0) }  ENTRY e { p = s8[] parameter(0)  ROOT c = s8[] call(p), to_apply=f }"
    >>> root = parse_module(text).entry.root
    >>> runs_per_call(root, root.called_computations[0])
    1
    """
    if caller.opcode != opcodes.WHILE:
        return 1
    runs = loop_runs(caller)
    return None if runs is None else runs[called in caller.called_computations[1:]]


def _executions(module: Module) -> Mapping[Computation, Executions]:
    """Computes the executions from the entry downward."""
    callees_first = depth_first(
        (module.entry,), lambda c: [called for i in c.instructions for called in i.called_computations]
    )
    executions = {module.entry: Executions(1)}
    for computation in reversed(list(callees_first)):
        around = executions[computation]
        for caller in computation.instructions:
            for called in caller.called_computations:
                before = executions.get(called, NO_EXECUTIONS)
                executions[called] = (
                    before if continues_async(caller) else _with_runs_of(before, around, caller, called)
                )
    return {computation: executions[computation] for computation in module.computations if computation in executions}


def continues_async(caller: Instruction) -> bool:
    """Returns whether an instruction is the update or the done of an async-start, which runs the computation for it.

    >>> from hlo_cli import parse_module
    >>> text = "p = s8[] parameter(0)  s = (s8[], s8[], u32[]) async-start(p), calls=f  ROOT d = s8[] async-done(s)"
    >>> module = parse_module("f { ROOT q = s8[] parameter(0) }  ENTRY e { " + text + " }")
    >>> [continues_async(each) for each in module.entry.instructions if each.operands]
    [False, True]
    """
    opcode = caller.opcode
    return opcode in ASYNC_CONTINUATIONS or (opcode.endswith(("-update", "-done")) and bool(wrapped_opcode(opcode)))


def _with_runs_of(before: Executions, around: Executions, caller: Instruction, called: Computation) -> Executions:
    """Adds the runs by one caller, which runs as often as the computation `around` it."""
    runs = runs_per_call(caller, called)
    never_runs = around.is_known and not around.count
    count = before.count + around.count * (1 if runs is None else runs)
    return Executions(
        min(count, MAX_EXECUTIONS),
        before.is_known and around.is_known and (runs is not None or never_runs) and count <= MAX_EXECUTIONS,
        before.in_branch or around.in_branch or caller.opcode == opcodes.CONDITIONAL,
    )


# --- the call tree ---


Kind = Literal["entry", "fused", "body", "condition", "branch", "called", "asynchronous", "applied", "unused"]

_KIND_OF_CALLER: Final[dict[str, Kind]] = {
    opcodes.FUSION: "fused",
    opcodes.CONDITIONAL: "branch",
    opcodes.CALL: "called",
    opcodes.ASYNC_START: "asynchronous",
    opcodes.ASYNC_UPDATE: "asynchronous",
    opcodes.ASYNC_DONE: "asynchronous",
}
# Computations that several callers share appear below each, which can double at every level.
_MAX_NODES: Final = 100_000
"""Limit on the size of the tree."""


@dataclass(frozen=True, slots=True)
class CallTreeNode:
    """A computation in the call tree, and its callees.

    `caller` is None for the entry. `branch` is the index of a branch of a conditional. `trips` is the trip count of a
    loop body, None if unknown or not a loop.
    """

    computation: Computation | None
    caller: Instruction | None = None
    branch: int | None = None
    trips: int | None = None
    children: tuple[CallTreeNode, ...] = ()


def computation_kinds(module: Module) -> dict[Computation, Kind]:
    """Returns the kind of each computation, by the first instruction that calls it."""
    kinds: dict[Computation, Kind] = {module.entry: "entry"}
    for instruction in module.instructions:
        for position, called in enumerate(instruction.called_computations):
            if called not in kinds:
                kinds[called] = _kind_of_callee(instruction, position)
    return {computation: kinds.get(computation, "unused") for computation in module.computations}


def loop_computations(module: Module) -> frozenset[Computation]:
    """Returns the bodies and conditions of loops, and all computations reachable from them.

    >>> from hlo_cli import parse_module
    >>> loop_computations(parse_module("r = f32[2] negate(f32[2] p)"))
    frozenset()
    """
    return _reached_from(module, (opcodes.WHILE,))


def asynchronous_computations(module: Module) -> frozenset[Computation]:
    """Returns the computations that async operations run, and all reachable from them: they run beside the program.

    >>> from hlo_cli import parse_module
    >>> asynchronous_computations(parse_module("r = f32[2] negate(f32[2] p)"))
    frozenset()
    """
    return _reached_from(module, (opcodes.ASYNC_START, "call-start"))


def _reached_from(module: Module, callers: Sequence[str]) -> frozenset[Computation]:
    """Returns the computations that instructions with these opcodes call, and all reachable from them."""
    waiting = [
        called for caller in module.instructions if caller.opcode in callers for called in caller.called_computations
    ]
    reached = set(waiting)
    while waiting:
        called = {each for instruction in waiting.pop().instructions for each in instruction.called_computations}
        waiting.extend(called - reached)
        reached |= called
    return frozenset(reached)


def call_tree(module: Module) -> CallTreeNode:
    """Returns the call tree of the entry; fused computations and reducers are omitted."""
    budget = iter(range(_MAX_NODES))
    return CallTreeNode(module.entry, children=run_deep(_children(module.entry, budget, set())))


def _kind_of_callee(caller: Instruction, position: int) -> Kind:
    """Returns the kind of the computation that `caller` calls at a position."""
    opcode = wrapped_opcode(caller.opcode) or caller.opcode
    if opcode == opcodes.WHILE:
        return "body" if position == 0 else "condition"
    if opcode == opcodes.CALL != caller.opcode:
        return "asynchronous"
    return _KIND_OF_CALLER.get(opcode, "applied")


def _children(
    computation: Computation, budget: Iterator[int], above: set[Computation]
) -> DeepCall[tuple[CallTreeNode, ...]]:
    """Returns the tree nodes of the callees of a computation; none if it is recursive, as only malformed ones are."""
    if computation in above:
        return ()
    above.add(computation)
    nodes: list[CallTreeNode] = []
    for instruction in computation.instructions:
        called = instruction.called_computations
        if not called or (kind := _kind_of_callee(instruction, 0)) in ("fused", "applied"):
            continue
        if instruction.opcode in ASYNC_CONTINUATIONS or next(budget, None) is None:
            continue
        if kind == "branch":
            branches: list[CallTreeNode] = []
            for number, branch in enumerate(called):
                below = yield _children(branch, budget, above)
                branches.append(CallTreeNode(branch, None, number, None, below))
            nodes.append(CallTreeNode(None, instruction, children=tuple(branches)))
        else:
            trips = trip_count(instruction) if kind == "body" else None
            below = yield _children(called[0], budget, above)
            nodes.append(CallTreeNode(called[0], instruction, None, trips, below))
    above.discard(computation)
    return tuple(nodes)
