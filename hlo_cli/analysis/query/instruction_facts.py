"""Facts about instructions that conditions can use: names, metadata, costs, and the instructions around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hlo_cli.analysis.cost.counting import Cost, Number
from hlo_cli.analysis.dataflow.dependencies import Users, reached, users_of
from hlo_cli.analysis.dataflow.executions import computation_kinds, loop_computations
from hlo_cli.analysis.partly_known import AtLeast
from hlo_cli.analysis.query.fields import FieldValue, Kind, Predicate
from hlo_cli.analysis.query.patterns import call_matcher, is_exact
from hlo_cli.ir.expressions import Call, Where
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import unquote
from hlo_cli.source import did_you_mean, nearest

ReadFact = Callable[[Instruction], FieldValue]
Function = Callable[[Where, Call], Predicate[Instruction]]


class InstructionFacts:
    """Properties of instructions; those that require a pass over the module are computed on first use."""

    def __init__(self, module: Module) -> None:
        """Prepares the facts; nothing is computed yet."""
        self._module = module
        self._users: dict[Computation, Users] = {}
        self._fused: frozenset[Computation] | None = None
        self._in_loops: frozenset[Computation] | None = None
        self._costs: Mapping[Instruction, Cost] | None = None

    def readers(self) -> dict[str, tuple[Kind, ReadFact]]:
        """Fields of instructions other than shapes."""
        return {
            "name": ("name", lambda i: i.name),
            "opcode": ("text", lambda i: i.opcode),
            "op_name": ("text", lambda i: i.metadata.op_name or None),
            "op_type": ("text", lambda i: i.metadata.op_type or None),
            "source": ("text", self._source),
            "line": ("count", self._line),
            "computation": ("name", lambda i: i.computation.name),
            "operands": ("names", lambda i: tuple([operand.name for operand in i.operands])),
            "users": ("names", lambda i: tuple([user.name for user in self._users_of(i)])),
            "called_computations": ("names", lambda i: tuple([called.name for called in i.called_computations])),
            "is_root": ("flag", lambda i: i.is_root),
            "is_entry": ("flag", lambda i: i.computation.is_entry),
            "fused": ("flag", self._is_fused),
            "loop": ("flag", self._is_in_loop),
            "flops": ("count", lambda i: _as_bound(cost := self._cost(i), cost.flops)),
            "transcendentals": ("count", lambda i: _as_bound(cost := self._cost(i), cost.transcendentals)),
            "bytes": ("bytes", lambda i: _as_bound(cost := self._cost(i), cost.bytes_accessed)),
            "intensity": ("count", lambda i: AtLeast(0) if (cost := self._cost(i)).unknown else cost.intensity),
        }

    def functions(self) -> dict[str, Function]:
        """Functions that take a name in parentheses."""
        return {
            "uses": self._uses,
            "calls": self._calls,
            "depends_on": lambda where, call: self._transitively(where, call, self._users_of),
            "feeds": lambda where, call: self._transitively(where, call, lambda instruction: instruction.operands),
        }

    def _uses(self, where: Where, call: Call) -> Predicate[Instruction]:
        test = call_matcher(where, call)
        self._matching(where, call)
        return lambda instruction: any(test(operand.name) for operand in instruction.operands)

    def _calls(self, where: Where, call: Call) -> Predicate[Instruction]:
        test = call_matcher(where, call)
        if is_exact(call):
            self._check_name(
                where, call, [computation.name for computation in self._module.computations], "computation"
            )
        return lambda instruction: any(test(called.name) for called in instruction.called_computations)

    def _transitively(
        self, where: Where, call: Call, next_to: Callable[[Instruction], tuple[Instruction, ...]]
    ) -> Predicate[Instruction]:
        """Whether an instruction is reachable by at least one step from the instructions of a name."""
        first = (other for instruction in self._matching(where, call) for other in next_to(instruction))
        return reached(first, next_to).__contains__

    def _matching(self, where: Where, call: Call) -> list[Instruction]:
        """Instructions that match a name or pattern; HloError if no instruction has the name."""
        test = call_matcher(where, call)
        found = [instruction for instruction in self._module.instructions if test(instruction.name)]
        if not found and is_exact(call):
            self._check_name(
                where, call, [instruction.name for instruction in self._module.instructions], "instruction"
            )
        return found

    def _check_name(self, where: Where, call: Call, names: Sequence[str], noun: str) -> None:
        name = call.argument.text.removeprefix("%")
        if name not in names:
            hint = did_you_mean(nearest(name, names))
            raise where.error(f"{noun} '{name}' not found in {self._module.name}", call.argument.span, hint)

    def _source(self, instruction: Instruction) -> str | None:
        location = self._module.location(instruction)
        return str(location) if location is not None else None

    def _line(self, instruction: Instruction) -> int | None:
        span = instruction.span
        return self._module.source.position(span.start).line if span is not None else None

    def _users_of(self, instruction: Instruction) -> tuple[Instruction, ...]:
        computation = instruction.computation
        if computation not in self._users:
            self._users[computation] = users_of(computation)
        return self._users[computation][instruction]

    def _cost(self, instruction: Instruction) -> Cost:
        if self._costs is None:
            from hlo_cli.analysis.cost.cost_analysis import cost_analysis

            self._costs = cost_analysis(self._module)
        return self._costs[instruction]

    def _is_fused(self, instruction: Instruction) -> bool:
        if self._fused is None:
            self._fused = frozenset(c for c, kind in computation_kinds(self._module).items() if kind == "fused")
        return instruction.computation in self._fused

    def _is_in_loop(self, instruction: Instruction) -> bool:
        if self._in_loops is None:
            self._in_loops = loop_computations(self._module)
        return instruction.computation in self._in_loops


def _as_bound(cost: Cost, value: Number) -> FieldValue:
    """Value of a cost, as a lower bound if a part of the cost is unknown."""
    return AtLeast(round(value)) if cost.unknown else round(value)


def attribute_reader(name: str) -> Callable[[Instruction], str | None]:
    """Reader of an attribute as text without quotes; parses only instructions whose text contains its name."""
    written = f"{name}="

    def read(instruction: Instruction) -> str | None:
        if written not in instruction.raw[1]:
            return None
        value = instruction.attribute(name)
        return unquote(value) if value is not None and value[0] in "\"'" and value[-1] == value[0] else value

    return read
