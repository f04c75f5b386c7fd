"""Custom-call targets of compilers and frameworks, with their meaning.

Names are those of xla/service/gpu/cublas_cudnn.cc, xla/service/cpu, xla/service/custom_call_sharding_helper.cc,
jaxlib's kernels, and TPU dumps.
"""

from __future__ import annotations

from typing import Final, Literal

from hlo_cli.dataclass import dataclass

Category = Literal["library", "kernel", "handler", "compiler", "annotation", "unknown"]


@dataclass(frozen=True, slots=True)
class KnownTarget:
    """Category and description of a target.

    Categories: a `library` that XLA calls, a `kernel` in the call, a `handler` registered by a framework, an operation
    of the `compiler`, an `annotation` without effect at run time, or `unknown`.
    """

    category: Category
    description: str

    @property
    def is_user_defined(self) -> bool:
        """Whether the call invokes a function that is registered under this name."""
        # An unknown target is taken for a user's: XLA's own are listed below.
        return self.category in ("handler", "unknown")


def known_target(name: str) -> KnownTarget:
    """Category and description of a target; category `unknown` for other names.

    >>> known_target("__cublas$lt$matmul$f8").description, known_target("my_op").category
    ('cuBLASLt FP8 matmul', 'unknown')
    """
    if (found := _BY_NAME.get(name)) is not None:
        return found
    return next((known for begins, known in _BY_PREFIX if name.startswith(begins)), _UNKNOWN)


def _of(category: Category, listed: dict[str, str]) -> dict[str, KnownTarget]:
    return {name: KnownTarget(category, words) for names, words in listed.items() for name in names.split()}


_UNKNOWN: Final = KnownTarget("unknown", "unknown target (registered by the program)")

