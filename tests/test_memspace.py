"""What `hlo memspace` reports: sums that add up, numbers that are the compiler's, and advice that keeps its word."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path

import pytest

import oom_messages
from dumps import FIXTURES
from hlo_cli.analysis.buffer_sizes import table_bytes
from hlo_cli.analysis.chips import find_chip
from hlo_cli.analysis.compiled_memory import assigned_generation, compiled_memory
from hlo_cli.analysis.fitting import arena_bytes, fits_of
from hlo_cli.analysis.footprint import data_values, orders_of
from hlo_cli.analysis.memory import Memory, Space
from hlo_cli.analysis.memory_of import memory_of
from hlo_cli.analysis.neighbours import users_among
from hlo_cli.analysis.peak_advice import suggestions
from hlo_cli.analysis.transfers import HOST, transfers_of
from hlo_cli.analysis.uses import uses_of
from hlo_cli.cli import main
from hlo_cli.commands.loading import Loaded, load_one
from hlo_cli.commands.memspace_compiler import assignment_beside
from hlo_cli.commands.options import Reading
from hlo_cli.source import Source
from hlo_cli.syntax.oom.read import parse_out_of_memory

FOLDERS = sorted({path.parent for path in FIXTURES.glob("*/*/*after_optimizations.txt*")})
dumps = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}/{folder.name}")


@cache
def loaded(folder: Path) -> Loaded:
    return load_one([str(folder)], Reading())


@cache
def estimate(folder: Path) -> Memory:
    return memory_of(loaded(folder).module)


@cache
def memory(folder: Path) -> Memory:
    """With the compiler's own numbers where the dump has them."""
    assignment = assignment_beside(loaded(folder))
    return estimate(folder) if assignment is None else compiled_memory(estimate(folder), assignment)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> Mapping[str, object]:
    code = main(["memspace", *arguments, "--format", "json"], standalone=False)
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return {**found, "code": code}


