"""One out-of-memory message from its first sentence and the text that belongs to it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from hlo_cli.ir.out_of_memory import AllocatorStats, LimitMeaning, MemoryPart, OomAllocation, OomKind, OutOfMemory
from hlo_cli.source import Span
from hlo_cli.syntax.compiler_files.names import Places, Shapes
from hlo_cli.syntax.out_of_memory.allocations import allocations_of
from hlo_cli.syntax.out_of_memory.heads import TPU_SPACE
from hlo_cli.syntax.out_of_memory.messages import SPARSE_CORE_SPACES, FoundHead
from hlo_cli.syntax.out_of_memory.processes import memory_users, process_limit, process_of
from hlo_cli.syntax.out_of_memory.records import (
    record_after,
    retold_allocation,
    retold_kernel,
    sparse_core_allocation,
    stack_allocation,
    tensor_allocation,
)
from hlo_cli.syntax.out_of_memory.tables import (
    Details,
    allocator_stats,
    assignment_stats,
    chunk_groups,
    free_bytes,
    output_bytes,
    program_parts,
    temp_usage,
    usage_parts,
)

_KINDS: Final[dict[str, OomKind]] = {
    "hbm": "tpu-hbm",
    "vmem": "tpu-vmem",
    "smem": "tpu-smem",
    "cmem": "tpu-cmem",
    "host": "tpu-host",
    "spmem": "tpu-sparse-core",
    "tile_spmem": "tpu-sparse-core",
    "tilespmem": "tpu-sparse-core",
}
_MODULE = re.compile(r"\s*([\w.$<>:\-]{1,300})")
_REST_OF_MODULE = re.compile(r"\n[ \t]*([\w.$<>\-]{1,300}?\.)(?=\s|\Z)")
_LABEL_LINE = re.compile(r"[^\n]*+(?:\n(?![ \t]*\n)[^\n]*+){0,40}")
_LONGEST_LABEL: Final = 100_000
_ONLY_CULPRIT: Final[dict[OomKind, str]] = {"arguments": "arguments", "gpu-constant": "new constant"}
_REQUIRED = re.compile(r"OP_REQUIRESfailedat([\w.]{1,100}:[0-9]{1,6}):[A-Za-z_]{0,40}:?\Z")
_NEAR: Final = 200
_CORES: Final = ("TensorCore", "SparseCore")
_TABLES_OF: Final = ("device", "gpu-buffer-assignment", "gpu-allocator", "gpu-driver", "tensorflow")


def message_of(
    found: FoundHead, stack_end: int | None, details: Details, places: Places, shapes: Shapes
) -> OutOfMemory:
    """The message that begins with a sentence; its span is left to the caller.

    >>> from hlo_cli.syntax.out_of_memory.messages import found_heads
    >>> from hlo_cli.syntax.out_of_memory.tables import details_of
    >>> details = details_of("Out of memory allocating 64 bytes.")
    >>> message_of(found_heads(details.squeezed)[0], None, details, Places(None), Shapes()).used_bytes
    64
    """
    head, groups = found.head, found.groups
    failed, space = _failed(found, stack_end, details, places, shapes)
    listed = tuple(allocations_of(details, places, shapes)) or memory_users(found, details)
    if not listed and failed is None and (retold := retold_allocation(details, places, shapes)):
        listed = (retold,)
    output, shared = output_bytes(details)
    stats = assignment_stats(details)
    process = process_of(found, details.squeezed)
    used, limit, over = _figures(found, failed)
    meaning: LimitMeaning = head.meaning if limit is not None else ""
    if process is not None:
        used = process.resident_bytes if used is None else used
        if limit is None and (limit := process_limit(found, details.squeezed)) is not None:
            meaning = "limit"
    if over is None and used is not None and limit is not None and used > limit:
        over = used - limit
    kind = _kind(found, space)
    if kind == "device" and (stats is not None or listed):
        kind = "gpu-buffer-assignment"
    message = OutOfMemory(
        head.stage,
        Span(0, 0),
        space,
        "gpu" if kind == "gpu-buffer-assignment" else head.target,
        used,
        limit,
        over,
        found.code,
        groups.get("device") or groups.get("device2", ""),
        _module(found, details),
        failed.place if failed is not None else None,
        _usage(found, details),
        output,
        shared,
        program_parts(details),
        temp_usage(details),
        stats,
        allocations=listed or ((failed,) if failed is not None else ()),
        kind=kind,
        limit_meaning=meaning,
        executable=groups.get("executable", ""),
        failed=failed,
        free_bytes=found.size("free"),
        reserved_bytes=found.size("reserved"),
        original_bytes=found.size("original", "before"),
        process=process,
        allocator=_other_allocator(found),
    )
    return with_tables_before(message, details)


def with_tables_before(message: OutOfMemory, details: Details) -> OutOfMemory:
    """A message of a GPU with the tables of its allocator, if it has none: these may come before or after it."""
    if message.kind not in _TABLES_OF or (message.chunks and message.allocator is not None):
        return message
    chunks, allocator, free = chunk_groups(details), allocator_stats(details), free_bytes(details)
    if not chunks and allocator is None:
        return message
    message = replace(message, target="gpu", chunks=message.chunks or chunks, allocator=message.allocator or allocator)
    allocator = message.allocator
    if free is None and allocator is not None and allocator.limit_bytes and allocator.in_use_bytes is not None:
        free = max(allocator.limit_bytes - allocator.in_use_bytes, 0)
    if message.limit_bytes is not None or free is None:
        return message
    used = message.used_bytes
    over = used - free if used is not None and used > free else None
    return replace(message, limit_bytes=free, limit_meaning="free", free_bytes=free, exceeded_by_bytes=over)


def _figures(found: FoundHead, failed: OomAllocation | None) -> tuple[int | None, int | None, int | None]:
    """The needed and the available size, and the excess if the sentence has it."""
    used = found.size("used", "approximate")
    if "tensor_core" in found.groups:
        used = (found.size("tensor_core") or 0) + (found.size("sparse_core") or 0)
    if found.head.kind == "tensorflow" and failed is not None:
        used = failed.size_bytes
    limit = found.size("limit", "limit2")
    if limit is None and found.head.kind == "rematerialization":
        limit = found.size("about")
    if found.head.kind == "ray" and (capacity := found.size("capacity")) is not None:
        threshold = round(capacity * float(found.groups.get("threshold", "1")))
        return used, capacity, max((used or 0) - threshold, 0) or None
    return used, limit, found.size("over")


def _failed(
    found: FoundHead, stack_end: int | None, details: Details, places: Places, shapes: Shapes
) -> tuple[OomAllocation | None, str]:
    """The allocation that the message names, and its memory space."""
    space, groups = _space(found), found.groups
    if "stack" in groups:
        label = _stack_label(found, stack_end, details)
        return stack_allocation(label, found.size("used"), places, shapes), space
    if "record" in groups and (record := record_after(details, found.size("used"), places, shapes)):
        return record.allocation, record.space or space
    if found.head.kind == "tensorflow":
        tensor = tensor_allocation(groups.get("dimensions", ""), groups.get("type", ""), shapes)
        kernel = _REQUIRED.search(details.squeezed.text, max(0, found.start - _NEAR), found.start)
        return (replace(tensor, label=kernel[1]) if kernel else tensor), space
    if found.head.kind == "tpu-sparse-core" and (allocation := sparse_core_allocation(found, details, places, shapes)):
        return allocation, space
    if found.head.is_weak and found.head.kind == "tpu-vmem-scoped":
        return retold_kernel(details, found.size("used"), places), space
    if found.head.kind in _ONLY_CULPRIT:
        return OomAllocation(found.size("used"), label=_ONLY_CULPRIT[found.head.kind]), space
    return None, space


def _space(found: FoundHead) -> str:
    space = found.groups.get("space", "")
    if found.head.kind == "tpu-sparse-core" and space.isdigit():
        space = SPARSE_CORE_SPACES.get(space, space)
    if found.head.kind == "gpu-shared-memory":
        space = found.head.space
    return (space or found.head.space).lower()


def _kind(found: FoundHead, space: str) -> OomKind:
    kind = found.head.kind
    if kind != TPU_SPACE:
        return kind
    if "stack" in found.groups and space == "vmem":
        return "tpu-vmem-stack"
    return _KINDS.get(space, TPU_SPACE)


def _other_allocator(found: FoundHead) -> AllocatorStats | None:
    """The figures of another framework's allocator; those of XLA's come in tables of their own."""
    capacity, in_use = found.size("capacity", "capacity2"), found.size("in_use")
    if found.head.kind != "pytorch" or (capacity is None and in_use is None):
        return None
    return AllocatorStats(limit_bytes=capacity, in_use_bytes=in_use, reserved_bytes=found.size("reserved"))


def _usage(found: FoundHead, details: Details) -> tuple[MemoryPart, ...]:
    """The parts of the usage; both cores' if the sentence has them."""
    if found.head.kind == "tpu-hbm" and "tensor_core" in found.groups:
        return tuple(
            MemoryPart(name, found.size(group))
            for name, group in zip(_CORES, ("tensor_core", "sparse_core"), strict=True)
        )
    return usage_parts(details)


