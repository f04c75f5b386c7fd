"""Cost of an instruction, with the properties of XLA's cost analysis, and the options that control counting.

Mirrors `HloCostAnalysis::Properties` and `HloCostAnalysis::Options` of xla/service/hlo_cost_analysis.h.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cache
from types import MappingProxyType
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.notation import index_text

Number = int | float
"""Exact count or quotient; with `CostOptions.float32`, a value that a C++ float can hold."""

FLOPS: Final = "flops"
TRANSCENDENTALS: Final = "transcendentals"
BYTES: Final = "bytes accessed"
OUTPUT_BYTES: Final = "bytes accessedout{}"
OPTIMAL_SECONDS: Final = "optimal_seconds"
UNKNOWN: Final = "unknown"
"""Number of operations of unknown cost; not a property of XLA, and not part of `Cost.properties`."""

Properties = dict[str, Number]
"""Values by XLA's property names; missing ones are 0."""


@dataclass(frozen=True, slots=True)
class CostOptions:
    """Options of the cost analysis; by default values are exact, and operations of unknown cost count as 0.

    - `float32`: every sum is rounded to float, in the order in which XLA visits instructions.
    - `minus_one`: a custom call costs -1 flops and -1 bytes, which XLA sums like other values.
    - `wraps`: an unbounded dimension, printed `?`, is -2^63, with int64 overflow as in XLA; else it counts as 1 and
      makes the cost unknown.
    - `call_markers_are_free`: custom calls that mark a call cost nothing, as since August 2026.
    - `packed_constants`: constants have the bits of their layout; XLA drops `E(n)` when it parses them.
    - `known_calls`: a custom call costs what its configuration states, and always reads its operands and writes its
      result.
    - `padded`: arrays have their padded TPU sizes; untiled ones count as tiled by (8,128).
    - `table_alignment`: a tuple's table has 4 bytes per element, rounded up to this; 0 for 8 bytes per element.
    - `trip_counts`: a loop body counts as often as it runs, if known; XLA counts it once.

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
"""XLA's properties as exact numbers."""

XLA: Final = CostOptions(float32=True, minus_one=True, wraps=True)
"""XLA's properties to the last bit, as of jaxlib 0.10.2."""

RUN: Final = CostOptions(packed_constants=True, known_calls=True, trip_counts=True)
"""Best estimate of the cost of one execution."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of an instruction, computation, or module: nonzero properties by XLA's names.

    `unknown` is the number of operations of unknown cost, which the properties omit.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> cost = cost_of(parse_module("r = f32[4] add(f32[4] a, f32[4] b)").entry.root)
    >>> cost.flops, cost.bytes_accessed, cost.output_bytes, cost.operand_bytes(1), cost.unknown
    (4, 48, 16, 16, 0)
    >>> dict(cost.properties)["utilization1{}"]
    1
    """

    properties: Mapping[str, Number] = field(default_factory=lambda: MappingProxyType({}))
    unknown: int = 0

    @property
    def flops(self) -> Number:
        """Number of floating-point and integer operations, which XLA counts alike."""
        return self.properties.get(FLOPS, 0)

    @property
    def transcendentals(self) -> Number:
        """Number of elements of exponentials, sines, and similar functions, which are not flops."""
        return self.properties.get(TRANSCENDENTALS, 0)

    @property
    def bytes_accessed(self) -> Number:
        """Bytes read and written, without padding."""
        return self.properties.get(BYTES, 0)

    @property
    def output_bytes(self) -> Number:
        """Bytes written."""
        return self.properties.get(OUTPUT_BYTES, 0)

    @property
    def optimal_seconds(self) -> Number:
        """Estimated seconds: 0 except for custom calls, as the analysis knows no rates."""
        return self.properties.get(OPTIMAL_SECONDS, 0)

    def operand_bytes(self, number: int) -> Number:
        """Bytes read from one operand."""
        return self.properties.get(operand_key(number), 0)

    def operand_utilization(self, number: int) -> Number:
        """Fraction of one operand that is used; 1 for all of it."""
        return self.properties.get(utilization_key(number), 0)

    @property
    def intensity(self) -> float | None:
        """Flops per byte accessed; None if no bytes are accessed.

        >>> Cost({"flops": 6, "bytes accessed": 4}).intensity, Cost().intensity
        (1.5, None)
        """
        return self.flops / self.bytes_accessed if self.bytes_accessed > 0 else None


@cache
def operand_key(number: int, index: tuple[int, ...] = ()) -> str:
    """XLA's property name for the bytes read from an operand, or from one of its tuple elements.

    >>> operand_key(0), operand_key(2, (1, 0))
    ('bytes accessed0{}', 'bytes accessed2{1,0}')
    """
    return f"bytes accessed{number}{index_text(index)}"


@cache
def output_key(index: tuple[int, ...]) -> str:
    """XLA's property name for the bytes written to a tuple element of the result.

    >>> output_key((1, 0))
    'bytes accessedout{1,0}'
    """
    return f"bytes accessedout{index_text(index)}"


@cache
def utilization_key(number: int) -> str:
    """XLA's property name for the used fraction of an operand.

    >>> utilization_key(0)
    'utilization0{}'
    """
    return f"utilization{number}{{}}"
