"""Do the async operations of a module hold the rules of XLA's verifier, and can its sends and recvs deadlock?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from heapq import merge
from itertools import chain, islice
from operator import itemgetter
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from hlo_cli.analysis.dataflow.executions import contexts_of
from hlo_cli.analysis.dataflow.flat_schedule import is_end
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.problem import Problem
from hlo_cli.analysis.schedule.async_overlap import (
    TUPLE_FORWARDING,
    AsyncPair,
    AsyncPairs,
    async_pairs,
    is_annotation,
)
from hlo_cli.analysis.shapes.calling import is_prefix, output_buffers
from hlo_cli.analysis.shapes.inference import shape_difference
from hlo_cli.analysis.shapes.operands import sizes_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import OutputOperandAlias
from hlo_cli.ir.instruction import Computation, Instruction, Users, users_among
from hlo_cli.ir.module import Module, of_module
from hlo_cli.ir.operations import (
    ASYNC_CONTINUATIONS,
    ASYNCHRONOUS,
    CHANNEL_STARTS,
    COLLECTIVES,
    NATIVE_DONES,
    OUTPUT_TO_OPERAND_ALIASING,
    RUNNERS,
    taking,
    wrapped_opcode,
)
from hlo_cli.ir.shape import Shape, TupleShape, compatible, subshape
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import Diagnostic, HloError, expect

# --- what a rule reads and yields ---


@dataclass(frozen=True, slots=True)
class AsyncContext:
    """A module with its async operations, their users, and the callers of each computation."""

    module: Module
    pairs: AsyncPairs
    users: Users
    callers: Mapping[Computation, tuple[Instruction, ...]]


Rule: TypeAlias = Callable[[AsyncPair, AsyncContext], Iterator[Problem]]
"""A verifier rule: yields the violations of one pair."""


def _done_of(start: Instruction) -> str:
    """Returns the opcode of the done that matches a start.

    >>> from hlo_cli import parse_module
    >>> _done_of(parse_module("s = ((f32[4]), f32[4], u32[]) negate-start(f32[4] p)").entry.root)
    'negate-done'
    """
    return NATIVE_DONES.get(start.opcode) or f"{start.opcode.removesuffix('-start')}-done"


# --- shapes ---
# Of bound operands, output, and contexts.
#
# Mirrors `CheckAsyncOpComputationShapes` and its callers in xla/service/hlo_verifier.cc.


_UNBOUND_OUTPUT: Final = TupleShape(())
"""The shape of an output that is not yet bound."""
_WITH_COMPUTATION: Final = (opcodes.CALL, opcodes.FUSION)
"""Operations whose sugared start refers to a computation."""


def _check_async_shape(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports starts and updates whose shape is not ((operands), output, contexts…)."""
    for member in _members_with_binding(pair):
        # Only the first: the parts of later members repeat the same mistake.
        if parts_of(member) is None:
            yield Problem(
                member, f"{member.name}: expected shape ((operands), output, contexts…), found {member.shape}"
            )
            return


