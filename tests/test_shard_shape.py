"""`hlo shard SHAPE SHARDING`: the screen, one device, tuples, dumps, and errors."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hlo_cli import parse_shape, shards
from hlo_cli.analysis.sharding.placement import devices_of, placement_of
from hlo_cli.cli import main
from shard_cases import random_sharding, random_sizes, read

UNEVEN = ("f32[10,6]", "{devices=[4,2]<=[8]}")


def run(*arguments: str, command: str = "shard") -> tuple[str, str, int]:
    """Output, messages, and exit code."""
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([*([command] if command else []), *arguments], standalone=False)
    out.seek(0)
    return out.read(), err.getvalue(), code


def screen(*arguments: str, width: int = 80, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    out, err, code = run(*arguments, "--format", "screen")
    assert code == 0, err
    return out


def answer(*arguments: str) -> dict[str, Any]:
    """The JSON of the report."""
    out, err, code = run(*arguments, "--format", "json")
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def test_the_grid_shows_who_holds_what(monkeypatch: pytest.MonkeyPatch) -> None:
    sharding = "{devices=[2,2,2]<=[2,2,2]T(2,1,0) last_tile_dim_replicate}"
    shown = screen("f32[16,6]", sharding, monkeypatch=monkeypatch).splitlines()
    assert shown[:9] == [  # device d has the bits (a, b, c); rows follow c, columns b, and a counts the copies
        "Each of 8 devices holds f32[8,3], 96 of 384 bytes; every element is on 2 devices",
        "",
        "x        0–2   3–5",
        " y     ┌─────┬─────┐",
        "   0–7 │ 0 4 │ 2 6 │",
        "       ├─────┼─────┤",
        "  8–15 │ 1 5 │ 3 7 │",
        "       └─────┴─────┘",
        "",
    ]


def test_uneven_and_empty_shards_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = screen("f32[5,1]", "{devices=[4,1]<=[4]}", monkeypatch=monkeypatch)
    assert "38% of it is padding" in shown  # 4 shards of 2 hold 5 elements
    rows = [line for line in shown.splitlines() if " │ " in line]
    assert rows == ["   0–1 │  0 │", "   2–3 │  1 │", "  4 ·1 │  2 │", "    ·2 │ ·3 │"]
    assert "1 tile holds 1, 1 empty" in shown


def test_a_device_is_told_its_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = screen(*UNEVEN, "--mesh", "data=4,model=2", "--device", "6", monkeypatch=monkeypatch)
    assert shown.startswith("Device 6 holds [9:10, 0:3] of f32[10,6]; the rest of its f32[3,3], 36 bytes, is\npadding")
    assert "│ [6] │" in shown
    assert "coordinates  data=3, model=0" in shown
    held = answer(*UNEVEN, "--device", "6")["answer"]
    assert (held["start"], held["limit"], held["same_tile"]) == ([9, 0], [10, 3], [])


def test_a_device_has_others_with_the_same_data(monkeypatch: pytest.MonkeyPatch) -> None:
    sharding = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"
    shown = screen("f32[16,6]", sharding, "--device", "5", monkeypatch=monkeypatch)
    assert "same data    devices 4, 6, and 7" in shown
    shown = screen("f32[16,6]", "{maximal device=3}", "--device", "5", monkeypatch=monkeypatch)
    assert shown.startswith("Device 5 holds nothing: device 3 holds all of f32[16,6]")
    shown = screen("f32[1]", "{devices=[2]<=[2]}", "--device", "1", monkeypatch=monkeypatch)
    assert shown.startswith("Device 1 holds no element of f32[1], only 4 bytes of padding")


@pytest.mark.parametrize(
    ("sharding", "options", "expected"),
    [
        ("{replicated}", (), "Every device holds all of f32[16,6], 384 bytes"),
        ("{replicated}", ("--mesh", "data=8"), "Each of 8 devices holds all of f32[16,6], 384 bytes"),
        ("{maximal device=3}", (), "Device 3 holds all of f32[16,6], 384 bytes; other devices hold nothing"),
        ("{manual}", (), "Every device holds f32[16,6], 384 bytes; the program decides which data"),
        ("{unreduced}", (), "Every device holds one term of a sum of f32[16,6], 384 bytes"),
        ("{unknown}", (), "Not decided: the sharding of f32[16,6] is unknown"),
        ("{devices=[2,1,4]<=[8] last_tile_dim_replicate}", (), "Each of 8 devices holds f32[8,6], 192 of 384 bytes; every element is on 4 devices"),
        ("P('a')", ("--mesh", "a=2,b=2"), "Each of 4 devices holds f32[8,6], 192 of 384 bytes; every element is on 2 devices"),
    ],
)  # fmt: skip
def test_answers(sharding: str, options: tuple[str, ...], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = screen("f32[16,6]", sharding, *options, width=200, monkeypatch=monkeypatch)
    assert " ".join(shown.split("\n\n")[0].split()) == expected


def test_padded_bytes_are_those_of_the_layout() -> None:
    found = answer("f32[1000,512]{1,0:T(8,128)}", "{devices=[2,4]<=[8]}")["answer"]
    assert (found["shard_bytes"], found["total_bytes"]) == (504 * 128 * 4, 8 * 504 * 128 * 4)


def test_axes_have_the_names_of_the_mesh() -> None:
    given = ("f32[8,8]", "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}")
    facts = answer(*given, "--mesh", "data=2,model=4")["facts"]["placement"]
    assert facts["spec"]["note"] == "P('model', None)"
    assert facts["copies"] == {"count": 2, "note": "along data"}
    alone = answer(*given)
    assert [row["axes"] for row in alone["tables"]["dimensions"]["rows"]] == ["axis1", None]
    assert alone["facts"]["placement"]["mesh"]["note"] == "axis0=2,axis1=4 (inferred from the tiles)"


@pytest.mark.parametrize(
    ("sharding", "mesh"),
    [
        ("{devices=[4,2]<=[8]}", ()),
        ("{mesh['data'=4,'model'=2], [{'data'}, {'model'}]}", ()),
        ("P('data', 'model')", ("--mesh", "data=4,model=2")),
        ("PartitionSpec('data', 'model')", ("--mesh", "data=4,model=2")),
        ("NamedSharding(mesh=Mesh('data': 4, 'model': 2), spec=PartitionSpec('data', 'model'))", ()),
        ('#sdy.sharding<@mesh, [{"data"}, {"model"}]>', ("--mesh", "data=4,model=2")),
        ('<mesh<["data"=4, "model"=2]>, [{"data"}, {"model"}]>', ()),
        ("sharding={devices=[4,2]0,1,2,3,4,5,6,7}", ()),
    ],
)
def test_all_forms_of_a_sharding_answer_alike(sharding: str, mesh: tuple[str, ...]) -> None:
    expected = answer("f32[10,6]", "{devices=[4,2]<=[8]}")["tables"]["devices"]["rows"]
    assert answer("f32[10,6]", sharding, *mesh)["tables"]["devices"]["rows"] == expected


@pytest.mark.parametrize(
    "inputs",
    [("f32[10,6] {devices=[4,2]<=[8]}",), ("%p = f32[10,6] parameter(0), sharding={devices=[4,2]<=[8]}",)],
)
def test_a_shape_and_its_sharding_in_one_argument(inputs: tuple[str, ...]) -> None:
    assert answer(*inputs)["answer"]["shard"] == "f32[3,3]{1,0}"


def test_a_tuple_has_a_row_for_each_leaf(monkeypatch: pytest.MonkeyPatch) -> None:
    given = (
        "(f32[8,8], (s32[], token[]), bf16[16])",
        "{{devices=[2,2]<=[4]}, {replicated}, {replicated}, {maximal device=1}}",
    )
    rows = answer(*given)["tables"]["leaves"]["rows"]
    assert [row["shard_bytes"] for row in rows] == [64, 4, None, 32]
    assert screen(*given, monkeypatch=monkeypatch).startswith("A device holds at most 100 of 292 bytes in 4 leaves")
    held = answer(*given, "--device", "3")["tables"]["leaves"]["rows"]
    assert [row["slice"] for row in held] == ["[4:8, 4:8]", "[]", None, ""]


@pytest.mark.parametrize(
    ("inputs", "message", "caret"),
    [
        (("f32[4]", "{devices=[4,2]<=[8]}"), "divides 2 dimensions, but the array has 1", "[4,2]"),
        (("f32[4,4]", "{devices=[4,2,2]<=[8]}"), "16 tiles but 8 devices", "[4,2,2]"),
        (("f32[4,4]", "{devices=[0,2]<=[0]}"), "expected at least one tile in each dimension", "[0,2]"),
        (("f32[4,4]", "{devices=[2,1]<=[2] foo}"), "expected a sharding item", "foo"),
        (("f32[4,4]", "{mesh['a'=8], [{'b'}, {}]}"), "unknown mesh axis 'b'", "'b'"),
        (("f32[4,4]", "P('dta')", "--mesh", "data=2"), "unknown mesh axis 'dta'", "dta"),
        (("f32[4,4]", "P('x')"), "the mesh is not in the text", ""),
        (("f32[4,4]",), "expected a sharding after the shape", ""),
        (("f32[4,4", "{replicated}"), "expected ']' after the sizes", ""),
        (("f32[4,4]", "{devices=[2,4]<=[8]}", "--mesh", "data=4,model=4"), "data=4,model=4 is 16 devices, the sharding has 8", ""),
        (("f32[4,4]", "{devices=[2,4]<=[8]}", "--device", "8"), "no device 8 among the 8 devices", ""),
        (("f32[4,4]", "{replicated}", "--device", "0"), "replicated sharding does not list its devices", ""),
        (("f32[4,4]", "{{replicated}, {replicated}}"), "2 shardings for 1 leaf", ""),
        (("token[]", "{devices=[2]<=[2]}"), "token[] is not an array", ""),
    ],
)  # fmt: skip
def test_errors_say_what_and_where(inputs: tuple[str, ...], message: str, caret: str) -> None:
    out, err, code = run(*inputs)
    assert (out, code) == ("", 2)
    assert message in err
    if caret:
        lines = err.splitlines()
        marks = next(line for line in lines if set(line.strip()) == {"^"})
        quoted = lines[lines.index(marks) - 1]
        assert quoted[marks.index("^") : len(marks)] == caret


def test_512_devices_stay_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    for sharding in (
        "{devices=[8,16,1,4]<=[4,128]T(1,0) last_tile_dim_replicate}",
        "{devices=[1,32,1,16]<=[16,32]T(1,0) last_tile_dim_replicate}",
        "{devices=[512,1,1]<=[512]}",
        "{devices=[8,8,8]<=[512]}",
        "{devices=[1,1,2,256]<=[512] last_tile_dim_replicate}",
        f"{{devices=[512,1,1]{','.join(map(str, Random(1).sample(range(512), 512)))}}}",
    ):
        shown = screen("f32[4096,4096,512]", sharding, monkeypatch=monkeypatch).splitlines()
        assert len(shown) <= 40
        drawn = [line for line in shown if not line.startswith(("next:", "      hlo"))]
        assert max(map(len, drawn)) <= 80
        assert shown[0].startswith("Each of 512 devices holds")


def test_what_is_not_drawn_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = screen("f32[64,64,64]", "{devices=[2,16,8,2]<=[512] last_tile_dim_replicate}", monkeypatch=monkeypatch)
    assert "not shown: " in shown
    assert "drawn for x 0–7: 1 of 8 planes" in shown


def test_every_device_of_random_shardings_is_in_the_table() -> None:
    """The rows agree with `shards`, and any of them can be asked for."""
    rng = Random(5)
    for _ in range(16):
        rank = rng.randint(1, 4)
        text, sizes = random_sharding(rng, rank), random_sizes(rng, rank)
        shape, sharding = f"f32[{','.join(map(str, sizes))}]", read(text)
        if not placement_of(sharding).is_tiled:
            continue
        found = answer(shape, text)
        rows = found["tables"]["devices"]["rows"]
        expected = shards(parse_shape(shape), sharding, device_count=devices_of(sharding))
        assert [(row["device"], tuple(row["start"]), tuple(row["limit"])) for row in rows] == [
            (each.device, each.starts, each.limits) for each in expected
        ]
        asked = rng.choice(expected)
        one = answer(shape, text, "--device", str(asked.device))["answer"]
        assert (tuple(one["start"]), tuple(one["limit"])) == (asked.starts, asked.limits)


def test_a_tuple_of_a_dump_has_a_row_for_each_leaf(tmp_path: Path) -> None:
    dump = tmp_path / "module.txt"
    sharding = "{{devices=[2,2]<=[4]}, {devices=[4]<=[4]}, {replicated}}"
    text = f"ENTRY e {{ ROOT w = (f32[16,6], (s32[8], pred[])) parameter(0), sharding={sharding} }}"
    dump.write_text(f"HloModule m, num_partitions=4\n{text}\n")
    rows = answer(f"{dump}:w")["tables"]["leaves"]["rows"]
    assert [(row["index"], row["shard_bytes"], row["copies"]) for row in rows] == [
        ([0], 96, 1),
        ([1, 0], 8, 1),
        ([1, 1], 1, 4),
    ]
    held = answer(f"{dump}:w", "--device", "3")["tables"]["leaves"]["rows"]
    assert [row["slice"] for row in held] == ["[8:16, 3:6]", "[6:8]", "[]"]
    assert answer(f"{dump}:w{{1,0}}")["answer"]["shard"] == "s32[2]{0}"


def test_an_instruction_of_a_dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header = 'num_partitions=8, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["data"=4, "model"=2]>}}'
    dump = tmp_path / "module.txt"
    text = "ENTRY e { ROOT w = f32[16,6] parameter(0), sharding={devices=[4,2]<=[8]} }"
    dump.write_text(f"HloModule m, {header}\n{text}\n")
    shown = screen(f"{dump}:w", "--device", "5", monkeypatch=monkeypatch)
    assert shown.startswith("Device 5 holds [8:12, 3:6] of f32[16,6]")
    assert "data=2, model=1" in shown


EXPLAINED = """HloModule m, num_partitions=8

