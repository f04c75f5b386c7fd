"""The accuracy of results, and the sparsity and the scales of operands.

Mirrors `ResultAccuracy`, `SparsityConfig`, and `BlockScalingConfig` of xla/xla_data.proto.
"""

from __future__ import annotations

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.words import ResultAccuracyMode


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The allowed error of a result: absolute, relative, and in units of the last place."""

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0

    def __str__(self) -> str:
        return f"{{atol={self.atol:g},rtol={self.rtol:g},ulps={self.ulps}}}"


@dataclass(frozen=True, slots=True)
class ResultAccuracy:
    """The required accuracy of an elementary function.

    >>> str(ResultAccuracy(ResultAccuracyMode.HIGHEST)), str(ResultAccuracy(Tolerance(0.5, 1.0, 2)))
    ('{mode=highest}', '{tolerance={atol=0.5,rtol=1,ulps=2}}')
    """

    required: ResultAccuracyMode | Tolerance

    def __str__(self) -> str:
        name = "tolerance" if isinstance(self.required, Tolerance) else "mode"
        return f"{{{name}={self.required}}}"


@dataclass(frozen=True, slots=True)
class TensorSparsity:
    """The number of nonzero elements in each block along a dimension; `idx` is the operand with their positions."""

    num_non_zero: int = 0
    block_size: int = 0
    dimension: int = 0
    stride: int = 0
    idx: int = 0

    def __str__(self) -> str:
        block = f"sparsity={self.num_non_zero}x{self.block_size}"
        return f"{{{block} dimension={self.dimension} stride={self.stride} idx={self.idx}}}"


@dataclass(frozen=True, slots=True)
class SparsityConfig:
    """The sparse operands of a dot or a convolution.

    >>> str(SparsityConfig(rhs=TensorSparsity(2, 4, 1, 1, 2)))
    '{rhs={sparsity=2x4 dimension=1 stride=1 idx=2}}'
    """

    lhs: TensorSparsity | None = None
    rhs: TensorSparsity | None = None

    def __str__(self) -> str:
        return _sides(self.lhs, self.rhs)


@dataclass(frozen=True, slots=True)
class TensorBlockScaling:
    """The scales of an operand: `scale_idx` is the operand with the scales, `zero_idx` the one with the zero points.

    `strides` and `steps` have one number for each dimension of the operand that is scaled.
    """

    scale_idx: int = 0
    zero_idx: int | None = None
    strides: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()

    def __str__(self) -> str:
        parts = [f"scale_idx={self.scale_idx}"]
        parts += [f"zero_idx={self.zero_idx}"] if self.zero_idx is not None else []
        sizes = {"strides": self.strides, "steps": self.steps}
        parts += [f"{name}={'x'.join(map(str, each))}" for name, each in sizes.items() if each]
        return "{" + " ".join(parts) + "}"


@dataclass(frozen=True, slots=True)
class BlockScalingConfig:
    """The operands of a dot or a convolution that are scaled in blocks.

    >>> str(BlockScalingConfig(TensorBlockScaling(2, 3, (1, 32), (1, 1))))
    '{lhs={scale_idx=2 zero_idx=3 strides=1x32 steps=1x1}}'
    """

    lhs: TensorBlockScaling | None = None
    rhs: TensorBlockScaling | None = None

    def __str__(self) -> str:
        return _sides(self.lhs, self.rhs)


def _sides(lhs: object | None, rhs: object | None) -> str:
    sides = {"lhs": lhs, "rhs": rhs}
    return "{" + " ".join(f"{name}={side}" for name, side in sides.items() if side is not None) + "}"