_BY_NAME: Final[dict[str, KnownTarget]] = {
    **_of(
        "library",
        {
            "__cublas$gemm": "cuBLAS matmul",
            "__cublas$lt$matmul": "cuBLASLt matmul with epilogue",
            "__cublas$lt$matmul$f8": "cuBLASLt FP8 matmul",
            "__cublas$lt$matmul$mx": "cuBLASLt block-scaled matmul",
            "__cublas$lt$groupedMatmul": "cuBLASLt grouped matmul",
            "__cublas$triangularSolve": "cuBLAS triangular solve",
            "__cudnn$convForward": "cuDNN convolution",
            "__cudnn$convBackwardInput": "cuDNN convolution, input gradient",
            "__cudnn$convBackwardFilter": "cuDNN convolution, filter gradient",
            "__cudnn$convBiasActivationForward": "cuDNN convolution with bias and activation",
            "__cudnn$convForwardGraph": "cuDNN convolution with fused epilogue",
            "__cudnn$convReorderFilter": "cuDNN filter reordering",
            "__cudnn$convReorderFilterAndBias": "cuDNN filter and bias reordering",
            "__cudnn$norm": "cuDNN layer normalization",
            "__cudnn$blockScaledDot": "cuDNN block-scaled matmul",
            "xla.gpu.ext.cub_sort_keys": "CUB radix sort",
            "xla.gpu.ext.cub_sort_pairs": "CUB radix sort of pairs",
            "xla.gpu.ext.cub_scan": "CUB prefix scan",
            "__onednn$matmul": "oneDNN matmul",
            "__onednn$convolution": "oneDNN convolution",
            "__onednn$softmax": "oneDNN softmax",
            "__onednn$layernorm": "oneDNN layer normalization",
        },
    ),
    **_of(
        "kernel",
        {
            "tpu_custom_call": "Mosaic TPU kernel (Pallas)",
            "mosaic_gpu mosaic_gpu_v2": "Mosaic GPU kernel (Pallas)",
            "__gpu$xla.gpu.triton": "Triton kernel, compiled by XLA",
            "triton_kernel_call": "Triton kernel, compiled by JAX",
        },
    ),
    **_of(
        "handler",
        {
            "xla_ffi_python_cpu_callback xla_ffi_python_gpu_callback": "Python callback",
            "xla_ffi_partitioned_python_cpu_callback": "per-partition Python callback",
            "xla_python_cpu_callback xla_python_gpu_callback": "Python callback",
            "xla_buffer_python_cpu_callback xla_buffer_python_gpu_callback": "Python callback with buffers",
        },
    ),
    **_of(
        "compiler",
        {
            "TopK __gpu$TopK": "top-k",
            "PartialReduce ApproxTopK": "approximate top-k",
            "AllocateBuffer": "uninitialized memory",
            "ConcatBitcast": "concatenation of adjacent buffers (no copy)",
            "Pin": "pins an array as a buffer",
            "Unpin": "unpins a buffer",
            "CreateBuffer": "uninitialized buffer",
            "SliceToDynamic": "makes a dimension dynamic",
            "PadToStatic": "pads a dynamic array to its bound",
            "X64SplitLow X64SplitHigh": "splits 64-bit or complex values",
            "X64Combine": "combines 64-bit or complex values",
            "ZeroCrop": "zeroes the padding",
            "AssumeGatherIndicesInBound": "asserts in-bounds indices",
            "GatherScatterIndicesBitpacked": "packs indices into fewer words",
            "AsyncCollectiveStart AsyncCollectiveDone": "start or done of an async collective",
            "HostExecute": "host computation",
            "MoveToHost MoveToDevice": "host–device transfer",
            "Cholesky": "Cholesky decomposition",
            "Qr QrDecompositionBlock": "QR decomposition",
            "CompactWyHelper": "product of Householder reflectors in compact form",
            "LuDecomposition LuRealDecompositionBlock LuComplexDecompositionBlock": "LU decomposition",
            "Eigh EighTpu": "eigenvalues and eigenvectors of a symmetric matrix",
            "InvertDiagBlocksLowerTriangular": "inverts lower triangular diagonal blocks",
            "InvertDiagBlocksUpperTriangular": "inverts upper triangular diagonal blocks",
            "ProductOfElementaryHouseholderReflectors": "product of Householder reflectors",
        },
    ),
    **_of(
        "annotation",
        {
            "Sharding": "sharding annotation",
            "SPMDFullToShardShape": "enters per-shard view (manual sharding)",
            "SPMDShardToFullShape": "leaves per-shard view (manual sharding)",
            "annotate_device_placement": "memory placement annotation",
            "LayoutConstraint": "layout constraint",
            "control_dep": "control dependency",
        },
    ),
}

_BY_PREFIX: Final = (
    ("__cudnn$fmha", KnownTarget("library", "cuDNN attention")),
    ("__cublas$", KnownTarget("library", "cuBLAS")),
    ("__cudnn$", KnownTarget("library", "cuDNN")),
    ("__onednn$", KnownTarget("library", "oneDNN")),
    ("xla.gpu.ext.", KnownTarget("library", "built-in XLA kernel")),
    ("__triton$", KnownTarget("kernel", "Triton kernel, generated by XLA")),
    ("lapack_", KnownTarget("handler", "LAPACK (registered by jaxlib)")),
    ("blas_", KnownTarget("handler", "BLAS (registered by jaxlib)")),
    ("cusolver_", KnownTarget("handler", "cuSOLVER (registered by jaxlib)")),
    ("cublas_", KnownTarget("handler", "cuBLAS (registered by jaxlib)")),
    ("cusparse_", KnownTarget("handler", "cuSPARSE (registered by jaxlib)")),
    ("cu_threefry2x32", KnownTarget("handler", "Threefry random numbers (registered by jaxlib)")),
    ("cudnn_", KnownTarget("handler", "cuDNN (registered by jaxlib)")),
    ("hipsolver_", KnownTarget("handler", "hipSOLVER (registered by jaxlib)")),
    ("hipsparse_", KnownTarget("handler", "hipSPARSE (registered by jaxlib)")),
    ("TODO(b/", KnownTarget("compiler", "internal TPU compiler operation")),
    ("xla.sdy.", KnownTarget("annotation", "Shardy annotation")),
)
