"""How does XLA:GPU decide on one pair of producer and consumer, in rows, in a sentence, and in full?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from hlo_cli.analysis.fusion.gpu_model import LAUNCH, KernelParts, KernelTime, OperandRead
from hlo_cli.analysis.fusion.gpu_rules import meaning_of
from hlo_cli.analysis.fusion.gpu_work import TICKS_PER_SECOND
from hlo_cli.analysis.hardware.gpu_devices import gpu_device
from hlo_cli.dataclass import dataclass
from hlo_cli.report.numbers import format_bytes, format_count, format_number, format_seconds
from hlo_cli.report.report import Part
from hlo_cli.report.table import UNKNOWN, Cell, Column, Table, rows_from, rows_from_tuples
from hlo_cli.report.text import Passage
from hlo_cli.transform.fusion.gpu_decisions import GpuPair, UserTimes

# --- rows of pairs ---
# Tables of `hlo fuse DUMP --why-not` for GPUs: a row for each pair that is not fused, and one for each reason.


SLOWER: Final = "fusing takes longer"
"""The reason if XLA may fuse a pair, but its model predicts that this takes more time."""
ORDER: Final = "pairs on which times decided come first, by the time of the separate kernels; others by memory traffic"


@dataclass(frozen=True, slots=True)
class PairRow:
    """A pair that is not fused: why, and by XLA's model the times in seconds of the producer with all its consumers.

    `reason` is empty if it is unknown, `blocker` another consumer whose reason it is, `kernels` are the times of the
    producer, the consumer, and the kernel of both, `saving_bytes` the memory traffic that fusing would avoid.
    """

    producer: str
    consumer: str
    computation: str
    saving_bytes: int
    reason: str
    blocker: str | None = None
    fused_seconds: float | None = None
    unfused_seconds: float | None = None
    kernels: tuple[KernelTime, KernelTime, KernelTime] | None = None
    name_in_pass: str | None = None


def sorted_rows(rows: Iterable[PairRow]) -> list[PairRow]:
    """The rows with most at stake first: those of known times by the time apart, then by bytes; equal ones by name."""
    return sorted(rows, key=lambda row: (-(row.unfused_seconds or 0), -row.saving_bytes, row.producer, row.consumer))


def pairs_table(rows: Sequence[PairRow], *, is_shown: bool = True) -> Table:
    """One row for each pair."""
    has_times = any(row.fused_seconds is not None for row in rows)
    has_reasons = any(row.reason for row in rows)
    is_blocked = any(row.blocker not in (None, row.consumer) for row in rows)
    is_renamed = any(row.name_in_pass not in (None, row.producer) for row in rows)
    columns: tuple[Column[PairRow], ...] = (
        Column("possible_saving_bytes", "saving", "bytes", role="saving", of=lambda row: row.saving_bytes),
        Column("unfused_seconds", "separate", "seconds", person=False, of=lambda row: row.unfused_seconds),
        Column("fused_seconds", "fused", "seconds", person=False, of=lambda row: row.fused_seconds),
        Column("unfused_time", "separate", align="right", person=has_times, machine=False,
               of=lambda row: _time(row.unfused_seconds)),
        Column("fused_time", "fused", align="right", person=has_times, machine=False,
               of=lambda row: _time(row.fused_seconds)),
        Column("producer", "producer", "name", role="name", of=lambda row: row.producer),
        Column("consumer", "consumer", "name", role="name", of=lambda row: row.consumer),
        Column("reason", "XLA's reason", person=has_reasons, of=lambda row: row.reason or UNKNOWN),
        Column("because_of", "because of", "name", person=is_blocked, of=lambda row: row.blocker),
        Column("name_in_pass", "in the pass", "name", from_width=120, person=is_renamed,
               of=lambda row: row.name_in_pass),
        Column("computation", "computation", "name", from_width=120, rank=1, of=lambda row: row.computation),
        Column("emitter", "emitter", from_width=200, of=lambda row: row.kernels[2].emitter if row.kernels else None),
        Column("blocks", "blocks", "count", from_width=200,
               of=lambda row: row.kernels[2].blocks if row.kernels else None),
        Column("threads", "threads", "count", person=False,
               of=lambda row: row.kernels[2].threads if row.kernels else None),
        Column("cycles", "cycles", "count", from_width=200,
               of=lambda row: row.kernels[2].flops if row.kernels else None),
        Column("read_bytes", "read", "bytes", from_width=200,
               of=lambda row: row.kernels[2].bytes_read if row.kernels else None),
        Column("written_bytes", "written", "bytes", person=False,
               of=lambda row: row.kernels[2].bytes_written if row.kernels else None),
        Column("is_coalesced", "coalesced", "flag", from_width=200,
               of=lambda row: row.kernels[2].is_coalesced if row.kernels else None),
        Column("pair_seconds", "kernel time", "seconds", person=False,
               of=lambda row: seconds(row.kernels[2].ticks) if row.kernels else None),
        Column("producer_seconds", "producer time", "seconds", person=False,
               of=lambda row: seconds(row.kernels[0].ticks) if row.kernels else None),
        Column("consumer_seconds", "consumer time", "seconds", person=False,
               of=lambda row: seconds(row.kernels[1].ticks) if row.kernels else None),
    )  # fmt: skip
    return Table("pairs", columns, rows_from(columns, rows), noun="pairs", person=is_shown, sorted_by="unfused_time")


def _time(time: float | None) -> str | None:
    return None if time is None else format_seconds(time)


def reasons_table(rows: Sequence[PairRow]) -> Table:
    """Each reason in full, with the number of its pairs and the largest saving."""
    groups: dict[str, list[int]] = {}
    for row in rows:
        groups.setdefault(row.reason, []).append(row.saving_bytes)
    columns = (
        Column("pairs", "pairs", "count", of=lambda reason, sizes: len(sizes)),
        Column("largest_saving_bytes", "largest", "bytes", of=lambda reason, sizes: max(sizes)),
        Column("reason", "XLA's reason", of=lambda reason, sizes: reason),
    )
    ordered = sorted(groups.items(), key=lambda group: (-max(group[1]), group[0]))
    made = rows_from_tuples(columns, ordered)
    return Table("reasons", columns, made, noun="reasons", main=False, limit=10)


def seconds(ticks: int) -> float:
    """Seconds of a time in ticks of the model, a quarter nanosecond each.

    >>> seconds(4000)
    1e-06
    """
    return ticks / TICKS_PER_SECOND


# --- names of pairs ---
# Names of pairs in `--why-not NAME` and `--why-not PRODUCER,CONSUMER`, and what holds for all pairs.


ALL_CONSUMERS: Final = (
    "XLA fuses a producer into all of its consumers or into none: a reason can be that of another consumer, and "
    "times include all of them"
)


def is_selected(names: Sequence[str], producer: str, consumer: str) -> bool:
    """Whether a pair has the one name that is given, or is the pair of two names, in any order.

    >>> is_selected(("a",), "a", "b"), is_selected(("b", "a"), "a", "b"), is_selected(("a", "c"), "a", "b")
    (True, True, False)
    """
    return {producer, consumer}.issuperset(names) and len(set(names)) == len(names)


def no_pair(names: Sequence[str]) -> str:
    """The answer if no pair has the given names.

    >>> no_pair(("a", "b"))
    'a and b are not producer and consumer in separate kernels'
    """
    if len(names) > 1:
        return f"{' and '.join(names)} are not producer and consumer in separate kernels"
    return f"{names[0]} is not a producer or consumer in a pair of kernels"


def next_pair(argument: str, rows: Sequence[PairRow], option: str = "") -> tuple[str, ...]:
    """The command that explains the first of several pairs whose times decided; none for a single pair."""
    found = next((row for row in rows if row.fused_seconds is not None), rows[0] if rows else None)
    if found is None or len(rows) == 1 or not argument or argument == "-":
        return ()
    return (f"hlo fuse {argument} {found.producer},{found.consumer} --why-not{option}",)


# --- one sentence on a decision ---
# One sentence on what decided about a pair: repeated reads, recomputation, another launch, or a rule.


_FEW: Final = 1.05
"""Reading or computing an array at most so many times is not called repeated."""


def deciding_words(pair: GpuPair, chip: str) -> str:
    """What decided on a pair; empty if no part of it is known."""
    if pair.reason is not None:
        meaning = meaning_of(pair.reason)
        whose = f", which also reads {pair.producer}" if pair.blocker is not None else ""
        about = f"The reason is that of {pair.blocker}{whose}. " if pair.blocker is not None else ""
        return about + (f"{meaning[0].upper()}{meaning[1:]}." if meaning else "")
    if pair.fused_ticks is None or pair.unfused_ticks is None or not pair.users:
        return ""
    if pair.fused_ticks <= pair.unfused_ticks:
        return _saved(pair)
    worst = max(pair.users, key=_more)
    if worst.name != pair.consumer and len(pair.users) > 1:
        more = format_seconds(seconds(_more(worst)))
        return f"XLA decides on all {len(pair.users)} consumers at once: {worst.name} would take {more} longer."
    return _slower(pair, gpu_device(chip).core_count)


def _more(user: UserTimes) -> int:
    return (user.fused_ticks or 0) - (user.alone_ticks or 0)


def _saved(pair: GpuPair) -> str:
    one, other, both = pair.kernels
    if one is None or other is None or both is None:
        return ""
    words = "One kernel less saves its launch (1 µs)"
    if len(pair.users) > 1:
        return f"{words}, and {format_count(len(pair.users), 'consumers')} compute {pair.producer} themselves."
    traffic = sum(_traffic(each) for each in (one, other)) - _traffic(both)
    if traffic > 0:
        return f"{words} and {format_bytes(traffic)} of memory traffic."
    return (
        f"{words}, which is more than the {format_bytes(-traffic)} that are read again cost."
        if traffic
        else words + "."
    )


def _slower(pair: GpuPair, cores: int) -> str:
    """The part of the fused kernel that takes most time beyond that of the two."""
    one, other, both = pair.kernels
    if one is None or other is None or both is None:
        return ""
    compute = both.compute_ticks - one.compute_ticks - other.compute_ticks
    memory = both.memory_ticks - one.memory_ticks - other.memory_ticks
    if compute >= memory:
        return _slower_compute(pair, one, other, both, cores)
    return _slower_memory(one, other, both, cores)


def _slower_compute(pair: GpuPair, one: KernelParts, other: KernelParts, both: KernelParts, cores: int) -> str:
    before, after = one.compute_ticks + other.compute_ticks, both.compute_ticks
    instead = f"computing takes {format_seconds(seconds(after))} instead of {format_seconds(seconds(before))}"
    if pair.uses > _FEW and one.time.flops:
        cycles = f"{both.time.flops:,} cycles instead of {one.time.flops + other.time.flops:,}"
        return f"Fusing would compute {pair.producer} {times(pair.uses)} ({cycles}): {instead}."
    return f"The fused kernel has {_launch(both, cores)}, the producer {_launch(one, cores)}: {instead}."


def _slower_memory(one: KernelParts, other: KernelParts, both: KernelParts, cores: int) -> str:
    before = {read.operand: read for read in one.reads}
    beside = {read.operand: read for read in other.reads}
    nothing = OperandRead("", 0, 1, 0)

    def ticks_before(read: OperandRead) -> int:
        return before.get(read.operand, nothing).ticks + beside.get(read.operand, nothing).ticks

    worst = max(both.reads, key=lambda read: read.ticks - ticks_before(read), default=nothing)
    old, new = format_seconds(seconds(ticks_before(worst))), format_seconds(seconds(worst.ticks))
    instead = f"reading it takes {new} instead of {old}"
    known = [reads[worst.operand].bytes_read for reads in (before, beside) if worst.operand in reads]
    if worst.size_bytes and worst.bytes_read > _FEW * max(known, default=0):
        return f"Fusing would read {worst.operand} {times(worst.bytes_read / worst.size_bytes)}: {instead}."
    if not both.time.is_coalesced and one.time.is_coalesced:
        return f"Reads of the fused kernel are not coalesced, such as of {worst.operand}: {instead}."
    return f"The fused kernel has {_launch(both, cores)}, too few to read {worst.operand} at full bandwidth: {instead}."


def times(number: float) -> str:
    """How often something is done, in words.

    >>> times(64.0), times(1.25), times(1)
    ('64 times', '1.25 times', 'once')
    """
    return "once" if number == 1 else f"{number:,.0f} times" if number >= 10 else f"{format_number(number)} times"


def _launch(parts: KernelParts, cores: int) -> str:
    words = f"{format_count(parts.time.blocks, 'blocks')} of {parts.time.threads:,} threads"
    return f"{words} for {cores} cores" if parts.time.blocks < cores else words


def _traffic(parts: KernelParts) -> int:
    return parts.time.bytes_read + parts.time.bytes_written


# --- one decision in full ---
# `hlo fuse DUMP PRODUCER,CONSUMER --why-not` for a GPU: one decision in full, with the kernels that it compares.


_ROLES: Final = ("producer", "consumer", "fused")


def chosen_pair(pairs: Sequence[GpuPair], name: str) -> GpuPair:
    """The pair that stands for the decision on an instruction: as a producer, with the consumer that decides.

    Instructions that are only consumers have that with the largest times.
    """
    own = [pair for pair in pairs if pair.producer == name] or list(pairs)
    blocked = next((pair for pair in own if pair.reason is not None and pair.blocker is None), None)
    if blocked is not None and own[0].producer == name:
        return blocked
    return max(own, key=_extra)


def _extra(pair: GpuPair) -> int:
    user = next((user for user in pair.users if user.name == pair.consumer), None)
    return 0 if user is None else (user.fused_ticks or 0) - (user.alone_ticks or 0)


def decision_answer(pair: GpuPair, chip: str) -> str:
    """The decision in one sentence, with its reason or its times."""
    if pair.emitted_in is not None:
        return f"Both are in one kernel on {chip}, {pair.emitted_in}, through other instructions"
    into = f"{pair.producer} is{'' if pair.is_fused else ' not'} fused into {pair.consumer} on {chip}"
    if pair.reason is not None:
        return f"{into}: {pair.reason}"
    if pair.fused_ticks is None or pair.unfused_ticks is None:
        return into
    instead = f"{_shown(pair.fused_ticks)} instead of {_shown(pair.unfused_ticks)}"
    if pair.is_fused:
        return f"{into}: {instead}"
    if pair.fused_ticks <= pair.unfused_ticks:
        return f"{into}, although fusing would take less time now: {instead}"
    return f"{into}: {SLOWER}, {instead}"


def decision_numbers(pair: GpuPair, chip: str) -> dict[str, Cell]:
    """The decision for programs; times are in seconds."""
    fused, unfused = pair.fused_ticks, pair.unfused_ticks
    return {
        "producer": pair.producer,
        "consumer": pair.consumer,
        "is_fused": pair.is_fused,
        "reason": pair.reason,
        "because_of": pair.blocker,
        "unfused_seconds": None if unfused is None else seconds(unfused),
        "fused_seconds": None if fused is None else seconds(fused),
        "saved_seconds": None if fused is None or unfused is None else seconds(unfused - fused),
        "deciding": deciding_words(pair, chip) or None,
    }


def decision_parts(pair: GpuPair, chip: str) -> Iterator[Part]:
    """What decided, the sums of times, the kernels side by side, their operands, and all consumers."""
    if words := deciding_words(pair, chip):
        yield Passage("deciding", (words,))
    if pair.fused_ticks is not None and pair.unfused_ticks is not None and pair.users:
        yield _times_table(pair, pair.fused_ticks, pair.unfused_ticks)
    if any(pair.kernels):
        yield _kernels_table(pair)
        yield _launches_table(pair)
        yield _reads_table(pair)
    if len(pair.users) > 1:
        yield _users_table(pair)


def _times_table(pair: GpuPair, fused: int, unfused: int) -> Table:
    """How the two times come about: launches, the producer, and all consumers."""
    users = len(pair.users)
    launches = {"separate": users + 1, "fused": users}
    total = {"separate": unfused, "fused": fused}
    alone = sum(user.alone_ticks or 0 for user in pair.users)
    producer = unfused - alone - LAUNCH * launches["separate"]
    consumers = {"separate": alone, "fused": fused - LAUNCH * launches["fused"]}
    columns: tuple[Column[str], ...] = (
        Column("choice", "", of=lambda choice: choice),
        Column("launches", "launches", "count", of=lambda choice: launches[choice]),
        Column("launch_seconds", "launch", "seconds", of=lambda choice: seconds(LAUNCH * launches[choice])),
        Column("producer_seconds", "producer", "seconds", like="launch_seconds",
               of=lambda choice: seconds(producer) if choice == "separate" else None),
        Column("consumer_seconds", "consumers" if users > 1 else "consumer", "seconds", like="launch_seconds",
               of=lambda choice: seconds(consumers[choice])),
        Column("total_seconds", "total", "seconds", like="launch_seconds", of=lambda choice: seconds(total[choice])),
    )  # fmt: skip
    rows = rows_from(columns, ("separate", "fused"))
    marked = frozenset((1 if fused <= unfused else 0,))
    return Table("times", columns, rows, noun="rows", main=False, marked=marked)


def _kernels_of(pair: GpuPair) -> Iterator[tuple[str, str, KernelParts]]:
    names = (pair.producer, pair.consumer, f"{pair.producer} in {pair.consumer}")
    for role, name, parts in zip(_ROLES, names, pair.kernels, strict=True):
        if parts is not None:
            yield role, name, parts


def _kernels_table(pair: GpuPair) -> Table:
    columns = (
        Column("kernel", "kernel", of=lambda role, name, parts: role),
        Column("name", "name", "name", role="name", from_width=120, of=lambda role, name, parts: name),
        Column("read_bytes", "read", "bytes", of=lambda role, name, parts: parts.time.bytes_read),
        Column("written_bytes", "written", "bytes", like="read_bytes",
               of=lambda role, name, parts: parts.time.bytes_written),
        Column("cycles", "cycles", "count", of=lambda role, name, parts: parts.time.flops),
        Column("memory_seconds", "memory", "seconds", of=lambda role, name, parts: seconds(parts.memory_ticks)),
        Column("compute_seconds", "compute", "seconds", like="memory_seconds",
               of=lambda role, name, parts: seconds(parts.compute_ticks)),
        Column("kernel_seconds", "time", "seconds", like="memory_seconds",
               of=lambda role, name, parts: seconds(parts.time.ticks)),
    )  # fmt: skip
    rows = rows_from_tuples(columns, _kernels_of(pair))
    return Table("fused_kernels", columns, rows, noun="kernels", main=False)


def _launches_table(pair: GpuPair) -> Table:
    columns = (
        Column("kernel", "kernel", of=lambda role, _, parts: role),
        Column("emitter", "emitter", of=lambda role, _, parts: parts.time.emitter),
        Column("blocks", "blocks", "count", of=lambda role, _, parts: parts.time.blocks),
        Column("threads", "threads", "count", of=lambda role, _, parts: parts.time.threads),
        Column("is_coalesced", "coalesced", "flag", of=lambda role, _, parts: parts.time.is_coalesced),
    )
    rows = rows_from_tuples(columns, _kernels_of(pair))
    return Table("launches", columns, rows, noun="kernels", main=False)


def _reads_table(pair: GpuPair) -> Table:
    """The operands of the kernels, with what each reads of them."""
    one, other, both = ({r.operand: r for r in parts.reads} if parts is not None else {} for parts in pair.kernels)
    columns: tuple[Column[OperandRead], ...] = (
        Column("operand", "operand", "name", role="name", of=lambda read: read.operand),
        Column("size_bytes", "size", "bytes", of=lambda read: read.size_bytes),
        Column("producer_bytes", "producer", "bytes", like="size_bytes", of=lambda read: _bytes_read(read, one)),
        Column("consumer_bytes", "consumer", "bytes", like="size_bytes", of=lambda read: _bytes_read(read, other)),
        Column("fused_bytes", "fused", "bytes", like="size_bytes", of=lambda read: _bytes_read(read, both)),
        Column("repeats", "repeats", "ratio",
               of=lambda read: (
                   both[read.operand].bytes_read / read.size_bytes
                   if read.operand in both and read.size_bytes else None)),
        Column("fused_seconds", "time", "seconds", of=lambda read: _read_seconds(read, both)),
    )  # fmt: skip
    operands = {**one, **other, **both}.values()
    ranked = sorted(
        operands,
        key=lambda read: (read.operand not in both, -(_read_seconds(read, both) or 0), -read.size_bytes, read.operand),
    )
    rows = rows_from(columns, ranked)
    return Table("reads", columns, rows, noun="operands", title="reads", main=False, limit=8)


def _bytes_read(read: OperandRead, by: Mapping[str, OperandRead]) -> int | None:
    return by[read.operand].bytes_read if read.operand in by else None


def _read_seconds(read: OperandRead, by: Mapping[str, OperandRead]) -> float | None:
    return seconds(by[read.operand].ticks) if read.operand in by else None


def _users_table(pair: GpuPair) -> Table:
    columns = (
        Column("consumer", "consumer", "name", role="name", of=lambda user: user.name),
        Column("separate_seconds", "separate", "seconds",
               of=lambda user: None if user.alone_ticks is None else seconds(user.alone_ticks)),
        Column("fused_seconds", "fused", "seconds", like="separate_seconds",
               of=lambda user: None if user.fused_ticks is None else seconds(user.fused_ticks)),
        Column("reason", "reason", of=lambda user: user.reason),
    )  # fmt: skip
    rows = rows_from(columns, pair.users)
    return Table("consumers", columns, rows, noun="consumers", title="all consumers", main=False, limit=8)


def _shown(ticks: int) -> str:
    return format_seconds(seconds(ticks))
