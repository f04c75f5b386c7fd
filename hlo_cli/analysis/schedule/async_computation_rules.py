"""Verifier rules for the computation of an async operation: one, used by no other caller, on one thread.

Mirrors `CheckAsyncOpComputationThreadName`, `VerifyAsyncComputation`, and the checks of callers in
xla/service/hlo_verifier.cc, and the checks of `calls` and `async_execution_thread` in hlo_parser.cc.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hlo_cli.analysis.problem import Problem
from hlo_cli.analysis.schedule.async_diagnostics import AsyncContext
from hlo_cli.analysis.schedule.async_pairs import AsyncPair
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import CHANNEL_STARTS

_THREAD: Final = "async_execution_thread"
_GROUP: Final = "_collectives_group"


def check_same_computation(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports starts without a computation, and members whose computation is not structurally equal to the start's."""
    own = pair.computation
    if pair.form != "generic":
        return
    if own is None:
        yield Problem(pair.start, f"{pair.start.name} has no called computation")
        return
    for member in pair.members:
        for called in member.called_computations:
            # hlo_verifier.cc compares the computations of a chain structurally, not by name.
            if called is not own and not _is_structurally_equal(called, own):
                message = f"{member.name} runs {called.name}, but {pair.start.name} runs {own.name}"
                yield Problem(member, message)


def check_exclusive_computation(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports callers other than async starts, and, as a note for jaxlib 0.10.2, further async starts."""
    own = pair.computation
    callers = within.callers.get(own, ()) if own is not None and pair.form == "generic" else ()
    starts = [caller for caller in callers if caller.opcode == opcodes.ASYNC_START]
    if own is None or starts[:1] != [pair.start]:
        return
    for caller in callers:
        if not caller.opcode.startswith("async-"):
            yield Problem(caller, f"{caller.name} cannot call {own.name}, which {pair.start.name} runs asynchronously")
    # hlo_verifier.cc of August 2026 lets several starts share a computation; that of jaxlib 0.10.2 does not.
    for start in starts[1:]:
        message = f"{start.name} runs {own.name}, which {pair.start.name} also runs"
        yield Problem(start, message, "note", f"jaxlib 0.10.2 requires a separate copy of {own.name} for each start")


def check_thread(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports members and computations with another execution thread than the start."""
    if pair.form == "native" or pair.is_fused:
        return
    for member in (*pair.updates, *pair.dones):
        thread = member.string(_THREAD)
        if thread is not None and thread != pair.thread:
            message = f"{member.name} specifies thread {thread}, but {pair.start.name} runs on {pair.thread}"
            yield Problem(member, message)
    own = pair.computation
    # hlo_parser.cc sets the thread of the wrapped computation from the start, so the computation's own text has no
    # effect.
    if own is not None and own.execution_thread not in ("main", pair.thread):
        other = f"{own.name} is on {own.execution_thread}"
        message = f"{pair.start.name} runs {own.name} on thread {pair.thread}, but {other}"
        yield Problem(pair.start, message, "warning", f"XLA uses the thread of {pair.start.name}")


def check_single_operation(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports computations on the main thread that contain several operations and are not a group of collectives.

    Sends and recvs form such a group without an attribute in older releases.
    """
    own = pair.computation
    if own is None or pair.form != "generic" or pair.thread != "main":
        return
    is_group = any(key == _GROUP for key, _ in pair.start.frontend_attributes.entries)
    others = [
        i for i in own.instructions if i.opcode not in (opcodes.PARAMETER, opcodes.GET_TUPLE_ELEMENT) and not i.is_root
    ]
    if others and not is_group:
        limit = f"allows one operation, not {len(others) + 1}"
        message = f"{pair.start.name} runs {own.name} on the main thread, which {limit}"
        if all(other.opcode in CHANNEL_STARTS for other in others):
            hint = f'XLA in 2026 requires frontend_attributes={{{_GROUP}=""}} on the start'
            yield Problem(pair.start, message, "warning", hint)
        else:
            yield Problem(pair.start, message)


def _is_structurally_equal(first: Computation, second: Computation) -> bool:
    """Returns whether two computations are equal except for names."""
    if len(first.instructions) != len(second.instructions):
        return False
    numbers: Mapping[Instruction, Instruction] = dict(zip(first.instructions, second.instructions, strict=True))
    return all(
        (a.opcode, a.shape, a.raw) == (b.opcode, b.shape, b.raw) and tuple(map(numbers.get, a.operands)) == b.operands
        for a, b in numbers.items()
    )
