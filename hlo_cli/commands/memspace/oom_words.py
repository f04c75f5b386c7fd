"""What does an out-of-memory message say, in words? Which memory, how much is missing, what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from hlo_cli.analysis.memory.oom_advice import (
    CONTROL_GROUP,
    SCRATCH,
    Advice,
    Defragment,
    Donate,
    Dump,
    FewerElements,
    FreeBuffers,
    FreeChunks,
    FreeOthers,
    ListProcesses,
    Narrow,
    RaiseHostLimit,
    RaiseScopedLimit,
    Recompute,
    Reorder,
    Shard,
    ShardValues,
    Shrink,
    ShrinkRange,
    SingleBuffer,
    SmallerBlock,
    free_bytes,
)
from hlo_cli.ir.memory_space import TpuMemorySpace
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.out_of_memory import LimitMeaning, MemoryRange, OomAllocation, OomKind, OutOfMemory
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.report.numbers import format_bytes, format_count, format_percent, list_first
from hlo_cli.report.table import UNKNOWN, Amount, Cell, Column, Fact, Facts, Table, rows_from_tuples, unknown_if_none
from hlo_cli.report.text import Passage, Run, Text, line_of
from hlo_cli.source import Diagnostic

# --- names of memories and purposes ---


_MEMORIES: Final[dict[OomKind, str]] = {
    "tpu-hbm": TpuMemorySpace.HBM.label,
    "tpu-load": TpuMemorySpace.HBM.label,
    "tpu-buffer": TpuMemorySpace.HBM.label,
    "tpu-vmem": TpuMemorySpace.VMEM.label,
    "tpu-vmem-scoped": f"scoped {TpuMemorySpace.VMEM.label}",
    "tpu-vmem-stack": TpuMemorySpace.VMEM.label,
    "tpu-smem": TpuMemorySpace.SMEM.label,
    "tpu-cmem": TpuMemorySpace.CMEM.label,
    "tpu-sparse-core": "SparseCore memory",
    "tpu-host": "host memory",
    "gpu-allocator": "GPU memory",
    "gpu-buffer-assignment": "GPU memory",
    "gpu-driver": "GPU memory",
    "gpu-shared-memory": "GPU shared memory",
    "cpu": "host memory",
    "process": "host memory",
}
_WINDOW_TAGS: Final = ("input window", "output window")
_LONGEST_ABBREVIATION: Final = 5  # `hbm` to `sflag` are abbreviations; longer names are words
_LONGEST_LABEL: Final = 100  # a label is a short phrase; longer text is the message itself
SEMAPHORES: Final = "SFLAG (semaphores)"
"""The name of the memory of semaphores."""


def memory_name(message: OutOfMemory) -> str:
    """The memory that was exhausted, in words.

    >>> from hlo_cli.source import Span
    >>> memory_name(OutOfMemory("run", Span(0, 0), "sflag", kind="tpu-other"))
    'SFLAG (semaphores)'
    """
    if message.space == "host":
        return "pinned host memory" if message.kind == "gpu-driver" else "host memory"
    if (name := _MEMORIES.get(message.kind)) is not None:
        return name
    if message.space == "sflag":
        return SEMAPHORES
    if message.space:
        return message.space.upper() if len(message.space) <= _LONGEST_ABBREVIATION else message.space
    return {"gpu": "GPU memory", "cpu": "host memory"}.get(message.target or "", "device memory")


def culprit_name(allocation: OomAllocation) -> str:
    """The name of an allocation: its instruction, its kernel, or its opcode; empty if it has none of them.

    >>> culprit_name(OomAllocation(8, opcode="fusion")), culprit_name(OomAllocation(8))
    ('fusion', '')
    """
    if allocation.place is not None:
        return str(allocation.place)
    return allocation.kernel or _label(allocation) or allocation.opcode


def kernel_name(allocation: OomAllocation) -> str:
    """The name of the kernel of an allocation, else of its instruction; names of Python functions are left out.

    >>> kernel_name(OomAllocation(8, kernel="jit(f)", label="f.1")), kernel_name(OomAllocation(8, kernel="attention"))
    ('f.1', 'attention')
    """
    # jax names a kernel without a name of its own by its function, such as jit(f)/pallas_call.
    if allocation.kernel and not any(mark in allocation.kernel for mark in "(/"):
        return allocation.kernel
    return str(allocation.place) if allocation.place is not None else _label(allocation) or allocation.opcode


def _operation_name(allocation: OomAllocation) -> str:
    """The last part of an op_name, without parameters; empty if the message has none or its end is missing.

    >>> _operation_name(OomAllocation(8, op_name="jit(f)/layer/dot_general[precision=None]"))
    'dot_general'
    """
    # Messages cut long op_names off, also within brackets.
    name = allocation.op_name.partition("[")[0].rpartition("/")[2]
    return name if name.isidentifier() else ""


def _label(allocation: OomAllocation) -> str:
    """The label of an allocation, if it is a name rather than the text of an instruction."""
    label = allocation.label
    return label if label and "(" not in label and "<" not in label and len(label) <= _LONGEST_LABEL else ""


def _tag_words(allocation: OomAllocation) -> str:
    """The purpose of an allocation in words, with the number of the operand.

    >>> _tag_words(OomAllocation(8, tag="input window", operand_number=2)), _tag_words(OomAllocation(8))
    ('the input window of operand 2', '')
    """
    if not (tag := tag_of(allocation)):
        return ""
    if (number := allocation.operand_number) is None:
        return f"the {tag}"
    if tag in _WINDOW_TAGS:
        return f"the {tag} of {'result' if tag.startswith('output') else 'operand'} {number}"
    return f"the {tag} {number}"


def tag_of(allocation: OomAllocation) -> str:
    """The tag of an allocation; that of a window is two words, however its text goes on."""
    return next((window for window in _WINDOW_TAGS if allocation.tag.startswith(window)), allocation.tag)


# --- ranges of memory ---


_MAIN_IN_REPORT: Final = "default"
_MISNAMED: Final = {"hbm": "S(3)"}
"""Names of XLA's report that are not those of the memory space on TPUs."""
_MAX_SHAPES: Final = 8  # two lines of 80 columns
_MAX_SUM_WITHOUT_OVERLAP: Final = 1.02
"""The sum of listed sizes, as a multiple of the total, above which ranges certainly overlap."""


