"""What a run may take, and what a probe may look for: settings that commands read without importing numpy."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from hlo_cli.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What one evaluation may take: bytes of live values, scalar operations, iterations of a loop, and seconds."""

    # 8 GiB fit into most machines next to an editor; 4e11 operations take minutes of numpy at the rates of `limits.py`;
    # a million iterations end before the clock does.
    max_bytes: int = 8 << 30
    max_operations: int = 400_000_000_000
    max_iterations: int = 1_000_000
    max_seconds: float = 600.0


DEFAULT_LIMITS: Final = Limits()

Wanted: TypeAlias = Literal["nan", "inf", "overflow", "denormal"]

PROBES: Final[dict[Wanted, str]] = {
    "nan": "NaN", "inf": "infinite", "overflow": "overflowing", "denormal": "denormal",
}  # fmt: skip
"""The kinds of elements that a probe finds, each with its adjective."""
