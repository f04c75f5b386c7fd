"""`hlo shard --comms`, and what other commands say about collectives: axes, bytes, sums, and what is unknown."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from expecting import judged
from hlo_cli import chip_spec, collectives_of, parse_module
from hlo_cli.analysis.sharding.collectives import collective_time
from hlo_cli.cli import main
from hlo_cli.commands.modules.instruction_tables import instructions_where

MESH = 'frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["data"=4, "model"=2]>}}'
FLAGS = "use_global_device_ids=true"
DATA = f"replica_groups=[2,4]<=[4,2]T(1,0), {FLAGS}"
MODEL = f"replica_groups={{{{0,1}},{{2,3}},{{4,5}},{{6,7}}}}, {FLAGS}"
HALF = f"replica_groups=[4,2]<=[2,4]T(1,0), {FLAGS}"
ODD = f"replica_groups={{{{0,3}},{{1,2}},{{4,7}},{{5,6}}}}, {FLAGS}"

PROGRAM = f"""
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }}
body {{ s = (s32[], f32[1024]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[1024] get-tuple-element(s), index=1
  looped = f32[1024] all-reduce(x), channel_id=1, {MODEL}, to_apply=add, metadata={{op_name="jit(f)/mlp/add" source_file="a.py" source_line=3}}
  ROOT t = (s32[], f32[1024]) tuple(i, looped) }}
condition {{ s = (s32[], f32[1024]) parameter(0)  ROOT t = pred[] constant(true) }}
yes {{ a = f32[1024] parameter(0)  ROOT branched = f32[1024] all-reduce(a), channel_id=1, {HALF}, to_apply=add }}
no {{ a = f32[1024] parameter(0)  ROOT n = f32[1024] negate(a) }}
ENTRY e_spmd {{
  p = f32[1024] parameter(0)
  q = pred[] parameter(1)
  z = s32[] constant(0)
  gathered = f32[4096] all-gather(p), channel_id=1, {DATA}, dimensions={{0}}, metadata={{op_name="jit(f)/attention/gather" source_file="a.py" source_line=7}}
  moved = f32[1024] collective-permute(p), channel_id=1, source_target_pairs={{{{0,2}},{{2,4}},{{4,6}}}}
  t = (s32[], f32[1024]) tuple(z, moved)
  w = (s32[], f32[1024]) while(t), condition=condition, body=body TRIPS
  c = f32[1024] conditional(q, moved, moved), true_computation=yes, false_computation=no
  ROOT r = (f32[4096], (s32[], f32[1024]), f32[1024]) tuple(gathered, w, c)
}}
"""  # fmt: skip
KNOWN = PROGRAM.replace("TRIPS", ', backend_config={"known_trip_count":{"n":"6"}}')
UNKNOWN = PROGRAM.replace("TRIPS", "")


def written(text: str, folder: Path, *, header: str = f"num_partitions=8, {MESH}") -> str:
    """The path of a dump with this text."""
    path = folder / "module_0001.m.after_optimizations.txt"
    path.write_text(f"HloModule m, {header}\n{text}")
    return str(path)


def run(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(list(arguments), standalone=False)
    return int(code or 0), out.getvalue(), err.getvalue()


def rows(*arguments: str, table: str = "collectives") -> list[dict[str, Any]]:
    code, out, _ = run(*arguments, "--format", "json")
    assert code == 0
    found = json.loads(out)
    assert found["schema"] == "hlo.shard/1"
    listed: list[dict[str, Any]] = found["tables"][table]["rows"]
    return listed


def test_sums_by_axis_and_kind(tmp_path: Path) -> None:
    """An all-gather of 4 KiB over data=4 sends 3 × 4 KiB; six all-reduces over model=2 send 6 × 2/2 × 4 KiB."""
    found = rows("shard", written(KNOWN, tmp_path), "--comms")
    seen = [
        (r["axis"], r["kind"], r["sites"], r["runs"], r["payload_bytes"], r["wire_bytes"], r["devices"]) for r in found
    ]
    assert seen == [
        ("model", "all-reduce", 1, 6, 6 * 4096, 6 * 4096, 2),
        ("data", "all-gather", 1, 1, 4 * 4096, 3 * 4096, 4),
        ("data:(1)2", "all-reduce", 1, 1, 4096, 4096, 2),
        ("data", "collective-permute", 1, 1, 4096, 4096 * 3 // 8, 4),
    ]


def test_answer_and_notes(tmp_path: Path) -> None:
    code, out, err = run("shard", written(KNOWN, tmp_path), "--comms", "--format", "md", "--verbose")
    assert code == 0
    total = 6 * 4096 + 3 * 4096 + 4096 + 4096 * 3 // 8
    assert total == 42496
    assert "A device sends 41.5 KiB per execution: 24 KiB over model, 13.5 KiB over data, 4 KiB over data:(1)2" in out
    notes = out + err
    assert "mesh data=4,model=2 from the header" in notes
    assert "data:(1)2 is a part of the axis data: 2 of its 4 devices" in notes
    assert "1 collective is in a branch of a conditional and may run less often" in notes


def test_unknown_trip_counts_are_shown_and_never_multiplied(tmp_path: Path) -> None:
    path = written(UNKNOWN, tmp_path)
    looped = next(row for row in rows("shard", path, "--comms") if row["axis"] == "model")
    assert (looped["runs"], looped["wire_bytes"], looped["run_wire_bytes"]) == (None, None, 4096)
    code, out, err = run("shard", path, "--comms", "--format", "md")
    assert code == 0
    assert "A device sends at least 17.5 KiB per execution" in out
    assert any("model" in line and "?" in line for line in out.splitlines())
    assert "1 collective is in a loop of unknown trip count and not in the sums" in out + err


def test_bytes_in_loops_of_unknown_trip_count_alone(tmp_path: Path) -> None:
    path = written(UNKNOWN, tmp_path)
    _, out, _ = run("shard", path, "--comms", "--where", "axis == model", "--format", "md")
    assert "The bytes that a device sends are unknown (1 collective)" in out
    assert "at least 0" not in out


@pytest.mark.parametrize(("axes", "is_bound"), [('\\"data\\"', True), ('\\"data\\", \\"model\\"', False)])
def test_automatic_axes_before_partitioning(axes: str, is_bound: bool, tmp_path: Path) -> None:
    """Of a shard_map over some of the axes, shapes are still divided along the others."""
    manual = f'frontend_attributes={{xla.sdy.manual_axes="#sdy<manual_axes{{{axes}}}>"}}'
    gather = f"ROOT g = f32[32] all-gather(p), channel_id=1, {DATA}, dimensions={{0}}, {manual}"
    path = tmp_path / "before.txt"
    path.write_text(f"HloModule m, num_partitions=8, {MESH}  ENTRY e {{ p = f32[8] parameter(0)  {gather} }}")
    _, out, err = run("shard", str(path), "--comms", "--format", "md")
    assert ("bytes are upper bounds" in out + err) is is_bound


@pytest.mark.parametrize(
    ("grouping", "table", "keys"),
    [
        ("axis", "axes", [("model", 24576), ("data", 13824), ("data:(1)2", 4096)]),
        ("source", "sources", [("a.py:3", 24576 + 1536), ("a.py:7", 12288)]),
        ("scope", "scopes", [("mlp", 24576 + 1536), ("attention", 12288)]),
    ],
)
def test_other_groupings(grouping: str, table: str, keys: list[tuple[str, int]], tmp_path: Path) -> None:
    # The permute has no metadata; it sends what the loop takes, so it has the loop's key. The all-reduce in a branch
    # shares its channel with that of the loop, but not its groups: nothing tells where it is from.
    found = rows("shard", written(KNOWN, tmp_path), "--comms", "--by", grouping, table=table)
    assert [(row[grouping], row["wire_bytes"]) for row in found][: len(keys)] == keys


def test_one_row_for_each(tmp_path: Path) -> None:
    arguments = ("--comms", "--by", "instruction", "--where", "axis == data and wire_bytes > 1KiB")
    found = rows("shard", written(KNOWN, tmp_path), *arguments, table="instructions")
    seen = [(row["name"], row["op_name"], row["source"], row["shift"], row["groups"]) for row in found]
    assert seen == [
        ("gathered", "jit(f)/attention/gather", "a.py:7", None, "{0,2,4,6}, {1,3,5,7}"),
        ("moved", None, None, "data +1", "{0,2}, {2,4}, {4,6}"),
    ]


def test_axes_given_by_the_user(tmp_path: Path) -> None:
    path = written(KNOWN, tmp_path)
    found = rows("shard", path, "--comms", "--mesh", "a=2,b=2,c=2")
    assert [row["axis"] for row in found] == ["c", "a,b", "a", "a,b"]
    code, _, err = run("shard", path, "--comms", "--mesh", "data=4,model=4")
    assert code == 2
    assert "data=4,model=4 is 16 devices, the module has 8" in err


def test_axes_of_the_dump_before_optimizations(tmp_path: Path) -> None:
    before = tmp_path / "module_0001.m.before_optimizations.txt"
    before.write_text(f"HloModule m, num_partitions=8, {MESH}\nENTRY e {{ ROOT p = f32[8] parameter(0) }}")
    path = written(KNOWN, tmp_path, header="num_partitions=8")
    assert {row["axis"] for row in rows("shard", path, "--comms")} == {"data", "model", "data:(1)2"}


def test_axes_without_names(tmp_path: Path) -> None:
    path = written(KNOWN, tmp_path, header="num_partitions=8")
    assert [row["axis"] for row in rows("shard", path, "--comms")] == ["axis2", "axis0,axis1", "axis0", "axis0,axis1"]
    _, out, err = run("shard", path, "--comms", "--format", "md", "--verbose")
    assert "mesh axis0=2,axis1=2,axis2=2 is inferred from 4 groups; the program may have more axes" in out + err


def test_groups_along_no_axes_are_said(tmp_path: Path) -> None:
    path = written(KNOWN.replace(HALF, ODD), tmp_path)
    assert "(no axes)" in {row["axis"] for row in rows("shard", path, "--comms")}
    _, out, err = run("shard", path, "--comms", "--format", "md", "--verbose")
    assert "1 collective is along no axes of the mesh" in out + err
    bare = written(KNOWN.replace(HALF, ODD), tmp_path, header="num_partitions=8")
    assert {row["axis"] for row in rows("shard", bare, "--comms")} == {"(no axes)"}
    _, out, err = run("shard", bare, "--comms", "--format", "md", "--verbose")
    assert "no single mesh explains all groups" in out + err


def test_an_unknown_form_of_groups_is_not_no_groups(tmp_path: Path) -> None:
    path = written(KNOWN.replace(HALF, f"replica_groups=tree(8), {FLAGS}"), tmp_path)
    unknown = next(row for row in rows("shard", path, "--comms") if row["axis"] == "(no axes)")
    assert (unknown["wire_bytes"], unknown["payload_bytes"], unknown["devices"]) == (None, None, None)
    _, out, err = run("shard", path, "--comms", "--format", "md", "--verbose")
    assert "groups not understood: cannot read the replica groups tree(8)" in out + err
    assert "A device sends at least" in out


def test_nothing_to_say(tmp_path: Path) -> None:
    path = written("ENTRY e { ROOT p = f32[8] parameter(0) }", tmp_path, header="is_scheduled=true")
    code, out, _ = run("shard", path, "--comms", "--format", "md")
    assert (code, "No collectives among 1 instruction: one device" in out) == (0, True)
    code, out, _ = run("shard", written(KNOWN, tmp_path), "--comms", "--where", "axis == pod", "--format", "md")
    assert (code, "No matches among 4 collectives" in out) == (0, True)


def test_large_meshes_stay_readable(tmp_path: Path) -> None:
    mesh = 'frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["data"=32, "model"=16]>}}'
    groups = f"replica_groups=[16,32]<=[32,16]T(1,0), channel_id=1, {FLAGS}"
    text = f"ENTRY e_spmd {{ p = f32[8] parameter(0)  ROOT g = f32[256] all-gather(p), dimensions={{0}}, {groups} }}"
    path = written(text, tmp_path, header=f"num_partitions=512, {mesh}")
    [row] = rows("shard", path, "--comms", "--by", "instruction", table="instructions")
    assert (row["axis"], row["devices"]) == ("data", 32)
    assert row["groups"].startswith("16 groups of 32: {0,16,32,")
    assert len(row["groups"]) < 100


def module_of(text: str) -> Any:
    return parse_module(f"HloModule m, num_partitions=8, {MESH}\n{text}")


def test_fields_of_collectives() -> None:
    module = module_of(KNOWN)

    def names(expression: str) -> list[str]:
        return [i.name for i in filter(instructions_where(expression, module), module.instructions)]

    assert names("axis == data") == ["gathered", "moved"]
    assert names("wire_bytes * trips >= 12KiB") == ["looped", "gathered"]
    assert names("payload_bytes == 16KiB") == ["gathered"]
    assert names('axis ~ "^data"') == ["branched", "gathered", "moved"]


@pytest.mark.parametrize(
    ("assertion", "is_met", "found"),
    [
        ("sum(wire_bytes * trips, axis == model) <= 24KiB", True, 24576),
        ("sum(wire_bytes * trips, axis == model) < 24KiB", False, 24576),
        ("sum(payload_bytes, collective) <= 1GiB", True, 4096 * 7),
        ("count(axis == pod) == 0", True, 0),
        ("max(wire_bytes, opcode == all-gather) == 12KiB", True, 12288),
    ],
)
def test_assertions_on_bytes(assertion: str, is_met: bool, found: int) -> None:
    [result] = judged(module_of(KNOWN), assertion)
    assert (result.is_met, result.found) == (is_met, found)


def test_assertions_on_unknown_bytes() -> None:
    """A sum with an unknown trip count has a lower bound only."""
    [result] = judged(module_of(UNKNOWN), "sum(wire_bytes * trips, axis == model) <= 1GiB")
    assert result.is_met is None
    [result] = judged(module_of(UNKNOWN), "sum(wire_bytes * trips, axis == model) < 1KiB")
    assert result.is_met is False


def test_a_wrapped_collective_counts_once_in_assertions() -> None:
    gather = f"gather {{ a = f32[64] parameter(0)  ROOT g = f32[256] all-gather(a), dimensions={{0}}, channel_id=1, {DATA} }}"
    scatter = f"""scatter {{ a = f32[64] parameter(0)  z = s32[] constant(0)
      x = f32[64] all-reduce(a), to_apply=add, channel_id=1, {DATA}
      ROOT d = f32[16] dynamic-slice(x, z), dynamic_slice_sizes={{16}} }}"""
    add = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"
    entry = """ENTRY e { p = f32[64] parameter(0)
      s = ((f32[64]), f32[256], u32[]) async-start(p), calls=gather
      f = f32[16] fusion(p), kind=kCustom, calls=scatter
      d = f32[256] async-done(s)
      ROOT r = (f32[256], f32[16]) tuple(d, f) }"""
    module = module_of(f"{add}\n{gather}\n{scatter}\n{entry}")
    [result] = judged(module, "sum(wire_bytes, axis == data) == 960B")
    assert (result.is_met, result.found) == (True, 3 * 256 + 192)


def test_columns_of_other_commands(tmp_path: Path) -> None:
    path = written(KNOWN, tmp_path)
    columns = "name,axis,wire_bytes,payload_bytes,trips"
    code, out, _ = run(
        "parse", path, "--instructions", "--where", "axis == model", "--columns", columns, "--format", "csv"
    )
    assert (code, out.splitlines()[-1]) == (0, "looped,model,4096,4096,6")
    columns = "instruction,axis,wire_bytes"
    code, out, _ = run("fuse", path, "--cost", "--where", "axis == data", "--columns", columns, "--format", "csv")
    assert (code, set(out.splitlines()[1:])) == (0, {"gathered,data,12288", "moved,data,1536"})


def test_explanation_of_a_collective(tmp_path: Path) -> None:
    code, out, _ = run("parse", written(KNOWN, tmp_path), "--explain", "gathered", "--format", "json")
    assert code == 0
    numbers = json.loads(out)["answer"]["collective"]
    assert (numbers["axis"], numbers["devices"], numbers["wire_bytes"], numbers["trips"]) == ("data", 4, 12288, 1)
    code, out, _ = run("parse", written(KNOWN, tmp_path), "--explain", "gathered")
    assert "data of mesh data=4,model=2 (the header)" in out
    assert "12 KiB from each device per run, for 16 KiB" in out


def test_times_have_a_latency_and_are_at_least_those_of_the_links() -> None:
    """Between 8 H100, XLA's table has 1 KiB in 31.9 µs, and 2 GiB at 402 GB/s."""
    groups = "replica_groups={{0,1,2,3,4,5,6,7}}"
    small, large = (
        collectives_of(parse_module(f"r = f32[{8 * n}] all-gather(f32[{n}] a), dimensions={{0}}, {groups}"))[0]
        for n in (1, 1 << 26)
    )
    h100, v5e = chip_spec("h100"), chip_spec("v5e")
    times = [collective_time(each, chip) for chip in (h100, v5e) for each in (small, large)]
    assert all(time is not None and time.seconds >= time.at_least_seconds for time in times)
    first, second, third, fourth = (time.seconds for time in times if time is not None)
    assert first == pytest.approx(31.9e-6, rel=0.01)
    sent = 7 * 4 * (1 << 26)
    assert second == pytest.approx(2**31 / 402e9, rel=0.01)
    assert fourth == pytest.approx(sent / 200e9 * 2), "an axis has the links of one of two dimensions"
    assert third == pytest.approx(7 * 4 / 200e9 * 2)


def test_a_chip_adds_times(tmp_path: Path) -> None:
    found = rows("shard", written(KNOWN, tmp_path), "--comms", "--chip", "v5e")
    assert all(row["seconds"] >= row["at_least_seconds"] > 0 for row in found)
    code, out, _ = run("shard", written(KNOWN, tmp_path), "--comms", "--chip", "h100", "--algorithm", "oneshot")
    assert code == 0
    assert out