def ranges_table(message: OutOfMemory, matches: Mapping[int, tuple[str, str]]) -> Table:
    """The ranges in the memory space that ran out, the largest first; `matches` are instructions in a dump by row.

    Sizes have no sum, because ranges overlap.
    """
    ranges = [(each, matches.get(row)) for row, each in enumerate(message.culprits)]
    are_whole = all(each.range is not None and each.range.is_one_value for each in message.culprits)
    title = f"{'Allocations in' if are_whole else 'Ranges of'} {memory_name(message)}, the largest first"
    return _table_of_ranges("ranges", ranges, title if len(ranges) > 1 else "", is_main=True)


def other_ranges_table(message: OutOfMemory) -> Table:
    """The ranges in the other memory spaces, for programs."""
    return _table_of_ranges("other_ranges", [(each, None) for each in message.other_ranges], "", is_main=False)


def _table_of_ranges(
    name: str, matched: Sequence[tuple[OomAllocation, tuple[str, str] | None]], title: str, *, is_main: bool
) -> Table:
    ranges = [(allocation, place, match or ("", "")) for allocation, match in matched for place in (allocation.range,)]
    has_names, has_sources = (any(match[part] for _, place, match in ranges if place) for part in (0, 1))
    columns: tuple[Column[OomAllocation, MemoryRange | None, tuple[str, str]], ...] = (
        Column("bytes", "", "bytes", of=lambda allocation, place, match: allocation.size_bytes),
        Column("padding_bytes", "padding", "bytes", person=False,
               of=lambda allocation, place, match: _padding(allocation, allocation.padding_bytes)),
        Column("padding", "padding", "percent", role="waste",
               of=lambda allocation, place, match: (
                   _padding(allocation, allocation.padding_bytes / allocation.size_bytes
                   if allocation.size_bytes else UNKNOWN))),
        Column("values", "values", "count", of=lambda allocation, place, match: place.value_count if place else None),
        Column("shape", "largest value", "shape",
               of=lambda allocation, place, match: shape_text(allocation.shape) or None if place else None),
        Column("instruction", "instruction", "name", role="name", person=has_names,
               of=lambda allocation, place, match: match[0] or None if place else None),
        Column("source", "source", "source", rank=4, person=has_sources,
               of=lambda allocation, place, match: match[1] or None if place else None),
        Column("offset", "offset", "bytes", rank=5, from_width=100,
               of=lambda allocation, place, match: place.offset_bytes if place else None),
        Column("allocation", "allocation", "count", person=False,
               of=lambda allocation, place, match: place.allocation if place else None),
        Column("is_one_value", "one value", person=False,
               of=lambda allocation, place, match: ("yes" if place.is_one_value else "no") if place else None),
        Column("shapes", "all shapes", person=False,
               of=lambda allocation, place, match: _shapes(place, len(place.shapes)) if place else None),
        Column("space", "space", person=False,
               of=lambda allocation, place, match: place.space or None if place else None),
    )  # fmt: skip
    rows = rows_from_tuples(columns, ranges)
    is_shown = is_main and len(rows) > 1
    return Table(name, columns, rows, title=title, noun="ranges", limit=10, main=is_main, person=is_shown)


