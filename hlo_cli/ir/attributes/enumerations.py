"""Which words an attribute may have: the enumerations of its values; each member is what XLA prints."""

from __future__ import annotations

from enum import StrEnum


class ComparisonDirection(StrEnum):
    """The comparison of `compare`.

    >>> f"direction={ComparisonDirection.LT}"
    'direction=LT'
    """

    EQ = "EQ"
    NE = "NE"
    GE = "GE"
    GT = "GT"
    LE = "LE"
    LT = "LT"


class ComparisonType(StrEnum):
    """The type in which `compare` interprets its operands."""

    FLOAT = "FLOAT"
    TOTALORDER = "TOTALORDER"
    SIGNED = "SIGNED"
    UNSIGNED = "UNSIGNED"


class ComparisonOrder(StrEnum):
    """Whether all values are ordered, including NaN."""

    TOTAL = "TOTAL"
    PARTIAL = "PARTIAL"


class ConvolutionKind(StrEnum):
    """The role of a convolution: forward, or one of the two gradients."""

    FPROP = "fprop"
    WGRAD = "wgrad"
    DGRAD = "dgrad"
    UNSET = "unset"


class CustomCallApiVersion(StrEnum):
    """The calling convention of a custom call."""

    ORIGINAL = "API_VERSION_ORIGINAL"
    STATUS_RETURNING = "API_VERSION_STATUS_RETURNING"
    STATUS_RETURNING_UNIFIED = "API_VERSION_STATUS_RETURNING_UNIFIED"
    TYPED_FFI = "API_VERSION_TYPED_FFI"


class CustomCallSchedule(StrEnum):
    """The scheduling preference of a custom call."""

    NONE = "SCHEDULE_NONE"
    LATEST = "SCHEDULE_LATEST"
    EARLIEST = "SCHEDULE_EARLIEST"


class CollectiveOpGroupMode(StrEnum):
    """The meaning of the ids in replica groups."""

    CROSS_REPLICA = "cross_replica"
    CROSS_PARTITION = "cross_partition"
    CROSS_REPLICA_AND_PARTITION = "cross_replica_and_partition"
    FLATTENED_ID = "flattened_id"


class ShuffleMode(StrEnum):
    """The order in which `shuffle` puts the elements of a dimension."""

    ROTATE = "rotate"


class FftType(StrEnum):
    """Forward or inverse, complex or real."""

    FFT = "FFT"
    IFFT = "IFFT"
    RFFT = "RFFT"
    IRFFT = "IRFFT"


class FusionKind(StrEnum):
    """The strategy for compiling a fusion."""

    LOOP = "kLoop"
    INPUT = "kInput"
    OUTPUT = "kOutput"
    CUSTOM = "kCustom"


class PaddingType(StrEnum):
    """The padding of a convolution computed by a library."""

    INVALID = "PADDING_INVALID"
    VALID = "PADDING_VALID"
    SAME = "PADDING_SAME"


class Precision(StrEnum):
    """The precision of an operand."""

    DEFAULT = "default"
    HIGH = "high"
    HIGHEST = "highest"


class PrecisionAlgorithm(StrEnum):
    """The types in which a dot computes, and the number of passes."""

    UNSET = "unset"
    ANY_F8_ANY_F8_F32 = "dot_any_f8_any_f8_f32"
    ANY_F8_ANY_F8_F32_FAST_ACCUM = "dot_any_f8_any_f8_f32_fast_accum"
    F16_F16_F16 = "dot_f16_f16_f16"
    F16_F16_F32 = "dot_f16_f16_f32"
    BF16_BF16_BF16 = "dot_bf16_bf16_bf16"
    BF16_BF16_F32 = "dot_bf16_bf16_f32"
    BF16_BF16_F32_X3 = "dot_bf16_bf16_f32_x3"
    BF16_BF16_F32_X6 = "dot_bf16_bf16_f32_x6"
    BF16_BF16_F32_X9 = "dot_bf16_bf16_f32_x9"
    BF16_BF16_FP8X3 = "dot_bf16_bf16_fp8x3"
    BF16_BF16_FP8X4 = "dot_bf16_bf16_fp8x4"
    TF32_TF32_F32 = "dot_tf32_tf32_f32"
    TF32_TF32_F32_X3 = "dot_tf32_tf32_f32_x3"
    F32_F32_F32 = "dot_f32_f32_f32"
    F64_F64_F64 = "dot_f64_f64_f64"


class RandomAlgorithm(StrEnum):
    """The algorithm for random bits."""

    DEFAULT = "rng_default"
    THREE_FRY = "rng_three_fry"
    PHILOX = "rng_philox"


class RandomDistribution(StrEnum):
    """The distribution of random numbers."""

    INVALID = "rng_invalid"
    UNIFORM = "rng_uniform"
    NORMAL = "rng_normal"


class ReductionKind(StrEnum):
    """The reduction that combines the parts of an unreduced value."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"


class ResultAccuracyMode(StrEnum):
    """The required accuracy of a result without a tolerance."""

    DEFAULT = "default"
    HIGHEST = "highest"


class Transpose(StrEnum):
    """The transformation of a triangular solve's matrix."""

    INVALID = "TRANSPOSE_INVALID"
    NO_TRANSPOSE = "NO_TRANSPOSE"
    TRANSPOSE = "TRANSPOSE"
    ADJOINT = "ADJOINT"


class DebugLogMode(StrEnum):
    """The log contents of a debugged instruction."""

    DEFAULT = "default"
    FUSION_DEBUGGER = "fusion_debugger"
    NO_FUSION = "no_fusion"
    GUARANTEED = "guaranteed"
