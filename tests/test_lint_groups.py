"""One cause is one group: what is built into generated modules, and into one program of different depths."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from hlo_cli import parse_module
from hlo_cli.analysis.hardware.time_model import TPU_VMEM_RATE
from hlo_cli.analysis.memory.memory_analysis import memory_analysis
from hlo_cli.analysis.origin.scopes_and_moves import Origin
from hlo_cli.cli import main
from hlo_cli.dataclass import dataclass
from hlo_cli.lint.finding_facts import Common, NamedValue, Reach, cause_of
from hlo_cli.lint.run import lint_module
from hlo_cli.lint.settings import LintSettings
from hlo_cli.report import findings
from hlo_cli.report.findings import COUNT, Cause, Finding, Findings, Group, groups_of

ORDERS = ("{2,1,0}", "{2,0,1}", "{1,2,0}", "{1,0,2}", "{0,1,2}", "{0,2,1}")
SELECTED = LintSettings(("HLO101", "HLO102", "HLO204", "HLO206"), min_argument_bytes=1)
SEEDS = range(12)


@dataclass(frozen=True, slots=True)
class Defect:
    """A copy to another order, or an array of padding, of one shape at one place of each layer."""

    shape: tuple[int, ...]
    before: str
    after: str
    line: int

    def text(self, layer: int, *, metadata: bool) -> str:
        name = f"d{self.line}_{layer}"
        sizes = ",".join(map(str, self.shape))
        told = f', metadata={{op_name="jit(f)/layers_{layer}/op{self.line}/neg" source_file="m.py" source_line={self.line}}}'
        about = told if metadata else ""
        return (
            f"  n.{name} = f32[{sizes}]{self.before} negate(w.{name}){about}\n"
            f"  c.{name} = f32[{sizes}]{self.after} copy(n.{name}){about}\n"
        )

    def parameter(self, layer: int, number: int, *, metadata: bool) -> str:
        name = f"d{self.line}_{layer}"
        sizes = ",".join(map(str, self.shape))
        about = f", metadata={{op_name=\"params['layers'][{layer}]['w{self.line}']\"}}" if metadata else ""
        return f"  w.{name} = f32[{sizes}]{self.before} parameter({number}){about}\n"


def some_defects(random: Random) -> list[Defect]:
    """Defects that differ in their shape or in the change of their order."""
    kinds: dict[tuple[object, ...], Defect] = {}
    for line in range(random.randint(1, 6)):
        before, after = random.sample(ORDERS, 2)
        shape = (random.choice((8, 16)), random.choice((64, 128)), random.choice((128, 256)))
        kinds.setdefault((shape, before, after), Defect(shape, before, after, line + 10))
    return list(kinds.values())


def module_of(defects: list[Defect], layers: int, random: Random, *, metadata: bool = True) -> str:
    parts = [(defect, layer) for defect in defects for layer in range(layers)]
    random.shuffle(parts)
    given = [defect.parameter(layer, n, metadata=metadata) for n, (defect, layer) in enumerate(parts)]
    body = [defect.text(layer, metadata=metadata) for defect, layer in parts]
    names = [f"c.d{defect.line}_{layer}" for defect, layer in parts]
    shapes = [f"f32[{','.join(map(str, defect.shape))}]{defect.after}" for defect, _ in parts]
    root = f"  ROOT t = ({', '.join(shapes)}) tuple({', '.join(names)})\n"
    return f"HloModule m, is_scheduled=true\nENTRY e {{\n{''.join(given)}{''.join(body)}{root}}}\n"


def groups_in(text: str, settings: LintSettings = SELECTED) -> tuple[Group, ...]:
    return groups_of(lint_module(parse_module(text), settings))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("metadata", [True, False])
def test_layers_times_defects_are_as_many_groups_as_defects(seed: int, metadata: bool) -> None:
    random = Random(seed)
    defects, layers = some_defects(random), random.randint(1, 12)
    groups = groups_in(module_of(defects, layers, random, metadata=metadata))
    assert len(groups) == len(defects)
    assert all(len(group.members) == layers for group in groups)
    for group in groups:
        kinds = {each.instruction.split("_")[0] for each in group.members if each.instruction}
        assert len(kinds) == 1, "two defects in one group"
        sizes = [each.cost_bytes or 0 for each in group.members]
        assert group.cost_bytes == sum(sizes)
        if layers > 1:
            assert group.message.endswith((f" ({layers} of these)", ", twice", f", {layers} times"))
            assert not metadata or "layers_*/" in group.message


@pytest.mark.parametrize("seed", SEEDS)
def test_equal_defects_at_different_lines_stay_apart(seed: int) -> None:
    random = Random(seed)
    first = some_defects(random)[0]
    lines = [Defect(first.shape, first.before, first.after, line) for line in range(random.randint(2, 5))]
    assert len(groups_in(module_of(lines, random.randint(2, 6), random))) == len(lines)


@pytest.mark.parametrize("seed", SEEDS)
def test_groups_are_in_order_of_their_cost(seed: int) -> None:
    random = Random(seed)
    groups = groups_in(module_of(some_defects(random), random.randint(1, 5), random))
    costs = [group.cost_bytes or 0 for group in groups]
    assert costs == sorted(costs, reverse=True)


def test_a_buffer_in_two_rules_is_one_group() -> None:
    text = """ENTRY e { x = f32[65536,2]{1,0} parameter(0)  n = f32[65536,2]{1,0} negate(x)
      ROOT c = f32[65536,2]{0,1} copy(n) }"""
    other = text.replace("ROOT c", "c").replace(
        " }", "  y = f32[65536,2]{1,0:T(8,128)} parameter(1)  ROOT z = f32[65536,2]{1,0:T(8,128)} negate(y) }"
    )
    [group] = groups_in(text.replace("{1,0} negate", "{1,0:T(8,128)} negate"))
    assert {group.code, *group.other_codes} == {"HLO101", "HLO102"}
    rules = [(each.code, each.other_codes) for each in groups_in(other)]
    assert len(rules) == 3, "arrays that have nothing to do with each other"


def test_a_group_costs_what_its_own_rule_counts() -> None:
    """A synchronous all-reduce is exposed as a whole, but only half of it is wasted if the result is sliced."""
    text = """HloModule m, is_scheduled=true, num_partitions=4
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY e { x = f32[8192,64]{1,0:T(8,128)} parameter(0)  i = s32[] parameter(1)  z = s32[] constant(0)
  n = f32[8192,64]{1,0:T(8,128)} negate(x)
  s = f32[8192,64]{1,0:T(8,128)} all-reduce(x), channel_id=1, use_global_device_ids=true, replica_groups={{0,1,2,3}}, to_apply=add
  y = f32[2048,64]{1,0:T(8,128)} dynamic-slice(s, i, z), dynamic_slice_sizes={2048,64}
  ROOT t = (f32[8192,64]{1,0:T(8,128)}, f32[2048,64]{1,0:T(8,128)}) tuple(n, y) }"""
    found = lint_module(parse_module(text), LintSettings(("HLO403", "HLO502")), chip="v5e")
    [group] = groups_of(found)
    half, whole = (next(each for each in found if each.code == code) for code in ("HLO502", "HLO403"))
    assert (half.cost_bytes, whole.cost_bytes) == (2 * 1024**2, 4 * 1024**2)
    assert (group.code, group.cost_bytes, group.seconds) == ("HLO502", half.cost_bytes, half.seconds)
    assert group.other_codes == ("HLO403",)
    assert group.larger_cost_of("HLO403").startswith("4 MiB, ")
    listed = Findings("findings", tuple(found), ())
    assert "1 × HLO502 (2 MiB)" in listed.summary
    assert "1 × HLO403 (4 MiB)" in listed.summary


def test_temporaries_that_are_not_live_together_are_not_added_up() -> None:
    shape, place = "f32[1024,1024]{1,0}", 'metadata={op_name="jit(f)/tanh" source_file="m.py" source_line=4}'
    text = f"""HloModule m, is_scheduled=true
