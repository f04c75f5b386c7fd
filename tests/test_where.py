"""The language of `--where`: what an expression reads as, what it is true of, and where it is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumps import FIXTURES, Dump, compiled_dumps
from hlo_cli.analysis.layout.buffer_sizes import data_values
from hlo_cli.analysis.query.fields import instruction_fields, value_fields
from hlo_cli.analysis.query.where import predicate
from hlo_cli.commands.help.catalog import source_of
from hlo_cli.commands.modules.instruction_tables import instructions_where, rows_where, values_where
from hlo_cli.commands.modules.loading import load_one
from hlo_cli.commands.options.io_options import InputOptions
from hlo_cli.commands.parse.instruction_list import report_of_instructions
from hlo_cli.ir.expressions import Both, Comparison, Condition, Either, Flag, Not, Text
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.report.table import Column, Table
from hlo_cli.source import FORMER_NAMES, HloError
from hlo_cli.syntax.conditions import LONGEST, MOST_NESTED, parse_where
from hlo_cli.syntax.text.parser import parse_module
from share import every
from timing import soon

TEXT = """HloModule m, is_scheduled=true

%body (p: f32[8,128]) -> f32[8,128] {
  %p = f32[8,128]{1,0:T(8,128)} parameter(0)
  ROOT %n = f32[8,128]{1,0:T(8,128)} negate(%p)
}

