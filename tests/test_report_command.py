"""`hlo report`: its tables are those of the other commands, and its verdicts follow their rules."""

from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import in_process
from hlo_cli.render.style import sanitize

pytestmark = pytest.mark.usefixtures("modules_kept")

FIXTURES = Path(__file__).parent.parent / "fixtures"
CASES = {
    "tpu": (("tpu/v5e_conv",), ("--chip", "v5e")),
    "gpu": (("gpu/h100_transformer",), ()),
    "cpu": (("cpu/softmax",), ()),
    "unoptimized": (("tpu/v5e_conv", "--stage", "before_optimizations"), ("--chip", "v5e")),
    "chip of the dump": (("tpu/v6e_embedding", "--module", "jit_run"), ()),
}
SLOW_CASES = {
    "collectives": (("tpu/v5e_collectives",), ("--chip", "v5e")),
    "loops": (("tpu/v5p_scan",), ("--chip", "v5p")),
    "gpu on a chip": (("gpu/h100_transformer",), ("--chip", "h100")),
    "several memories": (("tpu/7x_transformer",), ("--chip", "7x")),
    "offload": (("tpu/v5e_offload",), ("--chip", "v5e")),
    "cpu": (("cpu/sorting",), ()),
}
TABLES = {
    ("memspace", "--space", "all"): ("spaces", "buffers"),
    ("schedule",): ("operations", "pairs"),
    ("schedule", "--sequence"): ("steps",),
    ("fuse",): ("kernels", "fusions"),
    ("layout",): ("shapes",),
    ("lint",): ("groups", "findings"),
    ("shard",): ("parameters", "results"),
    ("shard", "--comms"): ("collectives",),
}
"""The tables of a report, by the command that has them too."""
LINES = {
    ("fuse", "--by", "source"): {
        "seconds": "total_seconds",
        "unknown_times": "unknown_times",
        "bytes": "total_bytes",
        "flops": "total_flops",
        "kernels": "kernels",
        "launches": "launches",
    },
    ("memspace", "--by", "source"): {"peak_bytes": "bytes"},
    ("schedule", "--by", "source"): {
        "exposed_seconds": "exposed_seconds",
        "unoverlapped_bytes": "unoverlapped_bytes",
        "synchronous_bytes": "synchronous_bytes",
    },
    ("layout", "--by", "source"): {"padding_bytes": "padding_bytes", "saving_bytes": "saving_bytes"},
}
"""The columns of the table of source lines, and those of the command that they come from."""
TIMED = ("schedule", "fuse", "lint", "memspace")
"""The commands that take a chip; `shard` does with --comms."""


@cache
def answer(*words: str) -> Any:
    """What a command writes as JSON."""
    out, err, code = in_process.run([*words, "--json"], folder=FIXTURES, settings={})
    assert code in (0, 1), err
    return json.loads(out)


def chip_for(command: Sequence[str], chip: tuple[str, ...]) -> tuple[str, ...]:
    return chip if command[0] in TIMED or "--comms" in command else ()


def compare(dump: tuple[str, ...], chip: tuple[str, ...], of_memory: tuple[str, ...]) -> None:
    """Compares every table of the report with that of the command; `of_memory` is the chip of the memories."""
    report = answer("report", *dump, *chip)
    shown = {name for section in report["overviews"]["overview"]["sections"] for name in section["parts"]}
    assert shown <= set(report["tables"])
    for command, names in TABLES.items():
        given = of_memory if command[0] == "memspace" else chip_for(command, chip)
        theirs = answer(*command, *dump, *given)["tables"]
        for name in names:
            if name in report["tables"]:
                assert report["tables"][name] == theirs[name], name
            else:
                assert name == "collectives" or not theirs.get(name, {}).get("rows"), name
    rows = report["tables"].get("lines", {"rows": ()})["rows"]
    for command, columns in LINES.items():
        given = of_memory if command[0] == "memspace" else chip_for(command, chip)
        tables = answer(*command, *dump, *given)["tables"]
        table = tables.get("by_source") or tables.get("sources") or {"rows": []}
        theirs_by_line = {row["source"]: row for row in table["rows"]}
        assert theirs_by_line.keys() <= {row["source"] for row in rows}
        for ours, theirs_name in columns.items():
            having = [row for row in rows if ours in row]
            assert having or not any(row.get(theirs_name) for row in theirs_by_line.values()), ours
            for row in having:
                assert row[ours] == theirs_by_line.get(row["source"], {theirs_name: 0})[theirs_name], (row, ours)


@pytest.mark.parametrize("name", CASES)
def test_tables_are_those_of_the_commands(name: str) -> None:
    dump, chip = CASES[name]
    compare(dump, chip, ("--chip", "v6e") if name == "chip of the dump" else chip)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW_CASES)
