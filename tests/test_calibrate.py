"""`hlo profile --calibrate`: factors of classes of kernels, as a file that every command takes as a chip."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dumps import FIXTURES
from hlo_cli import chip_spec, estimate_time, parse_module
from hlo_cli.analysis.cost.cost_analysis import cost_of
from hlo_cli.analysis.hardware.chip_specs import read_throughputs
from hlo_cli.analysis.hardware.chip_table import Calibration, ClassTime
from hlo_cli.analysis.hardware.time_model import Estimate
from hlo_cli.analysis.profile.calibration import WIDE, Sample, _launch_seconds, calibrate, calibration_text, class_time
from hlo_cli.analysis.profile.profile import Operation
from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
from hlo_cli.analysis.schedule.kernel_classes import kernel_class
from hlo_cli.analysis.schedule.kernel_times import matmuls_within
from hlo_cli.cli import main
from hlo_cli.commands.options.io_options import InputOptions
from hlo_cli.commands.profile.measured import load_profile
from hlo_cli.source import HloError

TRACE = str(FIXTURES / "traces" / "cpu" / "trace.xplane.pb")
STEPS = str(FIXTURES / "traces" / "cpu_steps" / "trace.xplane.pb")
OPERATION = Operation("add.1", None, None)


def samples_of(times: dict[float, float], kind: str = "matmul") -> list[Sample]:
    return [Sample(OPERATION, seconds, 1.0, kind, modeled) for modeled, seconds in times.items()]


def test_a_class_recovers_its_factor_and_its_launch() -> None:
    work = np.geomspace(1e-5, 1e-2, 40)
    found = class_time(samples_of({each: 2e-6 + 1.7 * each for each in work}), 2e-6)
    assert found.factor == pytest.approx(1.7, rel=0.01)
    assert found.seconds == 2e-6
    assert found.low == pytest.approx(1, abs=0.01)
    assert found.high == pytest.approx(1, abs=0.01)


def test_large_kernels_say_nothing_of_the_launch() -> None:
    large = samples_of({1e-3: 1.2e-3, 2e-3: 2.4e-3})
    assert _launch_seconds(large, 3e-6) == 3e-6
    small = samples_of({1e-9 * each: 4e-6 + 1e-9 * each for each in range(1, 9)})
    assert _launch_seconds([*large, *small], 3e-6) == pytest.approx(4e-6)


def test_the_range_holds_8_of_10() -> None:
    random = np.random.default_rng(3)
    times = {float(work): float(work * random.lognormal(0.2, 0.15)) for work in np.geomspace(1e-4, 1e-3, 200)}
    found = class_time(samples_of(times), 0.0)
    inside = sum(found.low <= seconds / (found.factor * work) <= found.high for work, seconds in times.items())
    assert 0.75 * len(times) <= inside <= 0.85 * len(times)
    assert found.high / found.low < 1.6


def test_a_class_of_few_kernels_is_wide() -> None:
    found = class_time(samples_of({1e-3: 2e-3, 2e-3: 4e-3}), 0.0)
    assert (found.kernels, found.low, found.high) == (2, *WIDE)
    assert found.factor == 2


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("f32[512,512] dot(f32[512,512] a, f32[512,512] b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "matmul"),
        ("f32[512,512]{1,0} transpose(f32[512,512]{1,0} a), dimensions={1,0}", "transposition, large"),
        ("f32[512,512]{0,1} transpose(f32[512,512]{1,0} a), dimensions={1,0}", "memory, small"),
        ("f32[512,512]{0,1} copy(f32[512,512]{1,0} a)", "transposition, large"),
        ("f32[1,512]{0,1} copy(f32[1,512]{1,0} a)", "memory, small"),
        ("f32[512] cosine(f32[512] a)", "sine, small"),
        ("f32[] reduce(f32[512] a, f32[] b), dimensions={0}, to_apply=f", "reduction, small"),
        ('f32[9] custom-call(f32[9] a), custom_call_target="mine"', "custom call mine"),
    ],
)  # fmt: skip
def test_classes(text: str, kind: str) -> None:
    root = parse_module(f"r = {text}").entry.root
    assert root is not None
    assert kernel_class(root, cost_of(root), matmuls_within(root)) == kind


def test_what_is_written_is_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "machine.toml"
    assert main(["profile", TRACE, "--calibrate", "-o", str(path)], standalone=False) in (0, None)
    out, err = capsys.readouterr()
    assert not out
    assert "--chip-file" in err
    profile = load_profile(TRACE, (), InputOptions()).profile
    chip, samples = calibrate(profile, None, "cpu", f"measured in {TRACE}")
    [read] = read_throughputs(path.read_text(), str(path)).values()
    assert read.calibration is not None
    assert chip.calibration is not None
    assert read.calibration.classes == chip.calibration.classes
    assert read.calibration.seconds_per_kernel == chip.calibration.seconds_per_kernel
    assert sum(each.kernels for each in read.calibration.classes.values()) == len(samples) > 0
    assert "wide" in path.read_text(), "classes of few kernels say so"


def test_a_trace_of_another_kind_of_chip_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["profile", STEPS, "--calibrate", "-o", str(tmp_path / "m.toml")]
    for chip, is_noted in (("v5e", True), ("", False)):
        assert main([*words, *(["--chip", chip] if chip else [])], standalone=False) == 0
        assert ("v5e is a TPU, but the trace is of a CPU" in capsys.readouterr().err) == is_noted


def test_the_measured_program_gets_about_its_time() -> None:
    """In the sum of the kernels of a trace, whose best times the factors are of."""
    profile = load_profile(STEPS, (), InputOptions()).profile
    chip, samples = calibrate(profile, None, "cpu", "a trace")
    assert chip.calibration is not None
    predicted = 0.0
    for each in samples:
        found = chip.calibration.classes.get(each.kind) or chip.calibration.of("small")
        predicted += each.calls * (found.seconds + found.factor * each.modeled)
    assert predicted == pytest.approx(sum(each.total for each in samples), rel=0.1)


def test_every_command_takes_it_as_a_chip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    toml, dump = tmp_path / "m.toml", tmp_path / "m.hlo"
    calibration = Calibration({"memory, small": ClassTime(9, 1e-3, 3.0, 0.9, 1.25)}, 0.0, "a trace")
    slow = chip_spec("h100")
    toml.write_text(
        calibration_text(type(slow)("mine", slow.flops, slow.memory, calibration=calibration), is_known=False)
    )
    dump.write_text("HloModule m, is_scheduled=true\nENTRY e { p = f32[9] parameter(0)  ROOT n = f32[9] negate(p) }\n")
    assert main(["schedule", str(dump), "--chip-file", str(toml), "--format", "json"], standalone=False) in (0, None)
    answer = json.loads(capsys.readouterr().out)["answer"]
    assert answer["execution_seconds"] == pytest.approx(1e-3, rel=1e-3)
    assert answer["execution_high_seconds"] == pytest.approx(1.25e-3, rel=1e-3)
    assert answer["execution_at_least_seconds"] is None, "rates that kernels reach are no bound"
    for command in ("fuse", "lint", "report"):
        code = main([command, str(dump), "--chip-file", str(toml), "--format", "json"], standalone=False)
        assert code in (0, 1, None), command
        capsys.readouterr()


def test_a_class_that_was_not_measured_has_a_wide_range() -> None:
    spec = chip_spec("v5e")
    calibration = Calibration({"memory, large": ClassTime(20, 0.0, 2.0, 0.95, 1.05)}, 0.0, "a trace")
    own = type(spec)("mine", spec.flops, spec.memory, calibration=calibration)
    times: list[Estimate] = []
    for operation in ("negate(f32[4194304] a)", "sine(f32[4194304] a)"):
        step = estimate_time(analyze_overlap(parse_module(f"r = f32[4194304] {operation}")), own)
        times += step.predicted.values()
    known, unknown = (each for each in times if each.seconds)
    assert known.seconds == pytest.approx(unknown.seconds)
    assert known.high / known.low == pytest.approx(1.05 / 0.95)
    assert unknown.high / unknown.low == pytest.approx(4)
    assert known.sources == {"calibration"}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("classes = 3", "classes must be tables"),
        ("[chip.m.classes.matmul]\nlow = 0.9", "class matmul: missing factor"),
        ("[chip.m.classes.matmul]\nfactor = -1", "from 0 to 1e30 for factor, found -1"),
        ("[chip.m.classes.matmul]\nfactor = 1\nlow = 2", "from 0 to 1 for low, found 2"),
        ("[chip.m.classes.matmul]\nfactor = 1\nhigh = 0.5", "from 1 to 1e30 for high, found 0.5"),
        ("[chip.m.classes.matmul]\nfactor = true", "for factor, found True"),
        ("[chip.m.classes.matmul]\nfactor = 1\nspeed = 2", "class matmul: unknown key speed"),
        ('seconds_per_kernel = "x"\nclasses = {}', "for seconds_per_kernel, found x"),
    ],
)
def test_bad_files_are_errors(table: str, message: str) -> None:
    with pytest.raises(HloError) as caught:
        read_throughputs(f"[chip.m]\nmemory = 1e9\n{table}\n", "m.toml")
    assert message in str(caught.value)
    assert "m.toml" in str(caught.value)


def test_other_formats_are_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", TRACE, "--calibrate", "--format", "json"], standalone=False) == 2
    assert "--calibrate cannot be used with --format json" in capsys.readouterr().err
    assert main(["profile", TRACE, "-o", "x.toml"], standalone=False) == 2
    assert "--calibrate" in capsys.readouterr().err
