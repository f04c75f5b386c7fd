"""What an instruction costs, in the figures of XLA's cost analysis, and the rules by which it is counted.

Mirrors `HloCostAnalysis::Properties` and `HloCostAnalysis::Options` of xla/service/hlo_cost_analysis.h.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cache
from types import MappingProxyType
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.index_text import index_text

Number = int | float
"""An exact count, or a quotient; with `CostOptions.float32` a float that a C++ float can hold."""

FLOPS: Final = "flops"
TRANSCENDENTALS: Final = "transcendentals"
BYTES: Final = "bytes accessed"
OUTPUT_BYTES: Final = "bytes accessedout{}"
OPTIMAL_SECONDS: Final = "optimal_seconds"
UNKNOWN: Final = "unknown"
"""How many operations nobody knows the cost of; XLA has no such figure, and `Cost.figures` neither."""

Figures = dict[str, Number]
"""What is being counted, by XLA's names; what is not there is 0."""


@dataclass(frozen=True, slots=True)
class CostOptions:
    """How costs are counted. The defaults give whole numbers, and nothing for what nobody knows the cost of.

    - `float32`: every sum is rounded as XLA rounds it, in the order in which XLA visits instructions.
    - `minus_one`: a custom call costs -1 flops and -1 bytes, as for XLA, which sums these like all others.
    - `wraps`: a dimension of unknown size, written `?`, is the -2^63 that XLA calculates with, around the ends of an
      int64; else it counts as 1, and what has one is of unknown cost.
    - `call_markers_are_free`: custom calls that mark a call cost nothing, as since August 2026.
    - `packed_constants`: constants take the bits that their layout says; XLA forgets `E(n)` when it reads their text.
    - `known_calls`: a custom call costs what its text tells, and reads its operands and writes its result in any case.
    - `padded`: arrays are as large as they are in a TPU's memory, those without tiles as if in tiles of (8,128).
    - `table_alignment`: a tuple's table holds four bytes an element, rounded up to this; 0 is eight bytes an element.
    - `trip_counts`: the body of a loop counts as often as it runs, where the text tells; XLA counts it once.

    >>> CostOptions() == EXACT, XLA.float32, RUN.trip_counts
    (True, True, True)
    """

    float32: bool = False
    minus_one: bool = False
    wraps: bool = False
    call_markers_are_free: bool = False
    packed_constants: bool = False
    known_calls: bool = False
    padded: bool = False
    table_alignment: int = 0
    trip_counts: bool = False


EXACT: Final = CostOptions()
"""XLA's figures as exact numbers."""

XLA: Final = CostOptions(float32=True, minus_one=True, wraps=True)
"""XLA's figures to the last bit, as of jaxlib 0.10.2."""

RUN: Final = CostOptions(packed_constants=True, known_calls=True, trip_counts=True)
"""The best guess at what one run costs."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The figures of one instruction, computation or module, by the names that XLA gives them; those of 0 are left out.

    `unknown` counts the operations in it whose cost nobody knows, which the figures leave out.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> cost = cost_of(parse_module("r = f32[4] add(f32[4] a, f32[4] b)").entry.root)
    >>> cost.flops, cost.bytes_accessed, cost.output_bytes, cost.operand_bytes(1), cost.unknown
    (4, 48, 16, 16, 0)
    >>> dict(cost.figures)["utilization1{}"]
    1
    """

    figures: Mapping[str, Number] = field(default_factory=lambda: MappingProxyType({}))
    unknown: int = 0

    @property
    def flops(self) -> Number:
        """Floating-point operations, and those on integers, which XLA counts alike."""
        return self.figures.get(FLOPS, 0)

    @property
    def transcendentals(self) -> Number:
        """Elements of exponentials, sines and the like, which are no flops."""
        return self.figures.get(TRANSCENDENTALS, 0)

    @property
    def bytes_accessed(self) -> Number:
        """Bytes read and written, without padding."""
        return self.figures.get(BYTES, 0)

    @property
    def output_bytes(self) -> Number:
        """Bytes written."""
        return self.figures.get(OUTPUT_BYTES, 0)

    @property
    def optimal_seconds(self) -> Number:
        """Always 0 but for custom calls: the analysis is given no speeds."""
        return self.figures.get(OPTIMAL_SECONDS, 0)

    def operand_bytes(self, number: int) -> Number:
        """Bytes read of one operand."""
        return self.figures.get(operand_key(number), 0)

    def operand_utilization(self, number: int) -> Number:
        """Which part of one operand is used; 1 is all of it."""
        return self.figures.get(utilization_key(number), 0)

    @property
    def intensity(self) -> float | None:
        """Flops a byte; None where no byte moves.

        >>> Cost({"flops": 6, "bytes accessed": 4}).intensity, Cost().intensity
        (1.5, None)
        """
        return self.flops / self.bytes_accessed if self.bytes_accessed > 0 else None


@cache
def operand_key(number: int, index: tuple[int, ...] = ()) -> str:
    """XLA's name for the bytes read of an operand, or of an element of it.

    >>> operand_key(0), operand_key(2, (1, 0))
    ('bytes accessed0{}', 'bytes accessed2{1,0}')
    """
    return f"bytes accessed{number}{index_text(index)}"


@cache
def output_key(index: tuple[int, ...]) -> str:
    """XLA's name for the bytes written of an element of the result.

    >>> output_key((1, 0))
    'bytes accessedout{1,0}'
    """
    return f"bytes accessedout{index_text(index)}"


@cache
def utilization_key(number: int) -> str:
    """XLA's name for the part of an operand that is used.

    >>> utilization_key(0)
    'utilization0{}'
    """
    return f"utilization{number}{{}}"
