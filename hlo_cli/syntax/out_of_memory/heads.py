"""The first sentences of XLA's out-of-memory messages, one pattern each, and the meaning of their numbers."""

from __future__ import annotations

from typing import Final, Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.out_of_memory import LimitMeaning, OomKind, OomStage

WORD_BYTES: Final = 4
"""The bytes of a word, in which SparseCore counts its memory."""

Target = Literal["tpu", "gpu", "cpu"]
TPU_SPACE: Final = "tpu-other"
"""The kind of a TPU message before its memory space is known."""


@dataclass(frozen=True, slots=True)
class Head:
    """A pattern with groups `used`, `limit`, `over`, `free`, `reserved`, `space`, `device`, and others, if known.

    Its blanks are for reading only: it matches text without whitespace. It begins with plain text, which is quick to
    find; `before` is a pattern for the text before it. `is_weak` patterns count only if no other does.
    """

    kind: OomKind
    stage: OomStage
    target: Target | None
    pattern: str
    space: str = ""
    meaning: LimitMeaning = ""
    unit: int = 1
    is_weak: bool = False
    before: str = ""
    needs_before: bool = False


_SPACE: Final = (
    r"(?P<space>hbm|vmem|smem|cmem|sflag|host|tile_?spmem|spmem|imem"
    r"|[a-z_]{1,24}?(?=\.|while allocating|Used|[^a-z_]|\Z))"
)
_PROGRAM: Final = (
    r"(?:Error loading program (?:'(?P<executable>[^'\n]{0,300})')?: "
    r"|Error (?:allocating device buffer|preparing computation): )"
)
_AT_DEVICE: Final = r"(?:[.;,] *;? \((?P<device>[^()\n]{1,60})\))?"

TPU_HEADS: Final = (
    Head(
        TPU_SPACE,
        "compile",
        "tpu",
        rf"Ran out of memory in memory space {_SPACE} while allocating on stack for (?P<stack>)",
    ),
    Head(
        TPU_SPACE,
        "compile",
        "tpu",
        rf"Ran out of memory in memory space {_SPACE} \.? (?:Used (?P<used><BYTES>) of (?P<limit><BYTES>) [a-z_]+ \.?)?"
        r"(?:Exceeded [a-z_]+ capacity by (?P<over><BYTES>) \.?)?",
        meaning="capacity",
    ),
    Head(
        TPU_SPACE,
        "compile",
        "tpu",
        r"Used (?P<used><BYTES>) of (?P<limit><BYTES>) (?P<space>hbm|vmem|smem|cmem|sflag|host) \.?"
        r"(?:Exceeded [a-z_]+ capacity by (?P<over><BYTES>) \.?)?",
        meaning="capacity",
    ),
    Head(
        "tpu-vmem-scoped",
        "compile",
        "tpu",
        r"Scoped allocation (?:with size|of) (?P<used><BYTES>) (?:and limit (?P<limit><BYTES>))?"
        r"(?:exceeded scoped \w{1,20}? limit (?:by (?P<over><BYTES>))?)?",
        "vmem",
        "limit",
    ),
    Head(
        "tpu-hbm",
        "compile",
        "tpu",
        r"HLO temporaries "
        r"\((?P<used><BYTES>)\) exceeds available \w{1,8}? \((?P<limit><BYTES>)\) \.? (?:HLO module: (?P<module>))?",
        "hbm",
        "capacity",
        before=r"(?:Ran out of memory on (?P<space>\w{1,8}?),)? (?:the total memory required for)?",
    ),
    Head(
        "tpu-hbm",
        "compile",
        "tpu",
        r"Hbm usage:? (?P<tensor_core><BYTES>), (?:SparseCore|SC) Hbm usage:? "
        r"(?P<sparse_core><BYTES>), exceeding available bytes:? (?P<limit><BYTES>)",
        "hbm",
        "capacity",
    ),
    Head(
        "tpu-hbm",
        "compile",
        "tpu",
        r"unlikely to have enough memory\. Requires (?P<used><BYTES>), has (?P<limit><BYTES>) available",
        "hbm",
        "capacity",
    ),
    Head(
        TPU_SPACE,
        "compile",
        "tpu",
        r"Allocation (?P<record>)(?:\(size=(?P<used><NUMBER>)\))? would exceed memory \(size=(?P<limit><NUMBER>)\)",
        meaning="capacity",
    ),
    Head(
        "tpu-sparse-core",
        "compile",
        "tpu",
        r"allocation offset upper bound \((?P<used><NUMBER>) words\)"
        r"(?:exceeds [^(]{0,100} \((?P<limit><NUMBER>) words\)"
        r"(?:in memory space (?P<space>tile_?spmem|spmem|smem|hbm|sflag|vmem|[0-9]{1,3}(?=[^0-9])))?"
        r"(?:when allocating (?P<request><NUMBER>) words)?)?",
        "SparseCore",
        "limit",
        WORD_BYTES,
        before="current",
    ),
    Head(
        "tpu-sparse-core",
        "compile",
        "tpu",
        r"fixed_size_allocation_bytes = (?P<tensor_core><NUMBER>), row_dependent_size_allocation_bytes = "
        r"(?P<sparse_core><NUMBER>), total_spmem_size_bytes = (?P<limit><NUMBER>)",
        "spmem",
        "capacity",
    ),
    Head(
        "tpu-buffer",
        "run",
        "tpu",
        r"Attempting to allocate (?P<used><BYTES>) (?:[.…]{1,5} (?:That was not possible\.?)?)?"
        r"(?:(?:There are|Only) (?P<limit><BYTES>) free (?:on (?P<device2>HBM[0-9]+(?=[^0-9]|\Z)))? \.? "
        rf"{_AT_DEVICE})?",
        "hbm",
        "free",
        before=_PROGRAM,
    ),
    Head(
        "tpu-load",
        "load",
        "tpu",
        r"Attempting to reserve (?P<used><BYTES>) (?:at the (?:bottom|top) of memory)? \.?"
        r"(?:That was not possible\.?)? (?:There are (?P<free><BYTES>) free, (?P<reserved><BYTES>) reserved, and "
        rf"(?P<limit><BYTES>) reservable \.? {_AT_DEVICE})?",
        "hbm",
        "reservable",
        before=_PROGRAM,
    ),
    Head(
        "tpu-load",
        "load",
        "tpu",
        r"trying to reserve (?P<used><BYTES>) with (?P<limit><BYTES>) reservable",
        "hbm",
        "reservable",
    ),
)

