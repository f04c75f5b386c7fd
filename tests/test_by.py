"""`--by source|scope|argument|pass`: every byte, flop, and transfer has one row, and rows add up to the command's totals."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dumps import FIXTURES
from hlo_cli import parse_module
from hlo_cli.analysis.dataflow.executions import executions_of
from hlo_cli.analysis.origin.origins import OTHER_KEYS, UNKNOWN_KEY, By, Carried, keys_of
from hlo_cli.cli import main
from share import every

pytestmark = pytest.mark.usefixtures("modules_kept")

FOLDERS = sorted({path.parent for path in FIXTURES.glob("*/*/*after_optimizations.txt*")})
dumps = pytest.mark.parametrize("folder", every(2, FOLDERS), ids=lambda folder: f"{folder.parent.name}/{folder.name}")
CAUSES: tuple[By, ...] = ("source", "scope", "argument")

LAYERS = """HloModule jit_step, is_scheduled=true

FileNames
1 "/usr/lib/python3.12/site-packages/flax/linen/linear.py"
2 "/home/me/model.py"
3 "/home/me/train.py"

FunctionNames
1 "__call__"
2 "block"
3 "step"

FileLocations
1 {file_name_id=1 function_name_id=1 line=7 end_line=7 column=1 end_column=9}
2 {file_name_id=2 function_name_id=2 line=92 end_line=92 column=1 end_column=9}
3 {file_name_id=3 function_name_id=3 line=5 end_line=5 column=1 end_column=9}

