"""HLO4xx: which asynchronous operations and collectives does no compute overlap, although it could?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from hlo_cli.analysis.fusion.kernels import is_launched
from hlo_cli.analysis.schedule.async_overlap import AsyncInterval, AsyncPair, synchronous_pair
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.memory_space import MemorySpace
from hlo_cli.ir.operations import BLOCK_MOVES
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.lint.finding_facts import Common, Waste
from hlo_cli.lint.rule import LintContext, rule
from hlo_cli.report.findings import COUNT, Finding
from hlo_cli.report.numbers import format_bytes, format_count, plural

# --- kernels that could run during an operation ---


Pair = tuple[Instruction, Instruction]
"""The start and the done of an operation; the same instruction if it is synchronous."""


def independent_kernels(pairs: Sequence[Pair]) -> Mapping[Pair, int]:
    """The number of kernels of the same computation that neither precede the start nor depend on the done.

    Users must come after operands, as in a schedule. All pairs of a computation are counted in one pass: sets of pairs
    are the bits of integers.

    >>> from hlo_cli import parse_module
    >>> entry = parse_module('''HloModule m, is_scheduled=true
    ... ENTRY e { p = f32[4] parameter(0)  s = (f32[4], f32[4], u32[]) copy-start(p)  d = f32[4] copy-done(s)
    ...   n = f32[4] negate(p)  ROOT a = f32[4] add(n, d) }''').entry
    >>> list(independent_kernels([(entry.instruction("s"), entry.instruction("d"))]).values())
    [1]
    """
    found: dict[Pair, int] = {}
    by_computation: dict[Computation, list[Pair]] = {}
    for pair in dict.fromkeys(pairs):
        by_computation.setdefault(pair[0].computation, []).append(pair)
    for computation, listed in by_computation.items():
        dependent = _dependent_pairs(computation, listed)
        kernels = [each.index for each in computation.instructions if _is_kernel(each)]
        # One bit for each pair in Python's integers, so thousands of pairs are tested in one pass.
        counts = _count_bits([dependent[index] for index in kernels], len(listed))
        found |= {pair: len(kernels) - count for pair, count in zip(listed, counts, strict=True)}
    return found


def _is_kernel(instruction: Instruction) -> bool:
    return not instruction.opcode.endswith("-start") and is_launched(instruction)


def _dependent_pairs(computation: Computation, pairs: Sequence[Pair]) -> list[int]:
    """For each instruction, the pairs whose start depends on it, or on whose done it depends."""
    before, after = [0] * len(computation.instructions), [0] * len(computation.instructions)
    for number, (start, done) in enumerate(pairs):
        before[start.index] |= 1 << number
        if done.computation is computation:
            after[done.index] |= 1 << number
    for instruction in computation.instructions:
        for operand in instruction.operands:
            after[instruction.index] |= after[operand.index]
    for instruction in reversed(computation.instructions):
        for operand in instruction.operands:
            before[operand.index] |= before[instruction.index]
    return [first | second for first, second in zip(before, after, strict=True)]


def _count_bits(sets: Sequence[int], number: int) -> list[int]:
    """The number of sets that contain each bit; the counts are bit-sliced, so that all are incremented at once.

    >>> _count_bits([0b01, 0b11, 0b01], 2)
    [3, 1]
    """
    digits: list[int] = []
    for carried in sets:
        for place, digit in enumerate(digits):
            # A ripple-carry adder in columns of bits.
            digits[place], carried = digit ^ carried, digit & carried
            if not carried:
                break
        if carried:
            digits.append(carried)
    return [sum((digit >> bit & 1) << place for place, digit in enumerate(digits)) for bit in range(number)]


# --- HLO4xx: async operations without overlap, and synchronous collectives ---


_CROSS_PROGRAM: Final = "cross_program_prefetch_index"
"""The attribute of a copy that is made once and kept for the next execution."""

_COMBINED: Final = frozenset((opcodes.ALL_GATHER, opcodes.ALL_REDUCE, opcodes.ALL_TO_ALL, opcodes.REDUCE_SCATTER))
"""Collectives of which compilers make one from several."""


@rule("HLO401", "async operation without overlap", severity="warning")
def unoverlapped_async(context: LintContext) -> Iterator[Finding]:
    """No kernel runs between a start and its done.

    Reported for transfers that move at least min_transfer_bytes, summed over the iterations of loops. On-device
    transfers must also reach min_prefetch_bytes.

    Why: Async operations exist to overlap transfers with compute. This one overlaps none, because of the schedule or
    because the compiler marked it as synchronous (is_sync). The message counts the kernels that could overlap with it:
    those that do not depend on its result and do not produce its operands.

    Example:
        s = f32[65536] all-reduce-start(x), replica_groups={}, to_apply=add
        p = (f32[65536]) tuple(z)
        d = f32[65536] all-reduce-done(s)

    Fix: Look at `hlo schedule DUMP --reorder latency`, which shows what another order of the program would gain.

    Reference: https://openxla.org/xla/async_ops; `hlo schedule DUMP`
    """
    for interval, kernels in _unoverlapped(context):
        # Adjacent ones are HLO402's.
        if interval.done_step != interval.start_step + 1:
            start = interval.pair.start
            one, several = _SYNCHRONOUS if interval.is_sync else _NOT_OVERLAPPED
            operation, moved = interval.pair.operation, _moved(context, start)
            yield context.finding(
                f"{_operation_on(context, operation, start)} {one} ({_bytes(interval)}){_independent(kernels)}",
                start,
                waste=_waste(interval),
                common=Common(f"{COUNT} {plural(operation)} of {moved} {several}", "function"),
            )


@rule("HLO402", "done directly after start", severity="warning")
def adjacent_done(context: LintContext) -> Iterator[Finding]:
    """A done directly follows its start.

    Reported for transfers that move at least min_transfer_bytes, summed over the iterations of loops. On-device
    transfers must also reach min_prefetch_bytes.

    Why: No instruction can overlap with the operation, so it has the cost of a synchronous one. The message counts the
    kernels that could be scheduled in between.

    Example:
        s = f32[65536] all-reduce-start(x), replica_groups={}, to_apply=add
        d = f32[65536] all-reduce-done(s)

    Fix: Check that no option turns off what overlaps transfers: xla_tpu_enable_latency_hiding_scheduler=false on TPU,
    xla_gpu_disable_async_collectives on GPU. `hlo schedule DUMP --reorder latency` shows what another order gains.

    Reference: https://openxla.org/xla/async_ops; `hlo schedule DUMP`
    """
    for interval, kernels in _unoverlapped(context):
        if interval.done_step == interval.start_step + 1:
            start = interval.pair.start
            operation, moved = interval.pair.operation, _moved(context, start)
            yield context.finding(
                f"{_operation_on(context, operation, start)} is directly followed by its done "
                f"({_bytes(interval)}){_independent(kernels)}",
                start,
                hint=_hint_on_order(context),
                waste=_waste(interval),
                common=Common(
                    f"{COUNT} {plural(operation)} of {moved} are directly followed by their dones", "function"
                ),
            )


@rule("HLO403", "synchronous collective", severity="note")
def synchronous_collective(context: LintContext) -> Iterator[Finding]:
    """A collective runs synchronously although independent kernels exist.

    Reported for collectives of at least min_transfer_bytes on TPU and GPU.

    Why: The device runs nothing else until the collective ends. The message counts the kernels that could run at the
    same time: those that do not depend on its result and do not produce its operands.

    Example:
        y = f32[65536] all-reduce(x), replica_groups={}, to_apply=add
        z = f32[65536] negate(x)

    Fix: Check that no compiler flag rules out an asynchronous form. On TPU v5e, an all-gather needs
    xla_tpu_enable_async_collective_fusion and xla_tpu_enable_latency_hiding_scheduler, both true by default, and an
    all-reduce xla_enable_async_all_reduce=true and xla_tpu_enable_async_collective_fusion_fuse_all_reduce=true, which
    compilers for v5p and v6e reject. With these flags, the compiler still decides for each collective, and keeps some
    synchronous. The flags of a compilation are in the files with debug_options and flagfile in their names.

    Reference: https://openxla.org/xla/async_ops; `hlo schedule DUMP`
    """
    # CPU collectives have no asynchronous form.
    if context.target not in ("tpu", "gpu") or not context.module.is_scheduled:
        return
    collectives = context.analyses.overlap.synchronous
    large = {each: moved for each, moved in collectives.items() if moved >= context.settings.min_transfer_bytes}
    independent = independent_kernels([(each, each) for each in large])
    for collective, moved in large.items():
        if kernels := independent[collective, collective]:
            # The body of a loop without iterations never runs, and moves nothing.
            often = context.executions(collective.computation).count or 1
            several = f"{COUNT} {plural(collective.opcode)}"
            what = _moved(context, collective)
            yield context.finding(
                f"{_operation_on(context, collective.opcode, collective)} runs synchronously "
                f"({format_bytes(moved)}){_independent(kernels)}",
                collective,
                hint=_about_flags(context, _ASYNC_FORMS.get(collective.opcode, _SCHEDULING)),
                waste=Waste(moved // often, "links", pair=synchronous_pair(collective)),
                # Options make all collectives of a kind asynchronous.
                common=Common(f"{several} run synchronously", "anywhere", f"{several} of {what} run synchronously"),
            )


# The flags on which an asynchronous form depends, of libtpu 0.0.52 for v5e; what else decides is not public.
_SCHEDULING: Final = ("xla_tpu_enable_latency_hiding_scheduler",)
_ASYNC_FORMS: Final[Mapping[str, tuple[str, ...]]] = {
    opcodes.ALL_GATHER: (*_SCHEDULING, "xla_tpu_enable_async_collective_fusion"),
    opcodes.ALL_REDUCE: (
        *_SCHEDULING,
        "xla_enable_async_all_reduce",
        "xla_tpu_enable_async_collective_fusion_fuse_all_reduce",
    ),
}
_OFF: Final = frozenset(("false", "DISABLED"))
"""The values of a flag, or of one with the value AUTO, that turn it off."""


def _about_flags(context: LintContext, names: Sequence[str]) -> str | None:
    """Which of these flags the compilation had turned off, or that all are on; None if its files do not tell."""
    if context.target != "tpu" or context.flags_of is None:
        return None
    flags = context.flags_of() or {}
    known = [name for name in names if name in flags]
    if not known:
        return None
    # libtpu 0.0.52 kept an all-reduce of 2 MiB synchronous with all of them on, so that they promise nothing.
    if off := [name for name in known if flags[name] in _OFF]:
        are, they = ("is", "it") if len(off) == 1 else ("are", "them")
        return (
            f"{' and '.join(off)} {are} off, which rules out an asynchronous form; with {they} on, the compiler decides"
        )
    on = f"{' and '.join(known)} {'is' if len(known) == 1 else 'are'} on already"
    return f"{on}: the compiler decided against an asynchronous form"


def _hint_on_order(context: LintContext) -> str | None:
    """That the scheduler that overlaps transfers is on already, where the files of the compilation tell."""
    flags = {} if context.flags_of is None else context.flags_of() or {}
    [scheduler] = _SCHEDULING
    if context.target != "tpu" or flags.get(scheduler, "false") in _OFF:
        return None
    return f"{scheduler} is on already; `hlo schedule DUMP --reorder latency` shows what another order gains"


_SYNCHRONOUS: Final = ("runs synchronously", "run synchronously")
_NOT_OVERLAPPED: Final = ("overlaps no kernel", "overlap no kernel")


def _operation_on(context: LintContext, operation: str, start: Instruction) -> str:
    """An operation and what it moves."""
    moved = _moved(context, start)
    return f"{operation} of {moved}" if moved.endswith(",") else context.operation_on(operation, start)


def _moved(context: LintContext, start: Instruction) -> str:
    """What is moved: the value, or how many arrays were combined, with the largest."""
    if len(start.operands) < 2 or start.opcode.removesuffix("-start") not in _COMBINED:
        return context.user_name(start)
    largest = max(start.operands, key=lambda each: each.shape.padded_bytes)
    return f"{format_count(len(start.operands), 'arrays')}, the largest {context.user_name(largest)},"


def _unoverlapped(context: LintContext) -> Iterator[tuple[AsyncInterval, int]]:
    """Pairs without overlap that move enough bytes in all runs, and the number of kernels that could overlap each."""
    intervals = context.analyses.overlap.intervals if context.module.is_scheduled else ()
    large = (
        interval
        for interval in intervals
        if interval.is_unoverlapped and interval.total_bytes >= _min_bytes(context, interval.pair)
    )
    unoverlapped = [interval for interval in large if interval.pair.start.attribute(_CROSS_PROGRAM) is None]
    ends = [(interval.pair.start, interval.pair.dones[0]) for interval in unoverlapped]
    independent = independent_kernels(ends)
    yield from ((interval, independent[pair]) for interval, pair in zip(unoverlapped, ends, strict=True))


def _waste(interval: AsyncInterval) -> Waste:
    """The bytes of one execution, none of which overlap a kernel."""
    link: Literal["memory", "links"] = "memory" if interval.pair.operation in BLOCK_MOVES else "links"
    return Waste(interval.moved_bytes, link, pair=interval.pair)


def _min_bytes(context: LintContext, pair: AsyncPair) -> int:
    """The smallest transfer to report, in bytes: larger within a device, where transfers are faster."""
    settings = context.settings
    leaves = (leaf for _, leaf in pair.start.shape.leaves if isinstance(leaf, ArrayShape))
    # Copies within a device have the bandwidth of main memory, several times that of links.
    is_near = pair.operation in BLOCK_MOVES and not any(leaf.memory_space == MemorySpace.HOST for leaf in leaves)
    return max(settings.min_transfer_bytes, settings.min_prefetch_bytes) if is_near else settings.min_transfer_bytes


def _bytes(interval: AsyncInterval) -> str:
    times = f" in {interval.times:,} iterations" if interval.times not in (1, None) else ""
    return f"{format_bytes(interval.total_bytes)}{times}"


def _independent(kernels: int) -> str:
    return f"; {format_count(kernels, 'independent kernels')} could run concurrently" if kernels else ""
