"""Rewritten schedules do not overwrite values in place before their last read, and give the same results in XLA."""

from __future__ import annotations

import re
from collections import Counter
from random import Random

import pytest

from dumps import Dump, compiled_dumps
from hlo_cli import parse_module
from hlo_cli.analysis.memory.buffers import order_independent_facts, overwritten_values
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError
from hlo_cli.transform.extract import extracted
from hlo_cli.transform.fusion.by_request import fuse_pair, unfuse, unfused
from hlo_cli.transform.in_place_hazards import fix_in_place_hazards
from hlo_cli.transform.reorder import reorder
from in_place_programs import in_place_programs
from rewritten import GOALS, rewrites
from running import same_results

DUMPS = compiled_dumps()
NOTHING = parse_module("ENTRY e { ROOT p = s8[] parameter(0) }")

OVERWRITE = """HloModule m, is_scheduled=true
f {
  a = s32[8]{0} parameter(0)
  s = s32[4]{0} slice(a), slice={[0:4]}
  n = s32[4]{0} negate(s)
  z = s32[] constant(0)
  d = s32[8]{0} dynamic-update-slice(a, n, z)
  ROOT c = f64[8]{0} convert(d)
}
g { b = s32[8]{0} parameter(0)  ROOT v = bf16[8]{0} convert(b) }
h { p = s32[8]{0} parameter(0)  ROOT q = s32[8]{0} abs(p) }
ENTRY e {
  x = s32[8]{0} parameter(0)
  y = s32[8]{0} fusion(x), kind=kLoop, calls=h
  w = f64[8]{0} fusion(y), kind=kLoop, calls=f
  r = bf16[8]{0} fusion(y), kind=kLoop, calls=g
  ROOT t = (f64[8]{0}, bf16[8]{0}) tuple(w, r)
}"""
HEAD = """HloModule m, is_scheduled=true
more { m0 = (s32[], f32[8], f32[8]) parameter(0)  m1 = s32[] get-tuple-element(m0), index=0  m2 = s32[] constant(3)
  ROOT m3 = pred[] compare(m1, m2), direction=LT }
"""
BODY = """body {
  b = (s32[], f32[8], f32[8]) parameter(0)
  i = s32[] get-tuple-element(b), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[8] get-tuple-element(b), index=1
  y = f32[8] get-tuple-element(b), index=2
  BODY
}
"""
ENTRY = """ENTRY e {
  p = f32[8] parameter(0)
  q = f32[8] parameter(1)
  zero = s32[] constant(0)
  c0 = s32[] copy(zero)
  c1 = f32[8] cosine(p)
  c2 = f32[8] sine(q)
  t = (s32[], f32[8], f32[8]) tuple(c0, c1, c2)
  w = (s32[], f32[8], f32[8]) while(t), condition=more, body=body
  a = f32[8] get-tuple-element(w), index=1
  k = f32[8] get-tuple-element(w), index=2
  ROOT r = (f32[8], f32[8]) tuple(a, k)
}"""
LOOP = HEAD + BODY + ENTRY
BODIES = {
    "a carried array is read behind its update": """u = f32[2] slice(y), slice={[0:2]}
  d = f32[8] dynamic-update-slice(x, u, i)  s = f32[8] add(d, x)  ROOT o = (s32[], f32[8], f32[8]) tuple(j, d, s)""",
    "it is carried on as another": """u = f32[2] slice(y), slice={[0:2]}
  d = f32[8] dynamic-update-slice(x, u, i)  ROOT o = (s32[], f32[8], f32[8]) tuple(j, d, x)""",
    "two are carried on as each other": "ROOT o = (s32[], f32[8], f32[8]) tuple(j, y, x)",
    "one is carried on twice": "n = f32[8] negate(x)  v = f32[8] add(n, y)  "
    "ROOT o = (s32[], f32[8], f32[8]) tuple(j, v, v)",
    "a new one is reversed in place": """s = f32[8] add(y, x)  n = f32[8] reverse(x), dimensions={0}
  ROOT o = (s32[], f32[8], f32[8]) tuple(j, n, s)""",
    "a constant is carried on": """d = f32[8] constant({1, 2, 3, 4, 5, 6, 7, 8})  v = f32[8] add(x, y)
  ROOT o = (s32[], f32[8], f32[8]) tuple(j, d, v)""",
}
WHOLE = {
    "an argument is updated": """p = f32[8] parameter(0)  q = f32[2] parameter(1)  i = s32[] constant(2)
  d = f32[8] dynamic-update-slice(p, q, i)  n = f32[2] sine(q)  ROOT r = (f32[8], f32[2]) tuple(d, n)""",
    "a constant is updated": """p = f32[2] parameter(0)  c = f32[4] constant({1, 2, 3, 4})  i = s32[] constant(2)
  d = f32[4] dynamic-update-slice(c, p, i)  ROOT e = f32[4] add(d, c)""",
    "two updates of one": """p = f32[8] parameter(0)  n = f32[8] negate(p)  u = f32[2] slice(p), slice={[1:3]}
  i = s32[] constant(2)  d = f32[8] dynamic-update-slice(n, u, i)  k = s32[] constant(5)
  e = f32[8] dynamic-update-slice(n, u, k)  ROOT r = (f32[8], f32[8]) tuple(d, e)""",
    "an update with itself": """p = f32[4,4] parameter(0)  n = f32[4,4] negate(p)  i = s32[] constant(0)
  b = f32[4,4]{0,1} bitcast(n)  c = f32[4,4]{1,0} bitcast(b)  t = f32[2,4] slice(n), slice={[2:4], [0:4]}
  d = f32[4,4] dynamic-update-slice(n, c, i, i)  s = f32[4,4] add(c, d)  ROOT r = (f32[4,4], f32[2,4]) tuple(s, t)""",
    "a result behind its update": """p = f32[8] parameter(0)  n = f32[8] negate(p)  u = f32[2] slice(p), slice={[1:3]}
  i = s32[] constant(2)  d = f32[8] dynamic-update-slice(n, u, i)  a = f32[8] sine(d)
  ROOT r = (f32[8], f32[8]) tuple(n, a)""",
    "a result in a tuple of tuples": """p = f32[8] parameter(0)  n = f32[8] negate(p)  u = f32[2] slice(p), slice={[1:3]}
  i = s32[] constant(2)  k = (f32[8], f32[2]) tuple(n, u)  t = ((f32[8], f32[2]), s32[]) tuple(k, i)
  d = f32[8] dynamic-update-slice(n, u, i)  a = f32[8] sine(d)
  ROOT r = (((f32[8], f32[2]), s32[]), f32[8]) tuple(t, a)""",
    "seen through an element": """p = f32[8] parameter(0)  u = f32[2] slice(p), slice={[1:3]}  i = s32[] constant(2)
  m = f32[8] negate(p)  k = f32[8] cosine(p)  t = (f32[8], f32[8]) tuple(m, k)  n = f32[8] get-tuple-element(t), index=1
  d = f32[8] dynamic-update-slice(n, u, i)  a = f32[8] sine(d)  b = f32[8] get-tuple-element(t), index=1
  ROOT r = (f32[8], f32[8]) tuple(b, a)""",
    "seen through a bitcast": """p = f32[8] parameter(0)  n = f32[8] negate(p)  u = f32[2] slice(p), slice={[1:3]}
  i = s32[] constant(2)  d = f32[8] dynamic-update-slice(n, u, i)  b = f32[2,4] bitcast(n)
  a = f32[8] sine(d)  l = f32[8] bitcast(b)  ROOT r = (f32[8], f32[8]) tuple(l, a)""",
}


