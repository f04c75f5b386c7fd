"""`hlo shard DUMP`: the screens and rows of parameters and results, and DUMP:NAME.

Expectations are from construction: sums of shards written out, or of the rows of another grouping.
"""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from dumps import FIXTURES
from hlo_cli.analysis.sharding import entry_arrays
from hlo_cli.analysis.sharding.placement import Placement
from hlo_cli.cli import main
from hlo_cli.commands.options.io_options import InputOptions
from hlo_cli.commands.shape.argument import resolve_name
from hlo_cli.commands.shard.dump import named_array
from hlo_cli.ir.attributes.sharding import NamedSharding, Sharding
from hlo_cli.source import HloError

MESHES = 'frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["data"=4, "model"=2]>}}'
BEFORE = f"""HloModule jit_f, num_partitions=8, {MESHES}
ENTRY main {{
  w = f32[512,256] parameter(0), sharding={{devices=[4,2]<=[8]}}, metadata={{op_name="params['w']"}}
  v = f32[512,256] parameter(1), sharding={{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}}, metadata={{op_name="params['v']"}}
  b = f32[1024] parameter(2), sharding={{replicated}}, metadata={{op_name="params['b']"}}
  x = s32[] parameter(3), sharding={{replicated}}, metadata={{op_name="step"}}
  ROOT t = (f32[512,256], f32[1024]) tuple(w, b), sharding={{{{devices=[4,2]<=[8]}}, {{replicated}}}}
}}
"""
AFTER = """HloModule jit_f, is_scheduled=true, num_partitions=8
ENTRY main_spmd {
  p0 = f32[128,128]{1,0:T(8,128)} parameter(0), metadata={op_name="params['w']"}
  p1 = f32[512,128]{1,0:T(8,128)} parameter(1), metadata={op_name="params['v']"}
  p2 = f32[1024]{0:T(1024)} parameter(2), metadata={op_name="params['b']"}
  p3 = s32[]{:T(128)} parameter(3), metadata={op_name="step"}
  ROOT t = (f32[128,128]{1,0:T(8,128)}, f32[1024]{0:T(1024)}) tuple(p0, p2)
}
"""
W, V, B = 128 * 128 * 4, 512 * 128 * 4, 1024 * 4


@pytest.fixture
def dump(tmp_path: Path) -> str:
    """Both stages of one program for TPU: the parameters of the second have no shardings."""
    (tmp_path / "before_optimizations.txt").write_text(BEFORE)
    (tmp_path / "after_optimizations.txt").write_text(AFTER)
    return str(tmp_path)