ENTRY e {{ x = f32[1024]{{0}} parameter(0)
  a = {shape} broadcast(x), dimensions={{0}}, {place}
  r = f32[1024]{{0}} custom-call(a), custom_call_target="sum"
  b = {shape} broadcast(r), dimensions={{0}}, {place}
  s = f32[1024]{{0}} custom-call(b), custom_call_target="sum"
  c = {shape} broadcast(s), dimensions={{0}}, {place}
  ROOT t = f32[1024]{{0}} custom-call(c), custom_call_target="sum" }}"""
    module = parse_module(text)
    [group] = groups_of(lint_module(module, LintSettings(("HLO202",), min_value_bytes=4 << 20)))
    assert (len(group.members), group.cost_bytes) == (3, 4 << 20)
    assert group.message == "3 temporaries of the tanh at m.py:4 need 4 MiB each"
    assert group.remark == "4 MiB at the peak"
    peak = memory_analysis(module).peak_bytes
    assert (group.cost_bytes or 0) <= peak
    single = [each.message for each in group.members]
    assert sum("not live at the peak" in each for each in single) == 2


def test_much_memory_ranks_before_a_small_copy() -> None:
    held = Finding("warning", "held", cost_bytes=46 << 30, is_held=True)
    copied = Finding("note", "copied", cost_bytes=17 << 20, seconds=22e-6)
    slow = Finding("note", "slow", cost_bytes=17 << 20, seconds=1.0)
    assert [each.message for each in sorted((copied, held, slow), key=lambda each: each.rank)] == [
        "slow",
        "held",
        "copied",
    ]


def test_bytes_in_vmem_rank_by_its_rate() -> None:
    """A copy of 1 MiB in HBM takes longer than one of 8 MiB in VMEM, which a TPU reads 22 times as fast."""
    assert findings._NOMINAL_VMEM_BANDWIDTH == TPU_VMEM_RATE * findings._NOMINAL_BANDWIDTH
    size = "f32[1024,1024]{1,0:T(8,128)S(1)}"
    text = f"""HloModule m, is_scheduled=true
