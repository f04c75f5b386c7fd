"""Warnings of XLA in place of a module: resharding and slow operations, in the wordings of all releases."""

from __future__ import annotations

import json
from math import ceil, prod

import pytest

from hlo_cli.cli import main
from hlo_cli.commands.pasted import compiler_messages
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.inputs.pasted.unwrapping import plain_lines
from hlo_cli.report.report import Report
from hlo_cli.report.text import Passage, line_of, plain_text
from hlo_cli.syntax.compiler_messages.compiler_warnings import seconds_of

BEFORE, AFTER = "{devices=[3,8,2]<=[6,8]T(1,0) last_tile_dim_replicate}", "{devices=[1,48]<=[48]}"
OPERATION = '%scaled = f32[50,72]{1,0} multiply(%left, %right), metadata={op_name="jit(step)/mul" source_file="net.py" source_line=31}'
OLD = "E0101 10:00:00.000000 77 spmd_partitioner.cc:500] [spmd] Involuntary full rematerialization. The compiled was not able to go from sharding {0} to {1} without doing a full rematerialization of the tensor. You probably want to enrich the sharding annotations to prevent this from happening."
MIDDLE = "2024-12-01 10:00:00.000000: E external/xla/xla/service/spmd/spmd_partitioner.cc:613] [spmd] Involuntary full rematerialization. The compiler was not able to go from sharding {0} to {1} without doing a full rematerialization of the tensor for HLO operation: {2}, sharding={0}. You probably want to enrich the sharding annotations to prevent this from happening."
NEW = "W1123 01:00:00.000000 77 spmd_partitioner.cc:656] [SPMD] Involuntary full rematerialization. The compiler cannot go from sharding {0} to {1} efficiently for HLO operation {2}, sharding={0}. As the last resort, SPMD will replicate the tensor and then partition it to obtain the target sharding, which is inefficient."


def resharded(text: str) -> Report:
    """The report on resharding warnings."""
    return compiler_messages.resharding_report(PastedText("resharding", "-", plain_lines(text)))


def slow(text: str) -> Report:
    """The report on slow operations."""
    return compiler_messages.slow_operation_report(PastedText("slow-operation", "-", plain_lines(text)))


def prose(report: Report) -> str:
    """All paragraphs of a report."""
    return " ".join(
        plain_text(line_of(each)) for part in report.parts if isinstance(part, Passage) for each in part.paragraphs
    )


@pytest.mark.parametrize("wording", [MIDDLE, NEW])
def test_the_cost_of_a_resharding_is_that_of_the_whole_array(wording: str) -> None:
    found = resharded(wording.format(BEFORE, AFTER, OPERATION))
    whole = (50 * 3, 72 * 8)  # the warning shows the part of one device
    after = (whole[0], ceil(whole[1] / 48))
    assert found.numbers["whole_bytes"] == 4 * prod(whole)
    assert found.numbers["part_bytes_before"] == 4 * 50 * 72
    assert found.numbers["part_bytes_after"] == 4 * prod(after)
    assert found.numbers["received_bytes"] == 4 * (prod(whole) - 50 * 72)
    assert found.answer == "Every device gathers all of f32[150,576], 337.5 KiB, to keep 7.0 KiB of it (1 warning)"
    assert (found.numbers["op_name"], found.numbers["source"]) == ("jit(step)/mul", "net.py:31")
    assert "jit(step)/mul, net.py:31" in prose(found)
    assert "each of the 24 parts is on 2 of 48 devices" in prose(found)
    rows = [tuple(row) for table in found.tables if table.name == "instruction" for row in table.rows]
    [sharding] = [row[3] for row in rows if row[1] == "sharding"]
    assert sharding == "dimension 0 in 3 parts, dimension 1 in 8 parts; each of the 24 parts is on 2 of 48 devices"


def test_a_warning_wrapped_by_a_terminal_is_the_same() -> None:
    flat = resharded(NEW.format(BEFORE, AFTER, OPERATION))
    text = (
        NEW.format(BEFORE, AFTER, OPERATION).replace(" to {", "\nto\n{").replace("HLO operation", "HLO\n   operation")
    )
    assert resharded(text).numbers == flat.numbers


def test_warnings_without_an_instruction_say_so() -> None:
    found = resharded(OLD.format("{devices=[4,1,1]0,1,2,3}", "{devices=[1,2,2]0,1,2,3}", ""))
    assert found.answer == "Every device gathers the whole array, 4 times its own part (1 warning)"
    assert "does not name the instruction" in found.notes[0].message
    assert "xla_dump_to" in prose(found)


def test_equal_warnings_are_one_row_and_the_largest_is_first() -> None:
    small = "%tiny = f32[2,4]{1,0} copy(%x)"
    text = "\n".join(MIDDLE.format(BEFORE, AFTER, each) for each in (small, OPERATION, small))
    cut = MIDDLE.format(BEFORE, AFTER, OPERATION)[:300]
    found = resharded(f"{text}\n{cut[: cut.index('<=[48]')]}")
    table = found.main_table
    counts = [(row[0], row[4]) for row in table.rows]
    assert counts[0] == (1, "scaled")
    assert [count for count, _ in counts] == [1, 3]
    assert (3, "tiny") in counts  # the cut one begins like them


def test_ranks_that_do_not_fit_are_named() -> None:
    found = resharded(
        MIDDLE.format("{devices=[1,1,2]<=[2]}", "{devices=[2]<=[2]}", "%p = f64[9]{0} pad(%a, %b), padding=1_1")
    )
    assert found.notes[-1].message == "the cost is unknown: the sharding divides 3 dimensions, but the result has 1"


