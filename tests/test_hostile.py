"""Texts that mean harm: they end in a clear error or in `module.errors`, soon, and never in a traceback."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest

from hlo_cli.cli import main
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import unquote
from hlo_cli.source import Diagnostic, HloError, Source
from hlo_cli.syntax.scanning.attributes import one_line
from hlo_cli.syntax.scanning.error_help import MAX_ERRORS
from hlo_cli.syntax.scanning.scanner import Scanner
from hlo_cli.syntax.scanning.shape_reader import parse_shape
from hlo_cli.syntax.text.instruction_lines import MAX_NOTES
from hlo_cli.syntax.text.parser import parse_module
from hlo_cli.syntax.values.attribute_values import parse_metadata
from share import every
from timing import is_linear, soon

HEAD = "HloModule m\n\nENTRY %e (p: f32[2]) -> f32[2] {\n  %p = f32[2]{0} parameter(0)\n"
TAIL = "  ROOT %r = f32[2]{0} negate(%p)\n}\n"


def lines(*middle: str) -> str:
    """A module with these lines between a parameter and a root."""
    return HEAD + "".join(f"  {line}\n" for line in middle) + TAIL


def look_at(diagnostics: Sequence[Diagnostic], *, most: int | None = None) -> None:
    """Hold diagnostics to what a person can read: so many, each of them short and, if it has a place, in the text."""
    assert most is None or len(diagnostics) <= most
    for diagnostic in diagnostics:
        assert 0 < len(str(diagnostic)) < 2000
        assert diagnostic.span is None or diagnostic.position is not None


def reads(text: str) -> Module | None:
    """The module, looked at all over; None if it cannot be read at all."""
    try:
        module = parse_module(text)
    except HloError as error:
        look_at(error.diagnostics, most=2 * MAX_ERRORS)
        return None
    look_at(module.errors, most=2 * MAX_ERRORS)
    look_at(module.notes, most=2 * (MAX_NOTES + 1))
    for instruction in module.instructions:
        _ = instruction.metadata, instruction.parameter_number
        _ = instruction.shape.padded_bytes, instruction.shape.logical_bytes
    assert parse_module(str(module)).instruction_count == module.instruction_count or module.errors
    return module


def refused(text: str) -> bool:
    """Whether strict reading ends in an error with messages that a person can read."""
    try:
        parse_module(text, strict=True)
    except HloError as error:
        look_at(error.diagnostics, most=2 * MAX_ERRORS)
        return True
    return False


DEEP = 100_000


@cache
def hostile(deep: int) -> dict[str, str]:
    """Texts that nobody writes, by what is in them: as deep or as often, or a share of it where each takes long."""
    nested = min(deep // 20, 1200)  # bodies in bodies, of which each is read to its end: more are in `LARGE`
    return {
        "tuples nested in a shape": lines(f"%x = {'(' * deep}f32[]{')' * deep} custom-call()"),
        "tuples nested and not closed": lines(f"%x = {'(' * deep}"),
        "operands nested": lines(f"%x = f32[2] {'negate(' * deep}%p{')' * deep}"),
        "operands nested with shapes": lines(f"%x = {'f32[2] negate(' * deep}%p{')' * deep}"),
        "braces nested in an attribute": lines(f"%x = f32[2] negate(%p), sharding={'{' * deep}{'}' * deep}"),
        "all brackets nested in an attribute": lines(f"%x = f32[2] negate(%p), a={'([{' * deep}{'}])' * deep}"),
        "brackets crossed": lines(f"%x = f32[2] negate(%p), a={'([' * deep}{')]' * deep}"),
        "braces in a literal": lines(f"%x = f32[2] constant({'{' * deep}1{'}' * deep})"),
        "bodies in bodies": HEAD
        + "%x = f32[2] call(%p), to_apply={ a = f32[2] parameter(0) ROOT " * nested
        + "}" * nested,
        "bodies in bodies on lines": HEAD + "  x = f32[2] call(p), to_apply={\n" * nested + "}\n" * nested,
        "JSON nested": lines(f"%x = f32[2] negate(%p), backend_config={'{' * deep}{'}' * deep}"),
        "computations not closed": "HloModule m\n" + "a {\n" * (deep // 3),
        "computations closed only": "HloModule m\n" + "}\n" * deep,
        "a string not closed": lines('%x = f32[2] negate(%p), metadata={op_name="' + "a" * deep),
        "a string that ends in a backslash": lines('%x = f32[2] negate(%p), metadata={op_name="\\'),
        "many strings not closed": lines(*(f"%x{i} = f32[2] negate(%p), k='" for i in range(3001))),
        "a comment not closed": lines("/*" + " x" * deep),
        "comments opened": lines("/*" * deep),
        "stars in a comment": lines("/*" + "*" * deep + "/"),
        "slashes": lines("/" * deep),
        "comments": lines("/**/" * deep),
        "NUL": lines("%x\0 = f32[2] negate(%p)", "\0" * 1000),
        "NUL in a string": lines('%x = f32[2] negate(%p), metadata={op_name="\0"}'),
        "only NULs": "\0" * 10_000,
        "a byte order mark": "\ufeff" + lines(),
        "surrogates": lines('%x = f32[2] negate(%p), metadata={op_name="\ud800"}', "%\udfff = f32[] parameter(1)"),
        "an escape sequence in a name": lines("%\x1b[31mred = f32[2] negate(%p)"),
        "an escape sequence in an opcode": lines("%x = f32[2] \x1b]0;title\x07(%p)"),
        "an escape sequence in a string": lines('%x = f32[2] negate(%p), metadata={op_name="\x1b[2J"}'),
        "line separators that are none to XLA": lines("%x = f32[2] negate(%p)\u2028%y = f32[2] negate(%p)\x0b\x0c\x85"),
        "sizes whose product is too large": lines(
            "%x = f32[9223372036854775807,9223372036854775807]{1,0} custom-call()"
        ),
        "many sizes": lines(f"%x = f32[{','.join(['3'] * 20_000)}] custom-call()"),
        "an order of many": lines(
            f"%x = f32[{','.join(['1'] * 3000)}]{{{','.join(map(str, range(3000)))}}} custom-call()"
        ),
        "tiles of many": lines(f"%x = f32[2]{{0:T{'(2,2)' * (deep // 20)}}} custom-call()"),
        "a tile of many": lines(f"%x = f32[2]{{0:T({','.join(['*'] * (deep // 20))},8)}} custom-call()"),
        "huge tiles": lines("%x = f32[2]{0:T(9223372036854775807,9223372036854775807)} custom-call()"),
        "a tail of 2^63": lines("%x = f32[2]{0:T(8)L(9223372036854775807)} custom-call()"),
        "a size of 100,000 digits": lines(f"%x = f32[{'9' * 100_000}] custom-call()"),
        "a tile of 100,000 digits": lines(f"%x = f32[2]{{0:T({'9' * 100_000})}} custom-call()"),
        "a parameter of 100,000 digits": lines(f"%x = f32[2] parameter({'9' * 100_000})"),
        "an element of 100,000 digits": lines(f"%x = f32[2] negate(%p#{'9' * 100_000})"),
        "a literal of 100,000 digits": lines(f"%x = f32[] constant({'9' * 100_000})"),
        "an attribute of 100,000 digits": lines(
            f"%x = f32[2] reduce(%p), dimensions={{{'9' * 100_000}}}, index={'9' * 100_000}"
        ),
        "a line number of 100,000 digits": lines(f"%x = f32[2] negate(%p), metadata={{source_line={'9' * 100_000}}}"),
        "an alias of 100,000 digits": f"HloModule m, input_output_alias={{ {{}}: ({'9' * 100_000}, {{}}) }}\n{TAIL}ENTRY e {{ p = f32[] parameter(0) }}",
        "an alias index of 100,000 digits": f"HloModule m, input_output_alias={{ {{{'9' * 100_000}}}: (0, {{}}) }}\nENTRY e {{ p = f32[] parameter(0) }}",
        "a frame of 100,000 digits": f'HloModule m\n\nFileNames\n1 "a"\n\nFunctionNames\n1 "f"\n\nFileLocations\n1 {{file_name_id={"9" * 100_000}}}\n\nStackFrames\n1 {{file_location_id={"9" * 100_000} parent_frame_id=1}}\n\nENTRY e {{ p = f32[] parameter(0), metadata={{stack_frame_id=1}} }}',
        "digits that are not ASCII": lines(
            "%x = f32[\u0663] custom-call()", "%y = f32[2] parameter(\u0661)", "%z = f32[²] negate(%p)"
        ),
        "letters that are not ASCII": lines("%é = f32[2] negate(%p)", "%x = f32[2] négate(%p)"),
        "a name of a megabyte": lines(f"%{'x' * 1_000_000} = f32[2] negate(%p)"),
        "an opcode of a megabyte": lines(f"%x = f32[2] {'x' * 1_000_000}(%p)"),
        "one name many times": lines(*["%x = f32[2] negate(%p)"] * (deep // 20)),
        "one computation many times": "HloModule m\n" + "e {\n  p = f32[] parameter(0)\n}\n" * (deep // 20),
        "one attribute many times": lines("%x = f32[2] negate(%p)" + ", a=1" * 3000),
        "a name that is not there": lines(*[f"%x{i} = f32[2] negate(%nothing{i})" for i in range(deep // 20)]),
        "computations that are not there": lines(
            *[f"%x{i} = f32[2] call(%p), to_apply=%nothing{i}" for i in range(deep // 20)]
        ),
        "a computation that calls itself": "HloModule m\nENTRY e {\n  p = f32[] parameter(0)\n  ROOT r = f32[] call(p), to_apply=e\n}\n",
        "computations that call each other": "HloModule m\na {\n  ROOT r = f32[] call(), to_apply=b\n}\nENTRY b {\n  ROOT s = f32[] call(), to_apply=a\n}\n",
        "broken lines": lines(*["%x = = ="] * deep),
        "broken operands": lines(*[f"%x{i} = f32[2] negate(%p %q)" for i in range(deep // 20)]),
        "unknown types": lines(*[f"%x{i} = q{i}[2] negate(%p)" for i in range(deep // 10)]),
        "unknown attributes": lines(*[f"%x{i} = f32[2] negate(%p), frob=1" for i in range(deep // 10)]),
        "nothing but a header": "HloModule " + "m" * 100_000,
        "header attributes": "HloModule m" + ", a=1" * (deep // 2) + "\n" + "ENTRY e { p = f32[] parameter(0) }",
        "stack frames that go round": 'HloModule m\n\nFileNames\n1 "a"\n\nFunctionNames\n1 "f"\n\nFileLocations\n1 {file_name_id=1 function_name_id=1 line=1 end_line=1 column=1 end_column=1}\n\nStackFrames\n1 {file_location_id=1 parent_frame_id=3}\n2 {file_location_id=1 parent_frame_id=2}\n\nENTRY e { p = f32[] parameter(0), metadata={stack_frame_id=1} }',
        "carriage returns": lines("%x = f32[2] negate(%p)").replace("\n", "\r"),
        "carriage returns and line feeds": lines("%x = f32[2] negate(%p)").replace("\n", "\r\n"),
    }


HOSTILE = tuple(hostile(1))
depths = pytest.mark.parametrize("deep", [DEEP // 20, pytest.param(DEEP, marks=pytest.mark.slow)])


@depths
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_read_or_refused(name: str, deep: int) -> None:
    with soon(10):
        reads(hostile(deep)[name])


@depths
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_refused_clearly_when_strict(name: str, deep: int) -> None:
    with soon(10):
        refused(hostile(deep)[name])


HOSTILE_SHAPES = {
    "tuples nested": "(" * DEEP + ")" * DEEP,
    "tuples nested and not closed": "(" * DEEP,
    "buffers nested": "b(" * DEEP,
    "a size of 100,000 digits": f"f32[{'9' * 100_000}]",
    "a negative size": "f32[-9223372036854775808]",
    "brackets": "f32" + "[" * DEEP,
    "braces": "f32[2]" + "{" * DEEP,
    "NUL": "f32[2]\0",
    "nothing": "",
    "space": " " * DEEP,
    "comments opened": "/*" * DEEP,
    "commas": f"f32[{',' * DEEP}]",
    "an order of 100,000 digits": f"f32[2]{{{'9' * 100_000}}}",
    "a space of 100,000 digits": f"f32[2]{{0:S({'9' * 100_000})}}",
    "an unknown type with 100,000 digits": f"q{'9' * 100_000}[2]",
}


@pytest.mark.parametrize("name", HOSTILE_SHAPES)
def test_hostile_shapes_are_refused(name: str) -> None:
    try:
        shape = parse_shape(HOSTILE_SHAPES[name])
    except HloError as error:
        look_at(error.diagnostics)
        return
    assert name == "an unknown type with 100,000 digits"
    assert shape.padded_bytes == 0


def test_sizes_beyond_64_bits_are_exact_or_said_to_be_too_large() -> None:
    shape = parse_shape("f32[4294967296,4294967296]{1,0:T(8,128)}")
    assert shape.logical_bytes == 4 * 2**64
    with pytest.raises(HloError, match="exceeds 2\\^63"):
        _ = shape.tiling  # type: ignore[union-attr]


def test_errors_are_bounded_and_the_first_ones_are_kept() -> None:
    module = reads(lines(*["%x = = ="] * 100_000))
    assert module is None or 0 < len(module.errors) <= 2 * MAX_ERRORS
    if module is not None:
        assert module.errors[0].position is not None
        assert module.errors[0].position.line == 5


def test_a_truncated_module_gives_what_was_whole() -> None:
    text = lines(*(f"%x{i} = f32[2]{{0}} negate(%p)" for i in range(100)))
    cut = text[: text.index("%x50")]
    module = parse_module(cut)
    assert module.instruction_count == 51
    assert any("unexpected end of input in computation" in error.message for error in module.errors)


LARGE: dict[str, str] = {
    "bodies in bodies": HEAD + "%x = f32[2] call(%p), to_apply={ a = f32[2] parameter(0) ROOT " * 800 + "}" * 800,
    "bodies in bodies on lines": HEAD + "  x = f32[2] call(p), to_apply={\n" * 800 + "}\n" * 800,
    "a name that is not there": lines(*[f"%x{i} = f32[2] negate(%nothing{i})" for i in range(20_000)]),
    "computations that are not there": lines(
        *[f"%x{i} = f32[2] call(%p), to_apply=%nothing{i}" for i in range(20_000)]
    ),
    "broken operands": lines(*[f"%x{i} = f32[2] negate(%p %q)" for i in range(20_000)]),
    "unknown types": lines(*[f"%x{i} = q{i}[2] negate(%p)" for i in range(40_000)]),
    "unknown attributes": lines(*[f"%x{i} = f32[2] negate(%p), frob=1" for i in range(40_000)]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_large_hostile_texts_are_read_or_refused(name: str) -> None:
    with soon(20):
        reads(LARGE[name])
        refused(LARGE[name])


# What could take a regular expression quadratic time or worse: a text for a size, and what reads it.
Reader = Callable[[str], object]
TRAPS: dict[str, tuple[Callable[[int], str], Reader]] = {
    "names": (lambda n: lines("%" + "a" * n), reads),
    "names without %": (lambda n: "HloModule m\n" + "a" * n, reads),
    "words before no equals sign": (lambda n: lines("ROOT " * n), reads),
    "heads": (lambda n: "HloModule m\n" + "%f (" * n, reads),
    "heads closed": (lambda n: "HloModule m\n%f " + "(" * 3 + "a" * n + ") -> ", reads),
    "parentheses in a head": (lambda n: "HloModule m\n%f (" + "()" * n, reads),
    "arrows in a head": (lambda n: "HloModule m\n%f () -> " + "{}" * n, reads),
    "heads on lines": (lambda n: "HloModule m\n" + "%f (a: f32[]) -> f32[]\n" * n, reads),
    "parentheses in operands": (lambda n: lines("%x = f32[2] negate(" + "(" * n), reads),
    "pairs in operands": (lambda n: lines("%x = f32[2] negate(" + "()" * n), reads),
    "quotes in operands": (lambda n: lines("%x = f32[2] negate(" + '""' * n), reads),
    "quotes": (lambda n: lines('"' * n), reads),
    "escapes": (lambda n: lines('%x = f32[2] negate(%p), a="' + "\\a" * n), reads),
    "strings that end too late": (lambda n: lines(*['%x = f32[2] negate(%p), a="'] * n), reads),
    "tuples as shapes": (lambda n: lines("%x = (" + "f32[2]{0}, " * n), reads),
    "tuples that close": (lambda n: lines("%x = (" + "f32[2]{0}) " * n), reads),
    "braces as shapes": (lambda n: lines("%x = f32[2]" + "{" * n), reads),
    "attributes": (lambda n: lines("%x = f32[2] negate(%p)" + ", a={" * n), reads),
    "attributes that are alike": (lambda n: lines("%x = f32[2] negate(%p)" + ", a=1" * (n // 20)), reads),
    "metadata in a module": (lambda n: lines("%x = f32[2] negate(%p), metadata={" + "a" * n + "}"), reads),
    "computations of one name": (lambda n: "HloModule m\n" + "a {\n  p = f32[] parameter(0)\n}\n" * (n // 20), reads),
    "commas": (lambda n: lines("%x = f32[2] negate(%p)" + "," * n), reads),
    "spaces": (lambda n: lines("%x" + " " * n + "= f32[2] negate(%p)"), reads),
    "spaces everywhere": (lambda n: lines(*["%x" + " " * 50] * (n // 50)), reads),
    "blank lines": (lambda n: lines("\n" * n), reads),
    "comments": (lambda n: lines("/* */" * n), reads),
    "comments opened": (lambda n: lines("/*" * n), reads),
    "broken lines": (lambda n: lines(*["%x = f32[2] negate(%p"] * n), reads),
    "names used before": (lambda n: lines(*[f"%x{i} = f32[2] add(%p, %y{i})" for i in range(n // 10)]), reads),
    "computations in the way": (lambda n: "HloModule m\n" + "a {\n}\n" * n, reads),
    "bodies in place": (lambda n: lines(*[f"%x{i} = f32[2] call(%p), to_apply={{ ROOT q = f32[2] parameter(0) }}" for i in range(n // 40)]), reads),
    "bodies in place on lines": (
        lambda n: lines(*[f"%x{i} = f32[2] call(%p), to_apply={{\n ROOT q = f32[2] parameter(0) }}" for i in range(n // 40)]), reads,
    ),
    "stack tables": (lambda n: 'HloModule m\n\nFileNames\n1 "' + '1 "a' * n, reads),
    "stack rows": (lambda n: "HloModule m\n\nFileNames\n" + '1 "a"\n' * n + "x", reads),
    "aliases": (lambda n: "HloModule m, input_output_alias={ " + "{0" * n, reads),
    "aliases of spaces": (lambda n: "HloModule m, input_output_alias={ {" + " " * n + "}\nENTRY e { p = f32[] parameter(0) }", reads),
    "index marks": (lambda n: lines("%x = f32[2] add(" + "/*index=" * n), reads),
    "elided operands": (lambda n: lines("%x = f32[2] add(" + "... " * n), reads),
    "metadata": (lambda n: "{" + "op_name=" * n, parse_metadata),
    "metadata strings": (lambda n: '{op_name="' + 'a="' * n, parse_metadata),
    "metadata keys": (lambda n: "{" + "a" * n, parse_metadata),
    "one line": (lambda n: "\n" + "/*" * n, one_line),
    "one line of spaces": (lambda n: "\n" + (" " * 100 + "x") * (n // 100), one_line),
    "one line of quotes": (lambda n: "\n" + "\"'" * n, one_line),
    "unquote": (lambda n: '"' + "\\" * n + '"', unquote),
    "balanced": (lambda n: "(" * n, lambda text: Scanner(Source("t", text)).balanced()),
    "balanced comments": (lambda n: "(" + "/* " * n, lambda text: Scanner(Source("t", text)).balanced()),
    "shapes": (lambda n: "(" + "f32[2]," * n, parse_shape),
    "sizes": (lambda n: "f32[" + "1," * n, parse_shape),
    "layouts": (lambda n: "f32[2]{" + "0," * n, parse_shape),
    "tiles": (lambda n: "f32[2]{0:T" + "(8)" * n, parse_shape),
}  # fmt: skip


@pytest.mark.parametrize("name", every(3, TRAPS))
def test_no_text_takes_more_than_its_share_of_time(name: str) -> None:
    make, read = TRAPS[name]

    def reading(size: int) -> Callable[[], object]:
        text = make(size)

        def tell() -> None:
            try:
                read(text)
            except HloError as error:
                str(error)

        return tell

    assert is_linear(reading, 8_000, 32_000)


@pytest.mark.slow
def test_a_line_of_a_hundred_megabytes() -> None:
    with soon(30):
        module = reads(lines(f'%x = f32[2] negate(%p), backend_config={{"a":"{"A" * 100_000_000}"}}'))
    assert module is not None
    assert module.instruction_count == 3


@pytest.mark.slow
@pytest.mark.parametrize("bracket", ["(", "[", "{", "f32[]{", "((", "a={"])
def test_a_million_brackets(bracket: str) -> None:
    for text in (bracket * 1_000_000, lines(bracket * 1_000_000), lines(f"%x = f32[] add({bracket * 1_000_000}")):
        reads(text)
        refused(text)


def test_names_with_escape_sequences_are_never_names() -> None:
    module = reads(lines("%\x1b[31mred = f32[2] negate(%p)"))
    assert module is None or all(re.fullmatch(r"[\w.\-]+", i.name, re.ASCII) for i in module.instructions)


@pytest.mark.parametrize("number", ["7", "9223372036854775808"])
@pytest.mark.parametrize("command", ["memspace", "schedule", "fuse", "lint --select ALL", "memspace --by op_name"])
def test_an_alias_of_an_operand_that_is_not_there_is_ignored(command: str, number: str, tmp_path: Path) -> None:
    alias = f"output_to_operand_aliasing={{{{}}: ({number}, {{}})}}"
    text = f"""HloModule m

ENTRY e {{
  p = s32[2] parameter(0)
  s = ((s32[2]), s32[2], s32[]) async-start(p), s=""
  u = ((s32[2]), s32[2], s32[]) async-update(s), {alias}
  c = s32[2] custom-call(p), custom_call_target="f", {alias}
  ROOT f = s32[2] fusion(c), kind=kLoop, calls=g, {alias}
}}
"""
    path = tmp_path / "m.hlo"
    path.write_text(text, encoding="utf-8")
    assert main([*command.split(), str(path)], standalone=False) in (0, 1, 2)
