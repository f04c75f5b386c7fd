"""What does not hold together is opaque to analyses, prints back unchanged, and every command gives a clear answer of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from damaging import PROTO_MARK, Damager
from fuzz import bytes_of
from hlo_cli.ir.attributes.metadata import StackFrame, StackFrames
from hlo_cli.ir.attributes.value_types import ArrayLiteral
from hlo_cli.ir.module import Module
from hlo_cli.ir.opcodes import OPAQUE
from hlo_cli.library import module_from_bytes, parse_module
from hlo_cli.lint.run import lint_module
from hlo_cli.lint.settings import LintSettings
from hlo_cli.source import HloError
from hlo_cli.syntax.opaque import problem_with
from hlo_cli.syntax.proto.write_module import module_to_bytes
from hlo_cli.syntax.text.build import is_printed_without_operands
from hlo_cli.transform.normalize import normalize
from strategies import dump_text, dumps
from whole_commands import SELECTIONS, command_line, failure_of

HEAD = "HloModule m, is_scheduled=true\n\n"
ADD = "f {\n  a = f32[8]{0} parameter(0)\n  b = f32[8]{0} parameter(1)\n  ROOT s = f32[8]{0} add(a, b)\n}\n\n"
BROKEN = {
    "no operand": "b = f32[8]{0} bitcast()",
    "one operand of two": "b = f32[8]{0} add(x)",
    "too many operands": "b = f32[8]{0} negate(x, x)",
    "an element of nothing": "b = f32[8]{0} get-tuple-element(), index=0",
    "an element of an array": "b = f32[8]{0} get-tuple-element(x), index=0",
    "an element that is not there": "b = f32[8]{0} get-tuple-element(t), index=2",
    "no index": "b = f32[8]{0} get-tuple-element(t)",
    "an element as sugar": "b = f32[8]{0} negate(t#7)",
    "a tuple of too few": "b = (f32[8]{0}, f32[8]{0}) tuple(x)",
    "a tuple that is an array": "b = f32[8]{0} tuple(x)",
    "too many bytes": "b = f32[8,9223372036854775807]{1,0} broadcast(x), dimensions={0}",
    "a scatter of too few": "b = f32[8]{0} select-and-scatter(x), select=f, scatter=f",
    "a fusion of too few": "b = f32[8]{0} fusion(x), kind=kLoop, calls=f",
    "a call of too few": "b = f32[8]{0} call(x), to_apply=f",
    "a call of nothing": "b = f32[8]{0} call(x)",
    "a loop without a body": "b = f32[8]{0} while(x), condition=f",
    "a reduction of too few": "b = f32[] reduce(x), dimensions={0}, to_apply=f",
    "nothing to join": "b = f32[8]{0} concatenate(), dimensions={0}",
    "no update": "b = f32[8]{0} dynamic-update-slice(x)",
    "an end without a start": "b = f32[8]{0} slice-done()",
}


def text_of(line: str) -> str:
    """A module with a line that does not hold together."""
    body = f"  x = f32[8]{{0}} parameter(0)\n  t = (f32[8]{{0}}, f32[8]{{0}}) tuple(x, x)\n  {line}\n"
    return f"{HEAD}{ADD}ENTRY e {{\n{body}  ROOT r = f32[8]{{0}} negate(b)\n}}\n"


EXTREME = {
    **{name: text_of(line) for name, line in BROKEN.items()},
    "an alias past 2^63": "HloModule m, input_output_alias={ {}: (9223372036854775808, {}, must-alias) }\n"
    "ENTRY e { ROOT p = f32[2] parameter(0) }",
    "an alias of nothing": "HloModule m, input_output_alias={ {3}: (0, {7}, must-alias) }, buffer_donor={ (9, {}) }\n"
    "ENTRY e { ROOT p = f32[2] parameter(0) }",
    "a tile past 2^63": "HloModule m\nENTRY e { ROOT p = f32[2]{0:T(9223372036854775808)} parameter(0) }",
    "tuples that double": "HloModule m\nENTRY e {\n  a0 = f32[8] parameter(0)\n"
    + "".join(f"  a{n + 1} = tuple(a{n}, a{n})\n" for n in range(40))
    + "  ROOT r = tuple(a40)\n}\n",
    "a call of itself": "HloModule m\nENTRY e { p = f32[] parameter(0)  ROOT c = f32[] call(p), to_apply=e }",
}
PARTS = 8
"""Parts of the questions, of which `make test` asks one of each text, `make oracle` another, `make judge` the rest."""


def _marks(part: int) -> tuple[pytest.MarkDecorator, ...]:
    return ((), (pytest.mark.slow,))[part] if part < 2 else (pytest.mark.long,)


@pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN)
def test_what_does_not_hold_together_is_opaque_and_prints_back(line: str) -> None:
    module = parse_module(text_of(line))
    broken = module.instruction("b")
    assert broken.opcode == broken.written_opcode + OPAQUE
    assert [i.name for i in module.instructions if i.opcode.endswith(OPAQUE)] == ["b"]
    assert module.notes
    assert broken.opcode not in str(module)
    printed = parse_module(str(module))
    assert str(printed) == str(module)
    assert printed.instruction("b").opcode == broken.opcode


@pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN)
def test_lint_finds_what_does_not_hold_together(line: str) -> None:
    found = lint_module(parse_module(text_of(line)), LintSettings())
    assert any(finding.severity == "error" or finding.code == "HLO003" for finding in found)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        pytest.param(name, part, marks=_marks((part - number) % PARTS))
        for number, name in enumerate(EXTREME)
        for part in range(PARTS)
    ],
)
def test_every_command_answers_in_time(name: str, part: int, tmp_path: Path) -> None:
    """Every question, in parts: each text is asked some of them, and each question is asked of some texts."""
    path, random = tmp_path / "m.txt", Random(1)
    path.write_text(EXTREME[name])
    failures = {}
    questions = [(command, words) for command, asked in SELECTIONS.items() for words in asked]
    for question in questions[part::PARTS]:
        line = command_line(random, path, path, ["b", "r"], question)
        if (failure := failure_of(line)) is not None:
            failures[" ".join(line)] = failure
    assert not failures


def test_protos_are_held_to_the_same() -> None:
    good = text_of("b = f32[8]{0} get-tuple-element(t), index=1")
    data = module_to_bytes(parse_module(good))
    assert module_from_bytes(data).notes == ()
    module = module_from_bytes(data.replace(b"get-tuple-element", b"dynamic-update-sl").replace(b"negate", b"divide"))
    assert [i.opcode for i in module.entry.instructions if i.opcode.endswith(OPAQUE)] == ["divide?"]
    assert [note.code for note in module.notes] == ["operand-count"]


def test_dumps_hold_together() -> None:
    for path in dumps():
        opaque = [i.name for i in parse_module(dump_text(path)).instructions if i.opcode.endswith(OPAQUE)]
        assert not opaque, path


def modules(count: int) -> Iterator[Module]:
    damager = Damager(7)
    for _ in range(count):
        text = damager.next()
        try:
            yield module_from_bytes(bytes_of(text)) if text.startswith(PROTO_MARK) else parse_module(text)
        except HloError:
            continue


@pytest.mark.slow
def test_damaged_modules_keep_the_promises() -> None:
    """Those of `opaque.py`, whatever was read; unless a text leaves out operands or names."""
    checked = 0
    for module in modules(700):
        codes = {note.code for note in module.notes}
        if codes & {"elided", "unresolved"} or is_printed_without_operands(module.computations):
            continue
        for instruction in module.instructions:
            assert instruction.opcode.endswith(OPAQUE) or problem_with(instruction) is None, instruction
            checked += 1
    assert checked > 5_000


def test_names_of_what_does_not_hold_together_are_names() -> None:
    root = normalize(parse_module("ENTRY e { ROOT b = f32[8] bitcast() }")).entry.root
    assert root is not None
    assert root.name == "bitcast.1"


def test_frames_that_call_each_other_end() -> None:
    assert StackFrames(frames=(StackFrame(7, 3), StackFrame(7, 2))).stack(1) == ()


@pytest.mark.parametrize("numbers", ["0, 127, 128", "-1, 300", "0", "16383, 16384, 2147483647", ""])
def test_integers_of_every_length_are_written(numbers: str) -> None:
    values = [int(number) for number in numbers.split(",") if number]
    module = parse_module(f"HloModule m\nENTRY e {{ ROOT r = s32[{len(values)}] constant({{{numbers}}}) }}")
    literal = module_from_bytes(module_to_bytes(module)).instruction("r").literal
    assert isinstance(literal, ArrayLiteral)
    assert literal.array().tolist() == values
