"""Bytes of a collective: what it handles, and what a device sends for it, by algorithm.

B is the data of all operands on one device, n the number of devices in a group. Factors as in NVIDIA/nccl-tests
doc/PERFORMANCE.md and xla/service/gpu/model/sol_gpu_cost_model.cc; which algorithm runs is not in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Final, Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes

Algorithm = Literal["ring", "bidirectional", "oneshot"]
"""`ring`: what a device sends if no byte travels more often than it must. `bidirectional`: what each link of a ring
carries in each direction. `oneshot`: what a device reads if each takes all it needs from the others at once."""

Factor = Callable[[int], Fraction]
"""Bytes per byte of the operands, for n devices."""


@dataclass(frozen=True, slots=True)
class _Traffic:
    """The factors of one kind of collective, and whether its result, n times the operands, is its payload."""

    ring: Factor
    bidirectional: Factor
    oneshot: Factor
    gathers: bool = False


def _halved(factor: Factor) -> Factor:
    return lambda n: factor(n) / 2


def _others(n: int) -> Fraction:
    return Fraction(n - 1)


def _share_of_others(n: int) -> Fraction:
    return Fraction(n - 1, n)


def _twice_the_share(n: int) -> Fraction:
    return 2 * _share_of_others(n)


def _both_ways(n: int) -> Fraction:
    """The load of a link if blocks travel the shorter way around: the sum of distances over the 2n directed links."""
    return Fraction(n, 8) if n % 2 == 0 else Fraction(n * n - 1, 8 * n)


def _once(n: int) -> Fraction:
    return Fraction(int(n > 1))


_EXCHANGE: Final = _Traffic(_share_of_others, _both_ways, _share_of_others)
_TRAFFIC: Final[Mapping[str, _Traffic]] = {
    opcodes.ALL_REDUCE: _Traffic(_twice_the_share, _share_of_others, _others),
    opcodes.ALL_GATHER: _Traffic(_others, _halved(_others), _others, gathers=True),
    opcodes.REDUCE_SCATTER: _Traffic(_share_of_others, _halved(_share_of_others), _share_of_others),
    opcodes.ALL_TO_ALL: _EXCHANGE,
    opcodes.RAGGED_ALL_TO_ALL: _EXCHANGE,
    opcodes.COLLECTIVE_PERMUTE: _Traffic(_once, _once, _once),
}
_FROM_ONE: Final = _Traffic(_once, _halved(_once), _others)
"""Of a collective in which one device sends to all others: it sends its data once, and in one shot to each."""


def wire_factor(kind: str, devices: int, algorithm: Algorithm = "ring") -> Fraction:
    """The bytes that a device sends for each byte of its operands.

    >>> wire_factor("all-reduce", 4), wire_factor("all-to-all", 4, "bidirectional"), wire_factor("all-gather", 1)
    (Fraction(3, 2), Fraction(1, 2), Fraction(0, 1))
    """
    if devices < 2:
        return Fraction(0)
    traffic = _TRAFFIC.get(kind, _FROM_ONE)
    factors = {"ring": traffic.ring, "bidirectional": traffic.bidirectional, "oneshot": traffic.oneshot}
    return factors[algorithm](devices)


def payload_bytes(kind: str, operand_bytes: int, devices: int) -> int:
    """The bytes that a collective is said to handle: its operands; of an all-gather, its result.

    >>> payload_bytes("all-gather", 64, 4), payload_bytes("all-reduce", 64, 4)
    (256, 64)
    """
    return operand_bytes * (devices if _TRAFFIC.get(kind, _FROM_ONE).gathers else 1)


def wire_bytes(kind: str, operand_bytes: int, devices: int, algorithm: Algorithm = "ring") -> Fraction:
    """The bytes that a device sends in one run of a collective, exactly.

    >>> wire_bytes("all-reduce", 1_572_864, 4), wire_bytes("all-gather", 262_144, 8)
    (Fraction(2359296, 1), Fraction(1835008, 1))
    """
    return operand_bytes * wire_factor(kind, devices, algorithm)