def test_more_tables_are_those_of_the_commands(name: str) -> None:
    dump, chip = SLOW_CASES[name]
    compare(dump, chip, chip)
    if name == "collectives":
        assert answer("report", *dump, *chip)["tables"]["collectives"]["rows"]


def page_of(text: str) -> Any:
    """The data of a page, with texts in place of their indices."""
    found = re.search(r'id="data">([^<]*)<', text)
    assert found is not None
    data = json.loads(gzip.decompress(base64.b64decode(found[1])))
    for table in data["tables"].values():
        for column in table["columns"]:
            cells = column["cells"]
            if column["form"] == "text":
                column["cells"] = [None if cell is None else data["strings"][cell] for cell in cells]
            elif column["form"] == "texts":
                column["cells"] = [[data["strings"][each] for each in cell] for cell in cells]
    return data


@pytest.mark.parametrize("name", ["tpu", "gpu"])
def test_page_has_the_numbers_of_the_report(name: str) -> None:
    dump, chip = CASES[name]
    out, _, code = in_process.run(["report", *dump, *chip, "--format", "html"], folder=FIXTURES, settings={})
    assert code == 0
    page, report = page_of(out), answer("report", *dump, *chip)
    assert page["overview"] == report["overviews"]["overview"]
    assert page["timelines"] == report["timelines"]
    for table_name, table in report["tables"].items():
        columns = {column["name"]: column for column in page["tables"][table_name]["columns"]}
        for at, row in enumerate(table["rows"]):
            for key, cell in row.items():
                ours = columns[key]["cells"][at]
                if not isinstance(cell, str) and cell is not None:
                    assert ours == cell, (table_name, key)
                elif isinstance(cell, str) and columns[key]["unit"] not in ("source", "text"):
                    assert ours == sanitize(cell), (table_name, key)
                elif cell is None:
                    assert ours in (None, "?"), (table_name, key)


def test_pages_do_not_depend_on_their_directory(tmp_path: Path) -> None:
    """Equal dumps in two directories give the same bytes, so no name of a directory is in the page."""
    pages = []
    for place in ("home/ada/dumps/step", "srv/x/y/step"):
        folder = tmp_path / place
        shutil.copytree(FIXTURES / "tpu" / "v5e_conv", folder)
        page = tmp_path / "report.html"
        settings = {"SOURCE_DATE_EPOCH": "86400"}
        words = ["report", str(folder), "--chip", "v5e", "-o", str(page)]
        assert in_process.run(words, folder=tmp_path, settings=settings)[2] == 0
        pages.append(page.read_text(encoding="utf-8"))
    assert pages[0] == pages[1]
    data = page_of(pages[0])
    assert "step/after_optimizations.txt · 1970-01-02 · " in data["overview"]["details"]
    assert str(tmp_path) not in json.dumps(data)
    assert "fixtures" not in json.dumps(data)


def verdicts(text: str, tmp_path: Path, *options: str) -> dict[str, tuple[str, str]]:
    """The tone and the headline of each verdict on a module, in their order."""
    path = tmp_path / "module.hlo"
    path.write_text(text, encoding="utf-8")
    out, err, _ = in_process.run(["report", str(path), *options, "--json"], folder=tmp_path, settings={})
    found = json.loads(out)["overviews"]["overview"]["verdicts"]
    assert all(each["sentence"] and each["headline"] for each in found), err
    return {each["title"]: (each["tone"], each["headline"]) for each in found}


def scheduled(body: str, name: str = "m") -> str:
    return f"HloModule {name}, is_scheduled=true\n\nENTRY e {{\n{body}\n}}\n"


@pytest.mark.parametrize(
    ("size", "tone", "headline"),
    [
        (16_911_433_729, "bad", "Does not fit v5e (RAM 1 KiB over)"),
        (16_911_433_728, "warning", "Fits v5e (15.8 of 15.8 GiB RAM)"),
        (16_000_000_000, "good", "Fits v5e (14.9 of 15.8 GiB RAM)"),
    ],
)
def test_memory_is_judged_by_the_chip(size: int, tone: str, headline: str, tmp_path: Path) -> None:
    text = scheduled(f"ROOT p = s8[{size}]{{0}} parameter(0)") + '// "flag_configs" marks it as a TPU\'s\n'
    assert verdicts(text, tmp_path, "--chip", "v5e")["Memory"] == (tone, headline.replace("RAM", "HBM"))


def test_memory_without_a_chip_is_not_judged(tmp_path: Path) -> None:
    found = verdicts(scheduled("ROOT p = f32[256]{0} parameter(0)"), tmp_path)
    assert found["Memory"] == ("neutral", "RAM peaks at 1 KiB")
    assert "Time" not in found


