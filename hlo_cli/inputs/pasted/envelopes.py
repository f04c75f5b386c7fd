"""What a text is: the one table of its kinds, the most specific first, and the languages that are not HLO."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from shlex import quote
from typing import Final, Literal
from warnings import catch_warnings, simplefilter

from hlo_cli.dataclass import dataclass
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError

# --- kinds and their marks ---
# What a text is: the one table of its kinds, the most specific first, each with the marks that it has.
#
# A row holds a noun for messages, the words of which a text must have one, and an expression that decides. A kind
# further down is asked only if no kind above it fits: errors, warnings, files of a dump, tables, and prints; shapes
# come last and only if there is nothing else (`read.py`).


PastedKind = Literal[
    "out-of-memory",
    "missing-symbol",
    "kernel-launch",
    "library-launch",
    "argument-size",
    "donated-argument",
    "indivisible",
    "sharding-rank",
    "mesh-axis",
    "other-devices",
    "other-sharding",
    "compile-time-constant",
    "nan",
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
    "thunk-names",
    "pass-times",
    "target",
    "transfer-stats",
    "compile-options",
    "torch-graphs",
    "torch-metrics",
    "torch-times",
    "memory-top",
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
    "memory-profile",
    "object-file",
    "ptx",
    "llvm-ir",
    "emitter-mlir",
    "drawing",
    "program-facts",
    "exported",
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
    *("must have equal types", "traced array with shape", "logical devices, but only"),
    *("compiled with ", "memory addressable by device", "divisible by 8 and 128", "exceeds available shared memory"),
    *("supported on the XLA backend", "TPU is already in use", "may be present on this machine", "older than the "),
    *("stopped sending heartbeats", "Megascale detects a hang", "Difference at ", "requires contracting dimensions"),
)

EMITTER_MLIR: Final = lazy_regex(
    r"^ *(?:xtile\.entry_func|tt\.func|llvm\.func) |#xla\.indexing_map|\bxla\.(?:cpu_memory_region_name|slice_index)\b"
    r"|\bdlti\.dl_spec\b|\bxla_(?:cpu|gpu)\.[a-z]|^// -----// IR Dump |\"xtile\.entry_func\"",
    re.MULTILINE,
)
"""What is in the MLIR of XLA's emitters and in no program: dialects of loops, tiles, and machines."""

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
        ("values of rank", "rank at least", "not compatible with", "compatible with the corresponding input"),
        _words(
            r"only valid for values of rank (?:at least )?\d+|rank of the (?:spec|sharding|value)"
            r"|in_specs entry which is too long"
        ),
    ),
    Envelope(
        "mesh-axis",
        "an error about an axis of a mesh",
        ("has duplicate entries for `", "is not found in mesh"),
        _words(r"has duplicate entries for `|[Rr]esource axis: \w+ of [^~]{1,400}? is not found in mesh"),
    ),
    Envelope(
        "other-devices",
        "an error about the devices of arguments",
        ("incompatible devices for",),
        _words(r"Received incompatible devices for [^~]{1,4000}? device ids"),
    ),
    Envelope(
        "other-sharding",
        "an error about the sharding of an argument or result",
        ("does not match the sharding on", "does not match the specs of", "which require replication"),
    ),
    Envelope(
        "compile-time-constant",
        "an error of TensorFlow before HLO exists",
        ("compile-time constant",),
        _words(r"must be a compile-time constant"),
    ),
    Envelope(
        "nan",
        "an error about a value that is not a number",
        ("encountered in",),
        _words(r"FloatingPointError: invalid value \((?:nan|inf)\) encountered in"),
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
        ("may be stuck", "stuck waiting for", "Termination timeout", "Rendezvous", "Watchdog caught"),
        _words(
            r"has been waiting for [^\n]{0,500}may be stuck|is unstuck waiting for|Termination timeout for"
            r"|[Ss]tuck waiting for|This thread has been waiting for|Watchdog caught collective operation timeout"
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
        ("run_time", "results {", "results:", "version: 3"),
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
        "thunk-names",
        "a list of thunks with their instructions",
        ("thunk_metadata",),
        _words(r"\A\s*thunk_metadata:? \{"),
        is_document=True,
    ),
    Envelope(
        "pass-times",
        "a list of compiler passes",
        ("pass_metadata",),
        _words(r"^\s*pass_metadata:? \{"),
        is_document=True,
    ),
    Envelope(
        "target",
        "a description of a target",
        ("tpu_topology_args", "gpu_device_info"),
        _words(r"^tpu_topology_args:? \{|\A(?!.*^fusion_steps:? \{)(?s:.*)^\s*gpu_device_info:? \{"),
        is_document=True,
    ),
    Envelope(
        "transfer-stats",
        "a list of transfers with the host",
        ("host_transfer_sizes",),
        _words(r"^host_transfer_sizes:? \{"),
        is_document=True,
    ),
    Envelope(
        "compile-options",
        "a list of compiler flags",
        ("xla_", "debug_options"),
        _words(
            r"\A\s*(?:executable_build_options:? \{|debug_options:? \{|entry_computation_layout:? \{"
            r"|xla_\w+: [^\n]+\n?(?:\w+:? |\s*\Z)"
            r"|--\w+(?:=[^\n]*)?\n--\w+)"
            r"|^[ \t]*(?:\$ )?(?:(?:export|ENV|env) )?(?:XLA_FLAGS|LIBTPU_INIT_ARGS)=[^\n]*--(?:xla|libtpu)_"
        ),
        is_document=True,
    ),
    Envelope(
        "program-facts",
        "a description of a compiled program",
        ("num_replicas:", "optimized_hlo_instruction_count:"),
        _words(r"\A\s*num_replicas: \d+\s*\n\s*device_assignment:? \{|^optimized_hlo_instruction_count: \d"),
        is_document=True,
    ),
    # --- code that backends generate ---
    Envelope(
        "ptx", "PTX", (".target ",), lazy_regex(r"^\.version \d[^\n]*\n\.target ", re.MULTILINE), is_document=True
    ),
    Envelope(
        "emitter-mlir",
        "MLIR of an emitter",
        ("xtile.", "xla.", "llvm.func", "tt.func", "// -----// IR Dump "),
        EMITTER_MLIR,
        is_document=True,
    ),
    Envelope(
        "llvm-ir",
        "LLVM IR",
        ("; ModuleID", "target triple", "target datalayout"),
        lazy_regex(r"\A\s*; ModuleID|^target (?:datalayout|triple) = ", re.MULTILINE),
        is_document=True,
    ),
    Envelope(
        "drawing",
        "a drawing of a computation",
        ("digraph G", "<title>Fusion Explorer: "),
        lazy_regex(r"^label = <[^\n]*Computation |<title>Fusion Explorer: ", re.MULTILINE),
        is_document=True,
    ),
    Envelope(
        "torch-graphs",
        "an analysis of graphs by PyTorch/XLA",
        ("Compilation Analysis: ", "Execution Analysis: "),
        _words(r"(?:Compilation|Execution) Analysis: (?:Graph|Compilation|Execution) \w+"),
        is_document=True,
    ),
    Envelope(
        "torch-metrics",
        "a PyTorch/XLA metrics report",
        ("Metric: ", "Counter: "),
        _words(r"^(?:Metric|Counter): \w[^\n]*\n *(?:TotalSamples|Value): "),
        is_document=True,
    ),
    Envelope(
        "torch-times",
        "a table of torch.profiler",
        ("Self CPU time total:", "Self CPU %"),
        _words(r"^ *Name +Self CPU %"),
        is_document=True,
    ),
    Envelope(
        "memory-top",
        "a table of pprof",
        ("Showing nodes accounting for",),
        _words(r"^Showing nodes accounting for [\d.]+[kMGTP]?B"),
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
        ("spill", "ptxas info"),
        _words(r"(?:Registers|registers) are spilled|bytes spill (?:stores|loads)|ptxas info *: Used \d+ registers"),
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
        (
            *("TRACING CACHE MISS", "Finished XLA compilation", "Finished tracing", "Finished jaxpr to MLIR"),
            *("with global shapes and types", "ersistent compilation cache", "PERSISTENT COMPILATION CACHE MISS"),
        ),
        _words(
            r"TRACING CACHE MISS at|Finished (?:XLA compilation|tracing|jaxpr to MLIR)"
            r"|Compiling \S+ with global shapes and types|(?:COMPILATION CACHE MISS|compilation cache hit) for '"
        ),
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

MARKS: Final[dict[PastedKind, tuple[str, ...]]] = {envelope.kind: envelope.marks for envelope in ENVELOPES}
"""The words of each kind, which are searched first."""
NOUNS: Final[dict[PastedKind, str]] = {
    **{envelope.kind: envelope.noun for envelope in ENVELOPES},
    "cut-header": "the beginning of a module",
    "diff": "a diff",
    "shape": "a shape",
    "shapes": "a list of shapes",
    "layout": "a layout",
    "sharding": "a sharding",
    "replica-groups": "a list of replica groups",
    "memory-profile": "a device memory profile",
    "object-file": "an object file",
    "exported": "an exported program",
}
"""What each kind is called in messages."""


# --- a recognized text ---
# A recognized text that is not a module: its kind and the HLO in it.


__all__ = ["PastedKind", "PastedText", "PastedTextError"]


@dataclass(frozen=True, slots=True)
class PastedText:
    """A text that is not a module.

    `name` is that of its file, `text` is freed of wrapping with the line numbers of the file, and `hlo` is the same
    text with everything but HLO blanked; it is empty if there is none. `versions` are the two sides of a diff.
    `others` are the kinds that the text may have if it has no message of its kind. `given` is the text with its log
    prefixes, which name threads and times; `chip` is the chip that a command was given for it. `data` are the bytes
    of a file that is no text, and `text` is then empty.
    """

    kind: PastedKind
    name: str
    text: str
    hlo: str = ""
    versions: tuple[str, str] | None = None
    others: tuple[PastedKind, ...] = ()
    given: str = ""
    chip: str = ""
    data: bytes = b""


class PastedTextError(HloError):
    """A text that is not a module was given where one is required; commands answer it instead of failing.

    >>> error = PastedTextError(PastedText("shape", "<stdin>", "f32[8]"))
    >>> print(error)
    error: <stdin> is a shape, not a module
    """

    def __init__(self, pasted: PastedText) -> None:
        hint = None if pasted.name.startswith("<") else f"to explain it, run `hlo {quote(pasted.name)}`"
        super().__init__(f"{pasted.name} is {NOUNS[pasted.kind]}, not a module", hint=hint)
        self.pasted = pasted


# --- other languages and formats ---
# Texts in other languages and formats: what each is called, and how to get HLO instead.


_LOOKED_AT: Final = 1 << 16  # all patterns of all languages run over it; a language shows in its first lines
_JAX: Final = "to create HLO text, use jax.jit(f).lower(x).compile().as_text() or XLA_FLAGS=--xla_dump_to=DIR"
_LOWERED: Final = (
    "for optimized HLO, use lowered.compile().as_text(); for HLO of this stage, lowered.as_text(dialect='hlo')"
)
_DUMP: Final = "pass the HLO dump, such as *after_optimizations.txt"
_TORCH: Final = (
    "to create HLO text, set XLA_FLAGS=--xla_dump_to=DIR or use torch_xla._XLAC._get_xla_tensors_hlo([tensor])"
)
_TENSORFLOW: Final = (
    "to create HLO text, use f.experimental_get_compiler_ir(x)(stage='optimized_hlo') or XLA_FLAGS=--xla_dump_to=DIR"
)
_TRACE: Final = "pass the *.xplane.pb file of the same profile, which contains the programs; or run `hlo profile`"

_STUCK: Final = "to compare the collectives of two processes, set XLA_FLAGS=--xla_dump_to=DIR in each; run `hlo diff`"
_NETWORK: Final = "set NCCL_DEBUG=INFO and look for the first warning of any process"
_CRASH: Final = "to find the program, set XLA_FLAGS=--xla_dump_to=DIR and run `hlo lint` on the last module in DIR"
_AUTOTUNING: Final = "set XLA_FLAGS=--xla_gpu_autotune_level=0 to compare; --xla_dump_to=DIR writes the modules"
_WHOLE: Final = "paste whole instructions, each from its name on"

LANGUAGES: Final[tuple[tuple[str, re.Pattern[str], str], ...]] = (
    ("Triton IR (MLIR)", lazy_regex(r"^ *(?:tt\.func|ttg?\.|module attributes \{\"ttg?\.)", re.MULTILINE), _DUMP),
    (
        "a Mosaic kernel (MLIR)",
        lazy_regex(r"#tpu\.|\btpu\.[a-z_]+[ (]|dimension_semantics|#mosaic", re.MULTILINE),
        _DUMP,
    ),
    (
        "StableHLO (MLIR)",
        lazy_regex(
            r"^(?:module @(?:jit|pmap|pjit|xla)_|module(?: @\S+)? (?:attributes\b|\{)"
            r"(?=[^~]{0,4000}?(?:\b(?:stablehlo|mhlo|chlo|sdy)\.[a-z]|\btensor<))"
            r"| *(?:func\.func|\"builtin\.module\")(?=[^~]{0,4000}?(?:\b(?:stablehlo|mhlo|chlo)\.[a-z]|\btensor<)))"
            r"|= \"?(?:stablehlo|mhlo|chlo)\.[a-z]|\bmhlo\.[a-z_]+ = "
            r"|^ *\"?(?:stablehlo|mhlo|chlo)\.[a-z_]+\"?(?:\(| [%(])",
            re.MULTILINE,
        ),
        _LOWERED,
    ),
    (
        "MLIR",
        lazy_regex(
            r"^(?:module(?: @\S+)? (?:attributes\b|\{)| *(?:func\.func|\"builtin\.module\"))"
            r"|\btensor<[\dx?]*[a-z]\w*>(?=[^~]{0,400}?[:=(])",
            re.MULTILINE,
        ),
        _LOWERED,
    ),
    ("MLIR", lazy_regex(r"^ *(?:%\w+(?::\d+)? = \"?[a-z_]+\.[a-z_]+\"?[ (<]|\^bb\d+\()", re.MULTILINE), _LOWERED),
    ("a jaxpr", lazy_regex(r"\{ *lambda *[;a-z]|^ *let$|^ *let [a-z]+:", re.MULTILINE), _JAX),
    ("LLVM IR", lazy_regex(r"\A\s*; ModuleID|^target (?:datalayout|triple) = |^define [^\n]*@", re.MULTILINE), _DUMP),
    ("PTX", lazy_regex(r"^\.version \d.*\n\.target sm_|^\.visible \.entry ", re.MULTILINE), _DUMP),
    ("a buffer assignment", lazy_regex(r"^BufferAssignment:|^[ \t\"']*+allocation \d+: size \d+", re.MULTILINE), _DUMP),
    (
        "a memory usage report",
        lazy_regex(r"Allocations sorted by size:|^cumulative_size; total_size", re.MULTILINE),
        _DUMP,
    ),
    ("a table of live ranges", lazy_regex(r"^HloLiveRange |^ *Live ranges at ", re.MULTILINE), _DUMP),
    ("a Graphviz graph", lazy_regex(r"\A\s*(?:strict )?digraph ", re.IGNORECASE), _DUMP),
    ("a web page", lazy_regex(r"\A\s*<(?:!doctype )?html", re.IGNORECASE), _DUMP),
    ("a PyTorch/XLA IR graph", lazy_regex(r"^ *%\w+ = [^\n=]*\b(?:xla|aten|prim)::\w+\(", re.MULTILINE), _TORCH),
    ("a TensorFlow GraphDef", lazy_regex(r"^node \{\s{0,20}name:", re.MULTILINE), _TENSORFLOW),
    ("a profiler trace in JSON", lazy_regex(r"\"traceEvents\"|\"ph\": ?\"[XMBEC]\""), _TRACE),
    ("memory statistics", lazy_regex(r"CompiledMemoryStats\("), "pass compiled.as_text(), and run `hlo memspace`"),
    (
        "a list of XLA flags",
        lazy_regex(r"^[ \t]*--?xla_\w+=|^[ \t]*xla_\w+: |XLA_FLAGS=['\"]?--?\w|LIBTPU_INIT_ARGS=", re.MULTILINE),
        "run `hlo help dump` for the flags that write dumps",
    ),
)
"""Name, signature, and hint; the first that is found in the beginning of a text counts."""

_WEAK: Final[tuple[tuple[str, re.Pattern[str], str], ...]] = (
    (
        "a warning about a stuck collective",
        lazy_regex(r"has been waiting for [^\n]{0,500}may be stuck|Termination timeout for [^\n]{0,300}collective"),
        _STUCK,
    ),
    ("an NCCL log", lazy_regex(r"NCCL (?:INFO|WARN)"), _NETWORK),
    (
        "an error about an unknown XLA flag",
        lazy_regex(r"Unknown (?:command line )?flags? in (?:env |environment )?(?:var )?XLA_FLAGS"),
        "remove the flag from XLA_FLAGS, or use a release of XLA that has it",
    ),
    (
        "an autotuning log",
        lazy_regex(
            r"/autotuning/|autotun\w{1,20}\.cc|gemm_algorithm_picker|conv_algorithm_picker|buffer_comparator|dot_search_space"
        ),
        _AUTOTUNING,
    ),
    (
        "a TensorRT log",
        lazy_regex(r"\[TRT\]|\bTRT\b[^\n]{0,80}\[[IWEV]\]|TensorRT-LLM|LayerType: \w"),
        "TensorRT does not use HLO",
    ),
    ("a TensorFlow clustering log", lazy_regex(r"mark_for_compilation_pass\.cc"), _TENSORFLOW),
    (
        "a PyTorch/XLA log",
        lazy_regex(r"^\[ScheduleSyncTensorsGraph\]|^TensorsGraphInfo:|torch_xla/csrc/", re.MULTILINE),
        _TORCH,
    ),
    (
        "a crash report",
        lazy_regex(
            r"^\*\*\* SIG[A-Z]+|^Fatal Python error: |^PC: @ +0x|\bcore dumped\b|^#\d+ +0x[0-9a-f]{6}", re.MULTILINE
        ),
        _CRASH,
    ),
    (
        "output of pytest",
        lazy_regex(r"^=+ (?:test session starts|FAILURES|short test summary info) =+$|^E {3,}\w+Error\b", re.MULTILINE),
        _JAX,
    ),
    (
        "a list of operands",
        lazy_regex(
            r"[a-z][a-z0-9]{1,12}\[[0-9,]*+\](?:\{[^{}\n]{0,80}\})? %[\w.\-]+, "
            r"(?:/\*index=\d+\*/)?[a-z][a-z0-9]{1,12}\["
        ),
        _WHOLE,
    ),
    (
        "a shortened module",
        lazy_regex(r"^[ \t]*+(?:ENTRY )?%[\w.\-]+ [({].*\n(?:[ \t]*+\.\.\.|.* = .*\.\.\.)", re.MULTILINE),
        _WHOLE,
    ),
    (
        "a list of instructions without shapes",
        lazy_regex(
            r"^[ \t]*+(?:%?[A-Za-z_][\w.\-]*+ = )?"
            r"(?:all-(?:gather|reduce|to-all)|reduce(?:-scatter|-window)?|dot|convolution|"
            r"dynamic-(?:update-)?slice|get-(?:tuple-element|dimension-size)|custom-call|fusion|broadcast|bitcast|transpose"
            r"|scatter|gather|while|conditional)(?:-start|-done)?\([^()\n]{0,500}\)(?:$|, *\w+=)",
            re.MULTILINE,
        ),
        "add the result of each, such as a = f32[8] all-gather(b)",
    ),
    (
        "a serialized module that is not complete",
        lazy_regex(r"\bb['\"]\\n[^\n]{0,400}\\x12"),
        "write the bytes to a file, such as open('module.pb', 'wb').write(data), and pass the file",
    ),
    (
        "Python source code",
        lazy_regex(r"^(?:import \w|from [\w.]+ import |def \w+\(|@\w[\w.]*(?:\(|$))", re.MULTILINE),
        _JAX,
    ),
    ("C++ source code", lazy_regex(r"^(?:#include |namespace |TEST_F\()", re.MULTILINE), _DUMP),
    # Numbers without commas are a print of NumPy.
    (
        "JSON",
        lazy_regex(r"\A\s*+(?!\[[\[\s]*+-?[\d.]++(?:e[+\-]?\d++)?\s++-?[\d.])(?:\[\s*(?:[\[{\"]|-?\d)|\{\s*[\"\d])"),
        _DUMP,
    ),
)
_FENCE: Final = lazy_regex(r"[ \t]*+(?:```|~~~|---)")
_CODE: Final[tuple[tuple[str, re.Pattern[str]], ...]] = (
    (
        "C++",
        lazy_regex(
            r"\bstd::|^\s*+#include |\b(?:EXPECT|ASSERT|TEST)_\w++\(|::\w++\(|^[^#\"]*\w[ )\]]*;\s*$|\)\s*;\s*$"
        ),
    ),
    (
        "Python",
        lazy_regex(
            r"^\s*+(?:import \w|from [\w.]+ import |def \w+\(|class \w|with [^:\n]+:\s*$|for \w[^:\n]* in "
            r"[^\n]*:\s*$|@\w|>>> )"
            r"|\b(?:jax|jnp|np|tf|torch|lax|xm)\.[a-z_]\w*"
        ),
    ),
)
"""Lines of programs around HLO."""
_TRACEBACK: Final = "Traceback (most recent call last)"
_LONGEST_SOURCE: Final = 1 << 18  # Python's own parser decides, in 0.1 s at this size (measured)
_STATEMENT: Final = lazy_regex(r"^(?:import|from|def|class) \w", re.MULTILINE)
_CPP: Final = lazy_regex(
    r"\A\s*+(?:(?://[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/)\s*+)*+(?:#include |#ifndef |#pragma once|namespace \w)"
)
_RAISED: Final = lazy_regex(
    r"^[ |]{0,8}+((?:\w+\.)*+[A-Z]\w*(?:Error|Exception|Warning|Interrupt|Exit)\b[^\n]{0,200}+)", re.MULTILINE
)


def language_error(text: str, name: str) -> HloError | None:
    """The error for a text in another language or format, with the way to HLO; None if the text has none of them.

    >>> print(language_error("{ lambda ; a:f32[8]. let b:f32[8] = sin a in (b,) }", "<stdin>"))
    error: <stdin> is a jaxpr, not HLO
      help: to create HLO text, use jax.jit(f).lower(x).compile().as_text() or XLA_FLAGS=--xla_dump_to=DIR
    """
    head = text[:_LOOKED_AT]
    if _TRACEBACK in head:
        return None
    return next((_error(name, what, hint) for what, pattern, hint in LANGUAGES if pattern.search(head)), None)


def language_lines(lines: Sequence[str]) -> tuple[str, int, int] | None:
    """The language of lines without HLO, and the offsets of the first and the last of them in it; None if unknown.

    >>> language_lines(["## Lowered", "module @m {", "  %0 = stablehlo.sine %a : tensor<4xf32>", "}"])
    ('StableHLO (MLIR)', 1, 3)
    >>> language_lines(["std::unique_ptr<HloModule> m = Parse(kHlo).value();"])
    ('C++', 0, 0)
    """
    text = "\n".join(lines)[:_LOOKED_AT]
    for name, pattern, _ in LANGUAGES:
        if (match := pattern.search(text)) is not None:
            first = text.count("\n", 0, match.start() + len(match[0]) - len(match[0].lstrip()))
            last = max(
                (index for index, line in enumerate(lines) if line.strip() and not _FENCE.match(line)), default=first
            )
            return name, first, max(first, last)
    for name, pattern in _CODE:
        places = [index for index, line in enumerate(lines) if pattern.search(line)]
        if places:
            return name, places[0], places[-1]
    return None


def is_source_code(text: str) -> bool:
    """Whether all of a text is Python, or a text begins as a file of C++: messages in it are strings, not errors.

    >>> is_source_code("import jax\\nprint('out of memory')"), is_source_code("I call\\nimport jax\\nand it fails")
    (True, False)
    """
    if _CPP.match(text):
        return _TRACEBACK not in text
    if len(text) > _LONGEST_SOURCE or not _STATEMENT.search(text):
        return False
    from ast import parse  # rarely needed

    # all that `ast.parse` raises for text that is no Python; odd escapes warn
    with suppress(SyntaxError, ValueError, MemoryError, RecursionError), catch_warnings():
        simplefilter("ignore")
        return bool(parse(text).body)
    return False


def source_code_error(text: str, name: str) -> HloError:
    """The error for a file of source code without HLO.

    >>> print(source_code_error("import jax", "a.py"))
    error: a.py is Python source code, not HLO
      help: to create HLO text, use jax.jit(f).lower(x).compile().as_text() or XLA_FLAGS=--xla_dump_to=DIR
    """
    return _error(name, "C++ source code", _DUMP) if _CPP.match(text) else _error(name, "Python source code", _JAX)


def no_hlo_error(text: str, name: str, given: str = "") -> HloError:
    """The error for a text without HLO, which says what it seems to be; `given` is the text with its log prefixes.

    >>> print(no_hlo_error("Traceback (most recent call last):\\n  File 'a'\\nValueError: no x\\n", "<stdin>"))
    error: no HLO found in <stdin>, a Python traceback: ValueError: no x
      help: to create HLO text, use jax.jit(f).lower(x).compile().as_text() or XLA_FLAGS=--xla_dump_to=DIR
    """
    if _TRACEBACK in text[:_LOOKED_AT]:
        raised = [match for match in _RAISED.finditer(text) if _TRACEBACK not in match[1]]
        message = f": {raised[-1][1].strip()}" if raised else ""
        return HloError(f"no HLO found in {name}, a Python traceback{message}", hint=_JAX)
    error = known_text_error(text, name) or known_text_error(given, name)
    return error or HloError(f"no HLO found in {name}", hint="run `hlo help dump` to learn how to create a dump")


def known_text_error(text: str, name: str) -> HloError | None:
    """The error for a text without HLO of a known kind, such as a log of NCCL; None for others.

    >>> print(known_text_error("node1:1:2 [0] NCCL INFO Bootstrap : Using eth0", "<stdin>"))
    error: <stdin> is an NCCL log, not HLO
      help: set NCCL_DEBUG=INFO and look for the first warning of any process
    """
    head = text[:_LOOKED_AT]
    return next((_error(name, what, hint) for what, pattern, hint in _WEAK if pattern.search(head)), None)


def _error(name: str, what: str, hint: str) -> HloError:
    return HloError(f"{name} is {what}, not HLO", hint=hint)
