"""Dumps that end too early: what was whole is read, that it is not all is said, and no command falls over it."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from random import Random

import pytest

from hlo_cli import cli
from hlo_cli.render.registry import format_names
from hlo_cli.source import HloError
from hlo_cli.syntax.text.parser import parse_module
from share import every
from strategies import dump_text, dumps, name_of

COMMANDS = (("parse",), ("parse", "--tree"), ("parse", "--instructions"), ("layout",))

each_dump = pytest.mark.parametrize("path", dumps(), ids=name_of)


@each_dump
def test_a_text_that_ends_inside_a_computation_is_said_to_and_gives_it_no_root(path: Path) -> None:
    text, random = dump_text(path), Random(name_of(path))
    entry = parse_module(text).entry
    first = entry.instructions[0].span
    assert first is not None
    assert entry.span is not None
    for _ in range(10):
        cut = text[: random.randrange(first.end, entry.span.end)]
        module = parse_module(cut)
        assert f"unexpected end of input in computation {entry.name}" in [error.message for error in module.errors]
        assert 0 < len(module.entry.instructions) <= len(entry.instructions)
        root = module.entry.root
        assert root is None or (root.span is not None and cut.startswith("ROOT", root.span.start))


@pytest.mark.parametrize("path", every(4, [path for path in dumps() if path.stat().st_size < 30_000]), ids=name_of)
def test_every_command_says_so_and_shows_what_was_read(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, random, cut = path.read_bytes(), Random(name_of(path)), tmp_path / path.name
    formats = cycle(random.sample(format_names(), len(format_names())))
    for _ in range(5):
        cut.write_bytes(data[: random.randrange(1, len(data))])
        # a text that ends inside its header is answered by its header: tests/data/wild/header_cut.txt
        is_inside = b"\n" in cut.read_bytes().strip() and not cut.read_bytes().rstrip().endswith(b"\n}")
        for command in COMMANDS:
            code = cli.main([*command, str(cut), "--format", next(formats)], standalone=False)
            error = capsys.readouterr().err
            if is_inside:
                assert code == 2
                assert "error:" in error
            else:
                assert code in (0, 2)


@pytest.mark.parametrize("end", ["", " ROOT", " ROOT b = f32[2]{0}", ' ROOT b = f32[2] negate(a), metadata={op_name="'])
def test_what_is_not_whole_is_not_counted(end: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = tmp_path / "dump.txt"
    dump.write_text("HloModule m\n\nENTRY e {\n  a = f32[2] parameter(0)\n " + end)
    assert cli.main(["parse", str(dump), "--format", "json"], standalone=False) == 2
    out, err = capsys.readouterr()
    assert '"arguments": 1, "argument_bytes": 8, "results": null, "result_bytes": null' in out
    assert "unexpected end of input in computation e" in err


@pytest.mark.parametrize("broken", ["b = = =", "b = f32[2] negate(a", "b = f32[2]{0}", "ROOT b ="])
def test_a_computation_that_is_closed_has_a_root_and_does_not_end_the_text(broken: str) -> None:
    """Without ROOT the last instruction is the root, as in `ParseComputation` of xla/hlo/parser/hlo_parser.cc."""
    for space in (" ", "\n  "):
        module = parse_module(
            f"HloModule m\n\nENTRY e {{{space}a = f32[2] parameter(0){space}{broken}{space.strip(' ')}}}"
        )
        assert module.errors
        assert not [error for error in module.errors if "ends inside" in error.message]
        assert module.entry.root is module.entry.instructions[-1]


def test_an_instruction_goes_on_behind_braces_that_others_follow() -> None:
    """As in the `frontend_attributes` of a Pallas kernel, which XLA prints on several lines."""
    head = "HloModule m\n\nENTRY e {\n  a = f32[2] parameter(0)\n  b = f32[2] negate(a), frontend_attributes={k={\n"
    module = parse_module(head + '}}, metadata={op_name="')
    assert [error.message for error in module.errors] == [
        "unclosed string",
        "unexpected end of input in computation e",
    ]
    module = parse_module(head + "}}, b==\n  ROOT c = f32[2] negate(a)\n}\n")
    assert len(module.errors) == 1
    assert [instruction.name for instruction in module.entry.instructions] == ["a", "c"]


@pytest.mark.parametrize("text", ["HloModule jit_f, is_sch", "HloModule jit_f\n\nFileL", "HloModule jit_f\n\nENTRY ma"])
def test_what_ends_before_the_first_computation_may_be_cut(text: str) -> None:
    with pytest.raises(HloError) as error:
        parse_module(text)
    assert error.value.diagnostic.hint == "the text ends here; if it is truncated, copy or dump it again"


def test_what_ends_later_is_not_said_to_be_cut() -> None:
    with pytest.raises(HloError) as error:
        parse_module("HloModule jit_f, is_sch\n\nmore text\n\nand more\n")
    assert "truncated" not in (error.value.diagnostic.hint or "")
