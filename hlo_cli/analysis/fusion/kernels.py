"""Which kernels and fusions does a module have, who provides each, and which memory traffic do fusions avoid?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from hlo_cli.analysis.cache import computed_once
from hlo_cli.analysis.cost.cost_analysis import (
    NO_KERNELS,
    KernelCost,
    cost_analysis,
    costs_among,
    kernel_cost_of,
    module_cost,
)
from hlo_cli.analysis.cost.counting import EXACT, RUN, Cost, CostOptions
from hlo_cli.analysis.dataflow.executions import Executions, sequential_executions
from hlo_cli.analysis.fusion.fusion_bodies import all_fused, heroes_of
from hlo_cli.analysis.hardware.target import Target, target_of
from hlo_cli.dataclass import dataclass
from hlo_cli.displayed import Results, WithItems
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.metadata import BackendConfig, Json
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module, of_module
from hlo_cli.ir.operations import (
    BLOCK_MOVES,
    CHANNEL_STARTS,
    COLLECTIVES,
    HOST_FEEDS,
    MATMULS,
    NATIVE_ENDS,
    NO_KERNEL_TARGETS,
    wrapped_opcode,
)
from hlo_cli.source import expect

if TYPE_CHECKING:
    from hlo_cli.analysis.kernels.pallas_kernels import KernelWindow, PallasKernel

# --- details in backend configurations ---
# Formats details of a kernel from its backend configuration: tiles, warps, threads, and estimated cycles.
#
# Mirrors `BlockLevelFusionConfig` and `TritonGemmConfig` of xla/service/gpu/backend_configs.proto, the partitions of
# xla/backends/cpu, and the `window_config` of TPU compilers.


_NESTED: Final = "fusion_backend_config"
# The largest int64, which TPU compilers print for operations that they do not estimate.
_NO_ESTIMATE: Final = (1 << 63) - 1


def _gpu_fusion_path(config: BackendConfig) -> tuple[str, ...]:
    """Path of the fusion configuration in a GPU backend configuration; empty in older dumps, which have no outer
    message.

    >>> _gpu_fusion_path(BackendConfig('{"kind":"__triton_gemm"}'))
    ()
    """
    # Dumps from before GpuBackendConfig, and XLA's documents, have the fields of the fusion at the top.
    return (_NESTED,) if config.get(_NESTED) is not None or config.get("kind") is None else ()


def _format_tiles(config: BackendConfig) -> str:
    """Formats output tiles, warps, and stages, or the partitions of a parallel CPU loop.

    >>> block = '{"num_warps":"2","output_tiles":[{"sizes":["16","8"]}],"num_ctas":1,"num_stages":1}'
    >>> _format_tiles(BackendConfig('{"fusion_backend_config":{"block_level_fusion_config":' + block + '}}'))
    'tiles 16×8, 2 warps, 1 stage'
    >>> _format_tiles(BackendConfig('{"outer_dimension_partitions":["4"]}'))
    '4 partitions'
    """
    block = (*_gpu_fusion_path(config), "block_level_fusion_config")
    tiles = config.get(*block, "output_tiles")
    if isinstance(tiles, tuple):
        shown = " ".join(_sizes(tile.get("sizes")) for tile in tiles if isinstance(tile, Mapping))
        words = [f"tiles {shown}" if shown else "", *_launch(config, block)]
        return ", ".join(word for word in words if word)
    partitions = config.get("outer_dimension_partitions")
    return f"{_sizes(partitions)} partitions" if isinstance(partitions, tuple) and partitions else ""


def _format_triton_gemm(config: BackendConfig) -> str:
    """Formats the tile sizes, split, warps, and stages of a Triton matmul.

    >>> gemm = '{"block_m":"64","block_n":"32","block_k":"128","split_k":"2","num_stages":"3","num_warps":"4"}'
    >>> _format_triton_gemm(BackendConfig('{"fusion_backend_config":{"triton_gemm_config":' + gemm + '}}'))
    'm×n×k 64×32×128, split k 2, 4 warps, 3 stages'
    """
    path = (*_gpu_fusion_path(config), "triton_gemm_config")
    if config.get(*path) is None:
        return ""
    blocks = tuple(config.get(*path, f"block_{letter}") for letter in "mnk")
    split = str(config.get(*path, "split_k") or 1)
    words = [f"m×n×k {_sizes(blocks)}", f"split k {split}" if split != "1" else "", *_launch(config, path)]
    return ", ".join(word for word in words if word)


def _format_cycles(instruction: Instruction) -> str:
    """Formats the cycles and windows that a TPU compiler estimates; empty if there is no estimate.

    >>> from hlo_cli import parse_module
    >>> window = '{"window_config":{"estimated_cycles":"820","iteration_bounds":["4","1"]}}'
    >>> _format_cycles(parse_module("r = f32[2] negate(f32[2] a), backend_config=" + window).entry.root)
    '820 cycles, 4×1 windows'
    """
    cycles = estimated_cycles(instruction)
    config = instruction.backend_config if cycles is not None else None
    if cycles is None or config is None:
        return ""
    windows = _sizes(config.get("window_config", "iteration_bounds"))
    return f"{cycles:,} cycles" + (f", {windows} windows" if windows else "")


def estimated_cycles(instruction: Instruction) -> int | None:
    """Cycles that the TPU compiler estimates for an operation; None if there is no estimate."""
    # The text first: parsing the JSON of every fusion takes longer than all the rest.
    if '"estimated_cycles"' not in instruction.raw[1] or (config := instruction.backend_config) is None:
        return None
    text = str(config.get("window_config", "estimated_cycles") or "")
    # int64 has at most 19 digits; anything longer is no number of cycles.
    cycles = int(text) if text.isdecimal() and len(text) < 20 else _NO_ESTIMATE
    return cycles if cycles < _NO_ESTIMATE else None


def _launch(config: BackendConfig, path: tuple[str, ...]) -> list[str]:
    named = ((str(config.get(*path, f"num_{noun}s") or ""), noun) for noun in ("warp", "stage"))
    return [f"{number} {noun}{'' if number == '1' else 's'}" for number, noun in named if number]


def _sizes(listed: Json) -> str:
    return "×".join(map(str, listed)) if isinstance(listed, tuple) else ""


# --- providers of kernels ---
# Provider of the kernel of an operation: a library, Triton, XLA's emitters, or a custom call.
#
# Mirrors `HloFusionAnalysis::GetEmitterFusionKind` of xla/service/gpu/hlo_fusion_analysis.cc, the thunks of
# xla/backends/cpu and xla/backends/gpu, and the configurations of xla/service/gpu/backend_configs.proto.


Kind = Literal["codegen", "Triton", "library", "collective", "custom call", "transfer", "unknown"]

_TRANSFERS: Final = HOST_FEEDS | CHANNEL_STARTS | {opcodes.COPY_START}
_GPU_LIBRARIES: Final = (  # the first prefix that fits: cuBLASLt before cuBLAS
    ("__cublas$lt", "cuBLASLt"),
    ("__cublas$", "cuBLAS"),
    ("__cudnn$", "cuDNN"),
    ("xla.gpu.ext.cub_", "CUB"),
    ("__cub$", "CUB"),
    ("cusolver", "cuSOLVER"),
    ("__triton", "Triton"),
)
_CPU_LIBRARIES: Final = (  # custom-call targets of xla/service/cpu and jaxlib
    ("lapack_", "LAPACK"),
    ("__onednn$", "oneDNN"),
    ("__ynn", "YNNPACK"),
    ("__pocketfft", "PocketFFT"),
    ("TopK", "XLA runtime"),
)
# Targets of jaxlib's callbacks, old and typed FFI.
_CALLBACKS: Final = ("xla_python_", "xla_ffi_python_", "xla_ffi_partitioned_python_")
_OPCODE_LIBRARIES: Final[dict[str, dict[str, str]]] = {  # the thunks of xla/backends/{gpu,cpu}/runtime
    "gpu": {
        opcodes.FFT: "cuFFT",
        opcodes.TRIANGULAR_SOLVE: "cuBLAS",
        opcodes.CHOLESKY: "cuSOLVER",
        opcodes.COPY: "memcpy",
    },
    "cpu": {opcodes.FFT: "DUCC", opcodes.SORT: "XLA runtime", **dict.fromkeys(MATMULS, "Eigen")},
}
# Kinds in the `fusion_config` of XLA:CPU.
_CPU_FUSIONS: Final = {"__ynn_fusion": "YNNPACK", "__onednn_fusion": "oneDNN"}
_COLLECTIVE_LIBRARIES: Final = {"gpu": "NCCL", "cpu": "XLA runtime", "tpu": "TPU interconnect"}
_STRATEGY_PREFIX: Final = "KERNEL_STRATEGY_"


@dataclass(frozen=True, slots=True)
class KernelBackend:
    """Kind of a kernel, its provider, and details of its configuration: tiles, cycles, or settings of a library.

    >>> KernelBackend("library", "cuBLAS").provider
    'cuBLAS'
    """

    kind: Kind
    provider: str
    details: str = ""


def backend_of(instruction: Instruction, target: Target | None, *, is_asynchronous: bool = False) -> KernelBackend:
    """Backend of an operation on a target; unknown if the module is not compiled.

    `is_asynchronous` means that an async-start calls the computation of the operation.

    >>> from hlo_cli import parse_module
    >>> root = parse_module('r = f32[2,5] custom-call(f32[2,3] a), custom_call_target="__cublas$gemm"').entry.root
    >>> backend_of(root, "gpu")
    KernelBackend(kind='library', provider='cuBLAS', details='__cublas$gemm')
    """
    opcode = wrapped_opcode(instruction.opcode) or instruction.opcode.removesuffix("-start")
    if target is None:
        return KernelBackend("unknown", "unknown")
    # A slice or update in an async pair is a copy by the copy engine; synchronous ones are kernels.
    is_moved = opcode in BLOCK_MOVES and (is_asynchronous or instruction.opcode != opcode)
    if is_moved or instruction.opcode in _TRANSFERS:
        return KernelBackend("transfer", "DMA" if target == "tpu" else "memcpy")
    if opcode in COLLECTIVES:
        return _collective(instruction, target)
    match opcode:
        case opcodes.FUSION:
            return _backend_of_fusion(instruction, target)
        case opcodes.CUSTOM_CALL:
            return _custom_call(instruction, target)
    library = _OPCODE_LIBRARIES.get(target, {}).get(opcode)
    return (
        KernelBackend("library", library) if library else KernelBackend("codegen", "XLA", _format_cycles(instruction))
    )


def _collective(instruction: Instruction, target: Target) -> KernelBackend:
    config = instruction.backend_config
    strategy = str(config.get("collective_backend_config", "kernel_strategy") or "") if config is not None else ""
    if strategy.startswith(f"{_STRATEGY_PREFIX}TRITON"):
        shots = strategy.removeprefix(f"{_STRATEGY_PREFIX}TRITON_").lower().replace("_", " ").replace(" shot", "-shot")
        return KernelBackend("Triton", "Triton", shots)
    return KernelBackend("collective", _COLLECTIVE_LIBRARIES[target])


def _backend_of_fusion(fusion: Instruction, target: Target) -> KernelBackend:
    config = fusion.backend_config
    if config is None:
        return KernelBackend("codegen", "XLA")
    if target == "cpu":
        kind = str(config.get("fusion_config", "kind") or "")
        library = _CPU_FUSIONS.get(kind)
        return KernelBackend("library", library) if library else KernelBackend("codegen", "XLA", _format_tiles(config))
    if target == "tpu":
        return KernelBackend("codegen", "XLA", _format_cycles(fusion))
    path = _gpu_fusion_path(config)
    kind = str(config.get(*path, "kind") or "")
    if kind.startswith("__triton"):
        return KernelBackend("Triton", "Triton", _format_triton_gemm(config) or _format_tiles(config))
    if kind == "__cudnn$fusion":
        return KernelBackend("library", "cuDNN")
    # Custom kernels are CUTLASS's; the others, such as dynamic-slice fusions, XLA emits itself.
    if kind == "__custom_fusion":
        name = str(config.get(*path, "custom_fusion_config", "name") or "")
        return (
            KernelBackend("library", "CUTLASS") if name.startswith("cutlass") else KernelBackend("codegen", "XLA", name)
        )
    return KernelBackend("codegen", "XLA", _format_tiles(config))


def _custom_call(call: Instruction, target: Target) -> KernelBackend:
    name = call.string("custom_call_target") or ""
    if name.startswith(_CALLBACKS):
        return KernelBackend("custom call", "Python", name)
    if target == "tpu":
        return (
            KernelBackend("custom call", "Mosaic")
            if name == "tpu_custom_call"
            else KernelBackend("codegen", "XLA", name)
        )
    # The prefix is none of a library: XLA brings this kernel along.
    if name == "__gpu$TopK":
        return KernelBackend("codegen", "XLA", name)
    for prefix, library in _GPU_LIBRARIES if target == "gpu" else _CPU_LIBRARIES:
        if name.startswith(prefix):
            return KernelBackend("Triton" if library == "Triton" else "library", library, name)
    return KernelBackend("custom call", name)


# --- kernels of a module ---
# Kernels of a module with their backends and execution counts.


@dataclass(frozen=True, slots=True)
class Kernel:
    """Launched operation, its backend, and how often it runs per execution of the module."""

    instruction: Instruction
    backend: KernelBackend
    executions: Executions

    @property
    def times(self) -> int | None:
        """The number of executions, None if a trip count is unknown."""
        return self.executions.known

    @property
    def is_transfer(self) -> bool:
        """Whether the operation only transfers bytes between memories or devices."""
        return self.backend.kind == "transfer"

    @property
    def pallas(self) -> PallasKernel | None:
        """What is in the kernel, if it is a Pallas kernel for TPUs; read on use. None for other kernels."""
        from hlo_cli.analysis.hardware.target import is_pallas
        from hlo_cli.analysis.kernels.pallas_kernels import kernel_of

        return kernel_of(self.instruction) if is_pallas(self.instruction) else None

    @property
    def windows(self) -> tuple[KernelWindow, ...]:
        """The blocks that a Pallas kernel reads and writes; empty for other kernels.

        >>> from hlo_cli import load
        >>> kernel = kernels_of(load("fixtures/tpu/v6e_kernels"))[-1]
        >>> [(window.label, window.block) for window in kernel.windows]
        [('in 0', (256, 128)), ('in 1', (128, 512)), ('out 0', (256, 512))]
        """
        return self.pallas.windows if self.pallas is not None else ()


class KernelList(Results[Kernel, Module]):
    """Kernels of a module, as a tuple that notebooks show as a table; `context` is the module."""


@of_module
def kernels_of(module: Module) -> KernelList:
    """Kernels and transfers of a module in the order of the text; a loop body counts once.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[2] parameter(0)  a = f32[2] add(p, p)  ROOT t = (f32[2]) tuple(a) }"
    >>> [kernel.instruction.name for kernel in kernels_of(parse_module(text))]
    ['a']
    """
    return computed_once(_kernels, module)


def _kernels(module: Module) -> KernelList:
    target = target_of(module)
    async_bodies = {
        called for i in module.instructions if i.opcode == opcodes.ASYNC_START for called in i.called_computations
    }
    launched = (
        Kernel(instruction, backend_of(instruction, target, is_asynchronous=computation in async_bodies), executions)
        for computation, executions in sequential_executions(module).items()
        for instruction in computation.instructions
        if is_launched(instruction)
    )
    return KernelList.of(launched, module)


def is_launched(instruction: Instruction) -> bool:
    """Whether an operation of a sequentially executed computation launches a kernel or a transfer."""
    opcode = instruction.opcode
    if opcode in NO_KERNELS or opcode in NATIVE_ENDS:
        return False
    # Only the start launches something; the rest of an async chain waits for it.
    if opcode.endswith(("-update", "-done")) and wrapped_opcode(opcode) is not None:
        return False
    if opcode == opcodes.FUSION:
        return not _is_fused_done(instruction)
    return opcode != opcodes.CUSTOM_CALL or instruction.string("custom_call_target") not in NO_KERNEL_TARGETS


def _is_fused_done(fusion: Instruction) -> bool:
    """Whether a TPU fusion only ends a collective that another one started, as the done of other forms does."""
    root = fusion.called_computations[0].root if fusion.called_computations else None
    is_call = root is not None and root.opcode == opcodes.CUSTOM_CALL
    return is_call and root is not None and root.string("custom_call_target") == "AsyncCollectiveDone"


def launched_costs(module: Module) -> Mapping[Instruction, Cost]:
    """The cost of one run of each kernel and transfer: that of XLA, which counts -1 for a custom call, else as known.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { p = f32[2] parameter(0)  c = f32[2] copy(p)  ROOT a = f32[2] add(c, c) }")
    >>> {kernel.name: cost.bytes_accessed for kernel, cost in launched_costs(module).items()}
    {'c': 16, 'a': 24}
    """
    costs = cost_analysis(module)
    launched = [kernel.instruction for kernel in kernels_of(module)]
    known = {
        **costs_among((each for each in launched if each.opcode == opcodes.CUSTOM_CALL), rules=RUN),
        **costs_among(filter(_has_gather, launched), rules=_GATHERED),
    }
    return {each: known.get(each) or costs[each] for each in launched}


_GATHERED: Final = replace(EXACT, gathered_parts=True)


def _has_gather(instruction: Instruction) -> bool:
    """Whether an instruction is a fusion with a gather, of which XLA counts the whole operand."""
    bodies = instruction.called_computations if instruction.opcode == opcodes.FUSION else ()
    return any(each.opcode == opcodes.GATHER for body in bodies for each in all_fused(body))


def execution_cost(module: Module) -> KernelCost:
    """What one execution of a module takes: kernels launched, flops, and bytes accessed, those of transfers too.

    Loops count as often as they run, one of unknown trip count once; every branch counts as taken. What an asynchronous
    operation accesses is counted at its start.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { p = f32[2] parameter(0)  c = f32[2] copy(p)  ROOT a = f32[2] add(c, c) }")
    >>> execution_cost(module)
    KernelCost(kernels=2, flops=2, bytes=40)
    """
    costs = launched_costs(module)
    total = KernelCost()
    for kernel in kernels_of(module):
        cost = kernel_cost_of(costs[kernel.instruction])
        total += (replace(cost, kernels=0) if kernel.is_transfer else cost) * kernel.executions.count
    return total


def launches_of(module: Module) -> int:
    """How many kernels one execution of a module launches: loops count as often as known, transfers do not count.

    >>> from hlo_cli import parse_module
    >>> launches_of(parse_module("ENTRY e { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }"))
    1
    """
    return sum(kernel.executions.count for kernel in kernels_of(module) if not kernel.is_transfer)


def _as_xla(module: Module) -> CostOptions:
    """How XLA counts custom calls: it looks into none, and libtpu takes the estimate of a kernel if there is one."""
    # Elsewhere XLA adds -1 for each as well, which is no count. Without calls, the costs are those known already.
    has_calls = any(kernel.instruction.opcode == opcodes.CUSTOM_CALL for kernel in kernels_of(module))
    return replace(EXACT, minus_one=True, known_calls=True) if has_calls and target_of(module) == "tpu" else EXACT


def _is_estimated(cost: Cost) -> bool:
    """Whether XLA has an estimate for a custom call, for which it else counts nothing or -1."""
    return cost.flops > 0 and not cost.unknown


def xla_totals(module: Module) -> tuple[int, int]:
    """The flops and the bytes accessed that XLA's cost analysis counts for a module, before padding.

    >>> from hlo_cli import parse_module
    >>> xla_totals(parse_module("ENTRY e { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }"))
    (2, 16)
    """
    total = module_cost(module, rules=_as_xla(module))
    # Of custom calls alone, the sum of their -1 is no count.
    return max(round(total.flops), 0), max(round(total.bytes_accessed), 0)


def reasons_for_other_totals(module: Module) -> tuple[str, ...]:
    """How XLA counts otherwise than one execution does: why `module_cost` is not `execution_cost`, most frequent first.

    >>> from hlo_cli import parse_module
    >>> copy = "s = (f32[2], f32[2], u32[]) copy-start(p)  ROOT d = f32[2] copy-done(s)"
    >>> reasons_for_other_totals(parse_module(f"ENTRY e {{ p = f32[2] parameter(0)  {copy} }}"))
    ('async operations twice',)
    """
    costs, kernels = cost_analysis(module, rules=_as_xla(module)), kernels_of(module)
    ends = (each for each in module.entry.instructions if each.opcode.endswith(("-done", "-update")))
    known = launched_costs(module)

    calls = [kernel.instruction for kernel in kernels if kernel.instruction.opcode == opcodes.CUSTOM_CALL]
    others = [costs[call] for call in calls if kernel_cost_of(costs[call]) != kernel_cost_of(known[call])]
    is_unknown = any(known[kernel.instruction].unknown for kernel in kernels)
    has_estimates = any(map(_is_estimated, others))
    reasons = (
        # `HloCostAnalysis::HandleWhile` and `HandleConditional` of xla/service/hlo_cost_analysis.cc.
        (any(kernel.times != 1 for kernel in kernels), "loop bodies once"),
        (any(kernel.executions.in_branch for kernel in kernels), "one branch of conditionals"),
        # At start and done: it has no handler for most dones, so that `Preprocess` counts operands and results.
        (any(costs[each].bytes_accessed for each in ends), "async operations twice"),
        (has_estimates, "custom calls by their estimates alone"),
        (not has_estimates and (is_unknown or bool(others)), "no custom calls"),
    )
    found = tuple(words for is_so, words in reasons if is_so)
    # What is left are a few bytes: 8 for each element of a tuple.
    tuples = (each for each in module.entry.instructions if each.opcode == opcodes.TUPLE)
    return found or (("tables of tuples",) if any(costs[each].bytes_accessed for each in tuples) else ())


# --- fusions of a module ---
# Their fused operations, and the memory traffic that fusion avoids.


@dataclass(frozen=True, slots=True)
class Fusion(WithItems):
    """Fusion with its body and its cost as one kernel and as one kernel per operation.

    `operations` are the fused instructions that would be kernels of their own, with those of nested fusions.
    `unfused_bytes` are the bytes accessed by these; for a single operation, by the fusion. `traffic` is `cost` but for
    gathers, of which XLA counts the whole operand: it has the elements that they take.
    """

    instruction: Instruction
    body: Computation
    heroes: tuple[Instruction, ...]
    operations: tuple[Instruction, ...]
    cost: Cost
    unfused_bytes: int
    traffic: Cost

    @property
    def accessed_bytes(self) -> int:
        """Bytes accessed by the fusion; of the operands of gathers, only the elements that these take."""
        return round(self.traffic.bytes_accessed)

    @property
    def name(self) -> str:
        """Name of the fusion instruction."""
        return self.instruction.name

    @property
    def kind(self) -> str:
        """Fusion kind as XLA prints it, such as `kLoop`."""
        return self.instruction.attribute("kind") or ""

    @property
    def written_bytes(self) -> int:
        """Size of the results in bytes."""
        return round(self.cost.output_bytes)

    @property
    def read_bytes(self) -> int:
        """Bytes read from operands and from large constants."""
        return self.accessed_bytes - self.written_bytes

    @property
    def saved_bytes(self) -> int:
        """Memory traffic in bytes that fusion avoids: bytes accessed by unfused operations minus those of the fusion.

        Negative where XLA counts the slice that a lone scatter or slice reads, but the whole operand in a fusion. A
        gather counts as what it takes in both.
        """
        # `unfused_bytes` counts slices as read, see the note in the docstring: no clamp, so that this shows.
        return self.unfused_bytes - self.accessed_bytes


class FusionList(Results[Fusion, Module]):
    """Fusions of a module, as a tuple that notebooks show as a table; `context` is the module."""


@of_module
def fusions_of(module: Module, *, costs: Mapping[Instruction, Cost] | None = None) -> FusionList:
    """Fusions of a module in the order of the text, without nested ones.

    `costs` are the costs of all instructions, if already computed.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m
    ... f { p = f32[100] parameter(0)  n = f32[100] negate(p)  ROOT t = f32[100] tanh(n) }
    ... ENTRY e { a = f32[100] parameter(0)  ROOT r = f32[100] fusion(a), kind=kLoop, calls=f }'''
    >>> found, = fusions_of(parse_module(text))
    >>> [operation.opcode for operation in found.operations], found.read_bytes, found.written_bytes, found.saved_bytes
    (['negate', 'tanh'], 400, 400, 800)
    """
    expect(Mapping | None, "the costs of instructions", costs, "use hlo_cli.cost_analysis(module)")
    return computed_once(_fusions, module, cost_analysis(module) if costs is None else costs)


@no_garbage_collection()
def _fusions(module: Module, costs: Mapping[Instruction, Cost]) -> FusionList:
    bodies = {c for i in module.instructions if i.opcode == opcodes.FUSION for c in i.called_computations}
    outer = (i for c in module.computations if c not in bodies for i in c.instructions if i.opcode == opcodes.FUSION)
    return FusionList.of((_described_fusion(fusion, costs) for fusion in outer if fusion.called_computations), module)


def fusion_of(fusion: Instruction, *, rules: CostOptions = EXACT) -> Fusion:
    """Fusion data of one instruction, which can be nested; it must call a computation."""
    return _described_fusion(fusion, costs_among((fusion, *all_fused(fusion.called_computations[0])), rules=rules))


def _described_fusion(fusion: Instruction, costs: Mapping[Instruction, Cost]) -> Fusion:
    body = fusion.called_computations[0]
    inner = tuple(all_fused(body))
    operations = tuple([each for each in inner if each.opcode not in NO_KERNELS])
    # A single operation was wrapped, not fused: by itself it would read and write the same.
    kernels = operations if len(operations) > 1 else (fusion,)
    has_gather = any(each.opcode == opcodes.GATHER for each in inner)
    traffic = costs_among((fusion,), rules=_GATHERED)[fusion] if has_gather else costs[fusion]
    unfused = sum(round((traffic if each is fusion else costs[each]).bytes_accessed) for each in kernels)
    return Fusion(fusion, body, heroes_of(body), operations, costs[fusion], unfused, traffic)