@dumps
def test_what_is_alive_adds_up(folder: Path) -> None:
    for space in memory(folder).spaces:
        for step in {0, space.peak, len(space.timeline) // 2, len(space.timeline) - 1}:
            alive = space.alive_at(step)
            assert sum(value.padded_bytes for value in alive) == space.timeline[step], (space.name, step)
        assert space.peak_bytes == max(space.timeline)


@dumps
def test_no_moment_needs_more_than_is_reserved(folder: Path) -> None:
    """Witness: the compiler's own allocations, which have room for all that we believe to be alive."""
    for space in memory(folder).spaces:
        arena = arena_bytes(memory(folder), space)
        assert arena is None or arena >= space.peak_bytes, space.name


@dumps
def test_arguments_and_results_take_what_the_allocations_of_the_compiler_do(folder: Path) -> None:
    """Witness: the compiler's buffer assignment."""
    assignment = assignment_beside(loaded(folder))
    if assignment is None:
        pytest.skip("no buffer assignment beside this dump")
    for space in memory(folder).spaces:
        parameters = [a for a in assignment.allocations if a.parameter_number is not None and a.color == space.number]
        assert space.totals.arguments == sum(a.size_bytes for a in parameters)


@dumps
def test_transfers_go_from_one_space_to_another_and_wait_in_order(folder: Path) -> None:
    sequence = memory(folder).sequence
    for transfer in transfers_of(sequence):
        assert transfer.from_space != transfer.to_space
        ends = (transfer.from_space, transfer.to_space)
        assert transfer.shape.layout.memory_space in ends or HOST in ends
        steps = [step for step in (transfer.start_step, transfer.done_step, transfer.used_step) if step is not None]
        assert steps == sorted(steps)
        assert sequence[transfer.start_step] is transfer.instruction


@dumps
def test_uses_come_after_what_they_use(folder: Path) -> None:
    found = memory(folder)
    users = users_among(found.sequence)
    for value in found.values:
        for use in uses_of(value.instruction, users):
            if use.computation is value.instruction.computation:
                assert found.positions[use] > found.positions[value.instruction]


def without(space: Space, reordered: Mapping[int, int]) -> Sequence[int]:
    """The timeline when some buffers take less, computed anew from the lives of values."""
    change = [0] * (len(space.timeline) + 1)
    for step in range(len(space.timeline)):
        change[step] = sum(
            reordered[value.buffer]
            for value in {v.buffer: v for v in space.values if v.start <= step <= v.end}.values()
            if value.buffer in reordered
        )
    return [bytes_ - saved for bytes_, saved in zip(space.timeline, change, strict=False)]


@dumps
def test_advice_keeps_its_word(folder: Path) -> None:
    """Each suggestion lowers the peak by a twentieth or more, to what is left when all named buffers are smaller."""
    found = memory(folder)
    orders = orders_of(found.module, data_values(found.module))
    for space in found.spaces:
        saved: dict[int, int] = {}
        before = space.peak_bytes
        for suggestion in suggestions(space, orders):
            for each in suggestion.reordered:
                assert each.better.padded_bytes < each.value.padded_bytes
                saved[each.value.buffer] = each.value.padded_bytes - each.better.padded_bytes
            left = without(space, saved)
            assert suggestion.peak_bytes == max(left) == left[suggestion.peak]
            assert suggestion.peak_bytes <= before - 0.05 * space.peak_bytes
            before = suggestion.peak_bytes


def test_the_compilers_places_are_taken_over() -> None:
    """Values that the compiler lets take turns at one place count once, and offsets are the compiler's."""
    folder = FIXTURES / "tpu" / "v5e_branches"
    scalars = memory(folder).space(6)
    assert scalars is not None
    assert scalars.offsets == "exact"
    assert scalars.peak_bytes == 2048 == scalars.totals.temporaries
    ours = estimate(folder).space(6)
    assert ours is not None
    assert ours.offsets == "exact"


def test_limits_and_chips() -> None:
    conv = memory(FIXTURES / "tpu" / "v5e_conv")
    [fit] = fits_of(conv, 200 << 20, None)
    assert (fit.space, fit.name, fit.excess_bytes < 0) == (0, "HBM", True)
    fits = {fit.name: fit for fit in fits_of(conv, None, find_chip("v5e"))}
    assert fits.keys() == {"HBM", "VMEM"}
    assert fits["VMEM"].limit_bytes == 128 << 20


@pytest.mark.parametrize(("limit", "code", "fits"), [("1GiB", 0, True), ("128MiB", 1, False), ("209_715", 2, None)])
def test_the_exit_code_says_whether_it_fits(
    limit: str, code: int, fits: bool | None, capsys: pytest.CaptureFixture[str]
) -> None:
    found = answer(capsys, str(FIXTURES / "tpu" / "v5e_conv"), "--limit", limit)
    assert found["code"] == code
    if fits is None:
        assert found["schema"] == "hlo.error/1"
    else:
        assert json.dumps(found["answer"]).count(f'"fits": {json.dumps(fits)}') == 1


def test_machines_get_every_moment(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(json.dumps(answer(capsys, str(FIXTURES / "cpu" / "sorting"))))
    [track] = found["timelines"]["timeline"]["tracks"]
    changes = dict(track["totals"])
    steps = range(found["timelines"]["timeline"]["steps"])
    timeline = list(accumulate(steps, lambda bytes_, step: changes.get(step, bytes_), initial=0))[1:]
    [space] = memory(FIXTURES / "cpu" / "sorting").spaces
    assert timeline == list(space.timeline)


@pytest.mark.parametrize("name", [name for name in dir(oom_messages) if name.startswith("TPU")])
def test_messages_become_reports(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "error.txt"
    path.write_text(getattr(oom_messages, name), encoding="utf-8")
    found = answer(capsys, "--oom", str(path))
    assert found["code"] == 0
    [message] = parse_out_of_memory(Source("error.txt", path.read_text(encoding="utf-8")))
    assert f'"used_bytes": {json.dumps(message.used_bytes)}' in json.dumps(found["answer"])
    assert json.dumps(found["tables"]).count('"logical_bytes": ') == len(message.allocations)


@pytest.mark.parametrize(("folder", "table"), [("v5p_scan", 32), ("v5e_conv", 512), ("v2_mlp", 1024)])
def test_tables_tell_the_generation(folder: str, table: int) -> None:
    """The compiler's tables of pointers are as large as those of the generation that its assignment is taken for."""
    assignment = assignment_beside(loaded(FIXTURES / "tpu" / folder))
    assert assignment is not None
    generation = assigned_generation(assignment)
    assert generation is not None
    assert table_bytes(1, "tpu", generation) == table