def _padding(allocation: OomAllocation, padding: Cell) -> Cell:
    return padding if allocation.range is not None and allocation.has_padding else UNKNOWN


def shape_text(shape: Shape | None) -> str:
    """A shape without its layout, which reports on memory usage do not have.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> shape_text(parse_shape("f32[8,70]{0,1}")), shape_text(None)
    ('f32[8,70]', '')
    """
    return shape.to_string(layout=False) if shape is not None else ""


def _shapes(place: MemoryRange, most: int) -> str:
    """Shapes with their counts, such as `2×f32[8]`, at most a number of them."""
    texts = [f"{count}×{shape_text(shape)}" if count > 1 else shape_text(shape) for count, shape in place.shapes]
    return list_first(texts, most)


def _largest_range(allocation: OomAllocation, place: MemoryRange) -> str:
    """What the largest range is, for a sentence.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> _largest_range(OomAllocation(64, parse_shape("f32[16]")), MemoryRange("default", 1, 0, 3))
    'the largest range of memory holds f32[16] and 2 other values one after another'
    """
    shape, others = shape_text(allocation.shape), place.value_count - 1
    if place.is_one_value:
        return f"the largest allocation holds {shape}" if shape else "the largest allocation holds one value"
    if not shape or others < 0:
        return "the largest range of memory"
    more = f" and {format_count(others, 'other values')} one after another" if others else ""
    return f"the largest range of memory holds {shape}{more}"


def range_facts(allocation: OomAllocation, place: MemoryRange, match: tuple[str, str] | None) -> Iterator[Fact]:
    """The facts on the largest range: its padding is unknown unless a shape explains its size."""
    padding = allocation.padding_bytes if allocation.has_padding else UNKNOWN
    yield Fact("size", (Amount("bytes", allocation.size_bytes, "bytes"),))
    yield Fact("padding", (Amount("bytes", padding, "bytes"),))
    yield Fact("offset", (Amount("bytes", place.offset_bytes, "bytes"),))
    yield Fact("values", (Amount("count", place.value_count),))
    yield Fact("shapes", remark=_shapes(place, _MAX_SHAPES), is_whole=True)
    if match is not None:
        yield Fact("instruction", remark=match[0], is_whole=True)
        if match[1]:
            yield Fact("source", remark=match[1], is_whole=True)


def _range_words(advice: ShardValues | ShrinkRange, memory: str) -> Text:
    """Advice on ranges, in words; `memory` is the name of the memory that ran out."""
    size = format_bytes(advice.size_bytes)
    if isinstance(advice, ShardValues):
        return (
            f"Shard the largest values over at least {advice.devices:,} devices: {advice.count:,} allocations with one "
            f"value each (arguments, results, constants, or others) alone need {size}, {memory} has "
            f"{format_bytes(advice.available_bytes)}."
        )
    allocation, better = advice.allocation, advice.better
    shape = shape_text(allocation.shape)
    if not shape:
        return f"Shrink the values in the largest range ({size})."
    others = " and the other values" if allocation.range is not None and allocation.range.value_count > 1 else ""
    words = ("Shrink ", Run(shape, "name"), f"{others} in the largest range ({size})")
    if better is None:
        return (*words, ".")
    order = index_text(better.layout.minor_to_major)
    return (*words, f": in dimension order {order} that array has {format_bytes(better.padded_bytes)}.")


def space_facts(message: OutOfMemory) -> Iterable[Facts]:
    """The totals of the memory spaces in the report."""
    if message.spaces:
        facts = tuple(
            Fact(
                _space_name(part.name, message),
                (Amount("bytes", unknown_if_none(part.size_bytes), "bytes"),),
            )
            for part in message.spaces
        )
        yield Facts("spaces", facts, title="Memory spaces")


def _space_name(name: str, message: OutOfMemory) -> str:
    if name == _MAIN_IN_REPORT and message.target == "tpu":
        return f"{name} (HBM)"
    return _MISNAMED.get(name, name)


def ranges_note(message: OutOfMemory) -> tuple[Diagnostic, ...]:
    """How the sizes of ranges relate to the total."""
    if not message.has_ranges:
        return ()
    listed, used = sum(each.size_bytes or 0 for each in message.allocations), message.used_bytes
    text = "a range is as large as its largest value, and ranges may overlap: their sizes"
    if used is None:
        return (Diagnostic("note", f"{text} have no meaningful sum"),)
    if listed <= _MAX_SUM_WITHOUT_OVERLAP * used:
        return ()
    sizes = f"({format_bytes(listed)} in all) do not add up to the {format_bytes(used)} needed"
    return (Diagnostic("note", f"{text} {sizes}"),)


