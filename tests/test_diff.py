"""Differences of two modules: what is the same under other names, and that edits are found, and nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random

import pytest

from edits import Draft
from hlo_cli import parse_module
from hlo_cli.analysis.matching.changes import KINDS
from hlo_cli.analysis.matching.graph import Keys, module_graph_of
from hlo_cli.analysis.matching.module_diff import ModuleDiff, diff
from hlo_cli.analysis.matching.pairs import Pairs, pair_by_arguments
from hlo_cli.cli import main
from hlo_cli.commands.diff.options import IGNORABLE_KINDS
from hlo_cli.ir.module import Module
from hlo_cli.transform.normalize import normalize
from judge import ask_xla
from share import every
from strategies import FIXTURES, dump_text, dumps, name_of
from timing import soon

PASSES = FIXTURES / "cpu/softmax/passes"


def told(comparison: ModuleDiff) -> set[tuple[str, str]]:
    """The differences as sign and name, that of the old module for what changed."""
    return {
        *(("~", each.before.name) for each in comparison.changed),
        *(("+", i.name) for i in comparison.added),
        *(("-", i.name) for i in comparison.removed),
    }


def entry(*lines: str, header: str = "HloModule m", functions: str = "") -> Module:
    """A module with these lines in its entry."""
    return parse_module(f"{header}\n{functions}\nENTRY e {{ {' '.join(lines)} }}")


def changes(before: Module, after: Module) -> list[tuple[str, ...]]:
    """Every change: the name, then what changed in words."""
    return [(each.before.name, *map(str, each.changes)) for each in diff(before, after).changed]


@pytest.mark.parametrize("path", dumps(), ids=name_of)
def test_names_and_order_are_no_difference(path: Path) -> None:
    """Renamed and reordered at random, a dump is the same, and so is its normalised text."""
    module, random = parse_module(dump_text(path)), Random(name_of(path))
    draft = Draft(module)
    draft.shuffle(random)
    other = parse_module(draft.text(draft.names(random)))
    found = diff(module, other)
    assert found.is_empty
    assert found.matched == module.instruction_count
    assert str(normalize(module)) == str(normalize(other))


EDITS = ((6, True, True), (10, False, False), (3, True, False))
"""How many edits a dump gets, and whether its instructions get other names, and other places."""
ELSE = {
    ("cpu/dynamic/before_optimizations.txt", 10): {("~", "sums.3")},
    ("tpu/v5e_dynamic/after_optimizations.txt", 10): {("-", "copy"), ("+", "inserted.3"), ("~", "copy")},
}
"""Edits that are told otherwise or not at all: a copy that is dropped where another is inserted is a change of it."""


def _edited_dumps() -> list[object]:
    """Each dump edited in each way, of which one is quick."""
    return [
        pytest.param(
            path, *how, id=f"{name_of(path)}-{how[0]}", marks=[] if (at - number) % 3 == 0 else pytest.mark.slow
        )
        for number, path in enumerate(dumps())
        for at, how in enumerate(EDITS)
    ]


@pytest.mark.parametrize(("path", "edits", "renamed", "shuffled"), _edited_dumps())
def test_edits_are_found_and_nothing_else(path: Path, edits: int, *, renamed: bool, shuffled: bool) -> None:
    """Edits of every kind in every dump are told as what they are, and nothing else is."""
    draft = Draft(module := parse_module(dump_text(path)))
    random = Random(f"{name_of(path)} {edits}")
    if shuffled:
        draft.shuffle(random)
    for _ in range(edits):
        draft.edit(random)
    names = draft.names(random) if renamed else {}
    got, expected = told(diff(module, parse_module(draft.text(names)))), draft.expected
    wanted = {
        *(("~", name) for name in expected.changed),
        *(("+", names.get(name, name)) for name in expected.added),
        *(("-", name) for name in expected.removed),
    }
    assert wanted ^ got == ELSE.get((name_of(path), edits), set())


def test_of_equal_chains_the_edited_one_is_told() -> None:
    """Two chains that say the same: what their ends are told apart by, the middle follows."""
    lines = ["p = s8[4]{0} parameter(0)", "q = s8[4]{0} parameter(1)"]
    for name, operand in (("a", "p"), ("b", "q")):
        lines += [f"{name}1 = s8[4]{{0}} not({operand})", f"{name}2 = s8[4]{{0}} negate({name}1)"]
    lines.append("ROOT t = (s8[4]{0}, s8[4]{0}) tuple(a2, b2)")
    edited = [line.replace("a1 = s8[4]{0}", "a1 = s8[4]{0:S(1)}") for line in lines]
    others = [edited[i].replace("a2", "b_2").replace("b2", "a2") for i in (1, 0, 4, 2, 5, 3, 6)]
    assert changes(entry(*lines), entry(*others)) == [("a1", "memory space S(0) → S(1)")]


def test_equal_computations_are_told_apart_by_what_calls_them() -> None:
    """Though neither caller is itself called, and one of the computations is edited."""
    text = "{0}.x {{ x = s8[2] parameter(0)  ROOT {0} = s8[2] {1}(x) }}\n"
    caller = "{0}.c {{ p = s8[2] parameter(0)  ROOT {0}.m = s8[2] map(p), dimensions={{0}}, to_apply={0}.x }}\n"
    names = "abcd"
    before, after = (
        entry("ROOT p = s8[2] parameter(0)", functions="".join((*called, *map(caller.format, names))))
        for called in (
            [text.format(name, "negate") for name in names],
            [text.format(name, "abs" if name == "b" else "negate") for name in names],
        )
    )
    assert changes(before, after) == [("b", "opcode negate → abs")]


def test_parameters_that_are_pairs_stay_so() -> None:
    """Each of two takes the same argument, so that by it either could be either."""
    functions = "f { p = s8[2] parameter(0)  q = s8[2] parameter(1)  ROOT a = s8[2] add(p, q) }"
    lines = "x = s8[2] parameter(0)", "ROOT y = s8[2] fusion(x, x), kind=kLoop, calls=f"
    one, two = (entry(*lines, functions=functions) for _ in range(2))
    numbers = Keys()
    pairs = Pairs(module_graph_of(one, numbers), module_graph_of(two, numbers))
    p, q = (pairs.one.node(parameter) for parameter in one.computations[0].parameters)
    x = pairs.one.node(one.entry.parameters[0])
    pairs.add(x, x)
    pairs.add(p, q)
    pair_by_arguments(pairs, one.computations[0], two.computations[0])
    assert (pairs.after[p], pairs.after[q], pairs.before[p], pairs.before[q]) == (q, p, q, p)


def test_what_comes_from_elsewhere_is_another() -> None:
    """Twins are told apart by where they come from, whatever they are called and however they stand."""
    line = 's8[4]{{0}} not(p), metadata={{op_name="{}"}}'
    before = entry(
        "p = s8[4]{0} parameter(0)",
        *(f"n{i} = {line.format(i)}" for i in range(3)),
        "ROOT t = (s8[4]{0}, s8[4]{0}, s8[4]{0}) tuple(n0, n1, n2)",
    )
    after = entry(
        "p = s8[4]{0} parameter(0)",
        *(f"m{i} = {line.format(2 - i)}" for i in range(3)),
        "ROOT t = (s8[4]{0}, s8[4]{0}, s8[4]{0}) tuple(m0, m1, m2)",
    )
    assert diff(before, after).is_empty


@pytest.mark.parametrize("part", every(3, range(3)))
def test_normalized_text_is_a_fixed_point(part: int) -> None:
    for path in dumps()[part::3]:
        text = str(normalize(parse_module(dump_text(path))))
        assert str(normalize(parse_module(text))) == text


@pytest.mark.oracle
def test_xla_reads_normalized_text() -> None:
    texts = [str(normalize(parse_module(dump_text(path)))) for path in dumps()]
    readable = ask_xla([dump_text(path) for path in dumps()])
    assert [text for text, can in zip(texts, ask_xla(texts), strict=True) if not can] == [
        text for text, can in zip(texts, readable, strict=True) if not can
    ]


def test_who_takes_what_was_inserted_is_not_changed() -> None:
    before = entry("p = s8[4]{0} parameter(0)", "n = s8[4]{0} not(p)", "ROOT a = s8[4]{0} add(n, p)")
    after = entry(
        "p = s8[4]{0} parameter(0)", "n = s8[4]{0} not(p)", "c = s8[4]{0} copy(n)", "ROOT a = s8[4]{0} add(c, p)"
    )
    assert told(diff(before, after)) == {("+", "c")}
    assert told(diff(after, before)) == {("-", "c")}


def test_other_operands_are_a_change() -> None:
    lines = "p = s8[4]{0} parameter(0)", "q = s8[4]{0} parameter(1)", "ROOT a = s8[4]{0} subtract(p, q)"
    assert changes(entry(*lines), entry(*lines[:2], "ROOT a = s8[4]{0} subtract(q, p)")) == [
        ("a", "operand 0 p → q", "operand 1 q → p")
    ]


def test_equal_constants_stand_in_for_each_other() -> None:
    lines = "c = s8[] constant(1)", "d = s8[] constant(1)", "ROOT t = (s8[], s8[]) tuple(c, d)"
    assert diff(entry(*lines), entry(*lines[:2], "ROOT t = (s8[], s8[]) tuple(d, c)")).is_empty
    assert changes(entry(*lines), entry("c = s8[] constant(1)", "d = s8[] constant(2)", lines[2])) == [
        ("d", "value 1 → 2")
    ]


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ("f32[4,8]{1,0}", "f32[4,8]{0,1}", "layout {1,0} → {0,1}"),
        ("f32[4,8]{1,0}", "f32[4,8]{1,0:T(8,128)}", "tiling none → T(8,128)"),
        ("f32[4,8]{1,0}", "f32[4,8]{1,0:S(1)}", "memory space S(0) → S(1)"),
        ("f32[4,8]{1,0}", "f32[4,8]{1,0:E(4)}", "layout {1,0} → {1,0:E(4)}"),
        ("f32[4,8]{1,0}", "f32[8,4]{1,0}", "shape f32[4,8] → f32[8,4]"),
        ("sharding={replicated}", "sharding={maximal device=1}", "sharding {replicated} → {maximal device=1}"),
        ('backend_config={"a":{"b":1,"c":2}}', 'backend_config={"a":{"c":2,"b":3}}', "a.b 1 → 3"),
        ('backend_config={"a":1,"b":2}', 'backend_config={"b":2,"a":1}', None),
        ('metadata={op_name="x"}', 'metadata={op_name="y"}', "op_name x → y"),
        ('custom_call_target="f"', 'custom_call_target="g"', 'custom_call_target "f" → "g"'),
        ("control-predecessors={p}", "control-predecessors={}", "control-predecessors p → none"),
    ],
)
def test_kinds_of_changes(old: str, new: str, change: str | None) -> None:
    line = (
        'ROOT r = f32[4,8]{1,0} custom-call(p), custom_call_target="f", control-predecessors={p}, '
        'sharding={replicated}, metadata={op_name="x"}, backend_config={"a":1,"b":2}'
    )
    if old not in line:
        line = line.replace('backend_config={"a":1,"b":2}', old)
    before, after = entry("p = s8[] parameter(0)", line), entry("p = s8[] parameter(0)", line.replace(old, new))
    assert changes(before, after) == ([("r", change)] if change else [])


def test_what_is_fused_is_the_same_instruction() -> None:
    before = entry("p = s8[4] parameter(0)", "n = s8[4] not(p)", "ROOT a = s8[4] add(n, p)")
    after = entry(
        "q = s8[4] parameter(0)",
        "ROOT x = s8[4] fusion(q), kind=kLoop, calls=f",
        functions="f { z = s8[4] parameter(0) m = s8[4] not(z) ROOT b = s8[4] add(m, z) }",
    )
    assert changes(before, after) == [("n", "fused e → f"), ("a", "fused e → f")]
    assert told(diff(before, after)) == {("~", "n"), ("~", "a"), ("+", "x")}
    assert changes(after, before) == [("m", "unfused f → e"), ("b", "unfused f → e")]


def test_numbers_of_fused_parameters_mean_nothing() -> None:
    lines = "p = s8[4] parameter(0)", "q = s8[4] parameter(1)", "ROOT x = s8[4] fusion({}), kind=kLoop, calls=f"
    one = "f {{ a = s8[4] parameter({}) b = s8[4] parameter({}) ROOT s = s8[4] subtract(a, b) }}"
    before = entry(*lines[:2], lines[2].format("p, q"), functions=one.format(0, 1))
    assert diff(before, entry(*lines[:2], lines[2].format("q, p"), functions=one.format(1, 0))).is_empty
    swapped = diff(before, entry(*lines[:2], lines[2].format("q, p"), functions=one.format(0, 1)))
    assert not swapped.is_empty


def test_moving_is_told_of_scheduled_modules_alone() -> None:
    lines = "p = s8[] parameter(0)", "a = s8[] not(p)", "b = s8[] negate(p)", "ROOT c = s8[] add(a, b)"
    other = lines[0], lines[2], lines[1], lines[3]
    header = "HloModule m, is_scheduled=true"
    found = diff(entry(*lines, header=header), entry(*other, header=header))
    assert found.is_empty
    assert [moved.after.name for moved in found.moved] == ["b"] or [m.after.name for m in found.moved] == ["a"]
    assert not diff(entry(*lines), entry(*other)).moved
    assert [c.name for c in diff(entry(*lines), entry(*lines, header=header)).header] == ["is_scheduled"]


def test_kinds_and_names_can_be_ignored() -> None:
    before = entry('ROOT p = f32[4]{0} parameter(0), backend_config={"a":1}, metadata={op_name="x"}')
    after = entry('ROOT p = f32[4]{0:S(1)} parameter(0), backend_config={"a":2}, metadata={op_name="y"}')
    found = diff(before, after)
    assert len(found.changed[0].changes) == 3
    assert len(found.without(["memory_space", "a"]).changed[0].changes) == 1
    assert found.without(["memory_space", "backend_config", "op_name"]).is_empty


def test_broken_modules_are_compared_as_far_as_they_go() -> None:
    empty, other = parse_module("HloModule m ENTRY e { ROOT p = s8[] parameter(0) }"), "ENTRY e { p = s8[] parameter(0)"
    diff(empty, parse_module(f"HloModule m {other}"))
    deep = "".join(f"f{n + 1} {{ p = s8[] parameter(0) ROOT c = s8[] call(p), to_apply=f{n} }}\n" for n in range(300))
    text = f"HloModule m\nf0 {{ ROOT p = s8[] parameter(0) }}\n{deep}ENTRY e {{ ROOT p = s8[] parameter(0) }}"
    assert diff(parse_module(text), parse_module(text)).is_empty


@pytest.mark.parametrize("count", [1000, pytest.param(4000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("shape", ["wide", "deep", "twins", "uncalled"])
def test_time_is_that_of_reading(shape: str, count: int) -> None:
    """What repeats thousands of times takes no more than its share: seconds here would be hours there."""
    lines = {
        "wide": [f"n{i} = s8[] not(p)" for i in range(count)],
        "deep": [f"n{i} = s8[] not({f'n{i - 1}' if i else 'p'})" for i in range(count)],
        "twins": [f"n{i} = s8[] constant(1)" for i in range(count)],
        "uncalled": [],
    }[shape]
    functions = "".join(f"f{i} {{ ROOT p = s8[] parameter(0) }}\n" for i in range(count)) if shape == "uncalled" else ""
    names = ", ".join(["p", *(f"n{i}" for i in range(len(lines)))])
    root = f"ROOT t = ({', '.join(['s8[]'] * (len(lines) + 1))}) tuple({names})"
    module = entry("p = s8[] parameter(0)", *lines, root, functions=functions)
    other = entry("p = s8[] parameter(0)", *lines[:-1], root.replace(f", n{count - 1}", "", 1), functions=functions)
    with soon(count / 500):
        diff(module, other)
        normalize(module)


def test_results_before_others_are_added() -> None:
    """Thousands of arguments handed on, all laid out anew, and one more result before them: told as that, and soon."""
    count = 4000
    names = [f"p{i}" for i in range(count)]

    def handing_on(layout: str, *more: str) -> Module:
        shape = f"f32[8,4]{{{layout}}}"
        taken = [*more, *names]
        return entry(
            *(f"{name} = {shape} parameter({number})" for number, name in enumerate(names)),
            *(f"{name} = {shape} negate(p0)" for name in more),
            f"ROOT t = ({', '.join([shape] * len(taken))}) tuple({', '.join(taken)})",
        )

    with soon(10):
        found = diff(handing_on("1,0"), handing_on("0,1", "n"))
    assert told(found) == {("+", "n"), *(("~", name) for name in names)}
    assert {change.kind for each in found.changed for change in each.changes} == {"layout"}


def test_passes_change_what_xla_says_they_do(capsys: pytest.CaptureFixture[str]) -> None:
    """Inlining only unfolds calls, and what is wrapped in fusions stays the same."""
    assert main(["diff", str(PASSES), "--passes"], standalone=False) == 0
    rows = {row.split("\t")[1]: row.split("\t") for row in capsys.readouterr().out.splitlines()[1:]}
    assert rows["call-inliner"][4:7] == ["2", "0", "1"]
    assert rows["fusion-wrapper"][6] == "0"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["cpu/softmax", "cpu/softmax", "--exit-code"], 0),
        (["cpu/softmax", "cpu/dynamic", "--exit-code"], 1),
        (["cpu/softmax", "cpu/dynamic"], 0),
        (["cpu/softmax"], 2),
        (["cpu/softmax", "cpu/softmax", "--ignore", "layuot"], 2),
        (["cpu/softmax", "cpu/softmax", "--stat", "--text"], 2),
        (["-", "-"], 2),
    ],
)
def test_exit_codes(arguments: list[str], code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FIXTURES)
    assert main(["diff", *arguments], standalone=False) == code


@pytest.mark.parametrize("jobs", [[], ["--jobs", "2"]])
def test_directories_are_compared_folder_by_folder(
    jobs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for side in (old, new):
        for name in ("v2_mlp", "v3_indexing", "v4_sorting"):
            shutil.copytree(FIXTURES / "tpu" / name, side / "run" / name)
        for name, text in (("notes.txt", "of this run"), ("empty.txt", "")):
            (side / name).write_text(text)
    (new / "only here.txt").write_text("nothing of HLO")
    dump = new / "run" / "v2_mlp" / "after_optimizations.txt"
    text = dump.read_text()
    dump.write_text(text.replace("exponential(", "negate(", 1))
    shutil.rmtree(new / "run" / "v4_sorting")
    (new / "run" / "v3_indexing" / "after_optimizations.txt").write_text("HloModule x {")
    assert main(["diff", str(old), str(new), *jobs, "--format", "json"], standalone=False) == 2
    report = json.loads(capsys.readouterr().out)
    assert report["answer"] == {"modules": 2, "differing": 1, "same_program": 0, "in_one_input": 1, "problems": 1}
    rows = report["tables"]["modules"]["rows"]
    found = [(row["change"], row["module"], row["changed"]) for row in rows]
    assert found == [("~", "run/v2_mlp/", 1), ("-", "run/v4_sorting/", None)]
    assert "run/v3_indexing/" in report["errors"][0]["message"]


ARGUMENTS = {
    "a": ("f32[8]{0}", "p['a']"),
    "bias": ("f32[16]{0}", "p['bias']"),
    "w": ("f32[8,16]{1,0}", "p['w']"),
}


def taking(*names: str, paths: bool = True) -> Module:
    """A program with these arguments in this order, the bias added if there is one."""
    lines = [
        f"{name} = {shape} parameter({number})" + (f', metadata={{op_name="{path}"}}' if paths else "")
        for number, (name, (shape, path)) in enumerate((name, ARGUMENTS[name]) for name in names)
    ]
    lines.append("d = f32[16]{0} dot(a, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}")
    if "bias" in names:
        lines.append("s = f32[16]{0} add(d, bias)")
    return entry(*lines, f"ROOT t = (f32[16]{{0}}) tuple({'s' if 'bias' in names else 'd'})")


@pytest.mark.parametrize("paths", [True, False])
@pytest.mark.parametrize("names", [("bias", "a", "w"), ("a", "bias", "w"), ("a", "w", "bias")])
def test_an_argument_more_changes_no_other(names: tuple[str, ...], paths: bool) -> None:
    old, new = taking("a", "w", paths=paths), taking(*names, paths=paths)
    assert told(diff(old, new)) == {("+", "bias"), ("+", "s")}
    assert told(diff(new, old)) == {("-", "bias"), ("-", "s")}


@pytest.mark.parametrize("paths", [True, False])
def test_arguments_in_another_order_are_told(paths: bool) -> None:
    comparison = diff(taking("a", "bias", "w", paths=paths), taking("w", "a", "bias", paths=paths))
    assert [(each.before.name, *map(str, each.changes)) for each in comparison.changed] == [
        ("w", "argument number 2 → 0")
    ]
    assert not comparison.added
    assert not comparison.removed


def test_kinds_that_ignore_takes_are_those_of_changes() -> None:
    assert set(IGNORABLE_KINDS) == {*KINDS, "schedule"}
