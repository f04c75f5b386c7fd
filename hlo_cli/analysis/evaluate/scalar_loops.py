"""Loops whose state is numbers, as functions of Python: a statement for each instruction instead of calls of numpy.

Such a loop takes a hundredth of the time. Results are those of the rules in `semantics`, bit by bit: integers wrap, f32
and bf16 are rounded after every instruction, and what Python computes otherwise is left to the rules. NaN has bits that
Python does not keep, so a loop that has one in its state goes on by the rules from where it was a number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from math import copysign, isfinite, nan, sqrt
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias, cast

import numpy as np

from hlo_cli.analysis.semantics.elementwise import ELEMENTWISE_RULES
from hlo_cli.analysis.semantics.rules import called, iterations_error
from hlo_cli.analysis.semantics.typed_values import Array, Floats, Kernel, Value, carrier
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.layout import PrimitiveType
from hlo_cli.ir.operations import BINARY, UNARY
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_cli.analysis.evaluate.host import Host

Number: TypeAlias = "bool | int | float"
Written: TypeAlias = "str | tuple[Written, ...]"
"""The text of a number, the name of a variable mostly; of a tuple, those of its elements."""
Advance: TypeAlias = Callable[[Value, int], "tuple[Value, int]"]
"""From the state and the count of iterations to those after all iterations that could be computed here."""
_Loop: TypeAlias = Callable[..., "tuple[int, int, int, tuple[Number, ...]]"]
"""A function that was written: of iterations at most, operations at most, and the numbers of the state.

