"""The enumerations of attribute values; each member is the word that XLA prints.

Mirrors the enumerations of xla/xla_data.proto, xla/comparison_util.h and xla/service/hlo.proto.
"""

from __future__ import annotations

from enum import StrEnum


class ComparisonDirection(StrEnum):
    """How `compare` compares.

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
    """As what `compare` takes its operands."""

    FLOAT = "FLOAT"
    TOTALORDER = "TOTALORDER"
    SIGNED = "SIGNED"
    UNSIGNED = "UNSIGNED"


class ComparisonOrder(StrEnum):
    """Whether every two values have an order, NaN included."""

    TOTAL = "TOTAL"
    PARTIAL = "PARTIAL"


class ConvolutionKind(StrEnum):
    """Which of a layer's three convolutions this is."""

    FPROP = "fprop"
    WGRAD = "wgrad"
    DGRAD = "dgrad"
    UNSET = "unset"


class CustomCallApiVersion(StrEnum):
    """How a custom call takes its arguments."""

    ORIGINAL = "API_VERSION_ORIGINAL"
    STATUS_RETURNING = "API_VERSION_STATUS_RETURNING"
    STATUS_RETURNING_UNIFIED = "API_VERSION_STATUS_RETURNING_UNIFIED"
    TYPED_FFI = "API_VERSION_TYPED_FFI"


class CustomCallSchedule(StrEnum):
    """Where a custom call wants to stand in the schedule."""

    NONE = "SCHEDULE_NONE"
    LATEST = "SCHEDULE_LATEST"
    EARLIEST = "SCHEDULE_EARLIEST"


class CollectiveOpGroupMode(StrEnum):
    """What the numbers in replica groups stand for."""

    CROSS_REPLICA = "cross_replica"
    CROSS_PARTITION = "cross_partition"
    CROSS_REPLICA_AND_PARTITION = "cross_replica_and_partition"
    FLATTENED_ID = "flattened_id"


class FftType(StrEnum):
    """Forward or inverse, complex or real."""

    FFT = "FFT"
    IFFT = "IFFT"
    RFFT = "RFFT"
    IRFFT = "IRFFT"


class FusionKind(StrEnum):
    """How a fusion is to be compiled."""

    LOOP = "kLoop"
    INPUT = "kInput"
    OUTPUT = "kOutput"
    CUSTOM = "kCustom"


class PaddingType(StrEnum):
    """Padding of a convolution that a library computes."""

    INVALID = "PADDING_INVALID"
    VALID = "PADDING_VALID"
    SAME = "PADDING_SAME"


class Precision(StrEnum):
    """How exactly an operand is to be taken."""

    DEFAULT = "default"
    HIGH = "high"
    HIGHEST = "highest"


class PrecisionAlgorithm(StrEnum):
    """The types that a dot computes with, and how often it does."""

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
    TF32_TF32_F32 = "dot_tf32_tf32_f32"
    TF32_TF32_F32_X3 = "dot_tf32_tf32_f32_x3"
    F32_F32_F32 = "dot_f32_f32_f32"
    F64_F64_F64 = "dot_f64_f64_f64"


class RandomAlgorithm(StrEnum):
    """How random bits are made."""

    DEFAULT = "rng_default"
    THREE_FRY = "rng_three_fry"
    PHILOX = "rng_philox"


class RandomDistribution(StrEnum):
    """How random numbers are spread."""

    INVALID = "rng_invalid"
    UNIFORM = "rng_uniform"
    NORMAL = "rng_normal"


class ReductionKind(StrEnum):
    """How the parts of an unreduced value come together."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"


class ResultAccuracyMode(StrEnum):
    """How exact a result is to be, where no tolerance is given."""

    DEFAULT = "default"
    HIGHEST = "highest"


class Transpose(StrEnum):
    """What is done to the matrix of a triangular solve first."""

    INVALID = "TRANSPOSE_INVALID"
    NO_TRANSPOSE = "NO_TRANSPOSE"
    TRANSPOSE = "TRANSPOSE"
    ADJOINT = "ADJOINT"


class DebugLogMode(StrEnum):
    """What a debugged instruction logs."""

    DEFAULT = "default"
    FUSION_DEBUGGER = "fusion_debugger"
    NO_FUSION = "no_fusion"
    GUARANTEED = "guaranteed"
