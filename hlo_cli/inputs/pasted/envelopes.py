"""What is a text that is not a module? The one table of kinds, the most specific first, with what answers each."""

from __future__ import annotations

import re
from shlex import quote
from typing import Final, Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError

# --- kinds and their marks ---
# What a text is: the one table of its kinds, the most specific first, each with the marks that it has.
#
# A row holds a noun for messages, the function that answers, the words of which a text must have one, and an expression
# that decides. A kind further down is asked only if no kind above it fits: errors, warnings, files of a dump, tables,
# and prints; shapes come last and only if there is nothing else (`read.py`).


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
    "framework-error",
    "compiler-error",
    "mismatch",
    "device-usage",
    "kernel-metrics",
    "copy-times",
    "schedule-statistics",
    "jaxpr",
    "torch-graph",
    "mesh",
    "sharding-drawing",
    "shape-tree",
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
    "exception",
    "traceback",
    "step-times",
    "environment",
    "mentions",
]


@dataclass(frozen=True, slots=True)
class Envelope:
    """One kind of text: one of the `marks` is in it, and `pattern` is found, if there is one.

    `answer` is the function of `hlo_cli/commands` that answers. A document is about itself, so that instructions
    in it are part of it; an answer that explains HLO is about those next to a message; a message that is beside HLO
    is a remark in a log, and a program there is what the reader asks about. A value is all of its text. What has times
    is answered by `hlo profile` too, although it is not a trace.
    """

    kind: PastedKind
    noun: str
    answer: str
    marks: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    is_document: bool = False
    explains_hlo: bool = False
    is_beside_hlo: bool = False
    is_value: bool = False
    has_times: bool = False

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
    "ran out of memory trying",
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

_WITHIN: Final = r"(?:(?!Traceback \()[^~]){0,20000}?"
"""The lines of one traceback: those of the next one are not read again."""

