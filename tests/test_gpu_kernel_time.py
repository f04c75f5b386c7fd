"""Times of GPU kernels in estimates: XLA's own printed times, the same in every command, and what makes kernels slow.

Expectations are XLA's: the first times that priority fusion printed for each operation, before anything was fused.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dumps import Dump, compiled_dumps
from gpu_fusion_dumps import HOME, Program, programs, steps_of
from hlo_cli import chip_spec, parse_module
from hlo_cli.analysis.cost.cost_analysis import costs_of_kernels
from hlo_cli.analysis.dataflow.dependencies import EqualComputations
from hlo_cli.analysis.fusion import gpu_kernels as home
from hlo_cli.analysis.fusion.gpu_kernels import GpuKernel, gpu_kernels
from hlo_cli.analysis.fusion.gpu_model import KernelModel
from hlo_cli.analysis.fusion.gpu_work import TICKS_PER_SECOND
from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
from hlo_cli.analysis.hardware.chip_specs import read_throughputs
from hlo_cli.analysis.hardware.gpu_devices import device_of, gpu_device
from hlo_cli.analysis.hardware.time_model import KERNEL_SLOWDOWN, LAUNCH_SECONDS
from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
from hlo_cli.analysis.schedule.kernel_times import KernelTimes, moves_nothing, predicted_times
from hlo_cli.analysis.schedule.step_time import estimate_time
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.transform.fusion.gpu_fusion import gpu_computations
from in_process import run

PROGRAMS = programs()
COMPILED = [dump for dump in compiled_dumps() if dump.platform == "gpu"]
CHIPS = ("h100", "a100-80gb", "b200", "mi300x", "mi350")


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_times_before_fusion_are_those_that_xla_printed(program: Program) -> None:
    """Of a producer and its users, each with a launch of 1 µs, which is not in the times of kernels."""
    for names, ours, printed in printed_times(program):
        assert ours == pytest.approx(printed, rel=3e-7), names


def test_many_times_are_compared() -> None:
    assert sum(len(printed_times(program)) for program in PROGRAMS) > 400


@cache
def printed_times(program: Program) -> list[tuple[set[str], float, float]]:
    """Producers with their users, and our and XLA's microseconds of them, before anything was fused."""
    module = parse_module(program.text("before_priority_fusion"))
    instructions = {each.name: each for each in module.instructions}
    kernels = {each.name: kernel for each, kernel in all_kernels(module, program.chip)}
    fused: set[str] = set()
    found = []
    for step in steps_of(program.text("priority_fusion_dump")):
        names = {step.producer, *step.consumers}
        if step.kind == "fusion":
            fused |= names | {step.fusion}
        elif step.kind == "update_priority" and not names & fused:
            if any("__triton" in instructions[name].raw[1] for name in names):
                continue
            assert all(name in kernels or instructions[name].opcode == "bitcast" for name in names)
            ours = sum(kernels[name].seconds for name in names if name in kernels) * 1e6 + len(names)
            found.append((names, ours, step.us_unfused))
    return found


def all_kernels(module: Module, chip: str) -> Iterator[tuple[Instruction, GpuKernel]]:
    device = device_of(chip_spec(chip))
    assert device is not None
    for computation in gpu_computations(module):
        yield from gpu_kernels(computation, device).items()


@cache
def module_of(dump: Dump) -> Module:
    return parse_module(dump.text)


@pytest.mark.parametrize("chip", [CHIPS[0], *(pytest.param(chip, marks=pytest.mark.slow) for chip in CHIPS[1:])])
@pytest.mark.parametrize("dump", COMPILED, ids=str)
def test_every_command_has_the_same_time(dump: Dump, chip: str) -> None:
    """That of the fusion passes, and for kernels that they do not know the general estimate."""
    module, spec = module_of(dump), chip_spec(chip)
    model = KernelModel(gpu_device(chip))
    nodes = {node.instruction: node for each in gpu_computations(module) for node in mutable_graph_of(each).nodes}
    times, costs = KernelTimes(spec), costs_of_kernels(module.instructions)
    scheduled = estimate_time(analyze_overlap(module), spec).predicted
    profiled = predicted_times(module.instructions, spec)
    modeled = 0
    for kernel, cost in costs.items():
        found = times.known(kernel, cost)
        if found is None or kernel not in nodes:
            continue
        estimate = found.estimate
        assert profiled[kernel] == estimate
        assert scheduled.get(kernel, estimate) == estimate or not scheduled[kernel].seconds
        assert ("XLA model" in estimate.sources) is (found.kernel is not None)
        if found.kernel is not None:
            modeled += 1
            assert found.kernel_seconds == model.time(nodes[kernel]).ticks / TICKS_PER_SECOND
            assert estimate.launch_seconds == LAUNCH_SECONDS
            at_least = max(found.kernel_seconds + LAUNCH_SECONDS, found.roofline.at_least_seconds)
            assert estimate.seconds == at_least
            assert not moves_nothing(kernel)
            assert 'kind":"__triton' not in kernel.raw[1].replace(" ", "")
    assert modeled


