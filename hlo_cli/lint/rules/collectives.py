"""HLO05x: collective operations: which devices take part, and who sends to whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Final

from hlo_cli.analysis.shapes.replica_groups import collective_op_group_mode, has_unreadable_groups, lists_groups
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.enumerations import CollectiveOpGroupMode
from hlo_cli.ir.attributes.sharding import Groups
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import COLLECTIVES, PERMUTES
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.registry import rule
from hlo_cli.lint.spans import attribute_span
from hlo_cli.report.finding import Finding
from hlo_cli.report.numbers import format_count
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


@rule("HLO050", "invalid replica groups")
def replica_groups(context: LintContext) -> Iterator[Finding]:
    """The replica groups omit a device, list one twice, or have different sizes.

    Why: A device that is in no group, or in two, makes the program hang. Without channel_id, the numbers are replicas;
    with channel_id, they are replicas or partitions; with use_global_device_ids, they number devices over replicas and
    partitions.

    Example:
        y = f32[4] all-reduce(x), replica_groups={{0,1},{1,2}}, to_apply=add

    Fix: List every device id from 0 exactly once. replica_count and num_partitions in the header set how many there
    are.

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


@rule("HLO051", "use_global_device_ids without channel_id or groups")
def global_ids(context: LintContext) -> Iterator[Finding]:
    """A collective sets use_global_device_ids=true without a channel_id or without groups.

    Why: Global device ids number devices over replicas and partitions. That requires an operation between partitions,
    which has a channel_id, and an explicit list of groups.

    Example:
        y = f32[4] all-reduce(x), replica_groups={}, channel_id=1, use_global_device_ids=true, to_apply=add

    Fix: Add channel_id and groups, or remove use_global_device_ids.

    Reference: GetCollectiveOpGroupMode in xla/service/collective_ops_utils.cc
    """
    for instruction in context.of(*_GROUPED):
        if not instruction.flag("use_global_device_ids"):
            continue
        place = attribute_span(instruction, "use_global_device_ids")
        if instruction.attribute("channel_id") is None:
            yield context.finding(
                f"{instruction.name} sets use_global_device_ids=true without channel_id", instruction, place
            )
        elif not lists_groups(instruction) and not has_unreadable_groups(instruction):
            yield context.finding(
                f"{instruction.name} sets use_global_device_ids=true without replica groups", instruction, place
            )


@rule("HLO052", "duplicate source or target in collective-permute")
def permute_pairs(context: LintContext) -> Iterator[Finding]:
    """A collective-permute lists a source or target twice, or one that does not exist.

    Why: Each device sends at most once and receives at most once; in an in-place collective-permute, at most twice.

    Example:
        y = f32[4] collective-permute(x), source_target_pairs={{0,1},{0,2}}

    Fix: Send in several steps, or use collective-broadcast.

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
                        f"{instruction.name}: {role} {number} is listed {found} times", instruction, place
                    )
                if number < 0 or (number >= count > 1):
                    has = format_count(count, noun)
                    message = f"{instruction.name}: {role} {number} is out of range (the module has {has})"
                    yield context.finding(message, instruction, place)


@rule("HLO053", "invalid channel_id")
def channel_id(context: LintContext) -> Iterator[Finding]:
    """An all-reduce has a channel_id that is not positive.

    Why: Operations on different devices are matched by their channel_id; 0 and negative numbers are invalid.

    Example:
        y = f32[4] all-reduce(x), channel_id=0, replica_groups={{0,1}}, to_apply=add

    Fix: Remove channel_id, or number channels from 1.

    Reference: HandleAllReduce in xla/service/hlo_verifier.cc
    """
    for instruction in context.of(*_ANY_SIZE):
        number = instruction.integer("channel_id")
        if number is not None and number <= 0:
            place = attribute_span(instruction, "channel_id")
            yield context.finding(
                f"{instruction.name} has channel_id={number}, expected at least 1", instruction, place
            )


@rule("HLO054", "mixed constrain_layout on all-reduces")
def mixed_constraints(context: LintContext) -> Iterator[Finding]:
    """Some all-reduces in the module set constrain_layout=true and others do not.

    Why: Modules that are compiled separately must agree on the layouts of the arrays that they reduce together, so
    either all all-reduces of a module keep their layouts, or none does.

    Example:
        y = f32[4] all-reduce(x), replica_groups={}, to_apply=add
        z = f32[4] all-reduce(x), replica_groups={}, constrain_layout=true, to_apply=add

    Fix: Set it on all of them or on none.

    Reference: VerifyLayoutConstrainedAllReduce in xla/service/hlo_verifier.cc
    """
    found = list(context.of(opcodes.ALL_REDUCE))
    constrained = [each for each in found if each.flag("constrain_layout")]
    if constrained and len(constrained) < len(found):
        free = next(each for each in found if each not in constrained)
        names = f"{free.name} does" if len(found) == len(constrained) + 1 else f"{free.name} and others do"
        message = f"{constrained[0].name} sets constrain_layout, but {names} not"
        yield context.finding(message, constrained[0], attribute_span(constrained[0], "constrain_layout"))


@rule("HLO055", "invalid offsets in in-place collective-permute")
def in_place_offsets(context: LintContext) -> Iterator[Finding]:
    """In a collective-permute with slice_sizes, the number of offsets does not match the rank of the buffers.

    Why: The offsets state where each slice begins in its buffer: one scalar per dimension. Several slices or buffers
    need one tuple of offsets each.

    Example:
        y = f32[8,8] collective-permute(x, out, at, at), source_target_pairs={{0,1}}, slice_sizes={{4,8}}

    Fix: Pass one tuple of s32[] offsets for each slice of each buffer.

    Reference: CheckInplaceCollectivePermute in xla/service/hlo_verifier.cc
    """
    for instruction in context.of(*PERMUTES):
        if not instruction.integer_lists("slice_sizes") or len(instruction.operands) != 4:
            continue
        for position, role in ((0, "input"), (1, "output")):
            buffer, offsets = instruction.operand_shape(position), instruction.operand_shape(position + 2)
            if not _offsets_fit(buffer, offsets):
                message = f"{instruction.name}: offsets {offsets} do not match the {role} {buffer}"
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
    return _uneven(listed, opcode) or _unlisted(listed) or _miscounted(context, listed, mode)


def _uneven(groups: Groups, opcode: str) -> str | None:
    if not all(groups):
        return "a replica group is empty"
    sizes = sorted({len(group) for group in groups})
    if len(sizes) > 1 and opcode not in _ANY_SIZE:
        return f"{opcode} needs groups of equal size, found {' and '.join(map(str, sizes))}"
    return None


def _unlisted(groups: Groups) -> str | None:
    times = Counter(chain.from_iterable(groups))
    if twice := sorted(number for number, found in times.items() if found > 1):
        return f"id {twice[0]} is listed more than once"
    missing = next((number for number in range(len(times)) if number not in times), None)
    return f"id {missing} is not in any group" if missing is not None else None


def _miscounted(context: LintContext, groups: Groups, mode: CollectiveOpGroupMode) -> str | None:
    count = {
        CollectiveOpGroupMode.CROSS_PARTITION: context.num_partitions,
        CollectiveOpGroupMode.FLATTENED_ID: context.replica_count * context.num_partitions,
    }.get(mode, context.replica_count)
    named = sum(map(len, groups))
    if count in (1, named):
        return None
    return f"its groups list {format_count(named, _NUMBERS[mode])}, but the module has {count:,}"


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