# --- messages that are not XLA's ---
# Who reports it, and what ran out.


_NOT_XLA: Final = "Not an XLA message"
_HOST_KINDS: Final[frozenset[OomKind]] = frozenset(("linux-oom-killer", "kubernetes", "slurm", "ray", "process"))


def is_host_only(message: OutOfMemory) -> bool:
    """Whether host memory ran out, and not that of a device.

    >>> from hlo_cli.source import Span
    >>> is_host_only(OutOfMemory("run", Span(0, 0), kind="slurm")), is_host_only(OutOfMemory("run", Span(0, 0)))
    (True, False)
    """
    return message.kind in _HOST_KINDS or message.space == "host" or message.kind == "cpu"


def _answer_of_other(message: OutOfMemory) -> str:
    """One sentence with the figures that the message has.

    >>> from hlo_cli.ir.out_of_memory import OomProcess
    >>> from hlo_cli.source import Span
    >>> process = OomProcess("python3", 12, resident_bytes=3 << 30)
    >>> _answer_of_other(OutOfMemory("run", Span(0, 0), kind="linux-oom-killer", process=process))
    'Not an XLA message: Linux killed python3 (pid 12, 3 GiB) because host memory ran out'
    """
    return f"{_NOT_XLA}: {_ANSWER_BY_KIND.get(message.kind, _allocation)(message)}"


def _linux(message: OutOfMemory) -> str:
    is_group = message.process is not None and message.process.reason == CONTROL_GROUP
    reason = "its control group reached its limit of host memory" if is_group else "host memory ran out"
    return f"Linux killed {_victim(message, 'a process')} because {reason}"


def _kubernetes(message: OutOfMemory) -> str:
    limit = f" ({format_bytes(message.limit_bytes)})" if message.limit_bytes is not None else ""
    return f"Kubernetes killed {_victim(message, 'a container')} because it reached its limit of host memory{limit}"


def _slurm(message: OutOfMemory) -> str:
    group = message.process.group if message.process is not None else ""
    job = f"job step {group}" if group else "the job"
    return f"Slurm killed {_victim(message, 'a process')} because {job} reached its limit of host memory"


def _ray(message: OutOfMemory) -> str:
    victim = _victim(message, "a task or actor")
    if message.used_bytes is None:
        return f"Ray killed {victim} because its node ran low on host memory"
    of = f" of {format_bytes(message.limit_bytes)}" if message.limit_bytes is not None else ""
    return f"Ray killed {victim} because its node used {format_bytes(message.used_bytes)}{of} of host memory"


def _process(message: OutOfMemory) -> str:
    reason = message.process.reason if message.process is not None else ""
    requested = f" of {format_bytes(message.used_bytes)}" if message.used_bytes is not None else ""
    return f"an allocation{requested} of host memory failed" + (f" ({reason})" if reason else "")


def _allocation(message: OutOfMemory) -> str:
    """A request of another framework."""
    framework = "PyTorch" if message.kind == "pytorch" else "TensorFlow"
    name = kernel_name(message.failed) if message.failed is not None else ""
    who = f"{name} of {framework}" if name and not name.startswith("[") else framework
    memory = memory_name(message)
    if message.used_bytes is not None:
        words = f"{who} requested {format_bytes(message.used_bytes)} of {memory}"
    else:
        words = f"{who} ran out of {memory}"
    free, limit = free_bytes(message), message.limit_bytes
    total = message.allocator.limit_bytes if message.allocator is not None else None
    if free is not None:
        of = f" of {format_bytes(total)}" if total else ""
        is_short = message.used_bytes is not None and free < message.used_bytes
        return f"{words}{', but only' if is_short else ';'} {format_bytes(free)}{of} is free"
    return words + (f" (limit {format_bytes(limit)})" if limit is not None else "")


def _victim(message: OutOfMemory, unnamed: str) -> str:
    process = message.process
    if process is None:
        return unnamed
    facts = [f"pid {process.pid}"] if process.pid is not None else []
    facts += [format_bytes(process.resident_bytes)] if process.resident_bytes is not None else []
    facts += [f"exit code {process.exit_code}"] if process.exit_code is not None else []
    return (process.name or unnamed) + (f" ({', '.join(facts)})" if facts else "")


_ANSWER_BY_KIND: Final[dict[OomKind, Callable[[OutOfMemory], str]]] = {
    "linux-oom-killer": _linux,
    "kubernetes": _kubernetes,
    "slurm": _slurm,
    "ray": _ray,
    "process": _process,
}


# --- the first sentence ---
# Which memory, needed and available sizes, and the culprit.