def run(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(list(arguments), standalone=False)
    return int(code or 0), out.getvalue(), err.getvalue()


def report(*arguments: str) -> dict[str, Any]:
    code, out, err = run("shard", *arguments, "--format", "json")
    assert code == 0, err
    found = json.loads(out)
    assert isinstance(found, dict)
    return found


def rows(found: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return list(found["tables"][name]["rows"])


def error(*arguments: str) -> str:
    """The error message of a command."""
    code, _, err = run("shard", *arguments)
    assert code == 2
    return err


def test_after_partitioning_with_the_sibling(dump: str) -> None:
    found = report(dump)
    assert found["answer"]["devices"] == 8
    assert found["answer"]["shard_bytes"] == W + V + B + 512
    assert found["answer"]["whole_bytes"] == 2 * 512 * 256 * 4 + B + 4
    by_shape = {(row["shape"], row["spec"]): row for row in rows(found, "parameters")}
    assert by_shape["f32[512,256]", "data, model"]["replication"] == 1
    row = by_shape["f32[512,256]", "-, model"]
    assert (row["shard"], row["replication"], row["shard_bytes"], row["saving_bytes"]) == (
        "f32[512,128]",
        4,
        V,
        V * 3 // 4,
    )
    row = by_shape["f32[1024]", "replicated"]
    assert (row["replication"], row["saving_bytes"]) == (8, B - 512)
    assert rows(found, "parameters")[0]["spec"] == "-, model"  # what would save most is first
    assert sorted(row["shard_bytes"] for row in rows(found, "results")) == [B, W]


def test_before_partitioning_sizes_are_estimated(dump: str) -> None:
    code, out, err = run("shard", dump, "--stage", "before", "--format", "screen")
    assert code == 0
    assert out.replace("×", "x").startswith("8 devices, data=4 x model=2: 4 parameters take an estimated ")
    assert "est. size" in out
    assert "the module is not partitioned" in err
    found = report(dump, "--stage", "before")
    assert found["answer"]["shard_bytes"] == W + V + B + 4


def test_the_answer_says_what_dividing_would_save(dump: str) -> None:
    _, out, _ = run("shard", dump, "--format", "screen")
    assert "sharding the replicated parts would save 195.5 KiB" in out.replace("\n", " ")
    assert V * 3 // 4 + B - 512 == 195.5 * 1024
    assert "2 results take 68 KiB per device." in out


def test_rows_of_instructions_and_axes_have_the_same_sums(dump: str) -> None:
    total = report(dump)["answer"]["shard_bytes"]
    each = rows(report(dump, "--by", "instruction"), "instructions")
    assert {row["op_name"] for row in each} == {"params['w']", "params['v']", "params['b']", "step"}
    assert sum(row["shard_bytes"] for row in each) == total
    axes = {row["axis"]: row for row in rows(report(dump, "--by", "axis"), "axes")}
    assert [(row["divided_count"], row["replicated_count"]) for row in axes.values()] == [(1, 3), (2, 2)]
    assert all(row["divided_bytes"] + row["replicated_bytes"] == total for row in axes.values())
    assert axes["data"]["replicated_bytes"] == V + B + 512


@pytest.mark.parametrize("grouping", ["source", "scope", "argument"])
def test_causes_have_the_same_sums(dump: str, grouping: str) -> None:
    found = report(dump, "--by", grouping)
    assert sum(row["shard_bytes"] for row in rows(found, f"{grouping}s")) == found["answer"]["shard_bytes"]


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("replication > 1", {"params['v']", "params['b']", "step"}),
        ("parameter and replication > 1 and padded_bytes > 64KiB", {"params['v']"}),
        ("shard_bytes == 512", {"step"}),
        ('op_name ~ "params" and saving_bytes > 0', {"params['v']", "params['b']"}),
        ("number == 1", {"params['v']"}),
    ],
)
def test_where(dump: str, expression: str, names: set[str]) -> None:
    found = rows(report(dump, "--by", "instruction", "--where", expression), "instructions")
    assert {row["op_name"] for row in found} == names


def test_no_match_is_an_answer(dump: str) -> None:
    code, out, _ = run("shard", dump, "--where", "replication > 8", "--format", "screen")
    assert (code, out.splitlines()[0]) == (0, "No matches among 4 parameters")


def test_a_given_mesh_names_the_axes(dump: str) -> None:
    found = report(dump, "--mesh", "a=2,b=2,c=2")
    assert {row["spec"] for row in rows(found, "parameters")} == {"(a,b), c", "-, c", "replicated"}


def test_a_mesh_of_the_wrong_size(dump: str) -> None:
    assert "data=4,model=4 is 16 devices, the module has 8" in error(dump, "--mesh", "data=4,model=4")


def test_without_the_sibling_copies_are_unknown(tmp_path: Path) -> None:
    path = tmp_path / "alone.txt"
    path.write_text(AFTER)
    code, out, err = run("shard", str(path), "--format", "screen")
    assert code == 0
    assert out.splitlines()[0] == "8 devices: 4 parameters take 324.5 KiB per device; this dump has no shardings"
    assert "before optimizations" in err
    found = rows(report(str(path)), "parameters")
    assert {(row["shape"], row["spec"], row["replication"]) for row in found} == {(None, "?", None)}
    assert "copies" not in out


def test_one_device_is_an_answer() -> None:
    code, out, _ = run("shard", str(FIXTURES / "tpu" / "v5e_conv"), "--format", "screen")
    assert code == 0
    assert out.startswith("No shardings: the module runs on 1 device (")


def test_no_parameter_has_a_sharding_yet(tmp_path: Path) -> None:
    path = tmp_path / "m.txt"
    path.write_text("HloModule m, num_partitions=4\nENTRY e { ROOT p = f32[8] parameter(0) }\n")
    code, out, _ = run("shard", str(path), "--format", "screen")
    assert (code, out.splitlines()[0]) == (0, "4 devices: no parameter has a sharding (1 parameter)")


def test_manual_and_unreadable_shardings_have_no_number(tmp_path: Path) -> None:
    path = tmp_path / "m.txt"
    path.write_text(
        "HloModule m, num_partitions=4\nENTRY e {\n  p = f32[8] parameter(0), sharding={manual}\n"
        "  q = f32[8] parameter(1), sharding={devices=[2,2]<=[4]}\n  ROOT t = () tuple()\n}\n"
    )
    found = {row["example"]: row for row in rows(report(str(path)), "parameters")}
    assert (found["p"]["spec"], found["p"]["shard_bytes"], found["p"]["replication"]) == ("manual", 32, None)
    assert (found["q"]["spec"], found["q"]["shard_bytes"]) == ("?", None)
    assert "sharding not understood: the sharding divides 2 dimensions" in run("shard", str(path))[2]


