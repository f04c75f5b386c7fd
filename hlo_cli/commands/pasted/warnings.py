"""Warnings of JAX and XLA about a run or a compilation: what they count, whether they matter, and what to do.

The messages are those of jax/_src/interpreters/mlir.py, xla/service/rendezvous.cc,
xla/stream_executor/cuda/ptx_compiler_helpers.cc, and xla/hlo/transforms/host_offloader.cc.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final

from hlo_cli.commands.prints.shape_text import bytes_of_shape, shape_text
from hlo_cli.commands.prints.text_report import text_report
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.files import is_file
from hlo_cli.inputs.input import read_inputs
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.read_input import read_input
from hlo_cli.report.numbers import format_bytes, format_count, verb
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Table, rows_from, rows_from_tuples
from hlo_cli.source import HloError
from hlo_cli.syntax.byte_sizes import size_of
from hlo_cli.syntax.compiler_files.code_files import AssembledKernel, read_ptxas
from hlo_cli.syntax.scanning.shape_reader import parse_shape

# --- donated arguments that no result can use ---

_UNUSED: Final = lazy_regex(r"onated buffers were not usable:\s+((?:[^.]|\.(?=\S)){0,20000})", 0)
_AVAL: Final = lazy_regex(
    r"(?:ShapedArray\()?\b([a-z]\w*(?:<\w+>)?\[(?:\d+(?:@[\w.]+|@\([^()\]]*\))?(?:, ?)?)*\])(?:\{[^{}]*\})?"
)
_NOT_SIZE: Final = lazy_regex(r"(?<!key)<[a-z]\w{1,40}>|@(?:\([^()\]]*\)|[\w.]+)")
"""The memory space and the mesh axes of a type of JAX, as in float32<host>[8@x]; key<fry> is a type."""
_PLATFORM: Final = lazy_regex(r"onation is not implemented for ([^\n]{1,80}?)\.?(?=\n|$|  )")


def donation_report(pasted: PastedText) -> Report | None:
    """The report on donated arguments that no result can use; None if it has none of its numbers."""
    platform = _PLATFORM.search(pasted.text)
    avals = [aval for match in _UNUSED.finditer(pasted.text) for aval in _AVAL.findall(match[1])]
    if not avals and platform is None:
        return None
    counts = Counter(avals)
    each = {aval: bytes_of_shape(_without_places(aval)) for aval in counts}
    columns = (
        Column(
            "bytes",
            "size",
            "bytes",
            total="sum",
            exact=True,
            of=lambda aval, count: None if (size := each[aval]) is None else size * count,
        ),
        Column("shape", "shape", "shape", of=lambda aval, count: aval),
        Column("arguments", "arguments", "count", of=lambda aval, count: count),
    )
    rows = rows_from_tuples(columns, counts.items())
    known = [size * count for aval, count in counts.items() if (size := each[aval]) is not None]
    sizes = [size for aval in avals if (size := each[aval]) is not None]
    listed = (
        f"{' and '.join(f'{size:,}' for size in sizes)} bytes" if len(sizes) <= 2 else f"{sum(sizes):,} bytes in all"
    )
    if len(sizes) < len(avals):
        listed = f"{f'{listed}, ' if sizes else ''}{len(avals) - len(sizes):,} of unknown size"
    number = format_count(len(avals), "donated arguments")
    if platform is not None:
        why = f"donation is not implemented for {platform[1]}"
        answer = f"Donation warning: {number} not used ({listed}), as {why}" if avals else f"Donation warning: {why}"
        fix = "The warning is harmless there; drop donate_argnums for this platform to silence it."
    else:
        answer = (
            f"Donation warning: {number} ({listed}) found no result of the same shape and type, so the memory is "
            "not reused"
        )
        fix = (
            "Return a new value of the same shape and type for each donated argument (a state that is updated), or "
            "leave these arguments out of donate_argnums. Batches usually have no such result; shapes are those of one "
            "device."
        )
    return text_report(
        pasted,
        answer,
        means=(
            (
                "A donated argument gives its memory to a result with equal shape, type, and layout. The program is "
                "right without that; it needs more memory."
            ),
        ),
        tables=(Table("named_arguments", columns, rows, noun="shapes"),),
        advice=(
            fix,
            *(_reasons_beside(pasted.name, tuple(map(_without_places, counts))) or (_NO_NAMES,)),
        ),
        numbers={"arguments": len(avals), "bytes": sum(known)},
        next=("hlo help memory",),
    )


def _without_places(aval: str) -> str:
    """A type of JAX without its memory space and mesh axes.

    >>> _without_places("float32<host>[8@x, 4]"), _without_places("key<fry>[2]")
    ('float32[8,4]', 'key<fry>[2]')
    """
    return _NOT_SIZE.sub("", aval).replace(" ", "")


_NO_NAMES: Final = (
    "The message names no argument: `hlo memspace DUMP` lists those that are donated and those that are not; with "
    "the dump "
    "next to the log, the reason is here."
)
_MOST_MODULES: Final = 8  # of a folder with thousands, the first programs are enough to find one that takes the array


def _reasons_beside(path: str, avals: Sequence[str]) -> tuple[str, ...]:
    """Why no result has the memory of each array, by the programs next to the log; empty if none takes one of them."""
    folder = os.path.dirname(path)
    if not folder or not is_file(path):
        return ()
    found = list[str]()
    with suppress(HloError, OSError):
        for each in islice(read_inputs([folder]), _MOST_MODULES):
            module = read_input(each)
            for aval in avals:
                if reason := _reason_in(module, shape_text(aval.replace(" ", ""))):
                    found.append(f"{module.name}: {aval} {reason}")
    return tuple(dict.fromkeys(found))


def _reason_in(module: Module, text: str) -> str:
    """Why no result of a program has the memory of an argument of a type; empty for a program without such an argument.

    Mirrors `_set_up_aliases` of jax/_src/interpreters/mlir.py: types are compared without layouts.
    """
    wanted = parse_shape(text)
    arguments = [leaf for each in module.entry.parameters for _, leaf in each.shape.leaves]
    root = module.entry.root
    if (
        root is None
        or not isinstance(wanted, ArrayShape)
        or all(_type_of(leaf) != _type_of(wanted) for leaf in arguments)
    ):
        return ""
    results = [leaf for _, leaf in root.shape.leaves if isinstance(leaf, ArrayShape)]
    same = sum(_type_of(leaf) == _type_of(wanted) for leaf in results)
    takers = sum(_type_of(leaf) == _type_of(wanted) for leaf in arguments)
    if same:
        return f"is the type of {format_count(takers, 'arguments')}, but of {format_count(same, 'results')} only"
    for leaf in results:
        if leaf.dimensions == wanted.dimensions:
            return f"has the sizes of the result {leaf.to_string(layout=False)}, which has another type"
    for leaf in results:
        if leaf.elements == wanted.elements:
            return f"has as many elements as the result {leaf.to_string(layout=False)}, which has another shape"
    listed = ", ".join(dict.fromkeys(leaf.to_string(layout=False) for leaf in results[:3]))
    return f"is like no result ({listed}{', …' if len(results) > 3 else ''})"


def _type_of(shape: Shape) -> str:
    return shape.to_string(layout=False)


# --- register spills ---

_SPILLS: Final[tuple[Column[AssembledKernel], ...]] = (
    Column("kernel", "kernel", "name", role="name", of=lambda kernel: kernel.name),
    Column("stores", "stores per thread", "bytes", exact=True, of=lambda kernel: kernel.stores),
    Column("loads", "loads per thread", "bytes", exact=True, of=lambda kernel: kernel.loads),
    Column("registers", "registers", "count", of=lambda kernel: kernel.registers),
    Column("shared_bytes", "shared memory", "bytes", exact=True, of=lambda kernel: kernel.shared_bytes),
)
_TRITON: Final = ("gemm_fusion", "triton", "nested_gemm", "__triton", "softmax_fusion")


def spills_report(pasted: PastedText) -> Report | None:
    """The report on registers that kernels spill; None if it has none of its numbers."""
    kernels = read_ptxas(pasted.text)
    found = [kernel for kernel in kernels if kernel.stores or kernel.loads]
    if not found:
        return _without_spills(pasted, kernels)
    ordered = sorted(found, key=lambda kernel: -(kernel.stores + kernel.loads))
    listed = ", ".join(
        f"{kernel.name} ({kernel.stores:,} + {kernel.loads:,} bytes per thread)" for kernel in ordered[:2]
    )
    more = f", and {len(ordered) - 2:,} more" if len(ordered) > 2 else ""
    triton = [kernel.name for kernel in ordered if kernel.name.startswith(_TRITON)]
    means = [
        (
            "A kernel with more values than registers keeps some in local memory, which is slower. This is a "
            "warning, not an "
            "error: results are right."
        )
    ]
    if triton:
        means.append(
            f"{' and '.join(triton[:2])} {'is a' if len(triton) == 1 else 'are'} Triton "
            f"{'candidate' if len(triton) == 1 else 'candidates'} of autotuning, which probably drops "
            f"such a configuration."
        )
    return text_report(
        pasted,
        f"{format_count(len(found), 'kernels')} {verb(len(found), 'spills', 'spill')} registers: {listed}{more}",
        means=(*means, *_limit_words(ordered)),
        tables=(Table("spilling_kernels", _SPILLS, rows_from(_SPILLS, ordered), noun="kernels"),),
        advice=(
            (
                "If a kernel stays slow, `hlo profile TRACE` shows its time; a smaller fusion or tile needs "
                "fewer registers."
            ),
        ),
        numbers={"kernels": len(found), "bytes": sum(kernel.stores + kernel.loads for kernel in found)},
    )


_SPILLED: Final = lazy_regex(r"\b[1-9]\d{0,17}\s+bytes\s+spill")
"""A spill, in whatever line: of a line without a kernel, the numbers are known and the kernel is not."""


def _without_spills(pasted: PastedText, kernels: Sequence[AssembledKernel]) -> Report | None:
    """The report on kernels that keep all values in registers; None if the text has none."""
    if _SPILLED.search(pasted.text) or (
        not kernels and "bytes spill stores" not in pasted.text and "spilled" not in pasted.text
    ):
        return None
    used = [kernel for kernel in kernels if kernel.registers is not None]
    most = max(used, key=lambda kernel: kernel.registers or 0, default=None)
    shared = f" and {format_bytes(most.shared_bytes)} of shared memory" if most and most.shared_bytes else ""
    words = f"; {most.name} has {most.registers} a thread{shared}, the most" if most and len(used) > 1 else ""
    words = f": {most.name} has {most.registers} a thread{shared}" if most and len(used) == 1 else words
    return text_report(
        pasted,
        f"No kernel spills registers{words}",
        tables=(Table("spilling_kernels", _SPILLS, rows_from(_SPILLS, kernels), noun="kernels"),) if used else (),
        advice=() if used else ("All spill stores and loads are 0 bytes.",),
        numbers={"kernels": len(kernels), "bytes": 0},
    )


_MOST_REGISTERS: Final = 255
"""Registers that a thread of any NVIDIA GPU since Kepler may have (CUDA Programming Guide, compute capabilities)."""


def _limit_words(kernels: Sequence[AssembledKernel]) -> Iterator[str]:
    """Why a kernel spills that ptxas gave fewer registers than a thread may have."""
    for kernel in kernels[:1]:
        if kernel.registers is not None and kernel.registers < _MOST_REGISTERS:
            yield (
                f"{kernel.name} has {kernel.registers} registers a thread; up to {_MOST_REGISTERS} are possible, so "
                "its number of threads a block limits them: a smaller block or tile removes the spills."
            )
        elif kernel.registers is not None:
            yield f"{kernel.name} has {kernel.registers} registers a thread, the most that a thread may have."


# --- collectives that wait ---

_WAITING: Final = lazy_regex(
    r"This thread has been waiting for `(?P<name>[^`]*)`? for (?P<seconds>\d{1,18}) ?(?P<unit>m?)s\w* and may be "
    "stuck[.:]?"
    r"(?:\s+(?:Expected (?P<expected>\d{1,18}) threads to join|All (?P<all>\d{1,18}) threads joined))?"
)
_ENDED: Final = lazy_regex(
    r"Termination timeout for `(?P<name>[^`]*)` of (?P<seconds>\d{1,18}) seconds exceeded"
    r"(?:[^\n]*?(?:Expected (?P<expected>\d{1,18}) threads[^\n]*?(?:only (?P<arrived>\d{1,18}) of them)?|All "
    r"(?P<all>\d{1,18}) threads joined))?"
)
_UNSTUCK: Final = lazy_regex(
    r"is unstuck waiting for `(?P<name>[^`]*)` after (?P<time>[\d.]+ ?(?:ms|us|s|m|h)?(?:[\d.]+s)?)"
)
_ARRIVED: Final = lazy_regex(r"Expected (\d{1,18}) threads to join the rendezvous, but only (\d{1,18}) of them")
_THREAD: Final = lazy_regex(
    r"(?:[IWEF]\d{4,8} [\d:.]+ +|: [IWEF] +|^[IWEF] +)(\d{1,18})(?= [^\s\]]+\.(?:cc|h):\d{1,18}\])"
)
_RUN: Final = lazy_regex(r"run_id=(?:RunId: ?)?(\d{1,18})|RunId: (\d{1,18})")
_OPERATION: Final = lazy_regex(
    r"(all[- ]reduce|all[- ]gather|all[- ]to[- ]all|reduce[- ]scatter|collective[- ]permute|collective[- ]broadcast"
    r"|ragged-all-to-all"
    r"|AllReduce|AllGather|AllToAll|ReduceScatter|CollectivePermute|send|recv)\b",
    2,
)
_MESSAGE: Final = lazy_regex(r"has been waiting for|Termination timeout for|is unstuck waiting for")
_CLIQUE: Final = lazy_regex(
    r"initialize clique for rank (?P<rank>\d{1,18})(?:;[^`]{0,200}?devices=\[(?P<ids>[\d,]{1,4000})\])?"
)


@dataclass(frozen=True, slots=True)
class _Wait:
    """A rendezvous in a log: what waits, the threads in it here, and how it ended."""

    name: str
    seconds: int
    expected: int | None
    all_joined: bool
    threads: tuple[str, ...]
    arrived: int | None
    ended_after: int | None
    unstuck_after: str | None

    @property
    def here(self) -> int:
        """The threads in it: as the log counts them, and at least those that wrote a line."""
        return max(self.arrived or 0, len(self.threads))

    @property
    def is_false_alarm(self) -> bool:
        """Whether what waited went on, so that nothing has to be done."""
        return self.unstuck_after is not None and not self.ended_after


def stuck_report(pasted: PastedText) -> Report | None:
    """The report on a collective that waits; None if it has none of its numbers."""
    waits = list(_waits(pasted.given or pasted.text))
    if not waits:
        return _watchdog(pasted)
    first = next((each for each in waits if each.ended_after), None) or next(
        (each for each in waits if not each.unstuck_after), waits[0]
    )
    columns = (
        Column("rendezvous", "rendezvous", of=lambda rendezvous: rendezvous.name),
        Column("arrived", "arrived", "count", of=lambda rendezvous: rendezvous.here or None),
        Column("expected", "expected", "count", of=lambda rendezvous: rendezvous.expected),
        Column("seconds", "wait time", "seconds",
               of=lambda rendezvous: float(rendezvous.seconds) if rendezvous.seconds else None),
        Column("outcome", "outcome", of=lambda rendezvous: _end(rendezvous)),
    )  # fmt: skip
    rows = rows_from(columns, waits)
    return text_report(
        pasted,
        _stuck_answer(first),
        means=tuple(_stuck_meaning(first)),
        tables=(Table("rendezvous", columns, rows, noun="rendezvous", person=len(rows) > 1),),
        advice=tuple(_stuck_advice(first)),
        numbers={
            "rendezvous": len(waits),
            "expected": first.expected,
            "threads": first.here or None,
            "seconds": first.seconds or first.ended_after,
        },
        next=() if first.is_false_alarm else ("hlo help sharding",),
    )


_OLD_WAITING: Final = lazy_regex(
    r"has been waiting for (?P<time>\d{1,18}ms) for and may be stuck: participant "
    r"(?P<kind>[A-Za-z]{1,40}?)(?:Participant)?"
    r"Data\{[\s\S]{0,8000}? waiting for all participants to arrive at rendezvous (?P<key>RendezvousKey\{[^}]{1,4000}\})"
)
_LOCAL: Final = lazy_regex(r"num_local_participants=(\d{1,9})")


def _in_new_words(match: re.Match[str]) -> str:
    """A warning of releases before 2024 (collective_ops_utils.h) in the words of those after: rendezvous.cc."""
    count = _LOCAL.search(match["key"])
    expected = f" Expected {count[1]} threads to join" if count else ""
    kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", match["kind"]).lower()
    return f"has been waiting for `{kind} {match['key']}` for {match['time']} and may be stuck.{expected}"


def _waits(text: str) -> Iterator[_Wait]:
    """The rendezvous that a log names, each once, in order."""
    text = _OLD_WAITING.sub(_in_new_words, text)
    found: dict[str, dict[str, list[str]]] = {}
    for line in _entries(text):
        for kind, pattern in (("waiting", _WAITING), ("ended", _ENDED), ("unstuck", _UNSTUCK)):
            if (match := pattern.search(line)) is not None:
                entry = found.setdefault(match["name"], {"waiting": [], "ended": [], "unstuck": [], "thread": []})
                entry[kind].append(line)
                if (thread := _THREAD.search(line)) is not None:
                    entry["thread"].append(thread[1])
    for name, entry in found.items():
        waiting = [m for line in entry["waiting"] if (m := _WAITING.search(line))]
        ended = [m for line in entry["ended"] if (m := _ENDED.search(line))]
        unstuck = [m for line in entry["unstuck"] if (m := _UNSTUCK.search(line))]
        groups = [match.groupdict() for match in (*waiting, *ended)]
        counts = [int(each["expected"] or each["all"]) for each in groups if each["expected"] or each["all"]]
        arrived = [int(m[2]) for line in (*entry["waiting"], *entry["ended"]) if (m := _ARRIVED.search(line))]
        yield _Wait(
            name=name,
            seconds=max((int(match["seconds"]) // (1000 if match["unit"] else 1) for match in waiting), default=0),
            expected=counts[0] if counts else None,
            all_joined=any(each["all"] for each in groups),
            threads=tuple(dict.fromkeys(entry["thread"])),
            arrived=max(arrived, default=None),
            ended_after=max((int(match["seconds"]) for match in ended), default=0) or None,
            unstuck_after=unstuck[-1]["time"].strip() if unstuck else None,
        )


def _entries(text: str) -> Iterator[str]:
    """The messages of a log on one line each: from each message to the next, with the prefix before it."""
    lines = text.split("\n")
    entry = list[str]()
    for line in lines:
        if _MESSAGE.search(line) and entry:
            yield " ".join(" ".join(entry).split())
            entry = []
        entry.append(line)
    yield " ".join(" ".join(entry).split())


def _subject(wait: _Wait) -> str:
    operation = _OPERATION.search(wait.name)
    run = _RUN.search(wait.name)
    if (clique := _CLIQUE.match(wait.name)) is not None:
        devices = f" of {format_count(clique['ids'].count(',') + 1, 'devices')}" if clique["ids"] else ""
        return f"The setup of an NCCL communicator{devices} (rank {clique['rank']})" + (
            f" of run {run[1] or run[2]}" if run else ""
        )
    name = operation[1].replace(" ", "-") if operation else ""
    words = f"{_article(name)} {name}" if name else f"`{wait.name}`"
    return words + (f" of run {run[1] or run[2]}" if run else "")


def _spaced(time: str) -> str:
    """A time with a space before its unit, as in 14.2 s."""
    return _UNIT.sub(r"\1 \2", time)


_UNIT: Final = lazy_regex(r"(\d)(us|ms|s|m|h)\b")


def _article(word: str) -> str:
    return "An" if word[0] in "aeiouAEIOU" else "A"


def _stuck_answer(wait: _Wait) -> str:
    subject = _subject(wait)
    if wait.is_false_alarm:
        after = _spaced(wait.unstuck_after or "")
        return f"False alarm: the thread in {subject[0].lower()}{subject[1:]} went on after {after}"
    if wait.all_joined:
        words = f"{subject} is stuck: all {wait.expected} threads joined, but the leader has not finished it"
    elif wait.expected:
        words = f"{subject} is not complete: it needs {format_count(wait.expected, 'devices')}"
        here = wait.here
        if here and here < wait.expected:
            words += (
                f"; {format_count(here, 'threads')} {verb(here, 'is', 'are')} in it here, {wait.expected - here} not"
            )
    else:
        words = f"{subject} is not complete"
        words += f" after {wait.seconds} s" if wait.seconds else ""
    return words + (f"; the process ended after {wait.ended_after} s" if wait.ended_after else "")


def _stuck_meaning(wait: _Wait) -> Iterator[str]:
    if wait.is_false_alarm:
        yield "The threads joined late, or the leader was slow: the machine is overloaded, or the timeout is too short."
        return
    if wait.threads:
        missing = (wait.expected or 0) - wait.here
        others = f"{format_count(missing, 'others')} of this process {verb(missing, 'has', 'have')} not come"
        unnamed = wait.here - len(wait.threads)
        listed = f"{', '.join(wait.threads)}{f' and {unnamed:,} without a line in this log' if unnamed else ''}"
        yield f"Threads in it: {listed}{f', so {others}' if missing > 0 and not wait.all_joined else ''}."
    if wait.all_joined:
        yield "All threads of this process came: a device, the network, or another process does not answer."
    if wait.seconds:
        yield f"The first warning came after {wait.seconds} s."


def _stuck_advice(wait: _Wait) -> Iterator[str]:
    if wait.is_false_alarm:
        yield (
            "Nothing has to be done. A longer timeout hides the warning "
            "(xla_gpu_executable_warn_stuck_timeout_seconds)."
        )
        return
    if wait.all_joined:
        yield (
            "The leader of the threads is blocked in its own work: by a device (nvidia-smi, dmesg), for the network, "
            "or for "
            "the other processes. Look in their logs, and compare their programs: set XLA_FLAGS=--xla_dump_to=DIR in "
            "each, and run `hlo diff DIR1 DIR2`."
        )
        return
    yield (
        "Look for what the missing devices do in place of it: another program, an exception in their "
        "thread, a slow host "
        "callback, or fewer CPU cores than devices. With several processes, compare their programs: set "
        "XLA_FLAGS=--xla_dump_to=DIR in each, and run `hlo diff DIR1 DIR2`."
    )


def _end(wait: _Wait) -> str:
    if wait.ended_after:
        return f"process ended after {wait.ended_after} s"
    return f"went on after {wait.unstuck_after}" if wait.unstuck_after else "open"


# --- collectives of PyTorch that ended after their timeout ---

_WATCHDOG: Final = lazy_regex(
    r"\[Rank (?P<rank>\d{1,9})\] Watchdog caught collective operation timeout: WorkNCCL\("
    r"SeqNum=(?P<number>\d{1,18}), "
    r"OpType=(?P<operation>\w{1,40})(?:, TensorShape=\[[\d, ]{0,200}\])?(?:, NumelIn=(?P<elements>\d{1,18}), "
    r"NumelOut=\d{1,18})?, Timeout\(ms\)=(?P<limit>\d{1,15})\) ran for (?P<ran>\d{1,15}) milliseconds"
)
_LAST_WORK: Final = lazy_regex(
    r"Rank (?P<rank>\d{1,9})\][^\n]{0,300}? last enqueued (?:NCCL )?work: (?P<enqueued>\d{1,18}), last "
    r"completed (?:NCCL )?work: (?P<completed>\d{1,18})"
)
_WATCHED: Final[tuple[Column[re.Match[str]], ...]] = (
    Column("rank", "rank", "index", of=lambda wait: int(wait["rank"])),
    Column("sequence_number", "number", "index", of=lambda wait: int(wait["number"])),
    Column("operation", "collective", of=lambda wait: _collective_name(wait["operation"])),
    Column("elements", "elements", "count", of=lambda wait: int(wait["elements"]) if wait["elements"] else None),
    Column("seconds", "wait time", "seconds", of=lambda wait: int(wait["ran"]) / 1000),
)


def _collective_name(name: str) -> str:
    """XLA's name of a collective of NCCL.

    >>> _collective_name("ALLREDUCE"), _collective_name("_ALLGATHER_BASE"), _collective_name("BROADCAST")
    ('all-reduce', 'all-gather', 'broadcast')
    """
    words = {"ALLREDUCE": "all-reduce", "ALLGATHER": "all-gather", "ALLTOALL": "all-to-all"}
    words["REDUCE_SCATTER"] = "reduce-scatter"
    plain = name.upper().removesuffix("_BASE").strip("_")
    return next((word for start, word in words.items() if plain.startswith(start)), plain.lower())


def _watchdog(pasted: PastedText) -> Report | None:
    """The report on what the watchdog of torch.distributed wrote: who waited, and whether all did for the same."""
    waits = sorted(_WATCHDOG.finditer(" ".join(pasted.text.split())), key=lambda wait: int(wait["rank"]))
    if not waits:
        return None
    first = waits[0]
    kinds = Counter((int(wait["number"]), _collective_name(wait["operation"])) for wait in waits)
    elements = f" of {int(first['elements']):,} elements" if first["elements"] else ""  # before PyTorch 2.2 none
    size = f"{_collective_name(first['operation'])}{elements}"
    seconds, limit = int(first["ran"]) / 1000, int(first["limit"]) / 1000
    if len(kinds) > 1:
        listed = ", ".join(
            f"{kind} number {number:,} on {format_count(count, 'ranks')}"
            for (number, kind), count in kinds.most_common(3)
        )
        answer = f"The ranks are in different collectives: {listed}"
    else:
        ranks = ", ".join(wait["rank"] for wait in waits[:8]) + (
            f" and {len(waits) - 8:,} more" if len(waits) > 8 else ""
        )
        subject = f"{'Rank' if len(waits) == 1 else 'Ranks'} {ranks}"
        answer = (
            f"{subject} waited {seconds:,.0f} s for collective {int(first['number']):,} ({size}); "
            f"the limit is {limit:,.0f} s"
        )
    work = _LAST_WORK.search(" ".join(pasted.text.split()))
    means = ["The collective belongs to torch.distributed (NCCL), not to a program of XLA: no HLO shows it."]
    if work is not None:
        waiting = int(work["enqueued"]) - int(work["completed"])
        means.append(f"Rank {work['rank']} completed number {int(work['completed']):,}; {waiting:,} are in its queue.")
    return text_report(
        pasted,
        answer,
        means=means,
        tables=(Table("timed_out_collectives", _WATCHED, rows_from(_WATCHED, waits), noun="ranks"),)
        if len(waits) > 1
        else (),
        advice=(
            (
                "The ranks without this line did not reach the collective: look in their logs for an exception, "
                "another number of batches, or a branch that only some ranks take. TORCH_NCCL_TRACE_BUFFER_SIZE=2000 "
                "and TORCH_NCCL_DUMP_ON_TIMEOUT=1 record the collectives of each rank."
            ),
        ),
        numbers={"ranks": len(waits), "number": int(first["number"]), "seconds": seconds, "limit_seconds": limit},
    )


# --- communicators of NCCL that start ---

_COMMUNICATOR: Final = lazy_regex(
    r"comm (?:0x)?[0-9a-f]{1,18} rank (?P<rank>\d{1,9}) n?[Rr]anks (?P<ranks>\d{1,9})(?P<rest>[^\n]{0,300}?) - "
    r"(?P<what>Init START|Init COMPLETE|Destroy COMPLETE|Abort COMPLETE)"
)
_COMMUNICATOR_ID: Final = lazy_regex(r"commId (?P<id>0x[0-9a-f]{1,18})")
_MOST_LISTED: Final = 8  # ranks in a sentence


def nccl_report(pasted: PastedText) -> Report | None:
    """The report on the communicators of an NCCL log that are not complete: which ranks are in each, and which not.

    Mirrors `ncclCommInitRankFunc` of NCCL's src/init.cc.
    """
    found: dict[tuple[str, int], dict[str, set[int]]] = {}
    for match in _COMMUNICATOR.finditer(pasted.text):
        named = _COMMUNICATOR_ID.search(match["rest"])
        ranks = found.setdefault((named["id"] if named else "", int(match["ranks"])), {"begun": set(), "ready": set()})
        ranks["begun"].add(int(match["rank"]))
        if match["what"] != "Init START":
            ranks["ready"].add(int(match["rank"]))
    if not found:
        return None
    # a rank completes only when all have begun, so lines of one host tell when nothing is missing
    waiting = [(key, ranks) for key, ranks in found.items() if ranks["begun"] != ranks["ready"]]
    if not waiting:
        return None
    (name, size), first = waiting[0]
    subject = f"NCCL communicator{f' {name}' if name else ''} of {format_count(size, 'ranks')}"
    absent = [rank for rank in range(size) if rank not in first["begun"]]
    late = sorted(first["begun"] - first["ready"])
    if absent and not first["ready"]:
        answer = f"{subject}: {len(first['begun'])} began, and the log has no line of {_rank_list(absent)}"
    else:
        answer = f"{subject}: all began, and {_rank_list(late)} {verb(len(late), 'is', 'are')} not complete"
    columns = (
        Column("communicator", "communicator", of=lambda key, ranks: key[0] or None),
        Column("ranks", "ranks", "count", of=lambda key, ranks: key[1]),
        Column("begun", "begun", "count", of=lambda key, ranks: len(ranks["begun"])),
        Column("ready", "complete", "count", of=lambda key, ranks: len(ranks["ready"])),
    )
    return text_report(
        pasted,
        answer,
        means=("A communicator is complete when all its ranks have begun; until then, those that began are blocked.",),
        tables=(
            Table(
                "communicators",
                columns,
                rows_from_tuples(columns, found.items()),
                noun="communicators",
                person=len(found) > 1,
            ),
        ),
        advice=(
            (
                "Look in the logs of the ranks without a line: they failed, were not started, or run another program. "
                "If the log is of one host only, put those of all hosts together first."
            ),
        )
        if absent and not first["ready"]
        else ("Nothing failed in these lines: look at the first line with NCCL WARN of any rank.",),
        numbers={
            "communicators": len(found),
            "ranks": size,
            "begun": len(first["begun"]),
            "ready": len(first["ready"]),
        },
    )


def _rank_list(ranks: Sequence[int]) -> str:
    listed = ", ".join(map(str, ranks[:_MOST_LISTED]))
    more = f" and {len(ranks) - _MOST_LISTED:,} more" if len(ranks) > _MOST_LISTED else ""
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {listed}{more}"


# --- computation on the host ---

_ON_HOST: Final = lazy_regex(
    r"Found an instruction \(\"?(?P<name>[^\"()]+)\"?\) which does device compute in host memory space"
)


def host_compute_report(pasted: PastedText) -> Report | None:
    """The report on computations on the host; None if it has none of its numbers."""
    text = " ".join(pasted.text.split())
    counts = Counter(match["name"].strip() for match in _ON_HOST.finditer(text))
    if not counts:
        return None
    names = list(counts)
    listed = (
        " and ".join(names)
        if len(names) < 3
        else f"{', '.join(names[:3])}" + (f", and {len(names) - 3} more" if len(names) > 3 else "")
    )
    columns = (
        Column("instruction", "instruction", "name", role="name", of=lambda name, count: name),
        Column("warnings", "warnings", "count", of=lambda name, count: count),
    )
    rows = rows_from_tuples(columns, counts.items())
    return text_report(
        pasted,
        f"{listed} {verb(len(names), 'runs', 'run')} on the host, "
        f"because {verb(len(names), 'its', 'their')} inputs are "
        "in host memory",
        means=("XLA moves such an instruction to the host CPU, which is usually very slow.",),
        tables=(Table("host_instructions", columns, rows, noun="instructions", person=len(rows) > 1),),
        advice=(
            (
                "Move the inputs to the device first: jax.device_put(x, jax.memory.Space.Device), or a sharding with "
                'memory_kind="device". To keep them on the host on purpose, use compute_on("device_host").'
            ),
            f"`hlo parse DUMP --explain {names[0]}` shows where the inputs come from.",
        ),
        numbers={"instructions": len(names), "warnings": sum(counts.values())},
    )


# --- arrays that become constants of the program ---

_CAPTURED: Final = lazy_regex(
    r"constants (?:were )?captured during lowering\s+\((?P<size>[\d.]+ ?[KMGT]?i?B)\s+total\)"
)
_CONSTANT: Final = lazy_regex(
    r"Constant <class '(?P<type>[^']+)'>, (?P<shape>\w+\[[\d,]*\])\S*, (?P<size>[\d.]+ ?[KMGT]?i?B) "
    r"captured at:\s+(?P<place>\S[^\n]*)?"
)


def captured_constants_report(pasted: PastedText) -> Report | None:
    """The report on constants in a program; None if it has none of its numbers."""
    match = _CAPTURED.search(pasted.text)
    if match is None:
        return None

    columns = (
        Column("bytes", "size", "bytes", of=lambda constant: size_of(constant["size"])),
        Column("shape", "shape", "shape", of=lambda constant: constant["shape"]),
        Column("place", "captured at", of=lambda constant: (constant["place"] or "").strip() or None),
    )
    rows = rows_from(columns, _CONSTANT.finditer(pasted.text))
    largest = f"; the largest is {rows[0][1]}" if rows else ""
    advice = [
        (
            "Pass the arrays as arguments of the jitted function, such as parameters or a table, in place of "
            "closing over them."
        )
    ]
    if not rows:
        advice.append("To see where they are used, set JAX_CAPTURED_CONSTANTS_REPORT_FRAMES=-1 and run again.")
    return text_report(
        pasted,
        f"{_short(match['size'])} of arrays are closed over and become constants of the program{largest}",
        means=(
            (
                "Constants are copied into the lowered program and the executable: compiling takes longer, "
                "and the memory is "
                "needed twice."
            ),
        ),
        tables=(Table("captured_constants", columns, rows, noun="constants"),) if rows else (),
        advice=advice,
        numbers={"bytes": size_of(match["size"])},
    )


def _short(size: str) -> str:
    """A size as the text has it, without zeros at the end.

    >>> _short("3.20GB"), _short("512MB")
    ('3.2 GB', '512 MB')
    """
    number = size.rstrip("KMGTiB ")
    unit = size[len(number) :].strip()
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number} {unit}"