ENTRY e {{ p = f32[8,1024,1024]{{2,1,0:T(8,128)S(1)}} parameter(0)  c = f32[8,1024,1024]{{1,2,0:T(8,128)S(1)}} copy(p)
  q = {size.replace("S(1)", "")} parameter(1)  d = {size.replace("S(1)", "").replace("{1,0", "{0,1")} copy(q)
  ROOT r = (f32[8,1024,1024]{{1,2,0:T(8,128)S(1)}}, f32[1024,1024]{{0,1:T(8,128)}}) tuple(c, d) }}"""
    found = lint_module(parse_module(text), LintSettings(("HLO102",)))
    assert {each.instruction: each.is_on_chip for each in found} == {"c": True, "d": False}
    assert [each.instruction for each in sorted(found, key=lambda each: each.rank)] == ["d", "c"]


def test_a_repeated_prefetch_is_told_once_for_each_array() -> None:
    copies = "".join(
        f"  s{n} = f32[512,1024]{{1,0:T(8,128)S(1)}} copy(x)\n  u{n} = f32[512,1024]{{1,0:T(8,128)}} negate(s{n})\n"
        for n in range(5)
    )
    text = f"HloModule m, is_scheduled=true\nENTRY e {{\n  x = f32[512,1024]{{1,0:T(8,128)}} parameter(0)\n{copies}}}\n"
    [found] = lint_module(parse_module(text), LintSettings(("HLO208",)))
    assert (found.cost_bytes, found.hint) == (4 * 512 * 1024 * 4, None)
    told = text.replace("negate(s0)", 'negate(s0), metadata={op_name="a/neg"}').replace(
        "negate(s1)", 'negate(s1), metadata={op_name="b/neg"}'
    )
    [found] = lint_module(parse_module(told), LintSettings(("HLO208",)))
    assert found.hint is None, "no kernel runs between them"
    between = told.replace("  s1 =", "  t = f32[512,1024]{1,0:T(8,128)} tanh(u0)\n  s1 =")
    [found] = lint_module(parse_module(between), LintSettings(("HLO208",)))
    assert found.hint == "move a/neg and b/neg, which read it, closer together"


FAST = "f32[512,1024]{1,0:T(8,128)S(1)}"
SLOW = "f32[512,1024]{1,0:T(8,128)}"
KERNEL = f"t = {SLOW} tanh(u0)"
CLOSER = "move a/neg and b/neg, which read it, closer together"


@pytest.mark.parametrize(
    ("first", "second", "between", "hint"),
    [
        ("a/neg", "b/neg", KERNEL, CLOSER),
        ("a/neg", "b/neg", "", None),  # no kernel between them
        ("a/neg", "b/neg", f"t = {SLOW} bitcast(u0)", None),
        ("", "b/neg", KERNEL, None),  # who reads it is not known
        ("a/neg", "a/neg", KERNEL, None),
        ("jvp(f)/a/neg", "transpose(jvp(f))/b/neg", KERNEL, None),  # a gradient comes after all that it is of
    ],
)
def test_readers_of_one_array_are_advised_to_come_closer_if_they_can(
    first: str, second: str, between: str, hint: str | None
) -> None:
    lines = f"x = {SLOW} parameter(0)  s0 = {FAST} copy(x)  u0 = {SLOW} negate(s0)"
    lines += f', metadata={{op_name="{first}"}}' if first else ""
    lines += f'  {between}  s1 = {FAST} copy(x)  u1 = {SLOW} negate(s1), metadata={{op_name="{second}"}}'
    text = f"HloModule m, is_scheduled=true  ENTRY e {{ {lines} }}"
    assert [each.hint for each in lint_module(parse_module(text), LintSettings(("HLO208",)))] == [hint]


def test_what_is_copied_out_of_fast_memory_twice_is_no_prefetch() -> None:
    lines = f"x = {FAST} parameter(0)  a = {SLOW} copy(x)  t = {SLOW} tanh(a)  b = {SLOW} copy(x)  u = {SLOW} add(t, b)"
    text = f"HloModule m, is_scheduled=true  ENTRY e {{ {lines} }}"
    assert not lint_module(parse_module(text), LintSettings(("HLO208",)))


def test_costs_of_rules_on_one_array_count_once() -> None:
    def one(code: str, cost: int, pattern: str, value: str) -> Finding:
        return Finding("warning", pattern, code=code, cost_bytes=cost, cause=Cause(pattern, value, pattern))

    found = [one("HLO102", 8, "copied", "a"), one("HLO101", 6, "padded", "a"), one("HLO101", 6, "padded", "b")]
    first, second = groups_of(found)
    assert (first.code, first.cost_bytes, first.other_codes) == ("HLO102", 8, ("HLO101",))
    assert (second.code, second.cost_bytes, second.other_codes) == ("HLO101", 6, ())


def test_findings_of_different_inputs_stay_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = module_of(some_defects(Random(3))[:1], 4, Random(3))
    for name in ("a.hlo", "b.hlo"):
        (tmp_path / name).write_text(text)
    outputs = []
    for jobs in ("1", "2"):
        main(
            [
                "lint",
                "--isolated",
                str(tmp_path / "a.hlo"),
                str(tmp_path / "b.hlo"),
                "--jobs",
                jobs,
                "--json",
                "--select",
                "HLO102",
            ],
            standalone=False,
        )
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    tables = json.loads(outputs[0])["tables"]
    assert [(row["count"], len(row["instructions"])) for row in tables["groups"]["rows"]] == [(4, 4), (4, 4)]
    assert sorted({row["group"] for row in tables["findings"]["rows"]}) == [1, 2]


def test_a_pipe_gets_a_line_a_group_and_with_verbose_a_line_a_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(module_of(some_defects(Random(5)), 7, Random(5)))
    number = len(groups_in(path.read_text()))
    for more, lines in ((), number), (("--verbose",), 7 * number), (("--top", "1"), 1):
        main(["lint", "--isolated", str(path), "--format", "concise", "--select", "HLO102", *more], standalone=False)
        assert len(capsys.readouterr().out.splitlines()) == lines


@pytest.mark.parametrize(("by", "keys"), [("source", 3), ("scope", 3), ("argument", 1), ("rule", 1)])
def test_totals_by_key(by: str, keys: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three lines in each of 4 layers: the numbers of layers are not part of a key, and no cost is lost."""
    path, random = tmp_path / "m.hlo", Random(7)
    first = some_defects(random)[0]
    path.write_text(module_of([Defect(first.shape, first.before, first.after, n) for n in (5, 6, 7)], 4, random))
    given = ["lint", "--isolated", str(path), "--select", "HLO102", "--by", by, "--json"]
    assert main(given, standalone=False) == 1
    out = json.loads(capsys.readouterr().out)
    rows = next(iter(out["tables"].values()))["rows"]
    assert (len(rows), sum(row["count"] for row in rows)) == (keys, 12)
    assert sum(row["cost_bytes"] for row in rows) == out["answer"]["cost_bytes"]
    if by == "scope":
        assert {(row["scope"], row["layers"]) for row in rows} == {(f"layers_*/op{n}", 4) for n in (5, 6, 7)}


