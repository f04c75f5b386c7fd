"""Arithmetic in conditions and assertions: against a reference in plain Python, and errors of units and forms."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import inf, isclose
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumps import compiled_dumps
from expecting import judged, stated
from hlo_cli import load
from hlo_cli.analysis.fusion.kernels import kernels_of
from hlo_cli.analysis.query.assertions import interval_of, result_of
from hlo_cli.analysis.schedule.async_overlap import async_pairs
from hlo_cli.commands.modules.instruction_tables import instructions_where
from hlo_cli.ir.expressions import Arithmetic, Calculation, Field, Golden, Number, Operand, Quantity, Term
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.source import HloError
from hlo_cli.syntax.conditions import parse_operand, parse_where
from hlo_cli.syntax.expectations import parse_expectation
from share import every


@dataclass(frozen=True)
class Numeric:
    """A number as text, its value for an instruction (None if it has none), and its power of bytes."""

    text: str
    value: Callable[[Instruction], float | None]
    power: int


def _rank(i: Instruction) -> int | None:
    return i.shape.rank if isinstance(i.shape, ArrayShape) else None


def _elements(i: Instruction) -> int | None:
    return i.shape.elements if isinstance(i.shape, ArrayShape) else None


LEAVES = (
    Numeric("padded_bytes", lambda i: i.shape.padded_bytes, 1),
    Numeric("logical_bytes", lambda i: i.shape.logical_bytes, 1),
    Numeric("rank", _rank, 0),
    Numeric("elements", _elements, 0),
    Numeric("operands", lambda i: len(i.operands), 0),
    Numeric("3", lambda _: 3, 0),
    Numeric("2KiB", lambda _: 2048, 1),
)


def _numeric(random: Random, power: int, depth: int) -> Numeric:
    """A random number of some power of bytes, in parentheses wherever it is computed."""
    if not depth or random.random() < 0.3:
        return random.choice([leaf for leaf in LEAVES if leaf.power == power])
    symbol = random.choice("+-*/")
    if symbol in "+-":
        left, right = _numeric(random, power, depth - 1), _numeric(random, power, depth - 1)
    elif symbol == "*":
        left, right = _numeric(random, power, depth - 1), _numeric(random, 0, depth - 1)
    else:
        below = 1 if power == 0 and random.random() < 0.5 else 0
        left, right = _numeric(random, power + below, depth - 1), _numeric(random, below, depth - 1)
    return _joined(symbol, left, right, power)


def _joined(symbol: str, left: Numeric, right: Numeric, power: int) -> Numeric:
    def value(i: Instruction) -> float | None:
        a, b = left.value(i), right.value(i)
        if a is None or b is None or (symbol == "/" and not b):
            return None
        return {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else 0}[symbol]

    return Numeric(f"({left.text}) {symbol} ({right.text})", value, power)


ORDERS: dict[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
}  # fmt: skip


@cache
def _modules() -> tuple[Module, ...]:
    small = sorted(compiled_dumps(), key=lambda dump: dump.path.stat().st_size)
    return tuple(load(dump.path) for dump in small[2:10])


def _relation(random: Random) -> tuple[str, Callable[[Instruction], bool]]:
    power = random.choice((0, 1))
    left, right = _numeric(random, power, 3), _numeric(random, power, 2)
    sign = random.choice(list(ORDERS))
    text = f"({left.text}) * 1 {sign} ({right.text}) * 1"

    def holds(i: Instruction) -> bool:
        a, b = left.value(i), right.value(i)
        return a is not None and b is not None and ORDERS[sign](a, b)

    return text, holds


@pytest.mark.parametrize("seed", every(3, range(60)))
def test_random_conditions_are_true_of_what_python_says(seed: int) -> None:
    random = Random(seed)
    relations = [_relation(random) for _ in range(2)]
    word, together = random.choice((("and", all), ("or", any)))
    text = f" {word} ".join(f"not ({part})" if at else part for at, (part, _) in enumerate(relations))
    module = random.choice(_modules())
    found = list(filter(instructions_where(text, module), module.instructions))
    expected = [i for i in module.instructions if together((relations[0][1](i), not relations[1][1](i)))]
    assert [i.name for i in found] == [i.name for i in expected], text


@pytest.mark.parametrize("seed", every(3, range(60)))
def test_random_quantities_are_what_python_says(seed: int) -> None:
    """Operations are instructions here: the modules have nothing asynchronous.

    Sums are over kernels, none of which contains another or hands on its arrays, so that each counts in whole.
    """
    random = Random(seed + 1000)
    module = random.choice([each for each in _modules() if not async_pairs(each).pairs])
    (condition, holds), measure = _relation(random), _numeric(random, random.choice((0, 1)), 2)
    measure = _joined("*", measure, LEAVES[5], measure.power)
    values = [v for i in module.instructions if holds(i) and (v := measure.value(i)) is not None]
    number = sum(map(holds, module.instructions))
    kernels = {kernel.instruction for kernel in kernels_of(module) if not kernel.is_transfer}
    summed = sum(v for i in kernels if holds(i) and (v := measure.value(i)) is not None)
    which = f"kernel and ({condition})"
    expected: dict[str, float | None] = {
        f"count({condition})": number,
        f"sum({measure.text}, {which})": summed,
        f"max({measure.text}, {condition})": max(values, default=None),
        f"min({measure.text}, {condition})": min(values, default=None),
        f"2 * count({condition}) + 3 * (count({condition}) - 1)": 5 * number - 3,
        f"sum({measure.text}, {which}) / 4 - sum({measure.text}, {which}) * 2": summed / 4 - summed * 2,
    }
    for result in judged(module, *(f"{text} < 7" for text in expected)):
        value = expected[str(result.expectation).removesuffix(" < 7")]
        if value is None:
            assert (result.found, result.is_met) == (None, True)
        else:
            assert result.found is not None
            assert isclose(result.found, value, rel_tol=1e-12), result.expectation
            assert result.is_met is (result.found < 7)


@pytest.mark.parametrize("seed", every(3, range(40)))
def test_what_is_said_to_never_fail_does_not(seed: int) -> None:
    """And conditions that are said to be always or never true are."""
    random = Random(seed)
    measure, number = _numeric(random, 0, 2).text, random.choice((-3, -1, 0, 0, 1, 2, 100))
    condition = f"({measure}) * 1 {random.choice(list(ORDERS))} {number}"
    other = random.choice(
        ("rank >= 0", "padding > 1%", "operands < 0", "fused", "not fused", "rank == 1 and rank == 2")
    )
    whole = f"{condition} {random.choice(('and', 'or'))} {other}"
    lines = (
        f"none({whole})",
        f"exists({whole})",
        f"count({whole}) >= {number}",
        f"count({whole}) - count({other}) < 1",
    )
    for module in _modules():
        number_of_operations = judged(module, "count(operands >= 0) < 0")[0].found
        for result in judged(module, *lines):
            for caution in result.cautions:
                assert result.is_met is not False or not caution.cannot_fail, (result.expectation, caution)
                if caution.message == f"{condition} is never true":
                    assert judged(module, f"count({condition}) < 0")[0].found == 0
                if caution.message == f"{condition} is always true":
                    assert judged(module, f"count({condition}) < 0")[0].found == number_of_operations


_operands: st.SearchStrategy[str] = st.recursive(
    st.sampled_from(("bytes", "dims[0]", "trips", "3", "2.5", "1KiB", "10%")),
    lambda parts: st.builds(lambda a, b, c: f"({a}) {b} ({c})", parts, st.sampled_from("+-*/"), parts),
    max_leaves=8,
)


def _written(operand: Operand) -> str:
    match operand:
        case Field():
            return str(operand)
        case Number():
            return operand.text
        case Arithmetic():
            return f"({_written(operand.left)}) {operand.operator} ({_written(operand.right)})"


@given(_operands)
def test_arithmetic_reads_as_it_is_written(text: str) -> None:
    assert _written(parse_operand(text)) == text
    condition = parse_where(f"({text}) * 1 > ({text}) * 1").condition
    assert condition == parse_where(f"({text}) * 1 > ({text}) * 1").condition


_terms: st.SearchStrategy[str] = st.recursive(
    st.sampled_from(("count(fused)", "sum(bytes * trips, kernel)", "peak.hbm", "3", "2MiB", "golden", "max(rank)")),
    lambda parts: st.builds(lambda a, b, c: f"({a}) {b} ({c})", parts, st.sampled_from("+-*/"), parts),
    max_leaves=8,
)


def _term_text(term: Term, text: str) -> str:
    match term:
        case Quantity() | Golden():
            return text[term.span.start : term.span.end]
        case Number():
            return term.text
        case Calculation():
            return f"({_term_text(term.left, text)}) {term.operator} ({_term_text(term.right, text)})"


@given(_terms)
def test_terms_read_as_they_are_written(limit: str) -> None:
    text = f"count(loop) <= ({limit}) * 1"
    _, _, read = parse_expectation(text)
    assert (
        _term_text(read, text) == f"({limit}) * (1)".replace("(1)", "1") or _term_text(read, text) == f"({limit}) * (1)"
    )


def test_products_bind_before_sums_and_from_left_to_right() -> None:
    for text, written in (
        ("a + b * c", "(a) + ((b) * (c))"),
        ("a * b + c", "((a) * (b)) + (c)"),
        ("a - b - c", "((a) - (b)) - (c)"),
        ("a / b * c", "((a) / (b)) * (c)"),
        ("a*b", "(a) * (b)"),
        ("a - -3", "(a) - (-3)"),
    ):
        assert _written(parse_operand(text)) == written


@given(st.text("abt()*/+-<>= 0123.%KMiBkgolden,peahmsucr\t\n_", max_size=40))
def test_whatever_is_typed_is_read_or_refused(text: str) -> None:
    for parse in (parse_where, parse_expectation, parse_operand):
        try:
            parse(text)
        except HloError as error:
            span = error.diagnostic.span
            assert span is None or 0 <= span.start <= span.end <= len(text) + 1


def test_every_beginning_is_read_or_refused() -> None:
    text = "2 * sum((bytes + 1B) * trips, opcode == copy) / count(kernels) <= 10% * golden + peak.hbm - 3KiB"
    for end in range(len(text)):
        with suppress(HloError):
            parse_expectation(text[:end])
    assert isinstance(parse_expectation(text)[0], Calculation)


def test_deep_terms_are_refused_and_long_ones_take_no_long_time() -> None:
    with pytest.raises(HloError, match="too many nested parentheses"):
        parse_expectation("count(fused) <= " + "(" * 3000 + "1" + ")" * 3000)
    parse_expectation("count(fused) <= 1 * " + " + ".join(["golden"] * 500))


@pytest.mark.parametrize(
    ("text", "message", "place", "hint"),
    [
        ("count(bytes + trips > 3) < 1", "cannot add bytes (a size in bytes) and trips (a number)", "bytes + trips", "same unit"),
        ("count(bytes * bytes > 3) < 1", "cannot multiply bytes (a size in bytes) and bytes", "bytes * bytes", "multiply a size"),
        ("count(bytes * trips > trips * 2) < 1", "cannot compare bytes * trips (a size in bytes)", "bytes * trips > trips * 2", "same unit"),
        ("count(trips * 2 > 50%) < 1", "cannot compare trips * 2 (a number) and 50% (a percentage)", "trips * 2 > 50%", ""),
        ("count(bytes * opcode > 3) < 1", "'opcode' is not numeric", "opcode", "padded_bytes"),
        ("count(bytes * trps > 3) < 1", "unknown field 'trps'", "trps", "did you mean 'trips'?"),
        ("count(padded_bytes-logical_bytes > 3) < 1", "unknown field 'padded_bytes-logical_bytes'", "padded_bytes-logical_bytes", "write spaces around -"),
        ("count(padded_bytes > 2*logical_bytes) < 1", "'2*logical_bytes' is not a number", "padded_bytes > 2*logical_bytes", "write spaces"),
        ("count(bytes * trips) < 1", "expected a comparison", "", "> 1MiB"),
        ("count(bytes * trips ~ 3) < 1", "bytes * trips is a number; ~ needs a field", "bytes * trips ~ 3", ""),
        ("count(bytes * > 3) < 1", "expected a field or a number, found '>'", ">", ""),
        ("sum(bytes *, fused) < 1", "expected a field or a number, found end of input", "", ""),
        ("sum(bytes + trips, fused) < 1", "cannot add bytes", "bytes + trips", ""),
        ("sum(bytes * kind) < 1", "'kind' is not numeric", "kind", ""),
        ("sum(bytes) + count(fused) < 1", "cannot add sum(bytes) (a size in bytes) and count(fused) (a number)", "sum(bytes) + count(fused)", "same unit"),
        ("sum(bytes) <= 2 * count(fused)", "cannot compare sum(bytes) (a size in bytes) and 2 * count(fused)", "sum(bytes) <= 2 * count(fused)", ""),
        ("peak.hbm <= count(fused) * 1", "cannot compare peak.hbm", "peak.hbm <= count(fused) * 1", ""),
        ("peak.hbm <= 50%", "wrong unit for peak.hbm: 50%", "50%", ""),
        ("count(fused) <= golden * 2MiB", "cannot compare count(fused) (a number) and golden * 2MiB", "count(fused) <= golden * 2MiB", ""),
        ("peak.hmb <= golden", "unknown memory space 'hmb'", "peak.hmb", "did you mean 'hbm'?"),
        ("peak <= golden", "expected a memory space after peak", "peak", "peak.hbm"),
        ("golden <= 3", "golden is not a quantity", "golden", "after the comparison"),
        ("count(fused) <= goldn * 2", "unknown function 'goldn'", "goldn", "did you mean 'golden'?"),
        ("count(fused) <= 2 * none(fused)", "none() is true or false, not a number", "none(fused)", "use count"),
        ("count(fused) <= 2 * ", "expected a function", "", ""),
        ("count(fused) <= (2 * golden", "unclosed '('", "(", ""),
        ("count(fused) <= golden golden", "expected an operator or end of input, found 'golden'", "golden", ""),
        ("3 <= golden * 2", "no quantity to measure", "3", "count("),
        ("count(fused) <= 2 * 3frogs", "unknown unit 'frogs'", "3frogs", "KiB"),
        ("count(of_argument(~\"(\")) < 1", "invalid regular expression", "(", ""),
        ("count(of_arg(params)) < 1", "unknown function 'of_arg'", "of_arg", "of_argument"),
        ("count(kernal) < 1", "unknown field 'kernal'", "kernal", "did you mean 'kernel'?"),
    ],
)  # fmt: skip
def test_errors_have_a_place_and_a_hint(text: str, message: str, place: str, hint: str) -> None:
    with pytest.raises(HloError) as caught:
        stated(text)
    found = caught.value.diagnostic
    assert message in found.message
    assert hint in (found.hint or "")
    assert found.span is not None
    assert found.source is not None
    if place:
        assert found.source.slice(found.span) == place


_ends = st.sampled_from((-inf, -3.0, -1.0, 0.0, 1.0, 2.0, 5.0, inf))
_intervals = (
    st.tuples(_ends, _ends).map(lambda ends: (min(ends), max(ends))).filter(lambda i: abs(i[0]) != inf or i[0] != i[1])
)


@given(_intervals, _intervals, st.sampled_from("+-*/"), st.integers(0, 10**6))
def test_results_are_within_the_bounds(
    left: tuple[float, float], right: tuple[float, float], symbol: str, seed: int
) -> None:
    random = Random(seed)
    low, high = interval_of(symbol, left, right)  # type: ignore[arg-type]
    for a, b in product(_inside(random, left), _inside(random, right)):
        if symbol != "/" or b:
            assert low - 1e-9 <= result_of(symbol, a, b) <= high + 1e-9  # type: ignore[arg-type]


def _inside(random: Random, interval: tuple[float, float]) -> list[float]:
    low, high = max(interval[0], -100.0), min(interval[1], 100.0)
    return [low, high, random.uniform(low, high)]
