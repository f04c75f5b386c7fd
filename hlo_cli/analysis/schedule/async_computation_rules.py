"""Rules of the computation that an asynchronous operation runs: there is one, its own, in one thread.

Mirrors `CheckAsyncOpComputationThreadName`, `VerifyAsyncComputation` and the checks of callers of
xla/service/hlo_verifier.cc, and what hlo_parser.cc wants of `calls` and `async_execution_thread`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hlo_cli.analysis.problem import Problem
from hlo_cli.analysis.schedule.async_diagnostics import Asynchronous
from hlo_cli.analysis.schedule.async_pairs import AsyncPair
from hlo_cli.ir import opcodes
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import CHANNEL_STARTS

_THREAD: Final = "async_execution_thread"
_GROUP: Final = "_collectives_group"


def another_computation(pair: AsyncPair, within: Asynchronous) -> Iterator[Problem]:
    """A start names one computation, and updates and dones that name one name the same, or one that is alike."""
    own = pair.computation
    if pair.spelling != "generic":
        return
    if own is None:
        yield Problem(pair.start, f"{pair.start.name} runs nothing: it has no calls")
        return
    for member in pair.members:
        for called in member.called_computations:
            if called is not own and not _is_equal(called, own):
                message = f"{member.name} runs {called.name}, but {pair.start.name} runs {own.name}"
                yield Problem(member, message)


def shared_computation(pair: AsyncPair, within: Asynchronous) -> Iterator[Problem]:
    """Nothing runs the computation of an asynchronous operation but that; older XLA wants one such operation only."""
    own = pair.computation
    callers = within.callers.get(own, ()) if own is not None and pair.spelling == "generic" else ()
    starts = [caller for caller in callers if caller.opcode == opcodes.ASYNC_START]
    if own is None or starts[:1] != [pair.start]:
        return
    for caller in callers:
        if not caller.opcode.startswith("async-"):
            yield Problem(caller, f"{caller.name} cannot run {own.name}, which {pair.start.name} runs asynchronously")
    for start in starts[1:]:
        message = f"{start.name} runs {own.name}, as {pair.start.name} does"
        yield Problem(start, message, "note", f"jaxlib 0.10.2 wants a copy of {own.name} for each start")


def another_thread(pair: AsyncPair, within: Asynchronous) -> Iterator[Problem]:
    """Updates and dones that name a thread name that of the start, and so does the computation."""
    if pair.spelling == "native" or pair.is_fused:
        return
    for member in (*pair.updates, *pair.dones):
        thread = member.string(_THREAD)
        if thread is not None and thread != pair.thread:
            runs = f"{pair.start.name} runs in {pair.thread}"
            yield Problem(member, f"{member.name} names the thread {thread}, but {runs}")
    own = pair.computation
    if own is not None and own.execution_thread not in ("main", pair.thread):
        message = f"{pair.start.name} runs {own.name} in {pair.thread}, though that names {own.execution_thread}"
        yield Problem(pair.start, message, "warning", f"XLA goes by {pair.start.name}")


def several_operations(pair: AsyncPair, within: Asynchronous) -> Iterator[Problem]:
    """In the main thread a computation is one operation and its parameters, unless it is a group of collectives.

    Older XLA takes sends and receives for such a group by themselves.
    """
    own = pair.computation
    if own is None or pair.spelling != "generic" or pair.thread != "main":
        return
    is_group = any(key == _GROUP for key, _ in pair.start.frontend_attributes.entries)
    others = [
        i for i in own.instructions if i.opcode not in (opcodes.PARAMETER, opcodes.GET_TUPLE_ELEMENT) and not i.is_root
    ]
    if others and not is_group:
        words = f"takes one operation, not {len(others) + 1}"
        message = f"{pair.start.name} runs {own.name} in the main thread, which {words}"
        if all(other.opcode in CHANNEL_STARTS for other in others):
            hint = f'XLA of 2026 wants frontend_attributes={{{_GROUP}=""}} at the start'
            yield Problem(pair.start, message, "warning", hint)
        else:
            yield Problem(pair.start, message)


def _is_equal(first: Computation, second: Computation) -> bool:
    """Whether two computations are the same but for names."""
    if len(first.instructions) != len(second.instructions):
        return False
    numbers: Mapping[Instruction, Instruction] = dict(zip(first.instructions, second.instructions, strict=True))
    return all(
        (a.opcode, a.shape, a.raw) == (b.opcode, b.shape, b.raw) and tuple(map(numbers.get, a.operands)) == b.operands
        for a, b in numbers.items()
    )