_STAGES_IN_WORDS: Final = {
    "compile": "during compilation",
    "load": "while loading the program",
    "run": "during execution",
}
_AVAILABLE: Final[dict[LimitMeaning, str]] = {
    "capacity": "only {} is available",
    "limit": "the limit is {}",
    "free": "only {} is free",
    "reservable": "only {} can be reserved",
    "": "only {} is available",
}
_MOSTLY_PADDING: Final = 0.2
"""The share of padding that is worth a word in the answer."""
_REQUEST_KINDS: Final = frozenset(
    ("tpu-buffer", "gpu-allocator", "gpu-buffer-assignment", "gpu-driver", "device", "gpu-constant", "cpu")
)
"""Kinds whose size is that of one allocation, not of a program."""
_KERNEL_KINDS: Final = frozenset(("tpu-vmem-scoped", "tpu-vmem-stack"))


def answer_of_message(message: OutOfMemory) -> str:
    """One sentence with the figures that the message has.

    >>> from hlo_cli.source import Span
    >>> message = OutOfMemory("compile", Span(0, 0), "hbm", "tpu", 3 << 30, 2 << 30, 1 << 30, kind="tpu-hbm")
    >>> answer_of_message(message)
    'Out of HBM during compilation: the program needs 3 GiB but only 2 GiB is available (1 GiB over)'
    """
    if message.kind == "rematerialization":
        return _rematerialization(message)
    if message.kind == "arguments":
        return _sizes_in_words(message, "Arguments and results need")
    if not message.is_xla:
        return _answer_of_other(message)
    words = f"Out of {memory_name(message)} {_when(message)}"
    if message.used_bytes is not None:
        words += f": {_sizes_in_words(message, _subject(message))}"
    elif message.limit_bytes is not None:
        available = _AVAILABLE[message.limit_meaning].format(format_bytes(message.limit_bytes))
        words += f": {available.removeprefix('only ')}; the text does not have the needed size"
    else:
        kernel = _kernel(message) if message.kind in _KERNEL_KINDS else ""
        words += f" of {kernel}; the text does not have the sizes" if kernel else "; the text does not have the sizes"
    if message.kind in ("gpu-allocator", "device"):
        words += _in_use(message)
    return words + _program_total(message) + _culprit_in_words(message)


def _when(message: OutOfMemory) -> str:
    name = message.module or message.executable
    if message.stage == "load":
        return f"while loading {name or 'the program'}"
    return f"{_STAGES_IN_WORDS[message.stage]} of {name}" if name else _STAGES_IN_WORDS[message.stage]


def _subject(message: OutOfMemory) -> str:
    """Who needs the memory, with the verb."""
    failed, kernel = message.failed, _kernel(message)
    if message.kind in _REQUEST_KINDS:
        return ""
    if message.kind == "tpu-sparse-core":
        return f"{kernel or 'the kernel'} needs"
    if failed is not None:
        purpose = _tag_words(failed)
        of = f" of {kernel}" if kernel and kernel not in purpose.split() else ""
        return f"{purpose}{of} needs" if purpose else f"{kernel or 'one allocation'} needs"
    if message.kind in ("tpu-vmem-scoped", "tpu-vmem-stack"):
        return f"{kernel or 'the kernel'} needs"
    if message.kind == "gpu-shared-memory":
        return f"{kernel or 'a kernel'} needs"
    return "the program needs" if message.kind != "tpu-other" or message.space else "one allocation needs"


def _kernel(message: OutOfMemory) -> str:
    culprit = next(iter(message.culprits), None)
    if culprit is not None and (name := kernel_name(culprit)):
        return name
    return str(message.cause) if message.cause is not None else ""


def _sizes_in_words(message: OutOfMemory, subject: str) -> str:
    """The needed and the available size; their difference alone if both would read the same."""
    used, limit, over = message.used_bytes or 0, message.limit_bytes, message.exceeded_by_bytes
    needed = format_bytes(used)
    needs = f"{subject} {needed}" if subject else f"{needed} requested"
    if limit is None:
        return needs
    available = _AVAILABLE[message.limit_meaning].format(format_bytes(limit))
    if over is not None and over > 0:
        # `16 GiB but only 16 GiB is available` would read as a contradiction.
        if needed == format_bytes(limit):
            more = f"{format_bytes(over)} more than the {format_bytes(limit)} {_availability(message)}"
            return f"{subject} {more}" if subject else f"{needed} requested, {more}"
        return f"{needs} but {available} ({format_bytes(over)} over)"
    if used > limit:
        return f"{needs} but {available} ({format_bytes(used - limit)} over)"
    return f"{needs}; {available.removeprefix('only ')}"


def _availability(message: OutOfMemory) -> str:
    return {"free": "that is free", "reservable": "that can be reserved", "limit": "of the limit"}.get(
        message.limit_meaning, "available"
    )


