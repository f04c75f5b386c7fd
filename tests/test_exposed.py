"""One number for one word: exposed time, and transfers that overlap no kernel, on every screen and in the library.

Exposed is the time of a transfer in which no kernel runs; it needs a chip. Without a chip, what overlaps no kernel is
counted, in transfers and bytes, and no screen calls that exposed.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import in_process
from dumps import FIXTURES, Dump, compiled_dumps
from expecting import judged
from hlo_cli import parse_module
from hlo_cli.analysis.hardware.chip_specs import chip_spec
from hlo_cli.analysis.schedule.async_overlap import OverlapAnalysis, analyze_overlap
from hlo_cli.analysis.schedule.step_time import estimate_time
from hlo_cli.lint.run import lint_module
from hlo_cli.lint.settings import LintSettings
from hlo_cli.report.numbers import format_seconds

DUMPS = compiled_dumps()
CHIPS = {"tpu": "v5e", "gpu": "h100", "cpu": "v5e"}
SCREENS = (
    ("tpu/v5e_collectives", "v5e"),
    ("gpu/h100_collectives", "h100"),
    pytest.param("tpu/7x_transformer", "7x", marks=pytest.mark.slow),
)
"""Dumps with async and synchronous transfers, with unknown times, and with several memories, for whole commands."""
NAMED = ("tpu/v6e_embedding", "--module", "jit_run")
"""A dump that names its chip, v6e, in a file of libtpu."""
EXPOSED = re.compile(r"\bexpos", re.IGNORECASE)


@cache
def overlap_of(dump: Dump) -> OverlapAnalysis:
    return analyze_overlap(parse_module(dump.text))


def answer(*words: str) -> Any:
    """What a command writes as JSON."""
    out, err, code = in_process.run([*words, "--json"], folder=FIXTURES, settings={})
    assert code in (0, 1), err
    return json.loads(out)


def screen(*words: str) -> str:
    """What a command writes for people."""
    out, err, code = in_process.run([*words, "--format", "screen"], folder=FIXTURES, settings={"COLUMNS": "200"})
    assert code in (0, 1), err
    return out


def exposed_in(numbers: Any) -> float:
    """The exposed seconds of an answer, or the known part of them."""
    return numbers.get("known_exposed_seconds", numbers["exposed_seconds"]) or 0.0


@pytest.mark.parametrize("dump", DUMPS, ids=str)
def test_exposed_time_is_what_an_execution_takes_beyond_compute(dump: Dump) -> None:
    """The exposed times of all transfers, async or not, are the time of an execution less that of its kernels."""
    overlap = overlap_of(dump)
    found = estimate_time(overlap, CHIPS[dump.platform])
    assert set(found.exposed) == {*(each.pair.start for each in overlap.intervals), *overlap.synchronous}
    assert found.exposed_seconds == pytest.approx(found.seconds - found.compute_seconds, rel=1e-6, abs=1e-12)
    for start, seconds in found.exposed.items():
        if start in overlap.synchronous:
            assert seconds == found.synchronous_seconds[start]


@pytest.mark.parametrize("dump", DUMPS, ids=str)
def test_what_overlaps_nothing_overlaps_no_kernel(dump: Dump) -> None:
    overlap = overlap_of(dump)
    for interval in overlap.intervals:
        assert (interval.pair.start in overlap.unoverlapped) == interval.is_unoverlapped
        if interval.is_unoverlapped:
            assert interval.is_sync or interval.between.kernels == 0
            assert overlap.unoverlapped[interval.pair.start] == interval.total_bytes
    assert all(overlap.unoverlapped[each] == size for each, size in overlap.synchronous.items())


@pytest.mark.parametrize(("name", "chip"), SCREENS)
def test_all_commands_have_one_number_on_a_chip(name: str, chip: str) -> None:
    found = estimate_time(analyze_overlap(_module(name)), chip)
    numbers = answer("schedule", name, "--chip", chip)
    known = sum(bool(seconds) for seconds in found.exposed.values())
    assert exposed_in(numbers["answer"]) == pytest.approx(found.exposed_seconds)
    assert numbers["answer"]["exposed_transfers"] == known
    for by in ("source", "scope"):
        rows = answer("schedule", name, "--chip", chip, "--by", by)["tables"][f"by_{by}"]["rows"]
        assert sum(row["exposed_seconds"] or 0 for row in rows) == pytest.approx(found.exposed_seconds)
    report = answer("report", name, "--chip", chip)
    assert exposed_in(report["answer"]["schedule"]) == pytest.approx(found.exposed_seconds)
    time = format_seconds(found.exposed_seconds)
    assert time in str(report["overviews"]["overview"]["verdicts"])
    sentence = " ".join(screen("schedule", name, "--chip", chip).partition("\n\n")[0].split())
    assert f": {time} " in sentence or f": at least {time} " in sentence
    brief = re.split(r" of (?:the estimated|at least) ", sentence)[0]  # the overview has the whole time above
    assert brief in " ".join(screen(name, "--chip", chip).split()), "the overview says what `hlo schedule` says"


@pytest.mark.parametrize(("name", "chip"), SCREENS)
def test_all_commands_have_one_number_without_a_chip(name: str, chip: str) -> None:
    overlap = analyze_overlap(_module(name))
    expected = len(overlap.unoverlapped), sum(overlap.unoverlapped.values())
    for words in (("schedule", name), ("schedule", name, "--chip", chip)):
        numbers = answer(*words)["answer"]
        assert (numbers["unoverlapped"], numbers["unoverlapped_bytes"]) == expected
    operations = answer("schedule", name)["tables"]["operations"]["rows"]
    lines = answer("report", name)["tables"]["lines"]["rows"]
    causes = answer("schedule", name, "--by", "source")["tables"]["by_source"]["rows"]
    for rows in (operations, causes):
        sums = (sum(row["unoverlapped"] for row in rows), sum(row["unoverlapped_bytes"] for row in rows))
        assert sums == expected
    assert sum(row.get("unoverlapped_bytes") or 0 for row in lines) == expected[1]
    claims = ("count(unoverlapped) < 0", "sum(unoverlapped_bytes) < 0")
    assert tuple(each.found for each in judged(_module(name), *claims)) == expected


@pytest.mark.parametrize("command", ["", "schedule", "report", "lint"])
@pytest.mark.parametrize("name", ["tpu/v5e_collectives", "gpu/h100_collectives"])
def test_nothing_is_exposed_without_a_chip(command: str, name: str) -> None:
    """Exposed is a time, which needs a chip."""
    found = EXPOSED.search(screen(*filter(None, (command, name))))
    assert found is None, found


def test_a_dump_that_names_its_chip_needs_no_option() -> None:
    """Every command takes the chip that the overview takes."""
    for command in ("schedule", "fuse", "report", "lint", "shard"):
        more = ("--comms",) if command == "shard" else ()
        given, named = (answer(command, *NAMED, *more, *chip) for chip in ((), ("--chip", "v6e")))
        assert given["tables"] == named["tables"], command
        assert given["answer"] == named["answer"], command
    assert answer(*NAMED)["answer"]["chip"] == "v6e"


def _module(name: str) -> Any:
    return next(parse_module(dump.text) for dump in DUMPS if str(dump) == name)


@pytest.mark.parametrize(("name", "chip"), SCREENS)
def test_findings_on_overlap_take_the_time_that_is_exposed(name: str, chip: str) -> None:
    """What a finding says of a synchronous collective is what the schedule says; no transfer has more than that."""
    module, spec = _module(name), chip_spec(chip)
    settings = LintSettings(select=("HLO4",), min_transfer_bytes=1, min_prefetch_bytes=1)
    found = estimate_time(analyze_overlap(module), spec)
    durations = dict(zip((each.pair.start for each in analyze_overlap(module).intervals), found.intervals, strict=True))
    costs = [each for each in lint_module(module, settings, chip=spec) if each.instruction is not None]
    assert costs
    for each in costs:
        start = module.computation(each.computation or "").instruction(each.instruction or "")
        exposed = found.exposed[start]
        assert each.seconds == pytest.approx(
            found.synchronous_seconds[start] if each.code == "HLO403" else durations[start].total_seconds
        )
        assert exposed is None or each.seconds is None or exposed <= each.seconds * (1 + 1e-9)


def test_bars_of_a_loop_are_exposed_where_the_column_is(tmp_path: Path) -> None:
    """Of two copies on one link the later is waited for first, and with it most of the earlier one, which has a bar."""
    text = """HloModule m, is_scheduled=true
