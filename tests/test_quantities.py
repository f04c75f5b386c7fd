"""One definition of each quantity: every pair of surfaces that names it gives one number, for every dump at hand.

A surface is a screen's JSON, the index of a directory, an assertion, a record of `scan`, or a library call. A new one
is a row of `SURFACES`. `HLO_CORPUS=DIR` adds all dumps below a folder.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from math import isclose
from pathlib import Path
from typing import Any, Final

import pytest

from dumps import FIXTURES, compiled_dumps
from expecting import judged
from hlo_cli import chip_spec, estimate_time, kernels_of, load, memory_analysis, module_cost, parse_module, scan
from hlo_cli.analysis.query.main_module import cost_of_module
from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
from hlo_cli.analysis.statements.statements import ModuleNumbers, numbers_of
from hlo_cli.commands.modules.loading import Loaded, devices_together
from hlo_cli.inputs.input import Input
from hlo_cli.ir.memory_space import space_name
from hlo_cli.ir.module import Module
from hlo_cli.report.numbers import format_seconds
from in_process import run

CHIPS: Final = {"tpu": "v5e", "gpu": "h100", "cpu": "h100"}
"""A chip for each target: any will do, as long as all surfaces have the same."""
LARGEST: Final = 3_000_000
"""Larger texts take a minute in all commands together, and have no instructions of other kinds."""
OTHER: Final = "HloModule other  ENTRY e { p = f32[2]{0} parameter(0)  ROOT n = f32[2]{0} negate(p) }"
"""A second module, as one alone has no index."""
ENVIRONMENT: Final = {"COLUMNS": "200"}
Number = float | None


@dataclass(frozen=True)
class Subject:
    """One dump, next to another module, with which it has an index."""

    path: Path

    @cached_property
    def module(self) -> Module:
        """The module, with what the dumps next to it say."""
        return load(self.path)

    @cached_property
    def target(self) -> str:
        """What it was compiled for."""
        return str(self.json("parse")["input"]["target"])

    @cached_property
    def chip(self) -> str:
        """A chip of its target."""
        return CHIPS[self.target]

    @cached_property
    def numbers(self) -> ModuleNumbers:
        """What `hlo diff` compares."""
        return numbers_of(self.module)

    @cached_property
    def main(self) -> str:
        """Main memory, or the memory space with the highest peak if it has no values."""
        rows = self.json("memspace")["tables"]["spaces"]["rows"]
        return str(max(rows, key=lambda row: (row["memory_space"] == 0, row["peak_bytes"]))["space"])

    @cache  # noqa: B019  # one for each dump, until the end of its test
    def json(self, command: str, *, is_index: bool = False) -> Any:
        """What a command writes as JSON."""
        words = command.split()
        places = [str(self.path), *([str(self.path.with_name("other.hlo"))] if is_index else [])]
        line = [*words[:1], *places, *words[1:], "--json", "--quiet"]  # without a command, the overview
        out, err, code = run(line, folder=FIXTURES, settings=ENVIRONMENT)
        assert code in (0, 1), err
        return json.loads(out)

    def space(self, column: str) -> Number:
        """A cell of main memory in the table of spaces."""
        [row] = [each for each in self.json("memspace")["tables"]["spaces"]["rows"] if each["space"] == self.main]
        found: Number = row[column]
        return found

    def answer(self, command: str, name: str) -> Number:
        """A number of the answer of a command."""
        found: Number = self.json(command)["answer"][name]
        return found

    def report(self, part: str, name: str, *options: str) -> Number:
        """A number of one part of the report."""
        found: Number = self.json(" ".join(("report", *options)))["answer"][part][name]
        return found

    def row(self, command: str, column: str) -> Number:
        """A cell of the dump's row in the index of two modules."""
        rows = self.json(command, is_index=True)["tables"]["modules"]["rows"]
        [row] = [row for row in rows if row["path"].endswith(self.path.name)]
        found: Number = row[column]
        return found

    def total(self, command: str, table: str, column: str) -> Number:
        """The sum of a column, as far as it is known."""
        return sum(row[column] or 0 for row in self.json(command)["tables"][table]["rows"])

    def known_total(self, command: str, table: str, column: str) -> Number:
        """The sum of a column; None if a cell is unknown."""
        cells = [row[column] for row in self.json(command)["tables"][table]["rows"]]
        return None if None in cells else sum(cells)

    def expected(self, term: str) -> Number:
        """The value of a term of an assertion."""
        [result] = judged(self.module, f"{term} < 0")
        return result.found

    def record(self, *names: str) -> Number:
        """A number of the record of `scan`, or the first less the second."""
        [record] = scan([str(self.path)])
        one, *others = (record.numbers[name] for name in names)
        assert isinstance(one, int)
        return one - sum(other for other in others if isinstance(other, int))


