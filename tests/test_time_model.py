"""The time model: what it says of shapes that it was not fitted on, and laws of its estimates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from math import exp, log, sqrt

import pytest

from dumps import Dump, compiled_dumps
from fit_time_model import (
    GROUPS,
    Errors,
    collective_errors,
    fitted,
    inside,
    is_held_out,
    judged,
)
from hlo_cli import chip_spec, parse_module
from hlo_cli.analysis.cost.cost_analysis import costs_of_kernels
from hlo_cli.analysis.hardware.chips import known_chips
from hlo_cli.analysis.hardware.measured_times import (
    MATMUL_MODELS,
    MEASURED_AS,
    TABLE_FITS,
    TableFit,
    collective_times,
    family_of,
    fit_of,
    matmul_time,
    matmul_times,
    measured_unit,
    sizes_of,
)
from hlo_cli.analysis.hardware.time_model import COLLECTIVE_BANDS, Band, Estimate, total
from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
from hlo_cli.analysis.schedule.kernel_times import (
    compute_type,
    needed_cost,
    predicted_times,
    roofline,
)
from hlo_cli.analysis.schedule.step_time import time_bound
from hlo_cli.analysis.sharding.collectives import bands_of, left_out_errors, wire_factor
from hlo_cli.ir.module import Module
from hlo_cli.transform.module_time import module_time
from share import every

FIGURES_IN_HELP = {"b200": 55, "h100": 89, "mi350x": 343}, {"b200": 56, "h100": 92, "mi350x": 376}
DUMPS = compiled_dumps()[::3]
MLP = """HloModule m
relu { a = f32[64,512] parameter(0)  z = f32[] constant(0)  b = f32[64,512] broadcast(z), dimensions={}
  ROOT m = f32[64,512] maximum(a, b) }
ENTRY e { x = f32[64,256] parameter(0)  w = f32[256,512] parameter(1)  c = f32[512] parameter(2)
  d = f32[64,512] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[64,512] broadcast(c), dimensions={1}
  t = f32[64,512] add(d, s)
  r = f32[32768] reshape(t)
  u = f32[64,512] reshape(r)
  v = f32[64,512] tanh(u)
  n = f32[64,512] negate(v)
  ROOT y = f32[64,512] multiply(n, v) }
