"""The timed operations of a trace as columns: what ran, where, in which run, from when, and for how long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Final, NamedTuple

import numpy as np

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.traces.trace import EventMetadata, Integers

NO_RUN: Final = -1
NO_FLOW: Final = 0


class OperationKey(NamedTuple):
    """What an event says about its operation: the id and the name of the program, the names of op and kernel.

    `program` is None, and names are empty, where the event does not say.
    """

    program: int | None
    module: str
    op: str
    kernel: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Occurrences:
    """Columns of equal length, one row for each timed event: `keys[codes[i]]` is what ran.

    `runs` are ids of executions of a program, `NO_RUN` if unknown. Rows of equal `devices` share a clock; `lines` are
    threads or streams. A row with `counts` above 1 is the sum of that many. The start and the done of one transfer have
    equal `flows`, `NO_FLOW` if unknown. `facts` are the metadata of keys that have some of their own.
    """

    keys: Sequence[OperationKey]
    codes: Integers
    devices: Integers
    lines: Integers
    runs: Integers
    begins_ps: Integers
    durations_ps: Integers
    self_ps: Integers
    counts: Integers
    flows: Integers
    device_names: tuple[str, ...] = ()
    line_names: tuple[str, ...] = ()
    facts: Mapping[OperationKey, EventMetadata] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def ends_ps(self) -> Integers:
        """When each row ends."""
        return self.begins_ps + self.durations_ps


def part_of(rows: Occurrences, first: int, end: int) -> Occurrences:
    """The rows from `first` to `end`, with the same keys and devices."""
    part = slice(first, end)
    return replace(
        rows,
        codes=rows.codes[part],
        devices=rows.devices[part],
        lines=rows.lines[part],
        runs=rows.runs[part],
        begins_ps=rows.begins_ps[part],
        durations_ps=rows.durations_ps[part],
        self_ps=rows.self_ps[part],
        counts=rows.counts[part],
        flows=rows.flows[part],
    )


class OccurrenceList:
    """Collects rows, line by line."""

    def __init__(self) -> None:
        self._keys: dict[OperationKey, int] = {}
        self._devices: dict[str, int] = {}
        self._lines: list[str] = []
        self._parts: list[tuple[Integers, ...]] = []
        self._facts: dict[OperationKey, EventMetadata] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def key(self, key: OperationKey, facts: EventMetadata | None = None) -> int:
        """The code of an operation."""
        if facts is not None:
            self._facts.setdefault(key, facts)
        return self._keys.setdefault(key, len(self._keys))

    def device(self, name: str) -> int:
        """The code of a device."""
        return self._devices.setdefault(name, len(self._devices))

    def add_line(
        self,
        name: str,
        codes: Integers,
        devices: Integers | int,
        runs: Integers | int,
        begins_ps: Integers,
        durations_ps: Integers,
        self_ps: Integers,
        counts: Integers | int = 1,
        flows: Integers | int = NO_FLOW,
    ) -> None:
        """Adds the rows of a line."""
        line = len(self._lines)
        self._lines.append(name)
        size = len(codes)
        whole = [np.broadcast_to(np.asarray(each, np.int64), size) for each in (devices, line, runs, counts, flows)]
        self._parts.append((codes, whole[0], whole[1], whole[2], begins_ps, durations_ps, self_ps, *whole[3:]))
        self._size += size

    def occurrences(self) -> Occurrences:
        """All rows, in the order in which they were added."""
        columns = [np.concatenate(each) for each in zip(*self._parts, strict=True)] or [np.zeros(0, np.int64)] * 9
        codes, devices, lines, runs, begins, durations, own, counts, flows = columns
        names = tuple(self._devices), tuple(self._lines)
        return Occurrences(
            tuple(self._keys), codes, devices, lines, runs, begins, durations, own, counts, flows, *names, self._facts
        )
