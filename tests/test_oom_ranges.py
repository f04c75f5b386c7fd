"""Ranges in the report on memory usage after an error of a TPU compiler: read from any text, explained, never added."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from hlo_cli import parse_module
from hlo_cli.analysis.memory.memory_analysis import memory_analysis
from hlo_cli.analysis.memory.oom_advice import explaining_shape, is_shown, with_range_shapes
from hlo_cli.analysis.memory.oom_dump_comparison import compare
from hlo_cli.commands.memspace.oom import report_of_message
from hlo_cli.ir.out_of_memory import MemoryPart, OomAllocation, OutOfMemory
from hlo_cli.report.table import UNKNOWN
from hlo_cli.report.text import line_of, plain_text
from hlo_cli.source import HloError, Source
from hlo_cli.syntax.byte_sizes import byte_number, byte_text
from hlo_cli.syntax.out_of_memory.read_logs import newest, parse_out_of_memory
from hlo_cli.syntax.scanning.shape_reader import parse_shape
from oom_messages import TPU_RANGES
from timing import is_linear

GIB = 1 << 30
TPU_LOG = (
    "W0102 10:11:12.000000 77 hlo_rematerialization.cc:3920] Can't reduce memory use below 12.00GiB (12884901888 bytes) "
    "by rematerialization; only reduced to 21.00GiB (22548578304 bytes), down from 24.00GiB (25769803776 bytes) "
    f"originally\n{TPU_RANGES}"
)
HEAD = (
    "Ran out of memory in memory space hbm. Used 9.00G of 8.00G hbm. Exceeded hbm capacity by 1.00G. HLO module: jit_f. "
    "Memory usage report: \n\n"
)
TABLE = "  cumulative_size;       size;       offset; used_by_n_values; shapes_list\n  " + "-" * 60 + "\n"
Fact = tuple[str, int | None, int, int, str]


def failure(text: str) -> OutOfMemory:
    return newest(parse_out_of_memory(Source("error.txt", text)))


def facts(message: OutOfMemory) -> list[Fact]:
    """Space, size, offset, number of values, and shapes of each range."""
    found = []
    for each in (*message.allocations, *message.other_ranges):
        if (place := each.range) is not None:
            shapes = ", ".join(
                (f"{count}×" if count > 1 else "") + shape.to_string(layout=False) for count, shape in place.shapes
            )
            found.append((place.space, each.size_bytes, place.offset_bytes, place.value_count, shapes))
    return found


def written(text: str) -> list[Fact]:
    """The same, read from the lines of the plain text."""
    found: list[Fact] = []
    space = ""
    for line in text.split("\n"):
        if line.startswith("Memory Space: "):
            space = line.split()[2]
        cells = [cell.strip() for cell in line.split(";", 4)]
        if len(cells) == 5 and cells[2].isdigit():
            found.append((space, byte_number(cells[1]), int(cells[2]), int(cells[3]), cells[4]))
    return found


def one(row: str, space: str = "default (color=0)") -> OomAllocation:
    """The range of a row, with what explains its size."""
    text = f"{HEAD}Memory Space: {space}\nTotal bytes: 9663676416 (9.00GiB)\n{TABLE}{row}\n\n{TABLE}"
    [found] = with_range_shapes(failure(text)).allocations
    return found


def advice(text: str) -> list[str]:
    found = report_of_message(Source("error.txt", text))
    passages = (part for part in found.parts if part.kind == "passage" and part.name == "what_to_do")
    return [plain_text(line_of(line)) for part in passages for line in part.paragraphs]


def test_every_row_of_every_space_is_read() -> None:
    message = failure(TPU_LOG)
    assert facts(message) == written(TPU_LOG)
    assert len(message.allocations) == 7
    assert {each.range.space for each in message.allocations if each.range} == {"default"}
    assert message.spaces == (
        MemoryPart("default", 20411581952),
        MemoryPart("vmem", 4194304),
        MemoryPart("color_6", 0),
    )


def test_log_line_and_exception_are_one_message() -> None:
    warning, message = parse_out_of_memory(Source("error.txt", TPU_LOG))
    assert warning.kind == "rematerialization"
    assert (message.code, message.module, message.repetitions) == ("E1000", "jit_step", 1)
    assert (message.used_bytes, message.limit_bytes) == (byte_number("19.01G"), byte_number("15.75G"))
    assert message.exceeded_by_bytes == byte_number("3.26G")


def test_a_space_that_is_not_the_main_memory() -> None:
    text = TPU_LOG.replace("memory space hbm. Used 19.01G of 15.75G hbm", "memory space vmem. Used 4.00M of 2.00M vmem")
    message = failure(text.partition("E0102 10:11:12.345679")[0])
    assert [each.range.space for each in message.allocations if each.range] == ["vmem", "vmem"]


@pytest.mark.parametrize("first", ["Memory Space: default", "  cumulative_size", "    5.00GiB"])
def test_text_without_its_start_keeps_the_rows(first: str) -> None:
    """The exception after the rows has the figures; rows before the space of color 1 are those of the main memory."""
    text = TPU_LOG[TPU_LOG.index(first) :]
    assert facts(failure(text)) == [(space or "default", *rest) for space, *rest in written(text)]


def test_rows_of_an_unknown_space_are_not_blamed() -> None:
    text = TPU_LOG[TPU_LOG.index("    3.00MiB") :]
    message = failure(text)
    assert message.allocations == ()
    assert {space for space, *_ in facts(message)} == {""}


def test_cut_anywhere_gives_only_rows_of_the_text() -> None:
    chance = random.Random(5)
    start = TPU_LOG.index("Total bytes")
    complete = written(TPU_LOG)
    for _ in range(150):
        end = chance.randrange(start, len(TPU_LOG))
        message = failure(TPU_LOG[:end])
        for space, size, offset, count, shapes in facts(message):
            known = [fact[4] for fact in complete if fact[:4] == (space, size, offset, count)]
            assert any(each.startswith(shapes) for each in known)
        for each in message.allocations:
            if each.range is not None and each.range.is_one_value:
                assert each.size_bytes in (5 * GIB, 512)


def test_damage_never_fails_and_never_invents_sizes() -> None:
    chance = random.Random(7)
    sizes = {fact[1] for fact in written(TPU_LOG)}
    for _ in range(150):
        lines = TPU_LOG.split("\n")
        for _ in range(3):
            at = chance.randrange(len(lines))
            line = lines[at]
            lines[at] = chance.choice(["", line[: len(line) // 2], line + line, line.replace(";", ",", 1)])
        text = "\n".join(lines)
        try:
            found = parse_out_of_memory(Source("error.txt", text))
        except HloError:
            continue
        assert {each.size_bytes for message in found for each in message.allocations} <= sizes


@pytest.mark.parametrize(
    ("shape", "padded"),
    [
        ("f32[4096,70]", 4096 * 128 * 4),
        ("f32[70,4096]", 72 * 4096 * 4),
        ("bf16[1000,5,900]", 1000 * 8 * 1024 * 2),
        ("f32[300,1001,7]", 7 * 304 * 1024 * 4),
        ("s8[100,100]", 104 * 128),
    ],
)
def test_padding_is_known_where_a_layout_explains_the_size(shape: str, padded: int) -> None:
    found = one(f"   1.0KiB(  1%);   {byte_text(padded)};   0;   1; {shape}")
    assert found.has_padding
    assert found.shape is not None
    logical = parse_shape(shape).logical_bytes
    assert found.padding_bytes == padded - logical


def test_padding_is_unknown_where_nothing_explains_the_size() -> None:
    found = one("   1.0KiB(  1%);   7.77MiB;   0;   2; f32[100], f32[1000,1000]")
    assert not found.has_padding
    assert str(found.shape) == "f32[1000,1000]{1,0}"
    shown = report_of_message(Source("a", TPU_LOG.replace(" 8.00GiB; ", " 7.77GiB; ")))
    table = next(part for part in shown.parts if part.kind == "table" and part.name == "ranges")
    paddings = [row[2] for row in table.rows]
    assert paddings[0] is UNKNOWN
    assert 0 in paddings


def test_two_shapes_of_different_size_leave_the_padding_unknown() -> None:
    found = one("   1.0MiB(  1%);   2.00MiB;   0;   2; f32[4096,128], f32[4096,126]")
    assert not found.has_padding
    assert found.shape is not None
    assert found.shape.to_string(layout=False) == "f32[4096,128]"


def test_sizes_are_compared_as_messages_round_them() -> None:
    chance = random.Random(9)
    for _ in range(400):
        size = chance.randrange(1, 1 << chance.randrange(4, 45))
        assert is_shown(size, byte_number(byte_text(size))), size
        assert not is_shown(size, byte_number(byte_text(size * 11 // 10 + 1))), size
    assert explaining_shape(parse_shape("f32[2048,2048]"), 15 << 20) is None


def test_ranges_have_no_sum() -> None:
    message = failure(TPU_LOG)
    assert message.allocated_bytes is None
    assert message.padding_bytes is None
    report = report_of_message(Source("error.txt", TPU_LOG))
    assert report.numbers["listed_bytes"] is None
    table = next(part for part in report.parts if part.kind == "table" and part.name == "ranges")
    assert all(column.total is None for column in table.columns)
    assert [row[0] for row in table.rows] == [8 * GIB, 6 * GIB, 6 * GIB, 5 * GIB, 512, 512, 512]
    [note] = report.notes
    assert "25.0 GiB in all) do not add up to the 19.0 GiB needed" in note.message


def test_the_sentence_and_the_advice_have_the_figures_of_the_error() -> None:
    report = report_of_message(Source("error.txt", TPU_LOG))
    assert plain_text(line_of(report.answer)) == (
        "Out of HBM during compilation of jit_step: the program needs 19.0 GiB but only 15.8 GiB is available (3.3 GiB "
        "over); the largest range of memory holds f32[262144,6,1000] and 3 other values one after another (8 GiB, 27% "
        "padding)"
    )
    lines = advice(TPU_LOG)
    best = 1000 * 6 * 262144 * 4
    assert lines[0].startswith("1. Shrink f32[262144,6,1000] and the other values in the largest range (8 GiB)")
    assert f"that array has {best / GIB:.1f} GiB." in lines[0]
    assert lines[1].startswith("2. Shrink the program by 18% (3.3 GiB of 19.0 GiB)")
    assert not any("21.0 GiB" in line or "12 GiB" in line for line in lines)
    assert next(part for part in report.parts if part.name == "messages").kind == "table"


def test_values_with_allocations_of_their_own_have_a_sum() -> None:
    rows = "".join(f"{TABLE}   20.00GiB(100%);   20.00GiB;   0;   1; f32[5120,1048576]\n\n" for _ in range(2))
    head = HEAD.replace("9.00G", "40.00G").replace("by 1.00G", "by 32.00G")
    text = f"{head}Memory Space: default (color=0)\nTotal bytes: 42949672960 (40.00GiB)\n{rows}{TABLE}"
    assert (
        "over at least 5 devices: 2 allocations with one value each (arguments, results, constants, or others) alone need 40 GiB, HBM has 8 GiB."
        in advice(text)[0]
    )


def test_ranges_match_the_values_of_a_dump() -> None:
    module = parse_module(
        "HloModule jit_step, is_scheduled=true\n"
        "ENTRY main {\n"
        "  p = bf16[2560,1048576]{1,0:T(8,128)(2,1)} parameter(0)\n"
        '  c = f32[3,262144,2048]{2,1,0:T(8,128)} custom-call(p), custom_call_target="f"\n'
        "  d = f32[3,262144,2048]{2,1,0:T(8,128)} negate(c)\n"
        '  ROOT r = f32[262144,6,1000]{2,1,0:T(8,128)} custom-call(d), custom_call_target="g"\n'
        "}\n"
    )
    message = with_range_shapes(newest(parse_out_of_memory(Source("error.txt", TPU_LOG), module)))
    comparison = compare(message, memory_analysis(module), is_optimized=True)
    names = [{each.name for each in match.candidates} for match in comparison.matches]
    assert names[:4] == [{"r"}, set(), {"c", "d"}, {"p"}]
    assert not comparison.missing
    assert not any(match.differs for match in comparison.matches)


def test_the_command_answers_with_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from hlo_cli.cli import main

    error = tmp_path / "error.txt"
    error.write_text(TPU_LOG)
    assert main(["memspace", "--oom", str(error), "--format", "json"], standalone=False) == 0
    found = json.loads(capsys.readouterr().out)
    rows = found["tables"]["ranges"]["rows"]
    assert [row["values"] for row in rows] == [4, 2, 1, 1, 7, 1, 1]
    assert rows[0]["shapes"] == "bf16[262144,6,1000], f32[262144,6,1000], 2×s32[262144,6,1000]"
    assert [row["space"] for row in found["tables"]["other_ranges"]["rows"]] == ["vmem", "vmem"]


@pytest.mark.parametrize(
    "repeated",
    [
        "   1.0KiB(  1%);   1.0KiB;   0;   1; f32[8]\n",
        "   1.0KiB(  1%);   1.0KiB;   0;   1; (f32[8], (",
        "2×",
        "1",
        "Memory Space: default (color=0)\nTotal bytes: 1 (1B)\n",
        "Memory Space: a",
    ],
)
def test_long_texts_take_linear_time(repeated: str) -> None:
    def read(size: int) -> Callable[[], object]:
        text = HEAD + TABLE + "  1.0KiB(1%); 1.0KiB; 0; 1; " + repeated * size
        return lambda: parse_out_of_memory(Source("error.txt", text))

    assert is_linear(read, 500, 4000)


def test_an_excess_of_few_digits_does_not_leave_more_than_the_memory() -> None:
    head = HEAD.replace("9.00G", "50.25T").replace("by 1.00G", "by 50.24T")
    assert any("from 50.3 TiB to at most 8 GiB." in line for line in advice(head))


def test_a_value_larger_than_the_memory_is_named_once() -> None:
    head = HEAD.replace("9.00G", "90.00G").replace("by 1.00G", "by 82.00G")
    rows = (
        "   80.00GiB(100%);   80.00GiB;   1024;   2; s32[8], f32[20480,1048576]\n   80.00GiB(100%); 512B; 0; 1; s32[]\n"
    )
    lines = advice(f"{head}Memory Space: default (color=0)\nTotal bytes: 96636764160 (90.00GiB)\n{TABLE}{rows}\n")
    assert "Shard f32[20480,1048576] over at least 10 devices" in lines[0]
    assert sum("f32[20480,1048576]" in line for line in lines) == 1
