"""Parts of a module, as people paste them: what is there is read as in the whole, what is not becomes parameters."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

import pytest

from hlo_cli import cli
from hlo_cli.analysis.shapes.omitted_shape import omitted_shape
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import UnknownShape
from hlo_cli.source import HloError
from hlo_cli.syntax.text.instruction_lines import LineReader
from hlo_cli.syntax.text.parser import parse_module
from share import every
from strategies import dump_text, dumps, name_of
from timing import is_linear

COMMANDS = (
    ("parse",),
    ("parse", "--instructions"),
    ("parse", "--tree"),
    ("layout",),
    ("memspace",),
    ("schedule",),
    ("schedule", "--sequence"),
    ("schedule", "--critical-path", "flops"),
    ("fuse",),
    ("fuse", "--cost"),
    ("lint",),
    ("parse", "--format", "hlo"),
)
BODY = "  %x = f32[4]{0} add(%a, %b)\n  ROOT %t = (f32[4]{0}, s8[9]{0}) tuple(%x, %c)\n"
DEFINITION = re.compile(r"^ *(?:ROOT )?%?[\w.-]+ = ", re.MULTILINE)

each_dump = pytest.mark.parametrize("path", dumps(), ids=name_of)


def read(text: str) -> Module:
    """The module in a text, with inferred shapes, as commands read it."""
    return parse_module(text, infer=omitted_shape)


@cache
def whole(path: Path) -> frozenset[tuple[str, str, str, tuple[str, str]]]:
    """All instructions of a dump."""
    return frozenset(map(facts, parse_module(dump_text(path)).instructions))


def facts(instruction: Instruction) -> tuple[str, str, str, tuple[str, str]]:
    """What the text says about an instruction, other than its operands."""
    return instruction.name, instruction.opcode, str(instruction.shape), instruction.raw


def rows(module: Module) -> list[tuple[str, str, str, list[str], list[str]]]:
    """Every instruction of a module with its operands and calls."""
    return [
        (i.name, i.opcode, str(i.shape), [o.name for o in i.operands], [c.name for c in i.called_computations])
        for i in module.instructions
    ]


def tail(path: Path, random: Random) -> str:
    """The text from a line on that is after the header and its tables."""
    text = dump_text(path)
    first = text.count("\n", 0, parse_module(text).computations[0].instructions[0].span.start)  # type: ignore[union-attr]
    lines = text.split("\n")
    return "\n".join(lines[random.randrange(first, len(lines) - 3) :])


def middle(path: Path, random: Random) -> str:
    """Lines of a tail, without its end."""
    lines = tail(path, random).split("\n")
    return "\n".join(lines[: random.randrange(2, max(3, len(lines)))])


def one(path: Path, random: Random) -> str:
    """One computation without its module."""
    module = parse_module(dump_text(path))
    span = random.choice(module.computations).span
    assert span is not None
    return module.source.slice(span)


def some(path: Path, random: Random) -> str:
    """Instructions of one computation without its braces, some of which are missing."""
    module = parse_module(dump_text(path))
    computation = random.choice(module.computations)
    chosen = [i for i in computation.instructions if random.random() < 0.5] or list(computation.instructions)
    return "\n".join(module.source.slice(i.span) for i in chosen if i.span is not None)


CUTS: tuple[Callable[[Path, Random], str], ...] = (tail, middle, one, some)


@each_dump
def test_what_is_in_a_part_reads_as_in_the_whole(path: Path) -> None:
    random = Random(name_of(path))
    for cut in CUTS:
        for _ in range(2):
            text = cut(path, random)
            try:
                module = read(text)
            except HloError:
                assert " = " not in text
                continue
            assert not module.errors
            assert module.is_part or "ENTRY" in text or len(module.entry.instructions) < 5
            known = whole(path)
            present = [i for i in module.instructions if i.span and " = " in module.source.slice(i.span)]
            assert not [i for i in present if facts(i) not in known]
            assert len(present) == len(DEFINITION.findall(text))
            assert {i.opcode for i in {*module.instructions}.difference(present)} <= {"parameter"}
            for computation in module.computations:
                names = [i.name for i in computation.instructions]
                assert len(set(names)) == len(names)
                assert [i.index for i in computation.instructions] == list(range(len(names)))
                assert all(o.index < i.index for i in computation.instructions for o in i.operands)


@each_dump
def test_a_part_prints_as_a_text_that_reads_as_the_same(path: Path) -> None:
    random = Random(name_of(path))
    for cut in CUTS:
        try:
            module = read(cut(path, random))
        except HloError:
            continue
        again = read(str(module))
        assert not again.errors
        assert str(again) == str(module)
        assert rows(again) == rows(module)
        assert (again.is_part, again.entry.name) == (module.is_part, module.entry.name)


@pytest.mark.parametrize(
    "path", every(6, [path for path in dumps() if path.stat().st_size < 30_000], slow=1), ids=name_of
)
def test_every_command_answers(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    random, part = Random(name_of(path)), tmp_path / "part.txt"
    for cut in CUTS[:3]:
        part.write_text(cut(path, random))
        try:
            name = random.choice(list(read(part.read_text()).instructions)).name
        except HloError:
            continue
        for command in (*COMMANDS, ("parse", "--explain", name)):
            code = cli.main([command[0], str(part), *command[1:]], standalone=False)
            error = capsys.readouterr().err
            assert code == 0 or (code in (1, 2) and command == ("lint",))
            assert "error:" not in error or "so it cannot pass the check" in error


@each_dump
def test_a_random_instruction_alone_is_read(path: Path) -> None:
    module, random = parse_module(dump_text(path)), Random(name_of(path))
    for instruction in random.sample(list(module.instructions), min(5, module.instruction_count)):
        assert instruction.span is not None
        alone = read(module.source.slice(instruction.span))
        assert not alone.errors
        root = alone.entry.root
        assert root is not None
        assert facts(root) == facts(instruction)
        assert [o.name for o in root.operands] == [o.name for o in instruction.operands]
        assert alone.is_part or not instruction.called_computations


@pytest.mark.parametrize("end", ["}\n", "", "}\n\n%f (p: f32[]) -> f32[] {\n  ROOT %p = f32[] parameter(0)\n}\n"])
def test_operands_that_are_not_in_the_text_are_parameters_after_those_that_are(end: str) -> None:
    module = read(f"  %q = s32[] parameter(3)\n{BODY}{end}")
    first = module.computations[0]
    assert [(p.name, p.parameter_number, str(p.shape)) for p in first.parameters] == [
        ("q", 3, "s32[]"),
        ("a", 4, "f32[4]{0}"),
        ("b", 5, "f32[4]{0}"),
        ("c", 6, "s8[9]{0}"),
    ]
    assert [i.name for i in first.instructions] == ["a", "b", "c", "q", "x", "t"]
    notes = [note.message for note in module.notes]
    assert "part of a module: 3 operands are not in this text; read as parameters" in notes
    assert len(notes) <= 3
    assert module.is_part


def test_inline_shapes_are_those_of_the_parameters_and_others_are_unknown() -> None:
    module = read("%x = f32[] add(f32[] %a, s8[2]{0} %b)\n%y = f32[7] custom-call(%z, %z)\n")
    shapes = {p.name: p.shape for p in module.entry.parameters}
    assert (str(shapes["a"]), str(shapes["b"]), shapes["z"]) == ("f32[]", "s8[2]{0}", UnknownShape())
    assert any(note.message.endswith(", 1 of unknown shape") for note in module.notes)


@pytest.mark.parametrize("text", [f"{BODY}}}\n", f"{BODY.strip()}\n\n"])
def test_the_computation_without_a_beginning_is_the_entry_if_it_is_the_last(text: str) -> None:
    module = read(f"%f {{\n  ROOT %p = f32[] parameter(0)\n}}\n\n{text}")
    assert (module.entry.name, [c.name for c in module.computations]) == (
        "entry_computation",
        ["f", "entry_computation"],
    )
    assert any(note.message.endswith("generated the name entry_computation") for note in module.notes)


def test_made_up_names_are_no_other_names() -> None:
    module = read(f"{BODY}}}\n\n%computation {{\n  ROOT %y = f32[4] fusion(%a), calls=%computation.1\n}}\n")
    assert [c.name for c in module.computations] == ["computation.2", "computation"]
    assert module.computations[1].root is not None
    assert not module.computations[1].root.called_computations


def test_calls_of_computations_that_are_not_in_the_text_are_unresolved() -> None:
    module = read("ENTRY e {\n  p = f32[4] parameter(0)\n  ROOT f = f32[4] fusion(p), kind=kLoop, calls=fc\n}\n")
    assert [(i.opcode, i.called_computations) for i in module.entry.instructions] == [("parameter", ()), ("fusion", ())]
    assert [note.message for note in module.notes] == ["computation fc is not in this text"]
    assert module.is_part


def test_many_missing_computations_are_one_note() -> None:
    module = read("".join(f"%f{i} = f32[4] fusion(f32[4] %a), kind=kLoop, calls=%c{i}\n" for i in range(50)) + "}")
    assert "50 called computations are not in this text" in [note.message for note in module.notes]
    assert len(module.notes) == 3


def test_a_computation_of_which_lines_are_missing_is_not_called() -> None:
    called = "%b (p: f32[4]) -> f32[4] {\n  ...\n  ROOT %n = f32[4]{0} negate(%q)\n}\n"
    module = read(f"{called}\nENTRY %e {{\n  ROOT %c = f32[4]{{0}} call(f32[4]{{0}} %p), to_apply=%b\n}}\n")
    assert not module.errors
    assert module.entry.root is not None
    assert (module.entry.root.opcode, module.entry.root.called_computations) == ("call", ())
    assert "computation b is incomplete in this text" in [note.message for note in module.notes]


@pytest.mark.parametrize(
    "mark",
    [
        "...",
        "  // ...",
        "<snip>",
        "[...]",
        "…",
        "  ... 12 more lines",
        "  %b = f32[4]{0} ...",
        "  %c = ...",
        "[12 lines omitted]",
    ],
)
@pytest.mark.parametrize("head", ["HloModule m\n\n", ""])
def test_lines_that_stand_for_others(mark: str, head: str) -> None:
    module = read(f"{head}ENTRY %e {{\n  %a = f32[4]{{0}} parameter(0)\n{mark}\n{BODY}}}\n")
    assert not module.errors
    assert [p.name for p in module.entry.parameters] == ["a", "b", "c"]
    assert "lines are omitted in this text" in [note.message for note in module.notes]


@pytest.mark.parametrize("first", ["", "128]{1,0} %x), dimensions={0}\n", 'act(%u, %v), metadata={op_name="n"}\n'])
@pytest.mark.parametrize(
    "last", ["", "  %cut = f32[4]{0} ad", "  ROOT %cut", "  %cut = f32[4]{0} add(%x, %x), metadata={"]
)
def test_a_line_that_is_not_whole_is_skipped(first: str, last: str) -> None:
    module = read(f"{first}{BODY}{last}")
    assert not module.errors
    assert [i.name for i in module.entry.instructions] == ["a", "b", "c", "x", "t"]
    skipped = [note.message for note in module.notes if note.message.startswith("skipped the ")]
    assert len(skipped) == bool(first) + bool(last)


@pytest.mark.parametrize(
    "text",
    [
        (
            "%add (x: f32[], y: f32[]) -> f32[] {\n  %x = f32[] parameter(0)\n  %y = f32[] parameter(1)\n"
            "  ROOT %s = f32[] add(f32[] %x, f32[] %y)\n}"
        ),
        "%fusion.3.remat2.clone.1 = f32[8]{0:T(256)} fusion(f32[8]{0:T(256)} %p.1), kind=kLoop, calls=%fused.clone",
        "x = f32[8] add(f32[8] a, f32[8] b),",
        "ROOT %w = (s32[], f32[2]) while((s32[], f32[2]) %t), condition=%c, body=%b",
        "c = f32[2] conditional(s32[] i, f32[2] a, f32[2] b), branch_computations={%b0, %b1}",
        "r = f32[2] reduce(f32[2,3] a, f32[] z), dimensions={1}, to_apply=%add",
        "x = f32[8] add(f32[8] a, f32[8] b),\ny = f32[8] negate(x),\n",
        '}\n}\n%x = f32[2] add(%a, %b)\n}, execution_thread="host"\n',
        (
            "3 {file_location_id=3 parent_frame_id=3}\n4 {file_location_id=4 parent_frame_id=3}\n\n%f {\n"
            "  ROOT %p = f32[] parameter(0)\n}\n"
        ),
    ],
)
def test_forms_of_parts(text: str) -> None:
    module = read(text)
    assert not module.errors
    again = read(str(module))
    assert (str(again), again.is_part) == (str(module), module.is_part)
    assert not [i for i in module.instructions if i.opcode.endswith("?")]


@pytest.mark.parametrize(
    "text",
    [
        "HloModule m\n\nENTRY e {\n  a = f32[2] parameter(0)\n  ROOT b = f32[2] negate(c)\n}\n",
        "HloModule m\n\nENTRY e {\n  a = f32[2] parameter(0)\n  ROOT b = f32[2] call(a), to_apply=c\n}\n",
        "HloModule m\n\nENTRY e {\n  a = f32[2] parameter(0)\n",
        "ENTRY e {\n  a = f32[2] parameter(0)\n  ROOT b = f32[2] negate(c)\n}\n",
    ],
)
def test_a_whole_module_keeps_its_errors(text: str) -> None:
    module = read(text)
    assert len(module.errors) == 1
    assert not module.is_part


def test_a_whole_module_is_not_a_part() -> None:
    for path in dumps()[:5]:
        assert not parse_module(dump_text(path)).is_part


@pytest.mark.parametrize("text", [f"{BODY}}}\n", BODY, "ENTRY %e {\n  ...\n}", f"ENTRY %e {{\n{BODY}"])
def test_strict_reading_refuses_parts(text: str) -> None:
    with pytest.raises(HloError):
        parse_module(text, strict=True)


@pytest.mark.parametrize("text", ["}\n", "}\n\n", "step 1\nstep 2\n", "...\n", '1 "a.py"\n2 "b.py"\n'])
def test_a_text_without_an_instruction_is_refused_as_such(text: str) -> None:
    with pytest.raises(HloError) as error:
        read(text)
    assert error.value.diagnostic.position is None or error.value.diagnostic.position.line > 0


def test_places_are_those_of_the_text() -> None:
    module = read(f"{BODY}}}\n")
    places = [module.source.position(i.span.start) for i in module.entry.instructions if i.span is not None]
    assert places == [(1, 22), (1, 26), (2, 45), (1, 3), (2, 3)]
    assert [i.metadata.op_name for i in module.entry.instructions] == [""] * 5


def test_a_part_takes_the_fast_path() -> None:
    module = read(f"{BODY}}}\n\n%f {{\n{BODY}}}\n\nENTRY %e {{\n{BODY}")
    assert all(isinstance(computation.reader, LineReader) for computation in module.computations)


def test_attributes_of_lines_after_made_parameters() -> None:
    module = read(
        '  %x = f32[4]{0} reduce(%a, %b), dimensions={1}, to_apply=%r, metadata={op_name="n"}\n'
        "  %c = f32[2]{0} constant({1, 2})\n}\n"
    )
    x, c = module.instruction("x"), module.instruction("c")
    assert (x.integers("dimensions"), x.metadata.op_name, x.index) == ((1,), "n", 2)
    assert c.literal is not None
    assert c.literal.to_string() == "{1, 2}"


def test_memspace_and_schedule_say_that_it_is_a_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part = tmp_path / "part.txt"
    part.write_text(f"{BODY}}}\n")
    for command in (["memspace"], ["schedule"], ["fuse"]):
        assert cli.main([*command, str(part)], standalone=False) == 0
        assert "note: this is part of a module; live ranges" in capsys.readouterr().err
    assert cli.main(["diff", str(part), str(part)], standalone=False) == 0
    assert "note: these are parts of modules" in capsys.readouterr().err
    assert cli.main(["lint", str(part)], standalone=False) == 2
    assert "note: this is part of a module; rules that require the whole module" in capsys.readouterr().err


def test_a_part_passes_no_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part = tmp_path / "part.txt"
    part.write_text("a = f32[8] add(b, c)\nROOT d = f32[8] negate(a)\n")
    for command in (["memspace", "--limit", "1GiB"], ["lint"], ["memspace", "--each", "--limit", "1GiB"]):
        assert cli.main([*command, str(part)], standalone=False) == 2
        assert f"error: {part} is part of a module, so it cannot pass the check" in capsys.readouterr().err
    assert cli.main(["memspace", "--limit", "1B", str(part)], standalone=False) == 1
    assert cli.main(["memspace", str(part)], standalone=False) == 0


def test_memory_of_values_of_unknown_shape_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part = tmp_path / "part.txt"
    part.write_text("%x = custom-call(%a)\n%y = custom-call(%x)\n")
    assert cli.main(["memspace", str(part)], standalone=False) == 2
    assert "the shapes of entry_computation are not in this text" in capsys.readouterr().err


HOSTILE: dict[str, Callable[[int], str]] = {
    "computations without a beginning": lambda n: "%x = f32[2] add(%a, %b)\n}\n" * n,
    "computations without an end": lambda n: (
        "".join(f"  %f{i} {{\n  %x = f32[2] add(%a, %b)\n" for i in range(n)) + "}"
    ),
    "unnamed operands": lambda n: "".join(f"%_{i} = f32[2] add(f32[2], f32[2])\n" for i in range(n)),
    "missing operands": lambda n: "%t = (f32[2]) tuple(" + ", ".join(f"%a{i}" for i in range(n)) + ")\n}",
    "omitted lines": lambda n: "%x = f32[2] add(%a, %b)\n...\n" * n,
    "braces": lambda n: "%x = f32[2] add(%a, %b)\n" + "}\n" * n,
    "blank lines": lambda n: "x" + "\n " * n + "%x = f32[2] add(%a, %b)\n",
    "commas": lambda n: "%x = f32[2] add(%a, %b)\n" + ",\n" * n,
    "missing computations": lambda n: "".join(f"%x{i} = f32[2] call(%a), to_apply=%f{i}\n" for i in range(n)),
    "names": lambda n: "%x = f32[2] add(%a, %b)\n}\n" + "".join(f"%computation.{i} {{ }}\n" for i in range(n)),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_time_grows_with_the_text(text: Callable[[int], str]) -> None:
    def work(size: int) -> Callable[[], object]:
        made = text(size)

        def do() -> None:
            with contextlib.suppress(HloError):
                _ = read(made).notes

        return do

    assert is_linear(work, 100, 800)
