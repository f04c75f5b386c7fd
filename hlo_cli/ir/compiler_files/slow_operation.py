"""A warning of XLA that an operation of the compiler is slow."""

from __future__ import annotations

from typing import Literal

from hlo_cli.dataclass import dataclass

SlowKind = Literal["folding", "compilation", "unoptimized build", "autotuning"]
"""Constant folding, a whole compilation, a compilation by a debug build of XLA, or a trial of an algorithm."""


@dataclass(frozen=True, slots=True)
class SlowOperation:
    """One warning: the instruction as text, or its name or that of the module; empty if they are not in the warning.

    `threshold_seconds` is the time after which XLA warns, `seconds` the time that the operation took in the end, None
    if it is not in the text. `line` is that of the text.

    >>> SlowOperation("folding", "%a = f32[2] add(%b, %c)", "", 1.0, None, "", 3).kind
    'folding'
    """

    kind: SlowKind
    operation: str
    name: str
    threshold_seconds: float | None
    seconds: float | None
    algorithm: str
    line: int
