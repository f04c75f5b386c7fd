"""Measured times of matmuls and collectives, from XLA's tables; `tests/make_time_tables.py` made the files.

Mirrors default_matmul_perf_table and default_collective_perf_table of xla/service/gpu/model.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final, TypeAlias

MatmulTimes: TypeAlias = Mapping[tuple[int, int, int, int], float]
"""Seconds by batch, m, n, and k."""
CollectiveTimes: TypeAlias = Mapping[int, float]
"""Seconds by bytes of the payload, smallest first."""

MEASURED_AS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "h100": "h100",
        "h100-pcie": "h100",
        "h200": "h100",
        "b200": "b200",
        "gb200": "b200",
        "b300": "b200",
        "gb300": "b200",
    }
)
"""The measured chip with the same kind of cores."""
LINKS_MEASURED_AS: Final[Mapping[str, str]] = MappingProxyType(
    {"h100": "h100", "h200": "h100", "b200": "b200", "gb200": "gb200", "b300": "gb300", "gb300": "gb300"}
)
"""The measured chip with the same links."""


@cache
def matmul_times() -> Mapping[tuple[str, str], MatmulTimes]:
    """Returns the measured times of matmuls by chip and type: bf16, f32 (which uses TF32), or f8.

    >>> f"{matmul_times()['h100', 'bf16'][1, 4096, 4096, 4096]:.2e}"
    '1.76e-04'
    """
    head, *lines = _lines("matmul_times.csv")
    columns = [(chip, kind) for chip, _, kind in (name.partition(" ") for name in head[4:])]
    found: dict[tuple[str, str], dict[tuple[int, int, int, int], float]] = {column: {} for column in columns}
    for batch, m, n, k, *cells in lines:
        for column, cell in zip(columns, cells, strict=True):
            if cell:
                found[column][int(batch), int(m), int(n), int(k)] = float(cell) / 1e6
    return found


@cache
def collective_times() -> Mapping[tuple[str, str], Mapping[tuple[int, int], CollectiveTimes]]:
    """Returns the measured times of f32 collectives by chip and opcode, then by groups and devices in a group.

    For a collective-permute, these are 0 and the number of pairs. Devices are in one host or NVLink domain.

    >>> times = collective_times()["h100", "all-gather"]
    >>> sorted(times), f"{times[1, 8][1 << 20]:.2e}"
    ([(1, 8), (2, 4), (4, 2)], '3.11e-05')
    """
    found: dict[tuple[str, str], dict[tuple[int, int], CollectiveTimes]] = {}
    for chip, opcode, groups, devices, pairs in _lines("collective_times.csv")[1:]:
        times = (pair.split(":") for pair in pairs.split())
        key = (0 if groups == "pairs" else int(groups), int(devices))
        found.setdefault((chip, opcode), {})[key] = {int(size): float(time) / 1e6 for size, time in times}
    return found


def _lines(name: str) -> list[list[str]]:
    from importlib.resources import files  # slow to import

    text = (files("hlo_cli.analysis.hardware") / name).read_text("utf-8")
    return [line.split(",") for line in text.splitlines()]
