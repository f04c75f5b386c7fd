"""Reports of `hlo memspace`: sums add up, numbers match the compiler's, and suggestions have the promised effect."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oom_messages
from dumps import FIXTURES
from hlo_cli.analysis.dataflow.value_sets import uses_of_value, value_at
from hlo_cli.analysis.hardware.chips import find_chip
from hlo_cli.analysis.layout.buffer_sizes import table_bytes
from hlo_cli.analysis.memory.buffers import order_independent_facts
from hlo_cli.analysis.memory.memory_analysis import (
    MemoryAnalysis,
    allocated_bytes,
    assigned_generation,
    compiled_memory,
    memory_analysis,
    memory_fits,
)
from hlo_cli.analysis.memory.occupancy import occupancies, timeline
from hlo_cli.analysis.schedule.async_overlap import transfers_of
from hlo_cli.cli import main
from hlo_cli.commands.memspace.compiler_files import compiler_assignment
from hlo_cli.commands.memspace.options import MemspaceOptions
from hlo_cli.commands.memspace.report import report_of_memory
from hlo_cli.commands.memspace.usage import memory_timeline
from hlo_cli.commands.modules.loading import Loaded, load_one
from hlo_cli.commands.options.io_options import InputOptions
from hlo_cli.inputs.input import read_inputs, select_module
from hlo_cli.ir.memory_space import MemorySpace
from hlo_cli.report.timeline import totals_of
from hlo_cli.source import Source
from hlo_cli.syntax.out_of_memory.read_logs import parse_out_of_memory

FOLDERS = sorted({path.parent for path in FIXTURES.glob("*/*/*after_optimizations.txt*")})
dumps = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}/{folder.name}")


@cache
def loaded(folder: Path) -> Loaded:
    return load_one([str(folder)], InputOptions(module=select_module(read_inputs([str(folder)])).module))


@cache
def estimate(folder: Path) -> MemoryAnalysis:
    return memory_analysis(loaded(folder).module)


@cache
def memory(folder: Path) -> MemoryAnalysis:
    """With the compiler's own numbers where the dump has them."""
    assignment = compiler_assignment(loaded(folder))
    return estimate(folder) if assignment is None else compiled_memory(estimate(folder), assignment)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> Mapping[str, object]:
    code = main(["memspace", *arguments, "--format", "json"], standalone=False)
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return {**found, "code": code}


@dumps
@pytest.mark.parametrize("compiled", [False, True], ids=["text", "compiler"])
def test_live_bytes_add_up(folder: Path, compiled: bool) -> None:
    """The timeline is the sum of its bands at every step, and of the live values."""
    found = memory(folder) if compiled else estimate(folder)
    for track, space in zip(memory_timeline(found, found.spaces, limits={}).tracks, found.spaces, strict=True):
        steps = len(space.timeline)
        # A chart has the steps; the last position of the analysis is the end, at which nothing runs.
        assert steps == len(found.sequence) + 1
        assert totals_of(track.bands, steps - 1) == tuple(track.totals) == space.timeline[:-1]
        assert {band.label for band in track.bands} == set(map(str, space.values))
        for step in {0, space.peak_step, steps - 1, *range(0, steps, max(steps // 20, 1))}:
            alive = space.live_at(step)
            assert sum(value.padded_bytes for value in alive) == space.timeline[step], (space.name, step)
        assert space.peak_bytes == max(space.timeline)


@dumps
def test_bands_of_the_timeline_name_their_successor(folder: Path) -> None:
    """The successor begins where the band ends, at the same offset, and each is named once."""
    for space in memory(folder).spaces:
        lives = {value: (value.start, value.end) for value in space.values}
        for value, first, last, then in space.occupancies():
            assert lives[value][0] <= first
            assert last <= lives[value][1]
            if then is not None:
                assert (then.slot, then.start) == (value.slot, last + 1)
            else:
                assert first <= last


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6), st.integers(0, 3), st.integers(0, 2)), max_size=12),
)
def test_occupancies_match_a_check_of_every_position(drawn: list[tuple[int, int, int, int]]) -> None:
    """Of the values live at a position, each slot counts the one that began last; empty values are ignored."""
    lives = [(start, start + length, size, slot) for start, length, size, slot in sorted(drawn)]
    plain = []
    for position in range(20):
        alive = {slot: size for start, end, size, slot in lives if size and start <= position <= end}
        plain.append(sum(alive.values()))
    assert timeline(lives, 19) == plain
    for turn in occupancies(lives):
        start, end, _, slot = lives[turn.value]
        assert start <= turn.first
        assert turn.last <= end
        assert turn.then is None or (lives[turn.then][3], lives[turn.then][0]) == (slot, turn.last + 1)