def test_the_table_has_the_times_and_their_parts() -> None:
    dump = next(each for each in COMPILED if each.name == "h100_transformer")
    module = module_of(dump)
    found = ask(dump.path, "--chip", "h100")
    rows = found["tables"]["kernels"]["rows"]
    kernels = {each.name: kernel for each, kernel in all_kernels(module, "h100")}
    assert {row["instruction"] for row in rows if row["emitter"]} <= kernels.keys()
    for row in rows:
        kernel = kernels.get(row["instruction"])
        if row["estimated_seconds"] is None:
            continue
        parts = row["kernel_seconds"] + row["launch_seconds"]
        assert row["estimated_seconds"] == pytest.approx(parts)
        if row["emitter"]:
            assert kernel is not None
            assert row["kernel_seconds"] == kernel.seconds
            assert row["estimate_source"] == "XLA model, launch floor"
            assert row["blocks"] == kernel.time.blocks
    assert any(row["emitter"] is None for row in rows), "of matmuls"
    for kind in found["tables"]["kernel_kinds"]["rows"]:
        made = [row for row in rows if (row["kernel_kind"], row["provider"]) == (kind["kernel_kind"], kind["provider"])]
        counts = Counter(row["opcode"] for row in made)
        assert kind["opcodes"] == ", ".join(f"{opcode} {count}" for opcode, count in counts.most_common())
        for name in ("estimated_seconds", "kernel_seconds", "launch_seconds"):
            if kind[name] is not None:
                assert kind[name] == pytest.approx(sum(row[name] for row in made))
    assert found["answer"]["model"]["generated_kernels"] == "XLA model, target h100_sxm"


def ask(path: Path | str, *options: str) -> dict[str, Any]:
    shown, notes, code = run(["fuse", str(path), *options, "--format", "json"], folder=HOME, settings={})
    assert code == 0, notes
    found: dict[str, Any] = json.loads(shown)
    return found


def test_chips_without_figures_keep_their_estimate() -> None:
    add = parse_module("r = f32[1000000] add(f32[1000000] a, f32[1000000] b)").entry.root
    assert add is not None
    own = read_throughputs("[chip.mine]\nmemory = 8e11\ncores = 64\nflops = {f32 = 1e15}\n", "chips.toml")["mine"]
    faster = read_throughputs("[chip.h100]\nmemory = 8e11\n", "chips.toml")["h100"]
    for spec in (own, faster, chip_spec("t4")):
        found = predicted_times([add], spec).get(add)
        assert found is not None
        work = KERNEL_SLOWDOWN * 12e6 / spec.memory.per_second
        assert found.seconds == pytest.approx(work + LAUNCH_SECONDS)
        assert found.sources == {"roofline", "launch floor"}
    tpu = predicted_times([add], chip_spec("v5e")).get(add)
    assert tpu is not None
    assert tpu.sources == {"roofline"}


OTHERS = """HloModule m
less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT l = pred[] compare(a, b), direction=LT }
body { a = f32[64,64] parameter(0)  b = f32[64,64] parameter(1)  d = f32[64,64] dot(a, b), lhs_contracting_dims={1},
  rhs_contracting_dims={0}  ROOT n = f32[64,64] negate(d) }
view { a = f32[64,64] parameter(0)  ROOT b = f32[4096] bitcast(a) }
tanh { a = f32[64,64] parameter(0)  ROOT b = f32[64,64] tanh(a) }
ENTRY e { p = f32[64,64] parameter(0)  q = f32[4096] parameter(1)
  dot = f32[64,64] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  gemm = f32[64,64] fusion(p, dot), kind=kLoop, calls=body
  call = f32[64,64] custom-call(gemm), custom_call_target="library"
  sort = f32[4096] sort(q), dimensions={0}, to_apply=less
  triton = f32[64,64] fusion(call), kind=kCustom, calls=tanh, backend_config={"fusion_backend_config":{"kind":"__triton"}}
  view = f32[4096] fusion(triton), kind=kLoop, calls=view
  loop = f32[64,64] fusion(triton), kind=kLoop, calls=tanh
  add = f32[64,64] add(loop, triton)
  ROOT r = (f32[64,64], f32[4096], f32[4096]) tuple(add, view, sort) }
"""


def test_only_kernels_that_xla_generates_are_modeled() -> None:
    module = parse_module(OTHERS)
    times = KernelTimes(chip_spec("h100"))
    costs = costs_of_kernels(module.entry.instructions)
    modeled = {each.name for each, cost in costs.items() if times.predict(each, cost).kernel is not None}
    assert modeled == {"loop", "add"}


