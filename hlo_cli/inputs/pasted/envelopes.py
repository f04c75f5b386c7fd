"""What a text is: the one table of its kinds, the most specific first, each with the marks that it has.

A row holds a noun for messages, the words of which a text must have one, and an expression that decides. A kind further
down is asked only if no kind above it fits: errors, warnings, files of a dump, tables, and prints; shapes come last and
only if there is nothing else (`recognize.py`).
"""

from __future__ import annotations

import re
from typing import Final, Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.lazy_regex import lazy_regex

PastedKind = Literal[
    "out-of-memory",
    "missing-symbol",
    "kernel-launch",
    "library-launch",
    "argument-size",
    "donated-argument",
    "indivisible",
    "sharding-rank",
    "compile-time-constant",
    "unknown-flag",
    "stuck-collective",
    "slow-operation",
    "resharding",
    "memory-report",
    "buffer-assignment",
    "live-range",
    "buffer-values",
    "allocator-stats",
    "memory-stats",
    "cost-analysis",
    "autotune-results",
    "thunks",
    "execution-profile",
    "kernel-times",
    "operation-times",
    "pallas-kernel",
    "stablehlo",
    "residuals",
    "compiler-error",
    "donation",
    "spills",
    "host-compute",
    "captured-constants",
    "compile-log",
    "cut-header",
    "diff",
    "shape",
    "shapes",
    "layout",
    "sharding",
    "replica-groups",
]


@dataclass(frozen=True, slots=True)
class Envelope:
    """One kind of text: one of the `marks` is in it, and `pattern` is found, if there is one.

    A document is about itself, so that instructions in it are part of it; a message may be next to HLO.
    """

    kind: PastedKind
    noun: str
    marks: tuple[str, ...]
    pattern: re.Pattern[str] | None = None
    is_document: bool = False

    def is_in(self, text: str) -> bool:
        """Whether a text, freed of log prefixes, is of this kind."""
        return any(mark in text for mark in self.marks) and (self.pattern is None or bool(self.pattern.search(text)))


def _words(pattern: str) -> re.Pattern[str]:
    """An expression for a message, in which a space stands for any white space, as lines may be wrapped."""
    spaced = _BRACKETS_OR_SPACE.sub(lambda match: match[1] or r"\s+", pattern)
    return lazy_regex(spaced, re.MULTILINE)


_BRACKETS_OR_SPACE: Final = re.compile(r"(\[(?:\\.|[^\]\\])*\])| (?![?*+{])")


_OUT_OF_MEMORY: Final = (
    "RESOURCE_EXHAUSTED",
    "Resource exhausted",
    "ResourceExhausted",
    "Out of memory",
    "out of memory",
    "OutOfMemory",
    "OOMKilled",
    "oom-kill",
    "oom_kill",
    "OOM Kill",
    "OOM when allocating",
    "would exceed memory",
    "Scoped allocation",
    "Attempting to allocate ",
    "Attempting to reserve ",
    "Largest program allocations",
    "Can't reduce memory use",
    "memory size limit exceeded",
    "std::bad_alloc",
    "ailed to allocate ",
    "Oom: ",
    "Ran out of ",
    "XLA label: ",
    "XLA Label: ",
    "Peak buffers:",
    "hbm capacity",
    "vmem capacity",
    " usage >= ",
    "out of resource: shared memory",
    "due to memory pressure",
    "allocation offset upper bound",
    "CompileTimeSparseCoreAllocation",
)
_COMPILER_ERROR: Final = (
    "RET_CHECK",
    "hlo_verifier",
    "Check failed: ",
    "XlaRuntimeError",
    "JaxRuntimeError",
    "during context [",
    "Mosaic failed",
    "INTERNAL: ",
    "INVALID_ARGUMENT: ",
    "UNIMPLEMENTED: ",
    "FAILED_PRECONDITION: ",
    "NOT_FOUND: ",
    "Internal: ",
    "Invalid argument: ",
    "InvalidArgument",
    "Unimplemented: ",
    "Expected instruction to have shape",
    "Seen floating point types",
    "Binary op ",
    "LLVM ERROR: ",
    "MLIRError: ",
    "have the same shape",
    "IndivisibleError: ",
    "was parsing ",
    "Unbounded dynamism",
    "mixed precision is ",
    "doesn't have opcode ",
)

