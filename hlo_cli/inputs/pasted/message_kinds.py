"""Which errors and warnings are recognized in a text? Rows of the table of kinds, the most specific first."""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.inputs.pasted.kinds import FROM_JAX, Envelope, words
from hlo_cli.lazy_regex import lazy_regex

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

_WITHIN: Final = r"(?:(?!Traceback \()[\s\S]){0,20000}?"
"""The lines of one traceback: those of the next one are not read again."""

# What an error about a sharding mentions, and what it says about division, within some lines of each other.
_OF_SHARDINGS: Final = r"(?:[Ss]hard|[Mm]esh|axis|axes|[Pp]artition|dimension \d|pmap|pjit|vmap)"
_OF_DIVISION: Final = r"(?:should be divisible by|evenly divi|is not (?:evenly )?divisible by)"

SPECIFIC_MESSAGES: Final[tuple[Envelope, ...]] = (
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
        words(r"Unable to resolve runtime symbol|Symbols not found: \["),
    ),
    Envelope(
        "kernel-launch",
        "an error of a GPU kernel",
        "pasted.failures.kernel_launch_report",
        ("CUDA_ERROR_", "hipError", "illegal memory access", "ailed to launch", "HIP_ERROR", "misaligned address"),
        words(
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
        words(
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
        words(
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
        words(
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
        words(
            # A model's own check of its sizes, and prose about division, are not about a sharding.
            rf"{_OF_SHARDINGS}(?:(?!{_OF_SHARDINGS})[\s\S]){{0,800}}?{_OF_DIVISION}"
            rf"|{_OF_DIVISION}(?:(?!{_OF_DIVISION})[\s\S]){{0,800}}?{_OF_SHARDINGS}"
            r"|implies that array axis \d+ is partitioned"
        ),
    ),
    Envelope(
        "sharding-rank",
        "an error about a sharding of an array",
        "pasted.sharding_errors.sharding_rank_report",
        ("values of rank", "rank at least", "not compatible with", "compatible with the corresponding input"),
        words(
            r"only valid for values of rank (?:at least )?\d+|rank of the (?:spec|sharding|value)"
            r"|in_specs entry which is too long"
        ),
    ),
    Envelope(
        "mesh-axis",
        "an error about an axis of a mesh",
        "pasted.sharding_errors.mesh_axis_report",
        ("has duplicate entries for `", "is not found in mesh"),
        words(r"has duplicate entries for `|[Rr]esource axis: \w+ of [\s\S]{1,400}? is not found in mesh"),
    ),
    Envelope(
        "other-devices",
        "an error about the devices of arguments",
        "pasted.sharding_errors.other_devices_report",
        ("incompatible devices for",),
        words(r"Received incompatible devices for [\s\S]{1,4000}? device ids"),
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
        words(r"must be a compile-time constant"),
    ),
    Envelope(
        "nan",
        "an error about a value that is not a number",
        "pasted.failures.nan_report",
        ("encountered in",),
        words(r"FloatingPointError: invalid value \((?:nan|inf)\) encountered in"),
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
        words(
            r"(?:Unknown|unknown) (?:command line )?flags?(?: in| '| \"|:)|Couldn't interpret value|Illegal value "
            r"\S[^\n]{0,400}? specified for flag"
        ),
    ),
    # --- warnings about a run or a compilation ---
    Envelope(
        "stuck-collective",
        "a warning about a stuck collective",
        "pasted.warnings.stuck_report",
        ("may be stuck", "stuck waiting for", "Termination timeout", "Rendezvous", "Watchdog caught"),
        words(
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
)
"""Errors and warnings whose words are in no other text."""

GENERAL_MESSAGES: Final[tuple[Envelope, ...]] = (
    Envelope(
        "mismatch",
        "a comparison of arrays",
        "pasted.failures.mismatch_report",
        ("Mismatched elements: ", "Mismatch count "),
        words(r"Mismatched elements: \d+ / \d|Mismatch count \d+ \("),
    ),
    Envelope(
        "framework-error",
        "an error of a framework before HLO exists",
        "pasted.compiler_messages.framework_error_report",
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
                "Gradient only defined for scalar-output",
                "Duplicate GPU detected : rank",
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
            # --- calls of JAX with wrong arguments ---
            *(
                "requires lhs and rhs ndim to be equal",
                "requires lhs batch dimensions",
                "start_indices must have length",
            ),
            *(
                "update shape must be smaller than operand",
                "must have shape [..., n, n]",
                "array split does not result",
            ),
            *(
                "select an axis to squeeze out",
                "Too many indices: ",
                "Indexer must have integer",
                "in-place item assignment",
            ),
            *(
                "Invalid shape for `swap`",
                "Block shape for ",
                "Body failed to verify",
                "] captures constants",
                "captures constants [",
                "Only interpret mode",
            ),
            *("implicit dtype promotion path", "`preferred_element_type` must", "arguments to fori_loop must have"),
            *("too large to convert to ", "out of bounds for int", "requires ndarray or scalar arguments"),
            *("unexpected PRNG key type", "is not a valid JAX type", "Cannot interpret value of type <class"),
            *(
                "Reverse-mode differentiation does not work",
                "Leaked trace ",
                "host-to-device transfer: ",
                "device-to-host transfer: ",
            ),
            *("pytree structure error", "Dict key mismatch", "arity mismatch: ", "Custom node type mismatch"),
            *(
                "incompatible shardings for broadcasting",
                "Contracting dimensions are sharded",
                "mismatched varying manual axes",
            ),
            *(
                "all_to_all requires the size",
                "_scatter operand scatter dimension",
                "sources and destinations must be unique",
            ),
            *("Unknown backend", "' failed to initialize: ", "jax.distributed.initialize"),
            # --- devices, code generators, and other processes ---
            *("open(/dev/", "libtpu.so already in use", "libtpu multi-process lockfile", "No visible GPU devices"),
            *("Is it installed?", "DNN library initialization failed", "Failed to determine best cudnn", "libdevice"),
            *("suitable version of ptxas", "ptxas error", "CompilationError: at ", "op inferred type(s)", "Gloo "),
            *(" heartbeat timeout", "has been preempted", "tasks have crashed", "JAX distributed service detected"),
            *("MegaScale", "Megascale", "compiled for input shardings", "Length of slice indices must match"),
            *("in static_argnames", "invalid PRNG key data", " mismatch)"),
            *(
                "is newer than and incompatible with",
                "but this version of jax requires",
                "JAX plugin ",
                "jaxlib was built using",
            ),
            *("NVRM: Xid", ") failed: cu", "CUPTI could not be loaded", "Collective operation timed out: "),
            *(
                "appears more than once in instruction",
                "Pallas TPU lowering",
                "Pallas GPU lowering",
                "must be a tree prefix",
            ),
            *("must be a tree prefix", "devices are available", "low on resource: memory"),
            # --- errors of libraries ---
            *("but the collection is empty", "Could not find parameter named", "the given initializer is expected"),
            *('No Variable named "', 'needs PRNG for "', "no `rngs` argument was provided", "is immutable. (https"),
            *(
                ": Name in use",
                "Jax transforms and Flax models",
                "only accessible from inside 'init'",
                "different trace level",
            ),
            *("EquinoxRuntimeError: ", "(`check` failed)", "[Chex] ", "Type-check error whilst checking"),
            *(
                "restore item and on-disk value",
                "No checkpoint path found",
                "Destination /",
                "Checkpoint at ",
                "harding passed to deserialization",
            ),
            *("was not found in jax.local_devices", "target dict keys and state dict keys"),
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
        lazy_regex(r"\{ *lambda *+[^;{\n]{0,2000}+;[^{\n]{0,20000}?\b[a-z_]\w{0,5}:[a-z]\w*\["),
        is_document=True,
        to_hlo=FROM_JAX,
    ),
    # --- warnings that matter less than an error in the same text ---
    Envelope(
        "donation",
        "a warning about donated arguments",
        "pasted.warnings.donation_report",
        ("onated buffers", "onated arguments", "onation is not implemented"),
        words(r"[Dd]onated buffers were not usable|[Dd]onation is not implemented for"),
        is_beside_hlo=True,
    ),
    Envelope(
        "spills",
        "a warning about register spills",
        "pasted.warnings.spills_report",
        ("spill", "ptxas info"),
        words(r"(?:Registers|registers) are spilled|bytes spill (?:stores|loads)|ptxas info *: Used \d+ registers"),
        is_beside_hlo=True,
    ),
    Envelope(
        "host-compute",
        "a warning about host computation",
        "pasted.warnings.host_compute_report",
        ("host memory space", "host compute"),
        words(r"does device compute in host memory space|Converting into host compute"),
        is_beside_hlo=True,
    ),
    Envelope(
        "captured-constants",
        "a warning about captured constants",
        "pasted.warnings.captured_constants_report",
        ("captured during lowering", "constants were captured", "onstants captured"),
        words(r"constants (?:were )?captured"),
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
        words(
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
        words(r"\"stablehlo\.[a-z_]+\"\("),
        is_document=True,
    ),
    Envelope(
        "exception",
        "an exception with sizes",
        "pasted.compiler_messages.compiler_error_report",
        ("Error: ", "Error:\n", "Exception: "),
        words(
            r"^[ \t]*(?:\w{1,60}\.){0,8}[A-Z]\w{0,60}(?:Error|Exception):(?=(?:(?!Error:)[\s\S]){0,400}?(?:"
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
            rf"[./]|JAX has removed)){_WITHIN}^[ \t]*(?:\w{{1,60}}\.){{0,8}}[A-Z]\w{{0,60}}"
            r"(?:Error|Exception|NotFound):"
            r"|^Exception: Leaked trace",
            re.MULTILINE,
        ),
        is_beside_hlo=True,
    ),
    Envelope(
        "nccl-log",
        "an NCCL log",
        "pasted.warnings.nccl_report",
        ("Init START", "Init COMPLETE"),
        words(r"\brank \d{1,9} n?[Rr]anks \d{1,9}[^\n]{0,300} - Init (?:START|COMPLETE)"),
        is_beside_hlo=True,
    ),
    Envelope(
        "kv-cache",
        "lines on the cache of a server",
        "prints.runtime_prints.cache_report",
        ("KV cache", "max_total_num_tokens", "KV Cache"),
        words(
            r"Available KV cache memory[:=]|KV cache size[:=] ?\d[\d,]* tokens|max_total_num_tokens=\d"
            r"|KV Cache is allocated|GPU KV cache[:=]"
        ),
        is_beside_hlo=True,
    ),
    Envelope(
        "step-times",
        "a log of training steps",
        "prints.device_tables.step_times_report",
        ("step", "Step", "iter", "Iter", "it/s", "STEP"),
        lazy_regex(
            r"\bstep[: =]{1,3}\d[\d,]*:? +(?:\w{2,20}[=:] ?[\d.e+\-]{1,20},? +){0,4}"
            r"(?:seconds|step_time|step_time_s|time|sec)[: =]{1,3}[\d.]+"
            r"|(?<![A-Za-z/])(?:[Ss]teps?|STEP|[Ii]ter(?:ation)?s?|it|batch)\b['\"]? ?"
            r"[:=#\[ ]{1,3}\d[^\n]{0,300}?"
            r"(?:\d ?(?:ms|us|µs|s|secs?|seconds|min)\b|\d ?(?:it|steps?|iters?)/s"
            r"|(?:time|dt|duration|elapsed|secs|per_sec\w{0,4})(?:_\w{1,8})?['\"]? ?[:=])"
            r"|\d/\d{1,12} \[\d\d:\d\d<?[^\n]{0,60}?\d(?:it/s|s/it)",
            re.MULTILINE,
        ),
        is_document=True,
        is_beside_hlo=True,
        has_times=True,
    ),
)
"""Errors whose words are in many texts, and warnings that matter less: asked after files, tables, and prints."""