ENTRY %main (a: f32[3,100]) -> (f32[8,128], pred[]) {
  %a = f32[3,100]{1,0:T(4,128)S(1)} parameter(0), metadata={op_name="x" source_file="m.py" source_line=3}
  %b = f32[8,128]{1,0:T(8,128)} pad(%a, %a), padding=0_5x0_28, metadata={op_name="jit(f)/attention/pad"}
  %fusion.1 = f32[8,128]{1,0:T(8,128)} fusion(%b), kind=kLoop, calls=%body
  %call.3 = f32[8,128]{1,0:T(8,128)} custom-call(%b, %fusion.1), custom_call_target="__cublas$gemm"
  %all.2 = f32[8,128]{1,0:T(8,128)} all-gather(%call.3), channel_id=3, replica_groups={{0,1}}, dimensions={0}
  %and = pred[] constant(true)
  ROOT %t = (f32[8,128]{1,0:T(8,128)}, pred[]) tuple(%all.2, %and)
}
"""


def chosen(expression: str, module: Module | None = None) -> list[str]:
    """The names of the instructions that an expression is true of."""
    module = module or parse_module(TEXT)
    return [i.name for i in filter(instructions_where(expression, module), module.instructions)]


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("opcode == fusion", ["fusion.1"]),
        ("opcode==constant or name==%a", ["a", "and"]),
        ("opcode in (pad, negate)", ["n", "b"]),
        ("opcode not in (pad, negate, parameter, tuple, constant)", ["fusion.1", "call.3", "all.2"]),
        ("name == and and opcode != parameter", ["and"]),
        ("name in (and, or, not)", ["and"]),
        ("fused", ["p", "n"]),
        ("is_root and not fused", ["t"]),
        ("fused == false and is_root == true", ["t"]),
        ("is_entry and not (users > 0)", ["t"]),
        ("users > 1", ["b"]),
        ("users == call.3", ["b", "fusion.1"]),
        ("operands == 2 and operands != %b", ["b", "t"]),
        ("operands ~ fus* or called_computations > 0", ["fusion.1", "call.3"]),
        ("padded_bytes > 3KiB and opcode == custom-call", ["call.3"]),
        ("padding > 40%", ["a"]),
        ("padding >= 0.4 and padding < 1", ["a"]),
        ("padding_bytes == 848", ["a"]),
        ("padded_bytes > logical_bytes", ["a"]),
        ("elements == 1,024 and rank == 2 and opcode == pad", ["b"]),
        ("dims[0] == 3 and dims[-1] == 100", ["a"]),
        ("dims == [3,100]", ["a"]),
        ("dims[2] == 3 or dims[-3] == 3", []),
        ("memory_space == 1 and dtype == f32", ["a"]),
        ("layout == {1,0:T(4,128)S(1)}", ["a"]),
        ('layout ~ "S\\(1\\)"', ["a"]),
        ("shape == f32[3,100]", ["a"]),
        ("shape == f32[3,100]{1,0:T(4,128)S(1)}", ["a"]),
        ("shape == f32[3,100]{1,0}", []),
        ("shape ~ f32[3,*]*", ["a"]),
        ("shape ~ f32[3,100]{…}", ["a"]),
        ('op_name ~ "attention|mlp"', ["b"]),
        ("op_name ~ attention", ["b"]),
        ("op_name !~ attention", ["a"]),
        ("op_name ~ 'jit(f)'", []),
        ("op_name ~ 'jit\\(f\\)'", ["b"]),
        ("op_name ~ jit…pad", ["b"]),
        ("op_name == x", ["a"]),
        ("not op_name == x and fused", ["p", "n"]),
        ("op_name != x and fused", []),
        ("source == m.py:3", ["a"]),
        ("line < 5", ["p"]),
        ("computation == main and opcode == constant", ["and"]),
        ("kind == kLoop", ["fusion.1"]),
        ("channel_id == 3", ["all.2"]),
        ("channel_id >= 4", []),
        ("channel_id != 4", ["all.2"]),
        ("channel_id != 3", []),
        ("custom_call_target ~ cublas", ["call.3"]),
        ("custom_call_target == __cublas$gemm", ["call.3"]),
        ("calls == body", ["fusion.1"]),
        ("calls == %body", ["fusion.1"]),
        ("calls ~ bod*", ["fusion.1"]),
        ("name ~ %fus", ["fusion.1"]),
        ("name ~ %fus*", ["fusion.1"]),
        ("replica_groups == {{0,1}}", ["all.2"]),
        ("has(channel_id)", ["all.2"]),
        ("has(op_name)", ["a", "b"]),
        ("has(operands) and not has(users)", ["n", "t"]),
        ("attributes[padding] ~ 0_5", ["b"]),
        ('attributes[padding] == "0_5x0_28"', ["b"]),
        ("has(attributes[padding])", ["b"]),
        ("direction == EQ", []),
        ("uses(%b)", ["fusion.1", "call.3"]),
        ("uses(fus*)", ["call.3"]),
        ('uses("^(b|a)$")', ["b", "fusion.1", "call.3"]),
        ("calls(body)", ["fusion.1"]),
        ("depends_on(fusion.1)", ["call.3", "all.2", "t"]),
        ("feeds(fusion.1)", ["a", "b"]),
        ("not not fused and opcode == negate", ["n"]),
        ("opcode == pad or opcode == fusion and kind == kCustom", ["b"]),
        ("(opcode == pad or opcode == fusion) and has(kind)", ["fusion.1"]),
    ],
)
def test_an_expression_is_true_of(expression: str, names: list[str]) -> None:
    assert chosen(expression) == names


@pytest.mark.parametrize(
    ("expression", "message", "place", "hint"),
    [
        ("", "empty", "", "hlo help where"),
        ("opcde == fusion", "unknown field 'opcde'", "opcde", "did you mean 'opcode'?"),
        ("chanel_id == 3", "unknown field 'chanel_id'", "chanel_id", "did you mean 'channel_id'?"),
        ("padded > 3", "unknown field 'padded'", "padded", "did you mean 'padded_bytes'?"),
        ("rank[0] == 1", "unknown field 'rank[0]'", "rank[0]", "hlo help where"),
        ("dims[x] == 1", "dims has no x", "dims[x]", ""),
        ("opcode = fusion", "expected an operator, found '='", "=", "use =="),
        ("opcode fusion", "expected an operator, found 'fusion'", "fusion", ""),
        ("opcode == ", "expected a value, found end of input", "", ""),
        ("opcode == a && rank == 2", "found '&&'", "&&", "use `and`"),
        ("!fused", "expected a condition, found '!'", "!", "use `not`"),
        ("opcode <> a", "found '<>'", "<>", "use !="),
        (
            "op_name ~ jit(f)",
            "expected `and`, `or`, or end of input, found '('",
            "(",
            "quote text that contains parentheses",
        ),
        ("(opcode == a", "unclosed '('", "(", ""),
        ("opcode == a)", "unmatched ')'", ")", ""),
        ("opcode == 'a", "unclosed string", "'", ""),
        ("dims == [1", "unclosed '['", "[", ""),
        ("opcode in fusion", "expected '(', found 'fusion'", "fusion", ""),
        ("padded_bytes > 1mb", "unknown unit 'mb'", "mb", "did you mean 'MB'?"),
        ("padded_bytes > 2 frogs", "unknown unit 'frogs'", "frogs", "KiB"),
        ("rank == 1MiB", "1MiB is a size in bytes", "rank == 1MiB", ""),
        ("rank == 50%", "50% is a percentage", "rank == 50%", ""),
        ("padding > 50", "padding is at most 100%", "50", "50%"),
        ("rank == two", "rank is a number; 'two' is not a number or a numeric field", "rank == two", ""),
        ("opcode == 3", "opcode is text; 3 is a number", "opcode == 3", '"3"'),
        ("opcode < add", "opcode is text; < needs a number", "opcode < add", ""),
        ("rank ~ 3", "rank is a number; ~ needs text", "rank ~ 3", "=="),
        ("fused == 1", "fused is a flag; 1 is a number", "fused == 1", ""),
        ("fused == yes", "'yes' is not true or false", "fused == yes", ""),
        ("opcode", "opcode is text, not a flag", "opcode", "has(opcode)"),
        ("name == fusion*", "== compares the whole text", "fusion*", "~"),
        ("uss(a)", "unknown function 'uss'", "uss", "did you mean 'uses'?"),
        ("uses()", "expected a name, found ')'", ")", ""),
        ("uses(fusion.9)", "instruction 'fusion.9' not found in m", "fusion.9", "did you mean 'fusion.1'?"),
        ("depends_on(%fusion.9)", "instruction 'fusion.9' not found in m", "%fusion.9", "did you mean 'fusion.1'?"),
        ("calls(boody)", "computation 'boody' not found in m", "boody", "did you mean 'body'?"),
        ('name ~ "a(b"', "invalid regular expression", "(", ""),
        ('name ~ "(a+)+$"', "nested repeats are not supported", "+", ""),
    ],
)
def test_what_is_wrong_is_shown_in_its_place(expression: str, message: str, place: str, hint: str) -> None:
    with pytest.raises(HloError) as caught:
        chosen(expression)
    found = caught.value.diagnostic
    assert message in found.message
    assert found.source is not None
    assert found.span is not None
    assert found.source.slice(found.span) == place
    assert hint in (found.hint or "")


def test_an_attribute_of_a_fork_is_known_where_it_occurs() -> None:
    text = "HloModule m  ENTRY e { ROOT p = f32[2] parameter(0), frobs={1,2} }"
    assert chosen("frobs == {1,2}", parse_module(text)) == ["p"]
    with pytest.raises(HloError, match="unknown field 'frobs'"):
        chosen("frobs == {1,2}")


@pytest.mark.parametrize(("former", "name"), FORMER_NAMES.items())
def test_fields_that_were_renamed_are_named(former: str, name: str) -> None:
    with pytest.raises(HloError) as raised:
        chosen(f"has({former})")
    assert raised.value.diagnostics[0].hint == f"did you mean '{name}'?"


def test_values_have_their_own_shapes() -> None:
    module = parse_module("HloModule m  ENTRY e { ROOT p = (f32[3,100]{1,0:T(4,128)S(1)}, f32[]) parameter(0) }")
    for expression, expected in {
        "rank == 2": ["p{0}"],
        "padded_bytes == 4": ["p{1}"],
        "instruction == p{1}": ["p{1}"],
        "space_name == VMEM and space == 1": ["p{0}"],
        "saving_bytes > 0": [],
        "opcode == parameter": ["p{0}", "p{1}"],
        "feeds(p)": [],
    }.items():
        assert [str(value) for value in filter(values_where(expression, module), data_values(module))] == expected
    assert chosen("rank == 2 or rank == 0", module) == []


@pytest.mark.parametrize("dump", every(8, compiled_dumps()[::3]), ids=str)
def test_a_column_means_what_the_field_of_its_name_means(dump: Dump) -> None:
    loaded = load_one([str(dump.path)], InputOptions())
    table = report_of_instructions(loaded).main_table
    assert isinstance(table, Table)
    fields = instruction_fields(loaded.module).readers
    rows = list(zip(loaded.module.instructions, table.rows, strict=True))
    for at, column in enumerate(table.columns):
        assert column.name in fields
        for instruction, row in Random(at).sample(rows, min(len(rows), 12)):
            if row[at] is None:
                assert fields[column.name].read(instruction) in (None, ())
                continue
            for expression in _expressions_of(column.name, row[at]):
                assert rows_where(expression, replace(table, rows=(row,))).rows == (row,)
                assert instructions_where(expression, loaded.module)(instruction)


def _expressions_of(column: str, cell: object) -> list[str]:
    if isinstance(cell, int | float):
        return [f"{column} == {cell}", f"not ({column} > {cell} or {column} < {cell})"]
    first = str(cell).split(", ")[0] if column in ("operands", "called_computations") else str(cell)
    quoted = first.replace('"', '\\"')
    part = re.escape(first).replace('"', '\\"')
    return [f'{column} == "{quoted}"', f'{column} ~ "{part}"', f"has({column})"]


@pytest.mark.parametrize("dump", compiled_dumps()[::4], ids=str)
def test_what_depends_on_another_is_fed_by_it(dump: Dump) -> None:
    module = parse_module(dump.text)
    for instruction in Random(3).sample(module.entry.instructions, min(5, len(module.entry.instructions))):
        depending = set(chosen(f"is_entry and depends_on({instruction.name})", module))
        feeding = set(chosen(f"is_entry and feeds({instruction.name})", module))
        assert instruction.name not in depending | feeding
        assert not depending & feeding
        for user in filter(lambda i: instruction in i.operands, module.entry.instructions):
            assert user.name in depending
        assert {operand.name for operand in instruction.operands} <= feeding
        assert set(chosen(f"is_entry and uses({instruction.name})", module)) <= depending


Model = tuple[str, Callable[[Instruction], bool]]
_LEAVES: list[Model] = [
    ("opcode == add", lambda i: i.opcode == "add"),
    ("opcode in (add, tuple)", lambda i: i.opcode in ("add", "tuple")),
    ("padded_bytes >= 64B", lambda i: i.shape.padded_bytes >= 64),
    ("is_root", lambda i: i.is_root),
    ("operands > 1", lambda i: len(i.operands) > 1),
    ('name ~ "[bd]"', lambda i: "b" in i.name or "d" in i.name),
    ("uses(b)", lambda i: any(o.name == "b" for o in i.operands)),
]


def _joined(parts: list[Model], word: str) -> Model:
    together = all if word == "and" else any
    text = f" {word} ".join(f"({text})" for text, _ in parts)
    return text, lambda i: together(test(i) for _, test in parts)


def _negated(part: Model) -> Model:
    return f"not ({part[0]})", lambda i: not part[1](i)


_models = st.recursive(
    st.sampled_from(_LEAVES),
    lambda parts: st.one_of(
        st.builds(_joined, st.lists(parts, min_size=2, max_size=3), st.sampled_from(("and", "or"))),
        st.builds(_negated, parts),
    ),
    max_leaves=8,
)
_SMALL = parse_module("""HloModule m  ENTRY e {
  a = f32[4] parameter(0)  b = f32[32] parameter(1)  c = f32[32] add(b, b)  d = f32[4] negate(a)
  ROOT t = (f32[32], f32[4]) tuple(c, d) }""")


@given(_models)
def test_and_or_not_mean_what_they_say(model: Model) -> None:
    text, test = model
    assert chosen(text, _SMALL) == [i.name for i in _SMALL.instructions if test(i)]


_conditions: st.SearchStrategy[Condition] = st.recursive(
    st.sampled_from([parse_where(text).condition for text, _ in _LEAVES if "(" not in text]),
    lambda parts: st.one_of(
        st.builds(Both, st.lists(parts, min_size=2, max_size=3).map(tuple)),
        st.builds(Either, st.lists(parts, min_size=2, max_size=3).map(tuple)),
        st.builds(Not, parts),
    ),
    max_leaves=8,
)


def _written(condition: Condition) -> str:
    match condition:
        case Both(parts):
            return " and ".join(f"({_written(part)})" for part in parts)
        case Either(parts):
            return " or ".join(f"({_written(part)})" for part in parts)
        case Not(part):
            return f"not ({_written(part)})"
        case Flag(asked):
            return str(asked)
        case Comparison(asked, sign, values):
            text = values[0].text
            return f'{asked} {sign} "{text}"' if isinstance(values[0], Text) else f"{asked} {sign} {text}"
    raise AssertionError(condition)


@given(_conditions)
def test_an_expression_reads_as_it_is_written(condition: Condition) -> None:
    text = _written(condition)
    assert _written(parse_where(text).condition) == text


@given(st.text("ab*?", max_size=6), st.text("ab", max_size=6))
def test_a_glob_is_a_glob(glob: str, name: str) -> None:
    if not any(wild in glob for wild in "*?"):
        return
    module = parse_module(f"HloModule m  ENTRY e {{ ROOT x{name} = f32[] parameter(0) }}")
    assert bool(chosen(f"name ~ x{glob}", module)) == fnmatchcase(f"x{name}", f"x{glob}")


@given(st.text("abc()'\"[]{}=<>!~ 0123,.%KMiBandornot\t\n\\*_é", max_size=40))
def test_whatever_is_typed_is_read_or_refused(text: str) -> None:
    try:
        parse_where(text)
    except HloError as error:
        span = error.diagnostic.span
        assert span is not None
        assert 0 <= span.start <= span.end <= len(text)


def test_every_beginning_is_read_or_refused() -> None:
    text = 'not (opcode in (add, "x") or dims[0] >= 1,024) and uses(%a) and padding > 50% and shape == f32[2]{0}'
    for end in range(len(text)):
        with suppress(HloError):
            parse_where(text[:end])
    assert isinstance(parse_where(text).condition, Both)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("(" * 5000 + "fused" + ")" * 5000, "too many nested parentheses"),
        ("(" * 5000, "too many nested parentheses"),
        ("not " * 100_000 + "fused", "expression is too long"),
        ("x" * (LONGEST + 1), "expression is too long"),
        ('name ~ "' + "(" * 3000 + 'x"', "nested repeats|invalid regular expression|too large"),
        ('name ~ "a{1,99999999999999999999}"', "too large"),
        ('name ~ "(a|a)*b"', "nested repeats are not supported"),
        ('name ~ "(?:a*)*b"', "nested repeats are not supported"),
    ],
)
def test_hostile_expressions_are_refused(expression: str, message: str) -> None:
    with pytest.raises(HloError, match=message):
        chosen(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "(" * MOST_NESTED + "fused" + ")" * MOST_NESTED,
        "not " * 4000 + "fused",
        " and ".join(["not fused"] * 1000),
        " or ".join([f"rank == {n}" for n in range(1000)]),
        "name in (" + ", ".join(f"x{n}" for n in range(2000)) + ")",
        "shape == {" + "{}" * 4000 + "}",
        "name ~ " + "*a" * 4000,
        "elements == " + "9" * 9000,
    ],
)
def test_long_expressions_take_no_long_time(expression: str) -> None:
    with soon(5):
        chosen(expression)


def test_a_glob_takes_linear_time() -> None:
    module = parse_module(f"HloModule m  ENTRY e {{ ROOT {'a' * 20_000} = f32[] parameter(0) }}")
    with soon(5):
        assert chosen("name ~ " + "*a" * 30 + "*b", module) == []


def test_the_help_tells_of_every_field_and_runs() -> None:
    module = parse_module((FIXTURES / "tpu/v5e_conv/after_optimizations.txt").read_text(encoding="utf-8"))
    page = source_of("where")
    examples = page.partition("```text\n")[2].partition("```")[0].splitlines()
    examples += re.findall(r"hlo (?:parse|layout) DUMP --where '(.*?)'", page)
    assert len(examples) == 13
    for example in examples:
        chosen(example, module)
    for name in value_fields(module).readers:
        assert f"`{name}`" in page
    for name in value_fields(module).functions:
        assert f"`{name}(" in page


def test_an_unknown_column_has_a_hint_with_all_columns() -> None:
    table = Table("sizes", (Column("value", "", "name"), Column("bytes", "", "bytes")), ())
    with pytest.raises(HloError) as raised:
        rows_where("opcode == copy", table)
    diagnostic = raised.value.diagnostic
    assert (diagnostic.message, diagnostic.hint) == ("unknown field 'opcode'", "available: value, bytes")


def test_functions_are_for_instructions() -> None:
    table = Table("sizes", (), ())
    with pytest.raises(HloError, match=r"uses\(\) applies only to instructions"):
        rows_where("uses(a)", table)


def test_an_expression_can_be_asked_again() -> None:
    module = parse_module(TEXT)
    test = predicate(parse_where("users > 1 and not fused"), instruction_fields(module))
    first = [test(instruction) for instruction in module.instructions]
    assert [test(instruction) for instruction in module.instructions] == first
    assert any(first)


@pytest.mark.parametrize(
    "expression", ["opcode == cpoy", "opcode != cpoy", "opcode in (add, cpoy)", "not opcode == cpoy"]
)
def test_an_opcode_that_there_is_not_is_told(expression: str) -> None:
    module = parse_module("r = f32[2] frobnicate(f32[2] p)")
    for where in (instructions_where, values_where):
        with pytest.raises(HloError, match="unknown opcode 'cpoy'") as caught:
            where(expression, module)
        assert caught.value.diagnostic.hint == "did you mean 'copy'?"
        for other in (expression.replace("cpoy", "frobnicate"), 'opcode ~ "cpoy"', "opcode == slice-start"):
            where(other, module)


def test_rows_are_asked_for_opcodes_that_there_are() -> None:
    table = Table("t", (Column("name", ""), Column("opcode", "")), (("a", "copy"), ("b", "frobnicate")))
    assert rows_where("opcode == frobnicate", table).rows == (("b", "frobnicate"),)
    assert rows_where("opcode == add", table).rows == ()
    with pytest.raises(HloError, match="unknown opcode 'cpoy'") as caught:
        rows_where("opcode == cpoy", table)
    assert caught.value.diagnostic.hint == "did you mean 'copy'?"


PRODUCTS = """HloModule m
ENTRY e {
  a = f32[8,8] parameter(0)
  d = f32[8,8] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[8,8] convolution(a, a), dim_labels=bf_io->bf
  g = (f32[8,8], s8[64]) custom-call(a, a), custom_call_target="__cublas$gemm"
  l = f32[8,8] custom-call(a, a), custom_call_target="__cublas$lt$matmul$f8"
  n = (f32[8,8], u8[0]) custom-call(a, a), custom_call_target="__cudnn$convForward"
  o = bf16[8,8] custom-call(a, a), custom_call_target="__onednn$matmul"
  t = f32[8,8] custom-call(a, a), custom_call_target="__cublas$triangularSolve"
  u = (f32[8,8], s8[64]) custom-call(a), custom_call_target="f"
  ROOT s = f32[8,8] negate(a)
}
"""


def test_a_product_is_one_however_it_is_spelled() -> None:
    """Of what a library gives besides its result, its scratch memory, fields of arrays take no notice."""
    module = parse_module(PRODUCTS)
    assert chosen("product", module) == ["d", "c", "g", "l", "n", "o"]
    assert chosen("product and dtype == f32", module) == ["d", "c", "g", "l", "n"]
    assert chosen("product and dims == [8,8] and elements == 64 and dims[0] == 8", module) == [
        "d",
        "c",
        "g",
        "l",
        "n",
        "o",
    ]
    assert chosen("product and logical_bytes == 320", module) == ["g"]
    assert chosen("not product and dtype == f32", module) == ["a", "t", "s"]


def test_the_saving_of_a_value_is_that_of_its_best_order() -> None:
    """1024 rows of 128 words; the other way round, 4 rows of 1024 words in tiles of 4 rows."""
    shapes = "f32[1024,4]{1,0:T(8,128)}, f32[8,128]{1,0:T(8,128)}, f32[]"
    module = parse_module(f"HloModule m, is_scheduled=true  ENTRY e {{ ROOT p = ({shapes}) parameter(0) }}")
    saving = value_fields(module).readers["saving_bytes"]
    assert [saving.read(value) for value in data_values(module)] == [4 * 1024 * 128 - 4 * 4 * 1024, 0, 0]
