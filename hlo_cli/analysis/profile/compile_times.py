"""How long each pass of a compiler took: from spans that nest, as the compiler or a profiler recorded them.

A pipeline is recorded like a pass, and its span includes those of its passes: only self times may be added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from hlo_cli.analysis.profile.event_columns import nested_order, self_times
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.compiler_messages import PassRun
from hlo_cli.ir.traces.trace import PS, Line, Trace


@dataclass(frozen=True, slots=True)
class PassTime:
    """A pass in all its runs: `seconds` are without the passes inside it.

    `changed` runs changed the module, None if unknown; `dumps` are the files that the runs wrote, `pipelines` those
    that it ran in, each once and in their order.
    """

    name: str
    runs: int
    seconds: float
    changed: int | None = None
    pipelines: tuple[str, ...] = ()
    dumps: int = 0


@dataclass(frozen=True, slots=True)
class CompileTimes:
    """The passes of compilations, the longest first; `seconds` are those from the begin of each to its end."""

    passes: tuple[PassTime, ...]
    seconds: float
    compilations: int = 1

    @property
    def runs(self) -> int:
        """The runs of all passes."""
        return sum(each.runs for each in self.passes)

    @property
    def inside(self) -> float:
        """The seconds in passes; what is left is between them."""
        return sum(each.seconds for each in self.passes)

    @property
    def changed(self) -> int | None:
        """How many runs changed the module; None if that is unknown."""
        known = [each.changed for each in self.passes if each.changed is not None]
        return sum(known) if known else None


def times_of_passes(runs: Sequence[PassRun]) -> CompileTimes:
    """The times of passes that the compiler listed.

    >>> runs = [PassRun("all", "", 0, 90), PassRun("dce", "all", 10, 40, True), PassRun("dce", "all", 50, 60)]
    >>> [(each.name, each.runs, f"{each.seconds:.6f}", each.changed) for each in times_of_passes(runs).passes]
    [('all', 1, '0.000050', 0), ('dce', 2, '0.000040', 1)]
    """
    if not runs:
        return CompileTimes((), 0.0)
    begins = np.array([each.begin_us for each in runs], np.int64)
    durations = np.array([max(each.end_us - each.begin_us, 0) for each in runs], np.int64)
    order = nested_order(begins, durations)
    own = np.empty_like(durations)
    own[order] = self_times(begins[order], durations[order])
    groups: dict[str, list[int]] = {}
    for index, run in enumerate(runs):
        groups.setdefault(run.name, []).append(index)
    passes = [
        PassTime(
            name,
            len(places),
            float(own[places].sum()) * 1e-6,
            sum(runs[index].is_changed for index in places),
            tuple(dict.fromkeys(runs[index].pipeline for index in places)),
            sum(runs[index].dumps for index in places),
        )
        for name, places in groups.items()
    ]
    return CompileTimes(_longest_first(passes), float((begins + durations).max() - begins.min()) * 1e-6)


def _longest_first(passes: Sequence[PassTime]) -> tuple[PassTime, ...]:
    return tuple(sorted(passes, key=lambda each: (-each.seconds, each.name)))


# --- traces ---
# A profiler that ran around `.compile()` has the compiler's spans on threads of the host.


_ROOTS: Final = ("PjRtCpuClient::Compile",)
"""Spans in which the compiler of a client runs; all self times inside one add up to it. Seen in traces of CPUs only."""


def times_in_trace(trace: Trace) -> CompileTimes | None:
    """The times of the compiler's spans in a trace, all compilations together; None if it has none.

    Spans of threads that generate code beside the compiler's own are left out: they would be counted twice.
    """
    roots, found = list[int](), dict[str, tuple[int, int]]()
    for plane in trace.planes:
        for line in plane.lines:
            roots += _add_spans(line, found)
    if not roots:
        return None
    passes = [PassTime(name, runs, own * PS) for name, (runs, own) in found.items()]
    return CompileTimes(_longest_first(passes), sum(roots) * PS, len(roots))


def _add_spans(line: Line, found: dict[str, tuple[int, int]]) -> list[int]:
    """Adds the spans of a thread inside of roots to those found; the times of the roots, all in picoseconds."""
    kinds, events = line.kinds, line.events
    is_root = np.isin(events.kinds, [number for number, kind in kinds.items() if kind.name in _ROOTS])
    roots, end = list[int](), None
    if not is_root.any():
        return roots
    begins, durations = line.begins_ps, events.durations_ps
    order = nested_order(begins, durations)
    own = self_times(begins[order], durations[order])
    for index, self_ps in zip(order.tolist(), own.tolist(), strict=True):
        begin, duration = int(begins[index]), int(durations[index])
        if end is None or begin >= end:  # not inside the last root
            end = begin + duration if is_root[index] else None
            roots += [duration] if is_root[index] else []
        kind = kinds.get(int(events.kinds[index]))  # a damaged trace has events without one
        if end is not None and kind is not None:
            runs, before = found.get(kind.name, (0, 0))
            found[kind.name] = runs + 1, before + self_ps
    return roots
