"""`hlo tile-index` from questions to answers: every way to ask gives the same, and files come back as they were asked."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hlo_cli
from hlo_cli.cli import main
from hlo_cli.source import HloError
from hlo_cli.syntax.indices import read_selection, read_slots

SHAPE = "bf16[300,70]{1,0:T(8,128)(2,1)}"
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
    np.save(tmp_path / "rows.npy", np.array(ASKED, np.int32))
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
    "text", ["", "1", "1,2,3", "1,", "1,x", "3,0", "0,-6", "1:2:0,0", "1:2:3:4,0", "...,...", "0x,1", "1.5,2"]
)
def test_what_is_no_index_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(HloError) as error:
        read_selection(text, (3, 5))
    assert error.value.diagnostic.span is not None


@pytest.mark.parametrize("text", ["-1", "64", "x", "1,2", "0x"])
def test_what_is_no_slot_is_refused(text: str) -> None:
    with pytest.raises(HloError):
        read_slots(text, 64)


def test_lines_of_files_are_named_in_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "asked.txt").write_text("1,2\n1,x\n")
    assert main(["tile-index", SHAPE, str(tmp_path / "asked.txt")], standalone=False) == 2
    assert "asked.txt:2" in capsys.readouterr().err
    for data in (b"\x93NUMPY\x01", b"\xff\xfe\x00", b'{"a": 1}\n', b"{\n"):
        (tmp_path / "bad").write_bytes(data)
        assert main(["tile-index", SHAPE, str(tmp_path / "bad")], standalone=False) == 2
        assert capsys.readouterr().err.startswith("error: ")


def test_a_map_of_a_thousand_million_elements_begins_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    from hlo_cli.commands.tile_index_rows import addresses_table
    from test_tiling import array

    shape = array("s8[1000000000]{0:T(1024)}")
    table = addresses_table(shape, [read_selection(":", shape.sizes)], bits=8, base=0)
    assert len(table.rows) == 10**9
    assert table.rows[1025][:2] == ((1025,), 1025)
