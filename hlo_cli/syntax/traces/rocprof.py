"""Reads the tables of rocprofv3 and rocprof: `*_kernel_trace.csv`, and the sums of kernels of older ones.

They name kernels, not instructions, which are then found by the names of kernels. Columns differ by version and are
found by name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from hlo_cli.ir.traces.trace import Trace
from hlo_cli.syntax.traces.kernels import KernelTrace
from hlo_cli.syntax.traces.tables import Header, picoseconds, read_table

if TYPE_CHECKING:
    from hlo_cli.wire import Buffer

_NUMBER: Final = re.compile(r"\d{1,9}")


def read_rocprof(data: Buffer, name: str) -> Trace:
    """Reads a table; HloError if it has no kernels."""
    trace = KernelTrace(name, "rocprof")
    try:
        header, rows = read_table(data)
        read = _Kernels(trace, header)
        for row in rows:
            read.add(row)
    except ValueError:
        trace.notes.append(f"{name} is damaged; rows after the damage are omitted")
    return trace.trace()


class _Kernels:
    """Adds one row after the other; which columns it has decides how."""

    def __init__(self, trace: KernelTrace, header: Header) -> None:
        self._trace, columns = trace, header.columns
        self._kind = columns.get("kind")
        self._name = columns.get("kernel_name", columns.get("kernelname", columns.get("name", 0)))
        self._begin = columns.get("start_timestamp", columns.get("beginns"))
        self._end = columns.get("end_timestamp", columns.get("endns"))
        self._device = columns.get("agent_id", columns.get("gpu-id"))
        self._stream = columns.get("stream_id", columns.get("queue_id", columns.get("queue-id")))
        self._calls, self._total = columns.get("calls"), columns.get("totaldurationns")
        self._statistics = [
            (own, columns[own]) for own in ("correlation_id", "queue_id", "kernel_id") if own in columns
        ]

    def add(self, row: Sequence[str]) -> None:
        if self._kind is not None and row[self._kind] not in ("KERNEL_DISPATCH", ""):
            return
        if self._begin is None or self._end is None:
            self._add_sum(row)
            return
        begin, end = picoseconds(row[self._begin], 1000), picoseconds(row[self._end], 1000)
        if begin is None or end is None or end < begin:
            self._trace.skip()
            return
        device = _first_number(row[self._device]) if self._device is not None else 0
        stream = _first_number(row[self._stream]) if self._stream is not None else 0
        own = {name: number for name, at in self._statistics if (number := _whole(row[at])) is not None}
        self._trace.add_kernel(device, stream, row[self._name], begin, end - begin, own)

    def _add_sum(self, row: Sequence[str]) -> None:
        """Adds the sum of all calls of a kernel, which has no time."""
        calls = _whole(row[self._calls]) if self._calls is not None else None
        total = picoseconds(row[self._total], 1000) if self._total is not None else None
        if calls is None or total is None:
            self._trace.skip()
            return
        self._trace.add_sum(row[self._name], calls, total)


def _first_number(text: str) -> int:
    found = _NUMBER.search(text)
    return int(found[0]) if found else 0


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None