def test_a_program_before_optimization_is_said_first(tmp_path: Path) -> None:
    text = "HloModule m\n\nENTRY e {\n ROOT p = s8[99000000000] parameter(0)\n}\n"
    found = verdicts(text, tmp_path, "--chip", "v5e")
    assert next(iter(found)) == "Dump"
    assert found["Dump"] == ("warning", "Before optimization")
    assert found["Memory"] == ("warning", "At most 92.2 GiB of main memory")


def test_a_chip_of_another_kind_is_said_first(tmp_path: Path) -> None:
    found = verdicts(scheduled("ROOT p = f32[8]{0:T(128)} parameter(0)"), tmp_path, "--chip", "h100")
    assert next(iter(found.items())) == ("Dump", ("warning", "Compiled for TPU"))


def test_a_truncated_dump_is_said_first(tmp_path: Path) -> None:
    text = (
        scheduled("ROOT p = f32[8]{0} parameter(0)") + "\nf {\n  q = f32[8]{0} parameter(0)\n  ROOT n = f32[8]{0} neg"
    )
    found = verdicts(text, tmp_path)
    assert next(iter(found.items())) == ("Dump", ("bad", "Truncated"))


_COPY = "(f32[N]{0:S(1)}, f32[N]{0}, u32[]) copy-start(p)"
_KERNEL = "n = f32[N]{0} negate(p)"
_DONE = "d = f32[N]{0:S(1)} copy-done(s)"


@pytest.mark.parametrize(
    ("lines", "elements", "found"),
    [
        ((f"s = {_COPY}", _DONE, _KERNEL), 16 << 10, ("warning", "64 of 64 KiB without overlap")),
        # Less is nothing to act on, be it all that there is.
        ((f"s = {_COPY}", _DONE, _KERNEL), (16 << 10) - 256, ("neutral", "63 of 63 KiB without overlap")),
        ((f"s = {_COPY}", _KERNEL, _DONE), 16 << 10, ("good", "All overlap compute")),
        ((_KERNEL,), 16 << 10, ("neutral", "No transfers")),
    ],
)
def test_transfers_without_overlap(lines: Sequence[str], elements: int, found: tuple[str, str], tmp_path: Path) -> None:
    text = scheduled("\n".join(("p = f32[N]{0} parameter(0)", *lines, "ROOT r = f32[N]{0} add(n, n)")))
    assert verdicts(text.replace("[N]", f"[{elements}]"), tmp_path)["Transfers"] == found


@pytest.mark.parametrize(
    ("shape", "found"),
    [
        ("f32[8,128]{1,0:T(8,128)}", ("good", "No padding")),
        ("f32[1000,128]{1,0:T(8,128)}", ("good", "No padding")),
        ("f32[1001,128]{1,0:T(8,128)}", ("good", "1% padding")),
        ("f32[1024,2]{1,0:T(8,128)}", ("warning", "98% padding (504 KiB avoidable)")),
        ("f32[8,8]{1,0:T(8,128)}", ("neutral", "94% padding")),
    ],
)
def test_padding(shape: str, found: tuple[str, str], tmp_path: Path) -> None:
    tone, headline = verdicts(scheduled(f"ROOT p = {shape} parameter(0)"), tmp_path)["Padding"]
    assert (tone, headline) == found


def test_findings(tmp_path: Path) -> None:
    wrong = scheduled("p = f32[8]{0} parameter(0)\nROOT n = f32[9]{0} negate(p)")
    assert verdicts(wrong, tmp_path)["Findings"] == ("bad", "1 error")
    assert verdicts(scheduled("ROOT p = f32[8]{0} parameter(0)"), tmp_path)["Findings"] == ("good", "No findings")
    tone, headline = verdicts((FIXTURES / "tpu/v5e_conv/after_optimizations.txt").read_text(), tmp_path)["Findings"]
    assert (tone, headline) == ("warning", "2 warnings")  # its copy to VMEM wastes nothing


def test_pipe_has_the_verdicts() -> None:
    out, _, code = in_process.run(["report", "tpu/v5e_conv", "--chip", "v5e", "-q"], folder=FIXTURES, settings={})
    rows = [line.split("\t")[:3] for line in out.splitlines()]
    assert code == 0
    assert rows[0] == ["#key", "tone", "headline"]
    assert [row[0] for row in rows[1:]] == ["memory", "transfers", "padding", "findings", "time"]


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("f32[3]", "run `hlo layout 'f32[3]'`"),
        ("empty.txt", "empty.txt is empty"),
        ("binary.txt", "binary.txt is an ELF file without functions"),
        ("missing.txt", "file 'missing.txt' not found"),
    ],
)
def test_impossible_inputs_are_errors(argument: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "binary.txt").write_bytes(b"\x7fELF\0\0\0")
    out, err, code = in_process.run(["report", argument], folder=tmp_path, settings={})
    assert (out, code) == ("", 2)
    assert words in err