def _check_bound_operands(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports operands that differ from the bound part of the shape or from the computation's parameters."""
    wrapped = _wrapped_computation(pair)
    for member, (bound_operands, output) in _bound_parts(pair):
        # hlo_verifier.cc: with late binding, the operand tuple may be a prefix of the parameters, and the output may
        # be ().
        parameters = TupleShape(tuple(parameter.shape for parameter in wrapped.parameters)) if wrapped else None
        if parameters is not None and wrapped is not None and not is_prefix(bound_operands, parameters):
            words = f"the operands in its shape are not the first parameters of {wrapped.name}"
            yield Problem(member, f"{member.name}: {words}")
        earlier = _parts_before(member, within)
        if earlier is None:
            yield from _check_operand_shapes(member, bound_operands.elements, 0, ())
        elif _extends(earlier, (bound_operands, output)):
            added = bound_operands.elements[len(earlier[0].elements) :]
            yield from _check_operand_shapes(member, added, 1, output_buffers(earlier[1], output))


def _check_output(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports outputs of starts, updates, and dones that differ from the root of the computation."""
    if pair.form == "native":
        of_its_kind = (done for done in pair.dones if done.opcode == NATIVE_DONES[pair.start.opcode])
        for member in (pair.start, *of_its_kind):
            yield from _check_inferred_shape(member, within)
        return
    wrapped = _wrapped_computation(pair)
    for member, (_, output) in _bound_parts(pair):
        if wrapped is not None and wrapped.root is not None and not is_prefix(output, wrapped.root.shape):
            returned = f"{wrapped.name} returns {sizes_of(wrapped.root.shape)}"
            yield Problem(member, f"{member.name}: its output is {sizes_of(output)}, but {returned}")
    for done, (_, output) in _dones_with_parts(pair, within):
        expected = output if wrapped is None or wrapped.root is None else wrapped.root.shape
        # Sugared operations with late binding have no computation to compare the done with.
        is_late = wrapped is None and expected == _UNBOUND_OUTPUT
        if not is_late and not compatible(expected, done.shape):
            words = f"expected the shape {sizes_of(expected)}, found {sizes_of(done.shape)}"
            yield Problem(done, f"{done.name}: {words}")


def _check_bound_prefix(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports updates that do not extend the bound part of the member before."""
    for member, parts in _bound_parts(pair):
        earlier = _parts_before(member, within)
        if earlier is not None and not _extends(earlier, parts):
            words = "its shape binds fewer or different operands than the previous operation"
            yield Problem(member, f"{member.name}: {words}")


def _check_all_bound(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports dones before which not all parameters are bound; the output need not be."""
    wrapped = _wrapped_computation(pair)
    for done, (bound_operands, _) in _dones_with_parts(pair, within):
        if wrapped is not None and len(bound_operands.elements) < len(wrapped.parameters):
            unbound = [p.name for p in islice(wrapped.parameters, len(bound_operands.elements), None)]
            parameters = f"parameter {unbound[0]}" if len(unbound) == 1 else f"parameters {', '.join(unbound)}"
            verb = "is" if len(unbound) == 1 else "are"
            yield Problem(done, f"{done.name}: {parameters} of {wrapped.name} {verb} not bound")


def parts_of(member: Instruction) -> tuple[TupleShape, Shape] | None:
    """Returns the operands bound so far and the output, from the shape of a start or update; None if malformed.

    >>> from hlo_cli import parse_module
    >>> bound, output = parts_of(parse_module("s = ((f32[4]), f32[2], u32[]) slice-start(f32[4] p)").entry.root)
    >>> print(bound, output)
    (f32[4]{0}) f32[2]{0}
    """
    bound_operands, output = subshape(member.shape, (0,)), subshape(member.shape, (1,))
    return (bound_operands, output) if isinstance(bound_operands, TupleShape) and output is not None else None


def _members_with_binding(pair: AsyncPair) -> tuple[Instruction, ...]:
    """Returns the start and the updates if their form has bound operands in the shape."""
    return (pair.start, *pair.updates) if pair.form in ("generic", "sugared") else ()


def _bound_parts(pair: AsyncPair) -> Iterator[tuple[Instruction, tuple[TupleShape, Shape]]]:
    """Yields starts and updates with their bound parts, up to the first malformed one."""
    for member in _members_with_binding(pair):
        parts = parts_of(member)
        if parts is None:
            return
        yield member, parts


def _dones_with_parts(pair: AsyncPair, within: AsyncContext) -> Iterator[tuple[Instruction, tuple[TupleShape, Shape]]]:
    """Yields the dones with the parts that are bound before them."""
    if any(parts_of(member) is None for member in _members_with_binding(pair)):
        return
    for done in pair.dones if _members_with_binding(pair) else ():
        before = (each for each in within.pairs.continues.get(done, ()) if each in pair.members)
        parts = parts_of(next(before, pair.start))
        if parts is not None:
            yield done, parts


def _wrapped_computation(pair: AsyncPair) -> Computation | None:
    """Returns the computation whose parameters are the operands: that of a generic form or of a sugared call."""
    return pair.computation if pair.form == "generic" or pair.operation in _WITH_COMPUTATION else None


def _parts_before(member: Instruction, within: AsyncContext) -> tuple[TupleShape, Shape] | None:
    """Returns the bound parts of the member before an update, or None."""
    before = within.pairs.continues.get(member, ())
    return next((parts for each in before if (parts := parts_of(each))), None)


def _extends(earlier: tuple[TupleShape, Shape], parts: tuple[TupleShape, Shape]) -> bool:
    """Returns whether bound parts extend earlier ones."""
    return is_prefix(earlier[0], parts[0]) and is_prefix(earlier[1], parts[1])


def _check_operand_shapes(
    member: Instruction, bound: tuple[Shape, ...], first: int, buffers: tuple[Shape, ...]
) -> Iterator[Problem]:
    """Reports operands that differ from the shapes bound by a member; `buffers` are those of a late output."""
    operands = range(first, len(member.operands))
    # Operands beyond those that the shape binds are memory for a late output.
    if len(operands) == len(bound) + len(buffers):
        bound = (*bound, *buffers)
    if len(operands) != len(bound):
        more = "more " if first else ""
        noun = "operand" if len(bound) == 1 else "operands"
        words = f"its shape binds {len(bound)} {more}{noun}, but it has {len(operands)}"
        yield Problem(member, f"{member.name}: {words}")
        return
    for position, shape in zip(operands, bound, strict=True):
        if not compatible(member.operand_shape(position), shape):
            mismatch = f"{sizes_of(member.operand_shape(position))}, but its shape binds {sizes_of(shape)}"
            yield Problem(member, f"{member.name}: operand {position} is {mismatch}")


def _check_inferred_shape(member: Instruction, within: AsyncContext) -> Iterator[Problem]:
    """Reports a shape that differs from the inferred one."""
    try:
        difference = shape_difference(
            member, within.module, allow_mixed_precision=True
        )  # element widths have a rule of their own
    except HloError as error:
        difference = error.diagnostic.message
    if difference is not None:
        yield Problem(member, f"{member.name}: {difference}")


# --- aliasing ---
# Both parts exist and have the same shape.
#
# Mirrors the checks of async-start and async-update in xla/service/hlo_verifier.cc.


ALIASING_THEMSELVES: Final = taking(OUTPUT_TO_OPERAND_ALIASING) - ASYNCHRONOUS
"""Sugared operations that may overwrite operands themselves: the index is one in their result."""


def _check_aliasing(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports alias pairs of unequal or missing parts: parameters of a start, contexts of an update."""
    for member in (pair.start, *pair.updates) if pair.form in ("generic", "sugared") else ():
        for alias in member.items_of(OUTPUT_TO_OPERAND_ALIASING, OutputOperandAlias):
            operand_part, output = aliased_parts(pair, member, alias)
            if operand_part is None or output is None or not compatible(operand_part, output):
                words = f"invalid alias {alias}, expected operand and output parts of the same shape"
                yield Problem(member, f"{member.name}: {words}")


def aliased_parts(pair: AsyncPair, member: Instruction, alias: OutputOperandAlias) -> tuple[Shape | None, Shape | None]:
    """Returns the operand's part and the output's part of an alias pair, each None if it does not exist.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.schedule.async_overlap import async_pairs
    >>> text = '''HloModule m
    ... f { p = f32[4] parameter(0)  ROOT n = f32[4] negate(p) }
    ... ENTRY e { p = f32[4] parameter(0)
    ...   s = ((f32[4]), f32[4], u32[]) async-start(p), calls=f
    ...   ROOT d = f32[4] async-done(s) }'''
    >>> pair, = async_pairs(parse_module(text)).pairs
    >>> [str(part) for part in aliased_parts(pair, pair.start, OutputOperandAlias((1,), 0, ()))]
    ['f32[4]{0}', 'f32[4]{0}']
    """
    return _aliased_parts_of_update(member, alias) if is_end(member) else _aliased_parts_of_start(pair, alias)


def _aliased_parts_of_update(update: Instruction, alias: OutputOperandAlias) -> tuple[Shape | None, Shape | None]:
    """Returns the contexts that an update aliases: those of its operand and its own."""
    # Updates may alias contexts alone, which are at element 2 on both sides.
    if alias.operand_number != 0 or not alias.output_index[:1] == alias.operand_index[:1] == (2,):
        return None, None
    return subshape(update.operand_shape(0), alias.operand_index), subshape(update.shape, alias.output_index)


def _aliased_parts_of_start(pair: AsyncPair, alias: OutputOperandAlias) -> tuple[Shape | None, Shape | None]:
    """Returns a parameter and the part of operands, output, or contexts that a start aliases with it.

    All operands count as bound, because XLA checks the pair against the wrapped computation.
    """
    bound_shapes = _fully_bound_shapes(pair)
    if bound_shapes is None or not 0 <= alias.operand_number < len(bound_shapes[0].elements):
        return None, None
    operand_part = subshape(bound_shapes[0].elements[alias.operand_number], alias.operand_index)
    index = alias.output_index
    if pair.form == "sugared" and pair.operation in ALIASING_THEMSELVES:
        return operand_part, subshape(bound_shapes[1], index)
    if not index:
        return None, None
    part = bound_shapes[index[0]] if index[0] < 2 else subshape(pair.start.shape, index[:1])
    return operand_part, subshape(part, index[1:]) if part is not None else None


def _fully_bound_shapes(pair: AsyncPair) -> tuple[TupleShape, Shape] | None:
    """Returns the bound operands and the output of the complete chain; from its computation if known."""
    computation = pair.computation
    # hlo_verifier.cc checks the pairs of a start against its computation, even if the start binds no operand yet.
    if pair.form == "generic" and computation is not None and computation.root is not None:
        return TupleShape(tuple(parameter.shape for parameter in computation.parameters)), computation.root.shape
    parts = parts_of(pair.updates[-1] if pair.updates else pair.start)
    if parts is None or parts[1] != TupleShape(()) or not pair.dones:
        return parts
    return parts[0], pair.dones[0].shape


# --- chains ---
# One complete chain of one kind per start, and no other users.
#
# Mirrors `VerifyAsyncOps` and the rules for send, recv, and native pairs of xla/service/hlo_verifier.cc, and the checks
# of updates and dones in hlo_parser.cc.


# `VerifyAsyncOps` follows values through these, and rejects all other users
_USER_OPCODES: Final = TUPLE_FORWARDING | {
    opcodes.CALL,
    opcodes.CONDITIONAL,
    opcodes.CUSTOM_CALL,
    opcodes.GET_TUPLE_ELEMENT,
    opcodes.TUPLE,
    opcodes.WHILE,
}
"""Opcodes that may use a start or an update, other than updates and dones."""
_TARGET_ATTRIBUTE: Final = "custom_call_target"
_CONTROL_DEPENDENCY: Final = "control_dep"  # written by TPU compilers
"""The custom-call target that only orders its operands and does not read them."""
_PAIRED_ATTRIBUTES: Final = ("channel_id", "is_host_transfer")
"""Attributes that must be equal in a send or recv and its done."""


def _check_has_done(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports starts without a done and updates without a successor, unless they may escape their computation."""
    start = pair.start
    if not pair.dones and not _escapes(pair, within.users):
        carried = any(_is_carried(member, within.users) for member in (start, *pair.updates))
        message = f"{start.name} has no {_done_of(start)}"
        # Newer releases of XLA accept a start that a loop carries out and nobody waits for.
        hint = "older XLA versions require a done after the loop" if carried else None
        yield Problem(start, message, "note" if carried else "error", hint)
    successors = _successors(pair, within)
    for update in pair.updates if pair.dones and not pair.is_fused else ():
        siblings = (end for before in within.pairs.continues.get(update, ()) for end in successors[before])
        is_one_of_two = any(end is not update and end.computation is update.computation for end in siblings)
        if update not in successors and not is_one_of_two and not _is_forwarded(update, within.users):
            yield Problem(update, f"{update.name} has no {_done_of(start)}")


def _check_single_use(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports members with several successors; a loop-carried one may have one inside and one after the loop."""
    all_following = _successors(pair, within)
    for member in (pair.start, *pair.updates) if not pair.is_fused else ():
        successors = all_following.get(member, [])
        if pair.form == "native":
            member_users = within.users.get(member, ())
            # The verifier has a rule of its own for native pairs: any user but a done or a forwarding one is a second
            # use.
            successors = [
                user
                for user in member_users
                if user in successors or user.opcode in _USER_OPCODES - {opcodes.CUSTOM_CALL}
            ]
        for more in _surplus(successors):
            yield Problem(more, f"{more.name} uses {member.name}, which {successors[0].name} already uses")


def _successors(pair: AsyncPair, within: AsyncContext) -> dict[Instruction, list[Instruction]]:
    """Returns the updates and dones that continue each member."""
    successors: dict[Instruction, list[Instruction]] = {}
    for end in (*pair.updates, *pair.dones):
        for before in dict.fromkeys(within.pairs.continues.get(end, ())):
            successors.setdefault(before, []).append(end)
    return successors


def _check_in_flight_use(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports users of a start or update other than updates, dones, and forwarding instructions."""
    for member in (pair.start, *pair.updates) if not pair.is_fused else ():
        for user in within.users.get(member, ()):
            # As a further operand of an update the value is read, not continued.
            is_successor = is_end(user) and user.operands.index(member) == 0
            is_call = (
                user.opcode == opcodes.CUSTOM_CALL
                and not is_annotation(user)
                and user.string(_TARGET_ATTRIBUTE) != _CONTROL_DEPENDENCY
            )
            if (user.opcode not in _USER_OPCODES or is_call) and not is_successor:
                message = f"{user.name} uses {member.name} while it is in flight"
                yield Problem(user, message, hint=f"use the result of the {_done_of(pair.start)}")


def _check_use_after_done(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports updates and dones that continue a done."""
    for done in pair.dones:
        for user in within.users.get(done, ()):
            if done in within.pairs.continues.get(user, ()):
                yield Problem(user, f"{user.name} continues {done.name}, but {pair.start.name} is already complete")


def _check_kind(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports updates and dones of another kind than the start: copy-start requires copy-done."""
    for end in (*pair.updates, *pair.dones):
        if not _is_same_kind(pair, end):
            expected = f"{pair.start.name} ({pair.start.opcode}) requires {_done_of(pair.start)}"
            yield Problem(end, f"{end.name} is {end.opcode}, but {expected}")


def _check_operands(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports dones with more than one operand; only updates bind further operands."""
    for done in pair.dones if not pair.is_fused else ():
        if len(done.operands) > 1:
            others = ", ".join(operand.name for operand in done.operands[1:])
            operands = "an extra operand" if len(done.operands) == 2 else "extra operands"
            yield Problem(done, f"{done.name} has {operands}, {others}; only an update can bind operands")


def _check_channel(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports sends and recvs whose done has another channel_id or is_host_transfer."""
    for done in pair.dones if pair.operation in CHANNEL_STARTS else ():
        for name in _PAIRED_ATTRIBUTES:
            # XLA's parser gives both the default, so that a missing attribute equals an empty one.
            if (done.attribute(name) or "") != (pair.start.attribute(name) or ""):
                yield Problem(done, f"{done.name} and {pair.start.name} have different {name}")


def _escapes(pair: AsyncPair, users: Users) -> bool:
    """Returns whether a start may leave its computation, where its done cannot be traced."""
    # What leaves the entry goes to the caller of the program, where nobody can wait for it.
    if pair.start.computation.is_entry:
        return False
    return any(_is_forwarded(member, users) for member in (pair.start, *pair.updates))


def _is_forwarded(member: Instruction, users: Users) -> bool:
    """Returns whether a start or an update is a root or is used by an instruction that may forward it."""
    return member.is_root or any(user.opcode in _USER_OPCODES for user in users.get(member, ()))


def _is_carried(member: Instruction, users: Users) -> bool:
    """Returns whether a loop carries a start or an update, possibly inside tuples."""
    worklist, seen = [member], {member}
    while worklist:
        for user in users.get(worklist.pop(), ()):
            if user.opcode == opcodes.WHILE:
                return True
            if user not in seen and user.opcode in TUPLE_FORWARDING | {opcodes.TUPLE}:
                seen.add(user)
                worklist.append(user)
    return False


def _surplus(successors: Iterable[Instruction]) -> Iterator[Instruction]:
    """Yields the successors after the first one in each computation; a loop may have one inside and one after it."""
    visited: set[Computation] = set()
    for each in successors:
        if each.computation in visited:
            yield each
        visited.add(each.computation)


def _is_same_kind(pair: AsyncPair, end: Instruction) -> bool:
    """Returns whether an update or done is of the kind of its start."""
    if pair.form == "native":
        return end.opcode == NATIVE_DONES[pair.start.opcode]
    if pair.is_fused:
        return end.opcode == opcodes.FUSION
    return end.opcode in ASYNC_CONTINUATIONS or wrapped_opcode(end.opcode) == pair.operation


# --- computations ---
# One for an async operation, used by no other caller, on one thread.
#
# Mirrors `CheckAsyncOpComputationThreadName`, `VerifyAsyncComputation`, and the checks of callers in
# xla/service/hlo_verifier.cc, and the checks of `calls` and `async_execution_thread` in hlo_parser.cc.


_THREAD_ATTRIBUTE: Final = "async_execution_thread"
_GROUP_ATTRIBUTE: Final = "_collectives_group"  # attribute with which XLA:GPU marks several collectives that run as one


def _check_same_computation(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports starts without a computation, and members whose computation is not structurally equal to the start's."""
    started = pair.computation
    if pair.form != "generic":
        return
    if started is None:
        yield Problem(pair.start, f"{pair.start.name} has no called computation")
        return
    for member in pair.members:
        for called in member.called_computations:
            # hlo_verifier.cc compares the computations of a chain structurally, not by name.
            if called is not started and not _is_structurally_equal(called, started):
                message = f"{member.name} runs {called.name}, but {pair.start.name} runs {started.name}"
                yield Problem(member, message)


def _check_exclusive_computation(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports callers other than async starts, and, as a note for jaxlib 0.10.2, further async starts."""
    started = pair.computation
    callers = within.callers.get(started, ()) if started is not None and pair.form == "generic" else ()
    starts = [caller for caller in callers if caller.opcode == opcodes.ASYNC_START]
    if started is None or starts[:1] != [pair.start]:
        return
    for caller in callers:
        if not caller.opcode.startswith("async-"):
            yield Problem(
                caller, f"{caller.name} cannot call {started.name}, which {pair.start.name} runs asynchronously"
            )
    # hlo_verifier.cc of August 2026 lets several starts share a computation; that of jaxlib 0.10.2 does not.
    for start in starts[1:]:
        message = f"{start.name} runs {started.name}, which {pair.start.name} also runs"
        yield Problem(
            start, message, "note", f"jaxlib 0.10.2 requires a separate copy of {started.name} for each start"
        )


def _check_thread(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports members and computations with another execution thread than the start."""
    if pair.form == "native" or pair.is_fused:
        return
    for member in (*pair.updates, *pair.dones):
        thread = member.string(_THREAD_ATTRIBUTE)
        if thread is not None and thread != pair.thread:
            message = f"{member.name} specifies thread {thread}, but {pair.start.name} runs on {pair.thread}"
            yield Problem(member, message)
    wrapped = pair.computation
    # hlo_parser.cc sets the thread of the wrapped computation from the start, so the computation's own text has no
    # effect.
    if wrapped is not None and wrapped.execution_thread not in ("main", pair.thread):
        other = f"{wrapped.name} is on {wrapped.execution_thread}"
        message = f"{pair.start.name} runs {wrapped.name} on thread {pair.thread}, but {other}"
        yield Problem(pair.start, message, "warning", f"XLA uses the thread of {pair.start.name}")


def _check_single_operation(pair: AsyncPair, within: AsyncContext) -> Iterator[Problem]:
    """Reports computations on the main thread that contain several operations and are not a group of collectives.

    Sends and recvs form such a group without an attribute in older releases.
    """
    wrapped = pair.computation
    if wrapped is None or pair.form != "generic" or pair.thread != "main":
        return
    is_group = any(key == _GROUP_ATTRIBUTE for key, _ in pair.start.frontend_attributes.entries)
    others = [
        i
        for i in wrapped.instructions
        if i.opcode not in (opcodes.PARAMETER, opcodes.GET_TUPLE_ELEMENT) and not i.is_root
    ]
    # Other threads, such as the host's or a SparseCore's, run whole programs.
    if others and not is_group:
        limit = f"allows one operation, not {len(others) + 1}"
        message = f"{pair.start.name} runs {wrapped.name} on the main thread, which {limit}"
        if all(other.opcode in CHANNEL_STARTS for other in others):
            hint = f'XLA in 2026 requires frontend_attributes={{{_GROUP_ATTRIBUTE}=""}} on the start'
            yield Problem(pair.start, message, "warning", hint)
        else:
            yield Problem(pair.start, message)


def _is_structurally_equal(first: Computation, second: Computation) -> bool:
    """Returns whether two computations are equal except for names."""
    if len(first.instructions) != len(second.instructions):
        return False
    numbers: Mapping[Instruction, Instruction] = dict(zip(first.instructions, second.instructions, strict=True))
    return all(
        # Attributes by their text, which is stricter than XLA's `Identical`: computations of one dump are printed
        # alike.
        (a.opcode, a.shape, a.raw) == (b.opcode, b.shape, b.raw) and tuple(map(numbers.get, a.operands)) == b.operands
        for a, b in numbers.items()
    )


# --- deadlocks ---
# Sends and recvs between devices that cannot be matched, as far as the schedule of one module shows.
#
# Mirrors `VerifyNoCollectiveDeadlocks` of xla/service/hlo_verifier.cc, which is off by default. It checks sends and
# recvs with source-target pairs in the order of a GPU schedule.


# Set by collective-permute-decomposer for the send and recv that it makes.
_PAIRS_ATTRIBUTE: Final = "_xla_send_recv_source_target_pairs"
_PIPELINE_ATTRIBUTE: Final = "_xla_send_recv_pipeline"
"""Sends and recvs with this attribute are skipped, as in XLA: they follow rules of their own."""
_PAIR: Final = lazy_regex(r"\{\s*(\d+)\s*,\s*(\d+)\s*\}")
_MAX_STEPS: Final = 1_000_000
"""Limit on visited instructions: a chain of computations that each call the next twice takes exponential time."""

SourceTargetPairs: TypeAlias = tuple[tuple[int, int], ...]
"""Source and target device of each transfer."""


class Transfer(NamedTuple):
    """A device send or recv: the attribute text, which XLA compares to match two of them, and its pairs."""

    instruction: Instruction
    text: str
    pairs: SourceTargetPairs


def deadlocks(module: Module) -> Iterator[Problem]:
    """Yields possible deadlocks; none for unscheduled modules and on TPU.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m, is_scheduled=true
    ... ENTRY e { p = f32[4] parameter(0)  t = token[] after-all()
    ...   s = (f32[4], u32[], token[]) send(p, t), channel_id=1,
    ...       frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1}}"}
    ...   ROOT d = token[] send-done(s), channel_id=1 }'''
    >>> [problem.message for problem in deadlocks(parse_module(text))]
    ['s has no matching recv (from 0 to 1)']
    """
    text = module.source.text
    # Only an order can deadlock, and XLA makes this check for schedules of GPUs.
    if not module.is_scheduled or (text and _PAIRS_ATTRIBUTE not in text) or target_of(module) == "tpu":
        return
    entered = _with_transfers(module)
    frames = [_Frame(iter(module.entry.instructions), _DeadlockCheck(), around=None)]
    steps = 0
    while frames and steps < _MAX_STEPS:
        frame = frames[-1]
        instruction = next(frame.remaining, None)
        if instruction is None:
            frames.pop()
            if frame.is_whole and (frame.around is None or frame.around.expected):
                yield from frame.check.unmatched()
            continue
        steps += 1
        yield from frame.check.visit(instruction)
        if instruction.opcode in RUNNERS and not _is_collective(instruction):
            inner = [called for called in instruction.called_computations if called in entered]
            frames += (_frame(instruction, called, frame.check) for called in reversed(inner))


@dataclass(slots=True)
class Unmatched:
    """Unmatched sends or recvs in the order of execution, indexed by attribute text and by device.

    >>> unmatched = Unmatched()
    >>> unmatched.conflicting(((0, 1),)) is None
    True
    """

    numbers: dict[Instruction, int] = field(default_factory=dict)
    transfers: dict[Instruction, Transfer] = field(default_factory=dict)
    invalid: dict[int, Transfer] = field(default_factory=dict)
    by_text: dict[str, dict[Instruction, None]] = field(default_factory=dict)
    by_device: dict[int, dict[int, Transfer]] = field(default_factory=dict)
    last: int = 0

    def add(self, transfer: Transfer) -> None:
        """Adds an unmatched instruction, unless it is present from an earlier execution."""
        instruction = transfer.instruction
        # A second execution of the same send adds nothing that could be matched.
        if instruction in self.numbers:
            return
        self.last += 1
        self.numbers[instruction], self.transfers[instruction] = self.last, transfer
        self.by_text.setdefault(transfer.text, {})[instruction] = None
        if conflict(transfer.pairs) is not None:
            self.invalid[self.last] = transfer
        for device in chain.from_iterable(transfer.pairs):
            self.by_device.setdefault(device, {})[self.last] = transfer

    def match(self, text: str) -> bool:
        """Matches the first instruction with the same attribute text; returns whether there is one."""
        instruction = next(iter(self.by_text.get(text, ())), None)
        if instruction is None:
            return False
        number, transfer = self.numbers.pop(instruction), self.transfers.pop(instruction)
        del self.by_text[text][instruction]
        self.invalid.pop(number, None)
        for device in chain.from_iterable(transfer.pairs):
            self.by_device[device].pop(number, None)
        return True

    def conflicting(self, pairs: SourceTargetPairs) -> Transfer | None:
        """Returns the first unmatched transfer that must not be in flight together with these pairs, or None."""
        if conflict(pairs) is not None:
            return next(iter(self.transfers.values()), None)
        devices = dict.fromkeys(chain.from_iterable(pairs))
        sharing_device = [self.by_device[device].items() for device in devices if device in self.by_device]
        # In XLA's order, the oldest unmatched first; only transfers that share a device can make a conflict.
        for _, other in merge(self.invalid.items(), *sharing_device, key=itemgetter(0)):
            if conflict((*other.pairs, *pairs)) is not None:
                return other
        return None


@dataclass(slots=True)
class _DeadlockCheck:
    """The state of the check: unmatched sends and recvs while instructions are visited in execution order.

    `expected` is the opcode that matches the oldest unmatched instruction, "" if there is none.
    """

    sends: Unmatched = field(default_factory=Unmatched)
    recvs: Unmatched = field(default_factory=Unmatched)
    expected: str = ""

    def visit(self, instruction: Instruction) -> Iterator[Problem]:
        """Processes one instruction."""
        if self.expected and _is_collective(instruction):
            first = next(iter((self.sends if self.expected == "recv" else self.recvs).transfers))
            message = f"{instruction.name} is between {first.name} and its matching {self.expected}"
            yield Problem(instruction, message, "warning", f"move the {self.expected} before {instruction.name}")
        transfer = _transfer_of(instruction)
        if transfer is None:
            return
        if (words := conflict(transfer.pairs)) is not None:
            yield Problem(instruction, f"{instruction.name} has {words}: {_format_pairs(transfer.pairs)}", "warning")
        is_send = instruction.opcode == opcodes.SEND
        same_kind, others = (self.sends, self.recvs) if is_send else (self.recvs, self.sends)
        # Not the kind that must follow: it joins the unmatched ones of its own kind, which the other kind has to match.
        if self.expected != instruction.opcode:
            yield from _check_concurrent(transfer, same_kind) if self.expected else ()
            self.expected = "recv" if is_send else "send"
            same_kind.add(transfer)
        elif not others.match(transfer.text):
            same_kind.add(transfer)
        elif not others.transfers:
            self.expected = ""

    def unmatched(self) -> Iterator[Problem]:
        """Reports all sends and recvs that remain unmatched."""
        unmatched_recvs = Counter(each.text for each in self.recvs.transfers.values())
        for send, text, pairs in self.sends.transfers.values():
            unmatched_recvs[text] -= 1
            if unmatched_recvs[text] < 0:
                yield Problem(send, f"{send.name} has no matching recv ({_format_pairs(pairs)})", "warning")
        for recv, text, pairs in self.recvs.transfers.values():
            unmatched_recvs[text] -= 1
            if unmatched_recvs[text] >= 0:
                yield Problem(recv, f"{recv.name} has no matching send ({_format_pairs(pairs)})", "warning")


@dataclass(slots=True)
class _Frame:
    """A computation under visit: its remaining instructions, and the state of the check.

    Computations that are checked on their own have `is_whole`: the entry, and groups of operations in an async-start.
    XLA requires that all transfers of a group are matched only if the state of its caller, `around`, expects a match.
    """

    remaining: Iterator[Instruction]
    check: _DeadlockCheck
    around: _DeadlockCheck | None
    is_whole: bool = True


def _frame(caller: Instruction, called: Computation, around: _DeadlockCheck) -> _Frame:
    """Returns the frame of a called computation; a group of operations has a state of its own."""
    # hlo_verifier.cc checks an async computation of several operations with a fresh state.
    is_group = caller.opcode == opcodes.ASYNC_START and _is_group(called)
    return _Frame(iter(called.instructions), _DeadlockCheck() if is_group else around, around, is_whole=is_group)


def _with_transfers(module: Module) -> frozenset[Computation]:
    """Returns the computations that contain or reach transfers or collectives; others are not visited."""
    callers = contexts_of(module).callers
    reaching: set[Computation] = set()
    worklist = [each.computation for each in module.instructions if each.opcode in _TRANSFER_OPCODES]
    while worklist:
        if (computation := worklist.pop()) not in reaching:
            reaching.add(computation)
            worklist.extend(caller.computation for caller in callers.get(computation, ()))
    return frozenset(reaching)


_TRANSFER_OPCODES: Final = COLLECTIVES | {f"{opcode}-start" for opcode in COLLECTIVES} | CHANNEL_STARTS


def _is_collective(instruction: Instruction) -> bool:
    """Returns whether XLA treats an instruction as another collective: generic and sugared starts, not native ones."""
    opcode, called = instruction.opcode, instruction.called_computations
    if opcode == opcodes.ASYNC_START and called and called[0].root is not None and not _is_group(called[0]):
        return called[0].root.opcode in COLLECTIVES
    return opcode in COLLECTIVES or (opcode.endswith("-start") and wrapped_opcode(opcode) in COLLECTIVES)


def _is_group(computation: Computation) -> bool:
    """Returns whether a computation contains several operations."""
    return sum(instruction.opcode != opcodes.PARAMETER for instruction in computation.instructions) > 1


def _transfer_of(instruction: Instruction) -> Transfer | None:
    """Returns the transfer of a device send or recv, None for other instructions."""
    if instruction.opcode not in CHANNEL_STARTS or instruction.flag("is_host_transfer"):
        return None
    attributes = instruction.frontend_attributes
    text = attributes.get(_PAIRS_ATTRIBUTE)
    if text is None or attributes.get(_PIPELINE_ATTRIBUTE) is not None:
        return None
    return Transfer(instruction, text, tuple((int(source), int(target)) for source, target in _PAIR.findall(text)))


def _check_concurrent(transfer: Transfer, same_kind: Unmatched) -> Iterator[Problem]:
    """Reports a send or recv that shares devices with an unmatched one or forms a cycle with it."""
    if (other := same_kind.conflicting(transfer.pairs)) is not None:
        own, name = f"{transfer.instruction.name} ({_format_pairs(transfer.pairs)})", other.instruction.name
        if other.instruction is transfer.instruction:
            message = f"{own} is executed again before it is matched"
        elif other.pairs == transfer.pairs:
            message = f"{own} has the same pairs as {name}, which is not matched yet"
        else:
            message = f"{own} conflicts with {name} ({_format_pairs(other.pairs)}), which is not matched yet"
        yield Problem(transfer.instruction, message, "warning")


def conflict(pairs: SourceTargetPairs) -> str | None:
    """Returns how pairs are invalid (repeated source, repeated target, or cycle), None if they are valid.

    >>> conflict(((0, 1), (1, 0))), conflict(((0, 1), (1, 2)))
    ('a cycle', None)
    """
    following, visited = dict(pairs), set[int]()
    if len(following) < len(pairs):
        return "the same source twice"
    if len(set(following.values())) < len(pairs):
        return "the same target twice"
    for first in following:
        device = None if first in visited else following.get(first)
        while device is not None and device != first and device not in visited:
            visited.add(device)
            device = following.get(device)
        if device == first:
            return "a cycle"
    return None


def _format_pairs(pairs: SourceTargetPairs) -> str:
    """Formats pairs: `from 0 to 1, from 1 to 2`."""
    return ", ".join(f"from {source} to {target}" for source, target in pairs[:3]) + (", …" if len(pairs) > 3 else "")


# --- the verifier ---
# Mirrors `VerifyAsyncOps`, `CheckAsyncOpComputation…`, and the rules for send, recv, and native pairs of
# xla/service/hlo_verifier.cc. Not checked: whether all devices of a collective reach it, and properties of several
# modules together, such as programs that share a channel.


RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "async-no-done": _check_has_done,
        "async-duplicate-use": _check_single_use,
        "async-in-flight": _check_in_flight_use,
        "async-after-done": _check_use_after_done,
        "async-kind": _check_kind,
        "async-done-operands": _check_operands,
        "async-channel": _check_channel,
        "async-computation": _check_same_computation,
        "async-shared-computation": _check_exclusive_computation,
        "async-thread": _check_thread,
        "async-group": _check_single_operation,
        "async-shape": _check_async_shape,
        "async-bound-prefix": _check_bound_prefix,
        "async-operands": _check_bound_operands,
        "async-output": _check_output,
        "async-unbound": _check_all_bound,
        "async-aliasing": _check_aliasing,
    }
)
"""The rules for pairs, by code."""
ORPHAN: Final = "async-no-start"
"""The code for updates and dones without a start."""
DEADLOCK: Final = "async-deadlock"
"""The code for sends and recvs that cannot be matched."""


@of_module
def verify_async(module: Module, pairs: AsyncPairs | None = None) -> Iterator[Diagnostic]:
    """Yields the violations in a module, each with the code of its rule; `pairs` are the module's pairs if known.

    A warning applies to some XLA releases, a note only to older ones. Modules with syntax errors, without operands,
    or with ambiguous names, and parts of modules, are not checked.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[4] parameter(0) ROOT s = (f32[4], f32[4], u32[]) copy-start(p) }"
    >>> found = next(verify_async(parse_module(text)))
    >>> print(found.code, found.message)
    async-no-done s has no copy-done
    """
    expect(AsyncPairs | None, "the async pairs of a module", pairs, "use hlo_cli.analyze_overlap(module).pairs")
    return (problem.diagnostic(module.source) for problem in async_problems(module, pairs))


def async_problems(module: Module, pairs: AsyncPairs | None = None) -> Iterator[Problem]:
    """Yields the diagnostics of `verify_async` with their instructions, because a proto has no text to locate them in.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[4] parameter(0) ROOT s = (f32[4], f32[4], u32[]) copy-start(p) }"
    >>> [(problem.instruction.name, problem.code) for problem in async_problems(parse_module(text))]
    [('s', 'async-no-done')]
    """
    known_pairs = pairs or async_pairs(module)
    # A part has uses and callers elsewhere, which every rule here counts.
    if module.errors or module.is_part or not _is_checkable(known_pairs):
        return
    for problem, code in _problems(module, known_pairs).items():
        yield problem._replace(code=code)


def _problems(module: Module, known_pairs: AsyncPairs) -> dict[Problem, str]:
    """Returns each violation once, with the code of the first rule that reports it."""
    problems: dict[Problem, str] = {}
    for orphan in known_pairs.orphans:
        words = "has no start: its operand is not an async operation"
        problems[Problem(orphan, f"{orphan.name} {words}")] = ORPHAN
    if not known_pairs.pairs:
        return problems
    computations = dict.fromkeys(member.computation for pair in known_pairs.pairs for member in pair.members)
    users = users_among([i for computation in computations for i in computation.instructions])
    within = AsyncContext(module, known_pairs, users, contexts_of(module).callers)
    for pair in known_pairs.pairs:
        for code, rule in RULES.items():
            for problem in rule(pair, within):
                problems.setdefault(problem, code)
    for problem in deadlocks(module):
        problems.setdefault(problem, DEADLOCK)
    return problems


def _is_checkable(known_pairs: AsyncPairs) -> bool:
    """Returns whether updates and dones have operands, and starts have unique names."""
    starts = [(pair.start.computation, pair.start.name) for pair in known_pairs.pairs]
    return len(set(starts)) == len(starts) and all(end.operands for end in known_pairs.continues)
