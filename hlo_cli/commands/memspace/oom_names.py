"""Names in answers to out-of-memory messages: memories, allocations, and purposes."""

from __future__ import annotations

from typing import Final

from hlo_cli.ir.memory_space import TpuMemorySpace
from hlo_cli.ir.out_of_memory import OomAllocation, OomKind, OutOfMemory

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
_WINDOWS: Final = ("input window", "output window")
_LONGEST_ABBREVIATION: Final = 5
_LONGEST_LABEL: Final = 100
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
    if allocation.kernel and not any(mark in allocation.kernel for mark in "(/"):
        return allocation.kernel
    return str(allocation.place) if allocation.place is not None else _label(allocation) or allocation.opcode


def operation_name(allocation: OomAllocation) -> str:
    """The last part of an op_name, without parameters; empty if the message has none or its end is missing.

    >>> operation_name(OomAllocation(8, op_name="jit(f)/layer/dot_general[precision=None]"))
    'dot_general'
    """
    name = allocation.op_name.partition("[")[0].rpartition("/")[2]
    return name if name.isidentifier() else ""


def _label(allocation: OomAllocation) -> str:
    """The label of an allocation, if it is a name rather than the text of an instruction."""
    label = allocation.label
    return label if label and "(" not in label and "<" not in label and len(label) <= _LONGEST_LABEL else ""


def tag_words(allocation: OomAllocation) -> str:
    """The purpose of an allocation in words, with the number of the operand.

    >>> tag_words(OomAllocation(8, tag="input window", operand_number=2)), tag_words(OomAllocation(8))
    ('the input window of operand 2', '')
    """
    if not (tag := tag_of(allocation)):
        return ""
    if (number := allocation.operand_number) is None:
        return f"the {tag}"
    if tag in _WINDOWS:
        return f"the {tag} of {'result' if tag.startswith('output') else 'operand'} {number}"
    return f"the {tag} {number}"


def tag_of(allocation: OomAllocation) -> str:
    """The tag of an allocation; that of a window is two words, however its text goes on."""
    return next((window for window in _WINDOWS if allocation.tag.startswith(window)), allocation.tag)