def _in_use(message: OutOfMemory) -> str:
    """How much of the memory of an allocator was free when it failed."""
    stats, free = message.allocator, free_bytes(message)
    if stats is None or stats.limit_bytes is None or free is None:
        return ""
    if message.limit_meaning == "free":  # the sentence has it
        return _in_pieces(message, free)
    return f"; {format_bytes(free)} of {format_bytes(stats.limit_bytes)} is free{_in_pieces(message, free)}"


def _in_pieces(message: OutOfMemory, free: int) -> str:
    """The largest free piece, if that is why a request failed."""
    largest = message.allocator.largest_free_block_bytes if message.allocator is not None else None
    requested = message.used_bytes
    if not largest or largest >= free or requested is None or largest >= requested:
        return ""
    return f", the largest piece {format_bytes(largest)}"


def _program_total(message: OutOfMemory) -> str:
    """The size of the whole program, if the failed request was only for its temporary values."""
    stats = message.stats
    if stats is None or not stats.total_bytes or stats.total_bytes <= (message.used_bytes or 0):
        return ""
    return f"; the program needs {format_bytes(stats.total_bytes)} in total"


def _culprit_in_words(message: OutOfMemory) -> str:
    """The largest allocation of a list; an allocation that failed alone is the subject of the sentence."""
    largest = next(iter(message.culprits), None)
    if largest is None or largest.size_bytes is None or largest is message.failed:
        return ""
    if message.kind in ("tpu-vmem-scoped", "tpu-vmem-stack"):
        return ""
    if (place := largest.range) is not None:
        return f"; {_largest_range(largest, place)} ({_size(largest)})"
    name = _name_and_shape(largest)
    return f"; the largest allocation is {name} ({_size(largest)})" if name else f"; the largest has {_size(largest)}"


def _name_and_shape(allocation: OomAllocation) -> str:
    """The instruction of an allocation, else its opcode and shape, else the last part of its op_name."""
    name = culprit_name(allocation)
    shape = allocation.shape.to_string(layout=False) if allocation.shape is not None else ""
    # A parameter's name, such as param.3, says less than its type and sizes.
    if allocation.is_entry_parameter or not name:
        kind = "argument " if allocation.is_entry_parameter else ""
        return f"{kind}{shape}".strip() or _operation_name(allocation)
    if allocation.place is not None:
        return name
    operation = _operation_name(allocation)
    return f"{name} {shape}".strip() + (f" of {operation}" if operation and operation != name else "")


def _size(allocation: OomAllocation) -> str:
    size = allocation.size_bytes or 0
    share = allocation.padding_bytes / size if size and allocation.has_padding else 0.0
    return format_bytes(size) + (f", {format_percent(share)}% padding" if share >= _MOSTLY_PADDING else "")


def _rematerialization(message: OutOfMemory) -> str:
    """A warning: how far the compiler came, and how far it is from its limit."""
    used, limit, original = message.used_bytes, message.limit_bytes, message.original_bytes
    of = f" of {name}" if (name := message.module or message.executable) else ""
    if used is None:
        return f"Rematerialization{of} does not reach its memory limit"
    before = f" from {format_bytes(original)}" if original is not None else ""
    words = f"Rematerialization{of} reduces memory{before} to {format_bytes(used)}"
    if limit is None:
        return words
    over = message.exceeded_by_bytes if message.exceeded_by_bytes is not None else used - limit
    return f"{words}, {format_bytes(over)} over its limit of {format_bytes(limit)}"


# --- advice ---


_MAX_PERCENT: Final = 90
"""The percentage above which sizes read better."""
_DUMP: Final = "XLA_FLAGS='--xla_dump_to=DUMP --xla_dump_hlo_as_text'."


def advice_passage(advice: Sequence[Advice], memory: str) -> tuple[Passage, ...]:
    """The advice as one passage, or nothing; `memory` is the name of the memory that ran out."""
    if not advice:
        return ()
    lines: tuple[Text, ...] = tuple(
        (f"{at}. ", *line_of(_advice_in_words(each, memory))) for at, each in enumerate(advice, 1)
    )
    return (Passage("what_to_do", lines, title="What to do"),)


