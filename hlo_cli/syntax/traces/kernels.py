"""Builds a trace of kernels on GPUs in the form that XLA's own profiler gives it, from what other profilers wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hlo_cli.ir.traces.trace import Trace, Value
from hlo_cli.source import HloError, counted
from hlo_cli.syntax.traces.builder import PlaneBuilder, Texts

HOST: Final = "/host:CPU"
_PS_PER_MS: Final = 10**9
_NS_PER_MS: Final = 10**6
_FAR: Final = 1 << 62
"""Picoseconds: a clock beyond counts from an origin."""


class KernelTrace:
    """A trace that grows kernel by kernel; times are picoseconds of one clock.

    >>> building = KernelTrace("t.csv", "rocprof")
    >>> building.add_kernel(0, 7, "loop_fusion", 5_000_000, 1_000_000, {"hlo_op": "fusion.1"})
    >>> [plane] = building.trace().planes
    >>> plane.name, plane.lines[0].name, plane.lines[0].begins_ps.tolist()
    ('/device:GPU:0', 'Stream #7', [5000000])
    """

    def __init__(self, name: str, format: str) -> None:
        self.name, self._format = name, format
        self.notes: list[str] = []
        self._texts = Texts()
        self._devices: dict[int, PlaneBuilder] = {}
        self._host = PlaneBuilder(0, HOST, self._texts)
        self._origin_ps: int | None = None
        self._skipped = self._count = 0

    def device(self, number: int) -> PlaneBuilder:
        """The plane of a device, which may be new."""
        found = self._devices.get(number)
        if found is None:
            found = self._devices[number] = PlaneBuilder(number + 1, f"/device:GPU:{number}", self._texts)
        return found

    def add_kernel(
        self, device: int, stream: int, name: str, begin_ps: int, duration_ps: int, statistics: Mapping[str, Value]
    ) -> None:
        """Adds a kernel, or a copy, that ran on a stream of a device."""
        self._add(self.device(device), stream, f"Stream #{stream}", name, begin_ps, duration_ps, statistics)

    def add_range(
        self, thread: int, name: str, begin_ps: int, duration_ps: int, statistics: Mapping[str, Value]
    ) -> None:
        """Adds a range of the host, such as a step."""
        self._add(self._host, thread, f"thread {thread}", name, begin_ps, duration_ps, statistics)

    def add_sum(self, name: str, calls: int, total_ps: int) -> None:
        """Adds the sum of all calls of a kernel, without a time."""
        plane = self.device(0)
        try:
            plane.line(0, 0, "Kernels").add(plane.kinds.id_of(name), 0, total_ps, {}, calls)
            self._count += 1
        except OverflowError:
            self._skipped += 1

    def skip(self) -> None:
        """Counts what has no valid time."""
        self._skipped += 1

    def _add(
        self,
        plane: PlaneBuilder,
        id: int,
        line: str,
        name: str,
        begin_ps: int,
        duration_ps: int,
        statistics: Mapping[str, Value],
    ) -> None:
        if self._origin_ps is None:
            self._origin_ps = begin_ps // _PS_PER_MS * _PS_PER_MS if begin_ps > _FAR else 0
        found = plane.lines.get(id) or plane.line(id, id, line)
        try:
            found.add(plane.kinds.id_of(name), begin_ps - self._origin_ps, duration_ps, statistics)
            self._count += 1
        except OverflowError:
            self._skipped += 1

    def trace(self) -> Trace:
        """The trace; HloError if it has no events."""
        if not self._count:
            reason = f" ({self.notes[0]})" if self.notes else ""
            raise HloError(f"{self.name} contains no kernels{reason}", hint="record it while a program runs")
        if self._skipped:
            self.notes.append(f"omitted {counted(self._skipped, 'rows')} of {self.name} without a valid time")
        origin_ns = (self._origin_ps or 0) // _PS_PER_MS * _NS_PER_MS
        planes = [self._host] if self._host.lines else []
        planes += [self._devices[number] for number in sorted(self._devices)]
        return Trace(self.name, self._format, [each.plane(origin_ns) for each in planes], notes=tuple(self.notes))
