"""How exact results are to be, and how sparse operands are.

Mirrors `ResultAccuracy` and `SparsityConfig` of xla/xla_data.proto.
"""

from __future__ import annotations

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.words import ResultAccuracyMode


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a result may be off: absolutely, relatively, and in units of the last place."""

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0

    def __str__(self) -> str:
        return f"{{atol={self.atol:g},rtol={self.rtol:g},ulps={self.ulps}}}"


@dataclass(frozen=True, slots=True)
class ResultAccuracy:
    """How exact the result of an elementary function is to be.

    >>> str(ResultAccuracy(ResultAccuracyMode.HIGHEST)), str(ResultAccuracy(Tolerance(0.5, 1.0, 2)))
    ('{mode=highest}', '{tolerance={atol=0.5,rtol=1,ulps=2}}')
    """

    wanted: ResultAccuracyMode | Tolerance

    def __str__(self) -> str:
        name = "tolerance" if isinstance(self.wanted, Tolerance) else "mode"
        return f"{{{name}={self.wanted}}}"


@dataclass(frozen=True, slots=True)
class TensorSparsity:
    """So many of each block's elements along a dimension are not zero; `idx` is the operand that says which."""

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
    """Which operands of a convolution are sparse, and how.

    >>> str(SparsityConfig(rhs=TensorSparsity(2, 4, 1, 1, 2)))
    '{rhs={sparsity=2x4 dimension=1 stride=1 idx=2}}'
    """

    lhs: TensorSparsity | None = None
    rhs: TensorSparsity | None = None

    def __str__(self) -> str:
        sides = {"lhs": self.lhs, "rhs": self.rhs}
        return "{" + " ".join(f"{name}={side}" for name, side in sides.items() if side is not None) + "}"
