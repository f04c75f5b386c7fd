"""Pipes get one table: for every command and mode, `cut`, `sort`, and `awk` see one header and records of one width."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable

import click
import pytest

from hlo_cli.cli import main
from hlo_cli.report.table_meanings import TABLE_MEANINGS, table_meaning
from share import every
from strategies import FIXTURES

pytestmark = pytest.mark.usefixtures("modules_kept")

MODES = {
    "parse tpu/v5e_conv": "values",
    "parse tpu/v5e_conv --instructions": "instructions",
    "parse tpu/v5p_scan --tree": "calls",
    "parse tpu/v4_collectives --explain all-gather-start": "instruction",
    "parse tpu/v5e_conv tpu/v2_mlp --each": "modules",
    "layout tpu/v5e_conv": "shapes",
    "layout tpu/v5e_conv --by instruction": "instructions",
    "layout tpu/v5e_conv --by computation": "computations",
    "layout tpu/v5e_conv --by opcode": "opcodes",
    "layout tpu/v5e_conv --by op_name": "op_names",
    "layout tpu/v5e_conv --by source": "sources",
    "layout tpu/v2_mlp tpu/v5e_conv": "modules",
    "layout f32[3,5]{1,0:T(2,2)}": "shape",
    "layout f32[3,5]": "shape",
    "layout (f32[4],s32[])": "leaves",
    "layout --for v5e bf16[300,70]": "orders",
    "tile-index f32[3,5]{1,0:T(2,2)} 2,3": "addresses",
    "tile-index --inverse --all f32[3]{0:T(4)L(6)}": "positions",
    "tile-index bf16[300,70]{1,0:T(8,128)(2,1)} bf16[300,70]{0,1:T(8,128)(2,1)} 3,5": "elements",
    "tile-index bf16[300,70]{1,0:T(8,128)(2,1)} bf16[300,70]{0,1:T(8,128)(2,1)}": "layouts",
    "memspace tpu/v5e_conv": "live_values",
    "memspace gpu/h100_collectives --by scope": "by_scope",
    "memspace gpu/h100_collectives --by op_name": "by_op_name",
    "memspace gpu/h100_collectives --by source": "by_source",
    "memspace gpu/h100_collectives --by kind": "by_kind",
    "memspace gpu/h100_collectives --by shape": "by_shape",
    "memspace gpu/h100_collectives --by opcode": "by_opcode",
    "memspace tpu/v5e_conv --value fusion.16": "uses",
    "memspace tpu/v5e_offload --traffic": "transfers",
    "memspace tpu/v5e_conv --compare": "totals",
    "memspace --oom golden/memspace/oom_hbm.log": "allocations",
    "memspace tpu/v5e_conv tpu/v2_mlp --limit 50MiB": "modules",
    "schedule gpu/h100_collectives": "pairs",
    "schedule tpu/v5p_scan --sequence": "steps",
    "schedule gpu/h100_collectives --critical-path time --chip h100": "critical_path",
    "schedule gpu/h100_collectives --chip h100 --reorder latency": "moved_blocks",
    "schedule golden/schedule/late.hlo gpu/h100_collectives": "modules",
    "fuse gpu/h100_mlp --module jit_step": "fusions",
    "fuse gpu/h100_mlp --module jit_step loop_add_fusion": "body",
    "fuse cpu/sorting --cost": "costs",
    "fuse tpu/v5e_conv --dots": "dots",
    "fuse gpu/h100_fp8 --custom-calls": "custom_calls",
    "fuse cpu/wide geqrf.0 --custom-calls": "buffers",
    "fuse fusion/updates/after_fusion_wrapper.txt --why-not": "pairs",
    "fuse fusion/dear/before_fusion.txt --run-pass": "totals",
    "fuse fusion/dear/before_fusion.txt --fuse curved.1,wave.1": "totals",
    "fuse tpu/v5e_conv gpu/h100_mlp": "modules",
    "diff cpu/softmax/passes --stage 4..5": "statements",
    "diff cpu/softmax/passes --stage 19..20 --name-only": "changes",
    "diff cpu/softmax cpu/dynamic --stat": "computations",
    "diff cpu/softmax/passes --passes": "passes",
    "lint golden/lint/wrong.hlo --statistics": "rules",
    "lint golden/lint/wrong.hlo gpu/h100_mlp --each": "modules",
    "lint --list-rules": "rules",
    "lint --show-settings --isolated": "settings",
}
"""A command line for each mode that writes rows, and its main table."""

Run = Callable[..., tuple[str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command line in the folder of the fixtures; its standard output and error."""
    monkeypatch.chdir(FIXTURES)

    def run(line: str, *more: str) -> tuple[str, str]:
        assert main([*line.split(), *more], standalone=False) in (0, 1)
        written = capsys.readouterr()
        return written.out, written.err

    return run