def test_what_to_do_first_is_no_order_that_does_not_exist(tmp_path: Path) -> None:
    """The command for another order is advised with its gain if there is one, and else not."""
    loop = """HloModule m, is_scheduled=true
add { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT s = f32[] add(p, q) }
ENTRY e {
  x = f32[1048576]{0:T(1024)} parameter(0)
  y = f32[1048576]{0:T(1024)} parameter(1)
  s = f32[1048576]{0:T(1024)} all-reduce-start(x), replica_groups={{0,1}}, to_apply=add
  t = () tuple()
  d = f32[1048576]{0:T(1024)} all-reduce-done(s)
  k = f32[1048576]{0:T(1024)} exponential(OPERAND)
  ROOT r = (f32[1048576]{0:T(1024)}, f32[1048576]{0:T(1024)}) tuple(d, k)
}
"""
    (tmp_path / "free.hlo").write_text(loop.replace("OPERAND", "y"))
    (tmp_path / "bound.hlo").write_text(loop.replace("OPERAND", "d"))
    said = {}
    for name in ("free", "bound"):
        out, err, code = in_process.run(
            ["report", f"{name}.hlo", "--chip", "v5e", "--json"], folder=tmp_path, settings={}
        )
        assert code == 0, err
        actions = json.loads(out)["overviews"]["overview"]["actions"]
        said[name] = [each["fix"] or "" for each in actions]
    better = next(fix for fix in said["free"] if fix.startswith("Use a better order: exposed time: "))
    assert better.endswith("(hlo schedule free.hlo --reorder latency).")
    assert not any("hlo schedule" in fix or "DUMP" in fix for fix in said["bound"])


def test_another_order_is_worth_what_it_gains() -> None:
    """Not all time that is exposed, of which the order with the smallest keeps most here."""
    settings = ["tpu/v4_collectives", "--chip", "v4", "--json"]
    out, err, code = in_process.run(["report", *settings], folder=FIXTURES, settings={})
    assert code == 0, err
    actions = json.loads(out)["overviews"]["overview"]["actions"]
    [order] = [each for each in actions if (each["fix"] or "").startswith("Use a better order")]
    out, err, code = in_process.run(["schedule", *settings, "--reorder", "latency"], folder=FIXTURES, settings={})
    assert code == 0, err
    answer = json.loads(out)["answer"]
    gain = answer["exposed_seconds_before"] - answer["exposed_seconds_after"]
    assert (order["seconds"], order["certainty"]) == (pytest.approx(gain), "computed")


@pytest.mark.parametrize("dump", ["tpu/v4_collectives", "gpu/h100_collectives"])
def test_what_to_do_first_is_in_the_order_of_its_worth(dump: str) -> None:
    """Each change has its cost and how sure that is saved; no command has a placeholder for the path."""
    out, err, code = in_process.run(["report", str(FIXTURES / dump), "--json"], folder=FIXTURES, settings={})
    assert code == 0, err
    actions = json.loads(out)["overviews"]["overview"]["actions"]
    assert actions
    worth = [each["cost_bytes"] for each in actions]
    assert worth == sorted(worth, reverse=True)
    assert {each["certainty"] for each in actions} <= {"computed", "at most", "at least"}
    assert not any("DUMP" in (each["fix"] or "") for each in actions)


def test_what_to_do_first_has_no_row_that_is_a_sum_of_others(tmp_path: Path) -> None:
    """The only exposed transfer is a case of HLO403, although HLO502 leads the group with its value."""
    array = "f32[8192,64]{1,0:T(8,128)}"
    (tmp_path / "sliced.hlo").write_text(f"""HloModule m, is_scheduled=true, num_partitions=4
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
ENTRY e {{ x = {array} parameter(0)  i = s32[] parameter(1)  z = s32[] constant(0)  n = {array} negate(x)
  s = {array} all-reduce(x), channel_id=1, use_global_device_ids=true, replica_groups={{{{0,1,2,3}}}}, to_apply=add
  y = f32[2048,64]{{1,0:T(8,128)}} dynamic-slice(s, i, z), dynamic_slice_sizes={{2048,64}}
  ROOT t = ({array}, f32[2048,64]{{1,0:T(8,128)}}) tuple(n, y) }}
""")
    out, err, code = in_process.run(["report", "sliced.hlo", "--chip", "v5e", "--json"], folder=tmp_path, settings={})
    assert code == 0, err
    actions = json.loads(out)["overviews"]["overview"]["actions"]
    assert [each["code"] for each in actions if each["seconds"]] == ["HLO502"]
