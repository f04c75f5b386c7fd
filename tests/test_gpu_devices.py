"""Figures of GPUs for fusion: those of XLA's target files, in `fixtures/gpu_fusion/devices.json`."""

from __future__ import annotations

import json

import pytest

from gpu_fusion_dumps import HOME, programs
from hlo_cli.analysis.hardware.gpu_devices import GpuDevice, gpu_device, gpu_devices
from hlo_cli.source import HloError

FIELDS = {
    "core_count": "core_count",
    "fpus_per_core": "fpus_per_core",
    "memory_bandwidth": "memory_bandwidth",
    "l2_cache_size": "l2_cache_bytes",
    "clock_rate_ghz": "clock_rate_ghz",
    "threads_per_core_limit": "threads_per_core",
    "shared_memory_per_block": "shared_memory_per_block",
    "threads_per_warp": "threads_per_warp",
}
OF_XLA = json.loads((HOME / "devices.json").read_text(encoding="utf-8"))
DEVICES = {device.spec: device for device in gpu_devices().values()}


def test_all_target_files_have_a_chip() -> None:
    assert set(DEVICES) == {*OF_XLA, "mi300"}


@pytest.mark.parametrize("spec", OF_XLA)
def test_figures_are_those_of_the_target_file(spec: str) -> None:
    theirs, ours = OF_XLA[spec], DEVICES[spec]
    assert {name: theirs[name] for name in FIELDS} == {name: getattr(ours, field) for name, field in FIELDS.items()}
    if theirs["cuda"]:
        assert ours.profile == "sm_{}{}".format(*theirs["cuda"])
    assert ours.is_rocm == bool(theirs["gfx"])
    if theirs["gfx"]:
        assert ours.profile == theirs["gfx"].partition(":")[0]


def test_mi300_is_that_of_its_target_file() -> None:
    assert gpu_device("mi300x") == GpuDevice(
        "mi300", "gfx942", 304, 128, 2048, 2.1, 6_810_000_000_000, 4_194_304, 65_536, 64, 32_768, 128, 16
    )


def test_caches_and_buses_are_those_of_the_series() -> None:
    found = {
        spec: (device.l1_cache_bytes_per_core, device.dram_transaction_bytes, device.transaction_bytes_per_clock)
        for spec, device in DEVICES.items()
    }
    assert found.pop("mi200") == (16_384, 64, 32)
    assert found.pop("mi300") == found.pop("mi350") == (32_768, 128, 16)
    assert set(found.values()) == {(2_048, 64, 32)}


def test_programs_of_all_makers_are_compared() -> None:
    chips = {program.chip for program in programs()}
    assert {gpu_device(chip).is_rocm for chip in chips} == {True, False}
    assert all(gpu_device(chip).is_checked for chip in chips)


def test_a_chip_without_a_target_file_is_an_error() -> None:
    with pytest.raises(HloError, match="no figures of t4 for GPU fusion"):
        gpu_device("t4")