@dumps
def test_no_step_needs_more_than_is_allocated(folder: Path) -> None:
    """Witness: the compiler's own allocations, which have room for all values computed to be live."""
    for space in memory(folder).spaces:
        allocated = allocated_bytes(memory(folder), space)
        assert allocated is None or allocated >= space.peak_bytes, space.name


@dumps
def test_arguments_and_results_have_the_sizes_of_the_compilers_allocations(folder: Path) -> None:
    """Witness: the compiler's buffer assignment."""
    assignment = compiler_assignment(loaded(folder))
    if assignment is None:
        pytest.skip("no buffer assignment next to this dump")
    for space in memory(folder).spaces:
        parameters = [a for a in assignment.allocations if a.parameter_number is not None and a.color == space.number]
        assert space.totals.argument_bytes == sum(a.size_bytes for a in parameters)


@dumps
def test_transfers_change_the_memory_space_and_their_steps_are_ordered(folder: Path) -> None:
    sequence = memory(folder).sequence
    for transfer in transfers_of(sequence):
        assert transfer.from_space != transfer.to_space
        ends = (transfer.from_space, transfer.to_space)
        assert transfer.shape.layout.memory_space in ends or MemorySpace.HOST in ends
        steps = [step for step in (transfer.start_step, transfer.done_step, transfer.used_step) if step is not None]
        assert steps == sorted(steps)
        assert sequence[transfer.start_step] is transfer.instruction