ENVELOPES: Final[tuple[Envelope, ...]] = (
    Envelope(
        "out-of-memory",
        "an out-of-memory error",
        "pasted.memory.out_of_memory_report",
        _OUT_OF_MEMORY,
        explains_hlo=True,
    ),
    # --- errors when a program starts or runs ---
    Envelope(
        "missing-symbol",
        "an error about a missing function",
        "pasted.failures.missing_symbol_report",
        ("runtime symbol", "Symbols not found", "undefined symbol"),
        _words(r"Unable to resolve runtime symbol|Symbols not found: \["),
    ),
    Envelope(
        "kernel-launch",
        "an error of a GPU kernel",
        "pasted.failures.kernel_launch_report",
        ("CUDA_ERROR_", "hipError", "illegal memory access", "ailed to launch", "HIP_ERROR", "misaligned address"),
        _words(
            r"Failed to launch (?:CUDA|ROCm|HIP|ROCM) (?:kernel|graph)|CUDA_ERROR_(?!OUT_OF_MEMORY)[A-Z]\w+"
            r"|an illegal memory access was encountered|hipError(?!OutOfMemory)[A-Z]\w+|misaligned address"
        ),
    ),
    Envelope(
        "library-launch",
        "an error of a GPU library call",
        "pasted.failures.library_launch_report",
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
        "pasted.failures.argument_size_report",
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
        "pasted.failures.donated_argument_report",
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
        "pasted.sharding_errors.indivisible_report",
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
        "pasted.sharding_errors.sharding_rank_report",
        ("values of rank", "rank at least", "not compatible with", "compatible with the corresponding input"),
        _words(
            r"only valid for values of rank (?:at least )?\d+|rank of the (?:spec|sharding|value)"
            r"|in_specs entry which is too long"
        ),
    ),
    Envelope(
        "mesh-axis",
        "an error about an axis of a mesh",
        "pasted.sharding_errors.mesh_axis_report",
        ("has duplicate entries for `", "is not found in mesh"),
        _words(r"has duplicate entries for `|[Rr]esource axis: \w+ of [^~]{1,400}? is not found in mesh"),
    ),
    Envelope(
        "other-devices",
        "an error about the devices of arguments",
        "pasted.sharding_errors.other_devices_report",
        ("incompatible devices for",),
        _words(r"Received incompatible devices for [^~]{1,4000}? device ids"),
    ),
    Envelope(
        "other-sharding",
        "an error about the sharding of an argument or result",
        "pasted.sharding_errors.other_sharding_report",
        ("does not match the sharding on", "does not match the specs of", "which require replication"),
    ),
    Envelope(
        "compile-time-constant",
        "an error of TensorFlow before HLO exists",
        "pasted.failures.compile_time_constant_report",
        ("compile-time constant",),
        _words(r"must be a compile-time constant"),
    ),
    Envelope(
        "nan",
        "an error about a value that is not a number",
        "pasted.failures.nan_report",
        ("encountered in",),
        _words(r"FloatingPointError: invalid value \((?:nan|inf)\) encountered in"),
    ),
    Envelope(
        "unknown-flag",
        "an error about an XLA flag",
        "pasted.failures.flag_report",
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
        "pasted.warnings.stuck_report",
        ("may be stuck", "stuck waiting for", "Termination timeout", "Rendezvous", "Watchdog caught"),
        _words(
            r"has been waiting for [^\n]{0,500}may be stuck|is unstuck waiting for|Termination timeout for"
            r"|[Ss]tuck waiting for|This thread has been waiting for|Watchdog caught collective operation timeout"
        ),
        is_beside_hlo=True,
    ),
    Envelope(
        "slow-operation",
        "a slow operation warning",
        "pasted.compiler_messages.slow_operation_report",
        (
            "Constant folding an instruction is taking",
            "low compile?",
            "slow_operation_alarm",
            "The operation took ",
            "Trying algorithm ",
        ),
        explains_hlo=True,
    ),
    Envelope(
        "resharding",
        "a resharding warning",
        "pasted.compiler_messages.resharding_report",
        ("[spmd]", "[SPMD]", "nvoluntary full rematerialization"),
        explains_hlo=True,
    ),
    # --- files that XLA writes next to a dump ---
    Envelope(
        "memory-report",
        "a memory usage report",
        "pasted.memory.usage_report",
        ("cumulative_size;", "Memory Space: ", "Allocations sorted by size"),
        _words(r"^\s*cumulative_size;|^Memory Space: \S+ \(color=\d+\)|^Allocations sorted by size"),
        is_document=True,
    ),
    Envelope(
        "live-range",
        "a table of live ranges",
        "pasted.memory.live_range_report",
        ("HloLiveRange", "BufferLiveRange:", "Live ranges at"),
        _words(r"^\s*(?:HloLiveRange \(max \d|BufferLiveRange:|Live ranges at \d)"),
        is_document=True,
    ),
    Envelope(
        "buffer-assignment",
        "a buffer assignment",
        "pasted.memory.assignment_report",
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
        "pasted.memory.values_report",
        ("Used values:", " positions:"),
        _words(r"^Used values:|^<\d+ [^\s@]+ @\d+>\n positions:"),
        is_document=True,
    ),
    # --- tables and prints ---
    Envelope(
        "allocator-stats",
        "memory statistics of a device",
        "pasted.memory.allocator_statistics_report",
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
        "pasted.memory.program_statistics_report",
        ("CompiledMemoryStats(", "_size_in_bytes"),
        _words(r"CompiledMemoryStats\(|\b(?:temp|argument|output)_size_in_bytes['\"]?\s*[=:]"),
        is_document=True,
    ),
    Envelope(
        "cost-analysis",
        "a cost analysis",
        "prints.printed_tables.cost_analysis_report",
        ("bytes accessed", "transcendentals", "utilization"),
        _words(
            r"['\"](?:bytes accessed[^'\"\n]{0,40}|transcendentals|utilization ?\w{0,20}\{[\d,]*\})['\"]\s*:\s*-?\d"
        ),
        is_document=True,
    ),
    Envelope(
        "autotune-results",
        "autotuning results",
        "prints.printed_tables.autotuning_report",
        ("run_time", "results {", "results:", "version: 3"),
        _words(r"\brun_time:? \{|^results:? \{|^version: 3\s*\Z"),
        is_document=True,
    ),
    Envelope(
        "thunks",
        "a thunk sequence",
        "prints.printed_tables.thunk_report",
        (": k",),
        _words(r"^ *\d{3,}: k[A-Z]\w+[ \t]"),
        is_document=True,
    ),
    Envelope(
        "thunk-names",
        "a list of thunks with their instructions",
        "prints.dump_files.thunk_names_report",
        ("thunk_metadata",),
        _words(r"\A\s*thunk_metadata:? \{"),
        is_document=True,
    ),
    Envelope(
        "pass-times",
        "a list of compiler passes",
        "prints.dump_files.pass_times_report",
        ("pass_metadata",),
        _words(r"^\s*pass_metadata:? \{"),
        is_document=True,
        has_times=True,
    ),
    Envelope(
        "target",
        "a description of a target",
        "prints.dump_files.target_report",
        ("tpu_topology_args", "gpu_device_info"),
        _words(r"^tpu_topology_args:? \{|\A(?!.*^fusion_steps:? \{)(?s:.*)^\s*gpu_device_info:? \{"),
        is_document=True,
    ),
    Envelope(
        "transfer-stats",
        "a list of transfers with the host",
        "prints.dump_files.transfers_report",
        ("host_transfer_sizes",),
        _words(r"^host_transfer_sizes:? \{"),
        is_document=True,
    ),
    Envelope(
        "compile-options",
        "a list of compiler flags",
        "prints.dump_files.compile_options_report",
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
        "prints.dump_files.program_facts_report",
        ("num_replicas:", "optimized_hlo_instruction_count:"),
        _words(r"\A\s*num_replicas: \d+\s*\n\s*device_assignment:? \{|^optimized_hlo_instruction_count: \d"),
        is_document=True,
    ),
    # --- code that backends generate ---
    Envelope(
        "ptx",
        "PTX",
        "prints.code_files.ptx_report",
        (".target ",),
        lazy_regex(r"^\.version \d[^\n]*\n\.target ", re.MULTILINE),
        is_document=True,
    ),
    Envelope(
        "emitter-mlir",
        "MLIR of an emitter",
        "prints.code_files.emitter_report",
        ("xtile.", "xla.", "llvm.func", "tt.func", "// -----// IR Dump "),
        EMITTER_MLIR,
        is_document=True,
    ),
    Envelope(
        "llvm-ir",
        "LLVM IR",
        "prints.code_files.llvm_report",
        ("; ModuleID", "target triple", "target datalayout"),
        lazy_regex(r"\A\s*; ModuleID|^target (?:datalayout|triple) = ", re.MULTILINE),
        is_document=True,
    ),
    Envelope(
        "drawing",
        "a drawing of a computation",
        "prints.code_files.drawing_report",
        ("digraph G", "<title>Fusion Explorer: "),
        lazy_regex(r"^label = <[^\n]*Computation |<title>Fusion Explorer: ", re.MULTILINE),
        is_document=True,
    ),
    Envelope(
        "torch-graphs",
        "an analysis of graphs by PyTorch/XLA",
        "prints.torch_xla.graphs_report",
        ("Compilation Analysis: ", "Execution Analysis: "),
        _words(r"(?:Compilation|Execution) Analysis: (?:Graph|Compilation|Execution) \w+"),
        is_document=True,
    ),
    Envelope(
        "torch-metrics",
        "a PyTorch/XLA metrics report",
        "prints.torch_xla.metrics_report",
        ("Metric: ", "Counter: "),
        _words(r"^(?:Metric|Counter): \w[^\n]*\n *(?:TotalSamples|Value): "),
        is_document=True,
    ),
    Envelope(
        "torch-times",
        "a table of torch.profiler",
        "prints.torch_xla.times_report",
        ("Self CPU time total:", "Self CPU %"),
        _words(r"^ *Name +Self CPU %"),
        is_document=True,
        has_times=True,
    ),
    Envelope(
        "memory-top",
        "a table of pprof",
        "pasted.memory.pprof_report",
        ("Showing nodes accounting for",),
        _words(r"^Showing nodes accounting for [\d.]+[kMGTP]?B"),
        is_document=True,
    ),
    Envelope(
        "execution-profile",
        "an execution profile of XLA",
        "prints.printed_tables.execution_profile_report",
        ("cycles",),
        _words(r"\d cycles \( *[\d.]+%[^\n]{0,400}?:: *[\d.]+ usec"),
        is_document=True,
        has_times=True,
    ),
    Envelope(
        "kernel-times",
        "a table of kernel times",
        "prints.printed_tables.kernel_times_report",
        (
            "Total Time (ns)",
            "Total Time",
            "cuda_gpu_kern_sum",
            "gpukernsum",
            "Kernel Summary",
            "TotalDurationNs",
            "DURATION (nsec)",
        ),
        _words(
            r"^[ \t]*\"?Time ?\(%\)\"?[ ,|]+\"?Total Time|cuda_gpu_kern_sum|CUDA (?:GPU )?Kernel "
            r"(?:Summary|Statistics)|^\"?Name\"?,\"?Calls\"?,\"?TotalDurationNs"
            r"|KERNEL_DISPATCH[^~]{0,4000}?DURATION \(nsec\)"
            r"|DURATION \(nsec\)[^~]{0,4000}?KERNEL_DISPATCH"
        ),
        is_document=True,
        has_times=True,
    ),
    Envelope(
        "operation-times",
        "a table of operation times",
        "prints.printed_tables.operation_times_report",
        ("hlo_op_name", "hlo_op_expression", "HLO op name", "HLO Op", "Self time", "self_time", "total_time_us"),
        _words(
            r"^(?=[^\n]{0,2000}?(?:hlo_op_name|hlo_op_expression|HLO [Oo]p [Nn]ame|HLO [Oo]p [Ee]xpression))"
            r"(?=[^\n]{0,2000}?[Tt]ime)[^\n]{0,2000}?[,\t|;]"
        ),
        is_document=True,
        has_times=True,
    ),
    Envelope(
        "copy-times",
        "a table of copies",
        "prints.device_tables.copies_report",
        ("[CUDA mem",),
        _words(r"^[ \t|]*[\d.]+[ \t|]+[\d,.]+[ \t|]+[\d,]+[ \t|][^\n\[]{0,300}\[CUDA mem"),
        is_document=True,
        has_times=True,
    ),
    Envelope(
        "kernel-metrics",
        "a print of Nsight Compute",
        "prints.device_tables.kernel_metrics_report",
        ("Section: ",),
        _words(r"\)x\([\d, ]+\), Context \d"),
        is_document=True,
        has_times=True,
    ),
    Envelope(
        "device-usage",
        "a table of devices",
        "prints.device_tables.device_usage_report",
        ("MiB /", "MiB/", "GiB /", "memory.used", "Using (GB)"),
        _words(
            r"^[^\n]{0,120}\d MiB?/ ?\d+MiB|\dMiB */ *\d+MiB"
            r"|^\W{0,4}\d{1,6}\W{1,12}[\d.]{1,12} ?GiB ?/ ?[\d.]{1,12} ?GiB"
            r"|^[^\n]{0,200}memory\.used[^\n]{0,200}memory\.total|Using \(GB\) [\d.]+ / [\d.]+"
        ),
        is_document=True,
    ),
    Envelope(
        "schedule-statistics",
        "statistics of a schedule",
        "prints.device_tables.schedule_statistics_report",
        ("Total wasted cycles: ",),
        is_document=True,
    ),
    Envelope(
        "torch-graph",
        "an IR graph of PyTorch/XLA",
        "prints.program_prints.torch_graph_report",
        ("xla::", "aten::", "prim::"),
        lazy_regex(r"^ *%\d+ = \(?[a-z]\w*\[[^\n]{0,2000}? (?:xla|aten|prim)::\w+\(", re.MULTILINE),
        is_document=True,
    ),
    Envelope(
        "sharding-drawing",
        "a drawing of a sharding",
        "prints.program_prints.sharding_drawing_report",
        ("\u2502", "|"),
        lazy_regex(
            r"^[ \t\u2502|]*(?:CPU|GPU|TPU|CUDA|ROCM|METAL) \d[\d,]*[ \t]*(?:[\u2502|][ "
            r"\t]*(?:CPU|GPU|TPU|CUDA|ROCM|METAL)"
            r" \d[\d,]*[ \t]*)*[\u2502|]?[ \t]*$",
            re.MULTILINE,
        ),
        is_document=True,
    ),
    Envelope(
        "pallas-kernel",
        "a Pallas kernel",
        "prints.printed_tables.pallas_report",
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
        "prints.printed_tables.residuals_report",
        ("from the argument", "output of", "from a literal", "from a constant", "saved"),
        _words(
            r"^\s*[a-z]\w*(?:<\w+>)?\[[\d,]*\]\S* (?:from the argument|from a (?:literal|constant)|named '[^'\n]+' "
            r"from|output of (?:jitted function )?\S+ from)"
        ),
        is_document=True,
    ),
    Envelope(
        "mismatch",
        "a comparison of arrays",
        "pasted.failures.mismatch_report",
        ("Mismatched elements: ", "Mismatch count "),
        _words(r"Mismatched elements: \d+ / \d|Mismatch count \d+ \("),
    ),
    Envelope(
        "framework-error",
        "an error of a framework before HLO exists",
        "pasted.compiler_messages.compiler_error_report",
        (
            *(
                "incompatible shapes for broadcasting",
                "Incompatible shapes for broadcasting",
                "Incompatible types for ",
            ),
            *("Cannot concatenate arrays", "cannot reshape array of shape", "inconsistent sizes for array axes"),
            *(
                "different leading axis sizes",
                "Size of label '",
                "feature dimension size divided by",
                "branches must have",
                "branch outputs must have",
            ),
            *("must have identical types", "Shape mismatch for ", "Cannot divide evenly the sizes", "of mesh_shape ("),
            *(
                "not compatible with the stored shape",
                "Initializer expected to generate shape",
                "The size of tensor a (",
            ),
            *("shapes cannot be multiplied", "Incompatible shapes: [", "must be static integers", "Shapes must be 1D"),
            *("Encountered an unexpected tracer", "Non-hashable static arguments", "Error interpreting argument to"),
            *("requires real- or complex-valued", "Explicitly requested dtype", "scatter inputs have incompatible"),
            *("was exported for platforms", "available KV cache memory", "Barrier timed out. Id", "PJRT API version ("),
            *("Got completion from peer", "LatencyHidingScheduler current memory", "Delay kernel timed out"),
            *("Results do not match the reference", "Memory access fault by GPU", "ptxas fatal"),
            *(
                "caller indicates that this is not a failure",
                "launch group with a different launch id",
                "slice_sizes must be less",
                "transpose permutation isn't",
            ),
            *("input arrays must have the same shape", "select `which` must be", "could not be broadcast together"),
            *("to have the same dtypes, got", "vmap was requested to map", "is out of bounds for array of dimension"),
            *("copying a param with shape", "is incompatible with the layer", "expected key_data.shape"),
            *(
                "Index map function",
                "Found an unbound axis name",
                "Custom VJP bwd rule",
                "boolean indices must be concrete",
            ),
            *("(first observed failure)", "torch._dynamo hit config", "triggered tf.function retracing", "Assertion `"),
            *("Failed to deserialize StableHLO", "driver: Metadata at", "compilation cache entry for '"),
            *("[cudnn_frontend] Error", "Failed to connect to remote host", "failed to connect to all addresses"),
        ),
    ),
    Envelope(
        "compiler-error",
        "a compiler error",
        "pasted.compiler_messages.compiler_error_report",
        _COMPILER_ERROR,
        explains_hlo=True,
    ),
    Envelope(
        "jaxpr",
        "a jaxpr",
        "prints.program_prints.jaxpr_report",
        ("lambda",),
        lazy_regex(r"\{ *lambda *[^;\n]{0,2000};[^\n]{0,20000}?\b[a-z_]\w{0,5}:[a-z]\w*\["),
        is_document=True,
    ),
    # --- warnings that matter less than an error in the same text ---
    Envelope(
        "donation",
        "a warning about donated arguments",
        "pasted.warnings.donation_report",
        ("onated buffers", "onated arguments", "onation is not implemented"),
        _words(r"[Dd]onated buffers were not usable|[Dd]onation is not implemented for"),
        is_beside_hlo=True,
    ),
    Envelope(
        "spills",
        "a warning about register spills",
        "pasted.warnings.spills_report",
        ("spill", "ptxas info"),
        _words(r"(?:Registers|registers) are spilled|bytes spill (?:stores|loads)|ptxas info *: Used \d+ registers"),
        is_beside_hlo=True,
    ),
    Envelope(
        "host-compute",
        "a warning about host computation",
        "pasted.warnings.host_compute_report",
        ("host memory space", "host compute"),
        _words(r"does device compute in host memory space|Converting into host compute"),
        is_beside_hlo=True,
    ),
    Envelope(
        "captured-constants",
        "a warning about captured constants",
        "pasted.warnings.captured_constants_report",
        ("captured during lowering", "constants were captured", "onstants captured"),
        _words(r"constants (?:were )?captured"),
        is_beside_hlo=True,
    ),
    Envelope(
        "compile-log",
        "a log of compilations",
        "pasted.recompilations.report_of",
        (
            *("TRACING CACHE MISS", "Finished XLA compilation", "Finished tracing", "Finished jaxpr to MLIR"),
            *("with global shapes and types", "ersistent compilation cache", "PERSISTENT COMPILATION CACHE MISS"),
        ),
        _words(
            r"TRACING CACHE MISS at|Finished (?:XLA compilation|tracing|jaxpr to MLIR)"
            r"|Compiling \S+ with global shapes and types|(?:COMPILATION CACHE MISS|compilation cache hit) for '"
        ),
        is_beside_hlo=True,
    ),
    Envelope(
        "stablehlo",
        "StableHLO (MLIR)",
        "prints.printed_tables.stablehlo_report",
        ("stablehlo.",),
        _words(r"\"stablehlo\.[a-z_]+\"\("),
        is_document=True,
    ),
    Envelope(
        "exception",
        "an exception with sizes",
        "pasted.compiler_messages.compiler_error_report",
        ("Error: ", "Error:\n", "Exception: "),
        _words(
            r"^[ \t]*(?:\w{1,60}\.){0,8}[A-Z]\w{0,60}(?:Error|Exception):(?=(?:(?!Error:)[^~]){0,400}?(?:"
            r"(?<![\w.])(?:pred|bf16"
            r"|[fsuc]\d{1,3}"
            r"|float\d\d|bfloat16|u?int\d{1,2}|shape|Size\()? ?[\[(]\d{1,9}(?:, ?\d{1,9}){1,8},?[\])]"
            r"|\b\d[\d.,]{0,12} ?[KMGT]i?B\b|\b(?:INTERNAL|UNAVAILABLE|ABORTED|UNKNOWN|DEADLINE_EXCEEDED): ))"
        ),
        is_beside_hlo=True,
    ),
    Envelope(
        "traceback",
        "a traceback of a framework",
        "pasted.compiler_messages.compiler_error_report",
        ("Traceback (most recent call last)",),
        lazy_regex(
            rf"^[ \t]*Traceback \(most(?={_WITHIN}(?:\b(?:jax|jaxlib|jnp|lax|torch|torch_xla|tensorflow|flax|optax"
            rf"|orbax|keras)"
            rf"[./]|JAX has removed)){_WITHIN}^[ \t]*(?:\w{{1,60}}\.){{0,8}}[A-Z]\w{{0,60}}(?:Error|Exception):",
            re.MULTILINE,
        ),
        is_beside_hlo=True,
    ),
    Envelope(
        "step-times",
        "a log of training steps",
        "prints.device_tables.step_times_report",
        ("completed step", "step_time", "step time"),
        _words(r"\bstep[: =]{1,3}\d+,? +(?:seconds|step_time|time|sec)[: =]{1,3}[\d.]+"),
        is_beside_hlo=True,
        has_times=True,
    ),
    Envelope(
        "environment",
        "a description of an environment",
        "prints.device_tables.environment_report",
        ("jaxlib:",),
        _words(r"^jax: +\d[\w.+\-]*\s+jaxlib: +\d"),
        is_document=True,
    ),
    # --- recognized by their form, if no word above is in the text ---
    Envelope("cut-header", "the beginning of a module", "prints.printed_tables.cut_header_report"),
    Envelope("diff", "a diff", "pasted.unified_diff.diff_report", explains_hlo=True),
    Envelope("shape", "a shape", "prints.shape_text.shape_report", is_value=True),
    Envelope("shapes", "a list of shapes", "prints.shape_text.shape_report", is_value=True),
    Envelope("layout", "a layout", "prints.shape_text.layout_report", is_value=True),
    Envelope("sharding", "a sharding", "prints.sharding_text.sharding_report", is_value=True),
    Envelope("replica-groups", "a list of replica groups", "prints.sharding_text.replica_groups_report", is_value=True),
    Envelope("mesh", "a mesh", "prints.program_prints.mesh_report", is_value=True),
    Envelope("shape-tree", "a tree of shapes", "prints.program_prints.shape_tree_report", is_value=True),
    Envelope("mentions", "a text that is not recognized", "pasted.mentions.mentions_report"),
    # --- recognized by their bytes ---
    Envelope("memory-profile", "a device memory profile", "pasted.memory.held_memory_report"),
    Envelope("object-file", "an object file", "prints.code_files.object_report"),
    Envelope("exported", "an exported program", "prints.dump_files.exported_report"),
)
"""The kinds, the most specific first."""

ENVELOPE_OF: Final[dict[PastedKind, Envelope]] = {envelope.kind: envelope for envelope in ENVELOPES}
"""The row of each kind."""


# --- a recognized text ---
# A recognized text that is not a module: its kind and the HLO in it.


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

    The message says what the text is, unless another one is given.

    >>> error = PastedTextError(PastedText("shape", "<stdin>", "f32[8]"))
    >>> print(error)
    error: <stdin> is a shape, not a module
    """

    def __init__(self, pasted: PastedText, message: str = "", hint: str | None = None) -> None:
        explain = None if pasted.name.startswith("<") else f"to explain it, run `hlo {quote(pasted.name)}`"
        super().__init__(
            message or f"{pasted.name} is {ENVELOPE_OF[pasted.kind].noun}, not a module", hint=hint or explain
        )
        self.pasted = pasted