def test_one_device_and_elided_texts() -> None:
    found = resharded(
        MIDDLE.format(
            "{maximal device=0}", "{devices=[5,1]<=[5]}", "%g = bf16[35,6]{1,0} get-tuple-element((f32[2]{0}, ...)"
        )
    )
    assert found.numbers["whole_bytes"] == 35 * 6 * 2
    assert found.numbers["part_bytes_after"] == 7 * 6 * 2
    found = resharded(
        "[SPMD] Involuntary full rematerialization. The compiler cannot go from sharding {...} to {...} efficiently"
    )
    assert found.answer == "Every device gathers a whole array to change its sharding (1 warning)"


FOLDING = "2024-01-01 10:00:00.000000: E external/xla/xla/service/slow_operation_alarm.cc:65] Constant folding an instruction is taking > {0}:\n\n  {1}\n\nThis isn't necessarily a bug; constant-folding is inherently a trade-off between compilation time and speed at runtime.\n"


def test_the_work_of_folding_a_reduction() -> None:
    text = '%sum.4 = f64[300,7]{1,0} reduce(f64[300,11,7]{2,1,0} %broadcast.9, f64[] %zero), dimensions={1}, to_apply=%add, metadata={op_name="jit(g)/sum" source_file="loss.py" source_line=8}'
    found = slow(FOLDING.format("4s", text))
    assert found.numbers["evaluations"] == 300 * 11 * 7
    assert found.numbers["bytes"] == 300 * 7 * 8
    assert (
        found.answer
        == "XLA computes sum.4 during compilation (more than 4 s): a constant of 16.4 KiB with 23,100 evaluations"
    )
    assert "jit(g)/sum, loss.py:8" in prose(found)
    assert "broadcast.9 (180.5 KiB)" in prose(found)
    assert "2 came before this one" in found.notes[0].message


def test_windows_and_matmuls_are_multiplied() -> None:
    window = "%w = f32[40,50]{1,0} reduce-window(%a, %b), window={size=3x5 pad=1_1x2_2}, to_apply=%f"
    assert slow(FOLDING.format("1s", window)).numbers["evaluations"] == 40 * 50 * 15
    dot = (
        "%d = f32[6,8]{1,0} dot(f32[6,9]{1,0} %a, f32[9,8]{1,0} %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    )
    assert slow(FOLDING.format("1s", dot)).numbers["evaluations"] == 6 * 8 * 9


def test_a_name_alone_and_the_time_that_it_took() -> None:
    text = FOLDING.format(
        "1s",
        "reduce-window.3 (displaying the full instruction incurs a runtime overhead. Raise your logging level to 4 or above).",
    )
    done = (
        "E external/xla/xla/service/slow_operation_alarm.cc:133] The operation took 1m2.5s\n" + text.partition("] ")[2]
    )
    found = slow(text + done)
    assert found.answer == "XLA computes reduce-window.3 during compilation (62.5 s)"
    assert found.numbers["warnings"] == 2
    assert len(found.main_table.rows) == 1


@pytest.mark.parametrize(
    "text",
    [
        "[Compiling module jit_step] Very slow compile? If you want to file a bug, run with envvar XLA_FLAGS=--xla_dump_to=/tmp/foo",
        "Very slow compile?  If you want to file a bug, run with envvar XLA_FLAGS=--xla_dump_to=/tmp/foo\nCompiling module jit_step\n****",
    ],
)
def test_slow_compilations_of_old_and_new_releases(text: str) -> None:
    found = slow(f"E external/xla/xla/service/slow_operation_alarm.cc:73]\n********************************\n{text}\n")
    assert found.answer == "Compiling jit_step is slow (more than 120 s)"
    assert "hlo parse DIR" in prose(found)


def test_an_unoptimized_build_and_a_trial_of_an_algorithm() -> None:
    found = slow(
        "Slow compile?  XLA was built without compiler optimizations, which can be slow.  Try rebuilding with -c opt."
    )
    assert found.answer == "XLA was built without compiler optimizations, so compilation is slow"
    found = slow(
        'Trying algorithm eng3{k5=1} for conv (f32[2,8,9,9]{3,2,1,0}, u8[0]{0}) custom-call(f32[2,4,9,9]{3,2,1,0} %a, f32[8,4,3,3]{3,2,1,0} %b), window={size=3x3 pad=1_1x1_1}, custom_call_target="__cudnn$convForward" is taking a while...'
    )
    assert found.answer == "Trying the algorithm eng3{k5=1} for custom-call is slow"
    assert found.numbers["bytes"] == 2 * 8 * 9 * 9 * 4


def test_durations() -> None:
    assert [seconds_of(each) for each in ("2m3s", "1.5ms", "1h", "7us")] == [123, 0.0015, 3600, 7e-6]


def test_every_format_has_the_facts(capsys: pytest.CaptureFixture[str], tmp_path: object) -> None:
    path = f"{tmp_path}/warning.txt"
    with open(path, "w", encoding="utf-8") as file:
        file.write(NEW.format(BEFORE, AFTER, OPERATION))
    assert main(["parse", path, "--format", "json"], standalone=False) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["answer"]["whole_bytes"] == 345_600
    assert found["tables"]["warnings"]["rows"][0]["instruction"] == "scaled"
    assert main(["parse", path, "--format", "tsv"], standalone=False) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert dict(zip(header.lstrip("#").split("\t"), row.split("\t"), strict=True))["whole_bytes"] == "345600"