body {{ t = (f32[4096,4096], f32[2048,2048]) parameter(0)
  a = f32[4096,4096] get-tuple-element(t), index=0
  b = f32[2048,2048] get-tuple-element(t), index=1
  first = (f32[4096,4096]{{1,0:S(5)}}, f32[4096,4096], u32[]) copy-start(a)
  n = f32[4096,4096] negate(a)
  second = (f32[2048,2048]{{1,0:S(5)}}, f32[2048,2048], u32[]) copy-start(b)
  done = f32[2048,2048]{{1,0:S(5)}} copy-done(second)
  c = f32[4096,4096] cosine(n)
  d = f32[4096,4096]{{1,0:S(5)}} copy-done(first)
  ROOT r = (f32[4096,4096], f32[2048,2048]) tuple(c, b) }}
condition {{ t = (f32[4096,4096], f32[2048,2048]) parameter(0) ROOT is = pred[] constant(false) }}
ENTRY e {{ p = (f32[4096,4096], f32[2048,2048]) parameter(0)
  ROOT w = (f32[4096,4096], f32[2048,2048]) while(p), condition=condition, body=body,
    backend_config={{"known_trip_count":{{"n":"{trips}"}}}} }}"""
    for trips in (1, 10):
        (tmp_path / "m.hlo").write_text(text.format(trips=trips))
        shown = in_process.run(
            ["schedule", "m.hlo", "--chip", "v5e", "--format", "screen"], folder=tmp_path, settings={"COLUMNS": "100"}
        )[0]
        row = next(line for line in shown.splitlines() if " first " in line)
        # Of 4.47 ms of an execution 4.31 are waited for, of a bar of 5.91 ms.
        bar = row.count("━") + row.count("│")
        assert 0.6 < row.count("│") / bar < 0.85, shown