It returns the iterations, the instructions and operations in loops and branches inside, and the numbers of the state.
"""

_MAX_INSTRUCTIONS: Final = 2_000  # Python compiles so many in some ten milliseconds
_MAX_DEPTH: Final = 6  # Python nests 20 blocks, and a loop within a branch takes two
_MAX_LEAVES: Final = 200  # chosen: they are the arguments of a function
_CHUNK: Final = 100_000
"""Instructions between two looks at the clock, some hundredths of a second."""


class Running(Protocol):
    """What a loop asks of the program that runs it."""

    floats: Floats
    max_iterations: int
    ran: set[Computation]
    host: Host

    @property
    def operations_left(self) -> int:
        """Scalar operations up to the limit."""

    def is_seen(self, computation: Computation) -> bool:
        """Whether values of a computation are observed or watched."""

    def kernel(self, instruction: Instruction, *, on_arrays: bool = False) -> Kernel:
        """The function that computes an instruction."""

    def operations_of(self, computation: Computation) -> int:
        """Scalar operations of one run of a computation, without those that it calls."""

    def count(self, steps: int, computation: Computation, operations: int = 0) -> None:
        """Counts executed instructions and their operations, and checks the time."""

    def check_time(self, computation: Computation) -> None:
        """Checks the time while a computation runs."""

    def constant_of(self, instruction: Instruction) -> Value:
        """The value of a constant."""


class _UnknownError(Exception):
    """Something in a loop that is left to the rules."""


class _LimitError(Exception):
    """A loop or a branch inside would pass the limit of operations: the rules say where."""


def scalar_loop(instruction: Instruction, program: Running) -> Advance | None:
    """The iterations of a while loop as one function; None if its state is not numbers, or something is unknown."""
    try:
        condition, body = called(instruction, "condition"), called(instruction, "body")
        shape = body.parameters[0].shape
        leaves = _leaves(shape)
        writer = _Writer(program)
        loop = writer.whole(condition, body, leaves, shape)
    except (_UnknownError, IndexError, RecursionError):
        return None
    return _advancing(_Made(loop, shape, leaves, body, writer.steps, writer.operations, tuple(writer.runs)), program)


class _Made(NamedTuple):
    """A loop as a function, with what one of its iterations counts beside loops and branches inside."""

    loop: _Loop
    shape: Shape
    leaves: Sequence[PrimitiveType]
    body: Computation
    steps: int
    operations: int
    runs: tuple[Computation, ...]


def _advancing(made: _Made, program: Running) -> Advance:
    carriers = [carrier(each, program.floats) for each in made.leaves]
    # A function cannot be interrupted: the time is looked at between its runs.
    chunk = max(1, _CHUNK // max(1, made.steps))

    def advance(state: Value, iterations: int) -> tuple[Value, int]:
        numbers = _numbers(state, carriers)
        if numbers is None:
            return state, iterations
        done = iterations
        while True:
            left = program.operations_left
            most = min(chunk, program.max_iterations - done, left // made.operations if made.operations else chunk)
            if most <= 0:
                break
            try:
                count, steps, operations, new = made.loop(most, left - most * made.operations, *numbers)
            except (_LimitError, ArithmeticError, ValueError):
                break
            # NaN has a sign and a payload, which depend on the order of operands.
            if any(each != each for each in new):
                break
            if not count:
                break
            program.ran.update(made.runs)
            program.count(count * made.steps + steps, made.body, count * made.operations + operations)
            done, numbers = done + count, new
            if count < most:
                break
        if done == iterations:
            return state, iterations
        arrays = iter([np.array(each, kind) for each, kind in zip(numbers, carriers, strict=True)])
        return _shaped(made.shape, arrays), done

    return advance


def _leaves(shape: Shape) -> list[PrimitiveType]:
    """The types of the numbers of a state."""
    found = [leaf for _, leaf in shape.leaves]
    if len(found) > _MAX_LEAVES or not found:
        raise _UnknownError
    return [_type_of(each) for each in found]


def _type_of(shape: Shape) -> PrimitiveType:
    """The type of a scalar."""
    if not isinstance(shape, ArrayShape) or shape.dimensions or shape.is_dynamic or shape.element_type.is_complex:
        raise _UnknownError
    return shape.element_type


def _numbers(state: Value, carriers: Sequence[np.dtype[np.generic]]) -> tuple[Number, ...] | None:
    """The numbers of a state; None if they are not of the types that they should have, or not numbers."""
    flat: list[Array] = []
    pending: list[Value] = [state]
    while pending:
        value = pending.pop()
        if isinstance(value, tuple):
            pending += reversed(value)
        elif value is None or value.shape != ():
            return None
        else:
            flat.append(value)
    if [each.dtype for each in flat] != list(carriers):
        return None
    numbers = tuple(each.item() for each in flat)
    return None if any(each != each for each in numbers) else numbers


def _shaped(shape: Shape, arrays: Iterator[Array]) -> Value:
    if isinstance(shape, TupleShape):
        return tuple(_shaped(each, arrays) for each in shape.elements)
    return next(arrays)


# --- what Python computes otherwise ---


def _quotient(x: int, y: int, lowest: int) -> int:
    """Toward zero; by zero: -1; the lowest number by -1: itself."""
    if not y:
        return -1
    found = abs(x) // abs(y)
    found = found if (x < 0) == (y < 0) else -found
    return lowest if found == -lowest else found


def _remainder(x: int, y: int) -> int:
    """With the sign of the dividend; by zero: the dividend."""
    if not y:
        return x
    found = abs(x) % abs(y)
    return -found if x < 0 else found


def _by_zero(x: float, y: float) -> float:
    return x * copysign(float("inf"), y) if x else nan


def _root(x: float) -> float:
    return nan if x < 0 else x


def _larger(x: float, y: float) -> float:
    """The larger of two numbers that are equal, or of which one is NaN: of zeros the positive one."""
    return x + y if x == y == 0 else y if y != y else x


def _smaller(x: float, y: float) -> float:
    return -(-x - y) if x == y == 0 else y if y != y else x


def _whole(x: float, low: int, high: int) -> int:
    """Toward zero, within bounds; NaN is 0."""
    return 0 if x != x else low if x <= low else high if x >= high else int(x)


_HELPERS: Final[Mapping[str, object]] = {
    "divided": _quotient,
    "remains": _remainder,
    "by_zero": _by_zero,
    "root": sqrt,
    "no_root": _root,
    "larger": _larger,
    "smaller": _smaller,
    "whole": _whole,
    "isfinite": isfinite,
    "LimitError": _LimitError,
    "nan": nan,
    "inf": float("inf"),
}
"""What written functions call."""


# --- loops as text ---


@dataclass(slots=True)
class _Block:
    """Lines of one depth, with what one run of them counts."""

    steps: int
    operations: int
    runs: list[Computation]


class _Writer:
    """Writes a loop as a function; `steps`, `operations`, and `runs` are those of an iteration without inner blocks."""

    def __init__(self, program: Running) -> None:
        self._program = program
        self._is_exact = program.floats == "exact"
        self._lines: list[str] = []
        self._indent = 1
        self._depth = 0
        self._names = 0
        self._written = 0
        self._known: dict[str, object] = dict(_HELPERS)
        self._block = _Block(0, 0, [])

    @property
    def steps(self) -> int:
        """Instructions that run in an iteration."""
        return self._block.steps

    @property
    def operations(self) -> int:
        """Scalar operations of an iteration."""
        return self._block.operations

    @property
    def runs(self) -> list[Computation]:
        """Computations that run in each iteration."""
        return self._block.runs

    def whole(self, condition: Computation, body: Computation, leaves: Sequence[PrimitiveType], shape: Shape) -> _Loop:
        """The function of a loop."""
        names = [f"s{at}" for at in range(len(leaves))]
        self._line("e = o = 0")
        self._line("for n in range(most):")
        self._indent += 1
        self._written_conditions(condition, names, shape)
        # What a condition counts before it ends the loop is counted by the rules, which ask it again.
        if any(line.lstrip().startswith("e += ") for line in self._lines):
            raise _UnknownError
        self._written_body(body, names, shape)
        self._indent -= 1
        self._lines += ["    else:", "        n = most", f"    return n, e, o, ({', '.join(names)},)"]
        head = f"def loop(most, left, {', '.join(names)}):"
        room, wide = bytearray(4), bytearray(8)
        self._known |= {"single": memoryview(room).cast("f"), "bits": memoryview(room).cast("I")}
        self._known |= {"double": memoryview(wide).cast("d"), "cell": np.frombuffer(room, np.float32).reshape(())}
        self._known |= {"wide_cell": np.frombuffer(wide, np.float64).reshape(())}
        exec(compile("\n".join([head, *self._lines]), "<loop>", "exec"), self._known)
        return cast("_Loop", self._known["loop"])

    def _written_conditions(self, condition: Computation, names: Sequence[str], shape: Shape) -> None:
        """Leaves the loop unless the condition holds."""
        if condition.root is None or not _are_alike(condition.parameters[0].shape, shape):
            raise _UnknownError
        if _type_of(condition.root.shape).kind != "pred":
            raise _UnknownError
        holds = self._run(condition, [_structured(shape, iter(names))])
        self._line(f"if not {_text(holds)}: break")

    def _written_body(self, body: Computation, names: Sequence[str], shape: Shape) -> None:
        """The new state."""
        if body.root is None or not _are_alike(body.root.shape, shape):
            raise _UnknownError
        values = _flat(self._run(body, [_structured(shape, iter(names))]))
        changed = [(name, value) for name, value in zip(names, values, strict=True) if name != value]
        if changed:
            self._line(f"{', '.join(n for n, _ in changed)} = {', '.join(v for _, v in changed)}")

    def _line(self, text: str) -> None:
        self._lines.append("    " * self._indent + text)

    def _new(self, text: str) -> str:
        """A variable with the value of a text."""
        self._names += 1
        self._line(f"v{self._names} = {text}")
        return f"v{self._names}"

    def _object(self, value: object) -> str:
        """The name of something that the function uses."""
        self._names += 1
        self._known[f"k{self._names}"] = value
        return f"k{self._names}"

    # --- computations ---

    def _run(self, computation: Computation, arguments: Sequence[Written]) -> Written:
        """The statements of a computation; its result."""
        program, root = self._program, computation.root
        self._written += len(computation.instructions)
        if root is None or self._written > _MAX_INSTRUCTIONS or program.is_seen(computation):
            raise _UnknownError
        if len(arguments) != len(computation.parameters):
            raise _UnknownError
        values: dict[Instruction, Written] = {}
        for each in computation.instructions:
            if each in program.host.skipped or program.host.has_meaning(each):
                raise _UnknownError
            if (number := each.parameter_number) is not None:
                values[each] = arguments[number]
                continue
            operands = [_element(values[o], each.operand_index(at)) for at, o in enumerate(each.operands)]
            values[each] = self._instruction(each, operands)
        # Parameters are no steps of the program.
        self._block.steps += len(computation.instructions) - len(computation.parameters)
        self._block.operations += program.operations_of(computation)
        self._block.runs.append(computation)
        return values[root]

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """Lines that run another number of times than those around them."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise _UnknownError
        outer, self._block = self._block, _Block(0, 0, [])
        self._indent += 1
        yield
        self._block = outer
        self._indent -= 1
        self._depth -= 1

    def _counted(self) -> None:
        """Counts what was written in this block, which begins anew."""
        block = self._block
        self._line(f"e += {block.steps}")
        self._line(f"o += {block.operations}")
        self._line("if o > left: raise LimitError")
        self._line(f"{self._object(self._program.ran.update)}({self._object(tuple(block.runs))})")
        self._block = _Block(0, 0, [])

    def _while(self, instruction: Instruction, operands: Sequence[Written]) -> Written:
        """A loop inside."""
        condition, body = called(instruction, "condition"), called(instruction, "body")
        shape = body.parameters[0].shape
        if not _are_alike(instruction.shape, shape) or not _are_alike(instruction.operand_shape(0), shape):
            raise _UnknownError
        names = [self._new(each) for each in _flat(operands[0])]
        count, most = self._new("0"), self._program.max_iterations
        self._line("while True:")
        with self._inside():
            self._line(f"{count} += 1")
            lines = len(self._lines)
            self._written_conditions(condition, names, shape)
            leave = self._lines.pop()
            if any(line.lstrip().startswith("e += ") for line in self._lines[lines:]):
                raise _UnknownError
            self._counted()
            self._lines.append(leave)
            error = f"{self._object(iterations_error)}({self._object(instruction)}, {most})"
            self._line(f"if {count} > {most}: raise {error}")
            self._written_body(body, names, shape)
            self._counted()
            self._line(f"if not {count} & 4095: {self._object(self._program.check_time)}({self._object(body)})")
        return _structured(shape, iter(names))

    def _conditional(self, instruction: Instruction, operands: Sequence[Written]) -> Written:
        """Branches inside: the last one for every index that is not one of the others."""
        branches = instruction.called_computations
        chosen, kind = _text(operands[0]), _type_of(instruction.operand_shape(0))
        results: list[str] = []
        count = len(_leaves(instruction.shape))
        if len(operands) != len(branches) + 1 or kind.kind == "float":
            raise _UnknownError
        self._names += count
        results = [f"v{self._names - at}" for at in range(count)]
        for at, branch in enumerate(branches):
            if branch.root is None or not _are_alike(branch.root.shape, instruction.shape):
                raise _UnknownError
            if not _are_alike(branch.parameters[0].shape, instruction.operand_shape(at + 1)):
                raise _UnknownError
            test = f"{chosen} == {at}" if kind.kind != "pred" else f"{chosen}" if at == 0 else f"not {chosen}"
            word = "else" if at and at == len(branches) - 1 else f"{'elif' if at else 'if'} {test}"
            self._line(f"{word if len(branches) > 1 else 'if True'}:")
            with self._inside():
                values = _flat(self._run(branch, [operands[at + 1]]))
                self._line(f"{', '.join(results)} = {', '.join(values)}")
                self._counted()
        return _structured(instruction.shape, iter(results))

    # --- instructions ---

    def _instruction(self, instruction: Instruction, operands: list[Written]) -> Written:
        opcode = instruction.opcode
        match opcode:
            case opcodes.CONSTANT:
                return self._constant(self._program.constant_of(instruction), _type_of(instruction.shape))
            case opcodes.TUPLE:
                return tuple(operands)
            case opcodes.GET_TUPLE_ELEMENT:
                return _element(operands[0], (instruction.integer("index") or 0,))
            case opcodes.CALL | opcodes.FUSION:
                return self._call(instruction, operands)
            case opcodes.WHILE:
                return self._while(instruction, operands)
            case opcodes.CONDITIONAL:
                return self._conditional(instruction, operands)
            case opcodes.BITCAST | opcodes.BROADCAST | opcodes.COPY | opcodes.RESHAPE | opcodes.TRANSPOSE:
                if not _are_alike(instruction.shape, instruction.operand_shape(0)):
                    raise _UnknownError
                return operands[0]
            case "opt-barrier":
                return operands[0] if len(operands) == 1 else tuple(operands)
        texts = [_text(each) for each in operands]
        kinds = [_type_of(instruction.operand_shape(at)) for at in range(len(operands))]
        return self._scalar(instruction, texts, kinds, _type_of(instruction.shape))

    def _call(self, instruction: Instruction, operands: Sequence[Written]) -> Written:
        [computation] = instruction.called_computations
        shapes = [each.shape for each in computation.parameters]
        given = [instruction.operand_shape(at) for at in range(len(operands))]
        if len(shapes) != len(given) or not all(map(_are_alike, shapes, given)):
            raise _UnknownError
        if computation.root is None or not _are_alike(computation.root.shape, instruction.shape):
            raise _UnknownError
        return self._run(computation, operands)

    def _constant(self, value: Value, kind: PrimitiveType) -> str:
        if value is None or isinstance(value, tuple):
            raise _UnknownError
        number = value.item()
        if number != number:
            return "nan"
        text = repr(number)
        return f"({text})" if text.startswith("-") else text

    def _scalar(self, instruction: Instruction, x: list[str], kinds: list[PrimitiveType], kind: PrimitiveType) -> str:
        """A statement of numbers."""
        opcode = instruction.opcode
        if kind.bits < 16 and kind.kind == "float" and self._is_exact:
            raise _UnknownError
        match opcode:
            case "compare":
                return self._compare(instruction, x, kinds, kind)
            case "select" if kinds[0].kind == "pred" and kinds[1:] == [kind, kind]:
                return self._new(f"{x[1]} if {x[0]} else {x[2]}")
            case "convert":
                return self._convert(x[0], kinds[0], kind)
            case "is-finite" if kind.kind == "pred" and kinds[0].kind == "float":
                return self._new(f"isfinite({x[0]})")
        if any(each is not kind for each in kinds):
            raise _UnknownError
        if opcode == "clamp":
            low = self._extreme("maximum", x[1], x[0], kind)
            return self._extreme("minimum", x[2], low, kind)
        if opcode in ("maximum", "minimum"):
            return self._extreme(opcode, x[0], x[1], kind)
        if kind.kind == "float":
            text = self._of_floats(opcode, x, kind)
            return self._rounded(text, kind) if text is not None else self._by_rule(instruction, x, kind)
        if kind.kind == "pred":
            if (text := _OF_BOOLEANS.get(opcode)) is None:
                raise _UnknownError
            return self._new(text.format(*x))
        text = _of_integers(opcode, x, kind)
        return self._wrapped(text, kind) if text is not None else self._by_rule(instruction, x, kind)

    def _compare(self, instruction: Instruction, x: list[str], kinds: list[PrimitiveType], kind: PrimitiveType) -> str:
        is_total = instruction.attribute("type") == "TOTALORDER" and kinds[0].kind == "float"
        sign = _SIGNS.get(instruction.attribute("direction") or "")
        if (
            is_total
            or sign is None
            or kinds[0] is not kinds[1]
            or kind.kind != "pred"
            or self._program.host.met is not None
        ):
            raise _UnknownError
        return self._new(f"{x[0]} {sign} {x[1]}")

    def _extreme(self, opcode: str, x: str, y: str, kind: PrimitiveType) -> str:
        sign, other = (">", "larger") if opcode == "maximum" else ("<", "smaller")
        if kind.kind != "float":
            return self._new(f"{x} if {x} {sign} {y} else {y}")
        return self._new(f"{x} if {x} {sign} {y} else {y} if {y} {sign} {x} else {other}({x}, {y})")

    def _of_floats(self, opcode: str, x: list[str], kind: PrimitiveType) -> str | None:
        """The text of an operation; None for one that numpy computes otherwise, or rounds otherwise."""
        if (text := _EXACT_OF_FLOATS.get(opcode)) is not None:
            return text.format(*x)
        if self._is_exact and kind.name not in ("bf16", "f32", "f64"):
            return None
        if (function := _FUNCTIONS.get(opcode)) is not None and kind.name != "bf16":
            cell = "cell" if self._is_exact and kind.name == "f32" else "wide_cell"
            self._line(f"{'single' if cell == 'cell' else 'double'}[0] = {x[0]}")
            self._line(f"{self._object(function)}({cell}, {cell})")
            return "single[0]" if cell == "cell" else "double[0]"
        text = _OF_FLOATS.get(opcode)
        return None if text is None else text.format(*x)

    def _rounded(self, text: str, kind: PrimitiveType) -> str:
        """A variable with a number of 64 bits that is rounded to a type."""
        if not self._is_exact or kind.name == "f64" or text == "single[0]":
            return self._new(text)
        self._line(f"single[0] = {text}")
        found = self._new("single[0]")
        if kind.name == "bf16":
            # Half of the last bit plus the bit itself rounds ties to even; NaN has no such bits.
            self._line(f"if {found} == {found}:")
            self._line("    b = bits[0]")
            self._line("    bits[0] = b + 32767 + (b >> 16 & 1) & 4294901760")
            self._line(f"    {found} = single[0]")
        return found

    def _wrapped(self, text: str, kind: PrimitiveType) -> str:
        """A variable with the low bits of an integer."""
        half = 1 << (kind.bits - 1)
        if kind.kind == "unsigned":
            return self._new(f"({text}) & {2 * half - 1}")
        found = self._new(text)
        self._line(f"if not -{half} <= {found} < {half}: {found} = ({found} + {half} & {2 * half - 1}) - {half}")
        return found

    def _convert(self, x: str, source: PrimitiveType, target: PrimitiveType) -> str:
        if source is target:
            return x
        if self._is_exact and source.kind == "float" and source.bits < 16:
            raise _UnknownError
        if target.kind == "pred":
            return self._new(f"{x} != 0")
        if target.kind == "float":
            # f16 is rounded by numpy alone.
            if self._is_exact and target.name not in ("bf16", "f32", "f64"):
                raise _UnknownError
            return self._rounded(f"float({x})" if source.kind != "float" else x, target)
        if source.kind == "float":
            half = 1 << (target.bits - 1)
            low, high = (0, 2 * half - 1) if target.kind == "unsigned" else (-half, half - 1)
            return self._new(f"whole({x}, {low}, {high})")
        return self._wrapped(f"int({x})" if source.kind == "pred" else x, target)

    def _by_rule(self, instruction: Instruction, x: list[str], kind: PrimitiveType) -> str:
        """An opcode that its rule computes, of a scalar of numpy."""
        if instruction.opcode not in _BY_RULE:
            raise _UnknownError
        held = carrier(kind, self._program.floats)
        # Integers of numpy warn where they wrap, arrays do not.
        make = self._object(held.type if kind.kind == "float" else _Maker(held))
        rule = self._object(self._program.kernel(instruction))
        return self._new(f"{rule}({', '.join(f'{make}({each})' for each in x)}).item()")


