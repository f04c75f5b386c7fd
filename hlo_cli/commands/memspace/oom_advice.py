"""Advice after an out-of-memory message, in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from hlo_cli.analysis.out_of_memory.advice import (
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
)
from hlo_cli.commands.memspace.oom_names import SEMAPHORES, culprit_name, kernel_name, operation_name
from hlo_cli.commands.memspace.oom_ranges import range_words, shape_text
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.report.numbers import format_bytes, format_count, format_percent
from hlo_cli.report.text import Passage, Run, Text, line_of

_MOST_PERCENT: Final = 90
"""The percentage above which sizes read better."""
_DUMP: Final = "XLA_FLAGS='--xla_dump_to=DUMP --xla_dump_hlo_as_text'."


def advice_passage(advice: Sequence[Advice], memory: str) -> tuple[Passage, ...]:
    """The advice as one passage, or nothing; `memory` is the name of the memory that ran out."""
    if not advice:
        return ()
    lines: tuple[Text, ...] = tuple((f"{at}. ", *line_of(_words(each, memory))) for at, each in enumerate(advice, 1))
    return (Passage("what_to_do", lines, title="What to do"),)


def _words(advice: Advice, memory: str) -> Text:
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
            return range_words(advice, memory)
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
            what = "see when each buffer is live" if has_rows else "see which buffers fill the memory"
            return f"Dump the program to {what}: {_DUMP}"


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
        name = operation_name(advice.allocation) or culprit_name(advice.allocation)
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
            what = "scratch operand" if window is None else f"block for {window.role} {window.number}"
            buffers = f" with {window.buffers} buffers" if window is not None and window.buffers > 1 else ""
            return (
                f"Use a smaller {what}: {block.to_string(layout=False)} needs {format_bytes(size)}{buffers} (now "
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
            held = (
                f"; the largest chunks in use are {chunks.count:,} × {format_bytes(chunks.size_bytes)}"
                if chunks
                else ""
            )
            return f"Free at least {format_bytes(size)}{held}."
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
    if advice.percent > _MOST_PERCENT:
        left = advice.size_bytes - advice.excess_bytes
        target = ", the memory limit of the compiler" if advice.is_compiler_limit else ""
        return f"Shrink {advice.part} from {format_bytes(advice.size_bytes)} to at most {format_bytes(left)}{target}."
    sizes = f"{format_bytes(advice.excess_bytes)} of {format_bytes(advice.size_bytes)}"
    match advice.part:
        case "blocks and scratch":
            return f"Use smaller blocks: blocks and scratch must shrink by {advice.percent}% ({sizes})."
        case "shared memory":
            return f"Use smaller blocks or fewer stages: shared memory must shrink by {advice.percent}% ({sizes})."
        case "scalars and semaphores":
            return f"Keep less in {memory}: its use must shrink by {advice.percent}% ({sizes})."
        case part:
            return f"Shrink {part} by {advice.percent}% ({sizes}), for example with a smaller batch."


def _chips(chips: Iterable[tuple[str, int]]) -> str:
    by_size: dict[int, list[str]] = {}
    for name, size in chips:
        by_size.setdefault(size, []).append(name)
    return ", ".join(f"{format_bytes(size)} on {_joined(names)}" for size, names in by_size.items())


def _joined(names: Sequence[str]) -> str:
    """Names as in a sentence, with a serial comma."""
    *most, last = names
    return f"{', '.join(most)}{',' if len(most) > 1 else ''} and {last}" if most else last
