"""Provider of the kernel of an operation: a library, Triton, XLA's emitters, or a custom call.

Mirrors `HloFusionAnalysis::GetEmitterFusionKind` of xla/service/gpu/hlo_fusion_analysis.cc, the thunks of
xla/backends/cpu and xla/backends/gpu, and the configurations of xla/service/gpu/backend_configs.proto.
"""

from __future__ import annotations

from typing import Final, Literal

from hlo_cli.analysis.fusion.kernel_details import (
    format_cycles,
    format_tiles,
    format_triton_gemm,
    gpu_fusion_path,
)
from hlo_cli.analysis.hardware.target import Target
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import BLOCK_MOVES, CHANNEL_STARTS, COLLECTIVES, HOST_FEEDS, MATMULS, wrapped_opcode

Kind = Literal["codegen", "Triton", "library", "collective", "custom call", "transfer", "unknown"]

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
    ("TopK", "XLA runtime"),
)
_CALLBACKS: Final = ("xla_python_", "xla_ffi_python_", "xla_ffi_partitioned_python_")
_OPCODE_LIBRARIES: Final[dict[str, dict[str, str]]] = {
    "gpu": {
        opcodes.FFT: "cuFFT",
        opcodes.TRIANGULAR_SOLVE: "cuBLAS",
        opcodes.CHOLESKY: "cuSOLVER",
        opcodes.COPY: "memcpy",
    },
    "cpu": {opcodes.FFT: "DUCC", opcodes.SORT: "XLA runtime", **dict.fromkeys(MATMULS, "Eigen")},
}
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
    library = _OPCODE_LIBRARIES.get(target, {}).get(opcode)
    return KernelBackend("library", library) if library else KernelBackend("codegen", "XLA", format_cycles(instruction))


def _collective(instruction: Instruction, target: Target) -> KernelBackend:
    config = instruction.backend_config
    strategy = str(config.get("collective_backend_config", "kernel_strategy") or "") if config is not None else ""
    if strategy.startswith(f"{_STRATEGY_PREFIX}TRITON"):
        shots = strategy.removeprefix(f"{_STRATEGY_PREFIX}TRITON_").lower().replace("_", " ").replace(" shot", "-shot")
        return KernelBackend("Triton", "Triton", shots)
    return KernelBackend("collective", _COLLECTIVE_LIBRARIES[target])


def _fusion(fusion: Instruction, target: Target) -> KernelBackend:
    config = fusion.backend_config
    if config is None:
        return KernelBackend("codegen", "XLA")
    if target == "cpu":
        kind = str(config.get("fusion_config", "kind") or "")
        library = _CPU_FUSIONS.get(kind)
        return KernelBackend("library", library) if library else KernelBackend("codegen", "XLA", format_tiles(config))
    if target == "tpu":
        return KernelBackend("codegen", "XLA", format_cycles(fusion))
    path = gpu_fusion_path(config)
    kind = str(config.get(*path, "kind") or "")
    if kind.startswith("__triton"):
        return KernelBackend("Triton", "Triton", format_triton_gemm(config) or format_tiles(config))
    if kind == "__cudnn$fusion":
        return KernelBackend("library", "cuDNN")
    if kind == "__custom_fusion":
        name = str(config.get(*path, "custom_fusion_config", "name") or "")
        return (
            KernelBackend("library", "CUTLASS") if name.startswith("cutlass") else KernelBackend("codegen", "XLA", name)
        )
    return KernelBackend("codegen", "XLA", format_tiles(config))


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
    if name == "__gpu$TopK":
        return KernelBackend("codegen", "XLA", name)
    for prefix, library in _GPU_LIBRARIES if target == "gpu" else _CPU_LIBRARIES:
        if name.startswith(prefix):
            return KernelBackend("Triton" if library == "Triton" else "library", library, name)
    return KernelBackend("custom call", name)