def _space_number(s: Subject) -> int:
    return next(n for n in s.numbers.metrics.peak_bytes if space_name(n, s.target) == s.main)


Surfaces = dict[str, Callable[[Subject], Number]]
SURFACES: Final[dict[str, Surfaces]] = {
    "peak of live bytes": {
        "memspace": lambda s: s.json("memspace")["answer"]["peak_bytes"][s.main],
        "memspace, table": lambda s: s.space("peak_bytes"),
        "memspace, index": lambda s: s.row("memspace", "peak_bytes"),
        "report": lambda s: s.json("report")["answer"]["memspace"]["peak_bytes"][s.main],
        "report, index": lambda s: s.row("report", "peak_bytes"),
        "schedule --sequence": lambda s: s.json("schedule --sequence")["answer"]["peak_bytes"][s.main],
        "lint --expect": lambda s: s.expected(f"peak.{s.main.lower()}"),
        "diff": lambda s: s.numbers.metrics.peak_bytes[_space_number(s)],
        "memory_analysis": lambda s: memory_analysis(s.module).peak_bytes,
        "memory_analysis, space": lambda s: (
            memory.peak_bytes if (memory := memory_analysis(s.module).space(s.main)) is not None else None
        ),
        "overview": lambda s: s.answer("", "peak_bytes"),
    },
    "step of the peak": {
        "memspace": lambda s: s.space("peak_step"),
        "memory_analysis": lambda s: memory_analysis(s.module).peak_step,
    },
    "flops": {
        "fuse": lambda s: s.answer("fuse", "flops"),
        "fuse --cost": lambda s: s.answer("fuse --cost", "flops"),
        "fuse --cost, table": lambda s: s.total("fuse --cost", "costs", "flops"),
        "fuse, index": lambda s: s.row("fuse", "flops"),
        "report": lambda s: s.report("fuse", "flops"),
        "lint --expect": lambda s: s.expected("sum(flops)"),
        "diff": lambda s: s.numbers.metrics.flops,
        "module_cost": lambda s: module_cost(s.module).flops,
    },
    "flops in all iterations": {
        "fuse --by source": lambda s: s.answer("fuse --by source", "total_flops"),
        "fuse --by scope, table": lambda s: s.total("fuse --by scope", "by_scope", "total_flops"),
        "report, lines": lambda s: s.total("report", "lines", "flops"),
        "fuse, kernel kinds": lambda s: s.known_total("fuse", "kernel_kinds", "flops"),
        "fuse --cost": lambda s: s.answer("fuse --cost", "total_flops"),
        "overview": lambda s: s.answer("", "total_flops"),
        "diff": lambda s: s.numbers.flops,
    },
    "bytes in all iterations": {
        "fuse --by source": lambda s: s.answer("fuse --by source", "total_bytes"),
        "fuse --by scope, table": lambda s: s.total("fuse --by scope", "by_scope", "total_bytes"),
        "fuse --cost": lambda s: s.answer("fuse --cost", "total_bytes"),
        "overview": lambda s: s.answer("", "total_bytes"),
        "diff": lambda s: s.numbers.bytes_accessed,
        "main module": lambda s: cost_of_module(s.module).bytes,
    },
    "flops of matmuls": {
        "fuse --dots": lambda s: s.answer("fuse --dots", "flops"),
        "fuse --dots, table": lambda s: s.known_total("fuse --dots", "dots", "total_flops"),
    },
    "transcendentals": {
        "fuse": lambda s: s.answer("fuse", "transcendentals"),
        "fuse --cost": lambda s: s.answer("fuse --cost", "transcendentals"),
        "lint --expect": lambda s: s.expected("sum(transcendentals)"),
        "module_cost": lambda s: module_cost(s.module).transcendentals,
    },
    "bytes accessed": {
        "fuse": lambda s: s.answer("fuse", "bytes"),
        "fuse --cost": lambda s: s.answer("fuse --cost", "bytes"),
        "fuse --cost, table": lambda s: s.total("fuse --cost", "costs", "bytes"),
        "fuse, index": lambda s: s.row("fuse", "bytes"),
        "report": lambda s: s.report("fuse", "bytes"),
        "diff": lambda s: s.numbers.metrics.bytes_accessed,
        "module_cost": lambda s: module_cost(s.module).bytes_accessed,
    },
    "data": {
        "layout": lambda s: s.answer("layout", "logical_bytes"),
        "lint --expect": lambda s: s.expected("sum(logical_bytes)"),
        "scan": lambda s: s.record("logical_bytes"),
    },
    "padding": {
        "layout": lambda s: s.answer("layout", "padding_bytes"),
        "layout, table": lambda s: s.total("layout", "shapes", "padding_bytes"),
        "layout --by opcode": lambda s: s.total("layout --by opcode", "opcodes", "padding_bytes"),
        "layout, index": lambda s: s.row("layout", "padding_bytes"),
        "report": lambda s: s.report("layout", "padding_bytes"),
        "report, lines": lambda s: s.total("report", "lines", "padding_bytes"),
        "lint --expect": lambda s: s.expected("sum(padding_bytes)"),
        "scan": lambda s: s.record("padded_bytes", "logical_bytes"),
        "diff": lambda s: s.numbers.metrics.padding_bytes,
    },
    "execution time": {
        "schedule": lambda s: s.answer(f"schedule --chip {s.chip}", "execution_seconds"),
        "schedule --sequence": lambda s: s.answer(f"schedule --sequence --chip {s.chip}", "execution_seconds"),
        "schedule, index": lambda s: s.row(f"schedule --chip {s.chip}", "execution_seconds"),
        "report": lambda s: s.report("schedule", "execution_seconds", "--chip", s.chip),
        "report, index": lambda s: s.row(f"report --chip {s.chip}", "execution_seconds"),
    },
    "compute time": {
        "schedule": lambda s: s.answer(f"schedule --chip {s.chip}", "compute_seconds"),
        "report": lambda s: s.report("schedule", "compute_seconds", "--chip", s.chip),
        "report, lines": lambda s: s.total(f"report --chip {s.chip}", "lines", "seconds"),
        "fuse --by source": lambda s: s.total(f"fuse --by source --chip {s.chip}", "by_source", "total_seconds"),
        "fuse --by scope": lambda s: s.total(f"fuse --by scope --chip {s.chip}", "by_scope", "total_seconds"),
        "estimate_time": lambda s: estimate_time(analyze_overlap(s.module), chip_spec(s.chip)).compute_seconds,
    },
    "instructions": {
        "parse": lambda s: s.answer("parse", "instructions"),
        "parse, index": lambda s: s.row("parse", "instructions"),
        "lint": lambda s: s.answer("lint", "instructions"),
        "report": lambda s: s.report("lint", "instructions"),
        "scan": lambda s: s.record("instructions"),
        "diff": lambda s: s.numbers.metrics.instructions,
    },
    "kernels": {
        "fuse": lambda s: s.answer("fuse", "kernels"),
        "fuse, index": lambda s: s.row("fuse", "kernels"),
        "fuse --by source": lambda s: s.answer("fuse --by source", "kernels"),
        "report": lambda s: s.report("fuse", "kernels"),
        "report, lines": lambda s: s.total("report", "lines", "kernels"),
        "lint --expect": lambda s: s.expected("count(kernels)"),
        "diff": lambda s: s.numbers.metrics.kernels,
        "overview": lambda s: s.answer("", "kernels"),
        "estimate_time": lambda s: estimate_time(analyze_overlap(s.module), chip_spec(s.chip)).kernel_count,
        "kernels_of": lambda s: sum(not kernel.is_transfer for kernel in kernels_of(s.module)),
    },
    "launches": {
        "fuse, kernel kinds": lambda s: s.known_total("fuse", "kernel_kinds", "launches"),
        "overview": lambda s: s.answer("", "launches"),
        "main module": lambda s: cost_of_module(s.module).steps,
    },
    "collectives": {
        "parse, index": lambda s: s.row("parse", "collectives"),
        "shard --comms": lambda s: s.answer("shard --comms", "collectives"),
        "report": lambda s: s.report("comms", "collectives"),
        "lint --expect": lambda s: s.expected("count(collectives)"),
        "scan": lambda s: s.record("collectives"),
        "diff": lambda s: s.numbers.metrics.collectives,
    },
}
"""Every quantity, with the surfaces that show it and how the number is taken from each."""


