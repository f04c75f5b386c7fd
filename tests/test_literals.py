"""Literals: text, numbers and bytes are three faces of the same values, and jaxlib sees the same in each of them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlo_cli.ir.attributes.value_types import ArrayLiteral, Literal, TupleLiteral
from hlo_cli.ir.layout import FLOAT_FORMATS, PRIMITIVE_TYPES, PrimitiveType
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.source import HloError, Source, Span
from hlo_cli.syntax.literal_printing import values_of_codes
from hlo_cli.syntax.literal_reading import literal_at, literal_from_bytes, literal_to_bytes, read_shaped_literal
from hlo_cli.syntax.scanning.shape_reader import parse_shape
from hlo_cli.syntax.scanning.tokens import END, Tokens
from hlo_cli.syntax.text.parser import parse_module
from judge import ask_xla
from strategies import a_literal, dump_text, dumps, name_of, seeds, spelled_literal
from timing import soon

TYPES = tuple(PRIMITIVE_TYPES.values())
NARROW = tuple(name for name, form in FLOAT_FORMATS.items() if form.bits <= 8)
each_type = pytest.mark.parametrize("element_type", TYPES, ids=str)


def literal_of(shape: str | ArrayShape, text: str) -> Literal:
    """The literal that a constant of this shape holds."""
    return literal_at(Source("x", text), Span(0, len(text)), parse_shape(shape) if isinstance(shape, str) else shape)


def array_of(shape: str | ArrayShape, text: str) -> ArrayLiteral:
    """The same, known to be of an array."""
    literal = literal_of(shape, text)
    assert isinstance(literal, ArrayLiteral)
    return literal


def codes(literal: ArrayLiteral) -> bytes:
    """All that a literal holds, bit by bit."""
    return literal.stored().tobytes()


# Laws


@given(seeds, st.sampled_from(TYPES))
def test_text_keeps_every_bit(seed: int, element_type: PrimitiveType) -> None:
    literal = a_literal(Random(seed), element_type)
    again = array_of(literal.shape, literal.to_string())
    assert codes(again) == codes(literal)
    assert again.stored().shape == literal.shape.dimensions
    assert again.to_string() == literal.to_string()


@given(seeds, st.sampled_from(TYPES))
def test_other_spellings_hold_the_same(seed: int, element_type: PrimitiveType) -> None:
    random = Random(seed)
    literal = a_literal(random, element_type)
    text = spelled_literal(literal.to_string(), random)
    assert codes(array_of(literal.shape, text)) == codes(literal), text


@given(seeds, st.sampled_from(TYPES))
def test_bytes_keep_every_bit(seed: int, element_type: PrimitiveType) -> None:
    literal = a_literal(Random(seed), element_type)
    assert codes(literal_from_bytes(literal.shape, literal_to_bytes(literal))) == codes(literal)


@given(seeds, st.sampled_from([t for t in TYPES if t.kind in ("signed", "unsigned", "pred")]))
def test_whole_numbers_are_what_the_text_says(seed: int, element_type: PrimitiveType) -> None:
    literal = a_literal(Random(seed), element_type)
    text = literal.to_string().replace("true", "1").replace("false", "0")
    numbers = (
        json.loads("[" + _without_comments(text).replace("{", "").replace("}", "") + "]")
        if literal.shape.elements
        else []
    )
    assert [int(n) for n in literal.array().ravel().tolist()] == numbers


def _without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/", "", text)


@pytest.mark.parametrize("name", NARROW)
def test_rounding_finds_the_nearest_value(name: str) -> None:
    values = values_of_codes(name).astype(np.float64)
    finite = np.unique(values[np.isfinite(values)])
    random = Random(name)
    numbers = [random.uniform(low, high) for low, high in pairwise(finite.tolist()) for _ in range(5)]
    read = array_of(f"{name}[{len(numbers)}]", "{" + ", ".join(map(repr, numbers)) + "}").array().astype(np.float64)
    nearest = finite[np.abs(np.array(numbers)[:, None] - finite).argmin(axis=1)]
    assert np.array_equal(read, nearest)


@pytest.mark.parametrize("path", dumps(), ids=name_of)
def test_constants_of_dumps_print_as_they_were(path: Path) -> None:
    constants = [i for i in parse_module(dump_text(path)).instructions if i.opcode == "constant"]
    printed = []
    for constant in constants:
        assert constant.literal is not None
        printed.append(constant.literal.to_string(print_large_constants=not constant.literal.is_elided))
    assert printed == [constant.text.argument for constant in constants]


# Examples


@pytest.mark.parametrize(
    ("shape", "text", "values"),
    [
        ("pred[]", "true", True),
        ("pred[3]", "{false, 7, -0}", [False, True, False]),
        ("s64[2]", "{18446744073709551615, -9223372036854775808}", [-1, -(2**63)]),
        ("u64[2]", "{-1, 9223372036854775808}", [2**64 - 1, 2**63]),
        ("f32[3]", "{18446744073709551615, 1e-400, -.5}", [-1, 0, -0.5]),
        ("bf16[2]", "{1.00390625000001, 5.}", [1, 5]),  # by way of 32 bits, unlike the types of 8 bits
        ("f8e5m2[2]", "{1.12500000000001, 1.125}", [1.25, 1]),
        ("f8e4m3fn[2]", "{464, -1e-40}", [448, 0]),
        ("f4e2m1fn[3]", "{100, -inf, nan}", [6, -6, 0]),
        ("f8e8m0fnu[3]", "{1.5, 3, 1e-300}", [2, 4, 2.0**-127]),
        ("c64[2]", "{(1, -2.5), (inf, 1e-300)}", [1 - 2.5j, complex(math.inf, 0)]),
        ("f32[<=2]", "{1, 2}", [1, 2]),
        ("f32[2,2]{0,1:T(8,128)}", "{1 2} {3,,4}", None),
        ("f32[2,2]{0,1:T(8,128)}", "{{1 2} {3,,4}}", [[1, 2], [3, 4]]),
        ("f32[2,1]", "f32[2,1] { { 1 }, { 2 } }", [[1], [2]]),  # as XLA wrote before 2019
        ("f32[2,0,2]", "{{},{}}", np.zeros((2, 0, 2)).tolist()),
        ("s32[1,1,1,2]", "{ /* a */ { // b\n{{1,2}}}}", [[[[1, 2]]]]),
    ],
)
def test_what_xla_reads_is_read_as_it_does(shape: str, text: str, values: object) -> None:
    literal = array_of(shape, text)
    if values is None:
        with pytest.raises(HloError):
            literal.array()
    else:
        assert literal.array().tolist() == values


def test_what_xla_prints_but_does_not_read_is_kept() -> None:
    assert array_of("f32[]", "-0").to_string() == "-0"
    assert array_of("c64[]", "(nan, -0)").to_string() == "(nan, -0)"
    assert array_of("f8e8m0fnu[]", "5.9e-39").to_string() == "5.9e-39"


@pytest.mark.parametrize(
    ("name", "digits"), [("f16", "3ff"), ("bf16", "7f"), ("f32", "7fffff"), ("f64", "fffffffffffff"), ("f8e5m2", "3")]
)
def test_nan_keeps_sign_and_payload(name: str, digits: str) -> None:
    text = f"{{nan, -nan, nan(0x1), -nan(0x{digits})}}"
    literal = array_of(f"{name}[4]", text)
    assert literal.to_string() == text
    assert np.isnan(literal.array()).all()
    assert np.signbit(literal.array()).tolist() == [False, True, False, True]


@pytest.mark.parametrize(
    ("shape", "text"),
    [("f32[99]", "{...}"), ("f32[2]", "{1, ...}"), ("f32[]", "..."), ("f32[3,3]", "{{...}, {...}}")],
)
def test_values_left_out_are_known_to_be(shape: str, text: str) -> None:
    literal = array_of(shape, text)
    assert literal.is_elided
    assert literal.to_string() == "{...}"
    with pytest.raises(HloError, match="omits the values"):
        literal.array()


def test_large_constants_are_left_out_on_request() -> None:
    for count in (10, 11):
        literal = array_of(f"s8[{count}]", "{" + ", ".join(["1"] * count) + "}")
        assert (literal.to_string(print_large_constants=False) == "{...}") == (count == 11)


def _shaped(text: str) -> Literal:
    """A literal with its shape before it, as in `literal=`."""
    tokens = Tokens(Source("", text))
    literal = read_shaped_literal(tokens)
    tokens.expect(END, "after the literal")
    return literal


def test_tuples() -> None:
    shape, text = "(f32[], (pred[2], c64[]), f32[20])", "( nan(0x1), ( {1, 0}, (1, 2) ), {...} )"
    literal = literal_of(shape, text)
    assert isinstance(literal, TupleLiteral)
    assert literal.to_string() == text
    assert [element.is_elided for element in literal.elements] == [False, False, True]
    assert literal.is_elided
    elided = literal_of(shape, "{...}")
    assert isinstance(elided, TupleLiteral)
    assert elided.to_string() == "( {...}, ( {...}, {...} ), {...} )"
    assert elided.is_elided
    assert _shaped("(f32[] 1, (pred[2]{0} {1, 0}, c64[] (1, 2)))").to_string() == "( 1, ( {1, 0}, (1, 2) ) )"


def test_instructions_have_literals_however_they_are_written() -> None:
    lines = "ENTRY e {\n  a = s4[2]{0} constant({-8, 7})\n  b = s4[2]{0} constant({-8, /* x */\n   7})\n  ROOT c = s4[2]{0} add(a, b)\n}\n"
    a, b, c = parse_module(f"HloModule m\n{lines}").instructions
    assert a.literal is not None
    assert a.literal.to_string() == "{-8, 7}"
    assert b.literal is not None
    assert b.literal.to_string() == "{-8, 7}"
    assert c.literal is None


def test_literals_are_equal_that_say_the_same() -> None:
    assert array_of("f32[2]", "{1, 2}") == array_of("f32[2]", "{1, 2}")
    assert array_of("f32[2]", "{1, 2}") != array_of("f32[2]", "{1, 3}")


# ⟪ stands before the place that the error points at.
@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ("f32[2]", "{1, ⟪+5}"),
        ("f32[2]", "{1, ⟪.5}"),
        ("f32[2]", "{1⟪}"),
        ("f32[2]", "{1, 2, ⟪3}"),
        ("f32[2]", "{1, 2} ⟪3"),
        ("f32[2]", "{1, ⟪x}"),
        ("f32[2]", "{1, ⟪1_000}"),
        ("f32[2]", "{1, ⟪infinity}"),
        ("f32[2]", "{1, ⟪true}"),
        ("f32[2]", "{1, 2⟪"),
        ("f32[2,2]", "1⟪{{2},{3,4}}"),
        ("f32[2,2]", "{{1, 2}, {3⟪}4}"),
        ("f32[1000000000000]", "{1⟪}"),
        ("f32[]", "⟪1e39"),
        ("f64[]", "⟪1e309"),
        ("f16[]", "⟪65520"),
        ("bf16[]", "⟪nan(0x80)"),
        ("f8e4m3fn[2]", "{1, ⟪465}"),
        ("f8e8m0fnu[]", "⟪0"),
        ("s32[]", "⟪2147483648"),
        ("s32[]", "⟪1.5"),
        ("u8[2]", "{0, ⟪-1}"),
        ("s1[]", "⟪1"),
        ("s64[]", "⟪18446744073709551616"),
        ("pred[]", "⟪2.5"),
        ("pred[]", "1⟪true"),
        ("c64[]", "⟪1"),
        ("c64[]", "(1 ⟪2)"),
        ("c64[]", "(⟪1e39, 0)"),
        ("c64[2]", "{(1, 2) ⟪3, (4, 5)}"),
        ("(f32[], s32[])", "(1⟪)"),
        ("token[]", "⟪0"),
        ("f32[?]", "⟪{1}"),
        ("f5e2[2]{0}", "⟪{1, 2}"),
        ("f32[0,4611686018427387904]", "{⟪{1}}"),
    ],
)
def test_errors_have_a_place_in_the_literal(shape: str, text: str) -> None:
    with pytest.raises(HloError) as caught:
        literal_of(shape, text.replace("⟪", "")).to_string()
    assert caught.value.diagnostic.span is not None
    assert caught.value.diagnostic.span.start == text.index("⟪"), caught.value


@pytest.mark.parametrize(
    "fill", ["{", "(", "1", "{1,", "...", "/*", "{" * 99 + "1" + "}" * 99, "-", "nan(0x", ",", "1e"]
)
def test_hostile_texts_end_soon(fill: str) -> None:
    with soon(20):
        for shape in ("f32[3]", "pred[]", "c128[1,1]", "(f32[], (s4[2]))", "u64[9223372036854775807,0,3]"):
            with suppress(HloError):
                literal_of(shape, fill * (100_000 // len(fill))).to_string()


@each_type
def test_bytes_of_the_wrong_length_are_refused(element_type: PrimitiveType) -> None:
    shape = parse_shape(f"{element_type}[2]")
    assert isinstance(shape, ArrayShape)
    for data in (b"", b"\x01", b"\x01" * 50):
        with pytest.raises(HloError):
            literal_from_bytes(shape, data)


def test_varints_that_do_not_end_are_refused() -> None:
    shape = parse_shape("s32[2]")
    assert isinstance(shape, ArrayShape)
    for data in (b"\x01\x80", b"\x80" * 11 + b"\x01\x01"):
        with pytest.raises(HloError, match="varint"):
            literal_from_bytes(shape, data)


# jaxlib as the judge


def module_of(shape: str | ArrayShape, text: str) -> str:
    """A module that is one constant."""
    return f"HloModule m\nENTRY e {{\n  ROOT c = {shape} constant({text})\n}}\n"


def printed_by_xla(modules: list[str]) -> list[str | None]:
    """What jaxlib prints between the parentheses of each constant; None for one that it does not read."""
    printed = [re.search(r" constant\((.*)\)", str(text)) for text in ask_xla(modules, "module.to_string(options)")]
    return [match[1] if match else None for match in printed]


def read_by_xla(literal: ArrayLiteral) -> bytes:
    """The field of the proto that jaxlib writes for a constant."""
    hlo = pytest.importorskip("jaxlib._hlo")
    proto = hlo.hlo_module_from_text(module_of(literal.shape, literal.to_string())).as_serialized_hlo_module_proto()
    for number in (
        3,
        2,
        8,
    ):  # HloModuleProto.computations, HloComputationProto.instructions, HloInstructionProto.literal
        proto = next(value for field, value in _fields(proto) if field == number)
    return next(
        (value for field, value in _fields(proto) if field != 1), b""
    )  # 1 is the shape; empty fields are left out


def _fields(proto: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message that hold bytes."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            at += 1
            value |= (proto[at - 1] & 127) << shift
            shift += 7
            if proto[at - 1] < 128:
                return value

    while at < len(proto):
        key = varint()
        size = {1: 8, 5: 4}.get(key & 7, 0)
        if key & 7 == 0:
            varint()
            continue
        size = size or varint()
        yield key >> 3, proto[at : at + size]
        at += size


def made(element_type: PrimitiveType, count: int) -> list[ArrayLiteral]:
    """Literals of a type without minus zeros and the least f8e8m0fnu, which XLA prints but does not read."""
    random = Random(str(element_type))
    literals = (a_literal(random, element_type) for _ in range(10 * count))
    return [literal for literal in literals if not _is_lost_on_xla(literal)][:count]


def _is_lost_on_xla(literal: ArrayLiteral) -> bool:
    parts = _without_comments(literal.to_string())
    for sign in "{}(),":
        parts = parts.replace(sign, " ")
    return not {"-0", "5.9e-39"}.isdisjoint(parts.split())


@pytest.mark.oracle
@each_type
def test_xla_prints_the_same(element_type: PrimitiveType) -> None:
    literals = made(element_type, 30)
    assert printed_by_xla([module_of(literal.shape, literal.to_string()) for literal in literals]) == [
        literal.to_string() for literal in literals
    ]


@pytest.mark.oracle
@pytest.mark.parametrize("element_type", [t for t in TYPES if t.bits != 6], ids=str)  # jaxlib ends on those of 6 bits
def test_xla_writes_the_same_bytes(element_type: PrimitiveType) -> None:
    for literal in made(element_type, 30):
        assert literal_to_bytes(literal) == read_by_xla(literal), literal.to_string()


@pytest.mark.oracle
@pytest.mark.parametrize("name", NARROW)
def test_xla_rounds_decimals_the_same(name: str) -> None:
    """Every code of the type, what lies halfway between two, and what lies right beside that."""
    values = values_of_codes(name).astype(np.float64)
    finite = np.unique(values[np.isfinite(values)])
    halfway = (finite[:-1] + finite[1:]) / 2
    beside = [np.nextafter(halfway, direction) for direction in (-np.inf, np.inf)]
    numbers = np.concatenate((finite, halfway, *beside))
    if name == "f8e8m0fnu":  # XLA rounds what is between its least two values up
        numbers = numbers[(numbers <= finite[0]) | (numbers >= finite[1])]
    texts = [repr(number) for number in numbers.tolist()] + ["nan", "-nan", "inf", "-inf"]
    shape = f"{name}[{len(texts)}]"
    text = "{" + ", ".join(texts) + "}"
    assert printed_by_xla([module_of(shape, text)]) == [array_of(shape, text).to_string()]


PIECES = "{ } , 1 2 -1 0.5 nan inf -inf (1,2) /*i0=0*/ 7 1e5 5. .5 +1 - 300 nan(0x1) true".split()
SHAPES = {
    "f32[2]{0}": "{1, 2}",
    "f32[]": "0.5",
    "s4[1,2]{1,0}": "{ { 1, 2 } }",
    "pred[2]{0}": "{1, 0}",
    "c64[1]{0}": "{(1, 2)}",
    "f8e5m2[1,1]{1,0}": "{{1}}",
    "u8[2,1]{0,1}": "{ {1}, {2} }",
}


@pytest.mark.oracle
def test_xla_agrees_on_what_is_a_literal() -> None:
    """Literals with some pieces added, left out and replaced: the same are read, and as the same."""
    random, cases = Random(5), []
    for _ in range(300):
        shape, text = random.choice(list(SHAPES.items()))
        for _ in range(random.randrange(3)):
            at = random.randrange(len(text) + 1)
            text = text[:at] + random.choice((" ", *PIECES)) + text[at + random.randrange(2) :]
        cases.append((shape, text))
    ours: list[str | None] = []
    for shape, text in cases:
        try:
            ours.append(literal_of(shape, text).to_string())
        except HloError:
            ours.append(None)
    theirs = printed_by_xla([module_of(shape, text) for shape, text in cases])
    assert sum(said is not None for said in theirs) > 100
    assert [case for case, our, their in zip(cases, ours, theirs, strict=True) if our != their] == []