def entry(lines: str) -> str:
    return f"HloModule m, is_scheduled=true\nENTRY e {{\n  {lines}\n}}"


TEXTS = {
    **{name: LOOP.replace("BODY\n", f"{body}\n") for name, body in BODIES.items()},
    **{name: entry(lines) for name, lines in WHOLE.items()},
    "one goes in twice": LOOP.replace("tuple(c0, c1, c2)", "tuple(c0, c1, c1)").replace(
        "BODY\n", "s = f32[8] add(x, y)  ROOT o = (s32[], f32[8], f32[8]) tuple(j, s, y)\n"
    ),
    "read behind the loop": LOOP.replace("tuple(a, k)", "tuple(a, c1)").replace(
        "BODY\n", "s = f32[8] add(x, y)  ROOT o = (s32[], f32[8], f32[8]) tuple(j, s, y)\n"
    ),
    "an argument is carried": LOOP.replace("tuple(c0, c1, c2)", "tuple(zero, p, c2)").replace(
        "BODY\n", "s = f32[8] add(x, y)  ROOT o = (s32[], f32[8], f32[8]) tuple(j, s, y)\n"
    ),
}
texts = pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)


def wrong(module: Module) -> int:
    return overwritten_values(order_independent_facts(module)).count


@pytest.mark.parametrize("dump", DUMPS, ids=str)
def test_no_compiler_reads_overwritten_values(dump: Dump) -> None:
    module = parse_module(dump.text)
    assert not module.is_scheduled or not wrong(module)


