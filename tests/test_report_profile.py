"""`hlo report DUMP --profile TRACE`: measured times in the report of a module."""

from __future__ import annotations

import base64
import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from hlo_cli.library import load
from in_process import Answer, run
from strategies import FIXTURES
from test_traces_gpu import database

TRACE = str(FIXTURES / "traces/cpu_steps/trace.xplane.pb")
EDIT = str(FIXTURES / "traces/cpu_edit/before.xplane.pb.gz")


def hlo(*arguments: str) -> Answer:
    return run(arguments, folder=FIXTURES, settings={"COLUMNS": "80", "NO_COLOR": "1", "TERM": "xterm"})


def records(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(hlo("report", *arguments, "--format", "json")[0])
    return found


def test_a_report_has_the_measured_times_of_its_module() -> None:
    report = records(EDIT, "--module", "jit_forward", "--profile", EDIT, "--chip", "h100")
    numbers, tables = report["answer"]["profile"], report["tables"]
    rows = tables["measured"]["rows"]
    assert (numbers["unit"], numbers["units"], numbers["kernels"], numbers["missing"]) == ("step", 20, 10, 0)
    assert sum(row["measured_seconds"] for row in rows) == pytest.approx(numbers["measured_seconds"])
    of_trace = hlo("profile", EDIT, "--module", "jit_forward", "--format", "json")[0]
    timed = {row["instruction"]: row for row in json.loads(of_trace)["tables"]["operations"]["rows"]}
    assert {row["instruction"]: row["share"] for row in rows} == {name: row["share"] for name, row in timed.items()}
    assert all(row["factor"] == pytest.approx(row["measured_seconds"] / row["predicted_total_seconds"]) for row in rows)
    times = [row["measured_seconds"] for row in rows]
    assert times == sorted(times, reverse=True)
    lines = {row["source"]: row["measured_seconds"] for row in tables["lines"]["rows"]}
    assert sum(lines.values()) == pytest.approx(numbers["measured_seconds"])
    (verdict,) = (row for row in tables["verdicts"]["rows"] if row["key"] == "measured")
    assert verdict["headline"] == "Kernels take 133.0 µs per step"
    assert "Predicted: " in verdict["sentence"]
    compared = [row for row in rows if row["predicted_total_seconds"] is not None]
    assert numbers["predicted_kernels"] == len(compared)
    assert numbers["compared_seconds"] == pytest.approx(sum(row["measured_seconds"] for row in compared))
    assert numbers["predicted_seconds"] == pytest.approx(sum(row["predicted_total_seconds"] for row in compared))


def test_the_page_has_a_section_of_measured_time(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert hlo("report", "--profile", EDIT, "-o", str(page))[2] == 0
    text = page.read_text()
    assert '<section id="measured"' in text
    assert "kernels take 133.0 µs per step (mean of all 20 steps)" in text
    assert "drawMeasuredSection" in text


def test_without_a_profile_there_is_nothing_measured() -> None:
    report = records(f"{EDIT}#1", "--module", "jit")
    assert "profile" not in report["answer"]
    assert "measured" not in report["tables"]
    assert "measured_seconds" not in report["tables"]["lines"]["rows"][0]


def test_the_longest_module_of_a_trace_is_reported() -> None:
    assert records("--profile", TRACE)["input"]["module"] == "jit_train_step"


def test_a_dump_of_another_program_or_compilation_is_an_error(tmp_path: Path) -> None:
    _, error, code = hlo("report", str(FIXTURES / "cpu/softmax"), "--profile", TRACE)
    assert (code, "is not in the profile" in error) == (2, True)
    dump = tmp_path / "m.txt"
    dump.write_text(load(TRACE, module="jit_train_step").to_string().replace("fusion", "fusioned") + "\n")
    _, error, code = hlo("report", str(dump), "--profile", TRACE)
    assert (code, "the profile is of another compilation" in error) == (2, True)


def test_of_several_modules_those_that_did_not_run_have_no_measured_times(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    _, error, code = hlo("report", str(FIXTURES / "cpu/softmax"), TRACE, "--profile", TRACE)
    assert (code, "--profile requires one module" in error) == (2, True)
    assert hlo("report", str(FIXTURES / "cpu/softmax"), TRACE, "--profile", TRACE, "-o", f"{folder}/")[2] == 0
    pages = {each.name: '<section id="measured"' in each.read_text() for each in folder.glob("jit_*.html")}
    assert pages["jit_train_step.html"]
    assert pages["jit_normalize.html"]
    assert sum(not each for each in pages.values()) == 1


def test_the_report_of_a_trace_has_its_measured_times() -> None:
    assert records(TRACE)["input"]["module"] == "jit_train_step"
    assert records(TRACE, "--module", "jit_normalize")["answer"]["profile"]["unit"] == "step"


# Traces without the modules that ran


@pytest.mark.parametrize("name", ["trace.json.gz", "nsys.sqlite", "directory"])
def test_a_trace_without_modules_has_a_page(name: str, tmp_path: Path) -> None:
    """What `hlo profile` takes has a page: its times by instruction, kind, and step, and the events in lanes."""
    path = tmp_path / name
    if name == "nsys.sqlite":
        database(path)
    else:
        folder = path / "plugins" / "profile" / "2025_06_01_12_00_00" if name == "directory" else tmp_path
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / ("vm.trace.json.gz" if name == "directory" else name)
        shutil.copy(FIXTURES / "traces/cpu_steps/trace.json.gz", target)
    out, err, code = hlo("report", str(path), "-o", str(tmp_path / "x.html"))
    assert (out, code) == ("", 0), err
    assert f"note: wrote {tmp_path / 'x.html'} (" in err
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    rows = json.loads(hlo("profile", str(path), "--json")[0])["tables"]["operations"]["rows"]
    assert rows
    assert [row["instruction"] for row in rows if f">{row['instruction']}<" not in page] == []
    assert "data-spans=" in page
    assert "% busy" in page
    screen = hlo("report", str(path), "--format", "screen")[0]
    assert (
        f"next: hlo report {path} -o report.html" in screen.replace("\n", " ").replace("  ", " ") or name == "directory"
    )


def test_a_report_of_a_trace_has_a_timeline_of_its_module(tmp_path: Path) -> None:
    """The events of the step in lanes, in the page and not in its data; as rows in JSON."""
    _, err, code = hlo("report", TRACE, "-o", str(tmp_path / "x.html"))
    assert code == 0, err
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    section = page[page.index('<section id="timeline"') :]
    section = section[: section.index("</section>")]
    rows = records(TRACE)["tables"]["timeline"]["rows"]
    assert section.count("<g data-v=") == 2 * len(rows)  # in a wide and a narrow form
    assert [row["instruction"] for row in rows if f'data-v="{row["instruction"]}"' not in section] == []
    data = page[page.index('id="data">') + 10 :].partition("<")[0]
    assert "timeline" not in json.loads(gzip.decompress(base64.b64decode(data)))["tables"]


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("run.nsys-rep", b"NSYS" * 99, "nsys export"),
        ("cut.trace.json", b'{"traceEvents": [', "cut.trace.json"),
    ],
)
def test_an_unreadable_trace_has_the_error_of_its_reader(name: str, data: bytes, words: str, tmp_path: Path) -> None:
    """Not that of a reader of HLO, which says nothing about traces."""
    (tmp_path / name).write_bytes(data)
    out, err, code = hlo("report", str(tmp_path / name), "-o", str(tmp_path / "x.html"))
    assert (out, code) == ("", 2)
    assert words in err
    assert err == hlo("profile", str(tmp_path / name))[1]
    assert not (tmp_path / "x.html").exists()