def _advice_in_words(advice: Advice, memory: str) -> Text:
    match advice:
        case Reorder() | Narrow():
            return _smaller_array(advice)
        case SmallerBlock() | SingleBuffer() | RaiseScopedLimit() | FewerElements():
            return _kernel_words(advice, memory)
        case FreeBuffers() | FreeOthers() | FreeChunks() | Defragment() | RaiseHostLimit() | ListProcesses():
            return _runtime_words(advice)
        case Donate(argument_bytes=arguments, output_bytes=output, shared_bytes=shared, saved_bytes=saved):
            return (
                f"Donate arguments (donate_argnums) to save up to {format_bytes(saved)}: arguments "
                f"({format_bytes(arguments)}) and results ({format_bytes(output)}) share {format_bytes(shared)}."
            )
        case Shard():
            return _shard(advice, memory)
        case ShardValues() | ShrinkRange():
            return _range_words(advice, memory)
        case Shrink():
            return _shrink(advice, memory)
        case Recompute(allocations=kept, size_bytes=size):
            number = format_count(len(kept), "allocations")
            verb = "holds" if len(kept) == 1 else "hold"
            return (
                "Recompute values of the forward pass with jax.checkpoint: "
                f"{number} ({format_bytes(size)}) {verb} values of it for the gradient."
            )
        case Dump(has_rows=has_rows):
            purpose = "see when each buffer is live" if has_rows else "see which buffers fill the memory"
            return f"Dump the program to {purpose}: {_DUMP}"


def _shard(advice: Shard, memory: str) -> Text:
    size, available = format_bytes(advice.size_bytes), format_bytes(advice.available_bytes)
    if (allocation := advice.allocation) is None:
        return (
            f"Shard the arguments over at least {advice.devices:,} devices: they alone need {size}, {memory} has "
            f"{available}."
        )
    reason = f"it alone needs {size}, {memory} has {available}."
    shape = shape_text(allocation.shape) if allocation.range is not None else ""
    name = Run(culprit_name(allocation) or shape or "the array", "name")
    return "Shard ", name, f" over at least {advice.devices:,} devices, or compute it in parts: {reason}"


def _smaller_array(advice: Reorder | Narrow) -> Text:
    before, after = format_bytes(advice.before_bytes), format_bytes(advice.after_bytes)
    saved = format_bytes(advice.saved_bytes)
    if isinstance(advice, Narrow):
        name = _operation_name(advice.allocation) or culprit_name(advice.allocation)
        return ("Compute ", Run(name, "name"), f" in {advice.element_type}: {after} instead of {before}.")
    first = advice.allocations[0]
    order = index_text(advice.layout.minor_to_major)
    others = len(advice.allocations) - 1
    more = f" and {others:,} more of that shape" if others else ""
    shape = _row_major(first.shape, advice.layout.minor_to_major) if isinstance(first.shape, ArrayShape) else ""
    name = first.op_name or culprit_name(first) or "the argument"
    if first.tag == SCRATCH:
        of = f" of {kernel}" if (kernel := kernel_name(first)) else ""
        return f"Declare the scratch operand{of} as {shape}: {after} instead of {before} (saves {saved})."
    return (
        "Pass ",
        Run(name, "name"),
        f"{more} in dimension order {order}, for example as {shape}: {after} instead of {before} (saves {saved}).",
    )


def _row_major(shape: ArrayShape, minor_to_major: Sequence[int]) -> str:
    """The transposed shape whose row-major order is the given dimension order."""
    sizes = ",".join(str(shape.dimensions[d]) for d in reversed(minor_to_major))
    return f"{shape.element_type.name}[{sizes}]"


def _kernel_words(advice: SmallerBlock | SingleBuffer | RaiseScopedLimit | FewerElements, memory: str) -> Text:
    match advice:
        case SmallerBlock(window=window, before=before, block=block, size_bytes=size):
            operand = "scratch operand" if window is None else f"block for {window.role} {window.number}"
            buffers = f" with {window.buffers} buffers" if window is not None and window.buffers > 1 else ""
            return (
                f"Use a smaller {operand}: {block.to_string(layout=False)} needs {format_bytes(size)}{buffers} (now "
                f"{before.to_string(layout=False)}); set vmem_limit_bytes above that."
            )
        case SingleBuffer(window=window, size_bytes=size):
            return (
                f"Use one buffer for {window.role} {window.number}, pipeline_mode=pl.Buffered(buffer_count=1): it then "
                f"needs {format_bytes(size)}."
            )
        case RaiseScopedLimit(limit_bytes=limit, is_kernel=is_kernel, vmem_bytes=chips):
            kernel = f"pltpu.CompilerParams(vmem_limit_bytes={limit}) or " if is_kernel else ""
            return (
                f"Raise the limit to {format_bytes(limit)}: {kernel}LIBTPU_INIT_ARGS="
                f"--xla_tpu_scoped_vmem_limit_kib={advice.limit_kib} (VMEM: {_chips(chips)})."
            )
        case FewerElements():
            return _fewer_elements(advice, memory)


def _fewer_elements(advice: FewerElements, memory: str) -> Text:
    if memory == SEMAPHORES:
        return f"Use at most {advice.most:,} semaphores (now {advice.elements:,})."
    padding = advice.elements - advice.data_elements
    share = f", {format_percent(padding / advice.elements)}% of them padding" if padding else ""
    now = f"now {advice.elements:,}{share}"
    return f"Keep at most {advice.most:,} {advice.element_type} elements in {memory} ({now}), the others in HBM."