_REFUSED_REQUEST: Final = r"(?:\((?P<used><NUMBER>)B\))? (?:on device ordinal (?P<device>[0-9]{1,4}+))?"
_EXECUTABLE: Final = r"(?:\.? \[executable_name='(?P<executable>[^'\n]{0,300})'\])?"

GPU_HEADS: Final = (
    Head("device", "run", None, rf"Out of memory while trying to allocate (?P<used><MANY>) (?:bytes)? {_EXECUTABLE}"),
    Head(
        "device",
        "run",
        None,
        rf"Failed to allocate request for (?P<approximate><BYTES>) {_REFUSED_REQUEST} {_EXECUTABLE}",
    ),
    Head(
        "gpu-allocator",
        "run",
        "gpu",
        r"ran out of memory trying to allocate (?P<approximate><BYTES>) (?:\(rounded to (?P<used><NUMBER>)\))?",
        before=r"(?:Allocator \((?P<device>\w{1,60})\)|(?P<device2>(?:GPU|gpu|xla)\w{0,40}_bfc))",
    ),
    Head("gpu-allocator", "run", "gpu", r"Ran out of memory trying to allocate (?P<used><BYTES>)"),
    Head(
        "gpu-allocator",
        "run",
        "gpu",
        r"cuMemAlloc\w{0,20}? failed to allocate (?P<used><MANY>) bytes",
        before=r"(?P<device>gpu_async_[0-9]{1,4})",
    ),
    Head(
        "gpu-driver",
        "run",
        "gpu",
        r"failed to allocate (?P<approximate><BYTES>) \((?P<used><NUMBER>) bytes\) from device",
    ),
    Head("gpu-driver", "run", "gpu", r"Failed to allocate device memory of (?P<used><BYTES>)"),
    Head("gpu-driver", "run", "gpu", r"failed to alloc (?P<used><NUMBER>) bytes on host", "host"),
    Head("gpu-driver", "run", "gpu", r"failed to alloc (?P<used><NUMBER>) bytes unified memory", "unified"),
    Head("gpu-driver", "run", "gpu", r"could not allocate pinned host memory of size: (?P<used><BYTES>)", "host"),
    Head("gpu-driver", "run", "gpu", r"could not allocate (?:CUDA|ROCM) stream for device (?P<device>[0-9]{1,3}): \w+"),
    Head("gpu-driver", "run", "gpu", r"Failed to instantiate (?:HIP|CUDA) graph: \w*(?:OutOfMemory|OUT_OF_MEMORY)"),
    Head("gpu-constant", "load", "gpu", r"Failed to allocate (?P<used><MANY>) bytes for new constant"),
    Head("cpu", "run", "cpu", r"ut of memory allocating (?P<used><MANY>) (?:bytes)?", "host", before="[Oo]"),
    Head(
        "rematerialization",
        "compile",
        None,
        r"reduce memory use below (?P<about><BYTES>) (?:\((?P<limit><NUMBER>) bytes\))? by rematerialization "
        r"(?:; only reduced to (?P<approximate><BYTES>) (?:\((?P<used><NUMBER>) bytes\))?"
        r"(?:, down from (?P<before><BYTES>) (?:\((?P<original><NUMBER>) bytes\))?)?)?",
        meaning="limit",
        before="Can.{0,5}?t",
    ),
    Head(
        "arguments",
        "compile",
        "gpu",
        r"byte size of input/output arguments \((?P<used><NUMBER>)\) exceeds the base limit \((?P<limit><NUMBER>)\)",
        meaning="limit",
    ),
    Head(
        "gpu-shared-memory",
        "compile",
        "gpu",
        r"hared memory size limit exceeded: requested (?P<used><NUMBER>) (?:, available: (?P<limit><NUMBER>))?",
        "shared memory",
        "capacity",
        before="[Ss]",
    ),
    Head(
        "gpu-shared-memory",
        "compile",
        "gpu",
        r"out of resources?: (?P<space>shared memory|[a-z ]{1,30}?), Required: (?P<used><NUMBER>), Hardware limit: "
        r"(?P<limit><NUMBER>)",
        "shared memory",
        "capacity",
    ),
    Head(
        "gpu-shared-memory",
        "compile",
        "gpu",
        r"uses too much shared data \((?P<used>0x[0-9a-f]{1,16}) bytes, (?P<limit>0x[0-9a-f]{1,16}) max\)",
        "shared memory",
        "capacity",
    ),
    Head(
        "gpu-shared-memory",
        "compile",
        "gpu",
        r"exceeds available shared memory: (?:\w{1,30}=)? (?P<used><NUMBER>) [>] (?:\w{1,30}=)? (?P<limit><NUMBER>)",
        "shared memory",
        "capacity",
    ),
)
