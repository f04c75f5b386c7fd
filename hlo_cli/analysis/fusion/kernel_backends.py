"""Who makes the kernel of an operation: a library, Triton, the compiler's own emitters, or somebody's custom call.

As far as the text tells. Mirrors `HloFusionAnalysis::GetEmitterFusionKind` of xla/service/gpu/hlo_fusion_analysis.cc,
the thunks of xla/backends/cpu and xla/backends/gpu, and the payloads of xla/service/gpu/backend_configs.proto.
"""

from __future__ import annotations

from typing import Final, Literal

from hlo_cli.analysis.fusion.kernel_details import format_cycles, format_tiles, gpu_fusion_path, triton_gemm_in_words
from hlo_cli.analysis.hardware.target import Target
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import BLOCK_MOVES, CHANNEL_STARTS, COLLECTIVES, HOST_FEEDS, MATMULS, wrapped_opcode

How = Literal["emitter", "Triton", "library", "collective", "custom call", "transfer", "unknown"]

_TRANSFERS: Final = HOST_FEEDS | CHANNEL_STARTS | {opcodes.COPY_START}
_GPU_LIBRARIES: Final = (
    ("__cublas$lt", "cuBLASLt"),
    ("__cublas$", "cuBLAS"),
    ("__cudnn$", "cuDNN"),
    ("xla.gpu.ext.cub_", "CUB"),
    ("__cub$", "CUB"),
    ("cusolver", "cuSOLVER"),
    ("__triton", "Triton"),
)
_CPU_LIBRARIES: Final = (
    ("lapack_", "LAPACK"),
    ("__onednn$", "oneDNN"),
    ("__ynn", "YNNPACK"),
    ("__pocketfft", "PocketFFT"),
    ("TopK", "the XLA runtime"),
)
_CALLBACKS: Final = ("xla_python_", "xla_ffi_python_", "xla_ffi_partitioned_python_")
_OF_OPCODES: Final[dict[str, dict[str, str]]] = {
    "gpu": {
        opcodes.FFT: "cuFFT",
        opcodes.TRIANGULAR_SOLVE: "cuBLAS",
        opcodes.CHOLESKY: "cuSOLVER",
        opcodes.COPY: "memcpy",
    },
    "cpu": {opcodes.FFT: "DUCC", opcodes.SORT: "the XLA runtime", **dict.fromkeys(MATMULS, "Eigen")},
}
_CPU_FUSIONS: Final = {"__ynn_fusion": "YNNPACK", "__onednn_fusion": "oneDNN"}
_WIRES: Final = {"gpu": "NCCL", "cpu": "the XLA runtime", "tpu": "the TPU's links"}
_STRATEGY: Final = "KERNEL_STRATEGY_"


@dataclass(frozen=True, slots=True)
class KernelBackend:
    """How a kernel is made, by whom, and what the text says of it: tiles, cycles, a library's settings.

    >>> KernelBackend("library", "cuBLAS").by
    'cuBLAS'
    """

    how: How
    by: str
    details: str = ""


def backend_of(instruction: Instruction, target: Target | None, *, is_asynchronous: bool = False) -> KernelBackend:
    """How the kernel of an operation is made on a target; unknown where nothing is compiled yet.

    `is_asynchronous` says that it is what an asynchronous operation runs, which sugar says by itself.

    >>> from hlo_cli import parse_module
    >>> root = parse_module('r = f32[2,5] custom-call(f32[2,3] a), custom_call_target="__cublas$gemm"').entry.root
    >>> backend_of(root, "gpu")
    KernelBackend(how='library', by='cuBLAS', details='__cublas$gemm')
    """
    opcode = wrapped_opcode(instruction.opcode) or instruction.opcode.removesuffix("-start")
    if target is None:
        return KernelBackend("unknown", "?")
    is_moved = opcode in BLOCK_MOVES and (is_asynchronous or instruction.opcode != opcode)
    if is_moved or instruction.opcode in _TRANSFERS:
        return KernelBackend("transfer", "DMA" if target == "tpu" else "memcpy")
    if opcode in COLLECTIVES:
        return _collective(instruction, target)
    match opcode:
        case opcodes.FUSION:
            return _fusion(instruction, target)
        case opcodes.CUSTOM_CALL:
            return _custom_call(instruction, target)
    library = _OF_OPCODES.get(target, {}).get(opcode)
    return KernelBackend("library", library) if library else KernelBackend("emitter", "XLA", format_cycles(instruction))


def _collective(instruction: Instruction, target: Target) -> KernelBackend:
    config = instruction.backend_config
    strategy = str(config.get("collective_backend_config", "kernel_strategy") or "") if config is not None else ""
    if strategy.startswith(f"{_STRATEGY}TRITON"):
        shots = strategy.removeprefix(f"{_STRATEGY}TRITON_").lower().replace("_", " ").replace(" shot", "-shot")
        return KernelBackend("Triton", "Triton", shots)
    return KernelBackend("collective", _WIRES[target])


def _fusion(fusion: Instruction, target: Target) -> KernelBackend:
    config = fusion.backend_config
    if config is None:
        return KernelBackend("emitter", "XLA")
    if target == "cpu":
        kind = str(config.get("fusion_config", "kind") or "")
        library = _CPU_FUSIONS.get(kind)
        return KernelBackend("library", library) if library else KernelBackend("emitter", "XLA", format_tiles(config))
    if target == "tpu":
        return KernelBackend("emitter", "XLA", format_cycles(fusion))
    path = gpu_fusion_path(config)
    kind = str(config.get(*path, "kind") or "")
    if kind.startswith("__triton"):
        return KernelBackend("Triton", "Triton", triton_gemm_in_words(config) or format_tiles(config))
    if kind == "__cudnn$fusion":
        return KernelBackend("library", "cuDNN")
    if kind == "__custom_fusion":
        name = str(config.get(*path, "custom_fusion_config", "name") or "")
        return (
            KernelBackend("library", "CUTLASS") if name.startswith("cutlass") else KernelBackend("emitter", "XLA", name)
        )
    return KernelBackend("emitter", "XLA", format_tiles(config))


def _custom_call(call: Instruction, target: Target) -> KernelBackend:
    name = call.string("custom_call_target") or ""
    if name.startswith(_CALLBACKS):
        return KernelBackend("custom call", "Python", name)
    if target == "tpu":
        return (
            KernelBackend("custom call", "Mosaic")
            if name == "tpu_custom_call"
            else KernelBackend("emitter", "XLA", name)
        )
    if name == "__gpu$TopK":
        return KernelBackend("emitter", "XLA", name)
    for prefix, library in _GPU_LIBRARIES if target == "gpu" else _CPU_LIBRARIES:
        if name.startswith(prefix):
            return KernelBackend("Triton" if library == "Triton" else "library", library, name)
    return KernelBackend("custom call", name)
