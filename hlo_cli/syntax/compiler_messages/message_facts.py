"""What does any message say: its sentence, the system it is of, what it compares, and what its codes mean?

For messages without a rule of their own, and for the fields of rules. The names of codes are those of cuda.h,
driver_types.h, hip_runtime_api.h, nccl.h, cublas_api.h, cudnn_graph.h, and signal(7); the
words are ours. Codes of CUDA and HIP differ in spelling only, so one table of meanings serves both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.syntax.byte_sizes import parse_size
from hlo_cli.syntax.compiler_messages.tracing_errors import size_difference

# --- the sentence of a message ---

_LOG_PREFIX: Final = lazy_regex(
    r"^(?:(?:\[[^\]\n]{1,60}\]|\([^)\n]{1,60}\)|\d[\d:./T\-]{3,30}[,.]?\d{0,9}Z?|[IWEF]\d{4}|[IWEF]|\d{1,9}|INFO|WARN(?:ING)?"
    r"|ERROR|FATAL|CRITICAL|[\w/.\-]{1,120}\.(?:cc|cu|h|cpp|py|go):\d{1,6}[\])]?|external/xla/\S{1,160})[: \-]{1,4})+"
)
_RAISED_AS: Final = lazy_regex(r"^(?:[A-Za-z_][\w.]{0,100}(?:Error|Exception|Warning)(?: \w{1,3})?: ?)+")
_MAX_SENTENCE: Final = 240
"""Three lines of 80 columns."""


def sentence_of(message: str) -> str:
    """What a line of a log says, without times, severities, places, and the class of its exception.

    >>> sentence_of("2025-01-09 17:20:33.118 W xla/a/b.cc:12] ValueError: no such axis")
    'no such axis'
    """
    words = _RAISED_AS.sub("", _LOG_PREFIX.sub("", message)).strip() or message
    if len(words) <= _MAX_SENTENCE:
        return words.rstrip(".")
    return words[:_MAX_SENTENCE].rpartition(" ")[0] + " …"


_SEVERE: Final = lazy_regex(
    r"^[^\n]{0,400}?(?:\b(?:error|fatal|critical|fail(?:ed|ure|s)?|exception|abort(?:ed|ing)?|panic|killed|denied|refused"
    r"|cannot|could not|can't|unable to|invalid|mismatch\w*|unsupported|not supported|not "
    r"found|unexpected\w*|corrupt\w*"
    r"|exceed\w*|timed out|timeout|crash\w*|lost|missing|unreachable|must be|must have|should be)\b"
    r"|\w(?:Error|Exception)\b|(?<![\w])[EF]\d{4} |: [EF] \w)[^\n]*",
    re.MULTILINE | re.IGNORECASE,
)
_WARNED: Final = lazy_regex(r"^[^\n]{0,200}?(?:\bwarn(?:ing)?\b|Warning\b|(?<!\w)W\d{4} |: W \w)[^\n]*", re.MULTILINE)


def telling_line(text: str) -> str:
    r"""The line of a text that is an error, or else a warning; empty if none is.

    >>> telling_line("step 1\nE0512 13:37:00 1 a.cc:3] cannot open it\nstep 2"), telling_line("step 1\nstep 2")
    ('E0512 13:37:00 1 a.cc:3] cannot open it', '')
    """
    match = _SEVERE.search(text) or _WARNED.search(text)
    return match[0].strip() if match else ""


# --- the system of a message ---


@dataclass(frozen=True, slots=True)
class System:
    """A part of the software around a program: its name, what it does, and how to see more of what it does.

    >>> system_of("node1:1:2 [0] NCCL WARN Bootstrap : no socket interface found").name
    'NCCL'
    """

    name: str
    role: str
    next_step: str


_XLA_DUMP: Final = (
    "To see the program, set XLA_FLAGS=--xla_dump_to=DIR, run again, and check the last module with `hlo lint DIR`."
)
_PLAIN: Final = (
    "For the complete traceback, set JAX_TRACEBACK_FILTERING=off; JAX_DISABLE_JIT=1 runs the program step by step."
)
_SYSTEMS: Final[tuple[tuple[str, re.Pattern[str], str, str], ...]] = (
    (
        "NCCL",  # ProcessGroupNCCL is PyTorch's watchdog of it
        lazy_regex(r"\bNCCL\b|\bnccl[A-Z]|\bRCCL\b|ProcessGroupNCCL"),
        "NCCL (RCCL on AMD) runs the collectives between GPUs.",
        "Set NCCL_DEBUG=INFO, and read the first warning of any process.",
    ),
    (
        "Slurm",  # slurmstepd writes to the output of the job
        lazy_regex(r"\bslurm\w*|\bsrun\b|\bsbatch\b|\bscontrol\b", re.IGNORECASE),
        "Slurm starts jobs, and ends them at their limits.",
        "`sacct -j JOB --format=State,ExitCode,MaxRSS,Elapsed` has how each step ended.",
    ),
    (
        "Ray",  # Ray begins the lines of its workers with their pid
        lazy_regex(r"\bray[./]|\braylet\b|\bRay[A-Z]\w+|^\(\w+ pid=\d+", re.MULTILINE),
        "Ray runs tasks and actors in processes of their own.",
        "The logs of the process are in /tmp/ray/session_latest/logs of its node.",
    ),
    (
        "Kubernetes",  # events quote the scheduler and the kubelet
        lazy_regex(r"\bkube\w*|\b[Pp]ods?\b|\bJobSet\b|\bGKE\b|container runtime|default-scheduler"),
        "Kubernetes runs containers in pods on nodes.",
        "`kubectl describe pod POD` has events and exit codes; `kubectl logs POD --previous` has the last output.",
    ),
    (
        "Megascale",  # MXLA is its name in messages of 2023
        lazy_regex(r"[Mm]ega[Ss]cale|MEGASCALE|\bMXLA\b"),
        "Megascale connects the slices of a TPU job over the data center's network.",
        "Look in the logs of the host that the message names, and at MEGASCALE_COORDINATOR_ADDRESS and the firewall.",
    ),
    (
        "the coordination service",  # a process that failed is named by its task
        lazy_regex(r"CoordinationService|coordination[ _]service|jax\.distributed|JAX distributed service"),
        "The coordination service starts the processes of a job together, and ends all if one fails.",
        "Look in the logs of all processes for the first error.",
    ),
    (
        "libtpu",  # names of the cores are in messages about halts
        lazy_regex(r"\blibtpu\b|\bTPU_\w+|\btpu_\w+\.cc|TensorCoreSequencer|\bTpu[A-Z]\w+|\bdeepsea\b|/dev/accel"),
        "libtpu compiles for TPUs and runs the programs.",
        "Its logs are in /tmp/tpu_logs (TPU_STDERR_LOG_LEVEL=0 prints them); `tpu-info` shows the chips.",
    ),
    (
        "cuDNN",  # before CUDA: its messages quote codes of CUDA
        lazy_regex(r"\b[Cc]u[Dd][Nn][Nn]|CUDNN_|\bcudnn_\w+"),
        "cuDNN runs convolutions and attention on NVIDIA GPUs.",
        "Set CUDNN_LOGLEVEL_DBG=2 for its own log; compare its version with that of jaxlib.",
    ),
    (
        "cuBLAS",  # Tensile makes the kernels of rocBLAS
        lazy_regex(r"\b[Cc]u[Bb][Ll][Aa][Ss]|CUBLAS_|hipBLAS|rocBLAS|hipblas|rocblas|\bTensile\b"),
        "cuBLAS (hipBLAS and rocBLAS on AMD) runs matrix products on GPUs.",
        "Set CUBLAS_LOGINFO_DBG=1 (ROCBLAS_LAYER=1) for its calls.",
    ),
    (
        "MIOpen",  # before ROCm, whose words are in its messages
        lazy_regex(r"\bMIOpen\b|\bmiopen"),
        "MIOpen runs convolutions on AMD GPUs.",
        "Set MIOPEN_ENABLE_LOGGING=1 for its calls.",
    ),
    (
        "ROCm",  # gfx942 and so on are the names of AMD's architectures
        lazy_regex(r"\bROCm?\b|\bHIP\b|\bhip[A-Z]\w+|\bHSA_\w+|\bamdgpu\b|\bgfx\d{3,4}"),
        "ROCm runs programs on AMD GPUs.",
        "Look at `rocm-smi`, `rocminfo | grep gfx`, and dmesg.",
    ),
    (
        "Triton",  # before CUDA, whose words are in its messages
        lazy_regex(r"\btriton\b|\bTriton\b|\bttg?\.\w+"),
        "Triton compiles kernels for GPUs.",
        "XLA_FLAGS=--xla_gpu_enable_triton_gemm=false avoids XLA's own Triton kernels.",
    ),
    (
        "CUDA",  # the functions of the driver begin with cu
        lazy_regex(
            r"\bCUDA\b|\bcuda\w*|\bcu(?:Mem|Launch|Module|Ctx|Stream|Event|Graph|Device|Init)\w*|\bNVRM\b|\bnvidia"
        ),
        "CUDA runs programs on NVIDIA GPUs.",
        "Look at nvidia-smi and `dmesg | grep -i xid`; run with CUDA_LAUNCH_BLOCKING=1 to find the kernel.",
    ),
    (
        "PyTorch/XLA",  # before PyTorch
        lazy_regex(r"\btorch_xla\b|\bXLATensor|\bxla::[a-z_]\w*+(?!::|\()|\bxm\.\w+"),
        "PyTorch/XLA traces PyTorch programs to HLO.",
        "PT_XLA_DEBUG_LEVEL=2 shows what is compiled and why; XLA_FLAGS=--xla_dump_to=DIR writes the HLO.",
    ),
    (
        "Pallas",  # before JAX
        lazy_regex(r"\b[Pp]allas\b|\bpl(?:tpu|gpu)?\.[a-z]\w+|\bMosaic\b|\bmosaic\b"),
        "Pallas lowers kernels in Python to Mosaic (TPU, GPU) or Triton.",
        "interpret=True runs the kernel on the CPU; debug=True prints it.",
    ),
    (
        "Orbax",  # TensorStore reads and writes its files
        lazy_regex(r"\b[Oo]rbax\b|\bRestoreArgs\b|\bCheckpointManager\b|\bTensorStore\b|\btensorstore\b"),
        "Orbax saves and restores checkpoints through TensorStore.",
        "checkpointer.metadata(path) shows what a checkpoint has.",
    ),
    (
        "Flax",  # before JAX, as the libraries below
        lazy_regex(r"\b[Ff]lax\b|\bnnx\.\w+|\blinen\b"),
        "Flax builds models for JAX.",
        "model.tabulate(rng, x) (nnx.tabulate(model, x)) lists the parameters with their shapes.",
    ),
    (
        "Haiku",
        lazy_regex(r"\b[Hh]aiku\b|\bhk\.[a-z]\w+"),
        "Haiku builds models for JAX: functions that hk.transform makes pure.",
        "hk.experimental.tabulate(f)(x) lists the parameters with their shapes.",
    ),
    (
        "Optax",
        lazy_regex(r"\b[Oo]ptax\b"),
        "Optax has optimizers for JAX: their state has the tree of the parameters.",
        "jax.tree.map(jnp.shape, (params, opt_state)) compares both.",
    ),
    (
        "Equinox",
        lazy_regex(r"\b[Ee]quinox\b|\beqx\.\w+|\bEqx[A-Z]"),
        "Equinox builds models for JAX as trees.",
        "EQX_ON_ERROR=breakpoint stops at the error.",
    ),
    (
        "Keras",
        lazy_regex(r"\bkeras\b|\bKeras\b"),
        "Keras builds models for TensorFlow, JAX, and PyTorch.",
        "model.summary() lists the layers with their shapes.",
    ),
    (
        "TensorFlow",  # [Op:…] ends the messages of eager operations
        lazy_regex(r"\btensorflow[./]|\bTensorFlow\b|\btf\.[a-z]\w+|tf2xla|\[Op:\w+"),
        "TensorFlow builds graphs, which jit_compile=True compiles by XLA.",
        "tf.config.run_functions_eagerly(True) runs step by step.",
    ),
    (
        "the SPMD partitioner",  # Shardy since 2025
        lazy_regex(r"spmd_partitioner|\bSPMD\b|\bshardy\b|\bsdy\.\w+"),
        "The partitioner of XLA divides a program among devices.",
        _XLA_DUMP,
    ),
    (
        "XLA's compiler",  # by the file that raised the error
        lazy_regex(r"xla/(?:service|hlo|codegen|backends)\b|hlo_\w+\.cc|\bHLO\b|_compiler\.cc|\bHlo[A-Z]\w+"),
        "XLA compiles HLO for a device.",
        _XLA_DUMP,
    ),
    (
        "StreamExecutor",  # its file names are in log lines of GPU programs
        lazy_regex(r"stream_executor|\bStreamExecutor|gpu_timer|gpu_executor|bfc_allocator"),
        "StreamExecutor is XLA's layer on CUDA and ROCm.",
        "Look at nvidia-smi (rocm-smi) and dmesg.",
    ),
    (
        "PJRT",  # IFRT is the layer above it
        lazy_regex(r"\bpjrt|\bPjRt\w*|\bPJRT\b|\bIFRT\b|\bifrt"),
        "PJRT loads and runs compiled programs on devices.",
        "TF_CPP_MIN_LOG_LEVEL=0 TF_CPP_VMODULE=pjrt_client=2 prints its calls.",
    ),
    (
        "PyTorch",
        lazy_regex(r"\btorch\b|\baten::|\bc10\b|\bATen\b"),
        "PyTorch runs operations one by one, or compiles them by torch.compile.",
        "TORCH_SHOW_CPP_STACKTRACES=1 shows the stack of native code.",
    ),
    (
        "JAX",  # last: JAX calls all of the above
        lazy_regex(
            r"\bjax(?:lib)?\b|\bjnp\b|\blax\b|\bjit\b|\bvmap\b|\bpjit\b|\bshard_map\b|\bpmap\b|\bTracer\b|\bPRNGKey\b"
            r"|\bPmapSharding\b|\bShapeDtypeStruct\b|\bPartitionSpec\b|\bNamedSharding\b|\bXlaRuntimeError\b"
        ),
        "JAX traces Python functions, and compiles them by XLA.",
        _PLAIN,
    ),
)


# The order is that of closeness: a message of NCCL in a traceback of JAX is of NCCL.
def system_of(message: str) -> System | None:
    """The system that a message is of, by the names in it; None if it has none."""
    for name, pattern, role, next_step in _SYSTEMS:
        if pattern.search(message):
            return System(name, role, next_step)
    return None


def system_named(name: str) -> System | None:
    """The system of a name; None for one that is not known.

    >>> system_named("Pallas").next_step[:14]
    'interpret=True'
    """
    return next((System(name, role, step) for each, _, role, step in _SYSTEMS if each == name), None)


# --- what a message compares ---

_TYPE: Final = (
    r"(?:pred|bf16|[fsuc]\d{1,3}|f8e\d\w{1,12}|b?float\d{1,2}\w{0,12}|u?int\d{1,2}|complex\d{2,3}|bool|tensor)"
)
_DTYPE: Final = r"(?:bfloat16|float(?:16|32|64|8_\w{1,12})|u?int(?:4|8|16|32|64)|complex(?:64|128)|bool_?)"
_VALUE: Final = lazy_regex(
    rf"(?P<array>{_TYPE}\[[\d, ]{{0,100}}\])"
    r"|(?P<tuple>(?<!\w)(?:\((?:None|\?|\d{1,12})(?:,|(?:, ?(?:None|\?|\d{1,12})){1,8},?)\)"
    r"|\[(?:None|\?|\d{1,12})(?:, ?(?:None|\?|\d{1,12})){0,8},?\]))"
    r"|(?<![\w.])(?P<size>\d{1,15}(?:\.\d{1,6})? ?(?:[KMGT]i?B|[KMGT]|bytes|B)\b)"
    rf"|\b(?P<dtype>{_DTYPE})\b"
)
_RELATION: Final = lazy_regex(
    r"\b(?:but|vs\.?|versus|instead|expected|got|mismatch\w*|differ\w*|match\w*|not equal|compatible|incompatible"
    r"|inconsistent|exceed\w*|larger|smaller|greater|less|more than|at most|at "
    r"least|only|available|limit|capacity|cannot"
    r"|required?s?|requested|needs?|must|should)\b|!=|>=?|<=?",
    re.IGNORECASE,
)
_ARE_COMPARED: Final = lazy_regex(
    rf"\b{_DTYPE}\b[^\n;]{{0,80}}(?:\b(?:but|vs\.?|versus|instead|expected|got|mismatch\w*|differ\w*|not equal"
    rf"|incompatible|inconsistent|found|received|and|not)\b|!=)[^\n;]{{0,80}}\b{_DTYPE}\b",
    re.IGNORECASE,
)
"""Two types of one clause, of which one was expected or is unlike the other."""
# A comparison needs a word that relates two values: a log that only lists them says nothing of their difference.
_MAX_VALUES: Final = 12  # a message that quotes a module has thousands


def comparison_of(message: str) -> str:
    """How the two values differ that a message compares; empty unless it has two of one kind and says how they relate.

    >>> comparison_of("expected bf16[16,4096], got bf16[16,2048]"), comparison_of("sizes (4, 8) and (4, 9) differ")
    ('dimension 1 is 4096 and 2048', 'dimension 1 is 8 and 9')
    >>> comparison_of("requested 12.5GiB but only 3.0GiB available"), comparison_of("runs on 4 of 8 devices")
    ('12.5GiB is 4.17 times 3.0GiB', '')
    >>> comparison_of("expected 8 entries, got 6"), comparison_of("must match, but got a.ndim == 2 and len(b) == 1")
    ('8 is 2 more than 6', 'a.ndim is 2, len(b) is 1')
    """
    if not _RELATION.search(message):
        return ""
    found: dict[str, list[str]] = {}
    for at, match in enumerate(_VALUE.finditer(message)):
        if at >= _MAX_VALUES:
            break
        kind = match.lastgroup or ""
        if match[0] not in found.setdefault(kind, []):
            found[kind].append(match[0])
    if multiple := _MULTIPLE.search(message):
        size, parts = int(multiple["size"]), int(multiple["parts"])
        if parts and size % parts:
            return (
                f"{size:,} = {size // parts:,} × {parts:,} + {size % parts:,}: pad it to {-(-size // parts) * parts:,}"
            )
    if (named := _NAMED_COUNTS.search(message)) is not None:
        one, other = named["one"], named["other"]
        return "" if one == other else f"{named['first']} is {one}, {named['second']} is {other}"
    if (counts := _COUNTS.search(message)) is not None:
        values = [value for value in counts.groups() if value]
        one, other = (int(value.replace(",", "")) for value in values[:2])
        return (
            ""
            if one == other
            else f"{one:,} is {abs(one - other):,} {'more' if one > other else 'less'} than {other:,}"
        )
    for kind in ("array", "tuple", "size", "dtype"):
        values = found.get(kind, [])
        if kind == "dtype" and not _ARE_COMPARED.search(message):
            continue  # a message about speed, memory, or a setting names types, too
        if kind == "tuple" and not _SHAPES.search(message):
            continue  # coordinates of devices, versions, and places are written in this form, too
        if len(values) == 2:
            is_product = kind in ("array", "tuple") and _PRODUCT.search(message)
            difference = _summed(*values) if is_product else _difference(kind, *values)
            if difference:
                return difference
    return ""


_MULTIPLE: Final = lazy_regex(
    r"(?<![\w.\-])(?P<size>\d{1,15})\)? (?:(?:is|are|was) not|must be|should be|has to be|needs to be|to be) "
    r"(?:a multiple of|(?:evenly )?divisible by)"
    r"[^\n\d]{0,60}(?P<parts>\d{1,12})(?![\w.])"
)
_COUNTS: Final = lazy_regex(
    r"(?<![\w.\-])(?P<above>\d[\d,]{0,14})\b[^\n\d]{0,60}\bexceeds?\b[^\n\d]{0,60}"
    r"(?<![\w.\-])(?P<below>\d[\d,]{0,14})(?![\w.]| ?[KMGT]?i?B\b)"
    r"|\((?P<left>\d[\d,]{0,14})\) (?:does not (?:match|equal)|differs from|is not (?:equal to|the same "
    r"as))[^\n\d]{0,90}"
    r"\((?P<right>\d[\d,]{0,14})\)|"
    r"(?<![\w.\-])(?P<one>\d[\d,]{0,14})\)? (?:is|are|was|were|which is)? "
    r"?(?:larger|greater|more|higher|less|smaller|lower|fewer)"
    r" than[^\n\d]{0,90}(?P<other>\d[\d,]{0,14})(?![\w.])(?! ?[KMGT]?i?B\b)"
    r"|\b(?:got|found|received|have|has|given) (?P<had>\d[\d,]{0,14})\b(?![.\w])[^\n\d.;]{0,40}?[,;]? ?(?:but )?"
    r"\b(?:expected|wanted|needed|needs?|requires?|required)[ :]{1,2}(?P<wanted>\d[\d,]{0,14})(?![\w.\[]| "
    r"?[KMGT]?i?B\b)"
    r"|\b(?:expected|expects|wants|needs?|requires?|takes|must be)[ :]{1,2}(?:exactly |at (?:least|most) )?"
    r"(?P<least>\d[\d,]{0,14})\b(?![.\w\[])[^\n\d.;]{0,60}?\b(?:got|found|received|has|have|only|was given)[ "
    r":]{1,2}(?:only )?"
    r"(?P<given>\d[\d,]{0,14})(?![\w.\[]| ?[KMGT]?i?B\b)",
    re.IGNORECASE,
)
"""Two plain numbers that a message relates."""
_NAMED_COUNTS: Final = lazy_regex(
    r"(?<![\w.(])(?P<first>(?:len\()?[a-z_][\w.]{0,40}\)?) ?==? ?(?P<one>\d{1,12})(?![\w.])"
    r" ?(?:,|and|but|vs\.?|!=) ?(?:and |but )?(?P<second>(?:len\()?[a-z_][\w.]{0,40}\)?) ?==? "
    r"?(?P<other>\d{1,12})(?![\w.])"
)
"""Two numbers with their names in code, as `len(in_axes)=3, len(args)=2`."""
_SHAPES: Final = lazy_regex(
    r"\b(?:shapes?|sizes?|dim(?:ension)?s?|axis|axes|rank|Size|In\[\d\])\b|\bSize\(", re.IGNORECASE
)
"""What a message about shapes mentions."""


_PRODUCT: Final = lazy_regex(
    r"\b(?:mat ?mul\w*|matrix|mat1|dot\w*|multiplied|contract\w*|gemm|einsum)\b", re.IGNORECASE
)
"""What a message about a product of matrices mentions, whose operands differ in shape without fault."""


def _summed(one: str, other: str) -> str:
    """The dimensions that a product of two matrices sums over, if they differ: the last, and the one before the last.

    >>> _summed("[64,512]", "f32[256,128]"), _summed("(8, 4)", "(4, 2)")
    ('the summed dimensions have 512 and 256 elements', '')
    """
    left, right = (re.findall(r"\d+|None|\?", value[max(value.find("["), value.find("(")) :]) for value in (one, other))
    if not left or not right or len(right) < 2:
        return ""
    return f"the summed dimensions have {left[-1]} and {right[-2]} elements" if left[-1] != right[-2] else ""


def _difference(kind: str, one: str, other: str) -> str:
    if kind in ("array", "tuple"):
        types = [value.partition("[")[0] for value in (one, other)] if kind == "array" else ["", ""]
        sizes = size_difference(f"{one[one.find('[') if kind == 'array' else 0 :]} "
                                f"{other[other.find('[') if kind == 'array' else 0 :]}", along=-1)  # fmt: skip
        words = f"the types are {types[0]} and {types[1]}" if types[0] != types[1] else ""
        return ", ".join(filter(None, (words, sizes)))
    if kind == "size":
        numbers = [parse_size(value.removesuffix("bytes")) for value in (one, other)]
        if min(numbers) <= 0 or numbers[0] == numbers[1]:
            return ""
        (large, more), (small, less) = sorted(zip(numbers, (one, other), strict=True), reverse=True)
        return f"{more} is {large / small:.3g} times {less}"
    return f"the types are {one} and {other}"


_CHECKED: Final = lazy_regex(
    r"(?P<left>[^\n]{1,200}?) (?P<relation>==|!=|<=|>=|<|>) (?P<right>[^\n]{1,200}?) "
    r"\((?P<one>[^()\n]{1,120}|[^\n]{0,20}\(\d{0,8}\)) vs\. "
    r"(?P<other>[^()\n]{1,120}|[^\n]{0,20}\(\d{0,8}\))\)(?: (?P<why>[^\n]{1,400}))?"
)
"""A check with the values of its two sides, as absl prints CHECK_EQ and the like."""


def check_in_words(check: str) -> str:
    """What a failed check found, in words, from `A == B (1 vs. 2) more`; the check itself if it has no values.

    >>> check_in_words("operand_maps.size() == 1 (0 vs. 1)"), check_in_words("a.rank() == b.rank() (2 vs. 3) in dot.3")
    ('operand_maps.size() is 0, not 1', 'a.rank() is 2, b.rank() is 3 (in dot.3)')
    >>> check_in_words("!(a != b)")
    '`!(a != b)` does not hold'
    """
    match = _CHECKED.match(" ".join(check.split()))
    if match is None:
        condition, words = _check_and_words(" ".join(check.split()))
        return f"`{condition}` does not hold" + (f": {words}" if words else "")
    left, right = match["left"].strip(), match["right"].strip()
    one, other = match["one"].strip(), match["other"].strip()
    if right == other:
        found = f"{left} is {one}, not {right}" if match["relation"] == "==" else f"{left} is {one}"
    elif left == one:
        found = f"{right} is {other}, not {left}" if match["relation"] == "==" else f"{right} is {other}"
    else:
        found = f"{left} is {one}, {right} is {other}"
    return found + (f" ({match['why'].strip()})" if match["why"] else "")


def _check_and_words(check: str) -> tuple[str, str]:
    """A check and the words after it, which begin where its brackets are closed and a capital or a blank follows."""
    depth = 0
    for at, character in enumerate(check):
        depth += (character in "([{") - (character in ")]}")
        if character == " " and not depth and (check[at + 1 : at + 2].isupper() or check[at - 1] in ")]"):
            rest = check[at + 1 :]
            if not rest.startswith(("==", "!=", "<", ">", "&&", "||", "+", "-", "*", "/", "?", ":")):
                return check[:at].strip(), rest.strip()
    return check, ""


# --- codes ---


def code_meanings(fields: Mapping[str, str]) -> dict[str, str]:
    """What the codes in the fields of a message mean, and what to do about them.

    >>> code_meanings({"exit_status": "137"})["signal"]
    'SIGKILL: something killed it'
    """
    if status := fields.get("exit_status"):
        found = signal_meaning(status=int(status))
        fix = found.fix if found else "Look in the output of that process for its own error: this line has none."
        return {"signal": found.words if found else "", "signal_fix": fix}
    if name := fields.get("signal_name") or _SIGNALS_IN_WORDS.get(fields.get("why", ""), ""):
        found = signal_meaning(name)
        return {"signal": found.words if found else "", "signal_fix": found.fix if found else ""}
    if code := fields.get("code"):
        found = meaning_of(code)
    elif words := fields.get("device_words"):
        found = meaning_of_words(words)
    else:
        return {}
    fix = found.fix if found else "Look for the first error in the log, and compare the versions of driver and toolkit."
    return {"meaning": found.words if found else "", "meaning_fix": fix}


_SIGNALS_IN_WORDS: Final = {
    "Segmentation fault": "SIGSEGV",
    "Bus error": "SIGBUS",
    "Illegal instruction": "SIGILL",
    "Aborted": "SIGABRT",
    "Floating point exception": "SIGFPE",
    "Killed": "SIGKILL",
}
"""What a shell writes for a signal."""


# --- tables of codes ---


@dataclass(frozen=True, slots=True)
class CodeMeaning:
    """What failed, as the end of a sentence, and what to do about it.

    >>> meaning_of("CUDA_ERROR_ILLEGAL_ADDRESS").words
    'a kernel accessed memory outside of its buffers'
    """

    words: str
    fix: str


# --- causes that several codes share ---

_VERSIONS: Final = "Compare the versions of the driver (nvidia-smi, rocm-smi), the toolkit, and jaxlib or torch."
FIRST_ERROR: Final = "Look for the first error in the logs of all processes: later ones follow from it."
_KERNEL: Final = (
    "Kernels run after they are launched, so an earlier kernel may have done it: run with CUDA_LAUNCH_BLOCKING=1 "
    "(AMD_SERIALIZE_KERNEL=3), or under compute-sanitizer, and look at kernels of your own and gathers first."
)
_DEVICE: Final = (
    "Look at `nvidia-smi -q` and the kernel's log (`dmesg | grep -i xid`); drain the node if the device is faulty."
)
_MEMORY: Final = (
    "Free memory of the device (other processes, XLA_PYTHON_CLIENT_MEM_FRACTION, XLA_PYTHON_CLIENT_PREALLOCATE=false), "
    "or compute with smaller arrays; `hlo memspace DUMP` shows what fills the memory."
)
_ARCHITECTURE: Final = (
    "Install a build for this GPU: a newer jaxlib or torch for a newer GPU, an older one for a GPU that was dropped; "
    "extensions of your own are compiled for its architecture (TORCH_CUDA_ARCH_LIST, --offload-arch=gfx…)."
)
_VISIBLE: Final = (
    "Look at nvidia-smi (rocm-smi) and CUDA_VISIBLE_DEVICES (HIP_VISIBLE_DEVICES); in a container, pass the GPUs "
    "(--gpus all, --device /dev/kfd)."
)
_SMALLER: Final = "Use smaller blocks, fewer threads, or fewer pipeline stages in the kernel."
_CALL: Final = "This is a wrong call of a library or of a framework: report it there, with the versions."

_CAUSES: Final[dict[str, tuple[str, str]]] = {
    "INVALID_VALUE": ("a call had an argument that is out of range", _CALL),
    "OUT_OF_MEMORY": ("no memory is free on the device", _MEMORY),
    "MEMORY_ALLOCATION": ("no memory is free on the device", _MEMORY),
    "NOT_INITIALIZED": ("the driver was not initialized in this process", (f"{_VISIBLE} A fork after the first use of "
                                                                          "the GPU has this error, too: use spawn.")),
    "INITIALIZATION_ERROR": ("the driver could not be initialized", (f"{_VISIBLE} A fork after the first use of the "
    "GPU "
                                                                    "has this error, too: use spawn.")),
    "DEINITIALIZED": ("the driver is shutting down", "The process was ending; look for the first error before it."),
    "STUB_LIBRARY": ("the stub of the driver's library is loaded, not the driver",
                     "Remove the stubs folder of the toolkit from LD_LIBRARY_PATH."),
    "NO_DEVICE": ("no GPU is visible to the process", _VISIBLE),
    "INVALID_DEVICE": ("the process asked for a device number that it does not have", _VISIBLE),
    "DEVICE_UNAVAILABLE": ("the device is in use by another process or in an exclusive mode",
                           "End the other process, or set the compute mode to default (`nvidia-smi -c 0`)."),
    "DEVICES_UNAVAILABLE": ("all devices are in use by other processes or in an exclusive mode",
                            "End the other processes, or set the compute mode to default (`nvidia-smi -c 0`)."),
    "INVALID_IMAGE": ("the code of a kernel is damaged or not for this device", _ARCHITECTURE),
    "INVALID_CONTEXT": ("the context of the device is gone or of another thread", FIRST_ERROR),
    "CONTEXT_IS_DESTROYED": ("the context of the device was destroyed by an earlier error", FIRST_ERROR),
    "NO_BINARY_FOR_GPU": ("no code was compiled for this GPU", _ARCHITECTURE),
    "NO_KERNEL_IMAGE_FOR_DEVICE": ("no code was compiled for this GPU", _ARCHITECTURE),
    "INVALID_DEVICE_FUNCTION": ("no code was compiled for this GPU", _ARCHITECTURE),
    "INVALID_KERNEL_IMAGE": ("the code of a kernel is damaged or not for this device", _ARCHITECTURE),
    "ECC_UNCORRECTABLE": ("the memory of the GPU has an error that cannot be corrected", _DEVICE),
    "HARDWARE_STACK_ERROR": ("the stack of a kernel overflowed or is damaged", _KERNEL),
    "ILLEGAL_INSTRUCTION": ("a kernel has an instruction that this GPU lacks", _ARCHITECTURE),
    "MISALIGNED_ADDRESS": ("a kernel accessed an address that is not aligned to its type", _KERNEL),
    "INVALID_ADDRESS_SPACE": ("a kernel used an address of another memory space", _KERNEL),
    "INVALID_PC": ("a kernel jumped outside of its code", _KERNEL),
    "ILLEGAL_ADDRESS": ("a kernel accessed memory outside of its buffers", _KERNEL),
    "LAUNCH_FAILED": ("a kernel ended with an exception on the device", _KERNEL),
    "LAUNCH_FAILURE": ("a kernel ended with an exception on the device", _KERNEL),
    "LAUNCH_TIMEOUT": ("a kernel ran longer than the driver allows", ("A GPU with a display ends long kernels: use one "
                                                                     "without, or split the work.")),
    "LAUNCH_OUT_OF_RESOURCES": ("a kernel needs more registers or threads than a multiprocessor has", _SMALLER),
    "COOPERATIVE_LAUNCH_TOO_LARGE": ("a cooperative kernel has more blocks than fit on the GPU at once", _SMALLER),
    "INVALID_CONFIGURATION": ("the grid or the block of a kernel is larger than the GPU allows", _SMALLER),
    "ASSERT": ("an assertion in a kernel failed", ("The line above names the assertion and its file; an index out of "
                                                  "range, such as a label or a token, is the usual cause.")),
    "PEER_ACCESS_ALREADY_ENABLED": ("two GPUs were connected twice", "It is harmless unless an error follows."),
    "PEER_ACCESS_NOT_ENABLED": ("two GPUs were not connected", FIRST_ERROR),
    "PEER_ACCESS_UNSUPPORTED": ("these GPUs cannot access each other's memory directly",
                                "Look at `nvidia-smi topo -m`; NCCL_P2P_DISABLE=1 goes through the host instead."),
    "HOST_MEMORY_ALREADY_REGISTERED": ("memory of the host was pinned twice", _CALL),
    "UNSUPPORTED_PTX_VERSION": ("the driver is older than the compiler that made the kernel",
                                "Update the driver, or install its CUDA forward compatibility package."),
    "INVALID_PTX": ("the PTX of a kernel cannot be translated for this GPU", _ARCHITECTURE),
    "UNSUPPORTED_DEVSIDE_SYNC": ("kernels synchronize with what they launched, which the release lacks", _VERSIONS),
    "SYSTEM_NOT_READY": ("the fabric manager of the NVSwitches does not run",
                         "Start it (`systemctl start nvidia-fabricmanager`), in the version of the driver."),
    "SYSTEM_DRIVER_MISMATCH": ("the driver's library and its kernel module have different versions",
                               "Reboot after an update of the driver, or load the new module."),
    "INSUFFICIENT_DRIVER": ("the driver is older than the CUDA runtime",
                            "Update the driver, or install an older toolkit or wheel."),
    "COMPAT_NOT_SUPPORTED_ON_DEVICE": ("the forward compatibility package does not support this GPU",
                                       "Update the driver itself: compatibility packages serve data center GPUs."),
    "MPS_CONNECTION_FAILED": ("the MPS daemon does not answer", "Start or stop nvidia-cuda-mps-control."),
    "STREAM_CAPTURE_UNSUPPORTED": ("an operation is not allowed while a CUDA graph is recorded",
                                   "Set XLA_FLAGS=--xla_gpu_enable_command_buffer= to run without CUDA graphs."),
    "STREAM_CAPTURE_INVALIDATED": ("an earlier error ended the recording of a CUDA graph", FIRST_ERROR),
    "GRAPH_EXEC_UPDATE_FAILURE": ("a CUDA graph could not be updated in place",
                                  "Set XLA_FLAGS=--xla_gpu_enable_command_buffer= to run without CUDA graphs."),
    "EXTERNAL_DEVICE": ("a device outside of CUDA failed", _DEVICE),
    "CONTAINED": ("an error of the memory of the GPU was contained, which ended the process", _DEVICE),
    "NVLINK_UNCORRECTABLE": ("a link between GPUs has an error that cannot be corrected", _DEVICE),
    "UNKNOWN": ("the driver reports no cause", f"{FIRST_ERROR} {_DEVICE}"),
    "OPERATING_SYSTEM": ("a call of the operating system failed", "Look at the limits of the process and at `dmesg`."),
    "TIMEOUT": ("an operation of the device did not end in time", FIRST_ERROR),
    "FILE_NOT_FOUND": ("a file with code for the GPU is missing", _VERSIONS),
    "SHARED_OBJECT_SYMBOL_NOT_FOUND": ("a library has no such function", _VERSIONS),
    "SHARED_OBJECT_INIT_FAILED": ("a library could not be initialized", _VERSIONS),
    "INVALID_HANDLE": ("an object of the driver is used after its end, or on another device", _CALL),
    "INVALID_RESOURCE_HANDLE": ("an object of the driver is used after its end, or on another device", _CALL),
    "NOT_FOUND": ("a name is not in the code that was loaded", _VERSIONS),
    "NOT_READY": ("an operation has not ended, which is not an error by itself", FIRST_ERROR),
    "NOT_PERMITTED": ("the operation is not allowed in this state", _CALL),
    "NOT_SUPPORTED": ("this device or driver does not support the operation", _VERSIONS),
    "ARRAY_BOUNDS_EXCEEDED": ("the device detected an index outside of an array", _KERNEL),
}  # fmt: skip
"""By the name of a code without its prefix, in capitals."""

_NCCL: Final[dict[str, tuple[str, str]]] = {
    "UNHANDLED_CUDA_ERROR": ("a call of CUDA failed inside of NCCL",
                             "Set NCCL_DEBUG=INFO: the line before names the call; memory and peer access are usual."),
    "SYSTEM_ERROR": ("a call of the operating system failed: a socket, shared memory, or a network device",
                     ("Set NCCL_DEBUG=WARN and read the first warning of any process; check the network between the "
                     "hosts (NCCL_SOCKET_IFNAME) and the size of /dev/shm.")),
    "INTERNAL_ERROR": ("an internal check of NCCL failed", "Set NCCL_DEBUG=WARN; try another release of NCCL."),
    "INVALID_ARGUMENT": ("a call had an argument that is out of range", _CALL),
    "INVALID_USAGE": (("the processes called NCCL in a way that it does not allow, such as two ranks on one GPU, or "
                      "different versions of NCCL"), "Set NCCL_DEBUG=WARN: the first warning names the reason."),
    "REMOTE_ERROR": ("another process ended or its network failed",
                     "The cause is in the log of that process; this one only lost its connection."),
    "IN_PROGRESS": ("the operation has not ended, which is not an error by itself", FIRST_ERROR),
}  # fmt: skip
_LIBRARY: Final[dict[str, tuple[str, str]]] = {
    "NOT_INITIALIZED": ("the library could not get its memory, or the driver does not fit it",
                        f"{_MEMORY} {_VERSIONS}"),
    "ALLOC_FAILED": ("no memory is free for the library's workspace", _MEMORY),
    "BAD_PARAM": ("the call has a parameter that the library refuses", _CALL),
    "INVALID_VALUE": ("the call has a parameter that the library refuses", _CALL),
    "INTERNAL_ERROR": ("an internal check of the library failed, often since memory is full",
                       f"{_MEMORY} {_VERSIONS}"),
    "ARCH_MISMATCH": ("this GPU lacks what the call needs", _ARCHITECTURE),
    "MAPPING_ERROR": ("memory of the GPU could not be accessed", _KERNEL),
    "EXECUTION_FAILED": ("a kernel of the library failed", _KERNEL),
    "NOT_SUPPORTED": ("the library does not support this combination of types, sizes, or layouts",
                      "Use another type or layout, pad the sizes to multiples of 8 or 16, or a newer release."),
    "LICENSE_ERROR": ("the library has no license", _VERSIONS),
    "VERSION_MISMATCH": ("parts of the library have different versions", _VERSIONS),
    "SUBLIBRARY_VERSION_MISMATCH": ("parts of cuDNN have different versions",
                                    "Keep one cuDNN: that of pip (nvidia-cudnn-cu12) or one on LD_LIBRARY_PATH."),
    "SUBLIBRARY_LOADING_FAILED": ("a part of cuDNN could not be loaded",
                                  "Keep one cuDNN: that of pip (nvidia-cudnn-cu12) or one on LD_LIBRARY_PATH."),
    "RUNTIME_PREREQUISITE_MISSING": ("a library that cuDNN loads at run time is missing", _VERSIONS),
    "RUNTIME_IN_PROGRESS": ("the operation has not ended", FIRST_ERROR),
    "UNKNOWN_ERROR": ("the library reports no cause", f"{FIRST_ERROR} {_VERSIONS}"),
}  # fmt: skip
"""Statuses of cuBLAS, cuDNN, cuSOLVER, cuFFT, cuSPARSE, hipBLAS, rocBLAS, and MIOpen, without their prefix."""

# --- signals and exit statuses ---

_KILLED: Final = (
    "Usually the host ran out of memory (look for `oom-kill` in dmesg, or OOMKilled in `kubectl describe pod`), or a "
    "scheduler ended the job."
)
_NATIVE: Final = (
    "The fault is in native code: run with `python -X faulthandler`, and look at the last module that was compiled "
    "(XLA_FLAGS=--xla_dump_to=DIR, then `hlo lint DIR`)."
)
_SIGNALS: Final[dict[int, tuple[str, str, str]]] = {
    1: ("SIGHUP", "its terminal or session ended", "Start it with nohup, tmux, or as a job of the scheduler."),
    2: ("SIGINT", "it was interrupted (Ctrl-C, or a scheduler)", "Nothing failed in the program itself."),
    4: ("SIGILL", "it has an instruction that this processor lacks",
        "Use a build for this processor: wheels of jaxlib need AVX, for example."),
    6: ("SIGABRT", "a check in native code failed and ended it", "The message above the stack names the check."),
    7: ("SIGBUS", "memory could not be mapped, often since /dev/shm is full", ("Enlarge /dev/shm (docker run "
    "--shm-size), "
                                                                               "or use fewer loader processes.")),
    8: ("SIGFPE", "a division by zero of whole numbers", _NATIVE),
    9: ("SIGKILL", "something killed it", _KILLED),
    11: ("SIGSEGV", "native code accessed memory that is not its own", _NATIVE),
    13: ("SIGPIPE", "the reader of its output ended", "Look at the process that reads it."),
    15: ("SIGTERM", "it was asked to end: by a scheduler, a time limit, or a preemption",
         "Look at the events of the scheduler; save checkpoints on SIGTERM."),
    24: ("SIGXCPU", "it used more processor time than its limit", "Raise the limit of processor time (ulimit -t)."),
}  # fmt: skip
_BY_NAME: Final = {name: number for number, (name, _, _) in _SIGNALS.items()}
_SIGNAL_STATUS: Final = 128
"""What a shell adds to the number of a signal that ended a process."""

_PREFIX: Final = lazy_regex(
    r"(?P<system>CUDA_ERROR|HIP_ERROR|cudaError|hipError|nccl|rccl|NCCL|RCCL|(?:CUBLAS|CUDNN|CUSOLVER|CUFFT|CUSPARSE|HIPBLAS"
    r"|cublas|cudnn|hipblas|rocblas|miopen|CUPTI)(?:_STATUS|_ERROR|Status|_?status)?)_?(?P<name>\w+)"
)
_CAPITALS: Final = lazy_regex(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def meaning_of(code: str) -> CodeMeaning | None:
    """What a code of CUDA, HIP, NCCL, or a library means; None for one that is not known.

    >>> meaning_of("hipErrorNoBinaryForGpu").words, meaning_of("ncclSystemError").words[:40], meaning_of("E_FAIL")
    ('no code was compiled for this GPU', 'a call of the operating system failed: a', None)
    """
    match = _PREFIX.fullmatch(code)
    if match is None:
        return None
    name = match["name"] if "_" in match["name"] or match["name"].isupper() else _CAPITALS.sub("_", match["name"])
    name, system = name.upper(), match["system"].lower()
    tables = (_NCCL, _CAUSES) if "ccl" in system else (_CAUSES,) if "error" in system else (_LIBRARY, _CAUSES)
    for table in tables:
        found = table.get(name) or table.get(name.removesuffix("_ERROR"))
        if found is not None:
            return CodeMeaning(*found)
    return None


def signal_meaning(name: str = "", status: int | None = None) -> CodeMeaning | None:
    """What ended a process, by the name of a signal, or by an exit status of a shell; None if that is not a signal.

    >>> signal_meaning(status=137).words
    'SIGKILL: something killed it'
    >>> signal_meaning("SIGBUS").words[:26], signal_meaning(status=1)
    ('SIGBUS: memory could not b', None)
    """
    number = _BY_NAME.get(name, 0)
    if status is not None:
        number = status - _SIGNAL_STATUS if status > _SIGNAL_STATUS else -status
    if number not in _SIGNALS:
        return None
    signal, words, fix = _SIGNALS[number]
    return CodeMeaning(f"{signal}: {words}", fix)


# --- statuses of services ---

STATUS_WORDS: Final = {
    "INTERNAL": "an internal check of the compiler or runtime failed",
    "INVALID_ARGUMENT": "the program, an option, or an input is invalid",
    "UNIMPLEMENTED": "this backend or release does not support the program",
    "FAILED_PRECONDITION": "the program or the system is in the wrong state for this",
    "NOT_FOUND": "no function, file, or device has this name",
    "UNAVAILABLE": "a device or another process does not respond",
    "DEADLINE_EXCEEDED": "another process did not respond in time",
    "ABORTED": "the operation was ended, usually since another one failed",
    "CANCELLED": "the operation was canceled, usually since another one failed",
    "OUT_OF_RANGE": "an index or a value is outside of what is allowed",
    "ALREADY_EXISTS": "a thing of this name exists already",
    "PERMISSION_DENIED": "the process may not do this",
    "UNAUTHENTICATED": "the request has no valid credentials",
    "DATA_LOSS": "data is damaged or truncated",
    "RESOURCE_EXHAUSTED": "memory, a quota, or another limit is used up",
    "UNKNOWN": "another library failed",
}
"""What a status of absl or gRPC means."""


# --- errors of devices in words ---

_WORDS: Final = (
    ("out of memory", "OUT_OF_MEMORY"),
    ("invalid device function", "INVALID_DEVICE_FUNCTION"),
    ("no kernel image", "NO_BINARY_FOR_GPU"),
    ("unable to find code object", "NO_BINARY_FOR_GPU"),
    ("illegal memory access", "ILLEGAL_ADDRESS"),
    ("misaligned address", "MISALIGNED_ADDRESS"),
    ("illegal instruction", "ILLEGAL_INSTRUCTION"),
    ("device-side assert", "ASSERT"),
    ("launch failure", "LAUNCH_FAILED"),
    ("launch timed out", "LAUNCH_TIMEOUT"),
    ("too many resources", "LAUNCH_OUT_OF_RESOURCES"),
    ("invalid configuration", "INVALID_CONFIGURATION"),
    ("invalid device ordinal", "INVALID_DEVICE"),
    ("no cuda-capable device", "NO_DEVICE"),
    ("no rocm-capable device", "NO_DEVICE"),
    ("devices are busy", "DEVICES_UNAVAILABLE"),
    ("busy or unavailable", "DEVICES_UNAVAILABLE"),
    ("driver version is insufficient", "INSUFFICIENT_DRIVER"),
    ("unsupported toolchain", "UNSUPPORTED_PTX_VERSION"),
    ("uncorrectable", "ECC_UNCORRECTABLE"),
    ("peer access", "PEER_ACCESS_UNSUPPORTED"),
    ("initialization error", "INITIALIZATION_ERROR"),
    ("invalid argument", "INVALID_VALUE"),
    ("invalid resource handle", "INVALID_HANDLE"),
    ("stream is capturing", "STREAM_CAPTURE_UNSUPPORTED"),
    ("system not yet initialized", "SYSTEM_NOT_READY"),
    ("unknown error", "UNKNOWN"),
)
"""The words of cudaGetErrorString and hipGetErrorString, and the code of each."""


def meaning_of_words(words: str) -> CodeMeaning | None:
    """What an error of CUDA or HIP means by its words; None for others.

    >>> meaning_of_words("device-side assert triggered").words
    'an assertion in a kernel failed'
    """
    lowered = words.lower()
    code = next((code for part, code in _WORDS if part in lowered), None)
    return None if code is None else CodeMeaning(*_CAUSES[code])
