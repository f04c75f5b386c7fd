"""What findings cost: the bytes of what was built, as often as it runs, and the time that a chip needs for them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hlo_cli import parse_module, parse_shape
from hlo_cli.analysis.hardware.chip_specs import chip_spec
from hlo_cli.analysis.origin.scopes_and_moves import Origin
from hlo_cli.cli import main
from hlo_cli.ir.attributes.metadata import SourceLocation
from hlo_cli.lint.finding_facts import Waste, is_of_library, seconds_of, value_of, waste_of_copy
from hlo_cli.lint.finding_facts import name_of as value_name
from hlo_cli.lint.run import lint_module
from hlo_cli.lint.settings import LintSettings
from hlo_cli.report.findings import Cause, Finding, Findings
from lint_cost_cases import COST_CASES

LOOP = """HloModule m, is_scheduled=true
body {{
  p = (s32[], f32[{rows},128]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[{rows},128]{{1,0}} get-tuple-element(p), index=1
  c = f32[{rows},128]{{0,1}} copy(x), metadata={{op_name="jit(f)/while/body/layer/turn" source_file="m.py" source_line=7}}
  y = f32[{rows},128]{{1,0}} copy(c)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[{rows},128]) tuple(j, y)
}}
test {{
  q = (s32[], f32[{rows},128]) parameter(0)
  k = s32[] get-tuple-element(q), index=0
  end = s32[] {end}
  ROOT less = pred[] compare(k, end), direction=LT
}}
ENTRY e {{
  zero = s32[] constant(0)
  a = f32[{rows},128]{{1,0}} parameter(0), metadata={{op_name="params['w']"}}
  t = (s32[], f32[{rows},128]) tuple(zero, a)
  l = (s32[], f32[{rows},128]) while(t), condition=test, body=body
  ROOT o = f32[{rows},128]{{1,0}} get-tuple-element(l), index=1
}}
"""


def copies(text: str, **given: object) -> list[Finding]:
    found = lint_module(parse_module(text), LintSettings(("HLO102",)), **given)  # type: ignore[arg-type]
    return sorted(found, key=lambda each: each.rank)


@pytest.mark.parametrize(("rows", "trips"), [(512, 7), (4096, 3), (1024, 1)])
def test_bytes_count_as_often_as_the_loop_runs(rows: int, trips: int) -> None:
    first, *_ = copies(LOOP.format(rows=rows, end=f"constant({trips})"))
    assert (first.cost_bytes, first.executions) == (rows * 512 * trips, trips)


def test_memory_is_occupied_once_however_often_the_loop_runs() -> None:
    """A constant in a loop is in memory once; a copy in it moves its bytes in each iteration."""
    body = "  k2 = f32[512,128]{1,0} constant({...})\n  ROOT r"
    text = LOOP.format(rows=512, end="constant(7)").replace("  ROOT r", body, 1)
    settings = LintSettings(("HLO102", "HLO205"), min_constant_bytes=1024)
    found = {each.code: each for each in lint_module(parse_module(text), settings)}
    assert (found["HLO205"].cost_bytes, found["HLO205"].executions) == (512 * 512, 1)
    assert (found["HLO102"].cost_bytes, found["HLO102"].executions) == (512 * 512 * 7, 7)


def test_what_never_runs_costs_nothing() -> None:
    text = LOOP.format(rows=512, end="constant(7)").replace("condition=test, body=body", "condition=test, body=other")
    other = text[text.index("body {") : text.index("test {")].replace("body {", "other {")
    [found] = [each for each in copies(text.replace("test {", f"{other}test {{", 1)) if each.computation == "body"][:1]
    assert (found.cost_bytes, found.executions) == (0, 0)


def test_an_unknown_trip_count_counts_once_and_is_told() -> None:
    first, *_ = copies(LOOP.format(rows=512, end="get-tuple-element(q), index=0"))
    assert (first.cost_bytes, first.executions) == (512 * 512, None)


def test_a_copy_in_main_memory_is_read_and_written() -> None:
    chip = chip_spec("v5e")
    first, *_ = copies(LOOP.format(rows=512, end="constant(7)"), chip=chip)
    assert first.seconds == pytest.approx(2 * 512 * 512 * 7 / chip.memory.per_second)


def test_a_copy_out_of_fast_memory_takes_half_as_long() -> None:
    chip = chip_spec("v5e")
    text = "ENTRY e { p = f32[512,128]{1,0:S(1)} parameter(0)  ROOT c = f32[512,128]{0,1} copy(p) }"
    [found] = copies(text, chip=chip)
    assert found.seconds == pytest.approx(512 * 512 / chip.memory.per_second)


def test_a_copy_into_fast_memory_wastes_only_what_the_other_layout_pads() -> None:
    """Witness: libtpu fetches an argument that has the layout already, by a copy-start of as many bytes."""
    text = "ENTRY e {{ p = {}{{1,0:T(8,128)}} parameter(0)  ROOT c = {}{{0,1:T(8,128)S(1)}} copy(p) }}"
    assert not copies(text.format("f32[512,128]", "f32[512,128]"))
    [found] = copies(text.format("f32[4096,8]", "f32[4096,8]"))
    assert found.cost_bytes == 4096 * (128 - 8) * 4


def test_a_collective_takes_the_time_of_its_ring() -> None:
    """Its group is one axis of the torus, which has half of the links of a v5e."""
    chip = chip_spec("v5e")
    text = """HloModule m, is_scheduled=true, replica_count=4
    ENTRY e { x = f32[65536] parameter(0)  y = f32[65536] parameter(1)
      g = f32[262144]{0} all-gather(x), dimensions={0}, replica_groups={{0,1,2,3}}, backend_config={"flag_configs":[]}
      n = f32[65536] negate(y)  ROOT t = (f32[262144], f32[65536]) tuple(g, n) }"""
    settings = LintSettings(("HLO403",), min_transfer_bytes=1)
    found = lint_module(parse_module(text.replace("65536]", "65536]{0:T(1024)}")), settings, chip=chip)
    [only] = found
    assert only.cost_bytes == 1 << 20
    assert only.seconds == pytest.approx((1 << 20) * 3 / 4 / (chip.links.per_second / 2) if chip.links else 0)


def test_the_message_leads_with_what_a_user_can_change() -> None:
    turned = """ENTRY e { x = f32[512,128]{1,0} parameter(0)  n = f32[512,128]{1,0} negate(x)
      ROOT c = f32[512,128]{0,1} copy(n), metadata={op_name="jit(f)/layer/turn" source_file="m.py" source_line=7} }"""
    [first] = copies(turned)
    assert first.message.startswith("layer/turn at m.py:7 (f32[512,128], 256 KiB) is copied")
    assert (first.scope, first.location, first.is_inferred) == ("layer", "m.py:7", False)
    [inferred] = copies(
        turned.replace("copy(n), metadata", "copy(n)")
        .partition("copy(n)")[0]
        .replace("negate(x)", 'negate(x), metadata={op_name="jit(f)/layer/neg" source_file="m.py" source_line=9}')
        + "copy(n) }"
    )
    assert (inferred.location, inferred.is_inferred) == ("m.py:9", True)
    text = """ENTRY e { w = f32[512,128] parameter(0), metadata={op_name="params['w']"}
      x = f32[2] parameter(1)  ROOT n = f32[2] negate(x) }"""
    [unused] = lint_module(parse_module(text), LintSettings(("HLO206",), min_argument_bytes=1))
    assert unused.message.startswith("the argument params['w']")


def test_errors_come_first_and_notes_without_a_cost_last() -> None:
    made = [Finding("note", "n"), Finding("note", "c", cost_bytes=9), Finding("warning", "w", cost_bytes=5),
            Finding("warning", "result"), Finding("error", "e"), Finding("warning", "s", cost_bytes=1, seconds=1.0)]  # fmt: skip
    assert [each.message for each in sorted(made, key=lambda each: each.rank)] == ["e", "result", "s", "c", "w", "n"]


def test_json_has_costs_and_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(LOOP.format(rows=512, end="constant(7)"))
    main(["lint", str(path), "--isolated", "--select", "HLO102", "--chip", "v5e", "--json"], standalone=False)
    row, *_ = json.loads(capsys.readouterr().out)["tables"]["findings"]["rows"]
    assert (row["cost_bytes"], row["executions"]) == (512 * 512 * 7, 7)
    assert row["seconds"] > 0


def test_a_combined_collective_is_named_by_its_largest_array() -> None:
    text = """HloModule m, is_scheduled=true, replica_count=4
    add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
    ENTRY e { x = f32[8]{0:T(1024)} parameter(0)  y = f32[65536]{0:T(1024)} parameter(1), metadata={op_name="params['w']"}
      g = (f32[8]{0:T(1024)}, f32[65536]{0:T(1024)}) all-reduce(x, y), replica_groups={{0,1,2,3}}, to_apply=add,
        metadata={op_name="jit(f)/bias"}
      n = f32[65536]{0:T(1024)} negate(y)
      ROOT t = ((f32[8]{0:T(1024)}, f32[65536]{0:T(1024)}), f32[65536]{0:T(1024)}) tuple(g, n) }"""
    [only] = lint_module(parse_module(text), LintSettings(("HLO403",), min_transfer_bytes=1))
    assert only.message.startswith("all-reduce of 2 arrays, the largest params['w'], runs synchronously")


def test_a_value_of_a_loop_is_not_named_while() -> None:
    text = """ENTRY e { x = f32[512,128]{1,0} parameter(0)  n = f32[512,128]{1,0} negate(x)
      ROOT c = f32[512,128]{0,1} copy(n), metadata={op_name="jit(f)/while" source_file="m.py" source_line=7} }"""
    [only] = copies(text)
    assert "while" not in only.message
    assert "at m.py:7" in only.message


def test_what_a_loop_carries_is_no_name_of_one_of_its_results() -> None:
    text = """body { t = (s32[], f32[512,128]{1,0}) parameter(0)  ROOT r = (s32[], f32[512,128]{1,0}) tuple() }
    condition { t = (s32[], f32[512,128]{1,0}) parameter(0)  ROOT c = pred[] constant(false) }
    ENTRY e { x = (s32[], f32[512,128]{1,0}) parameter(0)
      w = (s32[], f32[512,128]{1,0}) while(x), condition=condition, body=body, metadata={op_name="jit(f)/while"}
      g = f32[512,128]{1,0} get-tuple-element(w), index=1, metadata={op_name="jit(f)/while"}
      ROOT c = f32[512,128]{0,1} copy(g), metadata={op_name="jit(f)/while" source_file="m.py" source_line=7} }"""
    [only] = copies(text)
    assert only.message.startswith("the f32[512,128] value at m.py:7")


def test_shares_are_of_time_if_it_is_known_and_of_what_the_program_can_change() -> None:
    fast = Finding("note", "", cost_bytes=30, seconds=1.0, cause=Cause("fast"))
    slow = Finding("note", "", cost_bytes=10, seconds=3.0, cause=Cause("slow"))
    other = Finding("note", "", cost_bytes=90, seconds=9.0, cause=Cause("other"), is_of_library=True)
    findings = Findings("findings", (fast, slow, other), (), ("a", "b"))
    assert [findings.share((group,)) for group in findings.groups] == [0.75, 0.25, None]
    without = Findings("findings", tuple(replace(each, seconds=None) for each in findings.found), (), ("a", "b"))
    assert [without.share((group,)) for group in without.groups] == [0.75, 0.25, None]
    assert [group.worst.cost_bytes for group in without.groups] == [30, 10, 90]
    alone = Findings("findings", (other,), (), ("a",))
    assert alone.share(alone.groups) == 1.0


@pytest.mark.parametrize(
    ("name", "functions", "is_library"),
    [
        ("jit(step)/jit(_normal)/while/body/add", ["main"], True),  # the module's own function need not be on the stack
        ("jit(step)/jit(_normal)/jit(_real)/add", ["step"], True),
        ("jit(step)/jit(_normal)/add", ["step"], False),  # it stands for the function that the user calls
        ("jit(step)/jit(_helper)/while/body/add", ["Model._helper"], False),
        ("jit(step)/jit(relu)/while/body/add", ["step"], True),
        ("jit(step)/jit(relu)/while/body/add", [], False),  # without functions only private names are a library's
        ("jit(step)/jit(_normal)/while/body/add", [], True),
        ("jit(step)/while/body/add", ["main"], False),
    ],
)
def test_loops_in_functions_that_the_program_does_not_define_are_of_a_library(
    name: str, functions: list[str], is_library: bool
) -> None:
    stack = tuple(SourceLocation("train.py", 7, function) for function in functions)
    assert is_of_library(Origin(name, stack)) is is_library


def test_what_only_files_of_libraries_compute_is_of_a_library() -> None:
    inside = SourceLocation("/usr/lib/python3/site-packages/flax/core.py", 3, "f")
    assert is_of_library(Origin("jit(f)/add", (inside,)))
    assert not is_of_library(Origin("jit(f)/add", (inside, SourceLocation("train.py", 7, "f"))))


WIDE, NARROW = 4096 * 128 * 4, 4096 * 8 * 4
"""Bytes of f32[4096,8] in tiles of (8,128) with its short dimension in their long one, and in their short one."""


@pytest.mark.parametrize(
    ("read", "written", "waste"),
    [
        ("", "", Waste(NARROW, "memory", 2 * NARROW)),
        ("S(1)", "", Waste(NARROW, "memory", NARROW)),  # only the written side is in main memory
        ("S(1)", "S(1)", Waste(NARROW, "memory", 0)),
        ("", "S(1)", Waste(WIDE - NARROW, "memory", WIDE - NARROW)),  # it must get there in any layout
        ("S(5)", "S(1)", Waste(WIDE - NARROW, "host", WIDE - NARROW)),
        ("S(5)", "", Waste(NARROW, "host")),
        ("", "S(5)", Waste(NARROW, "host")),
        (None, "", Waste(NARROW, "memory", NARROW)),
        (None, "S(5)", Waste(NARROW, "host")),
    ],
)
def test_a_copy_wastes_what_crosses_the_memory_for_its_layout(read: str | None, written: str, waste: Waste) -> None:
    before = None if read is None else parse_shape(f"f32[4096,8]{{1,0:T(8,128){read}}}")
    assert waste_of_copy(before, parse_shape(f"f32[4096,8]{{0,1:T(8,128){written}}}")) == waste


@pytest.mark.parametrize(
    ("waste", "seconds"),
    [
        (Waste(819_000), 1e-6),  # v5e reads 819 GB/s
        (Waste(819_000, moved_bytes=2 * 819_000), 2e-6),
        (Waste(819_000, moved_bytes=0), None),  # in on-chip memory, whose rate is not published
        (Waste(819_000, None), None),  # it only occupies memory
    ],
)
def test_moving_what_is_wasted_takes_its_time_in_each_execution(waste: Waste, seconds: float | None) -> None:
    module = parse_module("ENTRY e { ROOT p = f32[2] parameter(0) }")
    for executions in (1, 10):
        expected = None if seconds is None else pytest.approx(seconds * executions)
        assert seconds_of(waste, executions, chip_spec("v5e"), module) == expected


@pytest.mark.parametrize(
    ("line", "made"),
    [
        ("v = f32[64] copy(p)", "p"),
        ("v = f32[8,8] bitcast(p)", "p"),
        ("v = (f32[64], f32[64], u32[]) copy-start(p)", "p"),
        ("v = ((f32[64]), f32[32], u32[]) slice-start(p), slice={[0:32]}", "p"),
        ("v = ((f32[64]), f32[32], u32[]) async-start(p), calls=part", "p"),
        ("v = ((f32[64]), f32[64], u32[]) async-start(p), calls=other", "v"),
        ("v = ((f32[64]), f32[64], u32[]) async-start(p)", "v"),
        ("s = (f32[64], f32[64], u32[]) copy-start(p)  c = f32[64] copy-done(s)  v = f32[64] copy(c)", "p"),
        ("v = f32[64] negate(p)", "v"),
        ("v = f32[64] copy()", "v"),
    ],
)
def test_moves_of_an_array_are_about_what_makes_it(line: str, made: str) -> None:
    part = "part { a = f32[64] parameter(0)  ROOT s = f32[32] slice(a), slice={[0:32]} }"
    other = "other { b = f32[64] parameter(0)  ROOT n = f32[64] negate(b) }"
    module = parse_module(f"HloModule m  {part}  {other}  ENTRY e {{ p = f32[64] parameter(0)  {line} }}")
    assert value_of(module.instruction("v")).name == made


KIB, MIB = 1 << 10, 1 << 20
SAID = (
    ("HLO103", 512 * KIB, "a kernel does nothing but transpose x (f32[512,256], 512 KiB)"),
    ("HLO104", 550 * KIB, "69% of x will be padding on v5e (550 KiB of 800 KiB)"),
    ("HLO105", 512 * KIB, "x, (f32[256,512], 512 KiB), is copied back to the layout that another copy changed"),
    ("HLO106", 512 * KIB, "y reads x with layout {1,0} and writes layout {0,1}"),
    ("HLO202", 512 * KIB, "the temporary of y needs 512 KiB"),
    ("HLO203", MIB, "x (1 MiB) could be donated: y writes a result of the same shape after its last use"),
    ("HLO204", 512 * KIB, "x (f32[256,512], 512 KiB) is copied needlessly"),
    ("HLO205", MIB, "the constant y needs 1 MiB"),
    ("HLO206", MIB, "the argument lost (1 MiB) is never read"),
    ("HLO207", 2 * 4 * KIB, "x (4 KiB) is spilled from VMEM and copied back"),  # out and in
    ("HLO208", 4 * KIB, "x (4 KiB) is copied into VMEM more than once"),
    ("HLO209", 10 * 4 * KIB, "a loop reads a from main memory in each of 10 iterations (40 KiB in total)"),
    ("HLO301", 2 * 256 * KIB, "a and b are elementwise but not fused, which costs 512 KiB of memory traffic"),
    ("HLO302", 1024 * KIB, "a kernel does nothing but convert x from f32 to bf16 (512 KiB)"),
    ("HLO303", 512 * KIB, "x is converted to f32 and back to bf16"),
    ("HLO304", MIB, "a is written as f32 (1 MiB), but every reader converts it to bf16"),
    ("HLO305", 2 * 512 * KIB, "b writes a broadcast of 512 KiB that could be fused into y"),
    ("HLO401", MIB, "copy of x overlaps no kernel (1 MiB)"),
    ("HLO402", MIB, "copy of x is directly followed by its done (1 MiB)"),
    ("HLO501", (1024 - 256) * KIB, "all-gather of x gathers 1 MiB, but only 256 KiB of it are used"),
    ("HLO502", 512 * KIB, "all-reduce of s reduces 1 MiB, but only 256 KiB of it are used"),  # its second half
    ("HLO503", 256 * KIB, "all-to-all of x reshards 256 KiB directly after another all-to-all"),
    ("HLO504", (64 - 64 // 4) * MIB, "w (64 MiB) is replicated on 4 devices"),
    ("HLO505", 10 * 16 * KIB, "all-gather of a transfers the same data in every iteration of a loop: 160 KiB in 10 iterations"),
    ("HLO505", 16 * KIB, "all-gather of a transfers the same data in every iteration of a loop: 16 KiB per iteration"),
    ("HLO506", 256 * KIB, "all-reduce of y has no effect: each group has only one of 2 devices"),
    ("HLO507", (1024 - 512) * KIB, "all-gather of x transfers 1 MiB of f32 converted from bf16"),
    ("HLO508", 64, "all-reduce of a and 1 other all-reduce operation (64 B in total) could be combined"),
    ("HLO509", 2 * 256 * KIB, "all-to-all of b reshards 256 KiB again after elementwise operations on the result of another all-to-all"),
    ("HLO510", (128 - 64) * MIB, "2 devices each hold the same 128 MiB of w"),
    ("HLO601", 64, "y calls back into Python"),
    ("HLO602", 10 * 2 * 4 * KIB, "y communicates with the host in each of 10 iterations of a loop"),
    ("HLO701", (8 - 4) * KIB, "x is f64, which TPUs emulate"),
    ("HLO702", (8 - 4) * KIB, "x is f64[1024], although no argument is f64 or c128"),
    ("HLO703", None, "r accumulates 256 elements in bf16"),
    ("HLO704", None, "y accumulates 8 products of s8 in s8"),
    ("HLO705", None, "y rounds its f32 operands to bf16"),
    ("HLO706", None, "y requests highest precision for bf16 operands"),
    ("HLO707", None, "x is rounded to bf16 and back to f32 (1 MiB)"),
)  # fmt: skip
"""What is said of one of the cases of a rule, and the bytes that it costs, from the shapes of the case."""


@pytest.mark.parametrize(("code", "cost", "message"), SAID)
def test_what_a_rule_says_and_what_it_costs(code: str, cost: int | None, message: str) -> None:
    cases = [case for case in COST_CASES if case.code == code]
    modules = [(parse_module(case.bad.replace("«", "").replace("»", "")), case.settings) for case in cases]
    found = [each for module, chosen in modules for each in lint_module(module, replace(chosen, select=(code,)))]
    assert (message, cost) in [(each.message, each.cost_bytes) for each in found]


@pytest.mark.parametrize(
    ("line", "origin", "name"),
    [
        ("v = f32[4] negate(p)", Origin("jit(f)/mlp/neg"), "mlp/neg"),
        ("v = f32[4] negate(p)", Origin("jit(f)/neg", (SourceLocation("m.py", 4),)), "the neg at m.py:4"),
        ("v = f32[4] negate(p)", Origin("jit(f)/neg"), "neg"),
        ("v = f32[4] negate(p)", Origin("jit(f)/mlp/while"), "mlp"),  # a value of a loop is named by what is around it
        ("v = f32[4] negate(p)", Origin("jit(f)/while"), "the f32[4] value"),
        ("v = f32[4] copy(p)", Origin("jit(f)/while"), "the f32[4] value"),
        ("v = f32[4] negate(p)", Origin(), "v"),
        ("n = f32[4] negate(p)  v = f32[4] copy(n)", Origin(), "n"),
        ("v = f32[4] copy(p)", Origin(), "p"),
        ("v = (f32[4]) tuple(p)", Origin(), "the (f32[4]) value"),
        ("v = f32[4] parameter(1)", Origin("w"), "w"),
        ("v = f32[4] parameter(1)", Origin(), "v"),
    ],
)
def test_a_value_is_called_what_a_user_knows(line: str, origin: Origin, name: str) -> None:
    module = parse_module(f"ENTRY e {{ p = f32[4] parameter(0)  {line} }}")
    assert value_name(module.instruction("v"), origin) == name


KIB, MIB = 1 << 10, 1 << 20
COSTS = {
    "HLO104": 550 * KIB,  # the padding
    "HLO207": 2 * 4 * KIB,  # out and back
    "HLO208": 4 * KIB,  # the second copy
    "HLO305": 2 * 512 * KIB,  # written and read
    "HLO401": MIB,
    "HLO501": MIB - 256 * KIB,  # what is gathered and not used
    "HLO502": MIB // 2,  # a reduce-scatter is half of an all-reduce
    "HLO503": 256 * KIB,
    "HLO504": 48 * MIB,  # of 64 MiB a quarter is left
    "HLO507": MIB // 2,  # bf16 in place of f32
    "HLO509": 2 * 256 * KIB,  # there and back
    "HLO510": 64 * MIB,  # of 128 MiB a half is left
    "HLO602": 10 * 8 * KIB,  # in each iteration
    "HLO701": 4 * KIB,  # f32 in place of f64
    "HLO702": 4 * KIB,
}


@pytest.mark.parametrize("code", COSTS)
def test_a_finding_costs_what_would_not_be_moved_or_held(code: str) -> None:
    case = next(case for case in COST_CASES if case.code == code)
    text = case.bad.replace("«", "").replace("»", "")
    found = [each.cost_bytes for each in lint_module(parse_module(text), case.settings) if each.code == code]
    assert COSTS[code] in found