def records(text: str) -> list[list[str]]:
    """The records of pipe output: one header, and as many fields in each line as in the header."""
    assert text.endswith("\n")
    header, *rows = (line.split("\t") for line in text.removesuffix("\n").split("\n"))
    assert header[0].startswith("#")
    assert len(set(header)) == len(header)
    assert {len(row) for row in rows} <= {len(header)}
    return [[header[0][1:], *header[1:]], *rows]


@pytest.mark.parametrize(("line", "main_table"), MODES.items())
def test_a_pipe_has_one_table_of_constant_width(run: Run, line: str, main_table: str) -> None:
    header, *rows = records(run(line)[0])
    names = [name for name, _, _ in records(run(line, "--table", "help")[0])[1:]]
    assert names[0] == main_table
    assert records(run(line, "--table", main_table)[0]) == [header, *rows]
    assert run(line, "--no-header")[0] == "".join("\t".join(row) + "\n" for row in rows)
    as_csv = list(csv.reader(io.StringIO(run(line, "--format", "csv")[0])))
    assert (as_csv[0], len(as_csv)) == (header, 1 + len(rows))


@pytest.mark.parametrize("line", every(2, MODES))
def test_every_table_is_listed_and_can_be_chosen(run: Run, line: str) -> None:
    for name, number, content in records(run(line, "--table", "help")[0])[1:]:
        assert content == table_meaning(line.split()[0], name) != ""
        _, *rows = records(run(line, "--table", name)[0])
        assert len(rows) == int(number)
        found = json.loads(run(line, "--table", name, "--format", "json")[0])
        assert [*found["tables"], *found.get("facts", ()), *found.get("anatomies", ()), *found.get("diffs", ())] == [
            name
        ]
    for format_name in ("screen", "md", "html"):
        assert run(line, "--table", name, "--format", format_name)[0]


@pytest.mark.parametrize("line", ["memspace tpu/v5e_conv --table spaces", "parse tpu/v5e_conv --table opcodes"])
def test_sort_columns_and_top_apply_to_the_chosen_table(run: Run, line: str) -> None:
    header, *rows = records(run(line)[0])
    last = header[-1]
    (name, *kept) = records(run(line, "--columns", last, "--sort", f"-{last}", "--top", "2")[0])
    assert name == [last]
    assert len(kept) == 2
    assert {cell for (cell,) in kept} <= {row[-1] for row in rows}


def test_unknown_tables_are_errors_with_the_names(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    for name, hint in (
        ("live", "did you mean 'live_values'?"),
        ("x", "available: spaces, by_scope, by_source, live_values, "),
    ):
        with pytest.raises(AssertionError):
            run("memspace tpu/v5e_conv", "--table", name)
        err = capsys.readouterr().err
        assert err.startswith(f"error: unknown table '{name}'\n  help: ")
        assert hint in " ".join(err.split())


@pytest.mark.parametrize("name", ["json", "jsonl", "md", "html", "screen"])
def test_formats_without_a_header_refuse_to_omit_it(run: Run, capsys: pytest.CaptureFixture[str], name: str) -> None:
    with pytest.raises(AssertionError):
        run("parse tpu/v5e_conv", "--no-header", "--format", name)
    assert f"error: --no-header cannot be used with --format {name}\n" in capsys.readouterr().err


def test_formats_for_findings_have_no_tables(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    line = "lint golden/lint/wrong.hlo --table findings"
    assert records(run(line)[0])[0][0] == "code"
    with pytest.raises(AssertionError):
        run(line, "--format", "sarif")
    assert "error: --table cannot be used with --format sarif\n" in capsys.readouterr().err


def test_the_other_tables_are_named_to_people_alone(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "note: showing table live_values; use --table NAME for 5 other tables: spaces, by_scope, by_source, buffers, memory_viewer\n"
    line = "memspace tpu/v5e_conv"
    assert "other tables" not in run(line)[1]
    assert words in run(line, "--verbose")[1]
    assert words in run(line, "--verbose", "--format", "csv")[1]
    assert "other tables" not in run(line, "--verbose", "--format", "json")[1]
    assert "other tables" not in run(line, "--verbose", "--table", "spaces")[1]
    monkeypatch.setattr("hlo_cli.commands.options.writing.is_terminal", lambda stream: stream == 2)
    assert words in run(line)[1]


def test_names_of_tables_are_plain(run: Run) -> None:
    for command, tables in TABLE_MEANINGS.items():
        for name, meaning in tables.items():
            assert re.fullmatch("[a-z][a-z_]*", name), (command, name)
            assert meaning[0].islower() or meaning.startswith("HLO"), (command, name)
            assert len(meaning) <= 80
            assert not meaning.endswith(".")


def test_shells_complete_the_names_of_tables() -> None:
    from hlo_cli.commands.memspace.command import command

    option = next(each for each in command.params if each.name == "table")
    context = click.Context(command, info_name="memspace")
    assert [item.value for item in option.shell_complete(context, "li")] == ["live_values", "live_range", "live_ranges"]
    assert [item.value for item in option.shell_complete(context, "he")] == ["help"]
