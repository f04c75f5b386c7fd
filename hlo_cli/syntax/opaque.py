"""The gate behind every reader: instructions that do not hold together become opaque before anybody else sees them.

What a module promises that was read, from text or from a proto, leniently or not; analyses and rewrites rely on it:

- an instruction has as many operands as its opcode takes, and all stand above it in the same computation
- the tuple that a get-tuple-element takes, or an operand as `t#0`, has the element; a tuple has one operand an element
- an opcode that calls computations calls as many as it must, each with a root and with the parameters that it is given
  (a fusion may be given more)
- no computation calls itself, directly or not
- no array but a parameter or a constant has 2^63 or more elements or bytes

A text that was printed without operands, as some logs are, keeps its opcodes: there an instruction may have none.

An instruction that breaks one of these is kept, with its name, shape, operands and text, and prints back unchanged; but
its opcode ends in `?`, which is that of no operation, so that whoever asks for an operation does not meet it. What
XLA's own verifier checks beyond this, shapes above all, is for lint to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod
from typing import Final, NamedTuple

from hlo_cli.ir import opcodes
from hlo_cli.ir.index_text import index_text
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.opcodes import OPAQUE
from hlo_cli.ir.operation import ANY
from hlo_cli.ir.operations import ARGUMENT_OPCODES, EXACT_COUNTS, OPCODE_ARITY, OPERAND_COUNTS, takes, wrapped_opcode
from hlo_cli.ir.shape import ArrayShape, BufferShape, Shape, TupleShape, UnknownShape, subshape

OPERAND_COUNT, TOO_FEW = "operand-count", "too-few-operands"
ELEMENT, ELEMENT_INDEX, CIRCLE = "element", "element-index", "circle"
CALLED, NOT_CALLED = "called-computations", "missing-call"
"""The codes of problems that other checks of a text may have told already."""

_SMALL, _BITS = 1 << 58, 128
"""So many elements of so many bits are less than 2^63 bytes."""


class Problem(NamedTuple):
    """Why an instruction is opaque: the code of a note, and what to say after the name of the instruction."""

    code: str
    message: str


class Opaque(NamedTuple):
    """An instruction that became opaque, and why."""

    instruction: Instruction
    problem: Problem

    @property
    def message(self) -> str:
        """What to say of it.

        >>> from hlo_cli import parse_module
        >>> module = parse_module("ENTRY e { a = f32[8] parameter(0)  ROOT t = (f32[8]) tuple(a, a) }")
        >>> module.notes[0].message
        'tuple t: its shape has 1 elements, there are 2 operands; analyses take it for an unknown operation'
        """
        instruction = self.instruction
        name = f"{instruction.written_opcode} {instruction.name}"
        return f"{name}: {self.problem.message}; analyses take it for an unknown operation"


def set_aside(
    suspects: Iterable[Instruction],
    callers: Iterable[Instruction],
    computations: Sequence[Computation],
    *,
    are_calls_whole: bool = True,
) -> tuple[Opaque, ...]:
    """Make opaque what does not hold together in a module; all that may not are `suspects`, or call computations.

    Unless `are_calls_whole`, nothing is said of how many computations are called, and with how many parameters.

    >>> from hlo_cli import parse_module
    >>> root = parse_module("ENTRY e { ROOT b = f32[8] bitcast() }").entry.root
    >>> root.opcode, root.written_opcode, str(root.computation.instructions)
    ('bitcast?', 'bitcast', '(<bitcast? b>,)')
    """
    callers = list(callers)
    broken = dict.fromkeys((*suspects, *(_may_be_broken(callers) if are_calls_whole else ())))
    found = [Opaque(instruction, problem) for instruction in broken if (problem := problem_with(instruction))]
    found = [each for each in found if are_calls_whole or each.problem.code not in (CALLED, NOT_CALLED)]
    found += [Opaque(*circular) for circular in _calls_in_circles(callers, computations)]
    for instruction, _ in found:
        instruction.opcode = instruction.written_opcode + OPAQUE
    return tuple(found)


def _may_be_broken(callers: Iterable[Instruction]) -> Iterator[Instruction]:
    """The callers for which a closer look is needed; most are fusions, for which a glance tells.

    Of the others many call the same, as reductions do.
    """
    known: set[tuple[str, int, tuple[Computation, ...]]] = set()
    for caller in callers:
        opcode = caller.opcode
        if opcode == opcodes.FUSION:
            called = caller.called_computations
            if len(called) == 1 and len(called[0].parameters) <= len(caller.operands) and called[0].root is not None:
                continue
        elif opcode in OPCODE_ARITY and (caller.operands or OPERAND_COUNTS[opcode][0] == 0):
            rule = _RULES.get(opcode)
            if rule is None or (same := (opcode, len(caller.operands), caller.called_computations)) in known:
                continue
            if rule(caller) is None:
                if caller.called_computations:
                    known.add(same)
                continue
        yield caller


def suspects_among(
    instructions: Iterable[Instruction], elements: Iterable[tuple[int, Instruction]]
) -> Iterator[Instruction]:
    """The instructions of a computation for which a closer look is needed; `elements` says which each one takes.

    Operands that do not stand above them are taken away.
    """
    counts = EXACT_COUNTS.get
    for instruction in instructions:
        operands, opcode = instruction.operands, instruction.opcode
        if operands and max(operand.index for operand in operands) >= instruction.index:
            instruction.operands = tuple(each for each in operands if each.index < instruction.index)
            yield instruction
        elif counts(opcode) != len(operands) and (opcode in _CHECKED or not takes(opcode, len(operands))):
            yield instruction
    for index, instruction in elements:
        shape = instruction.operands[0].shape if instruction.operands else None
        if not isinstance(shape, TupleShape) or not 0 <= index < len(shape.elements):
            yield instruction


def problem_with(instruction: Instruction) -> Problem | None:
    """What an instruction breaks of the promises above, or None; circles of calls aside."""
    opcode, count = instruction.written_opcode, len(instruction.operands)
    if not takes(opcode, count):
        least, most = OPERAND_COUNTS[opcode]
        wanted = f"{'at least ' if most == ANY else ''}{least} operand{'' if least == 1 else 's'}"
        return Problem(OPERAND_COUNT if least == most else TOO_FEW, f"expected {wanted}, found {count}")
    if opcode not in OPCODE_ARITY and count == 0 and wrapped_opcode(opcode) and not opcode.endswith("-start"):
        return Problem(TOO_FEW, "expected at least 1 operand, found 0")
    if any(operand.index >= instruction.index for operand in instruction.operands):
        return Problem("operand-order", "an operand does not stand above it")
    if opcode not in ARGUMENT_OPCODES and (size := oversized(instruction.shape)) is not None:
        return Problem("size", f"{size} has more than 2^63 - 1 elements or bytes")
    rule = _RULES.get(opcode)
    return _taken_elements(instruction) or (rule(instruction) if rule is not None else None)


def oversized(shape: Shape) -> ArrayShape | None:
    """The first array of a shape that has 2^63 or more elements or bytes, or None."""
    if isinstance(shape, TupleShape):
        return next((found for each in shape.distinct if (found := oversized(each)) is not None), None)
    array = shape.array if isinstance(shape, BufferShape) else shape
    if not isinstance(array, ArrayShape):
        return None
    is_small = 0 <= prod(array.dimensions) < _SMALL and array.layout.element_size_in_bits <= _BITS
    return array if not is_small and array.is_oversized else None


def _taken_elements(instruction: Instruction) -> Problem | None:
    taken = instruction.computation.operand_indices.get(instruction.index)
    for operand, index in zip(instruction.operands, taken, strict=True) if taken else ():
        if operand.shape != UnknownShape() and subshape(operand.shape, index) is None:
            return Problem(ELEMENT_INDEX, f"{operand.name} has no element {index_text(index)}")
    return None


def _get_tuple_element(instruction: Instruction) -> Problem | None:
    shape, index = instruction.operand_shape(0), instruction.integer("index")
    if index is None:
        return Problem("missing-attribute", "index is missing")
    if not isinstance(shape, UnknownShape) and subshape(shape, (index,)) is None:
        return Problem(ELEMENT, f"{instruction.operands[0].name} has no element {index}")
    return None


def _tuple(instruction: Instruction) -> Problem | None:
    shape, count = instruction.shape, len(instruction.operands)
    if isinstance(shape, UnknownShape):
        return None
    if not isinstance(shape, TupleShape):
        return Problem(ELEMENT, f"the shape of a tuple cannot be {shape.to_string(layout=False)}")
    if len(shape.elements) != count:
        return Problem(ELEMENT, f"its shape has {len(shape.elements)} elements, there are {count} operands")
    return None


_Counts = Callable[[Instruction], tuple[int, int | None]]
"""How many computations an instruction calls, and how many parameters each has; None where that is free."""


def _calling(counts: _Counts) -> Callable[[Instruction], Problem | None]:
    def rule(instruction: Instruction) -> Problem | None:
        least = 0 if instruction.written_opcode == opcodes.FUSION else ANY
        called, (calls, parameters) = instruction.called_computations, counts(instruction)
        if len(called) != calls:
            several = "1 computation" if calls == 1 else f"{calls} computations"
            code = CALLED if len(called) > calls else NOT_CALLED
            return Problem(code, f"expected calls of {several}, found {len(called)}")
        for each in called:
            if each.root is None:
                return Problem(CALLED, f"{each.name} has no result")
            if parameters is not None and (
                len(each.parameters) > parameters or len(each.parameters) < min(least, parameters)
            ):
                found = len(each.parameters)
                several = "1 parameter" if found == 1 else f"{found} parameters"
                return Problem(CALLED, f"{each.name} has {several}, expected {parameters}")
        return None

    return rule


_one_for_each_operand = _calling(lambda i: (1, len(i.operands)))
_RULES: Final[dict[str, Callable[[Instruction], Problem | None]]] = {
    opcodes.GET_TUPLE_ELEMENT: _get_tuple_element,
    opcodes.TUPLE: _tuple,
    **dict.fromkeys(
        (opcodes.CALL, opcodes.FUSION, opcodes.MAP, opcodes.REDUCE, opcodes.REDUCE_WINDOW), _one_for_each_operand
    ),
    **dict.fromkeys((opcodes.ALL_REDUCE, opcodes.ALL_REDUCE_START, opcodes.REDUCE_SCATTER), _calling(lambda _: (1, 2))),
    opcodes.CONDITIONAL: _calling(lambda i: (len(i.operands) - 1, 1)),
    opcodes.SCATTER: _calling(lambda i: (1, len(i.operands) - 1)),
    opcodes.SELECT_AND_SCATTER: _calling(lambda _: (2, 2)),
    opcodes.SORT: _calling(lambda i: (1, 2 * len(i.operands))),
    opcodes.WHILE: _calling(lambda _: (2, 1)),
}


_CHECKED: Final = frozenset(_RULES)


def _calls_in_circles(
    callers: Sequence[Instruction], computations: Sequence[Computation]
) -> Iterator[tuple[Instruction, Problem]]:
    """The calls that close a circle; they are taken away. Where callees stand above their callers there is none."""
    place = {computation: number for number, computation in enumerate(computations)}
    for caller in callers:
        below = place[caller.computation]
        if any(place[called] >= below for called in caller.called_computations):
            break
    else:
        return
    calls_in: dict[Computation, list[Instruction]] = {computation: [] for computation in computations}
    for caller in callers:
        calls_in[caller.computation].append(caller)
    done: set[Computation] = set()
    for computation in computations:
        path: dict[Computation, Iterator[tuple[Instruction, Computation]]] = {}
        pending = [computation] if computation not in done else []
        while pending:
            inside = pending[-1]
            calls = path.setdefault(inside, _calls_of(calls_in[inside]))
            following = next(((caller, called) for caller, called in calls if called not in done), None)
            if following is None:
                done.add(pending.pop())
                del path[inside]
            elif following[1] in path:
                caller, called = following
                caller.called_computations = tuple(each for each in caller.called_computations if each is not called)
                yield caller, Problem(CIRCLE, f"recursive call of {called.name}")
            else:
                pending.append(following[1])


def _calls_of(callers: Iterable[Instruction]) -> Iterator[tuple[Instruction, Computation]]:
    for caller in callers:
        for called in caller.called_computations:
            yield caller, called
