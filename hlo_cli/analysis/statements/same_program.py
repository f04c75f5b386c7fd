"""Whether two modules compute the same: by the values of their results, or by the operations behind each op_name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import NAMING_ATTRIBUTES, attributes_with
from hlo_cli.ir.shape import ArrayShape, Shape

_IGNORED: Final = frozenset((*NAMING_ATTRIBUTES, *attributes_with("annotates")))
_INLINED: Final = frozenset((opcodes.FUSION, opcodes.CALL))
_MOVEMENT: Final = frozenset(
    (
        *(opcodes.PARAMETER, opcodes.CONSTANT, opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT, opcodes.BITCAST, opcodes.COPY),
        *(opcodes.RESHAPE, opcodes.TRANSPOSE, opcodes.BROADCAST, opcodes.CONVERT, opcodes.SLICE, opcodes.CONCATENATE),
        *(opcodes.PAD, opcodes.IOTA, opcodes.FUSION, opcodes.CALL, opcodes.WHILE, opcodes.CONDITIONAL),
    )
)
"""Opcodes that compilers add and remove while the operations stay the same."""
_MAX_VISITS: Final = 4
"""Visits of each instruction on average; nested calls could double the work at each level."""
_MAX_DEPTH: Final = 50
_MIN_NAMED: Final = 0.8
_OMITTED: Final = "..."

Key = tuple[object, ...]


def same_values(before: Module, after: Module) -> bool:
    """Whether the results are the same expressions of the same parameters, whatever is fused, copied, or called.

    False does not mean that they differ: compilers simplify, and texts omit constants.

    >>> from hlo_cli import parse_module
    >>> one = "ENTRY e { p = f32[9] parameter(0)  n = f32[9] negate(p)  ROOT r = f32[9] tanh(n) }"
    >>> two = '''f { q = f32[9] parameter(0)  m = f32[9] negate(q)  ROOT s = f32[9] tanh(m) }
    ... ENTRY e { p = f32[9] parameter(0)  ROOT k = f32[9] fusion(p), kind=kLoop, calls=f }'''
    >>> same_values(parse_module(one), parse_module(two))
    True
    >>> same_values(parse_module(one), parse_module(two.replace("tanh", "sine")))
    False
    """
    numbers = _Numbers()
    found = [numbers.of_module(module) for module in (before, after)]
    return found[0] is not None and found[0] == found[1]


def same_operations(before: Module, after: Module) -> float | None:
    """Share of the op_names behind which both modules have the same opcodes; None if too few operations are named.

    >>> from hlo_cli import parse_module
    >>> text = 'ENTRY e { p = f32[9] parameter(0)  ROOT r = f32[9] tanh(p), metadata={op_name="jit(f)/tanh"} }'
    >>> same_operations(parse_module(text), parse_module(text))
    1.0
    """
    old, new = _opcodes_by_name(before), _opcodes_by_name(after)
    if old is None or new is None:
        return None
    same = sum(old.get(name) == new.get(name) for name in old | new)
    return same / len(old | new)


def _has_effect(instruction: Instruction) -> bool:
    """Whether an instruction does more than computing its result, or gives another one each time."""
    if instruction.opcode == opcodes.CUSTOM_CALL:
        return (instruction.attribute("custom_call_has_side_effect") or "") == "true"
    return instruction.opcode in _EFFECTS


_EFFECTS: Final = frozenset(("infeed", "outfeed", "send", "recv", "rng", "rng-get-and-update-state"))


def changed_counts(before: Module, after: Module) -> tuple[tuple[str, int, int], ...] | None:
    """The operations of which one program has more than the other, with both numbers, the largest change first.

    Values count, not instructions: what fusions compute twice counts once. Conversions count, as they round; other
    instructions that only move elements do not, but for transposes if nothing else differs. None if calls are nested
    too deep to be counted.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { p = f32[9] parameter(0)  n = f32[9] negate(p)  ROOT r = f32[9] tanh(n) }"
    >>> changed_counts(parse_module(text), parse_module(text.replace("negate", "tanh")))
    (('negate', 1, 0), ('tanh', 1, 2))
    """
    counts: list[Counter[str]] = []
    for module in (before, after):
        numbers = _Numbers(is_lenient=True)
        if numbers.of_module(module) is None:
            return None
        counts.append(Counter(name_of_operation(each) for each in numbers.makers.values()))
    old, new = counts
    differing = sorted(
        ((name, old[name], new[name]) for name in old | new if old[name] != new[name]),
        key=lambda each: (-abs(each[2] - each[1]), each[0]),
    )
    told = [each for each in differing if each[0] not in _MOVEMENT or each[0] == opcodes.CONVERT]
    return tuple(told or (each for each in differing if each[0] == opcodes.TRANSPOSE))


def name_of_operation(instruction: Instruction) -> str:
    """The opcode, of a custom call with its target.

    >>> from hlo_cli import parse_module
    >>> name_of_operation(parse_module('ENTRY e { ROOT c = s8[] custom-call(), custom_call_target="f" }').entry.root)
    'custom-call f'
    """
    if instruction.opcode != opcodes.CUSTOM_CALL:
        return instruction.opcode
    target = (instruction.attribute("custom_call_target") or "").strip('"')
    return f"{opcodes.CUSTOM_CALL} {target}".rstrip()


def _opcodes_by_name(module: Module) -> dict[str, set[str]] | None:
    """Opcodes that compute, by op_name."""
    named: dict[str, set[str]] = {}
    unnamed = total = 0
    applied = _applied(module)
    for each in module.instructions:
        if each.opcode in _MOVEMENT or each.computation in applied:
            continue
        total += 1
        if name := each.metadata.op_name:
            named.setdefault(name, set()).add(each.opcode)
        else:
            unnamed += 1
    return named if named and unnamed <= (1 - _MIN_NAMED) * total else None


def _applied(module: Module) -> set[Computation]:
    """Computations that operations apply to elements, whose instructions are named as the compiler pleases."""
    return {
        called for each in module.instructions if each.opcode not in _MOVEMENT for called in each.called_computations
    }


class _Numbers:
    """Numbers of values: equal expressions have equal numbers.

    With `is_lenient`, values that cannot be known have numbers too: omitted constants of one shape have the same.
    `makers` has an instruction for each number.
    """

    __slots__ = ("_depth", "_numbers", "_tuples", "_visits", "is_lenient", "makers")

    def __init__(self, *, is_lenient: bool = False) -> None:
        self._numbers: dict[Key, int] = {}
        self._tuples: dict[int, tuple[int, ...]] = {}
        self._visits = 0
        self._depth = 0
        self.is_lenient = is_lenient
        self.makers: dict[int, Instruction] = {}

    def of_module(self, module: Module) -> int | None:
        """The number of the result, None if it is not known: effects besides results are not compared."""
        if not self.is_lenient and any(map(_has_effect, module.instructions)):
            return None
        self._visits = _MAX_VISITS * sum(1 for _ in module.instructions)
        return self._of_computation(module.entry, None)

    def _of_computation(self, computation: Computation, given: Sequence[int] | None) -> int | None:
        if self._depth > _MAX_DEPTH:
            return None
        self._depth += 1
        values: dict[Instruction, int] = {}
        for each in computation.instructions:
            self._visits -= 1
            operands = [values.get(operand) for operand in each.operands]
            known = [operand for operand in operands if operand is not None]
            number = self._of(each, known, given) if len(known) == len(operands) and self._visits > 0 else None
            if number is None:
                return None
            values[each] = number
            self.makers.setdefault(number, each)
        self._depth -= 1
        return values.get(computation.root) if computation.root is not None else None

    def _of(self, each: Instruction, operands: list[int], given: Sequence[int] | None) -> int | None:
        match each.opcode:
            case opcodes.PARAMETER if given is not None:
                number = each.parameter_number
                return given[number] if number is not None and number < len(given) else None
            case opcodes.PARAMETER:
                return self._number((each.opcode, each.parameter_number, _logical(each.shape)))
            case opcodes.CONSTANT:
                is_known = self.is_lenient or _OMITTED not in each.raw[0]
                return self._number((each.opcode, each.raw[0], _logical(each.shape))) if is_known else None
            case opcodes.COPY:
                return operands[0]
            case opcodes.BITCAST | opcodes.RESHAPE if each.shape == each.operands[0].shape:
                return operands[0]
            case opcodes.TUPLE:
                number = self._number((each.opcode, *operands))
                self._tuples[number] = tuple(operands)
                return number
            case opcodes.GET_TUPLE_ELEMENT if operands[0] in self._tuples:
                return self._tuples[operands[0]][each.integer("index") or 0]
            case _ if each.opcode in _INLINED and len(each.called_computations) == 1:
                return self._of_computation(each.called_computations[0], operands)
            case _:
                return self._of_operation(each, operands)

    def _of_operation(self, each: Instruction, operands: list[int]) -> int | None:
        called = [self._of_computation(computation, None) for computation in each.called_computations]
        if None in called:
            return None
        settings = tuple(pair for pair in each.pairs if pair[0] not in _IGNORED)
        config = each.attribute("backend_config") if each.opcode == opcodes.CUSTOM_CALL else None
        # The bytes of a bitcast stay in their places: what it does depends on both layouts.
        is_bitcast = each.opcode == opcodes.BITCAST
        layout = (each.shape, each.operands[0].shape) if is_bitcast and operands else _logical(each.shape)
        return self._number((each.opcode, layout, settings, config, *called, *operands))

    def _number(self, key: Key) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def _logical(shape: Shape) -> object:
    """A shape without layouts."""
    return tuple(
        (str(leaf.element_type), leaf.sizes) if isinstance(leaf, ArrayShape) else str(leaf) for _, leaf in shape.leaves
    )
