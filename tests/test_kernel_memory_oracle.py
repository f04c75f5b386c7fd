"""Memory of random Pallas kernels, and of those of JAX, against libtpu's own list of allocations."""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from hlo_cli import PallasKernel, pallas_kernels_of
from test_kernels_oracle import CASES, compiled

LEAST_EXACT = 0.97
"""The share of kernels whose windows, scratch, and scalar memory are all as listed: 2-bit elements are not known."""
LEAST_BOUND = 0.99
"""The share of kernels of which no more is counted than is used: a window that nothing reads may be dropped."""


def reserved(kernel: PallasKernel) -> tuple[list[int], int]:
    """The sizes in VMEM, of windows and scratch, in order of size, and the bytes of scalar memory."""
    parts = [part.bytes for part in (*kernel.windows, *kernel.scratch) if part.space == "vmem" and part.bytes]  # type: ignore[attr-defined]
    return sorted(parts), kernel.smem_bytes


def listed(allocations: list[dict[str, Any]]) -> tuple[list[int], int]:
    """The same of libtpu's list, without what it adds."""
    kept = [each for each in allocations if each["tag"] and not each["tag"].startswith(("internal", "DMA", "Program"))]
    in_vmem = sorted(each["size"] for each in kept if each["space"] == "vmem")
    return in_vmem, sum(each["size"] for each in kept if each["space"] == "smem")


@pytest.mark.oracle
@pytest.mark.parametrize(("topology", "names"), CASES)
def test_memory_is_what_libtpu_lists(topology: str, names: tuple[str, ...], tmp_path: Path) -> None:
    for package in ("jax", "libtpu"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    chip = topology.partition(":")[0].removeprefix("tpu")
    count: Counter[str] = Counter()
    for module, said in compiled(tmp_path, topology, names).values():
        for kernel in pallas_kernels_of(module, chip=chip):
            lists = said[kernel.instruction.name]
            assert not kernel.error
            if lists[0] is None:
                continue
            count["kernels"] += 1
            count["exact"] += reserved(kernel) == listed(lists[0])
            if kernel.used_vmem_bytes is not None:
                count["used"] += 1
                count["bound"] += kernel.vmem_bytes <= kernel.used_vmem_bytes
    assert count["kernels"] > 0
    assert count["exact"] >= LEAST_EXACT * count["kernels"], count
    assert count["bound"] >= LEAST_BOUND * count["used"], count