QUICK: Final = ("cpu/softmax", "gpu/h100_scan", "tpu/v5e_gathered_weights")
"""What every run of the tests asks; all commands on one dump take a second."""


def _dumps() -> Iterator[object]:
    """An eighth of the dumps is for the slow stage, the others, and those of `HLO_CORPUS`, for `make judge`."""
    found = {"/".join(dump.path.parts[-3:-1]): dump.path for dump in compiled_dumps()}
    for number, (name, path) in enumerate(found.items()):
        mark = pytest.mark.slow if number % 8 == 1 else pytest.mark.long
        yield pytest.param(path, id=name, marks=() if name in QUICK else mark)
    folder = os.environ.get("HLO_CORPUS")
    for path in sorted(Path(folder).glob("**/*after_optimizations.txt*")) if folder else ():
        text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        if len(text) < LARGEST:
            yield pytest.param(path, id="/".join(path.parts[-3:-1]), marks=pytest.mark.long)


@pytest.fixture(params=_dumps())
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Subject:
    """A dump, copied without what the compiler wrote about it."""
    copied = tmp_path / request.param.name
    shutil.copy(request.param, copied)
    (tmp_path / "other.hlo").write_text(OTHER)
    return Subject(copied)


def test_all_surfaces_agree(subject: Subject) -> None:
    wrong = []
    for quantity, surfaces in SURFACES.items():
        found = {name: read(subject) for name, read in surfaces.items()}
        known = {name: number for name, number in found.items() if number is not None}
        first = next(iter(known.values()), 0)
        if not all(isclose(number, first, rel_tol=1e-9, abs_tol=1e-12) for number in known.values()):
            wrong.append((quantity, found))
    assert not wrong