def test_padding_of_equal_shapes_is_one_cause_wherever_it_is() -> None:
    """No argument has it, so only other sizes help: those of all arrays of the shape."""
    metadata = 'metadata={{op_name="jit(f)/{0}/neg" source_file="m.py" source_line={1}}}'
    tiles = "{1,0:T(8,128)}"
    text = f"""HloModule m, is_scheduled=true
    ENTRY e {{
      p = f32[128,4096]{tiles} parameter(0)
      a = f32[4096,4]{tiles} iota(), iota_dimension=0, {metadata.format("one", 3)}
      b = f32[4096,4]{tiles} negate(a), {metadata.format("two", 8)}
      c = f32[4096,8]{tiles} iota(), iota_dimension=0, {metadata.format("two", 9)}
      d = f32[4096,8]{tiles} negate(c), {metadata.format("two", 9)}
      ROOT r = f32[128,4096]{tiles} negate(p) }}"""
    found = groups_in(text, LintSettings(("HLO101",), min_padding_bytes=1))
    assert [(len(group.members), "4096,4]" in group.message) for group in found] == [(2, True), (2, False)]


def with_functions(lines: dict[int, str], body: str) -> str:
    """A module whose stack frame of each line is in a function; `{n}` in the body is the metadata of line n."""
    names = tuple(dict.fromkeys(lines.values()))
    functions = "".join(f'{number} "{name}"\n' for number, name in enumerate(names, 1))
    places = "".join(
        f"{number} {{file_name_id=1 function_name_id={names.index(name) + 1} line={line} end_line={line} column=1 end_column=2}}\n"
        for number, (line, name) in enumerate(lines.items(), 1)
    )
    frames = "".join(f"{number} {{file_location_id={number}}}\n" for number in range(1, len(lines) + 1))
    for number, line in enumerate(lines, 1):
        body = body.replace(f"<{line}>", f'metadata={{op_name="jit(f)/neg" stack_frame_id={number}}}')
    tables = f'FileNames\n1 "m.py"\n\nFunctionNames\n{functions}\nFileLocations\n{places}\nStackFrames\n{frames}'
    return f"HloModule m, is_scheduled=true\n\n{tables}\nENTRY e {{\n{body}}}\n"


