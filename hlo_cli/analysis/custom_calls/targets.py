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
        return self.category in ("handler", "unknown")


def known_target(name: str) -> KnownTarget:
    """Category and description of a target; category `unknown` for other names.

    >>> known_target("__cublas$lt$matmul$f8").description, known_target("my_op").category
    ('cuBLASLt matrix product of 8-bit floats', 'unknown')
    """
    if (found := _BY_NAME.get(name)) is not None:
        return found
    return next((known for begins, known in _BY_PREFIX if name.startswith(begins)), _UNKNOWN)


def _of(category: Category, listed: dict[str, str]) -> dict[str, KnownTarget]:
    return {name: KnownTarget(category, words) for names, words in listed.items() for name in names.split()}


_UNKNOWN: Final = KnownTarget("unknown", "unknown: a function that the program registers")

_BY_NAME: Final[dict[str, KnownTarget]] = {
    **_of(
        "library",
        {
            "__cublas$gemm": "cuBLAS matrix product",
            "__cublas$lt$matmul": "cuBLASLt matrix product and epilogue",
            "__cublas$lt$matmul$f8": "cuBLASLt matrix product of 8-bit floats",
            "__cublas$lt$matmul$mx": "cuBLASLt matrix product of block-scaled floats",
            "__cublas$lt$groupedMatmul": "cuBLASLt several matrix products",
            "__cublas$triangularSolve": "cuBLAS triangular solve",
            "__cudnn$convForward": "cuDNN convolution",
            "__cudnn$convBackwardInput": "cuDNN convolution, gradient of the input",
            "__cudnn$convBackwardFilter": "cuDNN convolution, gradient of the filter",
            "__cudnn$convBiasActivationForward": "cuDNN convolution, bias and activation",
            "__cudnn$convForwardGraph": "cuDNN convolution and the work on its result",
            "__cudnn$convReorderFilter": "cuDNN reordering of a filter",
            "__cudnn$convReorderFilterAndBias": "cuDNN reordering of filter and bias",
            "__cudnn$norm": "cuDNN layer normalisation",
            "__cudnn$blockScaledDot": "cuDNN matrix product of block-scaled floats",
            "xla.gpu.ext.cub_sort_keys": "CUB radix sort",
            "xla.gpu.ext.cub_sort_pairs": "CUB radix sort of pairs",
            "xla.gpu.ext.cub_scan": "CUB prefix scan",
            "__onednn$matmul": "oneDNN matrix product",
            "__onednn$convolution": "oneDNN convolution",
            "__onednn$softmax": "oneDNN softmax",
            "__onednn$layernorm": "oneDNN layer normalisation",
        },
    ),
    **_of(
        "kernel",
        {
            "tpu_custom_call": "Mosaic kernel for TPUs, as Pallas writes",
            "mosaic_gpu mosaic_gpu_v2": "Mosaic kernel for GPUs, as Pallas writes",
            "__gpu$xla.gpu.triton": "Triton kernel, which XLA compiles",
            "triton_kernel_call": "Triton kernel, which JAX compiled",
        },
    ),
    **_of(
        "handler",
        {
            "xla_ffi_python_cpu_callback xla_ffi_python_gpu_callback": "a Python function, called back",
            "xla_ffi_partitioned_python_cpu_callback": "a Python function, called back on each part",
            "xla_python_cpu_callback xla_python_gpu_callback": "a Python function, called back",
            "xla_buffer_python_cpu_callback xla_buffer_python_gpu_callback": "a Python function, given the buffers",
        },
    ),
    **_of(
        "compiler",
        {
            "TopK __gpu$TopK": "the k largest elements",
            "PartialReduce ApproxTopK": "the k largest elements, about",
            "AllocateBuffer": "memory without contents",
            "ConcatBitcast": "pieces that lie in one buffer already, as one value",
            "Pin": "an array becomes a buffer that stays where it is",
            "Unpin": "a buffer becomes an array again",
            "CreateBuffer": "a buffer without contents",
            "SliceToDynamic": "a size that is known becomes one of the running program",
            "PadToStatic": "an array of changing size is padded to its bound",
            "X64SplitLow X64SplitHigh": "one half of 64-bit or complex numbers",
            "X64Combine": "two halves become 64-bit or complex numbers",
            "ZeroCrop": "what lies behind the data is set to zero",
            "AssumeGatherIndicesInBound": "a promise that indices are within the bounds",
            "GatherScatterIndicesBitpacked": "indices are packed into fewer words",
            "AsyncCollectiveStart AsyncCollectiveDone": "one end of a collective that runs meanwhile",
            "HostExecute": "work that the host does",
            "MoveToHost MoveToDevice": "a value moves between the host's memory and the device's",
            "Cholesky": "Cholesky decomposition",
            "Qr QrDecompositionBlock": "QR decomposition",
            "LuDecomposition LuRealDecompositionBlock": "LU decomposition",
            "Eigh": "eigenvalues of a symmetric matrix",
            "InvertDiagBlocksLowerTriangular": "the inverses of lower triangular blocks",
            "InvertDiagBlocksUpperTriangular": "the inverses of upper triangular blocks",
            "ProductOfElementaryHouseholderReflectors": "the product of Householder reflectors",
        },
    ),
    **_of(
        "annotation",
        {
            "Sharding": "how a value is to be sharded",
            "SPMDFullToShardShape": "from here on each device sees its part",
            "SPMDShardToFullShape": "from here on the whole is seen again",
            "annotate_device_placement": "in which memory a value is to lie",
            "LayoutConstraint": "in which layout a value is to lie",
            "control_dep": "an order of execution",
        },
    ),
}

_BY_PREFIX: Final = (
    ("__cudnn$fmha", KnownTarget("library", "cuDNN attention")),
    ("__cublas$", KnownTarget("library", "cuBLAS")),
    ("__cudnn$", KnownTarget("library", "cuDNN")),
    ("__onednn$", KnownTarget("library", "oneDNN")),
    ("xla.gpu.ext.", KnownTarget("library", "a kernel that comes with XLA")),
    ("__triton$", KnownTarget("kernel", "Triton kernel, which XLA wrote")),
    ("lapack_", KnownTarget("handler", "LAPACK, registered by jaxlib")),
    ("blas_", KnownTarget("handler", "BLAS, registered by jaxlib")),
    ("cusolver_", KnownTarget("handler", "cuSOLVER, registered by jaxlib")),
    ("cublas_", KnownTarget("handler", "cuBLAS, registered by jaxlib")),
    ("cusparse_", KnownTarget("handler", "cuSPARSE, registered by jaxlib")),
    ("cu_threefry2x32", KnownTarget("handler", "random numbers, registered by jaxlib")),
    ("cudnn_", KnownTarget("handler", "cuDNN, registered by jaxlib")),
    ("hipsolver_", KnownTarget("handler", "hipSOLVER, registered by jaxlib")),
    ("hipsparse_", KnownTarget("handler", "hipSPARSE, registered by jaxlib")),
    ("TODO(b/", KnownTarget("compiler", "work that the TPU compiler has no name for yet")),
    ("xla.sdy.", KnownTarget("annotation", "what Shardy is to know of a value")),
)
