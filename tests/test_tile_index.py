"""`hlo tile-index` from questions to answers: every way to ask gives the same, and files come back as they were asked."""

from __future__ import annotations

import gzip
import io
import json
import lzma
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hlo_cli
from hlo_cli.analysis.layout.buffer_sizes import buffer_bytes
from hlo_cli.analysis.layout.layout_steps import addressable
from hlo_cli.cli import main
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.source import HloError
from hlo_cli.syntax.scanning.shape_reader import parse_shape, read_selection, read_slots

SHAPE = "bf16[300,70]{1,0:T(8,128)(2,1)}"
NINES = "9" * 5000
ASKED = [(37, 5), (299, 69), (0, 0), (12, 34)]


def answers(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    """The rows that a command line gives as jsonl."""
    assert main(["tile-index", *arguments, "--format", "jsonl"], standalone=False) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_every_file_of_questions_gives_the_same_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lines.txt").write_text("".join(f"{y}, {x}\n" for y, x in ASKED) + "\n# done\n")
    (tmp_path / "table.csv").write_text("y,x\n" + "".join(f"{y},{x}\n" for y, x in ASKED))
    (tmp_path / "own.csv").write_text("index,linear_index\n" + "".join(f'"{y},{x}",0\n' for y, x in ASKED))
    (tmp_path / "lists.jsonl").write_text("".join(f"[{y}, {x}]\n" for y, x in ASKED))
    (tmp_path / "records.jsonl").write_text("".join(f'{{"n": 1, "index": [{y}, {x}]}}\n' for y, x in ASKED))
    (tmp_path / "quoted.csv").write_text("".join(f'"{y},{x}"\n' for y, x in ASKED))
    (tmp_path / "marked.csv").write_bytes("".join(f"{y};{x}\r\n" for y, x in ASKED).encode("utf-8-sig"))
    (tmp_path / "list.json").write_text(json.dumps(ASKED))
    (tmp_path / "packed.gz").write_bytes(gzip.compress((tmp_path / "table.csv").read_bytes()))
    (tmp_path / "packed.xz").write_bytes(lzma.compress((tmp_path / "records.jsonl").read_bytes()))
    np.save(tmp_path / "rows.npy", np.array(ASKED, np.int32))
    np.save(tmp_path / "columns.npy", np.asfortranarray(ASKED, dtype=">u2"))
    expected = [hlo_cli.linear_index(hlo_cli.parse_shape(SHAPE), index) for index in ASKED]
    for file in sorted(tmp_path.iterdir()):
        assert [row["linear_index"] for row in answers(capsys, SHAPE, str(file))] == expected, file.name
    typed = answers(capsys, SHAPE, *(f"{y},{x}" for y, x in ASKED))
    assert [row["linear_index"] for row in typed] == expected


def test_the_inverse_reads_what_the_map_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("map.csv", "map.tsv", "map.jsonl"):
        there = str(tmp_path / name)
        assert (
            main(["tile-index", "f32[3,5]{1,0:T(2,2)}", "--all", "--format", name[4:], "-o", there], standalone=False)
            == 0
        )
        back = answers(capsys, "f32[3,5]{1,0:T(2,2)}", there, "--inverse")
        assert [row["element"] for row in back] == [list(index) for index in np.ndindex(3, 5)]
        in_bytes = answers(capsys, "f32[3,5]{1,0:T(2,2)}", there, "--inverse", "--bytes")
        assert [row["element"] for row in in_bytes] == [row["element"] for row in back]


def test_npy_files_hold_the_map(tmp_path: Path) -> None:
    shape, there = hlo_cli.parse_shape(SHAPE), tmp_path / "x.npy"

    def written(*arguments: str) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        assert main(["tile-index", SHAPE, *arguments, "-o", str(there)], standalone=False) == 0
        found: np.ndarray[tuple[int, ...], np.dtype[np.int64]] = np.load(there)
        return found

    whole = hlo_cli.address_map(shape)
    assert np.array_equal(written("--all"), whole)
    assert np.array_equal(written("--all", "--bytes"), whole * 2)
    assert np.array_equal(written("3,5", "::7,1:3", "0,-1"), [whole[3, 5], *whole[::7, 1:3].ravel(), whole[0, -1]])
    assert np.array_equal(written("--all", "--inverse"), hlo_cli.element_at(shape, np.arange(38_912)))
    assert np.array_equal(written("--inverse", "--bytes", "0x1a40", "280"), [(26, 16), (-1, -1)])
    in_bytes = np.repeat(hlo_cli.element_at(shape, np.arange(38_912)), 2, axis=0)
    assert np.array_equal(written("--inverse", "--bytes", "5:900:3", "70000"), in_bytes[[*range(5, 900, 3), 70_000]])
    assert np.array_equal(written("--inverse", "--bytes", "--base", "4096", "--all"), in_bytes)
    assert np.array_equal(written("37,5", "--all"), [4619, *whole.ravel()])


def test_shapes_that_xla_calls_equal_keep_their_own_front() -> None:
    """XLA compares layouts without `M(n)`; nothing that is remembered for one shape may answer for the other."""
    for front in (1024, 8):
        array = parse_shape(f"f32[<=6]{{0:M({front})}}")
        assert isinstance(array, ArrayShape)
        assert addressable(array).layout.dynamic_shape_metadata_prefix_bytes == front
        assert buffer_bytes(array, "cpu") == array.padded_bytes


def test_npy_files_of_bytes_count_what_stands_in_front(tmp_path: Path) -> None:
    there = tmp_path / "x.npy"

    def written(shape: str, *arguments: str) -> list[object]:
        assert main(["tile-index", shape, "--bytes", *arguments, "-o", str(there)], standalone=False) == 0
        found: list[object] = np.load(there).tolist()
        return found

    assert written("f32[<=6]{0:M(8)}", ":2") == [8, 12]
    assert written("f32[<=6]{0:M(8)}", ":2", "--base", "100") == [108, 112]
    assert written("f32[<=6]{0:M(8)}", "7:13", "--inverse") == [[-1], [0], [0], [0], [0], [1]]
    assert written("f32[6]{0:E(24)}", ":3") == [0, 3, 6]
    assert written("s4[6]{0:E(4)}", ":5") == [0, 0, 1, 1, 2]


def test_bytes_of_huge_arrays_are_not_cut_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = tmp_path / "x.npy"
    huge = ["tile-index", f"s8[{2**62}]", "--bytes", "-1", "-o", str(there)]
    assert main(huge, standalone=False) == 0
    assert np.load(there).tolist() == [2**62 - 1]
    wide = ["tile-index", f"s8[{2**62}]{{0:E(32)}}", *huge[2:]]
    for arguments, why in ((wide, "array size exceeds"), ([*huge, "--base", str(2**63 - 1)], "buffer ends at byte")):
        assert main(arguments, standalone=False) == 2
        assert why in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--explain"], ["--draw"], ["--verify"], ["bf16[300,70]{0,1}"]])
def test_npy_files_hold_numbers_alone(arguments: list[str], tmp_path: Path) -> None:
    there = tmp_path / "x.npy"
    assert main(["tile-index", SHAPE, *arguments, "0,0", "-o", str(there)], standalone=False) == 2
    assert not there.exists()


def test_standard_input_is_asked_from(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Stdin:
        buffer = io.BytesIO(b"37,5\n(299, 69)\n")

    monkeypatch.setattr("sys.stdin", Stdin())
    assert [row["linear_index"] for row in answers(capsys, SHAPE, "-")] == [4619, 38283]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=3), st.data())
