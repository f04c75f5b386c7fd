"""What one failure says: a message from its first sentence and the text that belongs to it, or several joined."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.out_of_memory import (
    OOM_REQUESTS,
    AllocatorStats,
    LimitMeaning,
    MemoryPart,
    OomAllocation,
    OomKind,
    OomProcess,
    OutOfMemory,
)
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.ir.type_names import xla_type
from hlo_cli.source import Span
from hlo_cli.syntax.byte_sizes import byte_number
from hlo_cli.syntax.compiler_files.memory_files import Places, Shapes
from hlo_cli.syntax.out_of_memory.allocations import (
    OP_NAME,
    SOURCE_FILE,
    Details,
    allocations_of,
    allocator_stats,
    assignment_stats,
    chunk_groups,
    custom_kernel,
    free_bytes,
    label_parts,
    output_bytes,
    program_parts,
    purpose_of,
    shape_end,
    spaced_tag,
    tagged_place,
    temp_usage,
    usage_parts,
    window_shape_of,
)
from hlo_cli.syntax.out_of_memory.message_heads import SPARSE_CORE_SPACES, TPU_SPACE, FoundHead, Squeezed, one_line

# --- the allocation that a message names ---
# The one allocation that a message names: in brackets after it, or on the stack of an instruction.


_SHAPE = re.compile(r"shape[=:]'?(\([^']{1,20000}?\)(?=')|[a-z][a-z0-9]{0,20}+\[[^\]\[]{0,400}\](?:\{[^{}]{0,200}\})?)")
_SPACE = re.compile(r"[,'\s]space=([a-z_]{1,24})(?=[^a-z_]|\Z)")
_TAG = re.compile(r"tag=['\"]([^'\"]{0,4000})")
_HOST = re.compile(r"::(%?[\w.\-]{1,60})=(\w[\w.]{0,60})\[")
_KIND = re.compile(r"\bkind:(\w{1,30})")
_OPERAND = re.compile(r"/\*?operand([0-9]{1,6})\*?/")
_LABEL_END = re.compile(r"\s::\s+([\w.\-<>$/]{1,400})")
_END_OF_STRING = re.compile(r"""\\*["'][}\])\\"']{0,20}\s*\Z""")
# A record has a shape, an op_name, and a line of source; tuples make it some thousand characters.
_LONGEST: Final = 6000
_PARAGRAPH = re.compile(r"\n[ \t]*\n")
_ALLOCATION = re.compile(r"#allocation[0-9]{1,9}")
_ALLOCA = re.compile(r"(?:Hlo-Op:|pipeline\.)([\w.\-]{1,200}?)((?::[0-9]{1,9}){1,2}):error")
_WORDS = re.compile(r"memref<((?:[0-9]{1,12}x){1,8})([a-z]{1,4}[0-9]{1,3})")
_SHAPE_RETOLD = re.compile(r'op_name="([^"]{1,2000})"(?:source_file="[^"]{0,500}")?(?:source_line=[0-9]{1,9})?Shape:')
_LARGEST = re.compile(
    r"[Ll]argest (?:\w{1,20} )?(?:allocations?|temporar(?:y|ies)|buffers?)\b"
    r"(?P<text>[^\n]{0,300}(?:\n(?![ \t]*\n)[^\n]{0,300}){0,4})"
)
_REQUESTS = re.compile(r"(?<![\w.])([A-Za-z]\w{0,200}_\w{1,200})`? (?:requested|requests|requires|needs) ")
_RETOLD_SIZE = re.compile(r"(?<![\w.])([0-9]{1,6}(?:\.[0-9]{1,6})?) ?([KMGT])i?B?\b")
_RETOLD_NAME = re.compile(r"label(?:l?ed)? [`'\"]?%?([a-zA-Z][\w.\-]{0,200})")
_RETOLD_OP_NAME = re.compile(r"\b((?:jit|pjit|pmap)\([\w\-<>.]{0,100}\)/[\w()/.\-\[\]=,]{1,600})")
_ANY_SHAPE = re.compile(r"\b[a-z][a-z0-9]{1,20}\[[0-9]{1,12}(?:, ?[0-9]{1,12}){0,12}\](?:\{[^{}\n]{0,200}\})?")
_RETOLD_WITHIN: Final = 1500  # what belongs to a sign is in its paragraph, some lines of a terminal
_SOURCE_LINE = re.compile(r"\bsource_line=([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class Record:
    """An allocation, and the memory space that the record names."""

    allocation: OomAllocation
    space: str = ""


def _record_after(details: Details, size_bytes: int | None, places: Places, shapes: Shapes) -> Record | None:
    """The failed allocation of a message, from the brackets after it.

    >>> from hlo_cli.syntax.out_of_memory.allocations import details_of
    >>> text = " :: #allocation7 [shape = 'f32[8]{0}', space=hbm, size = 0x20, tag = 'output of add.3@{1}'] :: <none>"
    >>> record = _record_after(details_of(text), 32, Places(None), Shapes())
    >>> record.space, str(record.allocation.place), record.allocation.tag
    ('hbm', 'add.3{1}', 'output of add.3{1}')
    """
    squeezed = details.squeezed
    end = _paragraph_end(details)
    text = squeezed.text
    shape = _SHAPE.search(text, details.start, end)
    tag_found = _TAG.search(text, details.start, end)
    if shape is None and tag_found is None:
        return None
    space = _SPACE.search(text, details.start, end)
    tag_text = spaced_tag(squeezed.words(*tag_found.span(1))) if tag_found else ""
    tag, operand = purpose_of(tag_text)
    space_name = space[1] if space else ""
    if (host := _HOST.search(text, details.start, end)) and host[2].endswith(".host"):
        space_name = "host"
        kind = _KIND.search(text, host.end(), end)
        number = _OPERAND.search(text, host.end(), end)
        tag, operand = (kind[1] if kind else ""), (int(number[1]) if number else None)
    label = _label(squeezed, details.start, end)
    if (not label or label.startswith("<")) and (number := _ALLOCATION.search(text, details.start, end)):
        label = number[0]
    named = tagged_place(tag_text)
    place = places.of(*named) if named else (places.of(label) if label and label[0] not in "<#" else None)
    window, buffering = window_shape_of(tag_text)
    is_scoped = ",scoped" in text[details.start : end]
    allocation = OomAllocation(
        size_bytes,
        shapes.of(shape[1]) if shape else None,
        label=label,
        place=place,
        kind="scoped" if is_scoped else "",
        tag=tag,
        tag_text=tag_text,
        operand_number=operand,
        kernel=custom_kernel(place.name, "tpu_custom_call", "") if place is not None and is_scoped else "",
        window=shapes.of(window) if window else None,
        buffering=buffering,
    )
    return Record(allocation, space_name)


def _stack_allocation(label: str, size_bytes: int | None, places: Places, shapes: Shapes) -> OomAllocation:
    """The allocation on the stack of an instruction, whose text is the label.

    >>> label = '%k.1 = f32[8]{0} custom-call(%p), custom_call_target="tpu_custom_call", metadata={op_name="f/k"}'
    >>> allocation = _stack_allocation(label, 64, Places(None), Shapes())
    >>> str(allocation.place), str(allocation.shape), allocation.opcode, allocation.kernel
    ('k.1', 'f32[8]{0}', 'custom-call', 'k')
    """
    if label.count('"') % 2 or sum(map(label.count, "([{")) != sum(map(label.count, ")]}")):
        label = _END_OF_STRING.sub("", label)
    name, opcode, shape, target = label_parts("".join(label.split()))
    op_name = match[1] if (match := OP_NAME.search(label)) else ""
    file = SOURCE_FILE.search(label)
    line = _SOURCE_LINE.search(label)
    return OomAllocation(
        size_bytes,
        shapes.of(shape) if shape else None,
        label=one_line(label),
        place=places.of(name) if name else None,
        opcode=opcode,
        op_name=op_name,
        source_file=file[1] if file else "",
        source_line=int(line[1]) if line else None,
        kind="scoped",
        kernel=custom_kernel(name, target, op_name),
        target=target,
    )


def _label(squeezed: Squeezed, start: int, end: int) -> str:
    """The name after the last `::` of a record."""
    source = squeezed.source[squeezed.origin(start) : squeezed.end_origin(end)]
    bracket = source.rfind("]")
    if bracket < 0:
        return ""
    match = _LABEL_END.search(source, bracket)
    return match[1] if match else ""


def _paragraph_end(details: Details) -> int:
    """The end of the text that can belong to a record: at a blank line, at most some thousand characters."""
    end = min(details.end, details.start + _LONGEST)
    source = details.squeezed.source
    origin, last = details.squeezed.origin(details.start), details.squeezed.end_origin(end)
    blank = _PARAGRAPH.search(source, origin, last)
    return end if blank is None else max(details.start, min(end, details.squeezed.index_of(blank.start())))


def _tensor_allocation(dimensions: str, type_name: str, shapes: Shapes) -> OomAllocation:
    """The tensor that TensorFlow could not allocate.

    >>> _tensor_allocation("4,8", "float", Shapes()).size_bytes
    128
    """
    element = xla_type(type_name) or type_name
    sizes = [int(size) for size in dimensions.split(",") if size.strip()]
    if not element:
        return OomAllocation(label=f"[{','.join(map(str, sizes))}]")
    shape = shapes.of(f"{element}[{','.join(map(str, sizes))}]")
    return OomAllocation(shape.logical_bytes if isinstance(shape, ArrayShape) else None, shape)


def _sparse_core_allocation(head: FoundHead, details: Details, places: Places, shapes: Shapes) -> OomAllocation | None:
    """The allocation on a SparseCore that did not fit: its size in words and its type in the compiler's dialect."""
    text, end = details.squeezed.text, min(details.end, details.start + _LONGEST)
    size = head.size("request")
    if size is None and "memref.alloca" not in text[max(0, head.start - _RETOLD_WITHIN) : head.start]:
        return None
    kind = _WORDS.search(text, details.start, end)
    where = _ALLOCA.search(text, max(0, head.start - _RETOLD_WITHIN), head.start)
    shape = f"{_mlir_type(kind[2])}[{kind[1].rstrip('x').replace('x', ',')}]" if kind else ""
    label = f"memref.alloca ({where[1]}{where[2]})" if where else "memref.alloca"
    place = places.of(where[1]) if where else None
    return OomAllocation(size, shapes.of(shape) if shape else None, label=label, place=place)


def _retold_kernel(details: Details, size_bytes: int | None, places: Places) -> OomAllocation | None:
    """The kernel that a person names as the one that requests too much.

    >>> from hlo_cli.syntax.out_of_memory.allocations import details_of
    >>> _retold_kernel(details_of("CompileTimeScopedVmemOom; `my_kernel` requested 17M"), None, Places(None)).label
    'my_kernel'
    """
    source = details.squeezed.source
    begin = details.squeezed.origin(details.start)
    match = _REQUESTS.search(source, begin, min(begin + _RETOLD_WITHIN, details.squeezed.end_origin(details.end)))
    if match is None:
        return None
    return OomAllocation(size_bytes, label=match[1], place=places.of(match[1]), kind="scoped", kernel=match[1])


def _retold_allocation(details: Details, places: Places, shapes: Shapes) -> OomAllocation | None:
    """The largest allocation as a person wrote it down; None if a shape is not given.

    >>> from hlo_cli.syntax.out_of_memory.allocations import details_of
    >>> text = "The largest allocation is the temp `bf16[5,8]`, **1.00 GiB**, labeled `fusion.4`."
    >>> str(_retold_allocation(details_of(text), Places(None), Shapes()).shape)
    'bf16[5,8]{1,0}'
    """
    text, end = details.squeezed.text, min(details.end, details.start + _RETOLD_WITHIN)
    if named := _SHAPE_RETOLD.search(text, details.start, end):
        stop = shape_end(text, named.end(), end)
        op_name = details.squeezed.words(*named.span(1))
        if stop > named.end():
            kernel = custom_kernel("", "", op_name)
            return OomAllocation(shape=shapes.of(text[named.end() : stop]), op_name=op_name, kernel=kernel)
    source = details.squeezed.source
    largest = _LARGEST.search(source, details.squeezed.origin(details.start), details.squeezed.end_origin(end))
    shape = _ANY_SHAPE.search(largest["text"]) if largest else None
    if largest is None or shape is None:
        return None
    size, name = _RETOLD_SIZE.search(largest["text"]), _RETOLD_NAME.search(largest["text"])
    path = _RETOLD_OP_NAME.search(largest["text"])
    return OomAllocation(
        byte_number(f"{size[1]}{size[2]}") if size else None,
        shapes.of(shape[0].replace(" ", "")),
        label=name[1].rstrip(".") if name else "",
        place=places.of(name[1].rstrip(".")) if name else None,
        op_name=path[1].rstrip(".") if path else "",
    )


def _mlir_type(name: str) -> str:
    return f"s{name[1:]}" if name[0] == "i" else name


# --- processes that were stopped ---
# Processes that the kernel, a container, or a scheduler stopped because they used too much memory.


_STEP = re.compile(r"(?:StepId=|step)([0-9]{1,12}(?:[._][\w]{1,20}?)??)(?=\.?(?:Some|cgroup|$)|\.[A-Z]|[^\w.])")
_CGROUP_LIMIT = re.compile(r"usage([0-9]{1,16})kB,limit([0-9]{1,16})kB")
_EXIT_CODE = re.compile(r"[Ee]xit ?[Cc]ode:?([0-9]{1,3})")
_KILLED = re.compile(r"line [0-9]{1,6}:\s{1,9}([0-9]{1,9}) Killed\s{1,60}(\S{1,200})")
_USERS = re.compile(r"PID\s{1,20}MEM\(GB\)\s{1,20}COMMAND\s*\n")
_USER = re.compile(r"[ \t]*([0-9]{1,9})[ \t]{1,20}([0-9]{1,9}\.[0-9]{1,6})[ \t]{1,20}([^\n]{1,500})(?:\n|\Z)")
_PROCESS_REACH: Final = 3000  # the kernel prints its tables of memory before the line on the process that it kills
_LONGEST_REASON: Final = 60  # a sign that is a sentence is no word for a reason


def _process_of(head: FoundHead, squeezed: Squeezed) -> OomProcess | None:
    """The process in a message; None for messages of other kinds.

    >>> from hlo_cli.syntax.out_of_memory.message_heads import found_heads
    >>> from hlo_cli.syntax.out_of_memory.message_heads import squeeze
    >>> text = squeeze("Out of memory: Killed process 7 (python3) total-vm:4kB, anon-rss:2kB, file-rss:1kB")
    >>> process = _process_of(found_heads(text)[0], text)
    >>> process.name, process.pid, process.virtual_bytes, process.resident_bytes
    ('python3', 7, 4096, 3072)
    """
    if head.head.kind not in ("linux-oom-killer", "kubernetes", "slurm", "ray", "process"):
        return None
    groups = head.groups
    resident = [size for name in ("anonymous", "file", "shared") if (size := head.size(name)) is not None]
    group = groups.get("memcg", "")
    if "step" in groups and (step := _STEP.match(squeezed.text, head.ends["step"] - len(groups["step"]))):
        group = step[1]
    name, pid = (
        squeezed.words(head.ends["process"] - len(groups["process"]), head.ends["process"])
        if "process" in groups
        else "",
        groups.get("pid"),
    )
    if head.head.kind in ("slurm", "process") and not name:
        begin = squeezed.origin(max(0, head.start - _PROCESS_REACH))
        # bash reports the killed process on the line after the message
        if killed := _KILLED.search(squeezed.source, begin, squeezed.end_origin(head.end) + 200):
            pid, name = killed[1], killed[2]
    # `Exit Code` is a field of its own in `kubectl describe`, next to the reason
    exit_code = _EXIT_CODE.search(squeezed.text, max(0, head.start - 100), head.end + 100)
    is_container = head.head.kind == "kubernetes"
    process = OomProcess(
        name,
        int(pid) if pid else None,
        head.size("virtual"),
        sum(resident) if resident else head.size("resident"),
        head.size("anonymous"),
        group,
        _reason(head, squeezed),
        int(exit_code[1]) if exit_code and is_container else None,
    )
    return process if process != OomProcess() else None


def _reason(head: FoundHead, squeezed: Squeezed) -> str:
    """The word of the reporter: of the message, or the whole of a sign that is only a word."""
    if reason := head.groups.get("reason"):
        return reason
    if "group" in head.groups:
        return "CONSTRAINT_MEMCG"
    words = squeezed.words(head.start, head.end) if head.head.is_weak else ""
    return words if len(words) <= _LONGEST_REASON else ""


def _process_limit(head: FoundHead, squeezed: Squeezed) -> int | None:
    """The limit of the control group in bytes, from the kernel's lines before the message."""
    if head.head.kind != "linux-oom-killer":
        return None
    limits = _CGROUP_LIMIT.search(squeezed.text, max(0, head.start - _PROCESS_REACH), head.end)
    return int(limits[2]) * 1024 if limits else None


def _memory_users(head: FoundHead, details: Details) -> tuple[OomAllocation, ...]:
    """The processes that Ray lists as the largest users of a node's memory, as allocations of kind `process`."""
    if head.head.kind != "ray" or (table := _USERS.search(details.source)) is None:
        return ()
    users = []
    at = table.end()
    while user := _USER.match(details.source, at):
        users.append(OomAllocation(byte_number(f"{user[2]}G"), label=user[3].strip(), kind="process"))
        at = user.end()
    return tuple(users)


# --- one message ---
# One out-of-memory message from its first sentence and the text that belongs to it.


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
_LONGEST_LABEL: Final = 100_000  # an instruction with a tuple of thousands of arrays
_ONLY_CULPRIT: Final[dict[OomKind, str]] = {"arguments": "arguments", "gpu-constant": "new constant"}
_REQUIRED = re.compile(r"OP_REQUIRESfailedat([\w.]{1,100}:[0-9]{1,6}):[A-Za-z_]{0,40}:?\Z")
_KERNEL_REACH: Final = 200  # TensorFlow names the kernel, a file and its line, directly before the message
_CORES: Final = ("TensorCore", "SparseCore")
_TABLES_OF: Final = ("device", "gpu-buffer-assignment", "gpu-allocator", "gpu-driver", "tensorflow")


def message_of(
    found: FoundHead, stack_end: int | None, details: Details, places: Places, shapes: Shapes
) -> OutOfMemory:
    """The message that begins with a sentence; its span is left to the caller.

    >>> from hlo_cli.syntax.out_of_memory.message_heads import found_heads
    >>> from hlo_cli.syntax.out_of_memory.allocations import details_of
    >>> details = details_of("Out of memory allocating 64 bytes.")
    >>> message_of(found_heads(details.squeezed)[0], None, details, Places(None), Shapes()).used_bytes
    64
    """
    head, groups = found.head, found.groups
    failed, space = _failed(found, stack_end, details, places, shapes)
    listed = tuple(allocations_of(details, places, shapes)) or _memory_users(found, details)
    if not listed and failed is None and (retold := _retold_allocation(details, places, shapes)):
        listed = (retold,)
    output, shared = output_bytes(details)
    stats = assignment_stats(details)
    process = _process_of(found, details.squeezed)
    used, limit, over = _figures(found, failed)
    meaning: LimitMeaning = head.meaning if limit is not None else ""
    if process is not None:
        used = process.resident_bytes if used is None else used
        if limit is None and (limit := _process_limit(found, details.squeezed)) is not None:
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


def _figures(head: FoundHead, failed: OomAllocation | None) -> tuple[int | None, int | None, int | None]:
    """The needed and the available size, and the excess if the sentence has it."""
    used = head.size("used", "approximate")
    if "tensor_core" in head.groups:
        used = (head.size("tensor_core") or 0) + (head.size("sparse_core") or 0)
    if head.head.kind == "tensorflow" and failed is not None:
        used = failed.size_bytes
    limit = head.size("limit", "limit2")
    if limit is None and head.head.kind == "rematerialization":
        limit = head.size("about")
    if head.head.kind == "ray" and (capacity := head.size("capacity")) is not None:
        threshold = round(capacity * float(head.groups.get("threshold", "1")))
        return used, capacity, max((used or 0) - threshold, 0) or None
    return used, limit, head.size("over")


def _failed(
    head: FoundHead, stack_end: int | None, details: Details, places: Places, shapes: Shapes
) -> tuple[OomAllocation | None, str]:
    """The allocation that the message names, and its memory space."""
    space, groups = _space(head), head.groups
    if "stack" in groups:
        label = _stack_label(head, stack_end, details)
        return _stack_allocation(label, head.size("used"), places, shapes), space
    if "record" in groups and (record := _record_after(details, head.size("used"), places, shapes)):
        return record.allocation, record.space or space
    if head.head.kind == "tensorflow":
        tensor = _tensor_allocation(groups.get("dimensions", ""), groups.get("type", ""), shapes)
        kernel = _REQUIRED.search(details.squeezed.text, max(0, head.start - _KERNEL_REACH), head.start)
        return (replace(tensor, label=kernel[1]) if kernel else tensor), space
    if head.head.kind == "tpu-sparse-core" and (allocation := _sparse_core_allocation(head, details, places, shapes)):
        return allocation, space
    if head.head.is_weak and head.head.kind == "tpu-vmem-scoped":
        return _retold_kernel(details, head.size("used"), places), space
    if head.head.kind in _ONLY_CULPRIT:
        return OomAllocation(head.size("used"), label=_ONLY_CULPRIT[head.head.kind]), space
    return None, space


def _space(head: FoundHead) -> str:
    space = head.groups.get("space", "")
    if head.head.kind == "tpu-sparse-core" and space.isdigit():
        space = SPARSE_CORE_SPACES.get(space, space)
    if head.head.kind == "gpu-shared-memory":
        space = head.head.space
    return (space or head.head.space).lower()


def _kind(head: FoundHead, space: str) -> OomKind:
    kind = head.head.kind
    if kind != TPU_SPACE:
        return kind
    if "stack" in head.groups and space == "vmem":
        return "tpu-vmem-stack"
    return _KINDS.get(space, TPU_SPACE)


def _other_allocator(head: FoundHead) -> AllocatorStats | None:
    """The figures of another framework's allocator; those of XLA's come in tables of their own."""
    capacity, in_use = head.size("capacity", "capacity2"), head.size("in_use")
    if head.head.kind != "pytorch" or (capacity is None and in_use is None):
        return None
    return AllocatorStats(limit_bytes=capacity, in_use_bytes=in_use, reserved_bytes=head.size("reserved"))


def _usage(head: FoundHead, details: Details) -> tuple[MemoryPart, ...]:
    """The parts of the usage; both cores' if the sentence has them."""
    if head.head.kind == "tpu-hbm" and "tensor_core" in head.groups:
        return tuple(
            MemoryPart(name, head.size(group))
            for name, group in zip(_CORES, ("tensor_core", "sparse_core"), strict=True)
        )
    return usage_parts(details)


def _module(head: FoundHead, details: Details) -> str:
    """The name of the module after `HLO module:`, which ends with a period."""
    if "module" not in head.groups:
        return ""
    source, origin = details.squeezed.source, details.squeezed.origin(head.ends["module"])
    name = _MODULE.match(source, origin)
    if name is None:
        return ""
    rest = _REST_OF_MODULE.match(source, name.end()) if not name[1].endswith(".") else None
    return (name[1] + (rest[1] if rest else "")).partition(".See")[0].rstrip(".")


def _stack_label(head: FoundHead, stack_end: int | None, details: Details) -> str:
    """The text of the instruction on whose stack the allocation is."""
    squeezed = details.squeezed
    origin = squeezed.origin(head.ends["stack"])
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


# --- messages of one failure ---
# Several messages of one failure joined to one: an allocator's and the runtime's, a wrapper's and the compiler's.


_ROUNDING: Final = 0.01
"""How far two prints of one size differ at most: the shorter has three digits, such as 1.01GiB."""
_ALLOCATORS: Final = ("gpu-allocator", "gpu-driver")
_JOINED_BACK: Final = 20  # messages of one failure follow each other; a log may have thousands of failures


def join_messages(messages: Iterable[OutOfMemory]) -> tuple[OutOfMemory, ...]:
    """The failures of a text, each once: repetitions counted, and messages about the same request joined.

    >>> first = OutOfMemory("run", Span(0, 5), used_bytes=8, kind="device")
    >>> [joined] = join_messages((first, replace(first, span=Span(9, 14))))
    >>> joined.repetitions, joined.span
    (2, Span(start=0, end=5))
    """
    failures: list[OutOfMemory] = []
    places: dict[object, int] = {}
    for message in messages:
        key = _key(message)
        if (known := places.get(key)) is not None:
            failures[known] = replace(failures[known], repetitions=failures[known].repetitions + 1)
            continue
        for back in range(len(failures) - 1, max(len(failures) - _JOINED_BACK, 0) - 1, -1):
            if joined := _joined(failures[back], message):
                failures[back] = joined
                places[key] = back
                break
        else:
            places[key] = len(failures)
            failures.append(message)
    return tuple(failures)


def _key(message: OutOfMemory) -> object:
    """What repetitions of a message have in common; the device that reports it may differ."""
    return replace(message, span=Span(0, 0), device="", allocator=None, chunks=())


def _joined(first: OutOfMemory, second: OutOfMemory) -> OutOfMemory | None:
    """One message for two about the same failure, None if they are about different ones."""
    if first.kind == "tpu-buffer" and second.kind.startswith("tpu-vmem") and first.used_bytes == second.used_bytes:
        return replace(second, device=first.device or second.device)
    if (
        first.kind in _ALLOCATORS
        and second.kind in (*OOM_REQUESTS, "tensorflow", "gpu-constant")
        and _is_same(first, second)
    ):
        return _with_allocator(second, first)
    if first.kind in _ALLOCATORS and second.kind in _ALLOCATORS and _is_same(first, second):
        return _with_allocator(first, second)
    if first.kind in OOM_REQUESTS and second.kind in OOM_REQUESTS and _is_same(first, second):
        return _with_details(first, second)
    if (
        first.kind == second.kind
        and first.target == "tpu"
        and _used_and_limit(first) == _used_and_limit(second) != (None, None)
    ):
        return _with_details(first, second)
    if first.kind == second.kind and first.process is not None and second.process is not None:
        return _with_process(first, second)
    return None


def _used_and_limit(message: OutOfMemory) -> tuple[int | None, int | None]:
    return message.used_bytes, message.limit_bytes


def _is_same(first: OutOfMemory, second: OutOfMemory) -> bool:
    """Whether two requests have the same size, as far as sizes are known and not rounded."""
    if first.used_bytes is None or second.used_bytes is None:
        return first.kind in _ALLOCATORS and second.kind == "tensorflow"
    return abs(first.used_bytes - second.used_bytes) <= _ROUNDING * max(first.used_bytes, second.used_bytes, 1)


def _with_allocator(request: OutOfMemory, allocator: OutOfMemory) -> OutOfMemory:
    """A failed request with the statistics of the allocator that refused it."""
    has_limit = request.limit_bytes is not None
    return replace(
        request,
        span=min(request.span, allocator.span, key=lambda span: span.start),
        target="gpu",
        used_bytes=allocator.used_bytes if request.used_bytes is None else request.used_bytes,
        limit_bytes=request.limit_bytes if has_limit else allocator.limit_bytes,
        limit_meaning=request.limit_meaning if has_limit else allocator.limit_meaning,
        exceeded_by_bytes=request.exceeded_by_bytes if has_limit else allocator.exceeded_by_bytes,
        kind="gpu-allocator" if request.kind == "device" else request.kind,
        device=request.device or allocator.device,
        chunks=request.chunks or allocator.chunks,
        free_bytes=allocator.free_bytes if request.free_bytes is None else request.free_bytes,
        allocator=request.allocator or allocator.allocator,
    )


def _with_details(first: OutOfMemory, second: OutOfMemory) -> OutOfMemory | None:
    """Two reports of one request; None if both have details and they differ."""
    if second.allocations and first.allocations and second.allocations != first.allocations:
        return None
    if first.cause is not None and second.cause is not None and first.cause != second.cause:
        return None
    whole, other = (second, first) if second.allocations or second.stats else (first, second)
    missing = {
        field.name: getattr(other, field.name)
        for field in fields(OutOfMemory)
        if getattr(whole, field.name) in (None, "", ())
    }
    kind = whole.kind if whole.kind != "device" else other.kind
    span = min(first.span, second.span, key=lambda span: span.start)
    repetitions = first.repetitions + second.repetitions
    if bool(first.code) != bool(second.code):
        repetitions = max(first.repetitions, second.repetitions)
    return replace(whole, **missing, kind=kind, span=span, repetitions=repetitions)


def _with_process(first: OutOfMemory, second: OutOfMemory) -> OutOfMemory | None:
    """Two lines of the kernel about one process; None if the processes differ."""
    one, two = first.process, second.process
    if one is None or two is None or one.pid != two.pid or one.pid is None:
        return None
    process = replace(
        one,
        name=one.name or two.name,
        virtual_bytes=two.virtual_bytes if one.virtual_bytes is None else one.virtual_bytes,
        resident_bytes=two.resident_bytes if one.resident_bytes is None else one.resident_bytes,
        anonymous_bytes=two.anonymous_bytes if one.anonymous_bytes is None else one.anonymous_bytes,
        group=one.group or two.group,
        reason=one.reason or two.reason,
    )
    used = first.used_bytes if first.used_bytes is not None else second.used_bytes
    limit = first.limit_bytes if first.limit_bytes is not None else second.limit_bytes
    meaning = first.limit_meaning or second.limit_meaning
    return replace(first, process=process, used_bytes=used, limit_bytes=limit, limit_meaning=meaning)