def _module(found: FoundHead, details: Details) -> str:
    """The name of the module after `HLO module:`, which ends with a period."""
    if "module" not in found.groups:
        return ""
    source, origin = details.squeezed.source, details.squeezed.origin(found.ends["module"])
    name = _MODULE.match(source, origin)
    if name is None:
        return ""
    rest = _REST_OF_MODULE.match(source, name.end()) if not name[1].endswith(".") else None
    return (name[1] + (rest[1] if rest else "")).partition(".See")[0].rstrip(".")


def _stack_label(found: FoundHead, stack_end: int | None, details: Details) -> str:
    """The text of the instruction on whose stack the allocation is."""
    squeezed = details.squeezed
    origin = squeezed.origin(found.ends["stack"])
    if stack_end is not None:
        return squeezed.source[origin : min(squeezed.end_origin(stack_end), origin + _LONGEST_LABEL)].rstrip(" .\n")
    label = _LABEL_LINE.match(squeezed.source, origin, min(squeezed.end_origin(details.end), origin + _LONGEST_LABEL))
    lines = label[0].split("\n") if label else []
    kept, depth = [], 0
    for line in lines:
        kept.append(line)
        depth += sum(map(line.count, "([{")) - sum(map(line.count, ")]}"))
        if depth <= 0:
            break
    return "\n".join(kept)