"""


CHIPS = ("b200", "h100", "mi350x")
Judged = dict[str, tuple[TableFit, Sequence[Sequence[float]]]]


@cache
def judged_on(chip: str) -> Judged:
    """What the table of a chip without the held-out quarter says of that quarter, by types."""
    columns = [types for name, types in matmul_times() if name == chip]
    return {types: judged((chip, types), MATMUL_MODELS[chip, family_of(types)]) for types in columns}


def covers(band_and_errors: Iterable[tuple[Band, Sequence[float]]]) -> tuple[int, int]:
    """How many errors are in their bands, and how many there are."""
    pairs = list(band_and_errors)
    return sum(inside(*pair) for pair in pairs), sum(len(errors) for _, errors in pairs)


@pytest.mark.slow
def test_most_held_out_matmuls_are_within_15_percent() -> None:
    near, number = {}, {}
    for chip in CHIPS:
        large = [error for _, (_, errors) in judged_on(chip).values() for error in errors]
        near[chip], number[chip] = sum(abs(exp(-error) - 1) < 0.15 for error in large), len(large)
        assert near[chip] >= 0.85 * number[chip], f"{chip}: {near[chip]} of {number[chip]}"
    assert near["mi350x"] > 0.9 * number["mi350x"]
    assert (near, number) == FIGURES_IN_HELP, "the figures of `hlo help chips`"


@pytest.mark.slow
@pytest.mark.parametrize("chip", CHIPS)
def test_bands_of_matmuls_hold_what_they_say(chip: str) -> None:
    """The band is that of shapes left out of the rest of the table in turn; the held-out quarter judges it."""
    for part, is_large in enumerate((False, True)):
        found, number = covers((fit[part].band, errors[part]) for fit, errors in judged_on(chip).values())
        assert number > 50
        assert 0.7 * number <= found <= 0.9 * number, f"{chip}, {is_large=}: {found} of {number}"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bf16", "f32", "f8"])
@pytest.mark.parametrize("chip", CHIPS)
def test_bands_of_each_kind_of_matmul_hold(chip: str, kind: str) -> None:
    of_kind = [found for types, found in judged_on(chip).items() if family_of(types) == kind]
    found, number = covers((way.band, errors) for fit, sides in of_kind for way, errors in zip(fit, sides, strict=True))
    # Two standard deviations of so few shapes, if the band holds 80%.
    tolerance = 0.1 + 2 * sqrt(0.16 / number)
    assert abs(found / number - 0.8) <= tolerance, f"{found} of {number}"


@pytest.mark.slow
@pytest.mark.parametrize("chip", [*CHIPS[:2], pytest.param(CHIPS[2], marks=pytest.mark.long)])
def test_the_fits_are_those_of_the_tables(chip: str) -> None:
    for (name, types), times in matmul_times().items():
        if name == chip:
            unit, model = measured_unit(chip, family_of(types)), MATMUL_MODELS[chip, family_of(types)]
            fit, written = fit_of(times, sizes_of(types), unit, model), TABLE_FITS[chip, types]
            for way, other in zip(fit, written, strict=True):
                assert way.method == other.method
                assert way.band == pytest.approx(other.band, abs=0.0051)


LINKED = ("b200", "gb200", "gb300", "h100", "mi350x")


@pytest.mark.parametrize("chip", LINKED)
def test_most_held_out_collectives_are_near(chip: str) -> None:
    left_out, held_out = collective_errors(chip)
    large, small = sides(held_out)
    assert len(large) > 40
    assert len(small) > 30
    assert sum(abs(exp(-error) - 1) < 0.3 for error in large) >= 0.9 * len(large)
    assert sum(abs(error) < log(2) for error in small) >= 0.88 * len(small)
    both = zip(bands_of(left_out), (large, small), strict=True)
    found, number = covers(both)
    assert 0.7 * number <= found <= 0.9 * number, f"{found} of {number}"


def sides(errors: Errors) -> tuple[list[float], list[float]]:
    """The errors of payloads of 1 MiB or more, and of smaller ones."""
    large, small = ([error for size, error in errors if (size >= 1 << 20) == is_large] for is_large in (True, False))
    return large, small


@pytest.mark.parametrize("chip", LINKED)
def test_the_bands_of_collectives_are_those_of_the_tables(chip: str) -> None:
    whole = [
        each for (name, _), series in collective_times().items() if name == chip for each in left_out_errors(series)
    ]
    for band, written in zip(bands_of(whole), COLLECTIVE_BANDS[chip], strict=True):
        assert band == pytest.approx(written, abs=0.0051)


@pytest.mark.parametrize("part", every(4, range(4)))
def test_no_measured_matmul_beats_its_bound(part: int) -> None:
    for (chip, types), times in matmul_times().items():
        spec = chip_spec(chip)
        lhs, _, rest = types.partition("x")
        rhs, _, result = rest.partition("->")
        if not result:
            lhs, rhs, result = {"f8": ("f8e4m3fn", "f8e4m3fn", "bf16")}.get(types, (types, types, types))
        for (batch, m, n, k), seconds in [*times.items()][part::4]:
            operands = f"{lhs}[{batch},{m},{k}] a, {rhs}[{batch},{k},{n}] b"
            dims = "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}"
            dot = parse_module(f"r = {result}[{batch},{m},{n}] dot({operands}), {dims}")
            bound = time_bound(analyze_overlap(dot), spec)
            assert seconds >= bound, f"{chip} {types} {batch, m, n, k}"
            assert dot.entry.root is not None
            estimate = predicted_times([dot.entry.root], spec)[dot.entry.root]
            assert estimate.low >= bound


@pytest.mark.long
@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_the_script_finds_the_constants(group: tuple[str, str]) -> None:
    assert fitted([group]) == MATMUL_MODELS[group[0], family_of(group[1])]


def test_a_quarter_is_held_out() -> None:
    shapes = {shape for times in matmul_times().values() for shape in times}
    assert 0.2 < sum(is_held_out(*shape) for shape in shapes) / len(shapes) < 0.3


@pytest.mark.parametrize("group", sorted(TABLE_FITS), ids=str)
def test_measured_shapes_get_their_time(group: tuple[str, str]) -> None:
    chip, types = group
    kind = {"f32": "tf32"}.get(family_of(types), family_of(types))
    for shape, seconds in list(matmul_times()[group].items())[::7]:
        found = matmul_time(shape, kind, chip_spec(chip), types=types)
        assert found is not None
        assert found.seconds == pytest.approx(seconds, rel=0.01)
        assert found.sources == {"table"}


def test_no_measured_collective_beats_its_links() -> None:
    """XLA's rate of a reduce-scatter counts the operand: counted as results, 8 H100 would send 2.6 TB/s of 450 GB/s."""
    for (chip, kind), series in collective_times().items():
        spec = chip_spec(chip)
        assert spec.links is not None
        for (_, devices), times in series.items():
            sent = float(wire_factor(kind, devices, "ring"))
            if kind == "all-gather":
                sent /= devices  # of the operands, which are a part of the payload
            if spec.adds_in_switches and kind == "all-reduce":
                sent = min(sent, 1.0)
            for size, seconds in times.items():
                assert seconds >= size * sent / spec.links.per_second


