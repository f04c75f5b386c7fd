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
    # fusions are renamed after the pass; the column would repeat the producer otherwise
    is_renamed = any(row.name_in_pass not in (None, row.producer) for row in rows)
    columns: tuple[Column[PairRow], ...] = (
        Column("possible_saving_bytes", "saving", "bytes", role="saving", of=lambda row: row.saving_bytes),
        Column("unfused_seconds", "separate", "seconds", person=False, of=lambda row: row.unfused_seconds),
        Column("fused_seconds", "fused", "seconds", person=False, of=lambda row: row.fused_seconds),
        Column("unfused_time", "separate", align="right", person=has_times, machine=False,
               of=lambda row: _seconds_text(row.unfused_seconds)),
        Column("fused_time", "fused", align="right", person=has_times, machine=False,
               of=lambda row: _seconds_text(row.fused_seconds)),
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


def _seconds_text(time: float | None) -> str | None:
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
    # by the largest saving, not by the number of pairs: many small arrays matter less
    ordered = sorted(groups.items(), key=lambda group: (-max(group[1]), group[0]))
    rows_of_reasons = rows_from_tuples(columns, ordered)
    return Table("reasons", columns, rows_of_reasons, noun="reasons", main=False, limit=10)


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
    timed = next((row for row in rows if row.fused_seconds is not None), rows[0] if rows else None)
    if timed is None or len(rows) == 1 or not argument or argument == "-":
        return ()
    return (f"hlo fuse {argument} {timed.producer},{timed.consumer} --why-not{option}",)


# --- one sentence on a decision ---
# One sentence on what decided about a pair: repeated reads, recomputation, another launch, or a rule.


_MAX_UNREPEATED: Final = 1.05  # chosen: a few percent, such as at the edges of tiles, decide nothing
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
        return _saved_words(pair)
    worst = max(pair.users, key=_added_ticks)
    if worst.name != pair.consumer and len(pair.users) > 1:
        more = format_seconds(seconds(_added_ticks(worst)))
        return f"XLA decides on all {len(pair.users)} consumers at once: {worst.name} would take {more} longer."
    return _slower_words(pair, gpu_device(chip).core_count)


def _added_ticks(user: UserTimes) -> int:
    return (user.fused_ticks or 0) - (user.alone_ticks or 0)


def _saved_words(pair: GpuPair) -> str:
    producer, consumer, fused = pair.kernels
    if producer is None or consumer is None or fused is None:
        return ""
    # kKernelLaunchOverhead of gpu_performance_model_base.h
    words = "One kernel less saves its launch (1 µs)"
    if len(pair.users) > 1:
        return f"{words}, and {format_count(len(pair.users), 'consumers')} compute {pair.producer} themselves."
    traffic = sum(_traffic(each) for each in (producer, consumer)) - _traffic(fused)
    if traffic > 0:
        return f"{words} and {format_bytes(traffic)} of memory traffic."
    return (
        f"{words}, which is more than the {format_bytes(-traffic)} that are read again cost."
        if traffic
        else words + "."
    )


def _slower_words(pair: GpuPair, cores: int) -> str:
    """The part of the fused kernel that takes most time beyond that of the two."""
    producer, consumer, fused = pair.kernels
    if producer is None or consumer is None or fused is None:
        return ""
    compute = fused.compute_ticks - producer.compute_ticks - consumer.compute_ticks
    memory = fused.memory_ticks - producer.memory_ticks - consumer.memory_ticks
    # the model adds the two parts, less their overlap, so the part that grew more decided
    if compute >= memory:
        return _slower_compute(pair, producer, consumer, fused, cores)
    return _slower_memory(producer, consumer, fused, cores)


def _slower_compute(pair: GpuPair, producer: KernelParts, consumer: KernelParts, fused: KernelParts, cores: int) -> str:
    before, after = producer.compute_ticks + consumer.compute_ticks, fused.compute_ticks
    instead = f"computing takes {format_seconds(seconds(after))} instead of {format_seconds(seconds(before))}"
    if pair.uses > _MAX_UNREPEATED and producer.time.flops:
        cycles = f"{fused.time.flops:,} cycles instead of {producer.time.flops + consumer.time.flops:,}"
        return f"Fusing would compute {pair.producer} {times(pair.uses)} ({cycles}): {instead}."
    return f"The fused kernel has {_launch(fused, cores)}, the producer {_launch(producer, cores)}: {instead}."


def _slower_memory(producer: KernelParts, consumer: KernelParts, fused: KernelParts, cores: int) -> str:
    producer_reads = {read.operand: read for read in producer.reads}
    consumer_reads = {read.operand: read for read in consumer.reads}
    no_read = OperandRead("", 0, 1, 0)

    def ticks_before(read: OperandRead) -> int:
        return producer_reads.get(read.operand, no_read).ticks + consumer_reads.get(read.operand, no_read).ticks

    worst = max(fused.reads, key=lambda read: read.ticks - ticks_before(read), default=no_read)
    old, new = format_seconds(seconds(ticks_before(worst))), format_seconds(seconds(worst.ticks))
    instead = f"reading it takes {new} instead of {old}"
    known = [reads[worst.operand].bytes_read for reads in (producer_reads, consumer_reads) if worst.operand in reads]
    if worst.size_bytes and worst.bytes_read > _MAX_UNREPEATED * max(known, default=0):
        return f"Fusing would read {worst.operand} {times(worst.bytes_read / worst.size_bytes)}: {instead}."
    if not fused.time.is_coalesced and producer.time.is_coalesced:
        return f"Reads of the fused kernel are not coalesced, such as of {worst.operand}: {instead}."
    return (
        f"The fused kernel has {_launch(fused, cores)}, too few to read {worst.operand} at full bandwidth: {instead}."
    )


def times(number: float) -> str:
    """How often something is done, in words.

    >>> times(64.0), times(1.25), times(1)
    ('64 times', '1.25 times', 'once')
    """
    # a fraction matters for a few repeats only
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
    # a rule of any consumer keeps the producer out of all of them, whatever the times
    if blocked is not None and own[0].producer == name:
        return blocked
    return max(own, key=_added_ticks_of_pair)


def _added_ticks_of_pair(pair: GpuPair) -> int:
    user = next((user for user in pair.users if user.name == pair.consumer), None)
    return 0 if user is None else _added_ticks(user)


def decision_answer(pair: GpuPair, chip: str) -> str:
    """The decision in one sentence, with its reason or its times."""
    if pair.emitted_in is not None:
        return f"Both are in one kernel on {chip}, {pair.emitted_in}, through other instructions"
    into = f"{pair.producer} is{'' if pair.is_fused else ' not'} fused into {pair.consumer} on {chip}"
    if pair.reason is not None:
        return f"{into}: {pair.reason}"
    if pair.fused_ticks is None or pair.unfused_ticks is None:
        return into
    instead = f"{format_ticks(pair.fused_ticks)} instead of {format_ticks(pair.unfused_ticks)}"
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
    # what is left of the sum, as XLA does not print the producer's time on its own
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
    producer, consumer, fused = (
        {r.operand: r for r in parts.reads} if parts is not None else {} for parts in pair.kernels
    )
    columns: tuple[Column[OperandRead], ...] = (
        Column("operand", "operand", "name", role="name", of=lambda read: read.operand),
        Column("size_bytes", "size", "bytes", of=lambda read: read.size_bytes),
        Column("producer_bytes", "producer", "bytes", like="size_bytes", of=lambda read: _bytes_read(read, producer)),
        Column("consumer_bytes", "consumer", "bytes", like="size_bytes", of=lambda read: _bytes_read(read, consumer)),
        Column("fused_bytes", "fused", "bytes", like="size_bytes", of=lambda read: _bytes_read(read, fused)),
        Column("repeats", "repeats", "ratio",
               of=lambda read: (
                   fused[read.operand].bytes_read / read.size_bytes
                   if read.operand in fused and read.size_bytes else None)),
        Column("fused_seconds", "time", "seconds", of=lambda read: _read_seconds(read, fused)),
    )  # fmt: skip
    operands = {**producer, **consumer, **fused}.values()
    ranked = sorted(
        operands,
        key=lambda read: (
            read.operand not in fused,
            -(_read_seconds(read, fused) or 0),
            -read.size_bytes,
            read.operand,
        ),
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


def format_ticks(ticks: int) -> str:
    return format_seconds(seconds(ticks))
