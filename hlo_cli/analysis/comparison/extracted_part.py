"""A part of a module that was extracted as a module: whether it computes what it computes in the whole."""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.analysis.comparison.compare import MODES, Distance, closeness, distance
from hlo_cli.analysis.comparison.comparison import RunComparison
from hlo_cli.analysis.evaluate.arguments import made_up_arguments
from hlo_cli.analysis.evaluate.device_choice import runs_on_devices
from hlo_cli.analysis.evaluate.run import evaluate
from hlo_cli.analysis.evaluate.settings import Limits
from hlo_cli.analysis.semantics.number_types import Array, Floats
from hlo_cli.analysis.semantics.values import Value, arrays_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError


class _FirstExecution:
    """Keeps the values of a computation, those of its operands included, when it runs for the first time."""

    def __init__(self, computation: Computation, wanted: frozenset[str]) -> None:
        self.values: dict[str, Value] = {}
        self._computation = computation
        self._wanted = wanted

    def __call__(self, instruction: Instruction, device: int, value: Value, operands: Sequence[Value]) -> None:
        """Looks at a value that was just computed."""
        if instruction.computation is not self._computation or instruction.name not in self._wanted:
            return
        for operand, given in zip(instruction.operands, operands, strict=True):
            self.values.setdefault(operand.name, given)
        self.values.setdefault(instruction.name, value)


def compare_part(
    module: Module, computation: Computation, part: Module, *, seed: int = 0, limits: Limits | None = None
) -> RunComparison:
    """Runs a module on made-up arguments, and a part of one of its computations on the values that it has there.

    The values are those of the first time that the computation runs. HloError as for `evaluate`, for modules of several
    devices, and if the computation does not run.

    >>> from hlo_cli import extract, parse_module
    >>> module = parse_module("ENTRY e { p = f32[2] parameter(0)  q = f32[2] negate(p)  ROOT r = f32[2] add(q, p) }")
    >>> part = extract(module, module.entry.root, operands=0)
    >>> compare_part(module, module.entry, part).verdict
    'identical'
    """
    if runs_on_devices(module):
        raise HloError("a part of a program of several devices cannot be run alone")
    root = part.entry.root
    assert root is not None
    exact, widened = (_both(module, computation, part, floats, seed, limits) for floats in MODES)
    found = [
        Distance(index, distance(old, new), closeness(old_wide, new_wide))
        for (index, old, new), (_, old_wide, new_wide) in zip(exact[0], widened[0], strict=True)
    ]
    return RunComparison(tuple(found), None, exact[1] + widened[1])


def _both(
    module: Module, computation: Computation, part: Module, floats: Floats, seed: int, limits: Limits | None
) -> tuple[list[tuple[tuple[int, ...], Array, Array]], int]:
    """Each array of the results of the part, with its value in the whole and in the part; and executed instructions."""
    watched = _FirstExecution(computation, frozenset(each.name for each in part.entry.instructions))
    if computation is module.entry:
        arguments = made_up_arguments(module, seed=seed, floats=floats)
        watched.values |= {p.name: value for p, value in zip(module.entry.parameters, arguments, strict=True)}
    whole = evaluate(module, seed=seed, floats=floats, observe=watched, limits=limits)
    missing = [each.name for each in part.entry.parameters if each.name not in watched.values]
    if missing:
        raise HloError(f"{computation.name} does not run with the values of {missing[0]}")
    given = [watched.values[each.name] for each in part.entry.parameters]
    run = evaluate(part, given, floats=floats, limits=limits)
    root = part.entry.root
    assert root is not None
    expected = _expected(root, watched.values)
    old, new = (arrays_of(value, root.shape) for value in (expected, run.result))
    pairs = [(index, before, after) for (index, before, _), (_, after, _) in zip(old, new, strict=True)]
    return pairs, whole.executed + run.executed


def _expected(instruction: Instruction, values: dict[str, Value]) -> Value:
    """The value in the whole of an instruction of the part, through tuples and copies that were added to the part."""
    if instruction.name in values:
        return values[instruction.name]
    if instruction.opcode == opcodes.TUPLE:
        return tuple(_expected(each, values) for each in instruction.operands)
    if instruction.opcode == "copy":
        return _expected(instruction.operands[0], values)
    raise HloError(f"{instruction.name} does not run in the module")