ENVELOPES: Final[tuple[Envelope, ...]] = (
    Envelope("out-of-memory", "an out-of-memory error", _OUT_OF_MEMORY),
    # --- errors when a program starts or runs ---
    Envelope(
        "missing-symbol",
        "an error about a missing function",
        ("runtime symbol", "Symbols not found", "undefined symbol"),
        _words(r"Unable to resolve runtime symbol|Symbols not found: \["),
    ),
    Envelope(
        "kernel-launch",
        "an error of a GPU kernel",
        ("CUDA_ERROR_", "hipError", "illegal memory access", "ailed to launch", "HIP_ERROR", "misaligned address"),
        _words(
            r"Failed to launch (?:CUDA|ROCm|HIP|ROCM) (?:kernel|graph)|CUDA_ERROR_(?!OUT_OF_MEMORY)[A-Z]\w+"
            r"|an illegal memory access was encountered|hipError(?!OutOfMemory)[A-Z]\w+|misaligned address"
        ),
    ),
    Envelope(
        "library-launch",
        "an error of a GPU library call",
        (
            "CuDNN library",
            "cuBLAS",
            "cublas",
            "CUBLAS_",
            "CUDNN_",
            "cuDNN",
            "cusolver",
            "CUSOLVER",
            "CUFFT",
            "hipblas",
            "rocblas",
        ),
        _words(
            r"Unable to launch (?:cuBLAS|hipBLAS|cublas)|[Ff]ailed to (?:create|initialize) (?:cuBLAS"
            r"|cublas|cuDNN|cusolver|dnn|DNN|blas)"
            r"|[Cc]ould not create cudnn handle|CUDNN_STATUS_\w+|CUBLAS_STATUS_\w+|CUSOLVER_STATUS_\w+"
            r"|DNN library initialization failed|Loaded (?:runtime )?\w+ library: [\d.]+ but source was compiled with"
        ),
    ),
    Envelope(
        "argument-size",
        "an error about an argument of a program",
        (
            "incompatible size",
            "incompatible shape",
            "but got buffer with",
            "buffers to be passed",
            "compiled with",
            "match host shape",
            "Execution supplied",
        ),
        _words(
            r"expected parameter \d+ of size [^\n]{0,400}? but got buffer with incompatible size"
            r"|(?:[Ee]xpected|[Ee]xecut\w+ (?:expected|requires)) \d+ (?:buffers?|arguments?|inputs?"
            r"|parameters?)[^\n]{0,400}? but (?:got|received|was)"
            r"|does not match host shape or layout of computation parameter \d+: want "
            r"|Execution supplied \d+ buffers but compiled program expected \d+"
            r"|[Cc]ompiled (?:function )?with \d+[^\n]{0,400}? (?:called|invoked) with"
        ),
    ),
    Envelope(
        "donated-argument",
        "an error about a donated or deleted array",
        (
            "deleted or donated",
            "has been deleted",
            "been donated",
            "onation requested",
            "onate the same buffer",
            "onated buffer",
        ),
        _words(
            r"(?:buffer|[Aa]rray) has been (?:deleted|donated)|been deleted or donated|was (?:deleted|donated)"
            r"|Donation requested for invalid buffer|donate the same buffer twice|is already donated"
        ),
    ),
    # --- errors before a program is compiled ---
    Envelope(
        "indivisible",
        "an error about a sharding of an array",
        ("divisib", "evenly divide", "partitioned"),
        _words(
            # A model's own check of its sizes, and prose about division, are not about a sharding.
            r"^(?=[^~]{0,800}?(?:[Ss]hard|[Mm]esh|axis|axes|[Pp]artition|dimension \d|pmap|pjit|vmap))[^~]{0,800}?"
            r"(?:should be divisible by|evenly divi|is not (?:evenly )?divisible by)|implies that array "
            r"axis \d+ is partitioned"
        ),
    ),
    Envelope(
        "sharding-rank",
        "an error about a sharding of an array",
        ("values of rank", "rank at least", "not compatible with"),
        _words(r"only valid for values of rank (?:at least )?\d+|rank of the (?:spec|sharding|value)"),
    ),
    Envelope(
        "compile-time-constant",
        "an error of TensorFlow before HLO exists",
        ("compile-time constant",),
        _words(r"must be a compile-time constant"),
    ),
    Envelope(
        "unknown-flag",
        "an error about an XLA flag",
        (
            "Unknown flag",
            "unknown flag",
            "Unknown command line flag",
            "interpret value",
            "Illegal value",
            "XLA_FLAGS",
            "Unrecognized flag",
        ),
        _words(
            r"(?:Unknown|unknown) (?:command line )?flags?(?: in| '| \"|:)|Couldn't interpret value|Illegal value "
            r"[^\n]* specified for flag"
        ),
    ),
    # --- warnings about a run or a compilation ---
    Envelope(
        "stuck-collective",
        "a warning about a stuck collective",
        ("may be stuck", "stuck waiting for", "Termination timeout", "Rendezvous"),
        _words(
            r"has been waiting for [^\n]{0,500}may be stuck|is unstuck waiting for|Termination timeout for"
            r"|[Ss]tuck waiting for|This thread has been waiting for"
        ),
    ),
    Envelope(
        "slow-operation",
        "a slow operation warning",
        (
            "Constant folding an instruction is taking",
            "low compile?",
            "slow_operation_alarm",
            "The operation took ",
            "Trying algorithm ",
        ),
    ),
    Envelope("resharding", "a resharding warning", ("[spmd]", "[SPMD]", "nvoluntary full rematerialization")),
    # --- files that XLA writes next to a dump ---
    Envelope(
        "memory-report",
        "a memory usage report",
        ("cumulative_size;", "Memory Space: ", "Allocations sorted by size"),
        _words(r"^\s*cumulative_size;|^Memory Space: \S+ \(color=\d+\)|^Allocations sorted by size"),
        is_document=True,
    ),
    Envelope(
        "live-range",
        "a table of live ranges",
        ("HloLiveRange", "BufferLiveRange:", "Live ranges at"),
        _words(r"^\s*(?:HloLiveRange \(max \d|BufferLiveRange:|Live ranges at \d)"),
        is_document=True,
    ),
    Envelope(
        "buffer-assignment",
        "a buffer assignment",
        ("BufferAssignment", "allocation "),
        _words(
            r"^[ \t\"']*BufferAssignment:|^[ \t\"']*allocation \d+: (?:0x\w+, )?size \d+"
            r"|^[ \t]*BufferAssignment stats:\s*\n\s*parameter allocation: +\d"
        ),
        is_document=True,
    ),
    Envelope(
        "buffer-values",
        "a list of buffer values (part of a buffer assignment)",
        ("Used values:", " positions:"),
        _words(r"^Used values:|^<\d+ [^\s@]+ @\d+>\n positions:"),
        is_document=True,
    ),
    # --- tables and prints ---
    Envelope(
        "allocator-stats",
        "memory statistics of a device",
        ("AllocatorStats", "In Use:", "InUse:", "bytes_in_use"),
        _words(
            r"^ *AllocatorStats|^(?:Num ?Allocs|Peak ?In ?Use|In ?Use|Reservable Limit|Largest Free "
            r"Block): +[\d.]|['\"]?bytes_in_use['\"]?\s*[:=]"
        ),
        is_document=True,
    ),
    Envelope(
        "memory-stats",
        "memory statistics of a program",
        ("CompiledMemoryStats(", "_size_in_bytes"),
        _words(r"CompiledMemoryStats\(|\b(?:temp|argument|output)_size_in_bytes['\"]?\s*[=:]"),
        is_document=True,
    ),
    Envelope(
        "cost-analysis",
        "a cost analysis",
        ("bytes accessed", "transcendentals", "utilization"),
        _words(
            r"['\"](?:bytes accessed[^'\"\n]{0,40}|transcendentals|utilization ?\w{0,20}\{[\d,]*\})['\"]\s*:\s*-?\d"
        ),
        is_document=True,
    ),
    Envelope(
        "autotune-results",
        "autotuning results",
        ("run_time", "results {", "results:"),
        _words(r"\brun_time:? \{|^results:? \{|^version: 3\s*\Z"),
        is_document=True,
    ),
    Envelope(
        "thunks",
        "a thunk sequence",
        (": k",),
        _words(r"^ *\d{3,}: k[A-Z]\w+[ \t]"),
        is_document=True,
    ),
    Envelope(
        "execution-profile",
        "an execution profile of XLA",
        ("cycles",),
        _words(r"\d cycles \( *[\d.]+%[^\n]{0,400}?:: *[\d.]+ usec"),
        is_document=True,
    ),
    Envelope(
        "kernel-times",
        "a table of kernel times",
        ("Total Time (ns)", "Total Time", "cuda_gpu_kern_sum", "gpukernsum", "Kernel Summary", "TotalDurationNs"),
        _words(
            r"^[ \t]*\"?Time ?\(%\)\"?[ ,|]+\"?Total Time|cuda_gpu_kern_sum|CUDA (?:GPU )?Kernel "
            r"(?:Summary|Statistics)|^\"?Name\"?,\"?Calls\"?,\"?TotalDurationNs"
        ),
        is_document=True,
    ),
    Envelope(
        "operation-times",
        "a table of operation times",
        ("hlo_op_name", "hlo_op_expression", "HLO op name", "HLO Op", "Self time", "self_time", "total_time_us"),
        _words(
            r"^(?=[^\n]{0,2000}?(?:hlo_op_name|hlo_op_expression|HLO [Oo]p [Nn]ame|HLO [Oo]p [Ee]xpression))"
            r"(?=[^\n]{0,2000}?[Tt]ime)[^\n]{0,2000}?[,\t|;]"
        ),
        is_document=True,
    ),
    Envelope(
        "pallas-kernel",
        "a Pallas kernel",
        ("pallas_call", "Mosaic module", "Triton module", "kernel jaxpr"),
        _words(
            r"(?:The )?(?:kernel jaxpr|Mosaic module|Mosaic GPU module|Triton module|block mappings|grid "
            r"mapping)[^\n]{0,40} for (?:pallas_call )?"
        ),
        is_document=True,
    ),
    Envelope(
        "residuals",
        "a list of saved residuals",
        ("from the argument", "output of", "from a literal", "from a constant", "saved"),
        _words(
            r"^\s*[a-z]\w*(?:<\w+>)?\[[\d,]*\]\S* (?:from the argument|from a (?:literal|constant)|named '[^'\n]+' "
            r"from|output of (?:jitted function )?\S+ from)"
        ),
        is_document=True,
    ),
    Envelope("compiler-error", "a compiler error", _COMPILER_ERROR),
    # --- warnings that matter less than an error in the same text ---
    Envelope(
        "donation",
        "a warning about donated arguments",
        ("onated buffers", "onated arguments", "onation is not implemented"),
        _words(r"[Dd]onated buffers were not usable|[Dd]onation is not implemented for"),
    ),
    Envelope(
        "spills",
        "a warning about register spills",
        ("spill",),
        _words(r"(?:Registers|registers) are spilled|bytes spill (?:stores|loads)"),
    ),
    Envelope(
        "host-compute",
        "a warning about host computation",
        ("host memory space", "host compute"),
        _words(r"does device compute in host memory space|Converting into host compute"),
    ),
    Envelope(
        "captured-constants",
        "a warning about captured constants",
        ("captured during lowering", "constants were captured", "onstants captured"),
        _words(r"constants (?:were )?captured"),
    ),
    Envelope(
        "compile-log",
        "a log of compilations",
        ("TRACING CACHE MISS", "Finished XLA compilation", "Finished tracing", "Finished jaxpr to MLIR"),
        _words(r"TRACING CACHE MISS at|Finished (?:XLA compilation|tracing|jaxpr to MLIR)"),
    ),
    Envelope(
        "stablehlo",
        "StableHLO (MLIR)",
        ("stablehlo.",),
        _words(r"\"stablehlo\.[a-z_]+\"\("),
        is_document=True,
    ),
)
"""The kinds, the most specific first; values such as shapes and diffs are recognized by their form, after these."""

MARKS: Final[dict[PastedKind, tuple[str, ...]]] = {each.kind: each.marks for each in ENVELOPES}
"""The words of each kind, which are searched first."""
NOUNS: Final[dict[PastedKind, str]] = {
    **{each.kind: each.noun for each in ENVELOPES},
    "cut-header": "the beginning of a module",
    "diff": "a diff",
    "shape": "a shape",
    "shapes": "a list of shapes",
    "layout": "a layout",
    "sharding": "a sharding",
    "replica-groups": "a list of replica groups",
}
"""What each kind is called in messages."""
