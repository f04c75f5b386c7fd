"""Rules of the chain from a start to what waits for it: there is one, of one kind, and nothing else takes part.

Mirrors `VerifyAsyncOps` and the rules for send, recv and the native pairs of xla/service/hlo_verifier.cc, and what
hlo_parser.cc wants of updates and dones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from hlo_cli.analysis.dataflow.users import Users
from hlo_cli.analysis.problem import Problem
from hlo_cli.analysis.schedule.async_diagnostics import Asynchronous, done_of
from hlo_cli.analysis.schedule.async_pairs import AsyncPair, is_end
from hlo_cli.analysis.schedule.async_tracing import HANDING_ON, is_marker
from hlo_cli.ir import opcodes
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import ASYNC_CONTINUATIONS, CHANNEL_STARTS, NATIVE_DONES, wrapped_opcode

_MAY_TAKE: Final = HANDING_ON | {
    opcodes.CALL,
    opcodes.CONDITIONAL,
    opcodes.CUSTOM_CALL,
    opcodes.GET_TUPLE_ELEMENT,
    opcodes.TUPLE,
    opcodes.WHILE,
}
"""Opcodes that may take the value of a start or an update, besides those that go on with it."""
_TARGET: Final = "custom_call_target"
_ORDERING: Final = "control_dep"
"""The custom call that takes values to come after them, and reads none."""
_IN_PAIRS: Final = ("channel_id", "is_host_transfer")
"""Attributes that a send or recv and its done have in common."""


def unfinished(pair: AsyncPair, within: Asynchronous) -> Iterator[Problem]:
    """Something goes on with each start and each update, unless they are carried to where nobody can follow them."""
    start = pair.start
    if not pair.dones and not _escapes(pair, within.users):
        carried = any(_is_carried(member, within.users) for member in (start, *pair.updates))
        message = f"nothing waits for {start.name}: it has no {done_of(start)}"
        hint = "older XLA wants a done behind the loop" if carried else None
        yield Problem(start, message, "note" if carried else "error", hint)
    following = _following(pair, within)
    for update in pair.updates if pair.dones and not pair.is_fused else ():
        beside = (end for before in within.found.continues.get(update, ()) for end in following[before])
        is_one_of_two = any(end is not update and end.computation is update.computation for end in beside)
        if update not in following and not is_one_of_two and not _is_handed_on(update, within.users):
            yield Problem(update, f"nothing goes on with {update.name}: no {done_of(start)} leads back to it")


def taken_twice(pair: AsyncPair, within: Asynchronous) -> Iterator[Problem]:
    """One update or done goes on with a start or an update; a loop has one inside and one behind it."""
    all_following = _following(pair, within)
    for member in (pair.start, *pair.updates) if not pair.is_fused else ():
        following = all_following.get(member, [])
        if pair.spelling == "native":
            taking = within.users.get(member, ())
            following = [
                user for user in taking if user in following or user.opcode in _MAY_TAKE - {opcodes.CUSTOM_CALL}
            ]
        for more in _more_than_one(following):
            yield Problem(more, f"{more.name} is one too many: {following[0].name} takes {member.name} already")


def _following(pair: AsyncPair, within: Asynchronous) -> dict[Instruction, list[Instruction]]:
    """The updates and dones of a pair by what they go on with."""
    found: dict[Instruction, list[Instruction]] = {}
    for end in (*pair.updates, *pair.dones):
        for before in dict.fromkeys(within.found.continues.get(end, ())):
            found.setdefault(before, []).append(end)
    return found


def taken_in_flight(pair: AsyncPair, within: Asynchronous) -> Iterator[Problem]:
    """What is under way is taken by nothing but what goes on with it or hands it on."""
    for member in (pair.start, *pair.updates) if not pair.is_fused else ():
        for user in within.users.get(member, ()):
            goes_on = is_end(user) and user.operands.index(member) == 0
            is_call = user.opcode == opcodes.CUSTOM_CALL and not is_marker(user) and user.string(_TARGET) != _ORDERING
            if (user.opcode not in _MAY_TAKE or is_call) and not goes_on:
                wanted = f"{done_of(pair.start)} gives the result"
                message = f"{user.name} cannot take {member.name}, which is under way: {wanted}"
                yield Problem(user, message)


def taken_when_over(pair: AsyncPair, within: Asynchronous) -> Iterator[Problem]:
    """What was waited for is over: no update and no other done goes on with it."""
    for done in pair.dones:
        for user in within.users.get(done, ()):
            if done in within.found.continues.get(user, ()):
                yield Problem(user, f"{user.name} cannot go on with {done.name}, which waited for {pair.start.name}")


def of_another_kind(pair: AsyncPair, within: Asynchronous) -> Iterator[Problem]:
    """Updates and dones are of the kind of the start: copy-done waits for copy-start."""
    for end in (*pair.updates, *pair.dones):
        if not _fits(pair, end):
            wanted = f"{pair.start.name}, {pair.start.opcode}, wants {done_of(pair.start)}"
            yield Problem(end, f"{end.name} is {end.opcode}, but {wanted}")


def with_more_operands(pair: AsyncPair, within: Asynchronous) -> Iterator[Problem]:
    """A done takes what it waits for, and nothing else: what comes late is bound by an update."""
    for done in pair.dones if not pair.is_fused else ():
        if len(done.operands) > 1:
            others = ", ".join(operand.name for operand in done.operands[1:])
            yield Problem(done, f"{done.name} takes {others} besides what it waits for; only an update binds operands")


def of_another_channel(pair: AsyncPair, within: Asynchronous) -> Iterator[Problem]:
    """A send or recv and its done have the same channel_id and the same is_host_transfer."""
    for done in pair.dones if pair.operation in CHANNEL_STARTS else ():
        for name in _IN_PAIRS:
            if (done.attribute(name) or "") != (pair.start.attribute(name) or ""):
                yield Problem(done, f"{done.name} and {pair.start.name} differ in {name}")


def _escapes(pair: AsyncPair, users: Users) -> bool:
    """Whether a start may be carried out of its computation, to where nobody can follow it."""
    if pair.start.computation.is_entry:
        return False
    return any(_is_handed_on(member, users) for member in (pair.start, *pair.updates))


def _is_handed_on(member: Instruction, users: Users) -> bool:
    """Whether something takes a start or an update, or is given it, that does not go on with it by itself."""
    return member.is_root or any(user.opcode in _MAY_TAKE for user in users.get(member, ()))


def _is_carried(member: Instruction, users: Users) -> bool:
    """Whether a loop takes a start or an update, maybe within tuples."""
    waiting, seen = [member], {member}
    while waiting:
        for user in users.get(waiting.pop(), ()):
            if user.opcode == opcodes.WHILE:
                return True
            if user not in seen and user.opcode in HANDING_ON | {opcodes.TUPLE}:
                seen.add(user)
                waiting.append(user)
    return False


def _more_than_one(following: Iterable[Instruction]) -> Iterator[Instruction]:
    """What follows after the first in one computation; a loop has one inside and one behind it."""
    seen: set[Computation] = set()
    for each in following:
        if each.computation in seen:
            yield each
        seen.add(each.computation)


def _fits(pair: AsyncPair, end: Instruction) -> bool:
    if pair.spelling == "native":
        return end.opcode == NATIVE_DONES[pair.start.opcode]
    if pair.is_fused:
        return end.opcode == opcodes.FUSION
    return end.opcode in ASYNC_CONTINUATIONS or wrapped_opcode(end.opcode) == pair.operation