@texts
def test_overwritten_values_are_copied_before(text: str) -> None:
    module = parse_module(text)
    assert wrong(module)
    kept = fix_in_place_hazards(module, NOTHING)
    assert not wrong(kept.module)
    assert kept.copies
    assert len(set(kept.copies)) == len(kept.copies) == _copies(kept.module) - _copies(module)
    given, made = (Counter(i.opcode for i in each.instructions) for each in (module, kept.module))
    assert set(made - given) <= {"copy", "get-tuple-element"}, "tuples stay those that are there"
    read = parse_module(str(kept.module))
    assert not read.errors
    assert str(read) == str(kept.module)


NEEDLESS = {
    "it is carried on as another": 1,
    "one is carried on twice": 2,
    "two updates of one": 1,
    "one goes in twice": 2,
}
"""Copies without which nothing is read late, as another one does for two; XLA takes them out again in the end."""


@pytest.mark.parametrize("name", TEXTS)
def test_copies_are_needed_one_by_one(name: str) -> None:
    kept = fix_in_place_hazards(parse_module(TEXTS[name]), NOTHING)
    needless = 0
    for copy in kept.copies:
        [operand] = kept.module.instruction(copy).operands
        without = re.sub(rf"%{re.escape(copy)}(?![\w.]| =)", f"%{operand.name}", str(kept.module))
        needless += not wrong(parse_module(without))
    assert needless == NEEDLESS.get(name, 0)


def _copies(module: Module) -> int:
    return sum(instruction.opcode == "copy" for instruction in module.instructions)


@texts
def test_hazards_of_the_given_module_stay(text: str) -> None:
    module = parse_module(text)
    assert fix_in_place_hazards(parse_module(text), module).copies == ()
    assert fix_in_place_hazards(module, parse_module(text.replace("is_scheduled=true", "is_scheduled=false"))).copies
    assert not fix_in_place_hazards(
        parse_module(text.replace("is_scheduled=true", "is_scheduled=false")), NOTHING
    ).copies


def test_a_write_moves_after_other_reads() -> None:
    made = unfused(parse_module(OVERWRITE), ["w"])
    assert [i.name for i in made.module.entry.instructions] == ["x", "y", "s", "n", "z", "r", "d", "c", "t"]
    assert not made.copies


def test_a_write_that_cannot_move_needs_a_copy() -> None:
    text = OVERWRITE.replace(
        "fusion(y), kind=kLoop, calls=g", "fusion(y), kind=kLoop, calls=g, control-predecessors={w}"
    )
    made = unfused(parse_module(text), ["w"])
    assert [i.name for i in made.module.entry.instructions] == ["x", "y", "s", "n", "z", "copy", "d", "c", "r", "t"]
    assert made.module.instruction("r").operands == (made.module.instruction("copy"),)
    assert made.copies == ("copy",)


def test_a_copy_has_the_shape_of_its_operand_and_says_what_it_is_for() -> None:
    text = TEXTS["a result behind its update"].replace(
        "dynamic-update-slice(n, u, i)", 'dynamic-update-slice(n, u, i), metadata={op_name="put"}'
    )
    copy = fix_in_place_hazards(parse_module(text), NOTHING).module.instruction("copy")
    assert str(copy.shape) == "f32[8]{0}"
    assert copy.metadata.op_name == "put"


def test_what_an_update_overwrites_is_not_copied_but_what_it_reads_besides() -> None:
    made = fix_in_place_hazards(parse_module(TEXTS["an update with itself"]), NOTHING)
    updated, read = made.module.instruction("d").operands[:2]
    assert made.copies == ("copy",)
    assert updated.name == "n"
    assert {operand.name for operand in made.module.instruction("copy").operands} <= {"n", "b", "c"}
    assert read.name != "c"


def test_what_is_forwarded_after_the_update_is_copied_where_it_was_made() -> None:
    """The element that is read, and not another of the tuple."""
    for index, element in enumerate("mk"):
        text = TEXTS["seen through an element"].replace("index=1", f"index={index}")
        made = fix_in_place_hazards(parse_module(text), NOTHING).module
        [read] = made.instruction("copy").operands
        assert read.name == element or (read.operands[0].name, read.integer("index")) == ("t", index)
        assert made.instruction("copy").index < made.instruction("d").index