@pytest.mark.parametrize("chip", [chip.name for chip in known_chips() if chip.spec.cores])
def test_larger_matmuls_take_longer(chip: str) -> None:
    spec = chip_spec(chip)
    for kind in ("bf16", "tf32", "f8", "f32 highest", "s8"):
        times = [matmul_time((1, size, size, size), kind, spec) for size in (100, 900, 5000, 20_000)]
        if None not in times:
            seconds = [each.seconds for each in times if each is not None]
            assert seconds == sorted(seconds)
            assert seconds[-1] > 2 * seconds[-2]


def test_f32_is_tf32_on_nvidia_only() -> None:
    a, b = (f"f32[4096,4096] {name}" for name in "ab")
    for precision in ("", ", operand_precision={highest,highest}"):
        text = f"r = f32[4096,4096] dot({a}, {b}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}{precision}"
        dot = parse_module(text).entry.root
        assert dot is not None
        h100, mi350 = (predicted_times([dot], chip_spec(chip)).get(dot) for chip in ("h100", "mi350"))
        assert h100 is not None
        assert mi350 is not None
        flops = 2 * 4096**3
        assert (h100.seconds < flops / 66.9e12) is not precision.startswith(", "), "more than the peak of f32"
        assert mi350.seconds > flops / 144.2e12


@cache
def module_of(dump: Dump) -> Module:
    return parse_module(dump.text)


@pytest.mark.parametrize("chip", ["h100", "mi350", "v5e"])
@pytest.mark.parametrize("dump", DUMPS, ids=str)
def test_predictions_are_in_their_band_and_at_least_the_bound(dump: Dump, chip: str) -> None:
    spec, module = chip_spec(chip), module_of(dump)
    costs = costs_of_kernels(module.instructions)
    for kernel, cost in costs.items():
        assert cost.output_bytes <= needed_cost(kernel, cost).bytes_accessed <= cost.bytes_accessed or cost.unknown
    for kernel, found in predicted_times(module.instructions, spec).items():
        assert 0 <= found.low <= found.seconds <= found.high
        bound = roofline(costs[kernel], spec, compute_type(kernel))
        assert found.seconds >= bound.at_least_seconds or not found.seconds
    whole = module_time(module, spec, is_optimized=True)
    assert whole.at_least_seconds is not None
    assert whole.at_least_seconds <= whole.estimate.low <= whole.estimate.seconds <= whole.estimate.high
    assert not whole.is_fused


def test_unoptimized_text_is_timed_after_fusion() -> None:
    module, chip = parse_module(MLP), chip_spec("mi350")
    fused, plain = (module_time(module, chip, is_optimized=optimized) for optimized in (False, True))
    assert fused.is_fused
    assert fused.at_least_seconds is None, "operations may still be removed"
    assert fused.estimate.sources.isdisjoint(("XLA model",)), "which knows only fusions that XLA would make"
    assert fused.kernels < plain.kernels
    assert fused.estimate.seconds < 0.6 * plain.estimate.seconds


def test_kernels_of_a_command_buffer_may_launch_faster() -> None:
    text = "HloModule m  command_buffer { p = f32[9] parameter(0)  ROOT n = f32[9] negate(p) }"
    text += (
        " ENTRY e { p = f32[9] parameter(0)  m = f32[9] negate(p)  ROOT c = f32[9] call(m), to_apply=command_buffer }"
    )
    found = {
        each.name: time for each, time in predicted_times(parse_module(text).instructions, chip_spec("h100")).items()
    }
    assert found["n"].seconds == found["m"].seconds
    assert found["n"].low < found["m"].low / 100


def test_the_band_of_a_sum_is_the_sum_of_bands() -> None:
    parts = [Estimate(1.0, 2.0, 4.0), Estimate(0.5, 0.5, 1.0)]
    assert total(parts * 3) == parts[0] * 3 + parts[1] * 3


def test_measured_chips_are_known() -> None:
    names = {chip.name for chip in known_chips() if chip.spec.cores}
    assert set(MEASURED_AS) <= names
    assert {"mi300x", "mi350x", "mi355x"} <= names


def test_a_convolution_reads_its_input_once() -> None:
    """A 3 × 3 window reads each input 9 times, but from caches: H100 is bound by compute here, not by memory."""
    sizes = "f32[32,56,56,64]{3,2,1,0} a, f32[3,3,64,64]{3,2,1,0} k"
    labels = "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"
    conv = parse_module(f"r = f32[32,56,56,64]{{3,2,1,0}} convolution({sizes}), {labels}").entry.root
    assert conv is not None
    found = predicted_times([conv], chip_spec("h100")).get(conv)
    assert found is not None
    pixels = 32 * 56 * 56
    assert found.seconds > 2 * pixels * 64 * 9 * 64 / 494.7e12
    assert found.seconds < 4 * pixels * 9 * 64 / 3.35e12, "less than to read all windows from memory"