def test_selections_are_those_of_numpy(sizes: list[int], data: st.DataObject) -> None:
    ids = np.arange(int(np.prod(sizes))).reshape(sizes)
    bound = st.one_of(st.none(), st.integers(-12, 12))
    step = st.one_of(st.none(), st.integers(-3, 3).filter(bool))
    parts = [data.draw(st.builds(slice, bound, bound, step)) for _ in sizes]
    text = ",".join(":".join("" if n is None else str(n) for n in (p.start, p.stop, p.step)) for p in parts)
    selection = read_selection(data.draw(st.sampled_from(["", " "])) + f"[{text}]", tuple(sizes))
    assert [int(ids[index]) for index in selection.indices] == ids[tuple(parts)].ravel().tolist()
    assert selection.count == ids[tuple(parts)].size


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1,2,3",
        "1,",
        "1,x",
        "3,0",
        "0,-6",
        "1:2:0,0",
        "1:2:3:4,0",
        "...,...",
        "0x,1",
        "0x_,1",
        "1.5,2",
        f"{NINES},0",
        f"0:0x{NINES},0",
    ],
)
def test_what_is_no_index_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(HloError) as error:
        read_selection(text, (3, 5))
    assert error.value.diagnostic.span is not None


@pytest.mark.parametrize("text", ["-1", "64", "x", "1,2", "0x", NINES, f"0x{NINES}"])
def test_what_is_no_slot_is_refused(text: str) -> None:
    with pytest.raises(HloError):
        read_slots(text, 64)