def test_donated_arguments_are_overwritten() -> None:
    alias = "is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }"
    text = TEXTS["an argument is updated"].replace("is_scheduled=true", alias)
    assert not wrong(parse_module(text))
    late = text.replace("tuple(d, n)", "tuple(d, n, s)").replace("ROOT", "s = f32[8] sine(p)  ROOT")
    late = late.replace("ROOT r = (f32[8], f32[2])", "ROOT r = (f32[8], f32[2], f32[8])")
    kept = fix_in_place_hazards(parse_module(late), NOTHING)
    assert not kept.copies
    assert [i.name for i in kept.module.entry.instructions] == ["p", "q", "i", "n", "s", "d", "r"]


def test_parts_copy_the_arguments_that_they_would_overwrite() -> None:
    module = unfuse(parse_module(OVERWRITE), ["w"])
    part = extracted(module, module.instruction("d"), operands=0, users=0)
    assert [i.opcode for i in part.module.entry.instructions][-2:] == ["copy", "dynamic-update-slice"]
    assert part.copies == ("copy",)


def test_async_operations_read_until_their_done() -> None:
    text = entry("""p = f32[8] parameter(0)  n = f32[8] negate(p)  u = f32[2] slice(p), slice={[1:3]}  i = s32[] constant(2)
  s = (f32[8], f32[8], u32[]) copy-start(n)  d = f32[8] dynamic-update-slice(n, u, i)  c = f32[8] copy-done(s)
  ROOT r = (f32[8], f32[8]) tuple(c, d)""")
    kept = fix_in_place_hazards(parse_module(text), NOTHING)
    names = [i.name for i in kept.module.entry.instructions]
    assert names.index("c") < names.index("d")
    assert not kept.copies


@pytest.mark.parametrize(
    "depends", ["b = f32[8] add(m, e)", "f = f32[8] tanh(e)  g = f32[8] tan(f)  b = f32[8] add(m, g)"]
)
def test_one_that_can_move_moves_where_another_needs_a_copy(depends: str) -> None:
    """The reader of `m` depends on the update of it, that of `n` does not."""
    text = entry(f"""p = f32[8] parameter(0)  u = f32[2] slice(p), slice={{[1:3]}}  i = s32[] constant(2)
  n = f32[8] negate(p)  m = f32[8] cosine(p)
  d = f32[8] dynamic-update-slice(n, u, i)  e = f32[8] dynamic-update-slice(m, u, i)
  a = f32[8] sine(n)  {depends}  ROOT r = (f32[8], f32[8], f32[8]) tuple(a, b, d)""")
    kept = fix_in_place_hazards(parse_module(text), NOTHING)
    assert not wrong(kept.module)
    assert kept.copies == ("copy",)
    assert [operand.name for operand in kept.module.instruction("copy").operands] == ["m"]
    at = {i.name: i.index for i in kept.module.entry.instructions}
    assert at["a"] < at["d"]


def test_side_effects_keep_their_order_when_an_update_moves() -> None:
    """`first` sends what the update makes, so it moves with it, and `second` must not overtake it."""
    text = entry("""p = f32[8] parameter(0)  u = f32[2] slice(p), slice={[1:3]}  i = s32[] constant(2)  k = token[] after-all()
  n = f32[8] negate(p)  d = f32[8] dynamic-update-slice(n, u, i)  first = token[] outfeed(d, k), outfeed_shape=f32[8]
  second = token[] outfeed(p, k), outfeed_shape=f32[8]  a = f32[8] sine(n)  ROOT r = (f32[8], f32[8]) tuple(a, d)""")
    kept = fix_in_place_hazards(parse_module(text), NOTHING)
    names = [i.name for i in kept.module.entry.instructions]
    assert names == ["p", "u", "i", "k", "n", "a", "d", "first", "second", "r"]
    assert not kept.copies


def test_writes_of_one_buffer_keep_their_order_and_reads_between_them() -> None:
    text = entry("""p = f32[8] parameter(0)  u = f32[2] slice(p), slice={[1:3]}  i = s32[] constant(2)
  n = f32[8] negate(p)  d = f32[8] dynamic-update-slice(n, u, i)  e = f32[8] dynamic-update-slice(d, u, i)
  a = f32[8] sine(n)  b = f32[8] cosine(d)  ROOT r = (f32[8], f32[8], f32[8]) tuple(a, b, e)""")
    kept = fix_in_place_hazards(parse_module(text), NOTHING)
    names = [i.name for i in kept.module.entry.instructions]
    assert names == ["p", "u", "i", "n", "a", "d", "b", "e", "r"]
    assert not kept.copies


