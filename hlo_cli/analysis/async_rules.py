"""XLA's rules for asynchronous operations, and where a module breaks them.

Mirrors `VerifyAsyncOps`, `CheckAsyncOpComputation…`, and the verifier's rules for send, recv and the native pairs, of
xla/service/hlo_verifier.cc.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from hlo_cli.analysis.async_pairs import NATIVE_DONES, AsyncPair, AsyncPairs, async_pairs, is_end
from hlo_cli.analysis.async_shapes import Problem, shape_problems
from hlo_cli.analysis.async_tracing import HANDING_ON
from hlo_cli.analysis.neighbours import Users, users_among
from hlo_cli.ir.computation import Computation
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.opcode import wrapped_opcode
from hlo_cli.source import Diagnostic

CODE: Final = "async"
"""The code of every diagnostic here."""

_MAY_TAKE: Final = HANDING_ON | {"call", "conditional", "custom-call", "get-tuple-element", "tuple", "while"}
"""Opcodes that may take the value of a start or an update, besides those that go on with it."""
_IN_PAIRS: Final = ("channel_id", "is_host_transfer")
"""Attributes that a send or recv and its done have in common."""


def broken_rules(module: Module, pairs: AsyncPairs | None = None) -> Iterator[Diagnostic]:
    """Every place at which the module breaks a rule, as an error; `pairs` are the module's, where they are at hand.

    A text with errors, or that leaves out operands or what tells names apart, says too little to be judged.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[4] parameter(0) ROOT s = (f32[4], f32[4], u32[]) copy-start(p) }"
    >>> print(next(broken_rules(parse_module(text))).message)
    nothing waits for s: it has no copy-done
    """
    found = pairs or async_pairs(module)
    if module.errors or not _says_enough(found):
        return
    problems: dict[Problem, None] = {}
    computations = dict.fromkeys(member.computation for pair in found.pairs for member in pair.members)
    users = users_among([i for computation in computations for i in computation.instructions])
    for orphan in found.orphans:
        problems[orphan, f"{orphan.name} waits for nothing: its operand is no asynchronous operation"] = None
    for pair in found.pairs:
        each = (*_chain_problems(pair, found, users), *_match_problems(pair), *_wrapped_problems(pair))
        shapes = ((at, f"{at.name}: {message}") for at, message in shape_problems(module, pair, found.continues))
        problems |= dict.fromkeys((*each, *shapes))
    for at, message in problems:
        yield Diagnostic("error", message, module.source, at.span, code=CODE)


def _says_enough(found: AsyncPairs) -> bool:
    """Whether each update and done has operands, and each start a name of its own."""
    starts = [(pair.start.computation, pair.start.name) for pair in found.pairs]
    return len(set(starts)) == len(starts) and all(end.operands for end in found.continues)


def _chain_problems(pair: AsyncPair, found: AsyncPairs, users: Users) -> Iterator[Problem]:
    """One start, one done, and nothing else that takes what lies between."""
    start = pair.start
    if not pair.dones and not _escapes(pair, users):
        yield start, f"nothing waits for {start.name}: it has no {_done_of(start)}"
    for member in (start, *pair.updates) if pair.spelling != "fusion" else ():
        taking = users.get(member, ())
        following = [end for end in (*pair.updates, *pair.dones) if member in found.continues.get(end, ())]
        if pair.spelling == "native":
            following = [user for user in taking if user in following or user.opcode in _MAY_TAKE - {"custom-call"}]
        for more in _more_than_one(following):
            yield more, f"{more.name} is one too many: {following[0].name} takes {member.name} already"
        for user in taking:
            if user.opcode not in _MAY_TAKE and not (is_end(user) and user.operands.index(member) == 0):
                wanted = f"{_done_of(start)} gives the result"
                yield user, f"{user.name} cannot take {member.name}, which is under way: {wanted}"


def _escapes(pair: AsyncPair, users: Users) -> bool:
    """Whether a start may be carried out of its computation, to where nobody can follow it."""
    if pair.start.computation.is_entry:
        return False
    members = (pair.start, *pair.updates)
    return any(m.is_root or any(user.opcode in _MAY_TAKE for user in users.get(m, ())) for m in members)


def _more_than_one(following: Iterable[Instruction]) -> Iterator[Instruction]:
    """What follows after the first in one computation; a loop has one inside and one behind it."""
    seen: set[Computation] = set()
    for each in following:
        if each.computation in seen:
            yield each
        seen.add(each.computation)


def _match_problems(pair: AsyncPair) -> Iterator[Problem]:
    """Whether those that go on with a start are of its kind and say the same as it."""
    for end in (*pair.updates, *pair.dones):
        if not _fits(pair, end):
            wanted = f"{pair.start.name}, {pair.start.opcode}, wants {_done_of(pair.start)}"
            yield end, f"{end.name} is {end.opcode}, but {wanted}"
    if pair.operation in ("send", "recv"):
        for done in pair.dones:
            for name in _IN_PAIRS:
                if (done.attribute(name) or "") != (pair.start.attribute(name) or ""):
                    yield done, f"{done.name} and {pair.start.name} differ in {name}"


def _fits(pair: AsyncPair, end: Instruction) -> bool:
    if pair.spelling == "native":
        return end.opcode == NATIVE_DONES[pair.start.opcode]
    if pair.spelling == "fusion":
        return end.opcode == "fusion"
    return end.opcode in ("async-update", "async-done") or wrapped_opcode(end.opcode) == pair.operation


def _done_of(start: Instruction) -> str:
    """What waits for a start."""
    return NATIVE_DONES.get(start.opcode) or f"{start.opcode.removesuffix('-start')}-done"


def _wrapped_problems(pair: AsyncPair) -> Iterator[Problem]:
    """Whether all name one computation, and whether that is one operation if it runs in the main thread."""
    own = pair.computation
    if pair.spelling != "generic" or own is None:
        return
    for member in pair.members:
        for called in member.called_computations:
            if called is not own and not _is_equal(called, own):
                yield member, f"{member.name} runs {called.name}, but {pair.start.name} runs {own.name}"
    is_group = any(key == "_collectives_group" for key, _ in pair.start.frontend_attributes.entries)
    others = [i for i in own.instructions if i.opcode not in ("parameter", "get-tuple-element") and not i.is_root]
    if pair.thread == "main" and others and not is_group:
        message = (
            f"{pair.start.name} runs {own.name} in the main thread, which takes one operation, not {len(others) + 1}"
        )
        yield pair.start, message


def _is_equal(first: Computation, second: Computation) -> bool:
    """Whether two computations are the same but for names."""
    if len(first.instructions) != len(second.instructions):
        return False
    numbers: Mapping[Instruction, Instruction] = dict(zip(first.instructions, second.instructions, strict=True))
    return all(
        (a.opcode, a.shape, a.raw) == (b.opcode, b.shape, b.raw) and tuple(map(numbers.get, a.operands)) == b.operands
        for a, b in numbers.items()
    )