def test_many_modules_have_one_row_each(dump: str) -> None:
    code, out, err = run("shard", dump, str(FIXTURES / "tpu" / "v5e_offload"), str(FIXTURES / "tpu" / "v5e_conv"))
    assert code == 0, err
    head, *lines = [line.split("\t") for line in out.splitlines()]
    found = {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in lines}
    assert found["jit_f"]["shard_bytes"] == str(W + V + B + 512)
    assert sorted(row["devices"] for row in found.values()) == ["1", "4", "8"][: len(found)] or len(found) < 3


def test_names_of_a_dump(dump: str) -> None:
    named = resolve_name(f"{dump}:p1", InputOptions())
    assert named is not None
    found = named_array(named)
    assert str(found.shape) == "f32[512,256]{1,0:T(8,128)}"
    assert (str(found.sharding), found.is_estimated) == (
        "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}",
        False,
    )
    assert found.mesh is not None
    assert found.mesh.origin == "before_optimizations"
    assert [note.message for note in found.notes] == ["the sharding of p1 is from before_optimizations"]


@pytest.mark.parametrize(("name", "instruction"), [("params['v']", "p1"), ("step", "p3")])
def test_names_of_parameters_in_the_program(dump: str, name: str, instruction: str) -> None:
    """What the table prints can be typed back."""
    named = resolve_name(f"{dump}:{name}", InputOptions())
    assert named is not None
    assert named.instruction.name == instruction


def test_a_sharding_requires_an_array(dump: str) -> None:
    assert "a sharding requires a shape or DUMP:NAME" in error(dump, "{replicated}")
    assert "a sharding requires a shape or DUMP:NAME" in error("{replicated}")


def test_the_mesh_in_json_is_what_the_option_takes(dump: str) -> None:
    _, out, _ = run("shard", dump, "--format", "json")
    assert json.loads(out)["answer"]["mesh"] == "data=4,model=2"


@pytest.mark.parametrize("view", [(), ("--comms",)])
def test_a_dump_truncated_before_its_entry(view: tuple[str, ...], tmp_path: Path) -> None:
    """The parameters of another computation are not those of the program, and nothing says how often it runs."""
    path = tmp_path / "m.txt"
    computation = "add { a = f32[8] parameter(0)  ROOT n = f32[8] negate(a) }"
    path.write_text(f"HloModule m, num_partitions=2\n{computation}\nbody {{\n  x = f32[4] parameter(0)\n  y = f32[")
    code, out, err = run("shard", str(path), *view, "--format", "md")
    assert (code, out) == (2, "")
    assert "truncated before the ENTRY computation; parameters and executions are unknown" in err


@pytest.mark.parametrize(
    ("view", "answer"), [((), "2 devices: no parameter has a sharding"), (("--comms",), "no collectives")]
)
def test_a_dump_truncated_in_its_entry_says_so_first(view: tuple[str, ...], answer: str, tmp_path: Path) -> None:
    path = tmp_path / "m.txt"
    path.write_text("HloModule m, num_partitions=2\nENTRY e {\n  x = f32[4] parameter(0)\n  y = f32[")
    code, out, _ = run("shard", str(path), *view, "--format", "md")
    assert code == 2
    assert f"The dump is truncated; {answer}" in out


def test_a_collective_without_a_sharding(tmp_path: Path) -> None:
    path = tmp_path / "m.txt"
    path.write_text(
        "HloModule m, num_partitions=2  ENTRY e { p = f32[8] parameter(0)  ROOT g = f32[16] all-gather(p), "
        "replica_groups={{0,1}}, dimensions={0}, channel_id=1, use_global_device_ids=true }"
    )
    assert "hlo parse DUMP --explain g" in error(f"{path}:g")


@pytest.mark.parametrize(
    ("header", "answer"),
    [
        ("replica_count=8", "No shardings: each of 8 replicas runs on 1 device (1 parameter, 32 B)"),
        ("replica_count=4, num_partitions=2", "4 replicas of 2 devices: 1 parameter takes 32 B per device"),
    ],
)
def test_replicas_are_devices_too(header: str, answer: str, tmp_path: Path) -> None:
    path = tmp_path / "m.txt"
    path.write_text(f"HloModule m, {header}  ENTRY e_spmd {{ ROOT p = f32[8] parameter(0) }}")
    _, out, _ = run("shard", str(path), "--format", "screen")
    assert out.startswith(answer)