LOOP: Final = """HloModule nested
inner { t = (s32[], f32[8,8]) parameter(0)  i = s32[] get-tuple-element(t), index=0
  x = f32[8,8]{1,0} get-tuple-element(t), index=1  one = s32[] constant(1)  j = s32[] add(i, one)
  d = f32[8,8]{1,0} dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (s32[], f32[8,8]) tuple(j, d) }
less { t = (s32[], f32[8,8]) parameter(0)  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(4)  ROOT lt = pred[] compare(i, n), direction=LT }
outer { t = (s32[], f32[8,8]) parameter(0)  i = s32[] get-tuple-element(t), index=0
  x = f32[8,8]{1,0} get-tuple-element(t), index=1  one = s32[] constant(1)  j = s32[] add(i, one)
  z = s32[] constant(0)  s = (s32[], f32[8,8]) tuple(z, x)
  v = (s32[], f32[8,8]) while(s), condition=less, body=inner
  y = f32[8,8]{1,0} get-tuple-element(v), index=1  ROOT r = (s32[], f32[8,8]) tuple(j, y) }
COND
called { x = f32[8,8]{1,0} parameter(0)
  ROOT d = f32[8,8]{1,0} dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
ENTRY main { x = f32[8,8]{1,0} parameter(0)  z = s32[] constant(0)  t = (s32[], f32[8,8]) tuple(z, x)
  w = (s32[], f32[8,8]) while(t), condition=last, body=outer  o = f32[8,8]{1,0} get-tuple-element(w), index=1
  a = f32[8,8]{1,0} call(o), to_apply=called  ROOT b = f32[8,8]{1,0} call(a), to_apply=called }
"""
COUNTED: Final = """last { t = (s32[], f32[8,8]) parameter(0)  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(10)  ROOT lt = pred[] compare(i, n), direction=LT }"""
UNCOUNTED: Final = COUNTED.replace("compare(i, n)", "compare(n, n)")


