"""Strict reading: what XLA's own parser rejects is refused, at its place; what it accepts is read.

Every verdict here is jaxlib 0.10.2's, which the oracle tests ask again, except where a table says otherwise.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hlo_cli.source import Diagnostic, HloError, Source
from hlo_cli.syntax.scanning.error_help import MAX_ERRORS
from hlo_cli.syntax.strict_reader import check_strictly
from hlo_cli.syntax.text.parser import parse_module
from judge import ask_xla
from strategies import dump_text, dumps, name_of
from versions import IS_NEWER_XLA

DATA = Path(__file__).parent / "data" / "strict"
HEAD = (DATA / "head.hlo").read_text(encoding="utf-8")
LINE = HEAD.count("\n") + 1


def with_line(line: str) -> str:
    """A module whose entry ends with this line."""
    return f"{HEAD}  {line}\n}}\n"


def errors_of(text: str) -> tuple[Diagnostic, ...]:
    """What strict reading says; () if it takes the text."""
    try:
        parse_module(text, strict=True)
    except HloError as error:
        return error.diagnostics
    return ()


def lines_of(name: str) -> list[str]:
    """The lines of a file; ⟪ in one stands before the token at which we point."""
    return (DATA / f"{name}.txt").read_text(encoding="utf-8").splitlines()


ACCEPTED = lines_of("accepted")
REJECTED = lines_of("rejected")
ABORTED = lines_of("aborted")  # here XLA ends the whole process
NEWER = lines_of("newer")  # newer versions of XLA print these; jaxlib 0.10.2 rejects them
MENDED_BY_XLA = lines_of("mended")  # XLA takes any sign for a parenthesis that a layout misses

ADD = "add {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT s = f32[] add(x, y)\n}\n"
BODY = "{\n  ROOT a = f32[2] parameter(0)\n}\n"
TABLES = 'FileNames\n1 "f.py"\nFunctionNames\n1 "f"\nFileLocations\n1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=1 end_column=9}\nStackFrames\n1 {file_location_id=1 parent_frame_id=1}\n'

ACCEPTED_WHOLE = (
    f"HloModule m\nENTRY e {BODY}",
    f"HloModule %m\ne {BODY}",
    f"e {BODY}",
    f"ENTRY %e (a: f32[2]) -> f32[2] {BODY}",
    f"HloModule m:\n{ADD}ENTRY e (zz: s32[9], y: f32[]) -> f32[2]{{0}} {BODY}",
    f'HloModule m, is_scheduled=true, replica_count=2, frontend_attributes={{a="b"}}\n{TABLES}\nENTRY e {BODY}',
    f"HloModule m, input_output_alias={{ {{}}: (7, {{}}, must-alias), }}, buffer_donor={{ (5, {{}}) }}\nENTRY e {BODY}",
    f"HloModule m, entry_computation_layout={{(f32[3])->s32[2]}}, num_partitions=2\nENTRY e {BODY}",
    f"HloModule m, allow_spmd_sharding_propagation_to_output={{true,false}}\nENTRY e {BODY}",
    f'HloModule m, origin_recovery_table={{ {{"a"}} : {{"b"}}, "ENTRY f {{ ROOT p = f32[] parameter(0) }}" }}\nENTRY e {BODY}',
    f'HloModule m\nENTRY e {BODY[:-1]}, execution_thread="t"\n',
    "f32[2] add(f32[2] %p, f32[2] %q)",
    "ROOT r = f32[2] add(f32[2], f32[2]), metadata={op_name=\"x\"}",
    "r = add(f32[2] p, f32[2] p)",
    "// a comment\nHloModule m /* and */\r\n\tENTRY e { ROOT a = f32[2] parameter(0) }",
)  # fmt: skip

# ⟪ as above; a text without it has no place to point at but its end.
REJECTED_WHOLE = (
    "",
    " \n",
    "// nothing\n",
    "⟪/* not closed",
    f"HloModul⟪e\nENTRY e {BODY}",
    f"HloModule m ⟪is_scheduled=true\nENTRY e {BODY}",
    f"HloModule m, ⟪is_schedule=true\nENTRY e {BODY}",
    f"HloModule m, is_scheduled=⟪1\nENTRY e {BODY}",
    f"HloModule m, is_scheduled=true, ⟪is_scheduled=true\nENTRY e {BODY}",
    f"HloModule m, input_output_alias={{ {{}}: ⟪0 }}\nENTRY e {BODY}",
    f"HloModule m, input_output_alias={{ {{}}: (0, {{}}, ⟪maybe-alias) }}\nENTRY e {BODY}",
    f"HloModule m, ⟪input_output_alias={{ {{3}}: (0, {{}}) }}\nENTRY e {BODY}",
    f"HloModule m, buffer_donor={{ ⟪0 }}\nENTRY e {BODY}",
    f"HloModule m, entry_computation_layout={{(⟪a: f32[2])->f32[2]}}\nENTRY e {BODY}",
    f"HloModule m, replica_count=⟪1.5\nENTRY e {BODY}",
    f'HloModule m\n{TABLES.replace("line=3 ", "", 1).replace("{", "⟪{", 1)}ENTRY e {BODY}',
    f'HloModule m\n{TABLES.replace("FunctionNames", "⟪Functions")}ENTRY e {BODY}',
    f"HloModule m\n⟪# no comment\nENTRY e {BODY}",
    "HloModule m\n",
    f"HloModule m\nENTRY e (⟪%a: f32[2] -> f32[2] {BODY}".replace("⟪%a: f32[2] ->", "%a⟪: f32[2]) ->"),
    f"HloModule m\nENTRY e (a: f32[2]) -> ⟪f32[3] {BODY}",
    f"HloModule m\nENTRY e (a: f32[2]) ⟪{BODY}",
    f"HloModule m\nENTRY d {BODY}⟪ENTRY e {BODY}",
    f"HloModule m\n{ADD}⟪{ADD}ENTRY e {BODY}",
    "HloModule m\nENTRY e {\n⟪}\n",
    "HloModule m\nENTRY e {\n  a = f32[2] parameter(0⟪)\n",
    "HloModule m\nENTRY e {\n  ROOT a = f32[2] parameter(0)\n  ⟪ROOT b = f32[2] negate(a)\n}\n",
    f"HloModule m\nENTRY e {{\n  a = f32[2] parameter(0)\n  ROOT b = f32[2] call(a), to_apply=⟪g\n}}\ng {BODY}",
    f"HloModule m\nENTRY e {BODY[:-1]}, ⟪threads=1\n",
    "%f ⟪(a: f32[2]) -> f32[2] { ROOT a = f32[2] parameter(0) }",
    "r = f32[2] negate(%⟪p)",
    "r = f32[2] negate(f32[2] p) ⟪r = f32[2] negate(f32[2] p)",
    "HloModule m ENTRY e { ROOT a = f32[2] ⟪\0parameter(0) }",
    "HloModule m ENTRY e { ROOT a = f32[2] parameter(0)⟪; }",
)  # fmt: skip


def marked(text: str) -> tuple[str, int | None]:
    """The text without its mark, and where that stood."""
    at = text.find("⟪")
    return text.replace("⟪", "", 1), None if at < 0 else at


@pytest.mark.parametrize("line", [*ACCEPTED, *NEWER])
def test_what_xla_reads_is_read(line: str) -> None:
    assert errors_of(with_line(line)) == ()


@pytest.mark.parametrize("text", ACCEPTED_WHOLE)
def test_whole_texts_that_xla_reads_are_read(text: str) -> None:
    assert errors_of(text) == ()


@pytest.mark.parametrize("line", [*REJECTED, *ABORTED, *MENDED_BY_XLA])
def test_what_xla_rejects_is_refused_at_its_place(line: str) -> None:
    plain, at = marked(line)
    errors = errors_of(with_line(plain))
    assert errors
    position = errors[0].position
    assert position is not None
    assert at is not None
    assert position == (LINE, at + 3), errors[0].message


@pytest.mark.parametrize("text", REJECTED_WHOLE)
def test_whole_texts_that_xla_rejects_are_refused_at_their_place(text: str) -> None:
    plain, at = marked(text)
    errors = errors_of(plain)
    assert errors
    assert errors[0].position == Source("x", plain).position(len(plain) if at is None else at), errors[0].message


def test_all_errors_of_a_text_are_reported_in_its_order() -> None:
    module = "HloModule m, frob=1\n" + ADD.replace("add(x, y)", "adda(x, y)") + "ENTRY e {\n  a = f32[2] parameter(0)\n"
    module += (
        "  b = f32[2] negate(aa)\n  c = f32[2] negate(b), k=1\n  d = f32[2] copy(c\n  ROOT d = f32[2] copy(d)\n}\n"
    )
    positions = [error.position for error in check_strictly(Source("x", module))]
    assert [position.line for position in positions if position] == [1, 5, 9, 10, 11, 12]


def test_errors_are_bounded() -> None:
    errors = check_strictly(Source("x", with_line("\n".join(f"x{i} = frob(a)" for i in range(1000)))))
    assert len(errors) == MAX_ERRORS


def test_what_misses_its_end_is_blamed_and_not_what_follows() -> None:
    text = 'HloModule m\nf {\n  ROOT a = f32[2] parameter(0), frontend_attributes={a={b}\n}\n\nENTRY e {\n  ROOT a = f32[2] parameter(0)\n}\n'  # fmt: skip
    assert [error.position for error in check_strictly(Source("x", text))] == [(3, 3)]


def test_a_word_that_is_like_a_known_one_has_a_hint() -> None:
    hints = {"reverse(a), dimension={0}": "dimensions", "negate(aa)": "a", "call(a), to_apply=some": "same"}
    for line, meant in hints.items():
        assert errors_of(with_line(f"r = f32[2] {line}"))[0].hint == f"did you mean '{meant}'?"


@pytest.mark.parametrize("path", dumps(), ids=name_of)
def test_dumps_are_read_strictly(path: Path) -> None:
    assert errors_of(dump_text(path)) == ()


def verdicts(texts: list[str]) -> list[str]:
    """What jaxlib says to each text: accepts, rejects, or ends, if it takes the process with it."""
    return ["ends" if said is None else "accepts" if said else "rejects" for said in ask_xla(texts)]


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("verdict", "lines"),
    [("accepts", ACCEPTED), ("accepts", MENDED_BY_XLA), ("rejects", REJECTED), ("ends", ABORTED), ("rejects", NEWER)],
    ids=["accepted", "mended", "rejected", "aborted", "newer"],
)
def test_xla_agrees_on_lines(verdict: str, lines: list[str]) -> None:
    """Since jaxlib 0.11, what ended the process is rejected; some newer lines and a done of no start are accepted."""
    asked = verdicts([with_line(marked(line)[0]) for line in lines])
    right = {verdict, "rejects"} if verdict == "ends" and IS_NEWER_XLA else {verdict}
    newer = {*NEWER, "r = f32[2] ⟪async-done(a)"} if IS_NEWER_XLA else set()
    others = [(line, said) for line, said in zip(lines, asked, strict=True) if said not in right]
    assert [(line, said) for line, said in others if line not in newer or said == "ends"] == []


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("verdict", "texts"), [("accepts", ACCEPTED_WHOLE), ("rejects", REJECTED_WHOLE)], ids=["accepted", "rejected"]
)
def test_xla_agrees_on_whole_texts(verdict: str, texts: tuple[str, ...]) -> None:
    asked = verdicts([marked(text)[0] for text in texts])
    assert [(text, said) for text, said in zip(texts, asked, strict=True) if said != verdict] == []


@pytest.mark.oracle
def test_xla_reads_no_dump_that_we_refuse() -> None:
    paths = dumps()
    asked = verdicts([dump_text(path) for path in paths])
    refused = [name_of(path) for path in paths if errors_of(dump_text(path))]
    assert [
        name for name, said in zip(map(name_of, paths), asked, strict=True) if said == "accepts" and name in refused
    ] == []


@pytest.mark.parametrize("window", [f"size={'9' * 5000}x2", f"size=2 pad=0_{'9' * 5000}", f"size={'9' * 5000}"])
def test_sizes_of_any_length_are_refused(window: str) -> None:
    line = "%r = f32[2] reduce-window(%p, %c), window={" + window + "}, to_apply=%sum"
    assert errors_of(with_line(line))