@pytest.mark.parametrize("address", [NINES, f"0x{NINES}", "-1", "x", "0x", str(2**64)])
def test_what_is_no_address_is_refused(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tile-index", SHAPE, "--base", address, "0,0"], standalone=False) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: invalid value ")
    assert " for --base: expected a 64-bit address\n" in said
    assert len(said) < 200


def test_lines_of_files_are_named_in_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "asked.txt").write_text("1,2\n1,x\n")
    assert main(["tile-index", SHAPE, str(tmp_path / "asked.txt")], standalone=False) == 2
    said = capsys.readouterr().err
    assert "asked.txt:2:3\n" in said
    assert "\n2 │ 1,x\n" in said
    cube, whole = io.BytesIO(), io.BytesIO()
    np.save(cube, np.zeros((2, 2, 2), np.int64))
    np.save(whole, np.int64(3))
    for data in (
        *(b"\x93NUMPY\x01", b"\xff\xfe\x00", b'{"a": 1}\n', b"{\n", b"[" * 100_000, f"[{NINES}]".encode()),
        *(b"a,index\n0\n", b'index,a\n"' + b"1" * 200_000 + b'"\n', b"[[0,1],[2,true]]", b"0,1\0", gzip.compress(b"0")),
        *(cube.getvalue(), whole.getvalue(), whole.getvalue()[:-3], gzip.compress(b"0,1")[:-3]),
    ):
        (tmp_path / "bad").write_bytes(data)
        assert main(["tile-index", SHAPE, str(tmp_path / "bad")], standalone=False) == 2
        assert capsys.readouterr().err.startswith("error: ")


def test_a_map_of_a_thousand_million_elements_begins_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    from hlo_cli.commands.tile_index.report import addresses_table
    from test_tiling import array

    shape = array("s8[1000000000]{0:T(1024)}")
    table = addresses_table(shape, [read_selection(":", shape.sizes)], bits=8, base=0)
    assert len(table.rows) == 10**9
    assert table.rows[1025][:2] == ((1025,), 1025)


def test_what_is_asked_of_a_dump_says_which(capsys: pytest.CaptureFixture[str]) -> None:
    dump = str(Path(__file__).parent.parent / "fixtures" / "tpu" / "v5e_branches")
    for question in ([], ["0,0"], ["--inverse", "0"], ["f32[17,33]"]):
        assert main(["tile-index", f"{dump}:copy.1", *question, "--format", "json"], standalone=False) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["input"]["module"], found["input"]["instruction"]) == ("jit_run", "copy.1")
        assert "using stage after_optimizations, the latest of 2" in found["notes"][0]["message"]


@pytest.mark.parametrize("name", ["f32", "bf16", "f8e5m2", "c64", "s8", "pred"])
def test_a_second_shape_needs_no_layout(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tile-index", f"{name}[3,5]{{0,1}}", f"{name}[3,5]", "--format", "json"], standalone=False) == 0
    assert json.loads(capsys.readouterr().out)["answer"]["moved"] == 12


def test_every_element_has_an_explanation_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["2,3", "1,1"]
    assert main(["tile-index", "f32[3,5]{1,0:T(2,2)}", *asked, "--explain", "--format", "json"], standalone=False) == 0
    figures = json.loads(capsys.readouterr().out)["figures"]
    assert [figures[f"explanation of ({index})"]["linear_index"] for index in asked] == [17, 3]
