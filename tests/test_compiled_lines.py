"""The compiled reader of lines says what the reader in Python says, of every text."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.shape import UnknownShape
from hlo_cli.source import Source
from hlo_cli.syntax.text import build
from hlo_cli.syntax.text.parser import parse_module
from reading_twice import ODD, LineFuzzer, is_compiled, lines_read, said_by_both, texts_to_read
from share import parts
from strategies import dump_text, dumps, name_of

pytestmark = pytest.mark.skipif(not is_compiled(), reason="no compiled reader: installed without a C compiler")
BODY = '\n  p = f32[8]{0} parameter(0)\n  %q = (f32[8]{0}, s32[]) custom-call(p), custom_call_target="f, {}"\n'
LONG = "x" * 200_000


@pytest.mark.parametrize("path", dumps(), ids=name_of)
def test_both_readers_say_the_same_of_a_dump(path: Path) -> None:
    compiled, python = said_by_both(dump_text(path))
    assert compiled == python


def test_nearly_all_lines_of_dumps_are_read_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    text = dump_text(next(path for path in dumps() if "v5p_scan" in str(path)))
    monkeypatch.setattr(build, "read_rows", lambda *_: pytest.fail("a body was left to Python"))
    assert parse_module(text).instruction_count > 0


def test_names_that_differ_in_a_number_alone_are_read_compiled() -> None:
    lines = [f"  copy-start.{n} = f32[8]{{0}} parameter({n})\n  copy-done.{n} = f32[8]{{0}} negate(copy-start.{n})\n"
             for n in range(20_000)]  # fmt: skip
    few = "e {\n" + "".join(lines[-2000:]) + "}\n"
    compiled, python = lines_read(few, 3, len(few) - 3)
    assert compiled == python
    text = "e {\n" + "".join(lines) + "}\n"
    assert build.read_lines is not None
    computation = Computation("e")
    read = build.read_lines(
        text, 3, len(text) - 3, computation, Instruction, build._SLOTS, build.KIND_OF, {}, lambda _: UnknownShape()
    )
    assert read is not None, "the table of names took too long"


def test_both_readers_say_the_same_of_damaged_texts() -> None:
    for text in islice(texts_to_read(5), 12):
        compiled, python = said_by_both(text)
        assert compiled == python, text


@pytest.mark.slow
@pytest.mark.parametrize("seed", parts(8))
def test_both_readers_say_the_same_of_many_damaged_texts(seed: int) -> None:
    for text in islice(texts_to_read(seed), 1500):
        compiled, python = said_by_both(text)
        assert compiled == python, text


@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_both_readers_say_the_same_of_an_odd_character_anywhere(odd: str) -> None:
    for at in range(len(BODY)):
        text = f"e {{{BODY[:at]}{odd}{BODY[at:]}}}\n"
        end = text.find("\n}")
        if end > 3:
            compiled, python = lines_read(text, 3, end)
            assert compiled == python, text


@pytest.mark.parametrize("text", [
    f"\n  {LONG} = f32[] parameter(0)\n", f"\n  p = f32[] parameter({LONG})\n", f"\n  p = f32[] parameter(0), a={LONG}\n",
    f'\n  p = f32[] parameter(0), a="{LONG}\n', f"\n  p = {'(' * 500}f32[]{')' * 500} parameter(0)\n",
    "\n  p = f32[] parameter(0)\n  q = f32[] f(((((p)))))\n", "\n  p = f32[] parameter(0)\n  q = f32[] f((((((p))))))\n",
    "\n" + "".join(f"  p{n} = f32[] parameter(123456789{n % 10})\n" for n in range(300)),
    "\n" + "  p = f32[] parameter(0)\n" * 2, "\n  ROOT p = f32[] constant(0)\n  ROOT q = f32[] negate(p)\n",
    "\n  p = f32[] parameter(0)\n  t = (f32[], f32[]) tuple(p, p)\n  g = f32[] get-tuple-element(t), index=2\n",
], ids=lambda text: ascii(text[:40]))  # fmt: skip
def test_both_readers_say_the_same_of_an_odd_body(text: str) -> None:
    text = f"e {{{text}}}\n"
    compiled, python = lines_read(text, 3, text.rfind("\n}"))
    assert compiled == python


def test_both_readers_say_the_same_of_fuzzed_lines() -> None:
    fuzzer = LineFuzzer(3)
    differing = [text for _ in range(60) if (text := fuzzer.step()) is not None]
    assert differing == []


def test_no_failed_allocation_is_lost() -> None:
    testcapi = pytest.importorskip("_testcapi")
    text = f"e {{{BODY}}}\n"
    failed = 0
    for start in range(1, 200):
        builder, computation = build.Builder(Source("", text)), Computation("c")
        arguments = (
            text,
            3,
            text.rfind("\n}"),
            computation,
            Instruction,
            build._SLOTS,
            build.KIND_OF,
            builder.shapes,
        )
        builder.shapes.update({"f32[8]{0}": UnknownShape(), "(f32[8]{0}, s32[])": UnknownShape()})
        assert build.read_lines is not None
        testcapi.set_nomemory(start, start + 1)
        try:
            lines = build.read_lines(*arguments, builder._shape)
        except MemoryError:
            failed += 1
            continue
        finally:
            testcapi.remove_mem_hooks()
        assert lines is not None
        assert len(lines[0]) == 2
    assert failed >= 15
