"""Which instructions XLA omits when it reads StableHLO: constants are computed, and operations that change nothing go.

Every rule was observed in `lowered.as_text(dialect="hlo")` of jaxlib 0.10.2; what XLA keeps, such as a float times
zero, stays. Mirrors the folders and canonicalization patterns of MHLO (xla/mlir_hlo/mhlo/IR/hlo_ops.cc).
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.layout import PrimitiveType
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.operations import SIDE_EFFECTS
from hlo_cli.ir.shape import ArrayShape, Shape

Number = bool | int | float


@dataclass(slots=True)
class Step:
    """An instruction before it is made; rules may change its operands and attributes."""

    opcode: str
    shape: Shape
    operands: list[Instruction]
    pairs: list[tuple[str, str]]
    join: Callable[[Sequence[Instruction], int], Instruction]

    def attribute(self, name: str) -> str:
        """The text of an attribute; empty if it is absent."""
        return next((value for key, value in self.pairs if key == name), "")

    def numbers(self, name: str) -> tuple[int, ...]:
        """The numbers in an attribute."""
        return tuple(map(int, re.findall(r"-?[0-9]+", self.attribute(name))))


@dataclass(frozen=True, slots=True)
class Splat:
    """A constant in the place of an instruction: one value for all elements, as text."""

    text: str


Simplified = Instruction | Splat | None
"""What stands for an instruction; None if it stays, maybe with other operands."""


def simplified(step: Step) -> Simplified:
    """What XLA has in the place of an instruction."""
    if not isinstance(step.shape, ArrayShape) or step.shape.is_dynamic:
        return None
    if step.opcode in _COMMUTATIVE and len(step.operands) == 2:
        first, second = step.operands
        if is_constant(first) and not is_constant(second):
            step.operands = [second, first]
    rule = _RULES.get(step.opcode)
    return None if rule is None or not step.operands else rule(step, step.shape)


def _fits(value: Instruction, shape: ArrayShape) -> bool:
    """Whether a value has the type and the sizes of a result, in any layout."""
    operand_shape = value.shape
    return isinstance(operand_shape, ArrayShape) and (operand_shape.element_type, operand_shape.dimensions) == (
        shape.element_type,
        shape.dimensions,
    )


# --- constants ---


def is_constant(value: Instruction) -> bool:
    """Whether MLIR has the value as a constant."""
    return value.opcode == opcodes.CONSTANT or splat_of(value) is not None


def splat_of(value: Instruction) -> str | None:
    """The value of all elements of a constant, as text; None if they differ, or if it is not a constant.

    >>> from hlo_cli import parse_module
    >>> root = parse_module("ENTRY e { c = f32[] constant(2)  ROOT b = f32[4] broadcast(c), dimensions={} }").entry.root
    >>> splat_of(root)
    '2'
    """
    if value.opcode == opcodes.BROADCAST and value.operands:
        value = value.operands[0]
        return splat_of(value) if isinstance(value.shape, ArrayShape) and not value.shape.rank else None
    if value.opcode != opcodes.CONSTANT or not isinstance(value.shape, ArrayShape) or value.shape.elements != 1:
        return None
    text = value.text.argument.strip("{} ")
    return text if text and text != "." and "..." not in text else None


def _number_of(value: Instruction) -> Number | None:
    """The value of all elements of a constant; None for complex ones, and if they differ."""
    text = splat_of(value)
    return None if text is None or not isinstance(value.shape, ArrayShape) else read(text, value.shape.element_type)


def read(text: str, element: PrimitiveType) -> Number | None:
    """The number in a text; None for one of another kind.

    >>> from hlo_cli.ir.layout import PRIMITIVE_TYPES
    >>> read("1", PRIMITIVE_TYPES["pred"]), read("-inf", PRIMITIVE_TYPES["f32"])
    (True, -inf)
    """
    try:
        match element.kind:
            case "pred":
                return text in ("true", "1")
            case "signed" | "unsigned":
                return int(text)
            case "float" if element.name in _FORMS or element.name == "bf16":
                return _rounded(float(text), element.name)  # the digits that XLA prints stand for another number
    except ValueError:
        pass
    return None


_FORMS: Final = {"f16": "<e", "f32": "<f", "f64": "<d"}


def write(number: Number, element: PrimitiveType) -> str | None:
    """A number as the text of a type, rounded or wrapped; None if the type is of another kind, or narrow.

    >>> from hlo_cli.ir.layout import PRIMITIVE_TYPES
    >>> write(300, PRIMITIVE_TYPES["s8"]), write(0.1, PRIMITIVE_TYPES["f32"]), write(2, PRIMITIVE_TYPES["pred"])
    ('44', '0.1', 'true')
    """
    match element.kind:
        case "pred":
            return "true" if number else "false"
        case "signed" | "unsigned":
            if isinstance(number, float):
                return None
            wrapped = int(number) & ((1 << element.bits) - 1)
            is_negative = element.kind == "signed" and wrapped >> (element.bits - 1)
            return str(wrapped - (1 << element.bits) if is_negative else wrapped)
        case "float" if element.name in _FORMS or element.name == "bf16":
            return _write_float(float(number), element.name)
    return None


def _write_float(number: float, name: str) -> str:
    """A float with the digits that XLA prints."""
    if number != number:
        return "nan"
    rounded = _rounded(number, name)
    if name == "bf16":
        return f"{rounded:.4g}"
    form = _FORMS[name]
    few, enough = {"f16": (5, 5), "f32": (6, 9), "f64": (15, 17)}[name]
    short = f"{rounded:.{few}g}"
    return short if _packed(float(short), form) == struct.pack(form, rounded) else f"{rounded:.{enough}g}"


def _rounded(number: float, name: str) -> float:
    """The nearest number of a type, with ties to even."""
    if name == "bf16" and number == number:
        bits = struct.unpack("<I", _packed(number, "<f"))[0]
        bits += 0x7FFF + ((bits >> 16) & 1)
        truncated: float = struct.unpack("<f", struct.pack("<I", bits & 0xFFFF0000))[0]
        return truncated
    form = _FORMS.get(name, "<f")
    rounded: float = struct.unpack(form, _packed(number, form))[0]
    return rounded


def _packed(number: float, form: str) -> bytes:
    try:
        return struct.pack(form, number)
    except OverflowError:
        return struct.pack(form, math.copysign(math.inf, number))


# --- arithmetic ---

_COMMUTATIVE: Final = frozenset(("add", "multiply", "maximum", "minimum", "and", "or", "xor"))


def _quotient(a: Number, b: Number) -> Number | None:
    if isinstance(a, float) or isinstance(b, float):
        if b:
            return a / b
        return math.nan if not a or a != a else math.copysign(math.inf, a) * math.copysign(1, b)
    return None if not b else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: Number, b: Number) -> Number | None:
    if not b:
        return math.nan if isinstance(a, float) else None
    return math.fmod(a, b) if isinstance(a, float) else int(math.copysign(1, a)) * (abs(int(a)) % abs(int(b)))


def _larger(a: Number, b: Number) -> Number:
    return math.nan if a != a or b != b else max(a, b)


def _smaller(a: Number, b: Number) -> Number:
    return math.nan if a != a or b != b else min(a, b)


_BINARY: Final[Mapping[str, Callable[[Number, Number], Number | None]]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": _quotient,
    "remainder": _remainder,
    "maximum": _larger,
    "minimum": _smaller,
    "and": lambda a, b: int(a) & int(b),
    "or": lambda a, b: int(a) | int(b),
}
"""Functions of two constants that XLA computes."""
_UNARY: Final[Mapping[str, Callable[[float], float]]] = {
    "exponential": math.exp,
    "log": math.log,
    "logistic": lambda x: 1 / (1 + math.exp(-x)),
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "sine": math.sin,
    "cosine": math.cos,
    "tan": math.tan,
    "tanh": math.tanh,
    "round-nearest-even": lambda x: math.copysign(float(round(x)), x),
    "round-nearest-afz": lambda x: math.copysign(math.floor(abs(x) + 0.5), x),
}
"""Functions of a float that XLA computes, in 64 bits."""


def _fold_binary(step: Step, shape: ArrayShape) -> Simplified:
    first, second = step.operands[:2] if len(step.operands) == 2 else (None, None)
    if first is None or second is None:
        return None
    a, b = _number_of(first), _number_of(second)
    if a is not None and b is not None and step.opcode in _BINARY:
        is_logical = step.opcode in ("and", "or")
        result = None if is_logical and isinstance(a, float) else _BINARY[step.opcode](a, b)
        text = None if result is None else write(result, shape.element_type)
        return None if text is None else Splat(text)
    return _identity(step, shape, b)


def _identity(step: Step, shape: ArrayShape, constant: Number | None) -> Simplified:
    """An operation with an operand that changes nothing, or that is the result."""
    first, second = step.operands
    kind, opcode = shape.element_type.kind, step.opcode
    is_integer = kind in ("signed", "unsigned", "pred")
    if first is second and is_integer and opcode in ("subtract", "xor"):
        return Splat("false" if kind == "pred" else "0")
    if constant is None:
        return None
    ones = True if kind == "pred" else (1 << shape.element_type.bits) - 1 if kind == "unsigned" else -1
    if constant == 0 and opcode in ("add", "subtract", "or", "xor"):
        return first
    if opcode == "multiply" and constant == 1:
        return first
    if is_integer and constant == ones and opcode == "and":
        return first
    is_result = (constant == 0 and opcode in ("multiply", "and")) or (constant == ones and opcode == "or")
    return second if is_integer and is_result and _fits(second, shape) else None


def _fold_unary(step: Step, shape: ArrayShape) -> Simplified:
    number = _number_of(step.operands[0])
    if number is None:
        return None
    result: Number | None = None
    match step.opcode:
        case "negate":
            result = -number
        case "abs":
            result = abs(number)
        case "not" if not isinstance(number, float):
            result = not number if isinstance(number, bool) else ~number
        case "sign":
            result = math.copysign(1, number) if number and number == number else number
            result = int(result) if not isinstance(number, float) else result
        case opcode if opcode in _UNARY and isinstance(number, float):
            try:
                result = _UNARY[opcode](number)
            except (ValueError, OverflowError, ZeroDivisionError):  # XLA has an infinity or NaN; it is computed later
                return None
    text = None if result is None else write(result, shape.element_type)
    return None if text is None else Splat(text)


def _convert(step: Step, shape: ArrayShape) -> Simplified:
    operand = step.operands[0]
    if _fits(operand, shape):
        return operand
    number = _number_of(operand)
    if isinstance(number, float) and shape.element_type.kind in ("signed", "unsigned"):
        least = -(1 << shape.element_type.bits - 1) if shape.element_type.kind == "signed" else 0
        if not math.isfinite(number) or not least <= int(number) < least + (1 << shape.element_type.bits):
            return None
        number = int(number)
    text = None if number is None else write(number, shape.element_type)
    return None if text is None else Splat(text)


_FLIPPED: Final = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "EQ": "EQ", "NE": "NE"}
_COMPARED: Final[Mapping[str, Callable[[Number, Number], bool]]] = {
    "LT": lambda a, b: a < b,
    "GT": lambda a, b: a > b,
    "LE": lambda a, b: a <= b,
    "GE": lambda a, b: a >= b,
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
}


def _compare(step: Step, shape: ArrayShape) -> Simplified:
    """Integers are compared with constants on the right."""
    direction = step.attribute("direction")
    if len(step.operands) != 2 or direction not in _FLIPPED or step.attribute("type"):
        return None
    first, second = step.operands
    a, b = _number_of(first), _number_of(second)
    if a is not None and b is not None:
        return Splat("true" if _COMPARED[direction](a, b) else "false")
    if not isinstance(first.shape, ArrayShape) or first.shape.element_type.kind not in ("signed", "unsigned", "pred"):
        return None
    if first.shape.element_type.kind == "pred" and b is (direction == "EQ") and _fits(first, shape):
        return first
    if first is second:
        return Splat("true" if direction in ("EQ", "LE", "GE") else "false")
    if is_constant(first) and not is_constant(second):
        step.operands = [second, first]
        step.pairs = [(n, _FLIPPED[direction] if n == "direction" else v) for n, v in step.pairs]
    return None


def _select(step: Step, shape: ArrayShape) -> Simplified:
    if len(step.operands) != 3:
        return None
    predicate, yes, no = step.operands
    if yes is no and _fits(yes, shape):
        return yes
    known = _number_of(predicate)
    if known is not None:
        chosen = yes if known else no
        return chosen if _fits(chosen, shape) else None
    if predicate.opcode == "not" and predicate.operands:
        step.operands = [predicate.operands[0], no, yes]
    return None


# --- moving data ---


def _reshape(step: Step, shape: ArrayShape) -> Simplified:
    operand = step.operands[0]
    while operand.opcode == "reshape" and operand.operands:
        operand = operand.operands[0]
    step.operands = [operand]
    text = splat_of(operand)
    return operand if _fits(operand, shape) else None if text is None else Splat(text)


def _transpose(step: Step, shape: ArrayShape) -> Simplified:
    operand, order = step.operands[0], step.numbers("dimensions")
    text = splat_of(operand)
    if text is not None:
        return Splat(text)
    if order == tuple(range(len(order))):
        return operand
    if operand.opcode == "transpose" and operand.operands:
        inner = tuple(map(int, re.findall(r"[0-9]+", operand.attribute("dimensions") or "")))
        if len(inner) == len(order) and sorted(order) == list(range(len(order))):
            composed = tuple(inner[d] for d in order)
            step.operands = [operand.operands[0]]
            step.pairs = [(n, index_text(composed) if n == "dimensions" else v) for n, v in step.pairs]
            return operand.operands[0] if composed == tuple(range(len(order))) else None
    if not isinstance(operand.shape, ArrayShape) or sorted(order) != list(range(operand.shape.rank)):
        return None  # no order of the operand's dimensions: the program is invalid
    large = [d for d in order if operand.shape.dimensions[d] != 1]
    if large == sorted(large):
        step.opcode, step.pairs = "reshape", [pair for pair in step.pairs if pair[0] != "dimensions"]
        step.shape = _default(shape)
        return _reshape(step, _default(shape))
    return None


def _default(shape: ArrayShape) -> ArrayShape:
    from hlo_cli.syntax.scanning.shape_reader import parse_shape

    plain = parse_shape(shape.to_string(layout=False))
    assert isinstance(plain, ArrayShape)
    return plain


_RANGE: Final = re.compile(r"\[([0-9]+):([0-9]+)(?::([0-9]+))?\]")


def _slice(step: Step, shape: ArrayShape) -> Simplified:
    operand = step.operands[0]
    text = splat_of(operand)
    if _fits(operand, shape) or text is not None:
        return operand if text is None else Splat(text)
    if operand.opcode == "concatenate":
        _slice_of_parts(step, operand)
        return step.operands[0] if _fits(step.operands[0], shape) else None
    return None


def _slice_of_parts(step: Step, joined: Instruction) -> None:
    """A slice of a concatenation takes the parts that it needs."""
    ranges = [list(map(int, (a, b, c or "1"))) for a, b, c in _RANGE.findall(step.attribute("slice"))]
    dimension = int((joined.attribute("dimensions") or "{0}").strip("{}") or 0)
    if dimension >= len(ranges):
        return
    start = 0
    for part in joined.operands:
        size = part.shape.dimensions[dimension] if isinstance(part.shape, ArrayShape) else 0
        if start <= ranges[dimension][0] and ranges[dimension][1] <= start + size:
            ranges[dimension][0] -= start
            ranges[dimension][1] -= start
            step.operands = [part]
            step.pairs = [(n, _ranges_text(ranges) if n == "slice" else v) for n, v in step.pairs]
            return
        start += size
    _take_parts(step, joined, dimension, ranges)


def _take_parts(step: Step, joined: Instruction, dimension: int, ranges: list[list[int]]) -> None:
    start, kept, before = 0, list[Instruction](), 0
    for part in joined.operands:
        size = part.shape.dimensions[dimension] if isinstance(part.shape, ArrayShape) else 0
        if start + size <= ranges[dimension][0]:
            before = start + size
        elif start < ranges[dimension][1]:
            kept.append(part)
        start += size
    if 1 < len(kept) < len(joined.operands):
        ranges[dimension][0] -= before
        ranges[dimension][1] -= before
        step.operands = [step.join(kept, dimension)]
        step.pairs = [(n, _ranges_text(ranges) if n == "slice" else v) for n, v in step.pairs]


def _ranges_text(ranges: Iterable[Sequence[int]]) -> str:
    listed = list(ranges)
    has_steps = any(step != 1 for _, _, step in listed)
    return f"{{{', '.join(f'[{a}:{b}:{c}]' if has_steps else f'[{a}:{b}]' for a, b, c in listed)}}}"


def _concatenate(step: Step, shape: ArrayShape) -> Simplified:
    kept: list[Instruction] = []
    for operand in step.operands:
        if isinstance(operand.shape, ArrayShape) and not operand.shape.elements and shape.elements:
            continue
        same = operand.opcode == "concatenate" and operand.attribute("dimensions") == step.attribute("dimensions")
        kept += operand.operands if same else [operand]
    step.operands = kept
    if len(kept) == 1 and _fits(kept[0], shape):
        return kept[0]
    texts = {splat_of(operand) for operand in kept}
    return Splat(text) if len(texts) == 1 and (text := texts.pop()) is not None else None


def _pad(step: Step, shape: ArrayShape) -> Simplified:
    is_nothing = not any(map(int, re.findall(r"-?[0-9]+", step.attribute("padding"))))
    return step.operands[0] if is_nothing and _fits(step.operands[0], shape) else None


def _reverse(step: Step, shape: ArrayShape) -> Simplified:
    turned = step.numbers("dimensions")
    is_nothing = all(0 <= d < shape.rank and shape.dimensions[d] == 1 for d in turned)
    return step.operands[0] if is_nothing else None


def _dynamic_slice(step: Step, shape: ArrayShape) -> Simplified:
    """With known indices it is a slice, within the bounds."""
    operand, *indices = step.operands
    starts = [_number_of(index) for index in indices]
    operand_shape = operand.shape
    if not isinstance(operand_shape, ArrayShape) or not len(starts) == operand_shape.rank == shape.rank:
        return None
    if None in starts:
        return None
    ranges = []
    for start, size, most in zip(starts, shape.dimensions, operand_shape.dimensions, strict=True):
        first = min(max(int(start or 0), 0), most - size)
        ranges.append((first, first + size, 1))
    step.opcode, step.operands = "slice", [operand]
    step.pairs = [("slice", _ranges_text(ranges)), *[p for p in step.pairs if p[0] != "dynamic_slice_sizes"]]
    return _slice(step, shape)


def _dynamic_update_slice(step: Step, shape: ArrayShape) -> Simplified:
    """An update of everything is the result."""
    update = step.operands[1] if len(step.operands) > 1 else None
    starts = [_number_of(operand) for operand in step.operands[2:]]
    return update if update is not None and _fits(update, shape) and all(start == 0 for start in starts) else None


def _part_of_complex(step: Step, shape: ArrayShape) -> Simplified:
    operand = step.operands[0]
    return (
        operand.operands[step.opcode == "imag"] if operand.opcode == "complex" and len(operand.operands) == 2 else None
    )


def _reduce(step: Step, shape: ArrayShape) -> Simplified:
    return step.operands[0] if not step.numbers("dimensions") and _fits(step.operands[0], shape) else None


_RULES: Final[Mapping[str, Callable[[Step, ArrayShape], Simplified]]] = {
    **dict.fromkeys((*_BINARY, "xor"), _fold_binary),
    **dict.fromkeys((*_UNARY, "negate", "abs", "not", "sign"), _fold_unary),
    "convert": _convert,
    "compare": _compare,
    "select": _select,
    "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "concatenate": _concatenate,
    "pad": _pad,
    "reverse": _reverse,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "real": _part_of_complex,
    "imag": _part_of_complex,
    "reduce": _reduce,
}


# --- what nobody uses ---


def used(instructions: Sequence[Instruction], root: Instruction) -> list[Instruction]:
    """The instructions that the result needs, parameters, and those that do more than make a value.

    Every element of a tuple is taken, as XLA takes it.
    """
    needed = {root}
    pending = [
        root,
        *(instruction for instruction in instructions if instruction.opcode in _KEPT or _has_effect(instruction)),
    ]
    while pending:
        current = pending.pop()
        needed.add(current)
        pending += [operand for operand in current.operands if operand not in needed]
    elements = opcodes.GET_TUPLE_ELEMENT
    return [
        instruction
        for instruction in instructions
        if instruction in needed or (instruction.opcode == elements and instruction.operands[0] in needed)
    ]


_KEPT: Final = frozenset((opcodes.PARAMETER, opcodes.CALL, *SIDE_EFFECTS))
"""Opcodes that stay: MLIR does not know what a function does."""


def _has_effect(instruction: Instruction) -> bool:
    """Whether a custom call states an effect, or a computation that is called has one."""
    if instruction.opcode == opcodes.CUSTOM_CALL:
        return instruction.attribute("custom_call_has_side_effect") == "true"
    called = instruction.called_computations
    inner = (
        instruction for one in called for instruction in one.instructions if instruction.opcode != opcodes.PARAMETER
    )
    return any(step.opcode in _KEPT or _has_effect(step) for step in inner)
