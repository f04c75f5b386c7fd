"""The execution thread of each computation.

When XLA loads a module, it sets the thread of a computation wrapped by an async-start, and of all its callees, to
that of the start, overriding the computation's own (`HloAsyncInstruction` of xla/hlo/ir/hlo_instructions.cc).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module


def threads_of(module: Module, starts: Iterable[Instruction]) -> Mapping[Computation, str]:
    """The thread of every computation; `starts` are the module's async-starts.

    >>> from hlo_cli import parse_module
    >>> text = 'HloModule m  ENTRY e { ROOT p = f32[] parameter(0) }, execution_thread="host"'
    >>> list(threads_of(parse_module(text), ()).values())
    ['host']
    """
    threads = {computation: computation.execution_thread for computation in module.computations}
    for start in starts:
        thread = start.string("async_execution_thread") or "main"
        waiting, seen = list(start.called_computations), set(start.called_computations)
        while waiting:
            computation = waiting.pop()
            threads[computation] = thread
            for caller in computation.instructions:
                new = [called for called in caller.called_computations if called not in seen]
                seen.update(new)
                waiting.extend(new)
    return threads
