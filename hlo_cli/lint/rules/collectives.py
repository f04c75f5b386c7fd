"""HLO05x: collective operations: which devices take part, and who sends to whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Final

from hlo_cli.analysis.shapes.replica_groups import collective_op_group_mode, lists_groups
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.devices import Groups
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import COLLECTIVES, PERMUTES
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.ir.words import CollectiveOpGroupMode
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.registry import rule
from hlo_cli.lint.spans import attribute_span
from hlo_cli.report.finding import Finding
from hlo_cli.source import HloError

_GROUPED: Final = tuple(
    opcode for each in sorted(COLLECTIVES - {opcodes.COLLECTIVE_PERMUTE}) for opcode in (each, f"{each}-start")
)
_ANY_SIZE: Final = (opcodes.ALL_REDUCE, opcodes.ALL_REDUCE_START)
_NUMBERS: Final = {
    CollectiveOpGroupMode.CROSS_REPLICA: "replicas",
    CollectiveOpGroupMode.CROSS_PARTITION: "partitions",
    CollectiveOpGroupMode.CROSS_REPLICA_AND_PARTITION: "replicas",
    CollectiveOpGroupMode.FLATTENED_ID: "devices",
}


@rule("HLO050", "replica groups do not divide the devices")
def replica_groups(context: LintContext) -> Iterator[Finding]:
    """The groups of a collective operation leave out a device, name one twice, or are of different sizes.

    Why: every device must know with whom it exchanges data, or the program waits for ever. Without channel_id the
    numbers are replicas; with one they are replicas or partitions, with use_global_device_ids both in one number.

    Example:
        y = f32[4] all-reduce(x), replica_groups={{0,1},{1,2}}, to_apply=add

    Mend: put every number from 0 on into one group; replica_count and num_partitions of the header say how many
    there are.

    Reference: CheckReplicaGroups in xla/service/hlo_verifier.cc
    """
    problems: dict[tuple[str, str, str | None, bool], str | None] = {}
    for instruction in context.of(*_GROUPED):
        text = instruction.attribute("replica_groups") or ""
        key = (instruction.opcode, text, instruction.attribute("channel_id"), instruction.flag("use_global_device_ids"))
        if key not in problems:
            problems[key] = _groups_problem(context, instruction)
        if (message := problems[key]) is not None:
            yield context.finding(
                f"{instruction.name}: {message}", instruction, attribute_span(instruction, "replica_groups")
            )


@rule("HLO051", "global device ids without what they need")
def global_ids(context: LintContext) -> Iterator[Finding]:
    """A collective operation counts devices globally, but has no channel_id, or names no groups.

    Why: use_global_device_ids=true says that groups list devices over replicas and partitions, which only operations
    between partitions, those with a channel, can do, and only if there are groups.

    Example:
        y = f32[4] all-reduce(x), replica_groups={}, channel_id=1, use_global_device_ids=true, to_apply=add

    Mend: add the channel_id and the groups, or leave use_global_device_ids out.

    Reference: GetCollectiveOpGroupMode in xla/service/collective_ops_utils.cc
    """
    for instruction in context.of(*_GROUPED):
        if not instruction.flag("use_global_device_ids"):
            continue
        place = attribute_span(instruction, "use_global_device_ids")
        if instruction.attribute("channel_id") is None:
            yield context.finding(
                f"{instruction.name} has use_global_device_ids=true, but no channel_id", instruction, place
            )
        elif not lists_groups(instruction):
            yield context.finding(
                f"{instruction.name} has use_global_device_ids=true, but no groups", instruction, place
            )


@rule("HLO052", "a device sends or receives twice")
def permute_pairs(context: LintContext) -> Iterator[Finding]:
    """A collective-permute names a source or a target twice, or one that is not there.

    Why: each device sends once at most and receives once at most; an exchange in place may do both twice.

    Example:
        y = f32[4] collective-permute(x), source_target_pairs={{0,1},{0,2}}

    Mend: send to several devices in several steps, or use collective-broadcast.

    Reference: HandleCollectivePermute in xla/service/hlo_verifier.cc
    """
    for instruction in context.of(*PERMUTES):
        pairs = [pair for pair in instruction.integer_lists("source_target_pairs") if len(pair) == 2]
        has_channel = instruction.attribute("channel_id") is not None
        count = context.num_partitions if has_channel else context.replica_count
        noun = "partitions" if has_channel else "replicas"
        times = 2 if instruction.integer_lists("slice_sizes") else 1
        place = attribute_span(instruction, "source_target_pairs")
        for position, role in enumerate(("source", "target")):
            for number, found in Counter(pair[position] for pair in pairs).items():
                if found > times:
                    yield context.finding(
                        f"{instruction.name}: {role} {number} stands there {found} times", instruction, place
                    )
                if number < 0 or (number >= count > 1):
                    message = f"{instruction.name}: there is no {role} {number}, there are {count} {noun}"
                    yield context.finding(message, instruction, place)


@rule("HLO053", "channel that is no channel")
def channel_id(context: LintContext) -> Iterator[Finding]:
    """An all-reduce has a channel_id that is not above 0.

    Why: operations of one channel find each other by its number; 0 and less stand for none.

    Example:
        y = f32[4] all-reduce(x), channel_id=0, replica_groups={{0,1}}, to_apply=add

    Mend: leave channel_id out, or number channels from 1 on.

    Reference: HandleAllReduce in xla/service/hlo_verifier.cc
    """
    for instruction in context.of(*_ANY_SIZE):
        number = instruction.integer("channel_id")
        if number is not None and number <= 0:
            place = attribute_span(instruction, "channel_id")
            yield context.finding(
                f"{instruction.name} has channel_id={number}; channels count from 1", instruction, place
            )


@rule("HLO054", "all-reduces with and without layout constraints")
def mixed_constraints(context: LintContext) -> Iterator[Finding]:
    """Some all-reduces of a module have constrain_layout=true, and some do not.

    Why: programs that were compiled separately must agree on the layouts of what they reduce together; in one module
    either all all-reduces keep their layouts or none.

    Example:
        y = f32[4] all-reduce(x), replica_groups={}, to_apply=add
        z = f32[4] all-reduce(x), replica_groups={}, constrain_layout=true, to_apply=add

    Mend: constrain all of them or none.

    Reference: VerifyLayoutConstrainedAllReduce in xla/service/hlo_verifier.cc
    """
    found = list(context.of(opcodes.ALL_REDUCE))
    constrained = [each for each in found if each.flag("constrain_layout")]
    if constrained and len(constrained) < len(found):
        free = next(each for each in found if each not in constrained)
        message = f"{constrained[0].name} keeps its layout, but {free.name} and others do not"
        yield context.finding(message, constrained[0], attribute_span(constrained[0], "constrain_layout"))


@rule("HLO055", "offsets of an exchange in place do not fit")
def in_place_offsets(context: LintContext) -> Iterator[Finding]:
    """A collective-permute with slice_sizes has offsets of another number than its buffers have dimensions.

    Why: the offsets say where in each buffer a slice begins, one scalar a dimension; for several slices or buffers
    they are tuples of such tuples.

    Example:
        y = f32[8,8] collective-permute(x, out, at, at), source_target_pairs={{0,1}}, slice_sizes={{4,8}}

    Mend: give a tuple of s32[] for every slice of every buffer.

    Reference: CheckInplaceCollectivePermute in xla/service/hlo_verifier.cc
    """
    for instruction in context.of(*PERMUTES):
        if not instruction.integer_lists("slice_sizes") or len(instruction.operands) != 4:
            continue
        for position, role in ((0, "input"), (1, "output")):
            buffer, offsets = instruction.operand_shape(position), instruction.operand_shape(position + 2)
            if not _offsets_fit(buffer, offsets):
                message = f"{instruction.name}: the {role} is {buffer}, the offsets into it are {offsets}"
                yield context.finding(message, instruction)


def _groups_problem(context: LintContext, instruction: Instruction) -> str | None:
    groups = instruction.replica_groups
    if groups is None or not lists_groups(instruction):
        return None
    try:
        mode = collective_op_group_mode(instruction)
        listed = groups.groups(0)
    except HloError as error:
        return None if instruction.flag("use_global_device_ids") else error.diagnostic.message
    opcode = instruction.opcode
    return _uneven(listed, opcode) or _unnamed(listed) or _miscounted(context, listed, mode)


def _uneven(groups: Groups, opcode: str) -> str | None:
    if not all(groups):
        return "a group is empty"
    sizes = sorted({len(group) for group in groups})
    if len(sizes) > 1 and opcode not in _ANY_SIZE:
        return f"{opcode} needs groups of one size, found {' and '.join(map(str, sizes))}"
    return None


def _unnamed(groups: Groups) -> str | None:
    times = Counter(chain.from_iterable(groups))
    if twice := sorted(number for number, found in times.items() if found > 1):
        return f"{twice[0]} stands in two groups"
    missing = next((number for number in range(len(times)) if number not in times), None)
    return f"{missing} stands in no group" if missing is not None else None


def _miscounted(context: LintContext, groups: Groups, mode: CollectiveOpGroupMode) -> str | None:
    count = {
        CollectiveOpGroupMode.CROSS_PARTITION: context.num_partitions,
        CollectiveOpGroupMode.FLATTENED_ID: context.replica_count * context.num_partitions,
    }.get(mode, context.replica_count)
    named = sum(map(len, groups))
    return f"{named} {_NUMBERS[mode]} stand in its groups, there are {count}" if count not in (1, named) else None


def _offsets_fit(buffer: Shape, offsets: Shape) -> bool:
    """Whether every array of a buffer has offsets, one per dimension, or a tuple of them for each slice."""
    if isinstance(buffer, TupleShape):
        if not isinstance(offsets, TupleShape) or len(offsets.elements) != len(buffer.elements):
            return False
        return all(_offsets_fit(a, b) for a, b in zip(buffer.elements, offsets.elements, strict=True))
    if not isinstance(offsets, TupleShape) or not isinstance(buffer, ArrayShape):
        return False
    if offsets.elements and all(isinstance(each, TupleShape) for each in offsets.elements):
        return all(_offsets_fit(buffer, each) for each in offsets.elements)
    return len(offsets.elements) == buffer.rank and all(
        isinstance(each, ArrayShape) and not each.rank for each in offsets.elements
    )