DAMAGED = (
    "r = f32[64,32] transpose(f32[32,64] a)",
    "r = f32[64,32] transpose(f32[32,64] a), dimensions={1,7}",
    "r = f32[64,32] concatenate(f32[32,32] a, f32[32,32] b)",
    "r = f32[64] reduce(f32[64,32] a, f32[] b), dimensions={5}, to_apply=x",
    "r = f32[64] reduce-window(f32[64,32] a, f32[] b), window={size=3}, to_apply=x",
    "r = f32[64] scatter(f32[64] a, s32[3] b, f32[3] c), update_window_dims={4}, to_apply=x",
    "r = f32[64] add(f32[64] a)",
    "r = f32[64] fusion(f32[64] a), kind=kLoop, calls=nothing",
)


@pytest.mark.parametrize("text", DAMAGED)
@pytest.mark.parametrize("chip", CHIPS)
def test_damaged_kernels_have_no_model(text: str, chip: str) -> None:
    root = parse_module(text).entry.root
    assert root is not None
    costs = costs_of_kernels((root,))
    assert KernelTimes(chip_spec(chip)).predict(root, costs[root]).kernel is None


def test_the_range_has_those_of_both_models() -> None:
    """The roofline was calibrated on whole models, XLA's model on none."""
    for dump in COMPILED:
        module, spec = module_of(dump), chip_spec("h100")
        times = KernelTimes(spec)
        for kernel, cost in costs_of_kernels(module.instructions).items():
            found = times.predict(kernel, cost)
            if found.kernel is not None and not kernel.computation.name.startswith("command_buffer"):
                seconds = (found.kernel.seconds, KERNEL_SLOWDOWN * found.roofline.seconds)
                assert found.estimate.low <= max(
                    0.71 * (min(seconds) + LAUNCH_SECONDS), found.roofline.at_least_seconds
                )
                assert found.estimate.high >= 1.44 * (max(seconds) + LAUNCH_SECONDS)


def test_each_computation_is_modeled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Computation] = []

    def modeled(_: object, computation: Computation) -> dict[Instruction, GpuKernel]:
        asked.append(computation)
        return {}

    monkeypatch.setattr(home.GpuKernels, "_model", modeled)
    module = module_of(COMPILED[0])
    predicted_times(module.instructions, chip_spec("h100"))
    assert len(asked) == len(set(asked)) > 1


@pytest.mark.parametrize("dump", COMPILED, ids=str)
def test_equal_fusions_have_the_kernels_that_each_has(dump: Dump, monkeypatch: pytest.MonkeyPatch) -> None:
    module, device = module_of(dump), gpu_device("h100")
    shared = home.GpuKernels(device)
    found = {each: shared.of(each) for each in module.computations}
    monkeypatch.setattr(EqualComputations, "first", lambda _, computation: computation)
    assert found == {each: home.gpu_kernels(each, device) for each in module.computations}


SLOW = """HloModule slow, is_scheduled=true
swap { a = f32[4096,64,64]{2,1,0} parameter(0)  t = f32[64,64,4096]{2,1,0} transpose(a), dimensions={1,2,0}
  u = f32[64,64,4096]{2,1,0} sine(t)  b = f32[3,64,64,4096]{3,2,1,0}
  broadcast(u), dimensions={1,2,3}  ROOT c = f32[3,64,64,4096]{3,2,1,0} cosine(b) }
few { a = f32[600]{0} parameter(0)  ROOT t = f32[600]{0} tanh(a) }
again { a = f32[8000]{0} parameter(0)  b = f32[2000,8000]{1,0} broadcast(a), dimensions={1}
  ROOT t = f32[2000,8000]{1,0} tanh(b) }
ENTRY e { p = f32[4096,64,64]{2,1,0} parameter(0)  q = f32[600]{0} parameter(1)  r = f32[8000]{0} parameter(2)
  swap = f32[3,64,64,4096]{3,2,1,0} fusion(p), kind=kLoop, calls=swap
  few = f32[600]{0} fusion(q), kind=kLoop, calls=few
  again = f32[2000,8000]{1,0} fusion(r), kind=kLoop, calls=again
  ROOT t = (f32[3,64,64,4096]{3,2,1,0}, f32[600]{0}, f32[2000,8000]{1,0}) tuple(swap, few, again) }
"""
WHY = {
    "swap": "reads are not coalesced: 64 B are transferred for each element",
    "few": "too few blocks: 127 of 132 cores are idle",
    "again": "r is read 2,000 times",
}


@pytest.mark.parametrize("name", WHY)
def test_a_fusion_says_why_its_kernel_is_slow(name: str, tmp_path: Path) -> None:
    path = tmp_path / "slow.hlo"
    path.write_text(SLOW)
    settings = {"COLUMNS": "120", "NO_COLOR": "1"}
    shown, _, code = run(
        ["fuse", "slow.hlo", name, "--chip", "h100", "--format", "screen"], folder=tmp_path, settings=settings
    )
    words = " ".join(shown.split())
    assert code == 0
    assert WHY[name] in words
    kernel = ask(path, name, "--chip", "h100")["answer"]["kernel"]
    assert WHY[name] in kernel["slow_because"]
    assert f"{kernel['emitter']} emitter, " in words
    assert "kernel" not in ask(path, name)["answer"]
    assert "kernel" not in ask(path, name, "--chip", "t4")["answer"]
