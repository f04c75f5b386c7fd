"""Warnings about full rematerialization as people posted them, in the wordings of all releases."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import fill

import pytest

from hlo_cli.cli import main
from hlo_cli.commands.shard.options import ShardOptions
from hlo_cli.commands.shard.reshard import report_of_warning
from hlo_cli.inputs.pasted.unwrapping import plain_lines
from hlo_cli.report.report import Report
from hlo_cli.report.table import UNKNOWN, Table
from hlo_cli.report.text import Passage, line_of, plain_text
from hlo_cli.source import HloError
from hlo_cli.syntax.compiler_messages.compiler_warnings import parse_resharding_warnings

OF_2022 = "[spmd] Involuntary full rematerialization. The compiled was not able to go from sharding {0} to {1} without doing a full rematerialization of the tensor. You probably want to enrich the sharding annotations to prevent this from happening."
OF_2023 = OF_2022.replace("compiled", "compiler")
OF_2024 = OF_2023.replace("of the tensor", "of the tensor for HLO operation: {2}, sharding={0}")
OF_TODAY = "[SPMD] Involuntary full rematerialization. The compiler cannot go from sharding {0} to {1} efficiently for HLO operation {2}, sharding={0}. As the last resort, SPMD will replicate the tensor and then partition it to obtain the target sharding, which is inefficient. This issue will be fixed by Shardy partitioner in the future."
COPIES = " last_tile_dim_replicate}"


def worded(wording: str, before: str, after: str, operation: str = "") -> str:
    """A warning."""
    return wording.replace("{0}", before).replace("{1}", after).replace("{2}", operation)


def answered(text: str, mesh: str | None = None) -> Report:
    """The report on a warning."""
    return report_of_warning(ShardOptions(warning=text, mesh=mesh))


def rows(report: Report, name: str, *columns: str) -> list[tuple[object, ...]]:
    """Some columns of a table of a report, none if it has no such table."""
    table = next((part for part in report.parts if isinstance(part, Table) and part.name == name), None)
    if table is None:
        return []
    return [tuple(row[table.column_index(column)] for column in columns) for row in table.rows]


def steps(report: Report, name: str = "steps") -> list[tuple[object, ...]]:
    """The operations with their group sizes and the bytes of their operands."""
    return rows(report, name, "operation", "group_size", "operand_bytes")


def prose(report: Report) -> str:
    """All paragraphs of a report."""
    return " ".join(
        plain_text(line_of(each)) for part in report.parts if isinstance(part, Passage) for each in part.paragraphs
    )


def test_a_pair_that_does_not_warn_any_more() -> None:
    head = "(CompileWorker pid=6723, ip=10.0.0.10) 2022-09-16 03:44:56.770168: E external/org_tensorflow/tensorflow/compiler/xla/service/spmd/spmd_partitioner.cc:509] "
    line = head + worded(OF_2022, "{devices=[4,1,1,1]0,1,2,3}", "{devices=[2,1,1,2]0,1,2,3}")
    found = answered(f"{line}\n 91%|####  | 69/76 [00:07<00:01,  6.19it/s]{line}")
    assert found.numbers["warnings"] == 2
    assert found.numbers["full_rematerialization"] is False
    assert [row[:2] for row in steps(found)] == [("all-to-all", 2)]
    assert "update jaxlib" in prose(found)


def test_a_warning_without_a_shape_has_steps_without_bytes() -> None:
    text = worded(OF_2023, "{devices=[256,1]<=[256]}", "{devices=[1,64,4]<=[256]" + COPIES)
    found = answered(text)
    assert found.answer == "Every device gathers the whole array, 256 times its own part (1 warning)"
    assert [row[:2] for row in steps(found)] == [("all-gather", 256), ("dynamic-slice", None)]
    assert steps(found)[0][2] is UNKNOWN
    assert found.numbers["wire_bytes"] is None
    assert found.numbers["detour"] is not None


def test_a_warning_of_an_issue_with_its_mesh() -> None:
    text = worded(OF_2023, "{devices=[2,1,4]<=[4,2]T(1,0)}", "{devices=[1,8,1]<=[8]}")
    found = answered("E0531 10:54:04.832741 2609008 spmd_partitioner.cc:569] " + text, mesh="x=4,y=2")
    assert [row[:2] for row in steps(found)][:2] == [("all-gather", 4), ("all-gather", 2)]
    assert "with_sharding_constraint(x, P('y', 'x', None))" in prose(found)


def test_the_shape_is_that_of_a_shard() -> None:
    found = answered(
        worded(
            OF_2024,
            "{devices=[1,16,1,4]<=[64]" + COPIES,
            "{devices=[1,1,4,16]<=[16,4]T(1,0)" + COPIES,
            "%dot = f32[3,8,128]{2,1,0} dot(%a, %b)",
        )
    )
    assert "all of f32[3,128,128]" in found.answer
    assert steps(found)[0] == ("all-gather", 16, 12288)


def test_an_array_on_one_device() -> None:
    found = answered(
        worded(
            OF_2024,
            "{maximal device=0}",
            "{devices=[4,1]<=[4]}",
            "%get-tuple-element = f32[257152,2048]{1,0} get-tuple-element((token[], f32[1152]{0}, /*index=5*/f32[2",
        )
    )
    assert steps(found)[0] == ("all-reduce", 4, 2_106_589_184)
    assert "jax.device_put" in prose(found)
    assert not any("part of one device" in note.message for note in found.notes)


def test_ranks_that_differ_are_said() -> None:
    found = answered(
        worded(
            OF_2024,
            "{devices=[1,1,2,2]<=[4]" + COPIES,
            "{devices=[2,2]<=[2,2]T(1,0)" + COPIES,
            "%pad = f64[96]{0} pad(%broadcast.690, %constant), padding=8_7",
        )
    )
    assert found.notes[-1].message == "the cost is unknown: the sharding divides 3 dimensions, but the result has 1"
    assert steps(found) == []


def test_a_tutorial() -> None:
    before = "{devices=[2,32,4]<=[2,8,4,4]T(0,2,1,3)" + COPIES
    operation = '%param = f32[1024,64]{1,0} parameter(0), metadata={op_name="x" source_file="train.py" source_line=31}'
    found = answered(worded(OF_TODAY, before, "{devices=[1,256]<=[256]}", operation))
    assert found.answer == "Every device gathers all of f32[2048,2048], 16 MiB, to keep 64 KiB of it (1 warning)"
    assert steps(found) == [
        ("all-gather", 32, 262_144),
        ("all-gather", 2, 8_388_608),
        ("dynamic-slice", None, 16_777_216),
    ]
    assert [row[0] for row in steps(found, "detour")] == ["dynamic-slice", "all-to-all", "collective-permute"]
    assert found.numbers["detour"] == "{devices=[2,128]<=[2,8,4,4]T(0,2,1,3)}"
    assert "P('a', ('c', 'b', 'd'))" in prose(found)
    assert "a=2,b=8,c=4,d=4" in prose(found)
    assert "x, train.py:31" in prose(found)
    assert {part.name for part in found.parts} >= {"from", "to"}


def test_the_notes_of_a_physics_code() -> None:
    text = worded(
        OF_2024,
        "{devices=[1,10,1,1,8]<=[8,10]T(1,0)" + COPIES,
        "{devices=[1,8,1,1,10]<=[80]" + COPIES,
        "%fusion = c128[144,200,160,2]{3,2,1,0} fusion(%a), kind=kLoop, calls=%b",
    )
    found = answered(text)
    assert "c128[144,2000,160,2]" in found.answer
    assert steps(found)[0] == ("all-gather", 10, 147_456_000)
    assert steps(found)[1][2] == 1_474_560_000


@pytest.mark.parametrize(
    ("before", "after", "operation"),
    [
        (
            "{devices=[1,16,1,1]<=[16]}",
            "{devices=[1,1,1,4,4]<=[4,4]T(1,0)" + COPIES,
            "%copy = c128[36,10,2,7] copy(...)",
        ),
        ("{devices=[4,1,1]}", "{devices=[1,2,1,2]" + COPIES, "%copy.5 = c128[1,656,1963] copy(…)"),
        ("{devices=[1,8,1]<=[8]}", "{devices=[2,1,4]<=[4,2]T(1,0)}", "%add = f32[16,2,16]{2,1,0} add(%p, %p)"),
        ("{devices=[1,1,8,1]<=[8]}", "{devices=[2,1,1,4]<=[8]}", "%copy = s8[48,8,2,32]{3,2,1,0} copy(%param)"),
    ],
)
def test_pairs_that_still_warn(before: str, after: str, operation: str) -> None:
    found = answered(worded(OF_2024, before, after, operation))
    assert found.numbers["full_rematerialization"] is True
    assert found.numbers["detour"] is not None
    assert steps(found)[0][0] == "all-gather"


def test_devices_that_are_not_in_the_text_are_said() -> None:
    found = answered(
        worded(OF_2024, "{devices=[4,1,1]}", "{devices=[1,2,1,2]" + COPIES, "%copy.5 = c128[1,656,19] copy(…)")
    )
    assert any("0, 1, 2" in note.message for note in found.notes)
    assert any("within a group" in note.message for note in found.notes)


def test_a_quotation_without_shardings() -> None:
    found = answered(worded(OF_TODAY, "{...}", "{...}", "..."))
    assert found.answer == "Every device gathers a whole array to change its sharding (1 warning)"


def test_wrapped_lines_are_the_same_warning() -> None:
    operation = '%param = f32[1024,64]{1,0} parameter(0), metadata={op_name="x"}'
    line = "W1015 12:00:00.000000   10190 spmd_partitioner.cc:656] " + worded(
        OF_TODAY, "{devices=[2,32,4]<=[2,8,4,4]T(0,2,1,3)" + COPIES, "{devices=[1,256]<=[256]}", operation
    )
    [whole] = parse_resharding_warnings(plain_lines(line))
    for width in range(50, 150, 7):
        broken = "\n".join(line[at : at + width] for at in range(0, len(line), width))
        soft = fill(line, width, break_long_words=False, break_on_hyphens=False)
        for text in (broken, soft, "(pid=12, ip=10.0.0.1) " + broken.replace("\n", "\n(pid=12, ip=10.0.0.1) ")):
            [found] = parse_resharding_warnings(plain_lines(text))
            assert (found.before, found.after) == (whole.before, whole.after), width
            assert found.operation.startswith("%param"), width


def test_files_text_and_a_mesh_of_another_size(tmp_path: Path) -> None:
    text = worded(OF_2023, "{devices=[2,1,4]<=[4,2]T(1,0)}", "{devices=[1,8,1]<=[8]}")
    log = tmp_path / "log.txt"
    log.write_text(f"step 1\nstep 2\n{text}\n")
    found = answered(str(log))
    assert found.input["line"] == 3
    with pytest.raises(HloError, match="--mesh is 4 devices, the shardings of the warning have 8"):
        answered(text, mesh="x=4")
    with pytest.raises(HloError, match="file 'nolog"):
        answered("nolog.txt")
    log.write_text("nothing here")
    with pytest.raises(HloError, match="no warning about full rematerialization"):
        answered(str(log))


def test_devices_within_a_group_of_the_mesh() -> None:
    """The partitioner of jaxlib 0.10.2, from P(None, ('y', 'x'), 'z') to P('y', None, 'x') on 2 × 2 × 2 devices."""
    pair = "{devices=[1,4,1]<=[4]}", "{devices=[2,1,1,2]<=[4] last_tile_dim_replicate}"
    text = worded(OF_TODAY, *pair, "%copy = f32[64,32,64]{2,1,0} copy(%sharding_constraint.0)")
    found = answered(text, mesh="x=2,y=2,z=2")
    assert "--mesh does not name axes: the warning has 4 of its 8 devices" in [note.message for note in found.notes]
    assert "group" in [part.name for part in found.parts if isinstance(part, Passage)]
    assert steps(found) == steps(answered(text))
    with pytest.raises(HloError, match="--mesh is 6 devices, the shardings of the warning have 4"):
        answered(text, mesh="x=6")


def test_the_command_and_a_pasted_log_give_the_same_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = worded(OF_TODAY, "{devices=[8,1]<=[8]}", "{devices=[2,4]<=[4,2]T(1,0)}", "%a = f32[2,16]{1,0} add(%b, %b)")
    log = tmp_path / "log.txt"
    log.write_text(text)
    answers = []
    for arguments in (["shard", "--warning", str(log)], [str(log)]):
        assert main([*arguments, "--format", "json"], standalone=False) == 0
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0]["answer"] == answers[1]["answer"]
    assert answers[0]["schema"] == "hlo.shard/1"