def copied(name: str, line: int, before: str, after: str, sizes: str = "16,64,128") -> str:
    return (
        f"  {name} = f32[{sizes}]{before} iota(), iota_dimension=0, <{line}>\n"
        f"  c.{name} = f32[{sizes}]{after} copy({name}), <{line}>\n"
        f"  t.{name} = f32[{sizes}]{after} negate(c.{name}), <{line}>\n"
    )


def test_conversions_of_arrays_of_one_rank_are_one_cause_in_a_function() -> None:
    body = (
        copied("a", 3, ORDERS[0], ORDERS[1])
        + copied("b", 4, ORDERS[1], ORDERS[0], "8,32,256")
        + copied("c", 4, "{1,0}", "{0,1}", "256,512")
        + copied("d", 9, ORDERS[0], ORDERS[1])
    )
    found = groups_in(
        with_functions({3: "attend", 4: "attend.<locals>.<lambda>", 9: "attend.<locals>.norm"}, body),
        LintSettings(("HLO102",)),
    )
    assert sorted(tuple(sorted(each.instruction or "" for each in group.members)) for group in found) == [
        ("c.a", "c.b"),
        ("c.c",),
        ("c.d",),
    ]
    [both] = [group for group in found if len(group.members) == 2]
    assert both.message == (
        "2 copies of arrays in attend (3 dimensions) change the dimension order "
        "between {2,0,1} and {2,1,0}, at m.py:3 and 1 other line"
    )
    assert all("norm" not in group.message for group in found), "single findings keep their own message"


