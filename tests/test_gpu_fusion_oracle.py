"""XLA:GPU's fusion of random programs that plugins of JAX compile now, without a GPU.

The plugin for NVIDIA is that of `GPU_PYTHON`, a Python with `jax[cuda12]`'s plugin and PJRT packages, or of this Python.
That for AMD is `ROCM_PLUGIN`, the path of `xla_rocm_plugin.so` from an unpacked jax-rocm7-pjrt.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from gpu_fusion_dumps import CHIPS, Step, follow, kernels_of, named_kernels, programs
from hlo_cli import parse_module
from hlo_cli.analysis.fusion.gpu_work import f32, microseconds
from hlo_cli.analysis.hardware.gpu_devices import GpuDevice, gpu_device
from hlo_cli.ir.module import Module
from hlo_cli.library import module_from_bytes
from hlo_cli.transform.fusion.gpu_fusion import EXACT, GpuFusion, gpu_fuse
from hlo_cli.transform.fusion.gpu_priority_fusion import Update
from rocm_stubs import make_stubs

PYTHON = os.environ.get("GPU_PYTHON", sys.executable)
ROCM_PLUGIN = os.environ.get("ROCM_PLUGIN", "")
COUNT = int(os.environ.get("GPU_PROGRAMS", "10"))
SEED = int(os.environ.get("GPU_SEED", "0"))


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stubs of ROCm's libraries."""
    folder = tmp_path_factory.mktemp("rocm")
    make_stubs(Path(ROCM_PLUGIN), folder)
    return folder


def settings_for(device: GpuDevice, request: pytest.FixtureRequest) -> dict[str, str]:
    """Environment in which the plugin for a device compiles; skips without the plugin."""
    if device.is_rocm:
        if not Path(ROCM_PLUGIN).is_file():
            pytest.skip("no plugin for AMD: name xla_rocm_plugin.so in ROCM_PLUGIN")
        return {"LD_LIBRARY_PATH": str(request.getfixturevalue("libraries"))}
    if subprocess.run([PYTHON, "-c", "import jax_cuda12_plugin"], check=False, capture_output=True).returncode:
        pytest.skip("jax_cuda12_plugin is not installed: name a Python that has it in GPU_PYTHON")
    return {}


@pytest.mark.oracle
@pytest.mark.long
@pytest.mark.parametrize("spec", sorted(CHIPS))
def test_random_programs_are_fused_by_xla_as_here(spec: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    _compile(spec, "program", tmp_path, request)
    pairs = reasons = fusions = same = 0
    wrong: list[tuple[str, Step, object]] = []
    wrong_reasons: list[tuple[str, Step, object]] = []
    for program in programs(tmp_path):

        def check(update: Update, step: Step) -> None:
            nonlocal pairs, reasons
            is_reason = step.kind == "producer_ineligible"
            pairs, reasons = pairs + (not is_reason), reasons + is_reason
            ours = update.reason if update.times is None else tuple(f32(microseconds(t)) for t in update.times)
            theirs = step.reason if is_reason else (f32(step.us_fused), f32(step.us_unfused))
            if ours != theirs:
                (wrong_reasons if is_reason else wrong).append((str(program), step, ours))  # noqa: B023

        follow(program, check, lambda _pass, _producer: None)
        if program.has_triton:
            continue
        proto = gzip.decompress((program.home / "before_priority_fusion.hlo.pb.gz").read_bytes())
        module = module_from_bytes(proto)
        ours = kernels_of(gpu_fuse(module, program.chip, passes=("priority",)).module)
        for name, theirs in kernels_of(parse_module(program.text("after_priority_fusion"))).items():
            fusions += theirs.total()
            same += (theirs & ours.get(name, Counter())).total()
    assert pairs
    assert not wrong
    assert len(wrong_reasons) <= 5 + 0.005 * reasons, wrong_reasons  # the first of two, by the order of users
    assert same >= 0.98 * fusions - 2  # ties, by the order of users, which neither text nor proto has


@pytest.mark.oracle
@pytest.mark.long
@pytest.mark.parametrize("spec", sorted(CHIPS))
def test_kernels_with_several_results_are_those_of_xla(
    spec: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    _compile(spec, "statistics", tmp_path, request)
    counts: Counter[str] = Counter()
    for program in programs(tmp_path):
        before, theirs = (parse_module(program.text(f"{when}_multi_output_fusion")) for when in ("before", "after"))
        is_changed = kernels_of(before) != kernels_of(theirs)
        counts["changed"] += is_changed
        counts["same"] += is_changed and _is_same(gpu_fuse(before, program.chip, passes=("multi-output",)), theirs)
        if is_changed and not program.has_triton:
            module = parse_module(program.text("before_priority_fusion"))
            counts["changed by both"] += 1
            counts["same by both"] += _is_same(gpu_fuse(module, program.chip), theirs)
    assert counts["changed"]
    assert counts["same"] >= 0.9 * counts["changed"]
    assert counts["same by both"] >= 0.9 * counts["changed by both"]


def _is_same(fusion: GpuFusion, theirs: Module) -> bool:
    """Whether XLA made the same fusions; those that it did not make have to be marked as ties."""
    left = kernels_of(theirs)
    for computation, ours in named_kernels(fusion.module).items():
        for name, kernel in ours:
            known = left.setdefault(computation, Counter())
            assert known[kernel] or fusion.certainty[name] != EXACT, name
            known[kernel] -= 1
    return not any(left_over for known in left.values() for left_over in known.values())


def _compile(spec: str, kind: str, folder: Path, request: pytest.FixtureRequest) -> None:
    """Compiles random programs of a kind into a folder."""
    device = gpu_device(CHIPS[spec])
    settings = settings_for(device, request)
    target = folder / "target.txtpb"
    target.write_text(_target(device), encoding="utf-8")
    script = Path(__file__).with_name("gpu_compiling.py")
    done = subprocess.run(
        [PYTHON, str(script), str(target), str(SEED), str(COUNT), str(folder / spec), kind],
        env={**os.environ, "JAX_PLATFORMS": "cpu", **settings},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def _target(device: GpuDevice) -> str:
    """A target file of XLA with the figures of a device."""
    if device.is_rocm:
        capability = f'rocm_compute_capability {{ gcn_arch_name: "{device.profile}:sramecc+:xnack-" }}'
    else:
        major, minor = device.profile.removeprefix("sm_")[:-1], device.profile[-1]
        capability = f"cuda_compute_capability {{ major: {major} minor: {minor} }}"
    return f"""gpu_device_info {{
  threads_per_block_limit: 1024
  threads_per_warp: {device.threads_per_warp}
  shared_memory_per_block: {device.shared_memory_per_block}
  shared_memory_per_core: 233472
  threads_per_core_limit: {device.threads_per_core}
  core_count: {device.core_count}
  fpus_per_core: {device.fpus_per_core}
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: {device.memory_bandwidth}
  l2_cache_size: {device.l2_cache_bytes}
  clock_rate_ghz: {device.clock_rate_ghz}
  device_memory_size: 84942979072
  shared_memory_per_block_optin: 232448
  {capability}
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
}}
platform_name: "{"ROCM" if device.is_rocm else "CUDA"}"
dnn_version_info {{ major: 9 minor: 7 }}
device_description_str: "{device.spec}"
"""