StackFrames
1 {file_location_id=3 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
3 {file_location_id=1 parent_frame_id=3}

ENTRY %e (a: f32[8,128], b: f32[8,128], c: f32[4], x: f32[16,8]) -> f32[16,128] {
  %a = f32[8,128]{1,0} parameter(0), metadata={op_name="params['layers'][0]['w']"}
  %b = f32[8,128]{1,0} parameter(1), metadata={op_name="params['layers'][1]['w']"}
  %c = f32[4]{0} parameter(2), metadata={op_name="params['scale'][0]"}
  %x = f32[16,8]{1,0} parameter(3), metadata={op_name="x"}
  %d0 = f32[16,128]{1,0} dot(%x, %a), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(step)/layers/0/dense/dot" stack_frame_id=3}
  %d1 = f32[16,128]{1,0} dot(%x, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(step)/layers/1/dense/dot" stack_frame_id=3}
  %k = f32[16,128]{1,0} custom-call(), custom_call_target="k"
  %s = f32[16,128]{1,0} add(%d0, %d1), metadata={op_name="jit(step)/add" stack_frame_id=1}
  ROOT %r = f32[16,128]{1,0} add(%s, %k), metadata={op_name="jit(step)/add" stack_frame_id=1}
}
"""
WEIGHT, SMALL, INPUT, RESULT = 8 * 128 * 4, 4 * 4, 16 * 8 * 4, 16 * 128 * 4


@pytest.fixture
def layers(tmp_path: Path) -> str:
    path = tmp_path / "layers.hlo"
    path.write_text(LAYERS, encoding="utf-8")
    return str(path)


@cache
def _module_name(folder: Path) -> str:
    from hlo_cli.inputs.input import read_inputs, select_module

    return select_module(read_inputs([str(folder)])).module or ""


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    code = main([*arguments, "--format", "json", "--quiet"], standalone=False)
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return {**found, "code": code}


def rows_of(found: Mapping[str, Any], table: str) -> list[dict[str, Any]]:
    rows = found["tables"][table]["rows"]
    assert isinstance(rows, list)
    return rows


def column(rows: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    return [row[name] for row in rows]


def by_key(rows: Sequence[Mapping[str, Any]], by: By, *names: str) -> dict[str, Any]:
    return {row[by]: row[names[0]] if len(names) == 1 else tuple(row[name] for name in names) for row in rows}


def test_the_source_is_outside_of_libraries_and_layers_are_one_scope() -> None:
    module = parse_module(LAYERS)
    assert not module.errors
    of = {by: keys_of(module, by) for by in CAUSES}
    found = {i.name: tuple(of[by](i) for by in CAUSES) for i in module.entry.instructions}
    assert found == {
        "a": ("(arguments)", "(arguments)", "params['layers'][*]['w']"),
        "b": ("(arguments)", "(arguments)", "params['layers'][*]['w']"),
        "c": ("(arguments)", "(arguments)", "params['scale'][0]"),
        "x": ("(arguments)", "(arguments)", "x"),
        "d0": ("/home/me/model.py:92", "layers/*/dense", "(computed)"),
        "d1": ("/home/me/model.py:92", "layers/*/dense", "(computed)"),
        "k": ("/home/me/train.py:5", "(no scope)", "(computed)"),
        "s": ("/home/me/train.py:5", "(no scope)", "(computed)"),
        "r": ("/home/me/train.py:5", "(no scope)", "(computed)"),
    }


def test_arguments_of_several_shapes_keep_their_numbers() -> None:
    text = LAYERS.replace("%b = f32[8,128]{1,0} parameter(1)", "%b = f32[8,64]{1,0} parameter(1)")
    module = parse_module(text)
    keys = keys_of(module, "argument")
    assert [keys(each) for each in module.entry.parameters][:2] == [
        "params['layers'][0]['w']",
        "params['layers'][1]['w']",
    ]


LOOP = """HloModule m
b { p = (s32[], f32[8], f32[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  w = f32[8] get-tuple-element(p), index=1
  c = f32[8] copy(w)
  y = f32[8] get-tuple-element(p), index=2
  z = f32[8] add(w, y)
  ROOT t = (s32[], f32[8], f32[8]) tuple(i, c, z) }
c { p = (s32[], f32[8], f32[8]) parameter(0)  ROOT q = pred[] custom-call(p) }
ENTRY e { n = s32[] constant(0)  a = f32[8] parameter(0), metadata={op_name="w"}
  y = f32[8] parameter(1), metadata={op_name="y"}
  t = (s32[], f32[8], f32[8]) tuple(n, a, y)
  ROOT l = (s32[], f32[8], f32[8]) while(t), condition=c, body=b, metadata={op_name="f/s/while"} }"""


def test_a_carried_value_is_its_first_value_and_an_argument_only_while_unchanged() -> None:
    module = parse_module(LOOP)
    carried, keys = Carried(module), keys_of(module, "argument")
    loop, parameter = module.instruction("l"), module.computation("b").parameters[0]
    for place in (loop, parameter):
        found = [carried.definer(place, (element,)) for element in range(3)]
        assert [(definer.name, changed) for definer, _, changed in found] == [("n", False), ("a", False), ("y", True)]
        assert [keys(place, (element,)) for element in range(3)] == ["(computed)", "w", "(computed)"]
    assert keys_of(module, "scope")(loop, (1,)) == "(arguments)"
    assert keys_of(module, "scope")(loop, (0,)) == "f/s", "a constant has no metadata, so the loop's own counts"


def test_an_argument_that_several_callers_pass_is_unknown() -> None:
    text = """HloModule m
f { q = f32[8] parameter(0)  c = f32[8] copy(q)  ROOT n = f32[8] negate(c) }
ENTRY e { a = f32[8] parameter(0), metadata={op_name="a"}  b = f32[8] parameter(1), metadata={op_name="b"}
  x = f32[8] call(a), to_apply=f
  ROOT y = f32[8] call(b), to_apply=f }"""
    module = parse_module(text)
    keys = keys_of(module, "argument")
    found = {each.name: keys(each) for each in module.instructions}
    assert found == {**dict.fromkeys("qc", "(unknown)"), **dict.fromkeys("nxy", "(computed)"), "a": "a", "b": "b"}
    once = parse_module(text.replace("call(b), to_apply=f", "negate(b)"))
    assert keys_of(once, "argument")(once.instruction("c")) == "a"


@dumps
def test_memory_by_cause_adds_up(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for by in CAUSES:
        found = answer(capsys, "memspace", str(folder), "--module", _module_name(folder), "--by", by, "--space", "all")
        rows, spaces = rows_of(found, f"by_{by}"), rows_of(found, "spaces")
        for space in spaces:
            held = [row for row in rows if row["space"] == space["space"]]
            assert sum(column(held, "bytes")) == space["peak_bytes"]
            assert sum(column(held, "all_bytes")) == space["padded_bytes"]
            assert sum(column(held, "all_values")) == space["values"]
            _check_rows(held, by, "bytes", _by(by, "bytes", "all_bytes"))
        live = rows_of(found, "live_values")
        assert sum(column(rows, "values")) == len(live)
        assert sum(column(rows, "padding_bytes")) == sum(row["bytes"] - row["logical_bytes"] for row in live)


def test_memory_of_known_values(layers: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = 2 * WEIGHT + SMALL + INPUT
    of = {by: rows_of(answer(capsys, "memspace", layers, "--by", by), f"by_{by}") for by in CAUSES}
    assert by_key(of["source"], "source", "all_bytes", "all_values") == {
        "(arguments)": (arguments, 4),
        "/home/me/model.py:92": (2 * RESULT, 2),
        "/home/me/train.py:5": (3 * RESULT, 3),
    }
    assert by_key(of["source"], "source", "inferred_bytes", "inferred_share")["/home/me/train.py:5"] == (RESULT, 1.0)
    assert by_key(of["scope"], "scope", "all_bytes", "layers")["layers/*/dense"] == (2 * RESULT, 2)
    assert by_key(of["argument"], "argument", "all_bytes", "layers") == {
        "params['layers'][*]['w']": (2 * WEIGHT, 2),
        "params['scale'][0]": (SMALL, 1),
        "x": (INPUT, 1),
        "(computed)": (5 * RESULT, 1),
    }
    # the additions overwrite an operand, so d0, d1, and k are live at the peak
    assert by_key(of["source"], "source", "bytes", "values") == {
        "/home/me/model.py:92": (2 * RESULT, 2),
        "(arguments)": (arguments, 4),
        "/home/me/train.py:5": (RESULT, 1),
    }


def first_line(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    main([*arguments, "--format", "screen", "--quiet"], standalone=False)
    return " ".join(capsys.readouterr().out.split("\n\n")[0].split())


def test_the_answer_names_the_line_and_its_share(layers: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert first_line(capsys, "memspace", layers, "--by", "source") == (
        "model.py:92 holds 16.0 of 32.5 KiB at the RAM peak (49%)"
    )
    assert first_line(capsys, "memspace", layers, "--by", "argument") == (
        "Computed values hold 24.0 of 32.5 KiB at the RAM peak (74%); params['layers'][*]['w'] holds 8 KiB (25%)"
    )
    assert first_line(capsys, "memspace", layers, "--by", "source", "--limit", "1MiB") == (
        "Fits: 32.5 KiB of 1 MiB RAM. model.py:92 holds 16.0 of 32.5 KiB at the RAM peak (49%)"
    )


def test_where_selects_the_values_that_are_summed(layers: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(answer(capsys, "memspace", layers, "--by", "source", "--where", "opcode == dot"), "by_source")
    assert by_key(rows, "source", "all_values", "share") == {"/home/me/model.py:92": (2, 1.0)}


@pytest.mark.parametrize("by", ["source", "scope"])
def test_the_default_report_has_the_same_rows(by: By, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(FIXTURES / "tpu" / "v5p_scan")
    plain, summed = answer(capsys, "memspace", folder), answer(capsys, "memspace", folder, "--by", by)
    assert rows_of(plain, f"by_{by}") == rows_of(summed, f"by_{by}")


def test_a_module_without_metadata_has_one_row_of_unknown_source() -> None:
    module = parse_module("HloModule m  ENTRY e { p = f32[2] parameter(0)  ROOT r = f32[2] negate(p) }")
    causes: tuple[By, ...] = ("source", "scope")
    assert {keys_of(module, by)(module.instruction("r")) for by in causes} == {UNKNOWN_KEY}


def test_other_keys_are_in_parentheses() -> None:
    assert all(key[0] + key[-1] == "()" for key in OTHER_KEYS)


@dumps
def test_padding_by_cause_adds_up(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("layout", str(folder), "--module", _module_name(folder))
    plain = answer(capsys, *arguments)["answer"]
    for by in CAUSES:
        rows = rows_of(answer(capsys, *arguments, "--by", by), f"{by}s")
        for name in ("logical_bytes", "padded_bytes", "padding_bytes", "saving_bytes"):
            assert sum(column(rows, name)) == plain[name], name
        assert sum(column(rows, "count")) == plain["values"]
        _check_rows(rows, by, "padded_bytes", _by(by, "padding_bytes", "padded_bytes"))


@dumps
def test_kernels_by_cause_add_up(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("fuse", str(folder), "--module", _module_name(folder), "--chip", "v5e")
    plain = answer(capsys, *arguments)
    kinds, kernels = rows_of(plain, "kernel_kinds"), rows_of(plain, "kernels")
    often = [each["execution_count"] if isinstance(each["execution_count"], int) else 1 for each in kernels]
    seconds = sum(
        each["estimated_seconds"] * number
        for each, number in zip(kernels, often, strict=True)
        if each["kernel_kind"] != "transfer" and isinstance(each["estimated_seconds"], float | int)
    )
    for by in CAUSES:
        rows = rows_of(answer(capsys, *arguments, "--by", by), f"by_{by}")
        for name in ("kernels", "transfers"):
            assert sum(column(rows, name)) == sum(number or 0 for number in column(kinds, name)), name
        assert sum(column(rows, "saved_bytes")) == plain["answer"]["saved_bytes"]
        for name in ("flops", "bytes"):
            whole = sum(each[name] * number for each, number in zip(kernels, often, strict=True))
            assert sum(column(rows, f"total_{name}")) == whole
            assert sum(column(rows, name)) == sum(column(kernels, name))
            # kinds count all launches, and are unknown where the number of launches is
            of_kinds = column(kinds, name)
            assert whole == sum(of_kinds) if None not in of_kinds else None in column(kernels, "execution_count")
        of_rows = sum(row["total_seconds"] or 0 for row in rows)
        if any(column(rows, "unknown_times")):  # the known part of the time of a kernel is in the sum of a row
            assert of_rows >= seconds * (1 - 1e-9)
        else:
            assert of_rows == pytest.approx(seconds)
        _check_rows(rows, by, "total_bytes", lambda row: -(row["total_seconds"] or 0))


@pytest.mark.parametrize("chip", [(), ("--chip", "v5e")], ids=["", "chip"])
@dumps
def test_transfers_by_cause_add_up(folder: Path, chip: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("schedule", str(folder), "--module", _module_name(folder), *chip)
    plain = answer(capsys, *arguments)["answer"]
    first = "exposed_seconds" if chip else "unoverlapped_bytes"
    for by in CAUSES:
        rows = rows_of(answer(capsys, *arguments, "--by", by), f"by_{by}")
        for name in ("pairs", "unoverlapped", "unoverlapped_bytes", "synchronous", "synchronous_bytes"):
            assert sum(column(rows, name)) == plain[name], name
        assert sum(column(rows, "bytes")) == plain["bytes"] + plain["synchronous_bytes"]
        if chip:
            known = plain.get("known_exposed_seconds", plain["exposed_seconds"]) or 0
            assert sum(row["exposed_seconds"] or 0 for row in rows) == pytest.approx(known)
        _check_rows(rows, by, "bytes", lambda row: -(row[first] or 0))


def _by(by: By, *names: str) -> Callable[[Mapping[str, Any]], Any]:
    """The order of rows with the largest numbers first, then by key."""
    return lambda row: (*(-row[name] for name in names), row[by])


def _check_rows(rows: Sequence[Mapping[str, Any]], by: By, cost: str, rank: Callable[[Mapping[str, Any]], Any]) -> None:
    """Rows are sorted, keys are distinct, and inferred bytes are a part of the row's."""
    assert [rank(row) for row in rows] == sorted(rank(row) for row in rows)
    assert len(set(column(rows, by))) == len(rows)
    assert all(0 <= row["inferred_bytes"] <= row[cost] for row in rows)


KERNELS = """HloModule jit_step, is_scheduled=true

b { p = (s32[], f32[8,128]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one), metadata={op_name="jit(f)/while/add" source_file="loop.py" source_line=1}
  y = f32[8,128] get-tuple-element(p), index=1
  n = f32[8,128] negate(y), metadata={op_name="jit(f)/block/neg" source_file="model.py" source_line=2}
  s = f32[8,128] all-reduce(n), channel_id=1, replica_groups={{0,1}}, to_apply=a, metadata={op_name="jit(f)/block/psum" source_file="model.py" source_line=3}
  ROOT t = (s32[], f32[8,128]) tuple(next, s) }
c { p = (s32[], f32[8,128]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  end = s32[] constant(10)
  ROOT q = pred[] compare(i, end), direction=LT }
a { u = f32[] parameter(0)  v = f32[] parameter(1)  ROOT w = f32[] add(u, v) }
ENTRY e { x = f32[8,128] parameter(0), metadata={op_name="x"}
  zero = s32[] constant(0)
  t = (s32[], f32[8,128]) tuple(zero, x)
  l = (s32[], f32[8,128]) while(t), condition=c, body=b
  y = f32[8,128] get-tuple-element(l), index=1
  g = (f32[8,128], f32[16,128]) all-gather-start(y), dimensions={0}, replica_groups={{0,1}}, metadata={op_name="jit(f)/head/all_gather" source_file="model.py" source_line=9}
  ROOT d = f32[16,128] all-gather-done(g) }
"""


def test_costs_in_a_loop_count_for_each_iteration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "loop.hlo"
    path.write_text(KERNELS, encoding="utf-8")
    size, trips = 8 * 128 * 4, 10
    rows = {row["source"]: row for row in rows_of(answer(capsys, "fuse", str(path), "--by", "source"), "by_source")}
    assert (rows["model.py:2"]["bytes"], rows["model.py:2"]["total_bytes"]) == (2 * size, 2 * size * trips)
    assert (rows["model.py:2"]["flops"], rows["model.py:2"]["total_flops"]) == (8 * 128, 8 * 128 * trips)
    rows = {row["scope"]: row for row in rows_of(answer(capsys, "schedule", str(path), "--by", "scope"), "by_scope")}
    assert {scope: (row["unoverlapped_bytes"], row["synchronous_bytes"]) for scope, row in rows.items()} == {
        "block": (size * trips, size * trips),
        "head": (2 * size, 0),
    }
    assert first_line(capsys, "schedule", str(path), "--by", "source") == (
        "model.py:3 has 40 of 48 KiB of transfers that overlap no kernel (83%)"
    )


COUNTS = {"memspace": "all_values", "layout": "count", "fuse": "kernels", "schedule": "pairs"}
LISTS = {"memspace": "live_values", "layout": "instructions", "fuse": "costs", "schedule": "pairs"}


@pytest.mark.parametrize("by", CAUSES)
@pytest.mark.parametrize("command", list(COUNTS))
def test_the_next_command_lists_what_the_row_sums_up(command: str, by: By, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(FIXTURES / "tpu" / "7x_transformer")
    table = f"{by}s" if command == "layout" else f"by_{by}"
    rows = rows_of(answer(capsys, command, folder, "--by", by), table)
    main([command, folder, "--by", by, "--format", "screen", "--quiet"], standalone=False)
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("next: ")]
    words = shlex.split(line.removeprefix("next: hlo "))
    key = words[words.index("--where") + 1].rpartition(' == "')[2].removesuffix('"')
    [row] = [row for row in rows if row[by] == key]
    listed = rows_of(answer(capsys, *words), LISTS[command])
    assert len(listed) == row["values" if command == "memspace" else COUNTS[command]] > 0


def test_by_conflicts_with_other_reports(capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(FIXTURES / "tpu" / "v5p_scan")
    for line, message in {
        f"fuse {folder} --by source --cost": "--cost cannot be used with --by",
        f"schedule {folder} --by source --sequence": "--by cannot be used with --sequence",
        f"memspace {folder} --by source --traffic": "--by cannot be used with --traffic",
        "layout f32[3,5] --by scope": "--by requires a dump, not a shape",
    }.items():
        assert main(line.split(), standalone=False) == 2
        assert message in capsys.readouterr().err


def test_the_pass_that_made_each_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    """The file names of the dumps say that the dot library's rewriter ran between 16 and 17, which has ynn_fusion."""
    folder = FIXTURES / "cpu" / "softmax"
    texts = {
        number: next((folder / "passes").glob(f"{number:04}.*")).read_text(encoding="utf-8") for number in (16, 17)
    }
    assert "after_dot-library-rewriter" in next((folder / "passes").glob("0017.*")).name
    assert "%ynn_fusion =" not in texts[16]
    assert "%ynn_fusion =" in texts[17]
    found = answer(capsys, "fuse", str(folder), "--by", "pass")
    rows = {row["pass"]: row for row in rows_of(found, "by_pass")}
    assert rows["dot-library-rewriter"]["largest"] == "ynn_fusion"
    assert rows["dot-library-rewriter"]["kernels"] == 1
    assert {"fusion", "fusion-wrapper"} < set(rows)
    plain = answer(capsys, "fuse", str(folder))
    assert sum(column(list(rows.values()), "bytes")) == sum(column(rows_of(plain, "kernel_kinds"), "bytes"))
    memory = rows_of(answer(capsys, "memspace", str(folder), "--by", "pass"), "by_pass")
    assert sum(column(memory, "bytes")) == rows_of(answer(capsys, "memspace", str(folder)), "spaces")[0]["peak_bytes"]
    assert by_key(memory, "pass", "values")["(program)"] >= 1


@pytest.mark.parametrize("command", list(COUNTS))
def test_passes_require_their_dumps(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, str(FIXTURES / "tpu" / "7x_transformer"), "--by", "pass"], standalone=False) == 2
    error = capsys.readouterr().err
    assert "error: --by pass requires per-pass dumps in the directory of the dump" in error
    assert "--xla_dump_hlo_pass_re=.*" in error


def test_loops_nested_without_end_count_once() -> None:
    """Products of trip counts that no machine runs are unknown, instead of numbers too large to print."""
    pair = "(s32[], f32[8])"
    loops = "".join(
        f"""c{n} {{ p = {pair} parameter(0)  i = s32[] get-tuple-element(p), index=0  k = s32[] constant(1000000)
          ROOT l = pred[] compare(i, k), direction=LT }}
        b{n} {{ p = {pair} parameter(0)  i = s32[] get-tuple-element(p), index=0  o = s32[] constant(1)
          x = f32[8] get-tuple-element(p), index=1  z = s32[] constant(0)  q = {pair} tuple(z, x)
          {f"w = {pair} while(q), condition=c{n - 1}, body=b{n - 1}" if n else f"w = {pair} copy(q)"}
          y = f32[8] get-tuple-element(w), index=1  s = s32[] add(i, o)  ROOT t = {pair} tuple(s, y) }}
        """
        for n in range(5)
    )
    main = f"z = s32[] constant(0)  a = f32[8] parameter(0)  q = {pair} tuple(z, a)"
    main = f"ENTRY e {{ {main}  ROOT w = {pair} while(q), condition=c4, body=b4 }}"
    module = parse_module(f"HloModule m, is_scheduled=true  {loops} {main}")
    bodies = [module.computation(f"b{n}") for n in range(4, -1, -1)]
    found = [executions_of(module)[body] for body in bodies]
    assert [each.known for each in found] == [10**6, 10**12, 10**18, None, None]
    assert [each.count for each in found] == [10**6, 10**12, 10**18, 10**18, 10**18]