def test_a_name_without_a_sharding(tmp_path: Path) -> None:
    path = tmp_path / "m.txt"
    path.write_text(AFTER)
    named = resolve_name(f"{path}:p1", InputOptions())
    assert named is not None
    with pytest.raises(HloError, match="p1 has no sharding"):
        named_array(named)


@pytest.mark.parametrize("option", [("--chip", "v5e"), ("--algorithm", "oneshot")])
def test_options_that_require_comms(dump: str, option: tuple[str, str]) -> None:
    assert f"{option[0]} requires --comms" in error(dump, *option)


def test_axes_require_a_mesh(tmp_path: Path) -> None:
    path = tmp_path / "m.txt"
    path.write_text(AFTER)
    assert "--by axis requires a mesh" in error(str(path), "--by", "axis")


@pytest.mark.parametrize("width", [80, 120, 200])
def test_screens_fit(dump: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for grouping in ((), ("--by", "instruction"), ("--by", "axis"), ("--by", "argument"), ("--table", "results")):
        _, out, _ = run("shard", dump, *grouping, "--format", "screen")
        body = [line for line in out.splitlines() if "hlo shard" not in line]
        assert max(map(len, body)) <= width


def test_a_large_tuple_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each leaf is placed once, though each is asked for by itself."""
    count, placed = 200, []
    shardings = ",".join(["{devices=[8,1]<=[8]}"] * count)
    shape = f"({','.join(['f32[8,64]'] * count)})"
    path = tmp_path / "m.hlo"
    path.write_text(
        f"HloModule m, num_partitions=8\n\nENTRY e {{\n  p = {shape} parameter(0), sharding={{{shardings}}}\n"
        f"  ROOT w = {shape} copy(p), sharding={{{shardings}}}\n}}\n"
    )
    placed_before = entry_arrays._placement

    def counted(sharding: Sharding | NamedSharding) -> tuple[Placement | None, str | None]:
        placed.append(sharding)
        return placed_before(sharding)

    monkeypatch.setattr("hlo_cli.analysis.sharding.entry_arrays._placement", counted)
    for name in ("p", "w"):
        placed.clear()
        assert report(f"{path}:{name}")["answer"]["shard_bytes"] == count * 64 * 4
        assert len(placed) == count


def test_a_mesh_that_lists_too_few_devices_names_no_axes(tmp_path: Path) -> None:
    path = tmp_path / "m.hlo"
    header = 'xla.sdy.meshes={m = #sdy.mesh<["a"=8], device_ids=[1,0]>}'
    text = "ENTRY e { ROOT p = f32[8] parameter(0), sharding={devices=[2]<=[2]} }"
    for parts, sharding in ((8, "{devices=[2]1,0}"), (8, "{devices=[8]<=[8]}")):
        path.write_text(
            f"HloModule m, num_partitions={parts}, frontend_attributes={{{header}}}\n\n"
            + text.replace("{devices=[2]<=[2]}", sharding)
        )
        assert "a" not in rows(report(str(path)), "parameters")[0]["spec"]


def test_sources_and_scopes_of_parameters_are_those_of_their_uses(tmp_path: Path) -> None:
    """Through copies and into loops; what is not used has none."""
    place = 'metadata={{op_name="jit(f)/{}/op" source_file="f.py" source_line={}}}'
    text = f"""HloModule m, num_partitions=2
ENTRY e {{
  p = f32[64] parameter(0), sharding={{devices=[2]<=[2]}}, metadata={{op_name="params['w']"}}
  q = f32[32] parameter(1), sharding={{replicated}}, metadata={{op_name="params['b']"}}
  r = f32[16] parameter(2), sharding={{replicated}}
  c = f32[64] copy(p)
  n = f32[64] negate(c), {place.format("first", 3)}
  ROOT s = f32[32] sine(q), {place.format("second", 7)}
}}"""
    (path := tmp_path / "m.txt").write_text(text)
    for grouping, keys in (("source", ("f.py:3", "f.py:7")), ("scope", ("first", "second"))):
        found = rows(report(str(path), "--by", grouping), f"{grouping}s")
        assert {row[grouping]: row["shard_bytes"] for row in found} == {keys[0]: 128, keys[1]: 128, "(arguments)": 64}
