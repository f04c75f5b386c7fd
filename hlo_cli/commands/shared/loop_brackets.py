"""The loops of a schedule, for the brackets in charts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from hlo_cli.ir import opcodes
from hlo_cli.report.table import UNKNOWN, Loop

if TYPE_CHECKING:
    from hlo_cli.analysis.dataflow.flat_schedule import Run


def loops_of(runs: Iterable[Run]) -> Iterator[Loop]:
    """The bodies of loops with their trip counts, without conditions, branches, and calls.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.memory_analysis import memory_analysis
    >>> list(loops_of(memory_analysis(parse_module("r = f32[2] negate(f32[2] p)")).runs))
    []
    """
    from hlo_cli.analysis.dataflow.executions import trip_count  # tables of instructions have no loops

    for run in runs:
        caller = run.caller
        if caller is None or caller.opcode != opcodes.WHILE or run.computation is not caller.called_computations[0]:
            continue
        trips = trip_count(caller)
        yield Loop(caller.name, run.start, run.end - 1, UNKNOWN if trips is None else trips)