def test_causes_without_a_narrower_one_are_those_of_a_function() -> None:
    """Kernels that are not fused are of any shapes."""
    body = "  x = f32[65536]{0} parameter(0)\n" + "".join(
        f"  a{line} = f32[65536]{{0}} exponential(x), <{line}>\n  b{line} = f32[65536]{{0}} negate(a{line}), <{line}>\n"
        for line in (3, 4)
    )
    found = groups_in(with_functions({3: "f", 4: "f"}, body), LintSettings(("HLO301",)))
    expected = "2 elementwise kernels on arrays in f are not fused with their users, at m.py:3 and 1 other line"
    assert [group.message for group in found] == [expected]


def test_synchronous_collectives_of_a_kind_are_one_cause() -> None:
    """An option turns them all into asynchronous ones; the kinds have options of their own."""
    body = "  x = f32[65536]{0:T(1024)} parameter(0)\n" + "".join(
        f"  r{line} = f32[{shape}]{{0:T(1024)}} {kind}(x), <{line}>, replica_groups={{{{0,1}}}}, {more}\n"
        f"  u{line} = f32[65536]{{0:T(1024)}} negate(x), <{line}>\n"
        for line, kind, shape, more in (
            (3, "all-reduce", 65536, "to_apply=add"),
            (5, "all-reduce", 65536, "to_apply=add"),
            (7, "all-gather", 131072, "dimensions={0}"),
        )
    )
    text = with_functions(dict.fromkeys((3, 5, 7), "f"), body).replace(
        "ENTRY e", "add {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  ROOT s = f32[] add(p, q)\n}\n\nENTRY e"
    )
    found = groups_in(
        text.replace("is_scheduled=true", "is_scheduled=true, num_partitions=2"), LintSettings(("HLO403",))
    )
    assert [(len(group.members), group.message) for group in found] == [
        (2, "2 all-reduces run synchronously, at m.py:3 and 1 other line"),
        (1, found[1].worst.message),
    ]


def test_padding_of_one_size_is_one_cause_in_all_shapes() -> None:
    """Each of them needs less memory if this size grows, and none if another does."""
    lines = {3: "one", 8: "two", 9: "two"}
    shapes = (
        (3, "f32[64,64,32]{2,1,0:T(8,128)}"),
        (8, "bf16[4096,32]{1,0:T(8,128)(2,1)}"),
        (9, "f32[32,64,64]{0,2,1:T(8,128)}"),
    )
    body = "".join(f"  v{line} = {shape} iota(), iota_dimension=0, <{line}>\n" for line, shape in shapes)
    found = groups_in(with_functions(lines, body), LintSettings(("HLO101",), min_padding_bytes=1))
    assert [(len(group.members), group.message) for group in found] == [
        (2, "2 arrays are padded from 32 to 128 in the last dimension, at m.py:3 and 1 other line"),
        (1, found[1].worst.message),
    ]


@pytest.mark.parametrize(
    ("name", "part", "whole"),
    [
        ("params['layers'][3]['w']", "params['layers'][*][…]", "params[…]"),
        ("params['layers'][3]['w']['k']", "params['layers'][*][…]", "params[…]"),
        ("params['mlp']['w']", "params['mlp'][…]", "params[…]"),
        ("params['w']", "", "params[…]"),
        ("params[0]", "", "params[…]"),
        ("w", "", ""),
    ],
)
def test_an_argument_belongs_to_a_part_of_the_tree_and_to_all_of_it(name: str, part: str, whole: str) -> None:
    text = f'ENTRY e {{ p = f32[4] parameter(0), metadata={{op_name="{name}"}}  ROOT n = f32[4] negate(p) }}'
    module = parse_module(text)
    value = module.entry.parameters[0]
    about = NamedValue(value, name, Origin(name, argument=value))

    def pattern(reach: Reach) -> str:
        common = Common(f"{COUNT} of {name}", reach)
        return cause_of(f"{name} is wasted", value, (about, None), None, common, {}).pattern

    inside = pattern("function")
    assert inside.startswith(f"{COUNT} of {part}") if part else COUNT not in inside
    assert pattern("argument").splitlines()[0] == f"{COUNT} of {whole or name}"
