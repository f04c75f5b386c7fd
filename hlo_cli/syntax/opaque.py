"""Checks after every reader: malformed instructions become opaque before analyses see them.

Every module that was read, from text or proto, leniently or strictly, holds these invariants; analyses rely on them:

- an instruction has as many operands as its opcode takes, all defined before it in the same computation
- the tuple of a get-tuple-element, or of an operand `t#0`, has the element; a tuple has one operand per element
- an opcode that calls computations calls as many as it requires, each with a root and with matching parameters
  (a fusion may be given more)
- no computation calls itself, directly or not
- fusions are at most 50 deep in each other
- no array except a parameter or a constant has 2^63 or more elements or bytes

A text printed without operands, as in some logs, keeps its opcodes: there an instruction may have none.

An instruction that violates an invariant is kept, with its name, shape, operands, and text, and prints unchanged;
but its opcode ends in `?`, which matches no operation, so that code that looks for an operation never finds it.
Further checks of XLA's verifier, of shapes above all, belong to lint.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from math import prod
from typing import Final, NamedTuple

from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.opcodes import OPAQUE
from hlo_cli.ir.operation_table import ANY
from hlo_cli.ir.operations import ARGUMENT_OPCODES, EXACT_COUNTS, OPCODE_ARITY, OPERAND_COUNTS, takes, wrapped_opcode
from hlo_cli.ir.shape import ArrayShape, BufferShape, Shape, TupleShape, UnknownShape, subshape
from hlo_cli.source import counted

OPERAND_COUNT, TOO_FEW = "operand-count", "too-few-operands"
ELEMENT, ELEMENT_INDEX, CIRCLE = "element", "element-index", "circle"
CALLED, NOT_CALLED = "called-computations", "missing-call"
"""Codes of problems that other checks of a text may have reported already."""

MAX_NESTED_FUSIONS: Final = 50
"""XLA nests fusions two or three deep; what is inside of a fusion is often found by recursion."""

_SMALL, _BITS = 1 << 58, 128
"""A limit: this many elements of this many bits are less than 2^63 bytes."""


class Problem(NamedTuple):
    """The reason why an instruction is opaque: the code of a note, and the text after the name of the instruction."""

    code: str
    message: str


class Opaque(NamedTuple):
    """An instruction that became opaque, and the reason."""

    instruction: Instruction
    problem: Problem

    @property
    def message(self) -> str:
        """The message of the note.

        >>> from hlo_cli import parse_module
        >>> module = parse_module("ENTRY e { a = f32[8] parameter(0)  ROOT t = (f32[8]) tuple(a, a) }")
        >>> module.notes[0].message
        'tuple t: expected 1 operand, one per tuple element, found 2; analyses treat it as an unknown operation'
        """
        instruction = self.instruction
        name = f"{instruction.written_opcode} {instruction.name}"
        return f"{name}: {self.problem.message}; analyses treat it as an unknown operation"


def set_aside(
    suspects: Iterable[Instruction],
    callers: Iterable[Instruction],
    computations: Sequence[Computation],
    *,
    are_calls_whole: bool = True,
    unresolved: Container[Instruction] = (),
) -> tuple[Opaque, ...]:
    """Makes malformed instructions of a module opaque; only `suspects` and callers of computations are checked.

    Unless `are_calls_whole`, the number of called computations and of their parameters is not checked; it is not for
    `unresolved` callers, whose computations are not in the text.

    >>> from hlo_cli import parse_module
    >>> root = parse_module("ENTRY e { ROOT b = f32[8] bitcast() }").entry.root
    >>> root.opcode, root.written_opcode, str(root.computation.instructions)
    ('bitcast?', 'bitcast', '(<bitcast? b>,)')
    """
    callers = list(callers)
    broken = dict.fromkeys((*suspects, *(_may_be_broken(callers) if are_calls_whole else ())))
    opaque = [Opaque(instruction, problem) for instruction in broken if (problem := problem_with(instruction))]
    opaque = [
        each
        for each in opaque
        if (are_calls_whole and each.instruction not in unresolved) or each.problem.code not in (CALLED, NOT_CALLED)
    ]
    opaque += [Opaque(*circular) for circular in _calls_in_circles(callers, computations)]
    opaque += [Opaque(*nested) for nested in _nested_too_deeply(callers)]
    for instruction, _ in opaque:
        instruction.opcode = instruction.written_opcode + OPAQUE
    return tuple(opaque)


def _may_be_broken(callers: Iterable[Instruction]) -> Iterator[Instruction]:
    """The callers that need a full check; most are fusions, for which a quick one is enough.

    Other callers, such as reductions, often share a callee, which is checked once.
    """
    known: set[tuple[str, int, tuple[Computation, ...]]] = set()
    for caller in callers:
        opcode = caller.opcode
        if opcode == opcodes.FUSION:
            called = caller.called_computations
            if len(called) == 1 and len(called[0].parameters) <= len(caller.operands) and called[0].root is not None:
                continue
        elif opcode in OPCODE_ARITY and takes(opcode, len(caller.operands)):
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
    """The instructions of a computation that need a full check; `elements` are those that take elements, with indices.

    Operands that are not defined before them are removed.
    """
    counts = EXACT_COUNTS.get
    for instruction in instructions:
        operands, opcode = instruction.operands, instruction.opcode
        if operands and max(operand.index for operand in operands) >= instruction.index:
            instruction.operands = tuple(operand for operand in operands if operand.index < instruction.index)
            yield instruction
        elif counts(opcode) != len(operands) and (opcode in _CHECKED or not takes(opcode, len(operands))):
            yield instruction
    for index, instruction in elements:
        shape = instruction.operands[0].shape if instruction.operands else None
        if not isinstance(shape, TupleShape) or not 0 <= index < len(shape.elements):
            yield instruction


def problem_with(instruction: Instruction) -> Problem | None:
    """The invariant that an instruction violates, or None; without cycles of calls."""
    opcode, count = instruction.written_opcode, len(instruction.operands)
    if not takes(opcode, count):
        least, most = OPERAND_COUNTS[opcode]
        expected = f"{'at least ' if most == ANY else ''}{counted(least, 'operands')}"
        return Problem(OPERAND_COUNT if least == most else TOO_FEW, f"expected {expected}, found {count}")
    if opcode not in OPCODE_ARITY and count == 0 and wrapped_opcode(opcode) and not opcode.endswith("-start"):
        return Problem(TOO_FEW, "expected at least 1 operand, found 0")
    if any(operand.index >= instruction.index for operand in instruction.operands):
        return Problem("operand-order", "an operand is not defined before it")
    if opcode not in ARGUMENT_OPCODES and (size := oversized(instruction.shape)) is not None:
        return Problem("size", f"size of {size} exceeds 2^63 - 1 elements or bytes")
    rule = _RULES.get(opcode)
    return _taken_elements(instruction) or (rule(instruction) if rule is not None else None)


def oversized(shape: Shape) -> ArrayShape | None:
    """The first array of a shape that has 2^63 or more elements or bytes, or None."""
    if isinstance(shape, TupleShape):
        return next((problem for leaf in shape.distinct if (problem := oversized(leaf)) is not None), None)
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
        return Problem("missing-attribute", "missing attribute index")
    if not isinstance(shape, UnknownShape) and subshape(shape, (index,)) is None:
        return Problem(ELEMENT, f"{instruction.operands[0].name} has no element {index}")
    return None


def _tuple(instruction: Instruction) -> Problem | None:
    shape, count = instruction.shape, len(instruction.operands)
    if isinstance(shape, UnknownShape):
        return None
    if not isinstance(shape, TupleShape):
        return Problem(ELEMENT, f"expected a tuple shape, found {shape.to_string(layout=False)}")
    if len(shape.elements) != count:
        expected = counted(len(shape.elements), "operands")
        return Problem(ELEMENT, f"expected {expected}, one per tuple element, found {count}")
    return None


_Counts = Callable[[Instruction], tuple[int, int | None]]
"""The number of computations that an instruction calls, and of parameters of each; None if it is not fixed."""


def _calling(counts: _Counts) -> Callable[[Instruction], Problem | None]:
    def rule(instruction: Instruction) -> Problem | None:
        # fusions may have operands that the body does not use; other callers pass all
        least = 0 if instruction.written_opcode == opcodes.FUSION else ANY
        called, (calls, parameters) = instruction.called_computations, counts(instruction)
        if len(called) != calls:
            code = CALLED if len(called) > calls else NOT_CALLED
            return Problem(code, f"expected calls of {counted(calls, 'computations')}, found {len(called)}")
        for computation in called:
            if computation.root is None:
                return Problem(CALLED, f"{computation.name} has no result")
            if parameters is not None and (
                len(computation.parameters) > parameters or len(computation.parameters) < min(least, parameters)
            ):
                count = len(computation.parameters)
                return Problem(CALLED, f"{computation.name} has {counted(count, 'parameters')}, expected {parameters}")
        return None

    return rule


_one_for_each_operand = _calling(lambda i: (1, len(i.operands)))
_RULES: Final[dict[str, Callable[[Instruction], Problem | None]]] = {
    opcodes.GET_TUPLE_ELEMENT: _get_tuple_element,
    opcodes.TUPLE: _tuple,
    **dict.fromkeys(
        (opcodes.CALL, opcodes.FUSION, opcodes.MAP, opcodes.REDUCE, opcodes.REDUCE_WINDOW), _one_for_each_operand
    ),
    # of scalars, however many operands there are
    **dict.fromkeys((opcodes.ALL_REDUCE, opcodes.ALL_REDUCE_START, opcodes.REDUCE_SCATTER), _calling(lambda _: (1, 2))),
    opcodes.CONDITIONAL: _calling(lambda i: (len(i.operands) - 1, 1)),  # the first operand selects the branch
    opcodes.SCATTER: _calling(lambda i: (1, len(i.operands) - 1)),  # without the indices
    opcodes.SELECT_AND_SCATTER: _calling(lambda _: (2, 2)),  # select and scatter, each of two scalars
    opcodes.SORT: _calling(lambda i: (1, 2 * len(i.operands))),  # the comparator takes two elements of each operand
    opcodes.WHILE: _calling(lambda _: (2, 1)),  # condition and body, both of the state
}


_CHECKED: Final = frozenset(_RULES)


def _calls_in_circles(
    callers: Sequence[Instruction], computations: Sequence[Computation]
) -> Iterator[tuple[Instruction, Problem]]:
    """The calls that close a cycle, which are removed. There are none if callees come before their callers."""
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
                caller.called_computations = tuple(
                    computation for computation in caller.called_computations if computation is not called
                )
                yield caller, Problem(CIRCLE, f"recursive call of {called.name}")
            else:
                pending.append(following[1])


def _nested_too_deeply(callers: Sequence[Instruction]) -> Iterator[tuple[Instruction, Problem]]:
    """The fusions that are too deep in others, which lose their bodies; these begin to count anew."""
    fusions = [caller for caller in callers if caller.opcode == opcodes.FUSION]
    bodies = {called for fusion in fusions for called in fusion.called_computations}
    inside: dict[Computation, list[Instruction]] = {}
    for fusion in fusions:
        if fusion.computation in bodies:
            inside.setdefault(fusion.computation, []).append(fusion)
    if len(inside) < MAX_NESTED_FUSIONS:
        return
    level, pending = 0, dict.fromkeys(fusion for fusion in fusions if fusion.computation not in bodies)
    while pending:
        level += 1
        called = dict.fromkeys(computation for fusion in pending for computation in fusion.called_computations)
        if level > MAX_NESTED_FUSIONS:
            level = 0
            for fusion in pending:
                fusion.called_computations = ()
                yield fusion, Problem("nesting", f"fusions are nested too deeply (limit {MAX_NESTED_FUSIONS})")
        pending = dict.fromkeys(fusion for computation in called for fusion in inside.get(computation, ()))


def _calls_of(callers: Iterable[Instruction]) -> Iterator[tuple[Instruction, Computation]]:
    for caller in callers:
        for called in caller.called_computations:
            yield caller, called