@pytest.mark.parametrize(
    ("condition", "flops", "known", "words"),
    [
        (COUNTED, 1024 * (4 * 10 + 2), 1024 * 42, "2 matmuls: 43,008 flops"),
        (UNCOUNTED, None, 1024 * 3, "2 matmuls: at least 3,072 flops"),
    ],
)
def test_matmuls_count_as_often_as_they_run(
    condition: str, flops: int | None, known: int, words: str, tmp_path: Path
) -> None:
    """Loops in loops, functions called twice, and loops of unknown trip count, which run at least once."""
    path = tmp_path / "nested.hlo"
    path.write_text(LOOP.replace("COND", condition))
    answer = Subject(path).json("fuse --dots")["answer"]
    assert (answer["flops"], answer["known_flops"]) == (flops, known)
    assert words in run(["fuse", str(path), "--dots", "--format", "screen"], folder=tmp_path, settings=ENVIRONMENT)[0]


WHOLE: Final = """HloModule jit_step, num_partitions=8
ENTRY NAME { x = f32[8192,8192]{1,0} parameter(0), sharding={devices=[8,1]<=[8]}
  ROOT y = f32[8192,8192]{1,0} add(x, x), sharding={devices=[8,1]<=[8]} }"""
NOT_PARTITIONED: Final = "not partitioned: upper bound, work ÷ 8 at best"


@pytest.mark.parametrize(
    "command",
    [
        "parse",
        "lint --exit-zero",
        "memspace",
        "schedule",
        "schedule --chip h100",
        "fuse --cost",
        "fuse --chip h100",
        "report --chip h100",
    ],
)
def test_work_of_all_devices_is_said_to_be(command: str, tmp_path: Path) -> None:
    """In every command in the same words, also in an index; the partitioned program of one device gets no note."""
    name, *options = command.split()
    whole, part = tmp_path / "whole.hlo", tmp_path / "part.hlo"
    whole.write_text(WHOLE.replace("NAME", "main"))
    part.write_text(WHOLE.replace("NAME", "main_spmd").replace("8192,", "1024,"))
    has_index = "--cost" not in options
    for paths, expected in (([whole], 1), ([part], 0), *([([whole, part], 1)] if has_index else [])):
        line = [name, *map(str, paths), *options, "--verbose", "--format", "screen"]
        out, err, code = run(line, folder=tmp_path, settings=ENVIRONMENT)
        assert code == 0
        assert (NOT_PARTITIONED in out + err) == expected, (line, out, err)


def test_the_order_of_the_text_is_noted_once(tmp_path: Path) -> None:
    """A page has the reports of several commands, and all assume it in the same words."""
    path = tmp_path / "part.hlo"
    path.write_text(WHOLE.replace("NAME", "main_spmd"))
    _, err, _ = run(["report", str(path), "--verbose"], folder=tmp_path, settings=ENVIRONMENT)
    assert [line for line in err.splitlines() if "not scheduled" in line] == [
        "note: the module is not scheduled; using the order of the text"
    ]


@pytest.mark.parametrize("path", [dump.path for dump in compiled_dumps()], ids=lambda path: "/".join(path.parts[-3:-1]))
def test_no_program_of_one_device_is_said_to_be_that_of_all(path: Path) -> None:
    """Also without the name of its file."""
    module = parse_module(load(path).source.text)
    assert devices_together(Loaded(module, Input(module.source, None))) == 1


def test_what_is_not_fused_yet_says_so() -> None:
    """A module before optimization: the card is about the module after fusion by rule, and tables about what it has."""
    path = FIXTURES / "tpu" / "v5e_conv" / "before_optimizations.txt"
    out, _, _ = run(["report", str(path), "--chip", "v5e", "--format", "screen"], folder=FIXTURES, settings=ENVIRONMENT)
    assert "after fusion by rule" in out
    subject = Subject(path)
    unfused = subject.total("report --chip v5e", "lines", "seconds")
    assert unfused == pytest.approx(subject.total("fuse --by source --chip v5e", "by_source", "total_seconds"))
    assert f"Not fused, as in the tables of kernels and lines: {format_seconds(unfused or 0)}" in " ".join(out.split())