def _runtime_words(advice: FreeBuffers | FreeOthers | FreeChunks | Defragment | RaiseHostLimit | ListProcesses) -> Text:
    match advice:
        case FreeBuffers(size_bytes=size, is_load=is_load):
            before = "loading the program" if is_load else "the allocation"
            return f"Delete at least {format_bytes(size)} of arrays before {before}; jax.live_arrays() lists them."
        case FreeOthers(program_bytes=size):
            return (
                f"Delete arrays that are not needed, which jax.live_arrays() lists: this program needs only "
                f"{format_bytes(size)}, so other arrays, programs, or processes fill the memory."
            )
        case FreeChunks(size_bytes=size, chunks=chunks):
            largest_chunks = (
                f"; the largest chunks in use are {chunks.count:,} × {format_bytes(chunks.size_bytes)}"
                if chunks
                else ""
            )
            return f"Free at least {format_bytes(size)}{largest_chunks}."
        case Defragment():
            return _defragment(advice)
        case ListProcesses(requested_bytes=requested):
            return (
                f"List the processes on the GPU with nvidia-smi or rocm-smi: the driver has no "
                f"{format_bytes(requested)} left for this process."
            )
        case RaiseHostLimit():
            return _raise_host_limit(advice)


def _defragment(advice: Defragment) -> Text:
    free, requested = format_bytes(advice.free_bytes), format_bytes(advice.requested_bytes)
    if advice.largest_bytes:
        largest = format_bytes(advice.largest_bytes)
        fact = f"{free} is free, but the largest piece has {largest}: memory is fragmented."
    else:
        fact = f"{free} is free, but not {requested} in one piece: memory is fragmented or held by other processes."
    if advice.is_tpu:
        return f"Load large programs and arrays before small ones. {fact}"
    return f"Set TF_GPU_ALLOCATOR=cuda_malloc_async (in JAX, XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async). {fact}"


def _raise_host_limit(advice: RaiseHostLimit) -> Text:
    used = format_bytes(advice.used_bytes) if advice.used_bytes is not None else ""
    more = f" above {used}" if used else ""
    match advice.setter:
        case "group":
            return f"Raise the memory limit of the control group{more}, or use less memory on the host."
        case "container":
            return f"Raise resources.limits.memory of the container{more}, or use less memory on the host."
        case "job":
            return f"Request more memory for the job (--mem){more}, or use less memory on the host."
        case "node":
            return _use_less_on_node(advice)
        case "machine":
            return "Use less memory on the host, or a machine with more memory."


def _use_less_on_node(advice: RaiseHostLimit) -> Text:
    larger = f" than {format_bytes(advice.limit_bytes)}" if advice.limit_bytes else ""
    fewer = f" to save {format_bytes(advice.excess_bytes)}" if advice.excess_bytes and advice.excess_bytes > 0 else ""
    return f"Run fewer or smaller tasks on the node{fewer}, or use a node with more memory{larger}."


def _shrink(advice: Shrink, memory: str) -> Text:
    if advice.percent > _MAX_PERCENT:
        target_bytes = advice.size_bytes - advice.excess_bytes
        target = ", the memory limit of the compiler" if advice.is_compiler_limit else ""
        sizes = f"from {format_bytes(advice.size_bytes)} to at most {format_bytes(target_bytes)}"
        return f"Shrink {advice.part} {sizes}{target}."
    sizes = f"{format_bytes(advice.excess_bytes)} of {format_bytes(advice.size_bytes)}"
    match advice.part:
        case "blocks and scratch":
            return f"Use smaller blocks: blocks and scratch must shrink by {advice.percent:g}% ({sizes})."
        case "shared memory":
            return f"Use smaller blocks or fewer stages: shared memory must shrink by {advice.percent:g}% ({sizes})."
        case "scalars and semaphores":
            return f"Keep less in {memory}: its use must shrink by {advice.percent:g}% ({sizes})."
        case part:
            return f"Shrink {part} by {advice.percent:g}% ({sizes}), for example with a smaller batch."


def _chips(chips: Iterable[tuple[str, int]]) -> str:
    by_size: dict[int, list[str]] = {}
    for name, size in chips:
        by_size.setdefault(size, []).append(name)
    return ", ".join(f"{format_bytes(size)} on {_joined(names)}" for size, names in by_size.items())


def _joined(names: Sequence[str]) -> str:
    """Names as in a sentence, with a serial comma."""
    *most, last = names
    return f"{', '.join(most)}{',' if len(most) > 1 else ''} and {last}" if most else last
