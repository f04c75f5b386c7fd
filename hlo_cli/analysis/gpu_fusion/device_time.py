"""Time that a GPU takes to compute, and to read and write memory.

Mirrors `ComputeTime`, `ReadTimeWithDRAMHeuristic`, and `WriteTime` of
xla/service/gpu/model/gpu_performance_model_base.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.gpu_fusion.durations import f32, nanoseconds, scale, seconds
from hlo_cli.analysis.gpu_fusion.launch import Launch
from hlo_cli.analysis.hardware.gpu_devices import GpuDevice

_L2_SPEEDUP: Final = 2.5
_L1_SPEEDUP: Final = 8.0
_PARALLELISM: Final = 0.95
"""`kMemoryComputeParallelism`: the share of computing that memory accesses overlap."""


class DeviceTime:
    """Durations on one device, in ticks of a quarter nanosecond; those computed are remembered, as few are distinct.

    >>> from hlo_cli.analysis.hardware.gpu_devices import gpu_device
    >>> time = DeviceTime(gpu_device("h100"))
    >>> time.write(4_000_000), time.read(4_000_000, 4_000_000, blocks=1954, rate=1.0)
    (4773, 4773)
    """

    __slots__ = ("_compute", "_device", "_reads", "_writes")

    def __init__(self, device: GpuDevice) -> None:
        self._device = device
        self._compute: dict[tuple[int, Launch], int] = {}
        self._reads: dict[tuple[int, int, int, float], int] = {}
        self._writes: dict[int, int] = {}

    def compute(self, flops: int, launch: Launch) -> int:
        """Time to compute for a number of clock cycles, divided among the units that have work."""
        key = flops, launch
        found = self._compute.get(key)
        if found is None:
            device = self._device
            units = min(launch.blocks, device.core_count) * min(launch.threads, device.fpus_per_core)
            per_nanosecond = int(f32(f32(device.clock_rate_ghz) * 2) * units)
            found = self._compute[key] = nanoseconds(f32(f32(flops) / f32(per_nanosecond)))
        return found

    def read(self, size: int, count: int, blocks: int, rate: float) -> int:
        """Time to read `count` bytes of an operand of `size` bytes: the first time from memory, again from the caches.

        `rate` is the share of the bandwidth of memory that is used.
        """
        key = size, count, blocks, rate
        found = self._reads.get(key)
        if found is None:
            found = self._reads[key] = self._read(min(size, count), count, blocks, rate)
        return found

    def write(self, count: int) -> int:
        """Time to write a number of bytes."""
        found = self._writes.get(count)
        if found is None:
            found = self._writes[count] = seconds(f32(f32(count) / f32(self._device.memory_bandwidth)))
        return found

    def _read(self, first: int, count: int, blocks: int, rate: float) -> int:
        device = self._device
        memory = f32(device.memory_bandwidth * rate)
        cached = f32(device.memory_bandwidth)
        if first < device.l2_cache_bytes:
            cached = f32(cached * _L2_SPEEDUP)
            if first < device.l1_cache_bytes_per_core * device.core_count:
                cached = f32(cached * _L1_SPEEDUP)
        else:
            cached = f32(cached * rate)
        per_block = f32(f32(f32(device.clock_rate_ghz) * 1e9) * device.transaction_bytes_per_clock)
        most = f32(f32(blocks) * per_block)
        again = count - first
        return seconds(f32(f32(first) / min(memory, most))) + seconds(f32(f32(again) / min(cached, most)))


def overlapped(compute: int, memory: int) -> int:
    """Time of computing and of memory accesses, which overlap for the most part."""
    return compute + memory - scale(min(compute, memory), _PARALLELISM)