class _Maker(NamedTuple):
    """Makes arrays of a number."""

    held: np.dtype[np.generic]

    def __call__(self, number: Number) -> Array:
        """The array of a number."""
        return np.array(number, self.held)


_SIGNS: Final = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}
_OF_BOOLEANS: Final = {
    "add": "{0} | {1}", "and": "{0} & {1}", "multiply": "{0} & {1}", "not": "not {0}", "or": "{0} | {1}",
    "subtract": "{0} ^ {1}", "xor": "{0} ^ {1}",
}  # fmt: skip
_EXACT_OF_FLOATS: Final = {"abs": "abs({0})", "negate": "-{0}"}
_OF_FLOATS: Final = {
    "add": "{0} + {1}", "divide": "{0} / {1} if {1} else by_zero({0}, {1})", "multiply": "{0} * {1}",
    "sqrt": "root({0}) if {0} >= 0 else no_root({0})", "subtract": "{0} - {1}",
}  # fmt: skip
"""Operations whose result of 64 bits, rounded to 32, is that of 32 bits."""
_FUNCTIONS: Final[dict[str, np.ufunc]] = {
    "ceil": np.ceil, "cosine": np.cos, "exponential": np.exp, "exponential-minus-one": np.expm1, "floor": np.floor,
    "log": np.log, "log-plus-one": np.log1p, "round-nearest-even": np.rint, "sine": np.sin, "tan": np.tan,
    "tanh": np.tanh,
}  # fmt: skip
"""Opcodes that are one function of numpy, which reads and writes a cell: numpy makes no scalar for it."""
_OF_INTEGERS: Final = {
    "add": "{0} + {1}", "and": "{0} & {1}", "multiply": "{0} * {1}", "negate": "-{0}", "not": "~{0}", "or": "{0} | {1}",
    "subtract": "{0} - {1}", "xor": "{0} ^ {1}", "sign": "({0} > 0) - ({0} < 0)",
}  # fmt: skip
_BY_RULE: Final = (UNARY | BINARY) & ELEMENTWISE_RULES.keys() - {"real", "imag", opcodes.COMPLEX, "compare"}
"""Opcodes that their rules compute of one number after another."""