ENTRY %s {
  w = f32[16,6]{1,0} parameter(0), sharding={devices=[4,2]<=[8]}
  n = f32[16,6]{1,0} negate(w), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
  ROOT t = (f32[16,6]{1,0}) tuple(n), sharding={{replicated}}
}
"""


@pytest.mark.parametrize(
    ("entry", "name", "meaning"),
    [
        ("e", "n", "each of 8 devices holds f32[8,6]: devices 0–3 [0:8, 0:6], devices 4–7 [8:16, 0:6]"),
        ("e", "t", "one sharding for each of 1 value"),
        # after partitioning, the shape in the text is that of one device
        ("e_spmd", "w", "of f32[64,12], each of 8 devices holds f32[16,6]: device 0 [0:16, 0:6], device 1 [0:16, 6:12], …, device 7 [48:64, 6:12]"),
    ],
)  # fmt: skip
def test_an_explained_instruction_says_who_holds_what(entry: str, name: str, meaning: str, tmp_path: Path) -> None:
    dump = tmp_path / "module.txt"
    dump.write_text(EXPLAINED % entry)
    out, err, code = run(str(dump), "--explain", name, "--format", "json", command="parse")
    assert code == 0, err
    assert json.dumps(meaning) in out


def test_an_explained_instruction_points_to_its_sharding(tmp_path: Path) -> None:
    dump = tmp_path / "module.txt"
    dump.write_text(EXPLAINED % "e")
    out, _, _ = run(str(dump), "--explain", "n", "--format", "screen", command="parse")
    assert f"next: hlo shard {dump}:n" in out
    out, _, _ = run(str(dump), "--explain", "w", "--format", "screen", command="parse")
    assert "device 7 [12:16, 3:6]" in " ".join(out.split())


def test_a_shape_with_a_sharding_needs_no_command() -> None:
    expected, _, _ = run(*UNEVEN)
    assert run(*UNEVEN, command="")[0] == expected
    assert run("f32[10,6]", "P('x')", "--mesh", "x=2", command="")[2] == 0


def test_a_pasted_sharding_is_drawn() -> None:
    shown, _, code = run("{devices=[2,2]<=[2,2]T(1,0)}", "--format", "screen", command="")
    assert code == 0
    for row in ("  0 │ 0 │ 2 │", "  1 │ 1 │ 3 │", "next: hlo shard 'f32[8,8]' '{devices=[2,2]<=[2,2]T(1,0)}'"):
        assert row in shown


def test_an_instruction_without_a_sharding_takes_a_given_one(tmp_path: Path) -> None:
    dump = tmp_path / "module.txt"
    dump.write_text("HloModule m\nENTRY e { ROOT w = f32[16,6] parameter(0) }\n")
    assert answer(f"{dump}:w", "{devices=[4,2]<=[8]}")["answer"]["shard"] == "f32[4,3]{1,0}"
    _, err, code = run(f"{dump}:w")
    assert code == 2
    assert "w has no sharding" in err