@dumps
def test_values_are_used_within_their_live_range(folder: Path) -> None:
    """Some forty values of each dump, or their aliases; a loop uses its operand when its body begins."""
    found = estimate(folder)
    dataflow = order_independent_facts(found.module).dataflow
    for value in found.values[:: max(len(found.values) // 40, 1)]:
        made = value_at(dataflow, value.instruction, value.index)
        assert made is not None
        end = max(holder.end for holder in found.holders_of(value))
        for use in uses_of_value(dataflow, made):
            assert use is not value.instruction
            if use in found.positions and use.opcode not in ("call", "while"):
                assert value.start <= found.positions[use] <= end, (str(value), use.name)


ELEMENTS = """HloModule rs, is_scheduled=true
    body { arg = (s32[], f32[64], f32[128]) parameter(0) i = s32[] get-tuple-element(arg), index=0
      one = s32[] constant(1) a = f32[64] get-tuple-element(arg), index=1 na = f32[64] negate(a)
      b = f32[128] get-tuple-element(arg), index=2 nb = f32[128] negate(b) j = s32[] add(i, one)
      ROOT t = (s32[], f32[64], f32[128]) tuple(j, na, nb) }
    cond { carg = (s32[], f32[64], f32[128]) parameter(0) ci = s32[] get-tuple-element(carg), index=0
      n = s32[] constant(5) ROOT lt = pred[] compare(ci, n), direction=LT }
    ENTRY main { p = f32[64] parameter(0) q = f32[128] parameter(1) z = s32[] constant(0)
      init = (s32[], f32[64], f32[128]) tuple(z, p, q)
      ROOT w = (s32[], f32[64], f32[128]) while(init), condition=cond, body=body }"""


@pytest.mark.parametrize(
    ("name", "value", "uses"),
    [
        ("arg{1}", "arg{1}", ["na"]),
        ("a", "arg{1}", ["na"]),
        ("init{1}", "p", ["w"]),
        ("na", "na", ["t"]),
        ("arg", "arg", ["i", "a", "b"]),
        ("w{2}", "w{2}", []),
    ],
)
def test_tuple_elements_have_their_own_uses(
    name: str, value: str, uses: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also under the name of an instruction that only forwards the element."""
    path = tmp_path / "elements.hlo"
    path.write_text(ELEMENTS)
    found = json.loads(json.dumps(answer(capsys, str(path), "--value", name)))
    assert found["answer"]["value"] == value
    assert [row["user"] for row in found["tables"]["uses"]["rows"]] == uses


def test_the_compilers_offsets_are_used() -> None:
    """Values that share an offset at different times count once, and offsets are the compiler's."""
    folder = FIXTURES / "tpu" / "v5e_branches"
    scalars = memory(folder).space(6)
    assert scalars is not None
    assert scalars.offsets == "exact"
    assert scalars.peak_bytes == 2048 == scalars.totals.temporary_bytes
    ours = estimate(folder).space(6)
    assert ours is not None
    assert ours.offsets == "exact"


def test_limits_and_chips() -> None:
    conv = memory(FIXTURES / "tpu" / "v5e_conv")
    [fit] = memory_fits(conv, 200 << 20, None)
    assert (fit.space, fit.name, fit.excess_bytes < 0) == (0, "HBM", True)
    fits = {fit.name: fit for fit in memory_fits(conv, None, find_chip("v5e"))}
    assert fits.keys() == {"HBM", "VMEM"}
    assert fits["VMEM"].limit_bytes == 128 << 20


@pytest.mark.parametrize(("limit", "code", "fits"), [("1GiB", 0, True), ("128MiB", 1, False), ("209_715", 2, None)])
def test_exit_code_1_if_the_module_does_not_fit(
    limit: str, code: int, fits: bool | None, capsys: pytest.CaptureFixture[str]
) -> None:
    found = answer(capsys, str(FIXTURES / "tpu" / "v5e_conv"), "--limit", limit)
    assert found["code"] == code
    if fits is None:
        assert found["schema"] == "hlo.error/1"
    else:
        assert json.dumps(found["answer"]).count(f'"fits": {json.dumps(fits)}') == 1


def test_machine_formats_contain_every_step(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(json.dumps(answer(capsys, str(FIXTURES / "cpu" / "sorting"))))
    [track] = found["timelines"]["buffers"]["tracks"]
    changes = dict(track["totals"])
    steps = range(found["timelines"]["buffers"]["steps"])
    timeline = list(accumulate(steps, lambda bytes_, step: changes.get(step, bytes_), initial=0))[1:]
    [space] = memory(FIXTURES / "cpu" / "sorting").spaces
    assert timeline == list(space.timeline[:-1])


@pytest.mark.parametrize("name", [name for name in dir(oom_messages) if name.startswith("TPU")])
def test_messages_become_reports(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "error.txt"
    path.write_text(getattr(oom_messages, name), encoding="utf-8")
    found = answer(capsys, "--oom", str(path))
    assert found["code"] == 0
    [message] = parse_out_of_memory(Source("error.txt", path.read_text(encoding="utf-8")))
    assert f'"used_bytes": {json.dumps(message.used_bytes)}' in json.dumps(found["answer"])
    tables = found["tables"]
    assert isinstance(tables, dict)
    listed = tables.get("ranges") or tables["allocations"]
    assert len(listed["rows"]) == len(message.allocations)


@pytest.mark.parametrize(("folder", "table"), [("v5p_scan", 32), ("v5e_conv", 512), ("v2_mlp", 1024)])
def test_tables_have_the_size_of_the_generation(folder: str, table: int) -> None:
    """The compiler's tuple tables have the size of those of the generation that its assignment is attributed to."""
    assignment = compiler_assignment(loaded(FIXTURES / "tpu" / folder))
    assert assignment is not None
    generation = assigned_generation(assignment)
    assert generation is not None
    assert table_bytes(1, "tpu", generation) == table


@pytest.mark.parametrize(
    ("dump", "chip", "fits"),
    [("cpu/wide", "v5e", None), ("tpu/v5e_conv", "h100", None), ("tpu/v5e_conv", "v5e", True)],
)
def test_no_verdict_for_a_module_of_another_kind_of_chip(
    dump: str, chip: str, fits: bool | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it was compiled for decides its layouts, fusions, and temporaries; a limit of the user is one of bytes."""
    path = str(FIXTURES / dump)
    numbers = answer(capsys, path, "--chip", chip)["answer"]
    assert isinstance(numbers, dict)
    assert numbers["fits"] is fits
    numbers = answer(capsys, path, "--limit", "1TiB")["answer"]
    assert isinstance(numbers, dict)
    assert numbers["fits"] is True


def test_a_module_without_suggestions_has_an_empty_table_of_them() -> None:
    folder = FIXTURES / "cpu" / "sorting"
    report = report_of_memory(loaded(folder), memory(folder), MemspaceOptions(), "")
    assert "advice" not in {part.name for part in report.seen_parts}
    [table] = report.only("suggestions", as_rows=True).tables
    assert table.rows == ()
