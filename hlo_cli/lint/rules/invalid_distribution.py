"""HLO05x, HLO06x, HLO08x: do devices and streams agree: collectives, async operations, shardings, and mesh axes?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from math import prod
from typing import Final

from hlo_cli.analysis.schedule.async_verifier import deadlocks
from hlo_cli.analysis.shapes.replica_groups import collective_op_group_mode, has_unreadable_groups, lists_groups
from hlo_cli.analysis.sharding.meshes import axes_of_groups, device_groups, devices_of, known_mesh, mesh_words
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.enumerations import CollectiveOpGroupMode
from hlo_cli.ir.attributes.sharding import AnySharding, Groups, MaximalMesh, NamedSharding, Sharding, TupleSharding
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.notation import SHARDING_START, UnparsedText
from hlo_cli.ir.operations import CHANNEL_OPCODES, COLLECTIVES, CONTROL_PREDECESSORS, HOST_FEEDS, PERMUTES
from hlo_cli.ir.shape import ArrayShape, BufferShape, Shape, TupleShape
from hlo_cli.lint.rule import LintContext, attribute_span, rule
from hlo_cli.report.findings import Finding
from hlo_cli.report.numbers import format_count
from hlo_cli.source import HloError

# --- HLO05x: which devices take part in collectives, and who sends to whom ---


_GROUPED: Final = tuple(
    opcode for each in sorted(COLLECTIVES - {opcodes.COLLECTIVE_PERMUTE}) for opcode in (each, f"{each}-start")
)
# Only all-reduce allows groups of different sizes (hlo_verifier.cc).
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
        # Module texts repeat few groups many times, so each is checked once.
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
        # A permute with a channel counts partitions, without one replicas (GetCollectiveOpGroupMode).
        count = context.num_partitions if has_channel else context.replica_count
        noun = "partitions" if has_channel else "replicas"
        # The in-place form may list each device twice (hlo_verifier.cc).
        times = 2 if instruction.integer_lists("slice_sizes") else 1
        place = attribute_span(instruction, "source_target_pairs")
        for position, role in enumerate(("source", "target")):
            for number, found in Counter(pair[position] for pair in pairs).items():
                if found > times:
                    yield context.finding(
                        f"{instruction.name}: {role} {number} is listed {found} times", instruction, place
                    )
                # With one device the header's count is the default, not a fact.
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
        # Zero and negative channel ids: hlo_verifier.cc checks all-reduce only.
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
        # Four operands without slice_sizes are four plain transfers.
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
        # 0: the number of ids is not needed to list explicit groups.
        listed = groups.groups(0)
    except HloError as error:
        # Without groups, use_global_device_ids is reported by HLO051.
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
    # A count of 1 is the default of a header without it.
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
    # Several slices: a tuple of offsets for each.
    if offsets.elements and all(isinstance(each, TupleShape) for each in offsets.elements):
        return all(_offsets_fit(buffer, each) for each in offsets.elements)
    return len(offsets.elements) == buffer.rank and all(
        isinstance(each, ArrayShape) and not each.rank for each in offsets.elements
    )


# --- HLO06x: asynchronous operations, sends, and receives ---


# What may differ between host transfers of one channel; operands may, too.
_IGNORED: Final = ("metadata", CONTROL_PREDECESSORS, "channel_id", "backend_config")


@rule("HLO060", "invalid async start/done pair")
def async_pairing(context: LintContext) -> Iterator[Finding]:
    """A start has no done or more than one, a done has no start, or they disagree about the computation.

    Why: A start begins the work, and exactly one done returns the result. In between, the hardware owns the operands
    and the result.

    Example:
        s = (f32[4], f32[4], u32[]) copy-start(x)

    Fix: Connect exactly one done to the start or its last update, with the same computation and shapes.

    Reference: VerifyAsyncOps, CheckAsyncOpComputationShapes in xla/service/hlo_verifier.cc; `hlo schedule DUMP`
    """
    yield from context.findings_of(context.async_problems, "error")


@rule("HLO063", "async operation rejected by newer XLA", severity="warning")
def async_newer_xla(context: LintContext) -> Iterator[Finding]:
    """An async operation uses a form that newer XLA versions reject.

    Why: A dump is often read by another version of XLA than the one that wrote it.

    Example:
        w {
          a = f32[4] parameter(0)
          t = token[] parameter(1)
          s = (f32[4], u32[], token[]) send(a, t), channel_id=1
          r = (f32[4], u32[], token[]) recv(t), channel_id=1
          ROOT p = ((f32[4], u32[], token[]), (f32[4], u32[], token[])) tuple(s, r)
        }
        s = ((f32[4], token[]), ((f32[4], u32[], token[]), (f32[4], u32[], token[])), u32[]) async-start(x, t), calls=w
        d = ((f32[4], u32[], token[]), (f32[4], u32[], token[])) async-done(s)

    Fix: See the finding, for example add frontend_attributes={_collectives_group=""} to the start.

    Reference: VerifyAsyncComputation in xla/service/hlo_verifier.cc; `hlo schedule DUMP`
    """
    yield from context.findings_of(context.async_problems, "warning")


@rule("HLO064", "async operation rejected by older XLA", severity="note")
def async_older_xla(context: LintContext) -> Iterator[Finding]:
    """An async operation uses a form that older XLA versions reject.

    Why: A dump is often read by another version of XLA than the one that wrote it, such as the one in jaxlib 0.10.2.

    Example:
        w { a = f32[4] parameter(0)  ROOT n = f32[4] negate(a) }
        s = ((f32[4]), f32[4], u32[]) async-start(x), calls=w
        d = f32[4] async-done(s)
        t = ((f32[4]), f32[4], u32[]) async-start(x), calls=w
        e = f32[4] async-done(t)

    Fix: See the finding, for example give each start its own computation.

    Reference: VerifyAsyncOps in xla/service/hlo_verifier.cc; `hlo schedule DUMP`
    """
    yield from context.findings_of(context.async_problems, "note")


@rule("HLO061", "mismatched host transfers on one channel")
def host_channel(context: LintContext) -> Iterator[Finding]:
    """Two host sends (or two host receives) use the same channel with different shapes or attributes.

    Why: The host handles every transfer of a channel in the same way.

    Example:
        s = (f32[2], u32[], token[]) send(x, t), channel_id=1, is_host_transfer=true
        u = (f32[4], u32[], token[]) send(y, t), channel_id=1, is_host_transfer=true

    Fix: Use a separate channel_id for each.

    Reference: VerifyChannels in xla/service/hlo_verifier.cc
    """
    first: dict[tuple[str, int], Instruction] = {}
    for transfer in context.of(opcodes.SEND, opcodes.RECV):
        number = transfer.integer("channel_id")
        if number is None or not transfer.flag("is_host_transfer"):
            continue
        other = first.setdefault((transfer.opcode, number), transfer)
        if _content(other) != _content(transfer):
            message = f"{transfer.name} and {other.name} share channel {number} but have different shapes or attributes"
            yield context.finding(message, transfer, attribute_span(transfer, "channel_id"))


@rule("HLO062", "possible send/recv deadlock", is_default=False)
def deadlock(context: LintContext) -> Iterator[Finding]:
    """In schedule order, sends and receives between devices do not match up or form a cycle.

    Why: A receive blocks until another device starts the matching send. If that send is missing, or depends on the
    receive through other devices, the program never ends. Checked for sends and receives with
    _xla_send_recv_source_target_pairs in their frontend attributes. Off by default, because only GPU pipelines require
    this order.

    Example:
        s = (f32[2], u32[], token[]) send(x, t), channel_id=1,
          frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,0}}}

    Fix: Break the cycle by removing one pair, and start each send before its receive.

    Reference: VerifyNoCollectiveDeadlocks in xla/service/hlo_verifier.cc
    """
    for problem in deadlocks(context.module):
        yield context.finding(problem.message, problem.instruction, hint=problem.hint)


def _content(transfer: Instruction) -> tuple[str, frozenset[str]]:
    attributes = (f"{each.name}={each.value}" for each in transfer.attributes if each.name not in _IGNORED)
    return str(transfer.shape), frozenset(attributes)


# --- HLO08x: shardings ---


_OF_DATA: Final = HOST_FEEDS | CHANNEL_OPCODES


@rule("HLO080", "sharding invalid for shape")
def invalid_sharding(context: LintContext) -> Iterator[Finding]:
    """The sharding has a different number of tiles, dimensions, or leaves than the shape, or refers to devices that do
    not exist.

    Why: The partitioner splits each array along its dimensions and assigns each part to one device.

    Example:
        x = f32[4,2] parameter(0), sharding={devices=[2,2,1]0,1,2,3}

    Fix: List one number per dimension (plus last_tile_dims) and each device once; for tuples, one sharding per leaf.

    Reference: HloSharding::Validate in xla/hlo/ir/hlo_sharding.cc
    """
    problems: dict[tuple[str, str], str | None] = {}
    for instruction in context.with_attribute_text(SHARDING_START):
        if instruction.opcode in _OF_DATA:  # theirs describes the transferred data, not the token
            continue
        key = (instruction.attribute("sharding") or "", str(instruction.shape))
        if key not in problems:
            sharding = instruction.sharding
            problems[key] = _problem(context, sharding, instruction.shape) if sharding is not None else None
        if (message := problems[key]) is not None:
            yield context.finding(
                f"{instruction.name}: {message}", instruction, attribute_span(instruction, "sharding")
            )


@rule("HLO081", "inconsistent sharding across loop or branches")
def inconsistent_sharding(context: LintContext) -> Iterator[Finding]:
    """The sharding differs between a loop, its body, and its condition, or between a conditional and its branches.

    Why: A loop-carried value must be on the same devices in every iteration, and the result of a conditional has the
    same sharding whichever branch runs.

    Example:
        c = f32[4] conditional(p, x, x), branch_computations={a, b}, sharding={maximal device=0}

    Fix: Use the same sharding on the loop, the root and parameter of its body, and the parameter of its condition; or
    on the conditional and the roots of its branches.

    Reference: CheckWhileInstruction… and "Inconsistent conditional sharding" in xla/service/hlo_verifier.cc
    """
    if SHARDING_START not in context.module.source.text and context.module.source.text:  # only faster
        return
    for caller in context.of(opcodes.WHILE, opcodes.CONDITIONAL):
        shardings = [(each, each.attribute("sharding")) for each in _with_equal_shardings(caller)]
        first = next((pair for pair in shardings if pair[1] is not None), None)
        for each, text in shardings if first is not None else ():
            if text is not None and first is not None and each.sharding != first[0].sharding:
                message = f"{_path(each)} has sharding {text}, but {_path(first[0])} has {first[1]}"
                yield context.finding(message, each, attribute_span(each, "sharding"))


def _path(instruction: Instruction) -> str:
    return f"{instruction.computation.name}/{instruction.name}"


def _with_equal_shardings(caller: Instruction) -> Iterator[Instruction]:
    yield caller
    for position, called in enumerate(caller.called_computations):
        # A condition returns pred, which has no sharding to agree on.
        if called.root is not None and (caller.opcode == opcodes.CONDITIONAL or position == 0):
            yield called.root
        if caller.opcode == opcodes.WHILE:
            yield from called.parameters[:1]


def _problem(context: LintContext, sharding: AnySharding, shape: Shape) -> str | None:
    leaves: list[Shape] = [leaf for _, leaf in shape.leaves] or [shape]
    if isinstance(sharding, TupleSharding):
        elements = sharding.elements
        if not isinstance(shape, TupleShape):
            return f"tuple sharding on non-tuple shape {shape}"
        if len(elements) != len(leaves):
            number = "1 leaf" if len(leaves) == 1 else f"{len(leaves):,} leaves"
            return f"the tuple has {number} but {format_count(len(elements), 'shardings')}"
    else:
        elements = (sharding,) * len(leaves)  # one applies to all leaves
    found = (_leaf_problem(context, each, leaf) for each, leaf in zip(elements, leaves, strict=True))
    return next((problem for problem in found if problem is not None), None)


def _leaf_problem(context: LintContext, sharding: Sharding | NamedSharding, shape: Shape) -> str | None:
    if (problem := sharding.problem) is not None:
        return problem
    if isinstance(shape, BufferShape):
        shape = shape.array
    if isinstance(sharding, NamedSharding):
        return _named_problem(context, sharding, shape)
    return _tiles_problem(context, sharding, shape)


def _named_problem(context: LintContext, sharding: NamedSharding, shape: Shape) -> str | None:
    if isinstance(sharding.mesh, MaximalMesh):
        return _outside(context, (sharding.mesh.device_id,))
    dims = len(sharding.dim_shardings)
    is_sharded = not sharding.whole and any(dimension.axes for dimension in sharding.dim_shardings)
    if is_sharded and isinstance(shape, ArrayShape) and dims != shape.rank:
        return f"the sharding has {format_count(dims, 'dimensions')}, but the array has {shape.rank}"
    return None


def _tiles_problem(context: LintContext, sharding: Sharding, shape: Shape) -> str | None:
    tiles = sharding.tiles
    if tiles is None:
        return _outside(context, (sharding.device,)) if sharding.device is not None else None
    subgroups = len(sharding.last_tile_dims) or int(sharding.replicate_on_last_tile_dim)
    rank = len(tiles.dimensions) - subgroups
    # What normalizes to replicated or manual fits every rank (hlo_sharding.cc); all else needs the array's.
    is_sharded = prod(tiles.dimensions[:rank]) > 1 or len(set(sharding.last_tile_dims)) > 1 or not subgroups
    if is_sharded and isinstance(shape, ArrayShape) and rank != shape.rank:  # an unsharded value fits every rank
        return f"the tile assignment has {format_count(rank, 'dimensions')}, but the array has {shape.rank}"
    try:
        devices = tiles.device_ids()
    except HloError:
        return None
    if len(devices) < tiles.device_count:  # XLA ignores devices beyond the tiles
        listed = format_count(len(devices), "devices")
        return f"the tile assignment has {format_count(tiles.device_count, 'tiles')} but {listed}"
    if len(set(devices)) < len(devices):
        twice = next(device for number, device in enumerate(devices) if device in devices[:number])
        return f"device {twice} is assigned two tiles"
    return _outside(context, devices)


def _outside(context: LintContext, devices: tuple[int, ...]) -> str | None:
    """The problem if a device is outside the partitions of the module."""
    count, least, most = context.num_partitions, min(devices, default=0), max(devices, default=0)
    if least < 0:
        return f"device {least} is out of range"
    # 1 is the default of a header without num_partitions.
    return f"device {most} is out of range (the module has {count} partitions)" if most >= count > 1 else None


# --- HLO08x: groups of devices and axes of the mesh ---


_PERMUTES: Final = (opcodes.COLLECTIVE_PERMUTE, opcodes.COLLECTIVE_PERMUTE_START)
_OF_DEVICES: Final[dict[str, tuple[str, ...]]] = {
    "replica_groups": _GROUPED,
    "source_target_pairs": _PERMUTES,
    "sharding": (),
}
"""Attributes that name devices, and the opcodes that have them; none for all."""
# Characters of an unreadable attribute, so that a message stays one line; chosen.
_SHOWN: Final = 60


@rule("HLO082", "device groups not along mesh axes", severity="warning")
def groups_off_axes(context: LintContext) -> Iterator[Finding]:
    """No axes of the mesh, or parts of axes, result in the groups of a collective.

    Reported if the mesh is named: in the header, in before_optimizations in the same directory, or in shardings.

    Why: Devices are usually arranged so that each axis of the mesh has its own links. Groups across axes share links
    with other groups. They are often the result of a sharding over another mesh, or of groups written by hand.

    Example:
        HloModule m, num_partitions=4, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=2, "y"=2]>}}
        ENTRY main {
          x = f32[8] parameter(0)
          ROOT y = f32[16] all-gather(x), dimensions={0}, channel_id=1, replica_groups={{0,3},{1,2}},
            use_global_device_ids=true
        }

    Fix: Use one mesh for all shardings of a program, and name its axes in collectives.

    Reference: `hlo shard DUMP --comms`; xla/hlo/ir/mesh_and_axis.h
    """
    module, devices = context.module, devices_of(context.module)
    collectives = list(context.of(*_GROUPED)) if devices.count > 1 else []
    if not collectives:
        return

    known = known_mesh(module, None, () if module.program is None else (module.program,))
    if known is None:
        return
    # Several meshes fit: a group along the axes of any one is not strange.
    meshes = (known.mesh, *known.others)
    are_axes: dict[Groups, bool] = {}
    for collective in collectives:
        try:
            groups = device_groups(collective, devices)
        except HloError:  # reported by other rules
            continue
        if groups not in are_axes:
            # Groups of one device communicate with no one.
            is_alone = all(len(group) < 2 for group in groups)
            are_axes[groups] = is_alone or any(axes_of_groups(groups, mesh) is not None for mesh in meshes)
        if not are_axes[groups]:
            yield context.finding(
                f"the groups of {collective.opcode} {context.user_name(collective)} are not along axes of the mesh "
                f"{mesh_words(known.mesh)}",
                collective,
                attribute_span(collective, "replica_groups"),
            )


@rule("HLO083", "unreadable sharding or device groups", severity="warning", needs="instructions")
def unreadable_devices(context: LintContext) -> Iterator[Finding]:
    """A sharding, replica groups, or source–target pairs could not be parsed.

    Why: The devices of the operation are unknown, so it is not checked, and bytes and times of it are not computed. It
    is not the same as an operation without groups, which all devices take part in.

    Example:
        y = f32[4] all-reduce(x), replica_groups=torus(2,4), to_apply=add

    Fix: Correct the text. If XLA wrote it, a newer version of this tool may read it.

    Reference: xla/hlo/parser/hlo_parser.cc
    """
    for name, having in _OF_DEVICES.items():
        for instruction in context.with_attribute_text(f"{name}=", *having):
            if _is_unread(instruction, name):
                text = (instruction.attribute(name) or "")[:_SHOWN]
                yield context.finding(
                    f"{instruction.name}: could not parse {name}={text}",
                    instruction,
                    attribute_span(instruction, name),
                )


def _is_unread(instruction: Instruction, name: str) -> bool:
    return isinstance(instruction.value(name), UnparsedText)
