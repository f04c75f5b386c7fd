"""The commonest mistakes in HLO that people edit: each is one error or note, at its place, whatever else is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest

from hlo_cli.source import Diagnostic, HloError, Source
from hlo_cli.syntax.text.check import check_module
from hlo_cli.syntax.text.parser import parse_module
from judge import ask_xla
from strategies import FIXTURES, dump_text

FOLDER = FIXTURES / "golden" / "parse"
MISTAKES = sorted(FOLDER.glob("error_*.hlo"))
TOGETHER = FOLDER / "mistakes.hlo"
READ_BY_XLA = ("entry_missing", "layout_order", "root_missing")
"""What XLA makes the best of, as we do, but without saying so."""

each_mistake = pytest.mark.parametrize("path", MISTAKES, ids=lambda path: path.stem.removeprefix("error_"))


def said_of(path: Path, *, strict: bool) -> tuple[Diagnostic, ...]:
    """The errors and notes on a file; strict reading has no notes if there are errors."""
    source = Source(path.name, path.read_text(encoding="utf-8"))
    try:
        module = parse_module(source, strict=strict)
    except HloError as error:
        return error.diagnostics
    return (*module.errors, *module.notes)


def lines_of(diagnostics: Iterable[Diagnostic]) -> list[int]:
    """The lines that they are about."""
    return sorted(each.position.line for each in diagnostics if each.position is not None)


@each_mistake
def test_one_mistake_is_one_error(path: Path) -> None:
    name = path.stem.removeprefix("error_")
    said = said_of(path, strict=True)
    assert len(said) == 1
    assert said[0].severity == ("note" if name in READ_BY_XLA else "error")
    assert said[0].position is not None


@each_mistake
def test_lenient_reading_says_at_most_one_thing_of_one_mistake(path: Path) -> None:
    said = said_of(path, strict=False)
    assert len(said) <= 1
    strictly = said_of(path, strict=True)
    assert all(abs(a - b) <= 1 for a, b in zip(lines_of(said), lines_of(strictly), strict=False))


@each_mistake
def test_a_mistake_has_one_golden(path: Path) -> None:
    first = path.with_suffix(".txt").read_text(encoding="utf-8").partition("\n")[0]
    assert f"golden/parse/{path.name}" in first


@pytest.mark.parametrize("seed", range(40))
def test_errors_are_those_of_the_closer_look(seed: int) -> None:
    """Whether all attributes come apart is found out quickly, and says that a closer look finds no error in them."""
    random = Random(seed)
    lines = dump_text(FIXTURES / "cpu/softmax/after_optimizations.txt").split("\n")
    number = random.choice([number for number, line in enumerate(lines) if "), " in line])
    at = random.randrange(lines[number].index("), ") + 1, len(lines[number]))
    lines[number] = lines[number][:at] + random.choice(("", *'{}[]()"=,')) + lines[number][at + 1 :]
    module = parse_module("\n".join(lines))
    assert set(module.errors) == {*module.read_errors, *check_module(module).errors}


@pytest.mark.parametrize("strict", [False, True])
def test_every_mistake_is_told_where_there_are_many(*, strict: bool) -> None:
    text = TOGETHER.read_text(encoding="utf-8").splitlines()
    correct = ("plus", "x", "y", "zero", "a", "b", "ROOT sum", "uses", "ROOT first", "ENTRY main", "}")
    wrong = [
        number
        for number, line in enumerate(text, 1)
        if line.strip() and (line.split("=")[0].strip(" {") not in correct or "negate" in line)
    ]
    said = said_of(TOGETHER, strict=strict)
    assert lines_of(said) == wrong


def test_what_is_left_of_a_broken_module_is_read() -> None:
    module = parse_module(TOGETHER.read_text(encoding="utf-8"))
    names = {instruction.name for instruction in module.entry.instructions}
    assert {"x", "y", "zero", "opcode", "attribute", "uses", "first", "out"} <= names
    assert not {"layout", "tile", "shape", "brace", "bracket", "comma"} & names


@pytest.mark.parametrize("word", ["add", "all-reduce-start", "slice-done", "get-tuple-element"])
def test_what_is_right_has_no_hint(word: str) -> None:
    module = parse_module(f"HloModule m  ENTRY e {{ a = f32[] parameter(0)  ROOT b = f32[] {word}(a) }}")
    assert not [note for note in module.notes if note.code == "unknown-opcode"]


@pytest.mark.oracle
def test_xla_rejects_what_strict_reading_rejects() -> None:
    said = ask_xla([path.read_text(encoding="utf-8") for path in MISTAKES])
    names = [path.stem.removeprefix("error_") for path in MISTAKES]
    read = {name for name, verdict in zip(names, said, strict=True) if verdict}
    assert read == {*READ_BY_XLA, "tile_unclosed"}  # XLA takes any sign for a parenthesis that a layout misses
    assert ask_xla([TOGETHER.read_text(encoding="utf-8")]) == [False]


CORRECT = """HloModule m

plus {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}

ENTRY main {
  x = f32[8,4]{1,0} parameter(0)
  zero = f32[] constant(0)
  r = f32[8]{0} reduce(x, zero), dimensions={1}, to_apply=plus
  ROOT d = f32[8]{0} negate(r), metadata={op_name="d"}
}
"""


def test_one_wrong_character_is_one_error() -> None:
    text = CORRECT
    assert parse_module(text, strict=True).notes == ()
    random, counts = Random(1), Counter[int]()
    for _ in range(600):
        at, sign = random.randrange(len(text)), random.choice([*'(){}[],="%x0 ;', ""])
        counts[_count_of_errors(text[:at] + sign + text[at + 1 :])] += 1
    assert counts[1] > 10 * sum(number for count, number in counts.items() if count > 1)


def _count_of_errors(text: str) -> int:
    try:
        return len(parse_module(text, strict=True).errors)
    except HloError as error:
        return len(error.diagnostics)