def test_each_reader_of_one_overwritten_value_gets_the_same_copy() -> None:
    """Both readers depend on the update, and so does the result: one copy does for all."""
    text = entry("""p = f32[8] parameter(0)  u = f32[2] slice(p), slice={[1:3]}  i = s32[] constant(2)
  n = f32[8] negate(p)  d = f32[8] dynamic-update-slice(n, u, i)  a = f32[8] add(n, d)  b = f32[8] multiply(d, n)
  ROOT r = (f32[8], f32[8], f32[8]) tuple(a, b, n)""")
    kept = fix_in_place_hazards(parse_module(text), NOTHING)
    assert not wrong(kept.module)
    assert kept.copies == ("copy",)
    copy = kept.module.instruction("copy")
    readers = {i.name for i in kept.module.entry.instructions if copy in i.operands}
    assert readers == {"a", "b", "r"}
    assert copy.index == kept.module.instruction("d").index - 1


CASES = {
    "control-predecessors of the fusion": (
        "w = f64[8]{0} fusion(y), kind=kLoop, calls=f, control-predecessors={k}",
        lambda module: module.instruction("s").control_predecessors,
        ("k",),
    ),
    "of what waits for it": (
        "w = f64[8]{0} fusion(y), kind=kLoop, calls=f\n  l = s32[8]{0} negate(x), control-predecessors={w}",
        lambda module: module.instruction("l").control_predecessors,
        ("c",),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_unfusing_keeps_control_predecessors(case: tuple) -> None:  # type: ignore[type-arg]
    line, ask, expected = case
    text = OVERWRITE.replace("w = f64[8]{0} fusion(y), kind=kLoop, calls=f", line)
    text = text.replace("  y = s32", "  k = s32[8]{0} not(x)\n  y = s32")
    made = unfuse(parse_module(text), ["w"])
    assert ask(made) == expected
    assert not parse_module(str(made)).errors


@pytest.mark.parametrize("opcode", ["scatter", "sort"])
def test_operations_with_their_own_cpu_kernel_are_not_fused(opcode: str) -> None:
    operation = {
        "scatter": "scatter(a, i, u), update_window_dims={}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
        "sort": "sort(a), dimensions={0}, to_apply=less",
    }[opcode]
    text = f"""HloModule m, is_scheduled=true
add {{ x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }}
less {{ x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = pred[] compare(x, y), direction=LT }}
f {{ a = f32[8] parameter(0)  i = s32[2,1] parameter(1)  u = f32[2] parameter(2)  ROOT r = f32[8] {operation} }}
ENTRY e {{ p = bf16[8] parameter(0)  q = s32[2,1] parameter(1)  v = f32[2] parameter(2)
  c = f32[8] convert(p)  ROOT w = f32[8] fusion(c, q, v), kind=kLoop, calls=f }}"""
    with pytest.raises(HloError, match="cannot fuse "):
        fuse_pair(parse_module(text), "c", "w")


@pytest.mark.oracle
@pytest.mark.slow
def test_xla_computes_the_same_with_copies() -> None:
    """The given texts are invalid unchanged; without a schedule, XLA adds its own copies."""
    # StableHLO has no bitcasts, and its functions no tuples in tuples as results
    given = {name: text for name, text in TEXTS.items() if not re.search(r"bitcast|ROOT \w+ = \(\(", text)}
    kept = [str(fix_in_place_hazards(parse_module(text), NOTHING).module) for text in given.values()]
    free = [text.replace(", is_scheduled=true", "") for text in given.values()]
    answers = same_results(list(map(list, zip(free, kept, strict=True))), exactly=False, is_compiled=True)
    assert dict(zip(given, answers, strict=True)) == {name: [True] for name in given}


@pytest.mark.oracle
@pytest.mark.slow
def test_xla_computes_the_same_in_every_order() -> None:
    apart = unfuse(parse_module(OVERWRITE))
    made = [str(apart), *(str(reorder(apart, how)) for how in GOALS)]
    assert same_results([[OVERWRITE, *made]]) == [[True] * len(made)]


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("first", "count"), [(300, 2), pytest.param(302, 14, marks=pytest.mark.long)])
def test_xla_computes_the_same_for_programs_that_write_in_place(first: int, count: int) -> None:
    """A dozen rewrites of each program."""
    groups, names = [], []
    for seed, text in enumerate(in_place_programs(first, count)):
        made = list(rewrites(parse_module(text), Random(seed)))
        groups.append([text, *(str(module) for _, module in made)])
        names.append([name for name, _ in made])
        assert not any(wrong(module) for _, module in made)
    answers = same_results(groups, exactly=False)
    different = [(seed, name) for seed, (each, same) in enumerate(zip(names, answers, strict=True))
                 for name, is_same in zip(each, same, strict=True) if not is_same]  # fmt: skip
    assert not different
