"""Verifier rules for async chains: one complete chain of one kind per start, and no other users.

Mirrors `VerifyAsyncOps` and the rules for send, recv, and native pairs of xla/service/hlo_verifier.cc, and the checks
of updates and dones in hlo_parser.cc.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from hlo_cli.analysis.dataflow.users import Users
from hlo_cli.analysis.problem import Problem
from hlo_cli.analysis.schedule.async_diagnostics import AsyncContext, done_of
from hlo_cli.analysis.schedule.async_pairs import AsyncPair, is_end
from hlo_cli.analysis.schedule.async_tracing import FORWARDING, is_annotation
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import ASYNC_CONTINUATIONS, CHANNEL_STARTS, NATIVE_DONES, wrapped_opcode

_MAY_USE: Final = FORWARDING | {
    opcodes.CALL,
    opcodes.CONDITIONAL,
    opcodes.CUSTOM_CALL,
    opcodes.GET_TUPLE_ELEMENT,
    opcodes.TUPLE,
    opcodes.WHILE,
}
"""Opcodes that may use a start or an update, other than updates and dones."""
_TARGET: Final = "custom_call_target"
_CONTROL_DEPENDENCY: Final = "control_dep"
"""The custom-call target that only orders its operands and does not read them."""
_IN_PAIRS: Final = ("channel_id", "is_host_transfer")
"""Attributes that must be equal in a send or recv and its done."""


def check_has_done(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports starts without a done and updates without a successor, unless they may escape their computation."""
    start = pair.start
    if not pair.dones and not _escapes(pair, within.users):
        carried = any(_is_carried(member, within.users) for member in (start, *pair.updates))
        message = f"{start.name} has no {done_of(start)}"
        hint = "older XLA versions require a done after the loop" if carried else None
        yield Problem(start, message, "note" if carried else "error", hint)
    successors = _successors(pair, within)
    for update in pair.updates if pair.dones and not pair.is_fused else ():
        siblings = (end for before in within.found.continues.get(update, ()) for end in successors[before])
        is_one_of_two = any(end is not update and end.computation is update.computation for end in siblings)
        if update not in successors and not is_one_of_two and not _is_forwarded(update, within.users):
            yield Problem(update, f"{update.name} has no {done_of(start)}")


def check_single_use(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports members with several successors; a loop-carried one may have one inside and one after the loop."""
    all_following = _successors(pair, within)
    for member in (pair.start, *pair.updates) if not pair.is_fused else ():
        successors = all_following.get(member, [])
        if pair.form == "native":
            member_users = within.users.get(member, ())
            successors = [
                user for user in member_users if user in successors or user.opcode in _MAY_USE - {opcodes.CUSTOM_CALL}
            ]
        for more in _surplus(successors):
            yield Problem(more, f"{more.name} uses {member.name}, which {successors[0].name} already uses")


def _successors(pair: AsyncPair, within: AsyncContext) -> dict[Instruction, list[Instruction]]:
    """Returns the updates and dones that continue each member."""
    found: dict[Instruction, list[Instruction]] = {}
    for end in (*pair.updates, *pair.dones):
        for before in dict.fromkeys(within.found.continues.get(end, ())):
            found.setdefault(before, []).append(end)
    return found


def check_in_flight_use(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports users of a start or update other than updates, dones, and forwarding instructions."""
    for member in (pair.start, *pair.updates) if not pair.is_fused else ():
        for user in within.users.get(member, ()):
            is_successor = is_end(user) and user.operands.index(member) == 0
            is_call = (
                user.opcode == opcodes.CUSTOM_CALL
                and not is_annotation(user)
                and user.string(_TARGET) != _CONTROL_DEPENDENCY
            )
            if (user.opcode not in _MAY_USE or is_call) and not is_successor:
                message = f"{user.name} uses {member.name} while it is in flight"
                yield Problem(user, message, hint=f"use the result of the {done_of(pair.start)}")


def check_use_after_done(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports updates and dones that continue a done."""
    for done in pair.dones:
        for user in within.users.get(done, ()):
            if done in within.found.continues.get(user, ()):
                yield Problem(user, f"{user.name} continues {done.name}, but {pair.start.name} is already complete")


def check_kind(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports updates and dones of another kind than the start: copy-start requires copy-done."""
    for end in (*pair.updates, *pair.dones):
        if not _is_same_kind(pair, end):
            expected = f"{pair.start.name} ({pair.start.opcode}) requires {done_of(pair.start)}"
            yield Problem(end, f"{end.name} is {end.opcode}, but {expected}")


def check_operands(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports dones with more than one operand; only updates bind further operands."""
    for done in pair.dones if not pair.is_fused else ():
        if len(done.operands) > 1:
            others = ", ".join(operand.name for operand in done.operands[1:])
            operands = "an extra operand" if len(done.operands) == 2 else "extra operands"
            yield Problem(done, f"{done.name} has {operands}, {others}; only an update can bind operands")


def check_channel(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports sends and recvs whose done has another channel_id or is_host_transfer."""
    for done in pair.dones if pair.operation in CHANNEL_STARTS else ():
        for name in _IN_PAIRS:
            if (done.attribute(name) or "") != (pair.start.attribute(name) or ""):
                yield Problem(done, f"{done.name} and {pair.start.name} have different {name}")


def _escapes(pair: AsyncPair, users: Users) -> bool:
    """Returns whether a start may leave its computation, where its done cannot be traced."""
    if pair.start.computation.is_entry:
        return False
    return any(_is_forwarded(member, users) for member in (pair.start, *pair.updates))


def _is_forwarded(member: Instruction, users: Users) -> bool:
    """Returns whether a start or an update is a root or is used by an instruction that may forward it."""
    return member.is_root or any(user.opcode in _MAY_USE for user in users.get(member, ()))


def _is_carried(member: Instruction, users: Users) -> bool:
    """Returns whether a loop carries a start or an update, possibly inside tuples."""
    worklist, seen = [member], {member}
    while worklist:
        for user in users.get(worklist.pop(), ()):
            if user.opcode == opcodes.WHILE:
                return True
            if user not in seen and user.opcode in FORWARDING | {opcodes.TUPLE}:
                seen.add(user)
                worklist.append(user)
    return False


def _surplus(successors: Iterable[Instruction]) -> Iterator[Instruction]:
    """Yields the successors after the first one in each computation; a loop may have one inside and one after it."""
    seen: set[Computation] = set()
    for each in successors:
        if each.computation in seen:
            yield each
        seen.add(each.computation)


def _is_same_kind(pair: AsyncPair, end: Instruction) -> bool:
    """Returns whether an update or done is of the kind of its start."""
    if pair.form == "native":
        return end.opcode == NATIVE_DONES[pair.start.opcode]
    if pair.is_fused:
        return end.opcode == opcodes.FUSION
    return end.opcode in ASYNC_CONTINUATIONS or wrapped_opcode(end.opcode) == pair.operation
