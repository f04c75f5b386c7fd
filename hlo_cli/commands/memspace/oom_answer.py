"""The first sentence on an out-of-memory message: which memory, needed and available sizes, and the culprit."""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.out_of_memory.advice import free_bytes
from hlo_cli.commands.memspace.oom_names import culprit_name, kernel_name, memory_name, operation_name, tag_words
from hlo_cli.commands.memspace.oom_other import answer_of_other
from hlo_cli.commands.memspace.oom_ranges import largest_range
from hlo_cli.ir.out_of_memory import LimitMeaning, OomAllocation, OutOfMemory
from hlo_cli.report.numbers import format_bytes, format_percent

_WHEN: Final = {"compile": "during compilation", "load": "while loading the program", "run": "during execution"}
_AVAILABLE: Final[dict[LimitMeaning, str]] = {
    "capacity": "only {} is available",
    "limit": "the limit is {}",
    "free": "only {} is free",
    "reservable": "only {} can be reserved",
    "": "only {} is available",
}
_MOSTLY_PADDING: Final = 0.2
"""The share of padding that is worth a word in the answer."""
_REQUESTS: Final = frozenset(
    ("tpu-buffer", "gpu-allocator", "gpu-buffer-assignment", "gpu-driver", "device", "gpu-constant", "cpu")
)
"""Kinds whose size is that of one allocation, not of a program."""
_KERNELS: Final = frozenset(("tpu-vmem-scoped", "tpu-vmem-stack"))


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
        return _figures(message, "Arguments and results need")
    if not message.is_xla:
        return answer_of_other(message)
    words = f"Out of {memory_name(message)} {_when(message)}"
    if message.used_bytes is not None:
        words += f": {_figures(message, _subject(message))}"
    elif message.limit_bytes is not None:
        available = _AVAILABLE[message.limit_meaning].format(format_bytes(message.limit_bytes))
        words += f": {available.removeprefix('only ')}; the text does not have the needed size"
    else:
        kernel = _kernel(message) if message.kind in _KERNELS else ""
        words += f" of {kernel}; the text does not have the sizes" if kernel else "; the text does not have the sizes"
    if message.kind in ("gpu-allocator", "device"):
        words += _in_use(message)
    return words + _total(message) + _culprit(message)


def _when(message: OutOfMemory) -> str:
    name = message.module or message.executable
    if message.stage == "load":
        return f"while loading {name or 'the program'}"
    return f"{_WHEN[message.stage]} of {name}" if name else _WHEN[message.stage]


def _subject(message: OutOfMemory) -> str:
    """Who needs the memory, with the verb."""
    failed, kernel = message.failed, _kernel(message)
    if message.kind in _REQUESTS:
        return ""
    if message.kind == "tpu-sparse-core":
        return f"{kernel or 'the kernel'} needs"
    if failed is not None:
        purpose = tag_words(failed)
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


def _figures(message: OutOfMemory, subject: str) -> str:
    """The needed and the available size; their difference alone if both would read the same."""
    used, limit, over = message.used_bytes or 0, message.limit_bytes, message.exceeded_by_bytes
    needed = format_bytes(used)
    needs = f"{subject} {needed}" if subject else f"{needed} requested"
    if limit is None:
        return needs
    available = _AVAILABLE[message.limit_meaning].format(format_bytes(limit))
    if over is not None and over > 0:
        if needed == format_bytes(limit):
            more = f"{format_bytes(over)} more than the {format_bytes(limit)} {_is(message)}"
            return f"{subject} {more}" if subject else f"{needed} requested, {more}"
        return f"{needs} but {available} ({format_bytes(over)} over)"
    if used > limit:
        return f"{needs} but {available} ({format_bytes(used - limit)} over)"
    return f"{needs}; {available.removeprefix('only ')}"


def _is(message: OutOfMemory) -> str:
    return {"free": "that is free", "reservable": "that can be reserved", "limit": "of the limit"}.get(
        message.limit_meaning, "available"
    )


def _in_use(message: OutOfMemory) -> str:
    """How much of the memory of an allocator was free when it failed."""
    stats, free = message.allocator, free_bytes(message)
    if stats is None or stats.limit_bytes is None or free is None or message.limit_meaning == "free":
        return ""
    return f"; {format_bytes(free)} of {format_bytes(stats.limit_bytes)} is free"


def _total(message: OutOfMemory) -> str:
    """The size of the whole program, if the failed request was only for its temporary values."""
    stats = message.stats
    if stats is None or not stats.total_bytes or stats.total_bytes <= (message.used_bytes or 0):
        return ""
    return f"; the program needs {format_bytes(stats.total_bytes)} in total"


def _culprit(message: OutOfMemory) -> str:
    """The largest allocation of a list; an allocation that failed alone is the subject of the sentence."""
    largest = next(iter(message.culprits), None)
    if largest is None or largest.size_bytes is None or largest is message.failed:
        return ""
    if message.kind in ("tpu-vmem-scoped", "tpu-vmem-stack"):
        return ""
    if (place := largest.range) is not None:
        return f"; {largest_range(largest, place)} ({_size(largest)})"
    name = _named(largest)
    return f"; the largest allocation is {name} ({_size(largest)})" if name else f"; the largest has {_size(largest)}"


def _named(allocation: OomAllocation) -> str:
    """The instruction of an allocation, else its opcode and shape, else the last part of its op_name."""
    name = culprit_name(allocation)
    shape = allocation.shape.to_string(layout=False) if allocation.shape is not None else ""
    if allocation.is_entry_parameter or not name:
        kind = "argument " if allocation.is_entry_parameter else ""
        return f"{kind}{shape}".strip() or operation_name(allocation)
    if allocation.place is not None:
        return name
    operation = operation_name(allocation)
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