def _of_integers(opcode: str, x: list[str], kind: PrimitiveType) -> str | None:
    """The text of an operation on integers, whose low bits are the result; None for one that its rule computes."""
    bits, is_signed = kind.bits, kind.kind == "signed"
    lowest, mask = -(1 << (bits - 1)), (1 << bits) - 1
    match opcode:
        case "abs":
            return f"abs({x[0]})"
        case "divide":
            return f"divided({x[0]}, {x[1]}, {lowest})" if is_signed else f"{x[0]} // {x[1]} if {x[1]} else {mask}"
        case "remainder":
            return f"remains({x[0]}, {x[1]})"
        case "shift-left":
            return f"{x[0]} << {x[1]} if 0 <= {x[1]} < {bits} else 0"
        case "shift-right-logical":
            return f"({x[0]} & {mask}) >> {x[1]} if 0 <= {x[1]} < {bits} else 0"
        case "shift-right-arithmetic" if is_signed:
            return f"{x[0]} >> ({x[1]} if 0 <= {x[1]} < {bits} else {bits})"
    text = _OF_INTEGERS.get(opcode)
    return None if text is None else text.format(*x)


def _text(value: Written) -> str:
    if isinstance(value, tuple):
        raise _UnknownError
    return value


def _element(value: Written, index: Sequence[int]) -> Written:
    for at in index:
        if not isinstance(value, tuple) or not 0 <= at < len(value):
            raise _UnknownError
        value = value[at]
    return value


def _flat(value: Written) -> list[str]:
    return [value] if isinstance(value, str) else [leaf for each in value for leaf in _flat(each)]


def _structured(shape: Shape, names: Iterator[str]) -> Written:
    """Names as the elements of a shape."""
    if isinstance(shape, TupleShape):
        return tuple(_structured(each, names) for each in shape.elements)
    return next(names)


def _are_alike(left: Shape, right: Shape) -> bool:
    """Whether two shapes are made of the same numbers."""
    if isinstance(left, TupleShape) or isinstance(right, TupleShape):
        if not isinstance(left, TupleShape) or not isinstance(right, TupleShape):
            return False
        return len(left.elements) == len(right.elements) and all(map(_are_alike, left.elements, right.elements))
    return _type_of(left) is _type_of(right)
